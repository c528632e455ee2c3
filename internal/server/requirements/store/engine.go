package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
)

// engine contains what differs between SQLite and PostgreSQL.
type engine struct {
	name     string // the name of the database in errors
	tables   string // the part of a query that begins with FROM and selects all tables
	marker   string // the part of a query that begins with FROM and selects the table that only databases of this program have
	snapshot sql.IsolationLevel
	lock     string // a query that makes a transaction wait until no other transaction makes changes; "" if none is needed
	bind     func(query string) string
	explain  func(error) error // turns known errors of the driver into an *Error
	// moved returns an error if the path of the database no longer leads to the file that is open.
	// It is nil for PostgreSQL.
	moved      func() error
	checkpoint string // a statement that moves all changes from the log to the file; "" if there is no log
}

// schemaName is the default of Options.Schema.
const schemaName = "dragoman_requirements"

// IsURL reports whether database is the URL of a PostgreSQL database, and not the path of a file.
func IsURL(database string) bool {
	return strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://")
}

func connect(ctx context.Context, o Options) (*sql.DB, engine, error) {
	switch {
	case o.Database == "":
		return nil, engine{}, fail(Unusable, "name a file, or a URL such as postgres://user@host/database", "no database is named")
	case IsURL(o.Database):
		return postgres(ctx, o)
	case strings.Contains(o.Database, "://"):
		return nil, engine{}, fail(Unusable, "name a file, or a URL that begins with postgres://", "the URL of the database has an unknown scheme")
	}
	return file(o.Database, o.Existing)
}

// busyTimeout is the maximum time that an SQLite connection waits for other processes.
const busyTimeout = 15 * time.Second

// connector opens SQLite connections. SQLite can return an error at once while another process
// opens or closes the database, because SQLite's own timeout does not apply when a process turns on
// WAL or recovers the log. After such an error, Connect tries again.
type connector struct {
	driver sqlite.Driver // the zero Driver adds no hooks and no functions to SQLite
	dsn    string
}

func (c *connector) Driver() driver.Driver { return &c.driver }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	return retry(ctx, isBusy, func() (driver.Conn, error) { return c.driver.Open(c.dsn) })
}

