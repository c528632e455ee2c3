package sqldb

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

type peer struct {
	Does          string // "write": write for ever; "migrate": open with the newest version
	Where, Schema string
}

func TestMain(m *testing.M) { peertest.Main(m, peer.run) }

// run prints each note after the database has acknowledged it, with the time.
func (p peer) run(ctx context.Context) error {
	version := 1
	if p.Does == "migrate" {
		version = 2
	}
	d, err := Open(ctx, p.Where, app(version, p.Schema))
	if err != nil {
		return err
	}
	for p.Does != "migrate" {
		n, err := add(ctx, d)
		if err != nil {
			return err
		}
		fmt.Println(n, time.Now().UnixNano())
		time.Sleep(5 * time.Millisecond) // gives the others a turn
	}
	return d.Close()
}

// app is an application that keeps notes. In its version 2, each note has its length.
func app(version int, schema string) Options {
	files := fstest.MapFS{}
	for v, text := range []string{
		"CREATE TABLE notes (id BIGINT PRIMARY KEY, body TEXT NOT NULL);",
		"ALTER TABLE notes ADD COLUMN size BIGINT NOT NULL DEFAULT 0; UPDATE notes SET size = LENGTH(body); CREATE INDEX notes_size ON notes (size, body);",
	}[:version] {
		files[fmt.Sprintf("%03d.sql", v+1)] = &fstest.MapFile{Data: []byte(text)}
	}
	return Options{Name: "notes_app", ID: 4711, Schema: schema, Migrations: files}
}

// body is the text of a note.
func body(n int64) string { return strings.Repeat(fmt.Sprint(n, "-"), int(n*37%500)+1) }

// add adds a note and returns its number.
func add(ctx context.Context, d *DB) (n int64, err error) {
	err = d.Write(ctx, func(t *Tx) error {
		if n, err = t.Take("notes"); err != nil {
			return err
		}
		if err := t.Exec("INSERT INTO notes (id, body) VALUES (?, ?)", n, body(n)); err != nil {
			return err
		}
		return t.Changed(fmt.Sprint(n), "added")
	})
	return n, err
}

func count(t *testing.T, d *DB, from string, args ...any) (n int) {
	t.Helper()
	err := d.Read(t.Context(), func(tx *Tx) (err error) {
		n, err = tx.Count(from, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func open(t *testing.T, where string, o Options) *DB {
	t.Helper()
	d, err := Open(t.Context(), where, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// execute runs statements in the database of an application, outside of its own transactions.
func execute(t *testing.T, d *DB, statements string) {
	t.Helper()
	if _, err := d.db.ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// both runs a test with SQLite and with PostgreSQL.
func both(t *testing.T, test func(t *testing.T, where string, o Options)) {
	dbtest.Both(t, func(t *testing.T, where, schema string) { test(t, where, app(1, schema)) })
}
