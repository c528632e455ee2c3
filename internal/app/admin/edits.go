package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// The changes of a ServerEdit.
const (
	EditDisable = "disable"
	EditEnable  = "enable"
	EditRemove  = "remove"
	EditTools   = "tools" // show or hide tools with expose
	EditEntry   = "entry" // another text for the entry and the settings
)

// ServerEdit is a change of one server in the configuration file.
type ServerEdit struct {
	Do       string          `json:"do" enum:"disable,enable,remove,tools,entry" doc:"the change; tools: show or hide tools with expose; entry: other texts for the entry and the settings"`
	Tools    map[string]bool `json:"tools,omitempty" doc:"for tools: whether clients see a tool, by the server's own name; tools that are left out stay as they are"`
	Entry    string          `json:"entry,omitempty" doc:"for entry: the server's entry below mcpServers, as the file has it; a line with a masked secret keeps it"`
	Settings string          `json:"settings,omitempty" doc:"for entry: the entry below dragoman.servers, in the same way"`
	Hash     string          `json:"hash,omitempty" doc:"to keep the change: the preview's hash"`
}

// ServerText is what the configuration file says about a server.
type ServerText struct {
	File     string // the configuration file
	Disabled bool
	// Entry is the server's entry below mcpServers, and Settings is the one below dragoman.servers, both
	// as they are written in the file, with secrets masked. Settings is "" if there are none.
	Entry, Settings string
	Why             string // why the texts are missing, or why the file can't be written; "" if it can
}

var editRoutes = []route{
	{
		method: http.MethodPost, path: "/servers/{name}/edits", least: identity.Admin, process: true, name: "previewEdit",
		summary: "What a change of a server would change in the configuration file; it writes nothing",
		body:    ServerEdit{}, answer: Preview{}, problems: []int{400, 404, 413, 415},
		read: withBody(maxDraftBody, func(a *API, r *http.Request, q ServerEdit) (Preview, *Problem) {
			return a.PreviewEdit(r.PathValue("name"), q)
		}),
	},
	{
		method: http.MethodPost, path: "/servers/{name}/edits/keep", least: identity.Admin, process: true, name: "keepEdit",
		summary: "Write such a change as it was previewed, with a backup, and apply it",
		body:    ServerEdit{}, answer: Kept{}, problems: []int{400, 404, 409, 413, 415},
		read: withBody(maxDraftBody, func(a *API, r *http.Request, q ServerEdit) (Kept, *Problem) {
			return a.KeepEdit(r.Context(), r.PathValue("name"), q)
		}),
	},
}

// ownServer reads the configuration file, and returns it with a server that must be in it.
func (a *draftAPI) ownServer(server string) (*target, *config.Server, *Problem) {
	t := a.target()
	c, ok := t.old.Server(server)
	if ok && t.before != nil {
		return t, &c, nil
	}
	why := "The configuration file has no server " + excerpt.Quote(server, maxName) + "."
	if t.before == nil {
		why = cmp.Or(t.why, "This Dragoman has no configuration file.")
	}
	return nil, nil, &Problem{Type: "not-in-file", Title: "The server is not in the configuration file", Status: http.StatusNotFound, Detail: why}
}

// ServerText returns what the configuration file says about a server.
func (a *draftAPI) ServerText(server string) (ServerText, *Problem) {
	t, c, bad := a.ownServer(server)
	if bad != nil {
		return ServerText{}, bad
	}
	out := ServerText{File: t.path, Disabled: c.Disabled, Why: t.why}
	if t.byHand == nil {
		return out, nil
	}
	own := clientfile.Own{Server: server}
	var err error
	for _, x := range []struct {
		path []string
		to   *string
	}{{own.Entry(), &out.Entry}, {own.Settings(), &out.Settings}} {
		text, e := clientfile.EntryText(t.path, t.before, x.path)
		if e == nil && maskLines(t.old, text) != mask(t.old)(text) {
			e = errors.New("the entry has a secret of several lines")
		}
		if *x.to = maskLines(t.old, text); e != nil {
			err = e
		}
	}
	if err != nil {
		out.Entry, out.Settings, out.Why = "", "", "The entry cannot be edited here: "+excerpt.Line(excerpt.MaskSecrets(err.Error()), maxDraftText)+". Edit the file by hand."
	}
	return out, nil
}

// maskLines masks the secrets in each line of a text, so that it still has the same lines.
func maskLines(s *config.Snapshot, text string) string {
	show := mask(s)
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = show(lines[i])
	}
	return strings.Join(lines, "\n")
}

