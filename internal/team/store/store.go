package store

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// Options say where a Store keeps its database.
type Options struct {
	// Database is the path of an SQLite file, or a URL that begins with postgres:// or postgresql://.
	// "" means that there is no place for a file.
	Database string
	// MayForget lets the store work in memory if the file is missing and can't be created.
	MayForget bool
	// Via says through what changes are made that don't say so themselves; see Through.
	Via string
	// Log gets a record when the store works in memory, and when it can't read its database.
	Log *slog.Logger

	// Schema replaces dragoman as the PostgreSQL schema. Only tests need that.
	Schema string
}

// Error is what people can do something about: a sentence and the next step.
type Error = sqldb.Error

// Place is where a store keeps what it's told.
type Place string

// The places.
const (
	Absent   Place = "absent" // there is no file yet; the first Write creates it, or moves to memory
	File     Place = "file"
	Postgres Place = "postgres"
	Memory   Place = "memory" // until the process ends
)

// State says where a store keeps what it's told, and whether that works.
type State struct {
	Place Place
	// Database is the path of the file, or the name and host of the PostgreSQL database. It's never a
	// URL with a password. In memory, it's the path that can't be used, or "".
	Database string
	// Problem says why the store works in memory, or why it can't read its database at the moment: then
	// the snapshot stays as it is. It's nil if all is well.
	Problem error
}

// Store keeps what must last. Close it after use.
type Store struct {
	o     Options
	log   *slog.Logger
	now   atomic.Pointer[Snapshot]
	state atomic.Pointer[State]
	db    atomic.Pointer[sqldb.DB] // nil while there is no database

	turn   chan struct{} // a lock: contains one value while the database is opened or a snapshot is made
	opened chan struct{} // closed when there is a database
	closed bool          // has the lock turn

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	group work.Group
}

// lookEvery is how often a store without a database looks whether another process has created the file.
const lookEvery = time.Second

// readWithin is the maximum time for reading a snapshot.
const readWithin = 30 * time.Second

// migrations contains one SQL file for each version of the tables. A file never changes after it has
// been released.
//
//go:embed migrations/*.sql
var migrations embed.FS

// Open opens the database if there is one. It doesn't create a file: the first Write does. A PostgreSQL
// database gets its schema now. If the database can't be used, or if the file couldn't be created and
// the store must not forget, Open returns an *Error.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{o: o, log: o.Log, turn: make(chan struct{}, 1), opened: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.now.Store(&Snapshot{replaced: make(chan struct{})})
	s.state.Store(&State{Place: Absent, Database: o.Database})
	s.ctx, s.stop = context.WithCancel(context.Background())
	if s.exists() {
		if _, err := s.database(ctx, false); err != nil {
			s.stop()
			return nil, err
		}
	} else if err := s.canCreate(); err != nil {
		if !o.MayForget {
			s.stop()
			return nil, err
		}
		s.forget(err)
		return s, nil
	}
	s.group.Go(s.follow)
	return s, nil
}

// Backup copies an SQLite file, which may be in use, to a new file of mode 0600. It returns an *Error if
// there is no database, if it can't be copied, or if it's in PostgreSQL, which has pg_dump.
func Backup(ctx context.Context, database, to string) error {
	return sqldb.Backup(ctx, database, to, (&Store{}).options())
}

// Close closes the database. Writes that still run fail.
func (s *Store) Close() error {
	s.stop()
	s.group.Wait()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.closed = true
	if db := s.db.Load(); db != nil {
		return db.Close()
	}
	return nil
}

// Snapshot returns what the store knows now. It's never nil, and empty as long as there is no database.
func (s *Store) Snapshot() *Snapshot { return s.now.Load() }

// Refresh makes the snapshot what the database has now. Who has just heard of a change by another process
// needn't wait for it then.
func (s *Store) Refresh(ctx context.Context) error {
	if s.db.Load() == nil {
		if s.State().Place != Absent || !s.exists() {
			return nil
		}
		_, err := s.database(ctx, false)
		return err
	}
	return s.refresh(ctx, false)
}

// State returns where the store keeps what it's told. After a Write, it isn't Absent.
func (s *Store) State() State { return *s.state.Load() }

// Write makes a change for an actor, which is the subject of a principal, in a transaction; see
// sqldb.DB.Write. If Write returns nil, the change is on the disk, or in memory if State says so, and
// Snapshot has it. change may be called several times, and the last call counts. Through what the actor has made
// the change is in ctx, or it's Options.Via; see Through.
func (s *Store) Write(ctx context.Context, actor string, change func(*Tx) error) error {
	if actor == "" {
		return errors.New("a change of the store names no actor")
	}
	db, err := s.database(ctx, true)
	if err != nil {
		return err
	}
	via, _ := ctx.Value(throughKey{}).(string)
	via = cmp.Or(via, s.o.Via)
	if err := db.Write(ctx, func(t *sqldb.Tx) error { return change(&Tx{t, actor, via}) }); err != nil {
		return err
	}
	// The change is made. If it can't be read now, follow tries again.
	_ = s.refresh(context.WithoutCancel(ctx), false)
	return nil
}

