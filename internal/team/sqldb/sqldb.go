package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// Options say whose database it is.
type Options struct {
	// Name is the name of a table that only this application's databases have. It must be an
	// identifier in small letters.
	Name string
	// ID is the application id in the header of an SQLite file, which tools such as file(1) print. It
	// must not be 0.
	ID int32
	// Schema is the PostgreSQL schema with the tables. "" means Name.
	Schema string
	// Migrations has the files 001.sql, 002.sql and so on, with statements that both databases
	// understand. A file never changes after it has been released.
	//
	// If a file begins with the line "-- works with N", a program that knows only the files up to N can go on with the
	// tables: the file adds what such a program needn't know, and doesn't mind if it isn't filled. Without that line, older
	// programs refuse the tables.
	Migrations fs.FS
	// Existing makes Open refuse to create an SQLite file.
	Existing bool
	// Private says that the database holds secrets: Open creates a missing folder with mode 0700, and
	// refuses an SQLite file that others can read, or a folder that they can write to. It has no effect
	// on Windows.
	Private bool
	// Memory makes Open create an SQLite database in memory, which nobody else can open, and which is
	// gone when it's closed.
	Memory bool
	// Lost is called when a DB that follows can no longer read the changes, and with nil when it can
	// again. It may be nil.
	Lost func(error)

	wait time.Duration // replaces waitForOthers in tests
}

// DB is an open database. Close it after use.
type DB struct {
	db    *sql.DB
	e     *engine
	lost  func(error)                   // see Options
	base  *sql.Conn                     // keeps a database in memory; otherwise nil
	check func(*Tx) error               // is called at the beginning of each change; set by migrate
	turn  chan struct{}                 // a lock: contains one value while a change runs
	heard atomic.Pointer[chan struct{}] // closed when this DB has made a change that has a number

	idle  *time.Timer // runs checkpoint
	group work.Group
}

const (
	// connections is the maximum number of connections that a DB opens.
	connections = 4
	// waitForOthers is the maximum time that a transaction waits for other processes.
	waitForOthers = 15 * time.Second
	// patience is the maximum time for one change, and migrationPatience that for a migration.
	patience, migrationPatience = 30 * time.Second, 30 * time.Minute
	// idleAfter is how long after the last change the log is moved into the SQLite file. Until then, a
	// copy of the file alone lacks the newest changes.
	idleAfter = 5 * time.Second
)

// engine is what differs between SQLite and PostgreSQL.
type engine struct {
	called   string          // the database in errors
	tables   string          // a query for the names of all tables
	changes  string          // the table of changes, for a query outside of transactions
	begin    func(*Tx) error // is called at the beginning of each transaction; may be nil
	clock    string          // a query for the time by the database's clock; "" if the database is on this machine
	snapshot sql.IsolationLevel
	bind     func(query string) string
	explain  func(error) error // turns what people can do something about into an *Error
	again    func(error) bool  // reports whether nothing was done, and the same may succeed now
	lock     func(*Tx) error   // makes a transaction wait until no other one makes changes
	create   func(*Tx) error   // is called before the first table is created
	file     *file             // nil for PostgreSQL, and in memory
	wait     time.Duration
}

