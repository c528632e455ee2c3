package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
)

// connector opens SQLite connections. SQLite can return an error at once while another process
// opens or closes the database, because SQLite's own timeout does not apply when a process turns on
// WAL or recovers the log. After such an error, Connect tries again.
type connector struct {
	driver sqlite.Driver // the zero Driver adds no hooks and no functions to SQLite
	dsn    string
	wait   time.Duration
}

func (c *connector) Driver() driver.Driver { return &c.driver }

func (c *connector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	err = retry(ctx, c.wait, isBusy, func() error {
		conn, err = c.driver.Open(c.dsn)
		return err
	})
	return conn, err
}

// isBusy reports whether err means that another connection is using the SQLite database.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == 5 || e.Code()&0xff == 6) // SQLITE_BUSY, SQLITE_LOCKED
}

// file is an SQLite file.
type file struct {
	path   string
	called string      // the path in errors
	opened os.FileInfo // of the file that is open
}

// sqliteFile prepares an SQLite file. A connection waits for other processes. With WAL, processes can
// read while another one writes. With synchronous=FULL, a commit returns when the operating system
// says that the log is on the disk.
func sqliteFile(path string, o Options) (driver.Connector, *engine, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, err
	}
	f := &file{path: path, called: strconv.Quote(path)}
	if err := f.find(o); err != nil {
		return nil, nil, err
	}
	slashed := filepath.ToSlash(path)
	if runtime.GOOS == "windows" && !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: "_txlock=immediate" +
		fmt.Sprintf("&_pragma=busy_timeout(%d)", o.wait.Milliseconds()) +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"}
	e := sqliteEngine(f.called, o)
	e.file = f
	return &connector{dsn: u.String(), wait: o.wait}, e, nil
}

// memory prepares a new database in memory. All connections of the DB share it.
func memory(o Options) (driver.Connector, *engine) {
	name := strconv.FormatUint(memories.Add(1), 10)
	return &connector{wait: o.wait, dsn: "file:/" + name + "?vfs=memdb&_txlock=immediate&_pragma=foreign_keys(1)" +
		fmt.Sprintf("&_pragma=busy_timeout(%d)", o.wait.Milliseconds())}, sqliteEngine("in memory", o)
}

var memories atomic.Uint64 // counts the databases in memory, to name them

func sqliteEngine(called string, o Options) *engine {
	return &engine{
		called:  called,
		tables:  "SELECT name FROM sqlite_master WHERE type = 'table'",
		changes: "changes",
		bind:    func(q string) string { return q },
		explain: func(err error) error { return explainSQLite(err, called) },
		again:   isBusy,
		lock:    func(*Tx) error { return nil }, // because of _txlock
		create:  func(t *Tx) error { return t.Exec(fmt.Sprintf("PRAGMA application_id = %d", o.ID)) },
		wait:    o.wait,
	}
}

// find looks at the file, and creates it if it is missing. It doesn't open a file that exists: a process
// that closes any descriptor of a file loses all its locks on the file, also those of a DB that has it
// open already.
func (f *file) find(o Options) (err error) {
	f.opened, err = os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		if o.Existing {
			return fail("name another database", err, "there is no database %s", f.called)
		}
		if o.Private {
			if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
				return explainFile(err, f.called)
			}
			if err := f.private(); err != nil {
				return err // before there is a file, which the next Open would refuse
			}
		}
		var created *os.File
		if created, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
			f.opened, err = created.Stat()
			_ = created.Close()
		}
	}
	switch {
	case err != nil:
		return explainFile(err, f.called)
	case !f.opened.Mode().IsRegular():
		return fail("use the path of a file", nil, "%s is not a file", f.called)
	case o.Private:
		return f.private()
	}
	return nil
}