// database returns the database, and opens it if there is none yet. If create is false, it doesn't
// create the file.
func (s *Store) database(ctx context.Context, create bool) (*sqldb.DB, error) {
	if db := s.db.Load(); db != nil {
		return db, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if db := s.db.Load(); db != nil {
		return db, nil
	}
	if s.closed {
		return nil, errors.New("the store is closed")
	}
	db, place, err := s.open(ctx, create)
	if err != nil {
		return nil, err
	}
	first, err := s.Snapshot().next(ctx, db, true)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	if place != Memory {
		called := s.o.Database
		if place == Postgres {
			called = db.Name()
		}
		s.state.Store(&State{Place: place, Database: called})
	}
	s.publish(first)
	s.db.Store(db)
	close(s.opened)
	return db, nil
}

// open opens the database, or one in memory if the file can't be created and the store may forget.
func (s *Store) open(ctx context.Context, create bool) (*sqldb.DB, Place, error) {
	o := s.options()
	place := File
	switch {
	case s.State().Place == Memory:
		o.Memory, place = true, Memory
	case isURL(s.o.Database):
		place = Postgres
	}
	o.Existing = !create
	db, err := sqldb.Open(ctx, s.o.Database, o)
	if err != nil && create && s.o.MayForget && errors.Is(err, fs.ErrPermission) && !s.exists() {
		s.forget(err)
		o.Memory, place = true, Memory
		db, err = sqldb.Open(ctx, "", o)
	}
	return db, place, err
}

func (s *Store) options() sqldb.Options {
	files, _ := fs.Sub(migrations, "migrations") // the name is valid
	return sqldb.Options{
		Name: "dragoman_house", ID: 0x4472486f, Schema: cmp.Or(s.o.Schema, "dragoman"), Migrations: files, Private: true,
		Lost: func(err error) { s.found(s.state.Load(), err) },
	}
}

// forget says that the store works in memory from now on. It's called once.
func (s *Store) forget(why error) {
	s.state.Store(&State{Place: Memory, Database: s.o.Database, Problem: why})
	s.log.Info("nothing can be stored, so secrets and other changes last until dragoman ends", "cause", why.Error())
}

// exists reports whether there may be a database: a file, whatever it is, or a server.
func (s *Store) exists() bool {
	if s.o.Database == "" {
		return false
	}
	if isURL(s.o.Database) {
		return true
	}
	_, err := os.Stat(s.o.Database)
	return err == nil
}

// isURL reports whether the database isn't a file. sqldb refuses URLs that it doesn't know.
func isURL(database string) bool { return strings.Contains(database, "://") }

func (s *Store) canCreate() error {
	if s.o.Database == "" {
		return &Error{Text: "this user has no folder for data", Next: "set HOME, or name a database with dragoman.database"}
	}
	return sqldb.CanCreate(s.o.Database, s.options())
}

// follow waits until there is a database, and then makes a new snapshot after each change.
func (s *Store) follow() {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for s.db.Load() == nil {
		select {
		case <-s.ctx.Done():
			return
		case <-s.opened:
		case <-again.C:
			s.look()
		}
	}
	again.Stop()
	if s.State().Place == Memory {
		return // nobody else changes it
	}
	s.db.Load().Follow(s.ctx, s.Snapshot().counters["changes"], func(_ []sqldb.Change, complete bool) error {
		return s.refresh(s.ctx, !complete)
	})
}

// look opens the database if another process has created the file.
func (s *Store) look() {
	before := s.state.Load()
	var err error
	if s.exists() {
		_, err = s.database(s.ctx, false)
	}
	again := err != nil && before.Problem != nil && err.Error() == before.Problem.Error() // it's in the log already
	if s.db.Load() == nil && s.ctx.Err() == nil && !again && (err != nil || before.Problem != nil) {
		s.found(before, err)
	}
}

// found says that the database can't be read, or with nil that it can again. before is the state in which
// this was found.
func (s *Store) found(before *State, err error) {
	after := *before
	after.Problem = err
	if !s.state.CompareAndSwap(before, &after) {
		return // a Write has just opened the database
	}
	if err != nil {
		s.log.Warn("the store cannot be read, so changes by other processes are missed", "cause", err.Error())
	} else {
		s.log.Info("the store can be read again")
	}
}

// refresh makes a new snapshot if something has changed, or in any case if all is true.
func (s *Store) refresh(ctx context.Context, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	next, err := s.Snapshot().next(ctx, s.db.Load(), all)
	if err == nil && next != nil {
		s.publish(next)
	}
	return err
}

// publish replaces the snapshot. The caller has the turn.
func (s *Store) publish(next *Snapshot) { close(s.now.Swap(next).replaced) }