// unmask returns a text that the user made of maskLines(s, original), with the secrets of the lines that
// the user left as they were.
func unmask(s *config.Snapshot, original, text string) (string, error) {
	show := mask(s)
	hidden := map[string][]string{} // the lines with secrets, by what the user sees of them
	for line := range strings.Lines(original) {
		line = strings.TrimSpace(line)
		if seen := show(line); seen != line || strings.Contains(line, excerpt.Mask) {
			hidden[seen] = append(hidden[seen], line)
		}
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		seen := strings.TrimSpace(line)
		if !strings.Contains(seen, excerpt.Mask) {
			continue
		}
		was := hidden[seen]
		if len(was) == 0 {
			return "", fmt.Errorf("line %d has %s in place of a secret; leave such a line as it was, or write the whole value", i+1, excerpt.Mask)
		}
		lines[i] = strings.Replace(line, seen, was[0], 1)
		hidden[seen] = was[1:]
	}
	return strings.Join(lines, "\n"), nil
}

// edited returns the content of the configuration file after a change.
func (a *draftAPI) edited(t *target, server string, e ServerEdit) ([]byte, error) {
	f := t.file(a.env)
	switch e.Do {
	case EditDisable, EditEnable:
		return f.Disable(server, e.Do == EditDisable)
	case EditRemove:
		return f.Remove(server)
	case EditTools:
		return f.Expose(server, e.Tools)
	}
	texts := [2]string{e.Entry, e.Settings}
	own := clientfile.Own{Server: server}
	for i, path := range [][]string{own.Entry(), own.Settings()} {
		original, err := clientfile.EntryText(t.path, t.before, path)
		if err == nil {
			texts[i], err = unmask(t.old, original, texts[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return f.Rewrite(server, texts[0], texts[1])
}

// planEdit returns the change that a ServerEdit makes.
func (a *draftAPI) planEdit(server string, e ServerEdit) (plan, *Problem) {
	if !slices.Contains([]string{EditDisable, EditEnable, EditRemove, EditTools, EditEntry}, e.Do) {
		return plan{}, badBody("There is no such change of a server.")
	}
	t, _, bad := a.ownServer(server)
	if bad != nil {
		return plan{}, bad
	}
	p := plan{Preview: Preview{File: t.path, Exists: true, Why: t.why, Untested: []string{}}, servers: []string{server}}
	if t.byHand == nil {
		return p, nil
	}
	after, err := a.edited(t, server, e)
	if err != nil {
		p.Why = "This change cannot be made: " + excerpt.Line(excerpt.MaskSecrets(err.Error()), maxDraftText) + "."
		if e.Do != EditEntry {
			p.Why += " Change the file by hand."
		}
		return p, nil
	}
	if bytes.Equal(t.before, after) {
		p.Note = "The file says so already."
		return p, nil
	}
	p.Diff = clientfile.Diff(t.path, t.before, after, mask(t.old))
	if t.why != "" {
		if all, ok := clientfile.Insertions(t.path, t.before, after); ok {
			for _, x := range all {
				p.Places = append(p.Places, Place{t.path, x.After, x.Last, x.Under, x.Text})
			}
		}
		return p, nil
	}
	p.Writable, p.config = true, &clientfile.Change{Path: t.path, Before: t.before, After: after, Backup: true}
	p.Hash = a.hashOf(p.config)
	return p, nil
}

// PreviewEdit returns how a change of a server would change the configuration file.
func (a *draftAPI) PreviewEdit(server string, e ServerEdit) (Preview, *Problem) {
	p, bad := a.planEdit(server, e)
	return p.Preview, bad
}

// KeepEdit writes the change that a preview showed, and makes Dragoman use the changed configuration. If
// the change would now differ from the preview, it writes nothing.
func (a *draftAPI) KeepEdit(ctx context.Context, server string, e ServerEdit) (Kept, *Problem) {
	unlock, bad := a.lockFile(ctx)
	if bad != nil {
		return Kept{}, bad
	}
	defer unlock()
	p, bad := a.planEdit(server, e)
	switch {
	case bad != nil:
		return Kept{}, bad
	case p.Diff != "" && !p.Writable, p.Diff == "" && p.Why != "":
		return Kept{}, conflict("not-writable", "The configuration cannot be written", p.Why)
	case e.Hash != p.Hash || p.config == nil:
		return Kept{}, changedSince()
	}
	out := Kept{File: p.File, Servers: p.servers, Lines: []string{}}
	var err error
	if out.Backup, err = p.config.Write(time.Now()); err != nil {
		return Kept{}, unwritten(p.File, err)
	}
	out.Problem = a.use(ctx)
	out.Applied = out.Problem == ""
	return out, nil
}
