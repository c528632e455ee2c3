package store

import (
	"cmp"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const personKind = "person"

// PersonSubject is what the subject of a person begins with; the person's id follows.
const PersonSubject = "p:"

// Person is somebody who was invited. Package access invites people, and says what the fields mean.
type Person struct {
	ID    string
	Name  string                     // unique, also if case is ignored
	Roles map[string][]identity.Role // by project; a project in which the person has none is left out
	Sum   []byte                     // by which package access knows that it has made the person
	Sums  map[string][]byte          // the same for the roles, by project
	// Open is the invitation that the person can still use, if its Sum isn't nil. It may have expired.
	Open Invitation

	Added time.Time // set by the store
	Actor string    // who added the person; set by the store
}

// Invitation is a link that opens a session of a person once.
type Invitation struct {
	Sum     []byte
	Project string // where the person was invited to
	Until   time.Time
	Ends    time.Time // when the session ends that it opens; zero if that is counted from when it's accepted

	Actor string // who has made it; set by the store
}

// Person returns the person with an id, and whether there is one.
func (s *Snapshot) Person(id string) (Person, bool) {
	x, ok := s.people[id]
	return x, ok
}

// People returns all people, sorted by name.
func (s *Snapshot) People() []Person {
	return slices.SortedFunc(maps.Values(s.people), func(a, b Person) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.ID, b.ID))
	})
}

// AddPerson adds a person, whose id must be new, without roles. It reports whether the name was free.
func (t *Tx) AddPerson(id, name string, sum []byte) (bool, error) {
	folded := strings.ToLower(name)
	if n, err := t.t.Count("FROM people WHERE folded = ?", folded); err != nil || n > 0 {
		return false, err
	}
	if err := t.t.Exec("INSERT INTO people (id, name, folded, sum, added, actor) VALUES (?, ?, ?, ?, ?, ?)", id, name, folded, nonNil(sum), t.t.Now, t.actor); err != nil {
		return false, err
	}
	return true, t.did("added", personKind, id, about{became: facts{"name": name}})
}

// SetRoles replaces the roles of a person in a project, and reports whether there is such a person.
func (t *Tx) SetRoles(person, project string, roles []identity.Role, sum []byte) (bool, error) {
	if is, err := t.isPerson(person); !is || err != nil {
		return false, err
	}
	was, err := t.rolesOf(person, project)
	if err == nil {
		err = t.t.Exec("DELETE FROM roles WHERE person = ? AND project = ?", person, project)
	}
	if err == nil && len(roles) > 0 {
		err = t.t.Exec("INSERT INTO roles (person, project, roles, sum) VALUES (?, ?, ?, ?)", person, project, rolesText(roles), nonNil(sum))
	}
	if err != nil {
		return false, err
	}
	return true, t.did("set roles "+cmp.Or(rolesText(roles), "none"), personKind, person+"/"+project, about{project, facts{"roles": was}, facts{"roles": rolesText(roles)}})
}

// Invite gives a person an invitation in place of the one before, and reports whether there is such a person.
func (t *Tx) Invite(person string, x Invitation) (bool, error) {
	if is, err := t.isPerson(person); !is || err != nil {
		return false, err
	}
	err := t.t.Exec("INSERT INTO invitations (person, sum, project, until, ends, actor) VALUES (?, ?, ?, ?, ?, ?) "+
		"ON CONFLICT (person) DO UPDATE SET sum = excluded.sum, project = excluded.project, until = excluded.until, ends = excluded.ends, actor = excluded.actor",
		person, x.Sum, x.Project, textOf(x.Until), textOf(x.Ends), t.actor)
	if err != nil {
		return false, err
	}
	return true, t.did("invited", personKind, person+"/"+x.Project, about{project: x.Project, became: facts{"until": textOf(x.Until)}})
}

