package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
)

// says checks the sentence and the next step of an error. In want, DB stands for the database.
func says(t *testing.T, err error, called, want string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want %s", err, want)
		return
	}
	got := e.Text + " / " + e.Next
	if got = strings.ReplaceAll(got, called, "DB"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error has the password: %v", err)
	}
}

// refusal is something that Open or a change refuses.
type refusal struct {
	name, want string
	is         error                      // what the error wraps, or nil
	try        func(t *testing.T) error   // or:
	after      func(t *testing.T, d *DB)  // what happens to the database before somebody opens it,
	during     func(d *DB) (change error) // or during a change
}

// refuse checks a refusal. where is a database that exists or not, and called is its name in errors.
func (r refusal) refuse(t *testing.T, where, called string, o Options) {
	o.wait = 200 * time.Millisecond
	var err error
	switch {
	case r.try != nil:
		err = r.try(t)
	case r.after != nil:
		d := open(t, where, o)
		r.after(t, d)
		var again *DB
		if again, err = Open(t.Context(), where, o); err == nil {
			_ = again.Close()
		}
	default:
		err = r.during(open(t, where, o))
	}
	says(t, err, called, r.want)
	if r.is != nil && !errors.Is(err, r.is) {
		t.Errorf("the error isn't %v", r.is)
	}
}

func in(statements string) func(*testing.T, *DB) {
	return func(t *testing.T, d *DB) { execute(t, d, statements) }
}