// CanCreate returns the error with which Open would fail to create a missing SQLite file, as far as that
// can be seen without creating anything. On Windows it sees nothing.
func CanCreate(path string, o Options) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	f := &file{path: path, called: strconv.Quote(path)}
	folder := filepath.Dir(path)
	if o.Private {
		for missing(folder) && folder != filepath.Dir(folder) {
			folder = filepath.Dir(folder)
		}
	}
	err = explainFile(writable(folder), f.called)
	if err == nil && o.Private && folder == filepath.Dir(path) {
		err = f.private()
	}
	return err
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// private returns an error if others can read the file, or replace it. There may be no file yet.
func (f *file) private() error {
	dir, err := os.Stat(filepath.Dir(f.path))
	switch {
	case runtime.GOOS == "windows":
		return nil
	case err != nil:
		return explainFile(err, f.called)
	case dir.Mode().Perm()&0o022 != 0:
		return fail("run chmod go-w on the folder", fs.ErrPermission, "other users can write to the folder of the database %s", f.called)
	case f.opened != nil && f.opened.Mode().Perm()&0o077 != 0:
		return fail("run chmod 600 on the file", fs.ErrPermission, "other users can read the database %s", f.called)
	}
	return nil
}

// present returns an error if the path no longer leads to the file that is open. A nil file is always
// present.
func (f *file) present() error {
	if f == nil {
		return nil
	}
	now, err := os.Stat(f.path)
	if err == nil && os.SameFile(f.opened, now) {
		return nil
	}
	return fail("put the file back, or restart dragoman", err, "the database %s was moved, deleted or replaced while dragoman was running, so a change would be lost", f.called)
}

// keep copies the database to NAME.before-N, because a migration to version N begins. The caller is in
// a transaction that writes, so the copy has what the migration starts from, and no other process makes
// one at the same time. A copy with this name is complete.
func (f *file) keep(ctx context.Context, db *sql.DB, version int) error {
	to := fmt.Sprintf("%s.before-%d", f.path, version)
	if err := f.copyTo(ctx, db, to); err != nil {
		return fail("free space or let dragoman write to the folder, and try again", err, "the database %s can't be copied to %q before its tables are updated: %v", f.called, filepath.Base(to), err)
	}
	return nil
}

// copyTo copies the database as it is at one moment to a file of mode 0600, which it replaces. The file is
// complete, or isn't there.
func (f *file) copyTo(ctx context.Context, db *sql.DB, to string) error {
	part := to + ".part"
	_ = os.Remove(part) // of a process that was killed
	// SQLite takes a file that is empty, and would itself create one that others can read.
	copied, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = db.ExecContext(ctx, "VACUUM INTO ?", part)
		err = errors.Join(err, copied.Sync(), copied.Close())
	}
	if err == nil {
		err = os.Rename(part, to)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(to))
	}
	if err != nil {
		_ = os.Remove(part)
		return explainSQLite(unwrapPath(err), f.called)
	}
	return nil
}

// Backup copies an SQLite file, which others may use meanwhile, to a new file of mode 0600. It doesn't
// update the tables, so it also copies a database of another version. It returns an *Error if there's no
// database, if it belongs to another program or is in PostgreSQL, or if the new file exists.
func Backup(ctx context.Context, where, to string, o Options) error {
	o.Existing = true
	if _, err := os.Lstat(to); err == nil {
		return fail("name a file that doesn't exist", fs.ErrExist, "the file %q exists already", to)
	}
	d, err := connect(ctx, where, o)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if d.e.file == nil {
		return fail("use pg_dump --schema="+cmp.Or(o.Schema, o.Name), nil, "the database %s is in PostgreSQL, which has a program of its own for backups", d.e.called)
	}
	err = d.Read(ctx, func(t *Tx) error {
		_, err := t.version(o, math.MaxInt)
		return err
	})
	if err != nil {
		return err
	}
	if err := d.e.file.copyTo(ctx, d.db, to); err != nil {
		return fail("free space, or use another folder", err, "the database %s can't be copied to %q: %v", d.e.called, to, err)
	}
	return nil
}

// syncFolder makes a renamed file last. Windows can't sync folders, and needs no help.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync()
}
