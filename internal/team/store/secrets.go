package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const secretKind = "secret"

// Secret is a value that the vault has sealed for a project and a name.
type Secret struct {
	Project, Name string
	Sealed        []byte

	Changed time.Time // set by the store
	Actor   string    // who changed it; set by the store
}

type secretID struct{ project, name string }

// Secret returns a secret of a project, and whether there is one.
func (s *Snapshot) Secret(project, name string) (Secret, bool) {
	x, ok := s.secrets[secretID{project, name}]
	return x, ok
}

// Secrets returns the secrets of all projects, sorted by project and name.
func (s *Snapshot) Secrets() []Secret {
	return slices.SortedFunc(maps.Values(s.secrets), func(a, b Secret) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Name, b.Name))
	})
}

// Sealed returns what the vault has sealed for a project, by the names of the secrets.
func (s *Snapshot) Sealed(project string) map[string][]byte {
	all := map[string][]byte{}
	for id, x := range s.secrets {
		if id.project == project {
			all[id.name] = x.Sealed
		}
	}
	return all
}

// Secrets returns the secrets of all projects as the transaction finds them.
func (t *Tx) Secrets() ([]Secret, error) { return allSecrets(t.t) }

// SetSecret adds or replaces a secret.
func (t *Tx) SetSecret(x Secret) error {
	err := t.t.Exec("INSERT INTO secrets (project, name, sealed, changed, actor) VALUES (?, ?, ?, ?, ?) "+
		"ON CONFLICT (project, name) DO UPDATE SET sealed = excluded.sealed, changed = excluded.changed, actor = excluded.actor",
		x.Project, x.Name, x.Sealed, t.t.Now, t.actor)
	if err != nil {
		return err
	}
	return t.did("set", secretKind, x.Project+"/"+x.Name, about{project: x.Project})
}

// RemoveSecret removes a secret, and reports whether there was one.
func (t *Tx) RemoveSecret(project, name string) (bool, error) {
	const where = "FROM secrets WHERE project = ? AND name = ?"
	n, err := t.t.Count(where, project, name)
	if err != nil || n == 0 {
		return false, err
	}
	if err := t.t.Exec("DELETE "+where, project, name); err != nil {
		return false, err
	}
	return true, t.did("removed", secretKind, project+"/"+name, about{project: project})
}

func readSecrets(t *sqldb.Tx, into *Snapshot) error {
	list, err := allSecrets(t)
	into.secrets = make(map[secretID]Secret, len(list))
	for _, x := range list {
		into.secrets[secretID{x.Project, x.Name}] = x
	}
	return err
}

func allSecrets(t *sqldb.Tx) ([]Secret, error) {
	return sqldb.All(t, func(scan func(...any) error) (x Secret, err error) {
		var changed string
		if err := scan(&x.Project, &x.Name, &x.Sealed, &changed, &x.Actor); err != nil {
			return x, err
		}
		x.Changed, err = moment(changed)
		return x, err
	}, "SELECT project, name, sealed, changed, actor FROM secrets")
}
