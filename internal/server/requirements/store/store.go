package store

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
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
type Store struct{ db *sqldb.DB }

// migrations contains one SQL file for each version of the tables. A file never changes after it
// has been released.
//
//go:embed migrations/*.sql
var migrations embed.FS

// Open opens a database, and creates or updates its tables. It returns an error if a newer version
// of Dragoman has changed the tables, or if another program uses the database.
func Open(ctx context.Context, o Options) (*Store, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := sqldb.Open(ctx, o.Database, sqldb.Options{
		Name: "dragoman_requirements", ID: 0x44725271, Schema: o.Schema, Migrations: files, Existing: o.Existing,
	})
	if o.Existing && errors.Is(err, fs.ErrNotExist) {
		return nil, fail(Unusable, "name the database with --db; the server creates it when it starts", "%v", err)
	}
	if err != nil {
		return nil, unusable(err)
	}
	return &Store{db: db}, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// txn is a transaction.
type txn struct{ *sqldb.Tx }

// write makes a change in a transaction and returns its result; see sqldb.DB.Write. change may be
// called several times.
func write[T any](ctx context.Context, s *Store, change func(*txn) (T, error)) (result T, err error) {
	err = s.db.Write(ctx, func(t *sqldb.Tx) error {
		result, err = change(&txn{t})
		return err
	})
	return result, unusable(err)
}

// read returns the result of queries on one snapshot of the database; see sqldb.DB.Read. queries may be
// called several times.
func read[T any](ctx context.Context, s *Store, queries func(*txn) (T, error)) (result T, err error) {
	err = s.db.Read(ctx, func(t *sqldb.Tx) error {
		result, err = queries(&txn{t})
		return err
	})
	return result, unusable(err)
}

// write makes a change that has no result.
func (s *Store) write(ctx context.Context, change func(*txn) error) error {
	return unusable(s.db.Write(ctx, func(t *sqldb.Tx) error { return change(&txn{t}) }))
}

// read runs queries on one snapshot of the database.
func (s *Store) read(ctx context.Context, queries func(*txn) error) error {
	return unusable(s.db.Read(ctx, func(t *sqldb.Tx) error { return queries(&txn{t}) }))
}

// all runs a query and returns a value for each row of the result.
func all[T any](t *txn, value func(scan func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	return sqldb.All(t.Tx, value, query, args...)
}