// Accept uses up the invitation with a sum, and begins a session of its person. It reports whether there was
// such an invitation, and whether it had not expired.
func (t *Tx) Accept(sum []byte, s Session) (bool, error) {
	var until string
	err := t.t.Row("SELECT until FROM invitations WHERE person = ? AND sum = ?", []any{s.Person, sum}, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if end, err := moment(until); err != nil || !time.Now().Before(end) {
		return false, err
	}
	if err := t.t.Exec("DELETE FROM invitations WHERE person = ?", s.Person); err != nil {
		return false, err
	}
	if err := t.did("accepted an invitation", personKind, s.Person, about{}); err != nil {
		return false, err
	}
	return true, t.beginSession(s)
}

// RemovePerson removes a person with all that is theirs: roles, invitation, sessions, and the keys and grants
// that act for them. It reports whether there was such a person.
func (t *Tx) RemovePerson(id string) (bool, error) {
	var name string
	if err := t.t.Row("SELECT name FROM people WHERE id = ?", []any{id}, &name); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	if _, there, err := t.EndSessions(id); !there || err != nil {
		return false, err
	}
	if _, err := t.revokeKeys("owner", PersonSubject+id); err != nil {
		return false, err
	}
	if err := t.removeCredentials("subject", PersonSubject+id); err != nil {
		return false, err
	}
	if _, err := t.endGrants("subject", PersonSubject+id); err != nil {
		return false, err
	}
	for _, q := range []string{"DELETE FROM roles WHERE person = ?", "DELETE FROM people WHERE id = ?"} {
		if err := t.t.Exec(q, id); err != nil {
			return false, err
		}
	}
	return true, t.did("removed", personKind, id, about{was: facts{"name": name}})
}

// Roles returns the roles of a person in a project.
func (t *Tx) Roles(person, project string) ([]identity.Role, error) {
	text, err := t.rolesOf(person, project)
	return rolesIn(text), err
}

// rolesIn returns the roles in a text of the database. One of a newer version is none.
func rolesIn(text string) (roles []identity.Role) {
	for _, name := range strings.Fields(text) {
		if r, ok := identity.RoleOf(name); ok {
			roles = append(roles, r)
		}
	}
	return roles
}

// rolesOf returns the roles of a person in a project as the database has them.
func (t *Tx) rolesOf(person, project string) (roles string, err error) {
	err = t.t.Row("SELECT roles FROM roles WHERE person = ? AND project = ?", []any{person, project}, &roles)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return roles, err
}

func (t *Tx) isPerson(id string) (bool, error) {
	n, err := t.t.Count("FROM people WHERE id = ?", id)
	return n > 0, err
}

func readPeople(t *sqldb.Tx, into *Snapshot) error {
	into.people = map[string]Person{}
	err := t.Each(func(scan func(...any) error) error {
		x := Person{Roles: map[string][]identity.Role{}, Sums: map[string][]byte{}}
		var added string
		err := scan(&x.ID, &x.Name, &x.Sum, &added, &x.Actor)
		if err == nil {
			x.Added, err = moment(added)
		}
		into.people[x.ID] = x
		return err
	}, "SELECT id, name, sum, added, actor FROM people")
	if err != nil {
		return err
	}
	err = t.Each(func(scan func(...any) error) error {
		var person, project, roles string
		var sum []byte
		err := scan(&person, &project, &roles, &sum)
		if x, ok := into.people[person]; ok && err == nil {
			x.Sums[project] = sum
			if list := rolesIn(roles); list != nil {
				x.Roles[project] = list
			}
		}
		return err
	}, "SELECT person, project, roles, sum FROM roles")
	if err != nil {
		return err
	}
	return t.Each(func(scan func(...any) error) error {
		var person, until, ends string
		var x Invitation
		err := scan(&person, &x.Sum, &x.Project, &until, &ends, &x.Actor)
		if err == nil {
			x.Until, err = moment(until)
		}
		if err == nil && ends != "" {
			x.Ends, err = moment(ends)
		}
		if p, ok := into.people[person]; ok {
			p.Open = x
			into.people[person] = p
		}
		return err
	}, "SELECT person, sum, project, until, ends, actor FROM invitations")
}

// rolesText returns roles as the database has them.
func rolesText(roles []identity.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = r.String()
	}
	return strings.Join(names, " ")
}
