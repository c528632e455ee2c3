package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// textHome is a project of the store, to whose text drafts add servers. A draft of it knows nothing of the machine: no
// variables of the environment, which are secrets of the project there, and no files of clients.
type textHome struct {
	house
	projects *projectAPI
}

// InStore reports whether servers can be added to the text of a project, since it lives in the store.
func (a *API) InStore() bool {
	h := a.draftAPI.home
	if h == nil || h.projects.closed() != nil {
		return false
	}
	_, ok := h.safe.Store().Snapshot().Project(h.project.name())
	return ok
}

// target returns the text as the file that an export of the project is.
func (h *textHome) target() *target {
	name := h.project.name()
	old := *config.Default()
	old.Projects = []config.Project{{Name: name, Config: h.project.Current()}}
	t := &target{path: name + ".yaml", project: name, old: &old, home: h, envVars: map[string]string{}, sealed: h.safe.Store().Snapshot().Sealed(name)}
	x, ok := h.safe.Store().Snapshot().Project(name)
	if !ok {
		t.why = "The project doesn't live in the store any more."
		return t
	}
	file, problems := config.ProjectFile(name, []byte(x.Text))
	if err := problems.Err(); err != nil {
		t.why = "The project's text can't be read: " + excerpt.Line(err.Error(), maxDraftText) + "."
		return t
	}
	t.before, t.version = file, tagOf(x.Version)
	return t
}

// added returns a server of a draft as the target has it.
func (t *target) added(x *draftServer) clientfile.Added {
	a := clientfile.Added{Name: x.name, Comment: x.from, Entry: x.server.Entry, Settings: x.server.Settings}
	if t.home != nil {
		a.Entry, a.Settings = intake.AsSecrets(a.Entry), intake.AsSecrets(a.Settings)
	}
	return a
}

// with returns the file and the project's text with more servers.
func (h *textHome) with(t *target, add []clientfile.Added) (file []byte, text string, err error) {
	if t.why != "" {
		return nil, "", errors.New(strings.TrimSuffix(t.why, "."))
	}
	file, err = clientfile.AddServersTo(t.path, t.before, h.project.name(), add)
	if err != nil {
		return nil, "", err
	}
	all, problems := config.ProjectTexts(t.path, file)
	if err := problems.Err(); err != nil || len(all) != 1 {
		return nil, "", cmp.Or(err, errors.New("the text would not be that of one project"))
	}
	return file, string(all[0].Text), nil
}

// resolve returns the settings that a server of a draft will have in the project, or why it can't be used. values are
// those of secrets that the project doesn't have yet.
func (h *textHome) resolve(t *target, x *draftServer, values map[string]string) (config.Server, *failure.Failure) {
	_, text, err := h.with(t, []clientfile.Added{t.added(x)})
	if err != nil {
		return config.Server{}, x.invalid(err.Error())
	}
	p, problems := h.projects.homes.Parse(h.project.name(), text, func(project, name string) (config.Secret, bool, error) {
		if v, ok := values[name]; ok && project == h.project.name() {
			return config.NewSecret(v), true, nil
		}
		return h.safe.Secret(context.Background(), project, name)
	})
	if p.Config == nil {
		_, wrong := sentences(problems, 0)
		return config.Server{}, x.invalid(strings.TrimSuffix(firstOf(wrong), "."))
	}
	c, ok := p.Config.Server(x.name)
	switch {
	case !ok:
		return c, x.invalid("the settings of the server cannot be read")
	case c.Unusable != nil:
		return c, runtime.UnusableFailure(*c.Unusable)
	}
	c.Disabled = false
	return c, nil
}

// planText adds to a plan how the text changes.
func (h *textHome) planText(p *plan, t *target, add []clientfile.Added, key func(...*clientfile.Change) string) {
	file, text, err := h.with(t, add)
	if err != nil {
		p.Why = "The servers can't be added to the project's text: " + excerpt.Line(excerpt.MaskSecrets(err.Error()), maxDraftText) + ". Edit the text by hand."
		return
	}
	if _, bad := h.projects.check(newText{name: h.project.name(), text: text}); bad != nil {
		p.Why = bad.Detail
		return
	}
	p.Writable, p.text, p.version, p.YAML = true, text, t.version, string(file)
	p.Note = "This is the project's text as `dragoman projects export` prints it."
	if len(p.secrets) > 0 {
		p.Note += " The values become secrets of the project."
	}
	p.Diff = clientfile.Diff(t.path, t.before, file, excerpt.MaskSecrets)
	p.Hash = key(&clientfile.Change{Path: t.path, Before: t.before, After: file})
}

// keep replaces the text, and sets the secrets that its new servers need.
func (h *textHome) keep(r *http.Request, p *plan) (Kept, *Problem) {
	name := h.project.name()
	kept, _, bad := h.projects.put(r, name, versions{match: []string{p.version}}, func() (string, *Problem) { return p.text, nil })
	if bad != nil {
		return Kept{}, bad
	}
	out := Kept{File: "the project " + name, Servers: p.servers, Lines: []string{}, Problem: kept.Problem}
	by, bad := h.changer(r)
	for secret, value := range p.secrets {
		if bad == nil {
			if err := h.safe.SetSecret(r.Context(), by, name, secret, []byte(value)); err != nil {
				bad = h.problem(err)
			}
		}
	}
	if bad != nil { // the servers are there, and wait for it
		out.Problem = "The servers are saved, but not the values of their secrets: " + bad.Detail
	} else if len(p.secrets) > 0 {
		h.projects.homes.Use(r.Context())
	}
	out.Applied = out.Problem == ""
	return out, nil
}
