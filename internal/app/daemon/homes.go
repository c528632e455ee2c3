package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// homes brings the projects of the configuration file and of the store into use, and implements admin.Homes.
// A project of the file comes before one of the store with the same name (docs/adr/0037).
type homes struct {
	runtime  *runtime.Runtime
	safe     *store.Safe
	desk     *access.Desk
	log      *slog.Logger
	ready    atomic.Bool                     // servers may be started
	problems atomic.Pointer[projectProblems] // replaced by who has the lock turn

	turn   chan struct{}             // a lock: contains one value while the projects are brought into use
	served map[string]config.Project // those of the file, as it had them when they were applied; has the lock turn
	known  map[string]stored         // those of the store that we have seen, by name; has the lock turn
}

// projectProblems are those that can't be used as the file has them, in its order, or as the store has them.
type projectProblems struct{ file, store []admin.ProjectProblem }

// stored is a project of the store as it was when we looked last.
type stored struct {
	version int64
	sealed  map[string][]byte
	base    *config.Snapshot // the configuration of default
	served  bool             // the project is in use, be it without anything of its text
	text    *config.Snapshot // what is in use of this text or of one before; nil if nothing is
	problem string           // why this text isn't in use, as sentences
}

func newHomes(r *runtime.Runtime, s *store.Safe, d *access.Desk, log *slog.Logger) *homes {
	h := &homes{runtime: r, safe: s, desk: d, log: log, turn: make(chan struct{}, 1), known: map[string]stored{}}
	h.problems.Store(&projectProblems{})
	return h
}

// InFile implements admin.Homes.
func (h *homes) InFile() []string { return projectsOf(h.runtime.Default().Current()) }

// Parse implements admin.Homes.
func (h *homes) Parse(project, text string, secrets config.Secrets) (config.Project, config.Problems) {
	if secrets == nil {
		secrets = secretsOf(context.Background(), h.safe)
	}
	return config.ParseProject(project, []byte(text), h.runtime.Default().Current(), secrets)
}

// Problems implements admin.Homes.
func (h *homes) Problems() (file, store []admin.ProjectProblem) {
	b := h.problems.Load()
	return b.file, b.store
}

// Use implements admin.Homes.
func (h *homes) Use(ctx context.Context) {
	if h.safe == nil {
		return
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return
	}
	ctx = context.WithoutCancel(ctx) // we are not in the middle of it because a client has gone
	now, base := h.safe.Store().Snapshot(), h.runtime.Default().Current()
	inFile := projectsOf(base)
	var problems []admin.ProjectProblem
	for _, x := range now.Projects() {
		before := h.known[x.Name]
		next := stored{x.Version, now.Sealed(x.Name), base, before.served, before.text, before.problem}
		switch {
		case slices.Contains(inFile, x.Name):
			next = stored{problem: "The configuration file declares a project with this name, and the file comes first. Remove it from one of the two."}
		case before.version != x.Version || before.base != base || !maps.EqualFunc(before.sealed, next.sealed, bytes.Equal):
			switch next.problem = h.use(ctx, &x, &next.text); {
			case next.problem == "":
				next.served = true
			case next.text != nil:
				next.problem += " What was in use before stays."
			default:
				next.served = next.served || h.serveEmpty(x.Name)
				next.problem += " It has no servers meanwhile."
			}
		}
		if next.problem != "" {
			if next.problem != before.problem {
				h.log.Warn("a project of the store cannot be used", loglimit.Peer("project", x.Name), "cause", next.problem)
			}
			problems = append(problems, admin.ProjectProblem{Project: x.Name, Problem: next.problem})
		}
		h.known[x.Name] = next
	}
	for name, x := range h.known {
		if _, there := now.Project(name); there {
			continue
		}
		delete(h.known, name)
		if x.served && !slices.Contains(inFile, name) && h.runtime.Remove(name) {
			h.log.Info("project removed", loglimit.Peer("project", name))
		}
	}
	h.problems.Store(&projectProblems{h.problems.Load().file, problems})
}

// use brings a project of the store into use, of which now has what is in use. If that's not possible, it
// stays, and use returns why, as sentences.
func (h *homes) use(ctx context.Context, x *store.Project, now **config.Snapshot) string {
	switch signed, err := h.desk.HasSigned(ctx, x); {
	case err != nil:
		return "Its text cannot be checked: " + reason(err)
	case !signed:
		return "Its text in the database is not one that dragoman has written."
	}
	parsed, problems := h.Parse(x.Name, x.Text, nil)
	s := parsed.Config
	if s == nil {
		return "Its text cannot be used: " + parsed.Unusable.InText() + "."
	}
	if s.ReadsSecrets() {
		// Its servers couldn't be started without the vault's key, so they stay as they are.
		if err := h.safe.Check(ctx); err != nil {
			return "Its secrets cannot be read: " + reason(err)
		}
	}
	if *now != nil && s.Equal(*now) {
		return ""
	}
	added := *now == nil
	*now = s
	log := h.log.With(loglimit.Peer("project", x.Name))
	p := h.runtime.Apply(x.Name, s)
	for i := range problems {
		problems[i].Project = "" // each record of log has it
	}
	warnProblems(log, problems)
	if added {
		log.Info("project added", "servers", len(s.Servers), "version", x.Version)
	} else {
		log.Info("project changed", "servers", len(s.Servers), "version", x.Version)
	}
	if h.ready.Load() {
		p.Warm()
	}
	return ""
}

// reason returns what is wrong with the vault and how to mend it, as the end of a sentence and further ones.
func reason(err error) string {
	text := err.Error() + "."
	var v *vault.Error
	if errors.As(err, &v) {
		text += " To mend it, " + v.Next + "."
	}
	return text
}

// serveEmpty brings a project into use without its servers, so that people can see what is wrong and set the
// secrets that it needs.
func (h *homes) serveEmpty(name string) bool {
	p, _ := h.Parse(name, "", nil)
	if p.Config == nil {
		return false
	}
	h.runtime.Apply(name, p.Config)
	return true
}

// follow keeps the projects of the store in use until ctx ends.
func (h *homes) follow(ctx context.Context) {
	for {
		now := h.safe.Store().Snapshot()
		h.Use(ctx)
		if !wait(ctx, now.Replaced(), time.Time{}) {
			return
		}
	}
}

// projectsOf returns the names of the projects that a configuration file declares, without default.
func projectsOf(s *config.Snapshot) (names []string) {
	for _, p := range s.Projects {
		names = append(names, p.Name)
	}
	return names
}