// everywhere are the refusals of both databases.
var everywhere = []refusal{
	{name: "another program", want: "the database DB has tables of another program / use another database", after: in("DROP TABLE notes_app")},
	{name: "newer", want: "the database DB has schema version 2, and this dragoman knows versions up to 1 / use a newer dragoman, or another database", after: in("UPDATE notes_app SET value = '2'")},
	{name: "unknown version", want: `the database DB has the unknown schema version "x" / restore it from a backup`, after: in("UPDATE notes_app SET value = 'x'")},
	{name: "locked", want: "another process has been writing to the database DB for more than 15 seconds / try again; if the error continues, end the other process", after: func(t *testing.T, d *DB) {
		ready, end := make(chan bool), make(chan bool)
		done := make(chan error)
		d.group.Go(func() {
			done <- d.Write(t.Context(), func(*Tx) error { close(ready); <-end; return nil })
		})
		<-ready
		t.Cleanup(func() {
			close(end)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}},
}

func TestRefuse(t *testing.T) {
	for _, r := range everywhere {
		t.Run(strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
			dbtest.Both(t, func(t *testing.T, where, schema string) {
				o := app(1, schema)
				_, e, err := sqliteFile(where, o)
				if schema != "" {
					_, e, err = postgres(where, o)
				}
				if err != nil {
					t.Fatal(err)
				}
				r.refuse(t, where, e.called, o)
			})
		})
	}
}

func TestRefuseSQLite(t *testing.T) {
	dir := t.TempDir()
	where := func(path string) func(*testing.T) error {
		return func(t *testing.T) error { return opened(t, path, app(1, "")) }
	}
	broken := filepath.Join(dir, "garbage")
	if err := os.WriteFile(broken, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	one := func(statement string) func(*DB) error {
		return func(d *DB) error {
			d.db.SetMaxOpenConns(1) // so that the change gets this connection
			if _, err := d.db.Exec(statement); err != nil {
				return err
			}
			return d.Write(t.Context(), func(tx *Tx) error {
				return tx.Exec("INSERT INTO notes (id, body) VALUES (1, ?)", strings.Repeat("x", 1<<20))
			})
		}
	}
	for _, r := range []refusal{
		{name: "nothing", try: where(""), want: "no database is named / name a file, or a URL such as postgres://user@host/database"},
		{name: "scheme", try: where("mysql://me:secret@x"), want: "the URL of the database has an unknown scheme / name a file, or a URL that begins with postgres://"},
		{name: "folder", try: where(dir), want: fmt.Sprintf("%q is not a file / use the path of a file", dir)},
		{name: "no folder", try: where(filepath.Join(dir, "none", "x.db")), is: fs.ErrNotExist, want: fmt.Sprintf("the folder of the database %q does not exist / create the folder with mkdir, or use another path", filepath.Join(dir, "none", "x.db"))},
		{name: "not SQLite", try: where(broken), want: fmt.Sprintf("%q is not an SQLite database / use the path of another file", broken)},
		{name: "another id", want: "the database DB has tables of another program / use another database", after: in("PRAGMA application_id = 1")},
		{name: "missing", is: fs.ErrNotExist, want: fmt.Sprintf("there is no database %q / name another database", filepath.Join(dir, "x.db")), try: func(t *testing.T) error {
			o := app(1, "")
			o.Existing = true
			return opened(t, filepath.Join(dir, "x.db"), o)
		}},
		{name: "full", want: "the disk with the database DB is full, so nothing was changed / free space and try again", is: syscall.ENOSPC, during: one("PRAGMA max_page_count = 1")},
		{name: "read-only", want: "the database DB is read-only / change the permissions of the file and its folder", is: fs.ErrPermission, during: one("PRAGMA query_only = 1")},
		{name: "damaged", want: "the database DB is damaged / restore it from a backup, or recover it with the command .recover of sqlite3", after: func(t *testing.T, d *DB) {
			path := d.e.file.path
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err == nil {
				copy(content[100:4096], strings.Repeat("\xff", 4096)) // the header stays
				err = os.WriteFile(path, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(r.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			r.refuse(t, path, strconv.Quote(path), app(1, ""))
		})
	}
	if names, err := filepath.Glob(filepath.Join(dir, "x.db*")); err != nil || len(names) > 0 {
		t.Errorf("there are %v, %v", names, err)
	}
}

func opened(t *testing.T, where string, o Options) error {
	d, err := Open(t.Context(), where, o)
	if err == nil {
		_ = d.Close()
	}
	return err
}

// TestRefuseOpenToOthers checks the permissions of a database with secrets.
func TestRefuseOpenToOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	for _, c := range []struct {
		file, folder os.FileMode
		want         string
	}{
		{0o600, 0o755, ""},
		{0o640, 0o700, "other users can read the database DB / run chmod 600 on the file"},
		{0o600, 0o775, "other users can write to the folder of the database DB / run chmod go-w on the folder"},
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		o := app(1, "")
		o.Private = true
		err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, c.file), os.Chmod(filepath.Dir(path), c.folder))
		if err != nil {
			t.Fatal(err)
		}
		err = opened(t, path, o)
		if c.want != "" {
			says(t, err, strconv.Quote(path), c.want)
		} else if err != nil {
			t.Error(err)
		}
		// No file is created that the next Open would refuse.
		o.Private = true
		fresh := filepath.Join(filepath.Dir(path), "fresh.db")
		if err := opened(t, fresh, o); (err == nil) != (c.folder == 0o755 || c.folder == 0o700) || (err == nil) != (CanCreate(fresh+"2", o) == nil) {
			t.Errorf("a new file in a folder of mode %v: %v", c.folder, err)
		}
		if _, err := os.Stat(fresh); (err == nil) != (c.folder != 0o775) {
			t.Errorf("after that: %v", err)
		}
		o.Private = false
		if err := opened(t, path, o); err != nil {
			t.Errorf("without secrets: %v", err)
		}
	}
}

// TestCanCreate compares CanCreate with what Open does then.
func TestCanCreate(t *testing.T) {
	dir := t.TempDir()
	locked, file := filepath.Join(dir, "locked"), filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(locked, 0o500), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		filepath.Join(dir, "x.db"), filepath.Join(dir, "a", "b", "x.db"), filepath.Join(locked, "x.db"),
		filepath.Join(locked, "a", "x.db"), filepath.Join(file, "x.db"), filepath.Join(file, "a", "x.db"),
	} {
		for _, private := range []bool{false, true} {
			o := app(1, "")
			o.Private = private
			can := CanCreate(path, o)
			if _, err := os.Stat(path); err == nil {
				t.Fatalf("CanCreate has created %s", path)
			}
			err := opened(t, path, o)
			if runtime.GOOS == "windows" && can == nil {
				continue
			}
			if (can == nil) != (err == nil) || can != nil && can.Error() != err.Error() {
				t.Errorf("%s, private %v: CanCreate says %v, and Open %v", path, private, can, err)
			}
			_ = os.Remove(path)
			if dir != filepath.Dir(path) {
				_ = os.RemoveAll(filepath.Join(dir, "a"))
			}
		}
	}
}

func TestRefuseFile(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{syscall.EACCES, "this user has no permission to write to the database DB / change its permissions, or use another path"},
		{syscall.EROFS, "the database DB is read-only / mount its file system for writing, or use another path"},
		{syscall.ENOSPC, "the disk with the database DB is full, so nothing was changed / free space and try again"},
		{errors.New("bad luck"), "dragoman cannot open the database DB: bad luck / use the path of a file"},
	} {
		says(t, explainFile(&fs.PathError{Op: "open", Path: "x", Err: c.err}, "DB"), "DB", c.want)
	}
}