// retry calls open until open succeeds. It stops if again returns false for the error of open, if
// ctx ends, or after busyTimeout. The last call of open may itself wait in SQLite for another
// busyTimeout.
func retry(ctx context.Context, again func(error) bool, open func() (driver.Conn, error)) (driver.Conn, error) {
	end := time.Now().Add(busyTimeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		conn, err := open()
		if err == nil || !again(err) || !time.Now().Add(pause).Before(end) {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// isBusy reports whether err means that another connection is using the SQLite database.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == 5 || e.Code()&0xff == 6) // SQLITE_BUSY, SQLITE_LOCKED
}

// file opens an SQLite database. It creates the file if the file does not exist and existing is
// false. A connection waits up to busyTimeout for other processes. With WAL, processes can read
// while another process writes. With synchronous=FULL, a commit returns when the operating system
// says that the log is on the disk.
func file(path string, existing bool) (*sql.DB, engine, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, engine{}, err
	}
	name := quote(path)
	create := os.O_CREATE
	if existing {
		create = 0
	}
	f, err := os.OpenFile(path, os.O_RDWR|create, 0o600)
	switch {
	case existing && errors.Is(err, fs.ErrNotExist):
		return nil, engine{}, fail(Unusable, "name the database with --db; the server creates it when it starts", "there is no database %s", name)
	case errors.Is(err, fs.ErrNotExist):
		return nil, engine{}, fail(Unusable, "create the folder with mkdir, or use another path", "the folder of the database %s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return nil, engine{}, fail(Unusable, "change its permissions, or use another path", "this user has no permission to write to the database %s", name)
	case err != nil:
		return nil, engine{}, fail(Unusable, "use the path of a file", "the server cannot open the database %s: %v", name, unwrapPath(err))
	}
	fi, err := f.Stat()
	_ = f.Close()
	if err != nil || !fi.Mode().IsRegular() {
		return nil, engine{}, fail(Unusable, "use the path of a file", "%s is not a file", name)
	}
	slashed := filepath.ToSlash(path)
	if runtime.GOOS == "windows" && !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: "_txlock=immediate" +
		fmt.Sprintf("&_pragma=busy_timeout(%d)", busyTimeout.Milliseconds()) +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"}
	return sql.OpenDB(&connector{dsn: u.String()}), engine{
		name: name,
		moved: func() error {
			now, err := os.Stat(path)
			if err == nil && os.SameFile(fi, now) {
				return nil
			}
			return fail(Unusable, "put the file back, or restart the server", "the database %s was moved, deleted or replaced while the server was running, so a change would be lost", name)
		},
		checkpoint: "PRAGMA wal_checkpoint(TRUNCATE)",
		tables:     "FROM sqlite_master WHERE type = 'table'",
		marker:     "FROM sqlite_master WHERE type = 'table' AND name = 'dragoman_requirements'",
		bind:       func(q string) string { return q },
		explain:    func(err error) error { return explainSQLite(err, name) },
	}, nil
}

// explainSQLite returns what an error of SQLite means for the database called name.
func explainSQLite(err error, name string) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	if isBusy(err) {
		return fail(Unusable, "try again; if the error continues, end the other process", "another process has been writing to the database %s for more than 15 seconds", name)
	}
	switch e.Code() & 0xff {
	case 8: // SQLITE_READONLY
		return fail(Unusable, "change the permissions of the file and its folder", "the database %s is read-only", name)
	case 10, 14: // SQLITE_IOERR, SQLITE_CANTOPEN
		return fail(Unusable, "check the disk, and the permissions of the folder", "the server cannot read or write the database %s", name)
	case 11: // SQLITE_CORRUPT
		return fail(Unusable, "restore it from a backup, or recover it with the command .recover of sqlite3", "the database %s is damaged", name)
	case 13: // SQLITE_FULL
		return fail(Unusable, "free space and try again", "the disk with the database %s is full, so nothing was changed", name)
	case 26: // SQLITE_NOTADB
		return fail(Unusable, "use the path of another file", "%s is not an SQLite database", name)
	}
	return err
}

func unwrapPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// postgres opens a PostgreSQL database, and creates the schema if it does not exist. The password
// may come from the environment variable PGPASSWORD or from a password file.
func postgres(ctx context.Context, o Options) (*sql.DB, engine, error) {
	c, err := pgx.ParseConfig(o.Database)
	if err != nil {
		return nil, engine{}, fail(Unusable, "use a URL such as postgres://user@host:5432/database", "the URL of the database is not valid")
	}
	schema := o.Schema
	if schema == "" {
		schema = schemaName
	}
	name := fmt.Sprintf("%s on %s", quote(c.Database), quote(c.Host))
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	c.RuntimeParams["search_path"] = pgx.Identifier{schema}.Sanitize()
	c.RuntimeParams["application_name"] = "dragoman-requirements"
	c.RuntimeParams["synchronous_commit"] = "on"
	e := engine{
		name:     name,
		tables:   "FROM information_schema.tables WHERE table_schema = current_schema()",
		marker:   "FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'dragoman_requirements'",
		snapshot: sql.LevelRepeatableRead,
		lock:     "SELECT pg_advisory_xact_lock(hashtext(current_schema()))",
		bind:     numbered,
	}
	e.explain = func(err error) error {
		var connecting *pgconn.ConnectError
		var p *pgconn.PgError
		switch {
		case errors.As(err, &p) && (p.Code == "28P01" || p.Code == "28000"):
			return fail(Unusable, "check the user in the URL, and the variable PGPASSWORD", "the database %s refuses the user or the password", name)
		case errors.As(err, &p) && p.Code == "3D000":
			return fail(Unusable, "create it with createdb, or use another name", "the database %s does not exist", name)
		case errors.As(err, &p) && p.Code == "42501":
			return fail(Unusable, "grant CREATE on the database, or create the schema "+schema+" for this user", "the user has no permission in the database %s: %s", name, p.Message)
		case errors.As(err, &connecting):
			return fail(Unusable, "check the URL, and check that PostgreSQL is running at the address in it", "the server cannot connect to the database %s", name)
		}
		return err
	}
	db := stdlib.OpenDB(*c)
	var exists bool
	if err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = $1)", schema).Scan(&exists); err == nil && !exists {
		_, err = db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize())
		if p := (*pgconn.PgError)(nil); errors.As(err, &p) && p.Code == "23505" {
			err = nil // another process created the schema at the same time
		}
	}
	if err != nil {
		_ = db.Close()
		return nil, engine{}, e.explain(err)
	}
	return db, e, nil
}
