package store

import (
	"context"
	"math"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// Act says who did what to which object, and when.
type Act struct {
	Seq    int64  // greater than that of every earlier act
	Actor  string // the subject of a principal
	Action string // such as "set"
	Object string // its kind, a colon and its name, such as "secret:default/token"
	At     time.Time
}

// keptActs is the number of acts that the database keeps.
const keptActs = 100_000

// Tx is a transaction of Store.Write. It's good only during the function that got it, and only for one
// goroutine. Its methods stand with the kind of object that they change or read.
type Tx struct {
	t     *sqldb.Tx
	actor string
}

// did says what happens to an object in this transaction: to the acts, to the snapshots of all
// processes, and by that to whoever waits for a new one.
func (t *Tx) did(action, kind, name string) error {
	object := kind + ":" + name
	seq, err := t.t.Take("acts")
	if err == nil {
		err = t.t.Exec("INSERT INTO acts (seq, actor, action, object, happened) VALUES (?, ?, ?, ?, ?)", seq, t.actor, action, object, t.t.Now)
	}
	if err == nil && seq%100 == 0 {
		err = t.t.Exec("DELETE FROM acts WHERE seq <= ?", seq-keptActs)
	}
	if err == nil {
		err = t.changed(action, kind, name)
	}
	return err
}

// changed says to the snapshots of all processes that an object has changed, without an act.
func (t *Tx) changed(action, kind, name string) error {
	_, err := t.t.Take(kind)
	if err == nil {
		err = t.t.Changed(kind+":"+name, action)
	}
	return err
}

// Acts returns at most so many of the acts before one, the newest first. With 0 it begins with the newest
// of all.
func (s *Store) Acts(ctx context.Context, before int64, most int) (list []Act, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	err = s.read(ctx, func(t *sqldb.Tx) error {
		list, err = sqldb.All(t, func(scan func(...any) error) (a Act, err error) {
			var at string
			if err := scan(&a.Seq, &a.Actor, &a.Action, &a.Object, &at); err != nil {
				return a, err
			}
			a.At, err = moment(at)
			return a, err
		}, "SELECT seq, actor, action, object, happened FROM acts WHERE seq < ? ORDER BY seq DESC LIMIT ?", before, most)
		return err
	})
	return list, err
}

// read runs queries in a transaction, unless there is no database yet.
func (s *Store) read(ctx context.Context, queries func(*sqldb.Tx) error) error {
	db := s.db.Load()
	if db == nil {
		return nil
	}
	return db.Read(ctx, queries)
}