func TestRefusePostgres(t *testing.T) {
	url := dbtest.URL(t)
	raises := func(code string) func(*DB) error {
		return func(d *DB) error {
			return d.Write(t.Context(), func(tx *Tx) error {
				return tx.Exec("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '" + code + "'; END $$")
			})
		}
	}
	where := func(url string) func(*testing.T) error {
		return func(t *testing.T) error { return opened(t, url, app(1, "")) }
	}
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	at := func(user, database, parameters string) string {
		return fmt.Sprintf("postgres://%s:secret@%s:%d/%s%s", user, c.Host, c.Port, database, parameters)
	}
	const schema, stranger = "test_refuse", "dragoman_test_stranger"
	dbtest.Exec(t, url, "DROP ROLE IF EXISTS "+stranger+"; CREATE ROLE "+stranger+" LOGIN")
	t.Cleanup(func() { dbtest.Exec(t, url, "DROP ROLE "+stranger) })
	for _, r := range []refusal{
		{name: "URL", try: where("postgres://me:secret@127.0.0.1:notaport/x"), want: "the URL of the database is not valid / use a URL such as postgres://user@host:5432/database"},
		{name: "nobody there", try: where("postgres://me:secret@127.0.0.1:1/x"), want: `dragoman cannot connect to the database "x" on "127.0.0.1" / check the URL, and check that PostgreSQL is running at the address in it`},
		{name: "no database", is: fs.ErrNotExist, try: where(at(c.User, "none", "")), want: `the database "none" on "` + c.Host + `" does not exist / create it with createdb, or use another name`},
		{name: "unknown user", try: where(at("nobody", c.Database, "")), want: "the database DB refuses the user or the password / check the user in the URL, and the variable PGPASSWORD"},
		{name: "no permission", is: fs.ErrPermission, try: where(at(stranger, c.Database, "")), want: "the user has no permission in the database DB: permission denied for database " + c.Database + " / grant CREATE on the database, or create the schema notes_app for this user"},
		{name: "read-only", is: fs.ErrPermission, try: where(at(c.User, c.Database, "?default_transaction_read_only=on")), want: "the database DB is read-only / use the URL of the primary server, and a user who may write"},
		{name: "full", is: syscall.ENOSPC, during: raises("53100"), want: "the disk with the database DB is full, so nothing was changed / free space and try again"},
		{name: "damaged", during: raises("XX001"), want: "the database DB is damaged / restore it from a backup"},
		{name: "no connection", during: raises("53300"), want: "the database DB has no connection left / close connections, or raise max_connections"},
		{name: "deleted", want: "the tables in the schema test_refuse of the database DB were moved or deleted while dragoman was running / put them back, or restart dragoman", during: func(d *DB) error {
			dbtest.Exec(t, url, "DROP SCHEMA "+schema+" CASCADE")
			_, err := add(t.Context(), d)
			return err
		}},
		{name: "lost", want: "the connection to the database DB ended during a change, so nobody knows whether it was made / look whether it was made before you try again", during: func(d *DB) error {
			return d.e.explain(&commitError{errors.New("unexpected EOF")})
		}},
	} {
		t.Run(r.name, func(t *testing.T) {
			dbtest.Exec(t, url, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
			r.refuse(t, url, fmt.Sprintf("%q on %q", c.Database, c.Host), app(1, schema))
		})
	}
	dbtest.Exec(t, url, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
}

// TestEndedConnection lets an administrator end the connection of a change. We do it again.
func TestEndedConnection(t *testing.T) {
	url := dbtest.URL(t)
	drop := func() { dbtest.Exec(t, url, "DROP SCHEMA IF EXISTS test_ended CASCADE") }
	drop()
	t.Cleanup(drop)
	d, ran := open(t, url, app(1, "test_ended")), 0
	err := d.Write(t.Context(), func(tx *Tx) error {
		if ran++; ran > 1 {
			return tx.Changed("x", "made")
		}
		return tx.Exec("SELECT pg_terminate_backend(pg_backend_pid())")
	})
	if last, lastErr := d.Last(t.Context()); err != nil || ran != 2 || last != 1 || lastErr != nil {
		t.Errorf("%d runs and %d changes: %v, %v", ran, last, err, lastErr)
	}
}
