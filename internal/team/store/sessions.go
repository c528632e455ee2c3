package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const sessionKind = "session"

// Session is a browser's session of a person.
type Session struct {
	ID     string
	Sum    []byte
	Person string // the person's id
	Until  time.Time
	Way    string // how it began; "" in rows of before that was kept

	// Browser is what the browser calls itself, in our words, and Address from where it was last used. Both are for
	// people to recognise it by, and prove nothing.
	Browser, Address string

	Began time.Time // set by the store
	Seen  time.Time // when the session was last used, more or less; see Tx.SeeSession
}

// Sessions returns all sessions, also expired ones, sorted by time.
func (s *Snapshot) Sessions() []Session {
	return slices.SortedFunc(maps.Values(s.sessions), func(a, b Session) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID))
	})
}

// BeginSession begins a session of a person, and reports whether there is such a person.
func (t *Tx) BeginSession(x Session) (bool, error) {
	if is, err := t.isPerson(x.Person); !is || err != nil {
		return false, err
	}
	return true, t.beginSession(x)
}

// beginSession adds a session, and forgets those that have expired.
func (t *Tx) beginSession(x Session) error {
	// The texts have the order of the times, but for fractions of a second.
	if err := t.t.Exec("DELETE FROM sessions WHERE until <= ?", textOf(time.Now().Truncate(time.Second))); err != nil {
		return err
	}
	err := t.t.Exec("INSERT INTO sessions (id, sum, person, began, until, seen, browser, address, way) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		x.ID, x.Sum, x.Person, t.t.Now, textOf(x.Until), t.t.Now, x.Browser, x.Address, x.Way)
	if err != nil {
		return err
	}
	return t.did("began", sessionKind, x.Person+"/"+x.ID, about{became: facts{"until": textOf(x.Until), "browser": x.Browser, "address": x.Address, "by": x.Way}})
}

// SeeSession notes that a session is used now, from an address. This is no act.
func (t *Tx) SeeSession(id, address string) error {
	if err := t.t.Exec("UPDATE sessions SET seen = ?, address = ? WHERE id = ?", t.t.Now, address, id); err != nil {
		return err
	}
	return t.changed("seen", sessionKind, id)
}

// EndSession ends a session of a person, and reports whether there was one.
func (t *Tx) EndSession(person, id string) (bool, error) {
	const where = "FROM sessions WHERE id = ? AND person = ?"
	n, err := t.t.Count(where, id, person)
	if err != nil || n == 0 {
		return false, err
	}
	if err := t.t.Exec("DELETE "+where, id, person); err != nil {
		return false, err
	}
	return true, t.did("ended", sessionKind, person+"/"+id, about{})
}

// EndSessions ends all sessions of a person, and makes an open invitation useless. It returns the number of
// sessions, and whether there is such a person.
func (t *Tx) EndSessions(person string) (n int, there bool, err error) {
	if there, err = t.isPerson(person); !there || err != nil {
		return 0, false, err
	}
	if n, err = t.t.Count("FROM sessions WHERE person = ?", person); err != nil {
		return 0, true, err
	}
	for _, q := range []string{"DELETE FROM sessions WHERE person = ?", "DELETE FROM invitations WHERE person = ?"} {
		if err := t.t.Exec(q, person); err != nil {
			return 0, true, err
		}
	}
	if err := t.did("signed out", personKind, person, about{}); err != nil {
		return 0, true, err
	}
	return n, true, t.changed("ended", sessionKind, person)
}

func readSessions(t *sqldb.Tx, into *Snapshot) error {
	into.sessions = map[string]Session{}
	return t.Each(func(scan func(...any) error) error {
		var x Session
		var began, until, seen string
		err := scan(&x.ID, &x.Sum, &x.Person, &began, &until, &seen, &x.Browser, &x.Address, &x.Way)
		if err == nil {
			x.Began, err = moment(began)
		}
		if len(seen) == len(time.DateOnly) {
			seen += "T00:00:00Z"
		}
		if err == nil {
			x.Seen, err = moment(seen)
		}
		if err == nil {
			x.Until, err = moment(until)
		}
		into.sessions[x.ID] = x
		return err
	}, "SELECT id, sum, person, began, until, seen, browser, address, way FROM sessions")
}
