package store

import (
	"cmp"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const projectKind = "project"

// Project is a project that has its home in the store.
type Project struct {
	Name string
	Text string // what a configuration file would have under dragoman.projects.NAME
	Sum  []byte // what shows that we have written the text
	// Version differs from that of every earlier text, also of a removed project with the same name.
	Version int64

	Changed time.Time // set by the store, like Version
	Actor   string    // who changed it; set by the store
}

// Project returns the project with a name, and whether there is one.
func (s *Snapshot) Project(name string) (Project, bool) {
	x, ok := s.projects[name]
	return x, ok
}

// Projects returns all projects, sorted by name.
func (s *Snapshot) Projects() []Project {
	return slices.SortedFunc(maps.Values(s.projects), func(a, b Project) int { return cmp.Compare(a.Name, b.Name) })
}

// Gone counts what has ended with a project.
type Gone struct {
	Keys, Secrets int
	People        int // who had a role there
}

// Settings are those of a project that a change is about, by their paths and without secrets, before and after.
type Settings struct{ Was, Became map[string]string }

// about returns what the act of a change says that gives a project a version, which is 0 for none.
func (x Settings) about(project string, known, version int64) about {
	told := func(settings map[string]string, version int64) facts {
		if version == 0 {
			return nil
		}
		return facts{"version": version, "settings": settings}
	}
	return about{project, told(x.Was, known), told(x.Became, version)}
}

// AddProject adds a project and returns its version. If there is one with this name, that one stays, and
// the result is 0.
func (t *Tx) AddProject(name, text string, sum []byte, x Settings) (version int64, err error) {
	if version, err = t.versionOf(name); version != 0 || err != nil {
		return 0, err
	}
	if version, err = t.t.Take(projectVersions); err != nil {
		return 0, err
	}
	err = t.t.Exec("INSERT INTO projects (name, text, sum, version, changed, actor) VALUES (?, ?, ?, ?, ?, ?)", name, text, sum, version, t.t.Now, t.actor)
	if err != nil {
		return 0, err
	}
	return version, t.did("made", projectKind, name, x.about(name, 0, version))
}

// ChangeProject replaces the text of a project and returns the new version. If the project no longer has
// the version that the caller knows, it stays as it is, and the result is 0.
func (t *Tx) ChangeProject(name, text string, sum []byte, known int64, x Settings) (version int64, err error) {
	if version, err = t.versionOf(name); version == 0 || version != known || err != nil {
		return 0, err
	}
	if version, err = t.t.Take(projectVersions); err != nil {
		return 0, err
	}
	err = t.t.Exec("UPDATE projects SET text = ?, sum = ?, version = ?, changed = ?, actor = ? WHERE name = ?", text, sum, version, t.t.Now, t.actor, name)
	if err != nil {
		return 0, err
	}
	return version, t.did("changed", projectKind, name, x.about(name, known, version))
}

// RemoveProject removes a project that has the version that the caller knows, and reports whether it did.
// Its keys, its secrets, its prompts and everybody's roles in it end with it, unless keep is true: then a project with
// another home has the name and goes on with them.
func (t *Tx) RemoveProject(name string, known int64, keep bool, x Settings) (gone Gone, removed bool, err error) {
	version, err := t.versionOf(name)
	if version == 0 || version != known || err != nil {
		return gone, false, err
	}
	if !keep {
		if gone, err = t.endAllOf(name); err != nil {
			return gone, false, err
		}
	}
	if err := t.t.Exec("DELETE FROM projects WHERE name = ?", name); err != nil {
		return gone, false, err
	}
	return gone, true, t.did("removed", projectKind, name, x.about(name, known, 0))
}

// endAllOf revokes the keys of a project, removes its secrets, its prompts, its pins and everybody's roles in it, and signs
// everybody out of its servers.
func (t *Tx) endAllOf(project string) (gone Gone, err error) {
	keys, err := t.revokeKeys("project", project)
	if err != nil {
		return gone, err
	}
	secrets, err := sqldb.All(t.t, scanText, "SELECT name FROM secrets WHERE project = ? ORDER BY name", project)
	if err != nil {
		return gone, err
	}
	for _, name := range secrets {
		if _, err := t.RemoveSecret(project, name); err != nil {
			return gone, err
		}
	}
	if err := t.removeCredentials("project", project); err != nil {
		return gone, err
	}
	if err := t.removePrompts(project); err != nil {
		return gone, err
	}
	if err := t.removeExamples(project); err != nil {
		return gone, err
	}
	if err := t.removePins(project); err != nil {
		return gone, err
	}
	people, err := sqldb.All(t.t, scanText, "SELECT person FROM roles WHERE project = ? ORDER BY person", project)
	if err != nil {
		return gone, err
	}
	for _, id := range people {
		if _, err := t.SetRoles(id, project, nil, nil); err != nil {
			return gone, err
		}
	}
	return Gone{keys, len(secrets), len(people)}, nil
}

// projectVersions is the counter of the versions of all projects.
const projectVersions = "project versions"

// versionOf returns the version of a project, or 0 if there is no such project.
func (t *Tx) versionOf(project string) (version int64, err error) {
	err = t.t.Row("SELECT version FROM projects WHERE name = ?", []any{project}, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return version, err
}

func readProjects(t *sqldb.Tx, into *Snapshot) error {
	into.projects = map[string]Project{}
	return t.Each(func(scan func(...any) error) error {
		var x Project
		var changed string
		err := scan(&x.Name, &x.Text, &x.Sum, &x.Version, &changed, &x.Actor)
		if err == nil {
			x.Changed, err = moment(changed)
		}
		into.projects[x.Name] = x
		return err
	}, "SELECT name, text, sum, version, changed, actor FROM projects")
}
