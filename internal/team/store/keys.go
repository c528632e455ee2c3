package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const keyKind = "key"

// Key is an API key without its secret. Package access makes keys, and says what the fields mean.
type Key struct {
	ID      string
	Name    string // what people call it; need not be unique
	Sum     []byte
	Hint    string // the end of the secret, by which people recognise the key
	Owner   string // the subject that the key acts for; "" if the key is a subject of its own
	Project string
	Servers []string // patterns; none means all
	Tools   []string // patterns; none means all
	Role    identity.Role
	Until   time.Time // zero means that the key does not expire

	// OldSum is that of the secret before the last rotation, which works until OldUntil.
	OldSum   []byte
	OldUntil time.Time

	Made  time.Time // set by the store
	Actor string    // who made it; set by the store
}

// Key returns the key with an id, and whether there is one.
func (s *Snapshot) Key(id string) (Key, bool) {
	x, ok := s.keys[id]
	return x, ok
}

// Keys returns all keys, also expired ones, sorted by project, name and time.
func (s *Snapshot) Keys() []Key {
	if s.inOrder == nil {
		return nil
	}
	return slices.Clone(s.inOrder()) // callers take out those that they don't want
}

// sortedKeys returns a function that sorts keys once. There may be thousands, and each page about keys or rules asks.
func sortedKeys(all map[string]Key) func() []Key {
	return sync.OnceValue(func() []Key {
		return slices.SortedFunc(maps.Values(all), func(a, b Key) int {
			return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(a.Name, b.Name), a.Made.Compare(b.Made), strings.Compare(a.ID, b.ID))
		})
	})
}

// AddKey adds a key, whose id must be new.
func (t *Tx) AddKey(x Key) error {
	err := t.t.Exec("INSERT INTO keys ("+keyColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		x.ID, x.Name, x.Sum, nonNil(x.OldSum), textOf(x.OldUntil), x.Hint, x.Owner, x.Project, strings.Join(x.Servers, "\n"), strings.Join(x.Tools, "\n"),
		x.Role.String(), textOf(x.Until), t.t.Now, t.actor)
	if err != nil {
		return err
	}
	return t.did("made", keyKind, x.Project+"/"+x.ID, about{project: x.Project, became: x.facts()})
}

// RotateKey lets change give a key another secret: its Sum, Hint and Until, and what is left of the one
// before. The rest stays as it is. It reports whether there is such a key.
func (t *Tx) RotateKey(id string, change func(*Key) error) (bool, error) {
	x, err := t.key(id)
	if err != nil || x.ID == "" {
		return false, err
	}
	was := x.facts()
	if err := change(&x); err != nil {
		return true, err
	}
	err = t.t.Exec("UPDATE keys SET old_sum = ?, old_until = ?, sum = ?, hint = ?, until = ? WHERE id = ?", nonNil(x.OldSum), textOf(x.OldUntil), x.Sum, x.Hint, textOf(x.Until), id)
	if err != nil {
		return true, err
	}
	return true, t.did("rotated", keyKind, x.Project+"/"+id, about{x.Project, was, x.facts()})
}

// KeySubject is what the subject of a key begins with that acts for no person; the key's id follows.
const KeySubject = "k:"

// RevokeKey removes a key, signs it out if it acts for no person, and reports whether there was one.
func (t *Tx) RevokeKey(id string) (bool, error) {
	x, err := t.key(id)
	if err != nil || x.ID == "" {
		return false, err
	}
	if err := t.t.Exec("DELETE FROM keys WHERE id = ?", id); err != nil {
		return false, err
	}
	if err := t.removeCredentials("subject", KeySubject+id); err != nil {
		return false, err
	}
	return true, t.did("revoked", keyKind, x.Project+"/"+id, about{project: x.Project, was: x.facts()})
}

// KeepUses notes when keys were last used, by their ids. It isn't a change of the keys: no snapshot has it, and so
// nobody makes one because of it.
func (s *Store) KeepUses(ctx context.Context, uses map[string]time.Time) error {
	db := s.db.Load()
	if db == nil || len(uses) == 0 {
		return nil
	}
	return db.Write(ctx, func(t *sqldb.Tx) error {
		for id, at := range uses { // another process may know of a later use
			used := at.UTC().Format(usedFormat)
			if err := t.Exec("UPDATE keys SET used = ? WHERE id = ? AND used < ?", used, id, used); err != nil {
				return err
			}
		}
		return nil
	})
}

// Uses returns when the keys that were ever used were last used, by their ids.
func (s *Store) Uses(ctx context.Context) (map[string]time.Time, error) {
	uses := map[string]time.Time{}
	db := s.db.Load()
	if db == nil {
		return uses, nil
	}
	err := db.Read(ctx, func(t *sqldb.Tx) error {
		clear(uses)
		return t.Each(func(scan func(...any) error) error {
			var id, used string
			err := scan(&id, &used)
			if err == nil {
				uses[id], err = time.Parse(usedFormat, used)
			}
			return err
		}, "SELECT id, used FROM keys WHERE used <> ''")
	})
	return uses, err
}

// usedFormat is a minute in UTC. The texts have the order of the times.
const usedFormat = "2006-01-02T15:04Z"

// revokeKeys removes the keys that have a value in a column, and returns their number.
func (t *Tx) revokeKeys(column, value string) (int, error) {
	ids, err := sqldb.All(t.t, scanText, "SELECT id FROM keys WHERE "+column+" = ? ORDER BY id", value)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if _, err := t.RevokeKey(id); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// scanText reads a row that is one text.
func scanText(scan func(...any) error) (text string, err error) {
	err = scan(&text)
	return text, err
}

// key returns a key as the transaction finds it. Its id is "" if there is no such key.
func (t *Tx) key(id string) (x Key, err error) {
	err = t.t.Each(func(scan func(...any) error) (err error) { x, err = scanKey(scan); return err }, "SELECT "+keyColumns+" FROM keys WHERE id = ?", id)
	return x, err
}

// facts returns what the acts say of a key.
func (x *Key) facts() facts {
	f := facts{"name": x.Name, "servers": x.Servers, "tools": x.Tools, "owner": x.Owner, "until": textOf(x.Until), "hint": x.Hint}
	if x.Role != 0 {
		f["role"] = x.Role.String()
	}
	return f
}

const keyColumns = "id, name, sum, old_sum, old_until, hint, owner, project, servers, tools, role, until, made, actor"

func readKeys(t *sqldb.Tx, into *Snapshot) error {
	into.keys = map[string]Key{}
	into.inOrder = sortedKeys(into.keys)
	return t.Each(func(scan func(...any) error) error {
		x, err := scanKey(scan)
		into.keys[x.ID] = x
		return err
	}, "SELECT "+keyColumns+" FROM keys")
}

// scanKey reads the row of a key, which has keyColumns.
func scanKey(scan func(...any) error) (x Key, err error) {
	var oldUntil, servers, tools, role, until, made string
	err = scan(&x.ID, &x.Name, &x.Sum, &x.OldSum, &oldUntil, &x.Hint, &x.Owner, &x.Project, &servers, &tools, &role, &until, &made, &x.Actor)
	if err != nil {
		return x, err
	}
	x.Servers, x.Tools = lines(servers), lines(tools)
	x.Role, _ = identity.RoleOf(role) // a role of a newer version is none
	return x, moments(oldUntil, &x.OldUntil, until, &x.Until, made, &x.Made)
}

// textOf returns a time as the database has it. "" is the zero time.
func textOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// nonNil returns b, which the databases must not take for NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
