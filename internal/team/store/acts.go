package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// Act says who did what to which object, and when. Each has the hash of the one before, so that it shows if
// somebody has changed, moved or deleted one.
type Act struct {
	Seq     int64     `json:"seq"`               // one more than that of the act before
	At      time.Time `json:"at"`                // in UTC
	Actor   string    `json:"actor"`             // the subject of a principal
	Via     string    `json:"via,omitempty"`     // through what, such as the console; see Through
	Project string    `json:"project,omitempty"` // "" if it was about the whole house
	Action  string    `json:"action"`            // such as "set"
	Object  string    `json:"object"`            // its kind, a colon and its name, such as "secret:default/token"
	// Was and Became are JSON of what was changed, without secrets. They're "" if there is nothing to say.
	Was    json.RawMessage `json:"was,omitempty"`
	Became json.RawMessage `json:"became,omitempty"`

	Prev []byte `json:"-"` // the Sum of the act before; empty for the first of all
	Sum  []byte `json:"sum"`
}

// keptActs is the number of acts that the database keeps. The oldest go, a hundred at a time.
const (
	keptActs   = 100_000
	actsAtOnce = 100
)

// actColumns are all columns of an act, as scanAct reads them.
const actColumns = "seq, actor, via, project, action, object, was, became, happened, prev, sum"

// hash returns what the Sum of an act has to be. happened is the time as the database has it.
func (a *Act) hash(happened string) []byte {
	h := sha256.New()
	for _, s := range []string{string(a.Prev), strconv.FormatInt(a.Seq, 10), a.Actor, a.Via, a.Project, a.Action, a.Object, string(a.Was), string(a.Became), happened} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		_, _ = h.Write([]byte(s))
	}
	return h.Sum(nil)
}

// scanAct reads the row of an act, which has actColumns. It returns the time as the database has it, too.
func scanAct(scan func(...any) error) (a Act, happened string, err error) {
	var was, became string
	if err := scan(&a.Seq, &a.Actor, &a.Via, &a.Project, &a.Action, &a.Object, &was, &became, &happened, &a.Prev, &a.Sum); err != nil {
		return a, "", err
	}
	a.Was, a.Became = json.RawMessage(was), json.RawMessage(became)
	a.At, err = moment(happened)
	return a, happened, err
}

// Through returns a context in which changes are noted as made through something, such as the console.
func Through(ctx context.Context, via string) context.Context {
	return context.WithValue(ctx, throughKey{}, via)
}

type throughKey struct{}

// Tx is a transaction of Store.Write. It's good only during the function that got it, and only for one
// goroutine. Its methods stand with the kind of object that they change or read.
type Tx struct {
	t     *sqldb.Tx
	actor string
	via   string
}

// about is what an act also says: in which project it was, and what was there before and after. Secrets have no
// place there.
type about struct {
	project     string
	was, became facts // nil if there is nothing to say
}

// facts are what is known of an object, by name. What is empty is left out.
type facts map[string]any

// json returns facts as an act has them.
func (f facts) json() (json.RawMessage, error) {
	if f == nil {
		return nil, nil
	}
	told := facts{}
	for name, value := range f {
		if v := reflect.ValueOf(value); v.IsValid() && !v.IsZero() {
			told[name] = value
		}
	}
	return json.Marshal(told)
}

// did says what happens to an object in this transaction: to the acts, to the snapshots of all
// processes, and by that to whoever waits for a new one. If the act can't be recorded, nothing of the
// transaction happens.
func (t *Tx) did(action, kind, name string, x about) error {
	err := t.noted(action, kind, name, x)
	if err == nil {
		err = t.changed(action, kind, name)
	}
	return err
}

// Noted makes an act of what somebody has done to something that isn't in the database. became is what there is to say
// of it, which has no secrets.
func (t *Tx) Noted(action, kind, name, project string, became map[string]any) error {
	return t.noted(action, kind, name, about{project: project, became: became})
}

// By returns a context in which changes are noted as made by somebody, for those who don't get to know who it is in
// another way.
func By(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns who By says, or "".
func ActorOf(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}

type actorKey struct{}

// noted makes an act of what has changed no object of its kind.
func (t *Tx) noted(action, kind, name string, x about) (err error) {
	a := Act{Action: action, Object: kind + ":" + name, Project: x.project}
	if a.Was, err = x.was.json(); err != nil {
		return err
	}
	if a.Became, err = x.became.json(); err != nil {
		return err
	}
	return t.record(a)
}

// record adds an act to the chain. Nobody else writes meanwhile; see sqldb.DB.Write.
func (t *Tx) record(a Act) (err error) {
	a.Actor, a.Via = t.actor, t.via
	if a.Seq, err = t.t.Take(actCounter); err != nil {
		return err
	}
	err = t.t.Row("SELECT sum FROM acts WHERE seq = ?", []any{a.Seq - 1}, &a.Prev)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	// If somebody has deleted the act before, this one has no predecessor, which shows.
	err = t.t.Exec("INSERT INTO acts ("+actColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.Seq, a.Actor, a.Via, a.Project, a.Action, a.Object, string(a.Was), string(a.Became), t.t.Now, nonNil(a.Prev), a.hash(t.t.Now))
	if err == nil && a.Seq%actsAtOnce == 0 {
		err = t.t.Exec("DELETE FROM acts WHERE seq <= ?", a.Seq-keptActs)
	}
	return err
}

// actCounter is the counter of the acts.
const actCounter = "acts"

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
			a, _, err = scanAct(scan)
			return a, err
		}, "SELECT "+actColumns+" FROM acts WHERE seq < ? ORDER BY seq DESC LIMIT ?", before, most)
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
