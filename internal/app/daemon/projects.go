package daemon

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// projectChange is what a configuration file changes in one project.
type projectChange struct {
	name string
	what string // "added", "removed" or "changed"
	to   config.Project
	from *config.Snapshot // before the change; nil if the project is new
}

// applyFile brings a configuration file into use: first default, and then its other projects, which come
// before those of the store. A project that can't be used stays as it is, or away, and the others notice
// nothing of it. It returns what it has changed in projects other than default. After it, Use must be called.
func (h *homes) applyFile(s *config.Snapshot) (done []projectChange) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	h.runtime.Apply(event.DefaultProject, s)
	before, served := h.served, map[string]config.Project{}
	var problems []admin.ProjectProblem
	for _, p := range s.Projects {
		was, running := before[p.Name]
		switch {
		case p.Unusable != nil:
			effect := " It is not served."
			if running {
				served[p.Name], effect = was, " It stays as it was."
			}
			problems = append(problems, admin.ProjectProblem{Project: p.Name, Problem: sentence(p.Unusable) + effect})
			continue
		case !running:
			done = append(done, projectChange{p.Name, "added", p, nil})
		case !p.Equal(was):
			done = append(done, projectChange{p.Name, "changed", p, was.Config})
		}
		served[p.Name] = p
	}
	for name, was := range before {
		if _, stays := served[name]; !stays {
			done = append(done, projectChange{name, "removed", config.Project{}, was.Config})
		}
	}
	for _, c := range done {
		if c.what == "removed" {
			h.runtime.Remove(c.name)
		} else {
			h.runtime.Apply(c.name, c.to.Config)
		}
	}
	h.served = served
	h.problems.Store(&projectProblems{problems, h.problems.Load().store})
	return done
}

// warm starts the servers of all projects.
func (d *daemon) warm() {
	for _, p := range d.runtime.Projects() {
		p.Warm()
	}
}

// logProjects logs what has changed in projects. problems are those of the configuration.
func logProjects(log *slog.Logger, changes []projectChange, problems config.Problems) {
	for _, c := range changes {
		switch c.what {
		case "added":
			log.Info("project added", "code", "project_added", "project", c.name, "servers", len(c.to.Config.Servers))
		case "removed":
			log.Info("project removed", "code", "project_removed", "project", c.name)
		default:
			logChanges(log.With("project", c.name), c.to.Config.Since(c.from), problems.In(c.name))
		}
	}
}

// projectsText says in sentences what has changed in projects, and which aren't as the file has them.
func projectsText(changes []projectChange, problems []admin.ProjectProblem) (text string) {
	list := func(what string, names []string) {
		if slices.Sort(names); len(names) > 0 {
			text += " " + what + ": " + strings.Join(names, ", ") + "."
		}
	}
	for _, what := range []string{"added", "removed", "changed"} {
		var names []string
		for _, c := range changes {
			if c.what == what {
				names = append(names, c.name)
			}
		}
		list("Projects "+what, names)
	}
	var bad []string
	for _, p := range problems {
		bad = append(bad, p.Project)
	}
	list("Projects with errors, which are not as the file has them", bad)
	return text
}