// Open opens a database, which is the path of an SQLite file, a URL that begins with postgres:// or
// postgresql://. It creates a missing file with mode 0600, or a missing schema, and the tables, or
// updates the tables. Before it updates those of an SQLite file, it copies the file to
// NAME.before-N, where N is the version that the tables get. Open waits up to 15 s for other
// processes. It returns an *Error if the database cannot be changed, belongs to another program, or
// was changed by a newer version of this one in a way that doesn't work with this one.
func Open(ctx context.Context, where string, o Options) (*DB, error) {
	d, err := connect(ctx, where, o)
	if err != nil {
		return nil, err
	}
	if err := d.migrate(ctx, o); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// connect opens a database without looking at its tables.
func connect(ctx context.Context, where string, o Options) (*DB, error) {
	if o.Schema == "" {
		o.Schema = o.Name
	}
	if o.wait == 0 {
		o.wait = waitForOthers
	}
	var c driver.Connector
	var e *engine
	var err error
	switch {
	case o.Memory:
		c, e = memory(o)
	case where == "":
		err = fail("name a file, or a URL such as postgres://user@host/database", nil, "no database is named")
	case strings.HasPrefix(where, "postgres://"), strings.HasPrefix(where, "postgresql://"):
		c, e, err = postgres(where, o)
	case strings.Contains(where, "://"):
		err = fail("name a file, or a URL that begins with postgres://", nil, "the URL of the database has an unknown scheme")
	default:
		c, e, err = sqliteFile(where, o)
	}
	if err != nil {
		return nil, err
	}
	d := &DB{db: sql.OpenDB(c), e: e, lost: o.Lost, turn: make(chan struct{}, 1)}
	d.db.SetMaxOpenConns(connections)
	d.db.SetMaxIdleConns(connections)
	d.heard.Store(new(make(chan struct{})))
	d.idle = time.AfterFunc(idleAfter, func() { d.group.Go(d.checkpoint) })
	d.idle.Stop()
	if o.Memory {
		if d.base, err = d.db.Conn(ctx); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// Name returns what errors call the database: a path in quotation marks, or a name and a host. It has
// no password.
func (d *DB) Name() string { return d.e.called }

// Close closes the database. Transactions that still run fail.
func (d *DB) Close() error {
	d.idle.Stop()
	d.group.Wait()
	if d.base != nil {
		_ = d.base.Close()
	}
	return d.db.Close()
}

// checkpoint moves the log into the file.
func (d *DB) checkpoint() {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if d.e.file.present() == nil {
		_, _ = d.db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)") // the log stays if another process uses it
	}
}

// Write makes a change in a transaction. If it returns nil, the change is on the disk. change may be
// called several times, since we try again for up to 15 s if another transaction was in the way; the
// last call counts.
//
// If a newer version of the program has updated the tables since Open so that this one can't use them, the error is the
// *Error that Open would return now, and change isn't called: this version doesn't know what its change would have to look
// like.
//
// Changes of one DB are made one after the other. While Write waits for its turn, it returns if ctx
// ends. After that it ignores ctx and takes 30 s at most, so that the caller always learns whether the
// change was made.
func (d *DB) Write(ctx context.Context, change func(*Tx) error) error {
	return d.write(ctx, patience, func(t *Tx) error {
		if err := d.check(t); err != nil {
			return err
		}
		return change(t)
	})
}

func (d *DB) write(ctx context.Context, most time.Duration, change func(*Tx) error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.e.file != nil {
		defer d.idle.Reset(idleAfter)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	numbered := false
	err := d.transact(ctx, nil, func(t *Tx) error {
		err := change(t)
		numbered = t.numbered
		return err
	})
	if err == nil && numbered {
		close(*d.heard.Swap(new(make(chan struct{}))))
	}
	return err
}

// Brief makes a change like Write, but doesn't wait for other changes of the database, and gives up when ctx ends. The
// caller doesn't know then whether the change was made. So it's for rows that nothing depends on but what is written
// again soon, and that have no number: heartbeats, for example.
func (d *DB) Brief(ctx context.Context, change func(*Tx) error) error {
	return d.transact(ctx, &sql.TxOptions{}, change)
}

// Read runs queries on one snapshot of the database. queries may be called several times, and the last
// call counts.
func (d *DB) Read(ctx context.Context, queries func(*Tx) error) error {
	return d.transact(ctx, &sql.TxOptions{ReadOnly: true, Isolation: d.e.snapshot}, queries)
}

// transact runs f in a transaction. Without options, no other one makes changes meanwhile. If another transaction is in
// the way, it tries again.
func (d *DB) transact(ctx context.Context, o *sql.TxOptions, f func(*Tx) error) error {
	if err := d.e.file.present(); err != nil {
		return err
	}
	err := retry(ctx, d.e.wait, d.e.again, func() error {
		tx, err := d.db.BeginTx(ctx, o)
		if err != nil {
			return err
		}
		t := &Tx{Now: stamp(time.Now()), ctx: ctx, tx: tx, e: d.e}
		if d.e.begin != nil {
			err = d.e.begin(t)
		}
		if err == nil && o == nil {
			err = d.e.lock(t)
		}
		if err == nil {
			err = f(t)
		}
		if err != nil || o != nil && o.ReadOnly {
			_ = tx.Rollback()
			return err
		}
		if err := tx.Commit(); err != nil {
			return &commitError{err}
		}
		return nil
	})
	if err != nil {
		return d.e.explain(err)
	}
	return d.e.file.present() // if the file was moved during the change, the change may be lost
}

// retry calls try until it succeeds. It stops if again returns false for the error, if ctx ends, or
// after the time most. The last call of try may take longer.
func retry(ctx context.Context, most time.Duration, again func(error) bool, try func() error) error {
	end := time.Now().Add(most)
	pauses := work.Backoff{First: 2 * time.Millisecond, Ceiling: 100 * time.Millisecond}
	for {
		err := try()
		pause := pauses.Fail()
		if err == nil || !again(err) || !time.Now().Add(pause).Before(end) {
			return err
		}
		if err := work.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
