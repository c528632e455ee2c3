package daemon

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// fileProjects are the projects of the configuration file. Those that the store keeps come and go beside
// them.
type fileProjects struct {
	mu     sync.Mutex
	served map[string]config.Project // as the file had them when they were applied
	broken []admin.ProjectTrouble    // those that the file has now and that can't be used, in file order
}

// broken returns the projects of the file, and then those of the store, that can't be used as they are there.
func (d *daemon) broken() []admin.ProjectTrouble {
	return slices.Concat(d.projects.unusable(), d.homes.Broken())
}

// unusable returns what the file has and we can't use.
func (f *fileProjects) unusable() []admin.ProjectTrouble {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broken
}

// projectChange is what a configuration file changes in one project.
type projectChange struct {
	name string
	what string // "added", "removed" or "changed"
	to   config.Project
	from *config.Snapshot // before the change; nil if the project is new
}

// applyProjects makes the projects of the file those of s, whose default project was applied before. They
// come before those of the store. A project that can't be used stays as it is, or away, and the others notice
// nothing of it. It returns what it has changed.
func (d *daemon) applyProjects(s *config.Snapshot) (done []projectChange) {
	f := &d.projects
	f.mu.Lock()
	before := f.served
	f.mu.Unlock()
	served := map[string]config.Project{}
	var broken []admin.ProjectTrouble
	for _, p := range s.Projects {
		was, running := before[p.Name]
		switch {
		case p.Unusable != nil:
			effect := " It is not served."
			if running {
				served[p.Name], effect = was, " It stays as it was."
			}
			broken = append(broken, admin.ProjectTrouble{Project: p.Name, Problem: sentence(p.Unusable) + effect})
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
			d.runtime.Remove(c.name)
		} else {
			d.runtime.Apply(c.name, c.to.Config)
		}
	}
	f.mu.Lock()
	f.served, f.broken = served, broken
	f.mu.Unlock()
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
func projectsText(changes []projectChange, broken []admin.ProjectTrouble) (text string) {
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
	for _, p := range broken {
		bad = append(bad, p.Project)
	}
	list("Projects with errors, which are not as the file has them", bad)
	return text
}
