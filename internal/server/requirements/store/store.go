package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Options say which database a Store uses.
type Options struct {
	// Database is the path of an SQLite file, or a URL that begins with postgres:// or
	// postgresql://. Open creates a missing file with mode 0600.
	Database string
	// If Existing is true, Open returns an error for a missing SQLite file instead of creating it.
	Existing bool
	// Schema is the PostgreSQL schema with the tables. "" means dragoman_requirements.
	Schema string
}

// Store is an open database. Close it after use.
type Store struct {
	db     *sql.DB
	engine engine
	turn   chan struct{} // a lock: contains one value while a change runs
	now    func() time.Time

	mu     sync.Mutex
	idle   *time.Timer    // runs checkpoint; nil before the first change
	tidy   sync.WaitGroup // running checkpoints
	closed bool
}

// idleAfter is how long after the last change the log is moved into the SQLite file. Until then,
// a copy of the file alone lacks the newest changes.
const idleAfter = 5 * time.Second

// connections is the maximum number of connections that a Store opens.
const connections = 4

// patience is the maximum time for one change, and for opening a database.
const patience = 30 * time.Second

// Open opens a database, and creates or updates its tables. It returns an error if a newer version
// of Dragoman has changed the tables, or if another program uses the database.
func Open(ctx context.Context, o Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	db, e, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s := &Store{db: db, engine: e, turn: make(chan struct{}, 1), now: time.Now}
	if err := s.migrate(ctx); err != nil {
		_ = db.Close()
		return nil, e.explain(err)
	}
	return s, nil
}

// Close closes the database.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.tidy.Wait()
	return s.db.Close()
}

// tidyLater moves the log into the file when no change has been made for a while.
func (s *Store) tidyLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.engine.checkpoint == "" || s.closed:
	case s.idle == nil:
		s.idle = time.AfterFunc(idleAfter, s.checkpoint)
	default:
		s.idle.Reset(idleAfter)
	}
}

func (s *Store) checkpoint() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.tidy.Add(1)
	s.mu.Unlock()
	defer s.tidy.Done()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.engine.moved() == nil {
		_, _ = s.db.ExecContext(ctx, s.engine.checkpoint) // the log stays if another process uses it
	}
}

// present returns an error if the database is not where it was.
func (s *Store) present() error {
	if s.engine.moved == nil {
		return nil
	}
	return s.engine.moved()
}

// txn is a transaction.
type txn struct {
	ctx context.Context
	tx  *sql.Tx
	e   engine
	at  string // the time of all changes in the transaction
}

// write runs a change in a transaction. If write returns nil, the database has confirmed that the
// change is on the disk. While write waits for other changes by this process, it returns if ctx
// ends. After that, it ignores ctx, so that the caller always learns whether the change was made.
func (s *Store) write(ctx context.Context, change func(*txn) error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.present(); err != nil {
		return err
	}
	defer s.tidyLater()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.engine.explain(err)
	}
	t := &txn{ctx: ctx, tx: tx, e: s.engine, at: stamp(s.now())}
	if s.engine.lock != "" {
		_, err = tx.ExecContext(ctx, s.engine.lock)
	}
	if err == nil {
		err = change(t)
	}
	if err != nil {
		_ = tx.Rollback()
		return s.engine.explain(err)
	}
	if err := tx.Commit(); err != nil {
		return s.engine.explain(err)
	}
	return s.present() // if the file was moved during the change, the change may be lost
}

// read runs queries on one snapshot of the database.
func (s *Store) read(ctx context.Context, queries func(*txn) error) error {
	if err := s.present(); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: s.engine.snapshot})
	if err != nil {
		return s.engine.explain(err)
	}
	defer func() { _ = tx.Rollback() }()
	return s.engine.explain(queries(&txn{ctx: ctx, tx: tx, e: s.engine}))
}

// write makes a change in a transaction and returns its result; see Store.write.
func write[T any](ctx context.Context, s *Store, change func(*txn) (T, error)) (result T, err error) {
	err = s.write(ctx, func(t *txn) error {
		result, err = change(t)
		return err
	})
	return result, err
}

// read returns the result of queries on one snapshot of the database.
func read[T any](ctx context.Context, s *Store, queries func(*txn) (T, error)) (result T, err error) {
	err = s.read(ctx, func(t *txn) error {
		result, err = queries(t)
		return err
	})
	return result, err
}

func (t *txn) exec(query string, args ...any) error {
	_, err := t.tx.ExecContext(t.ctx, t.e.bind(query), args...)
	return err
}

// row reads one row. The error is sql.ErrNoRows if the query finds no row.
func (t *txn) row(query string, args []any, into ...any) error {
	return t.tx.QueryRowContext(t.ctx, t.e.bind(query), args...).Scan(into...)
}

// each runs a query and calls scan for each row of the result.
func (t *txn) each(scan func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := t.tx.QueryContext(t.ctx, t.e.bind(query), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// all runs a query and returns a value for each row of the result.
func all[T any](t *txn, value func(scan func(...any) error) (T, error), query string, args ...any) (list []T, err error) {
	err = t.each(func(scan func(...any) error) error {
		one, err := value(scan)
		list = append(list, one)
		return err
	}, query, args...)
	return list, err
}

// count returns the number of rows that a query finds. from is the part of the query that begins
// with FROM.
func (t *txn) count(from string, args ...any) (n int, err error) {
	return n, t.row("SELECT COUNT(*) "+from, args, &n)
}

// take increments a counter and returns its new value. So each number is used only once.
func (t *txn) take(counter string) (n int64, err error) {
	if err := t.exec("INSERT INTO counters (name, last) VALUES (?, 0) ON CONFLICT (name) DO NOTHING", counter); err != nil {
		return 0, err
	}
	return n, t.row("UPDATE counters SET last = last + 1 WHERE name = ? RETURNING last", []any{counter}, &n)
}

// stamp returns t in the format of times in the database.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// numbered replaces the question marks in a query by $1, $2 and so on, which PostgreSQL needs.
func numbered(query string) string {
	parts := strings.Split(query, "?")
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(part)
		if i < len(parts)-1 {
			fmt.Fprintf(&b, "$%d", i+1)
		}
	}
	return b.String()
}
