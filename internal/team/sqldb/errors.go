package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
)

// Error is an error that people can do something about. It wraps fs.ErrPermission if the database is
// read-only or its permissions are wrong, fs.ErrNotExist if a file or folder doesn't exist, and
// syscall.ENOSPC if the disk is full.
type Error struct {
	Text string // what is wrong: a sentence without a full stop that begins with a small letter
	Next string // what to do: an instruction in the same form as Text

	cause error
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.cause }

func fail(next string, cause error, format string, args ...any) error {
	return &Error{Text: fmt.Sprintf(format, args...), Next: next, cause: cause}
}

// commitError is an error of a commit.
type commitError struct{ error }

func (e *commitError) Unwrap() error { return e.error }

// explainFile returns what an error of the file system means for the SQLite file called name.
func explainFile(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fail("create the folder with mkdir, or use another path", fs.ErrNotExist, "the folder of the database %s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return fail("change its permissions, or use another path", fs.ErrPermission, "this user has no permission to write to the database %s", name)
	case errors.Is(err, syscall.EROFS):
		return fail("mount its file system for writing, or use another path", fs.ErrPermission, "the database %s is read-only", name)
	case errors.Is(err, syscall.ENOSPC):
		return fail("free space and try again", syscall.ENOSPC, "the disk with the database %s is full, so nothing was changed", name)
	}
	return fail("use the path of a file", err, "dragoman cannot open the database %s: %v", name, unwrapPath(err))
}

func unwrapPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// explainSQLite returns what an error of SQLite means for the file called name.
func explainSQLite(err error, name string) error {
	var own *Error
	var e *sqlite.Error
	if errors.As(err, &own) || !errors.As(err, &e) {
		return err
	}
	if isBusy(err) {
		return fail("try again; if the error continues, end the other process", err, "another process has been writing to the database %s for more than 15 seconds", name)
	}
	switch e.Code() & 0xff {
	case 8: // SQLITE_READONLY
		return fail("change the permissions of the file and its folder", fs.ErrPermission, "the database %s is read-only", name)
	case 10, 14: // SQLITE_IOERR, SQLITE_CANTOPEN
		return fail("check the disk, and the permissions of the file and its folder", err, "dragoman cannot read or write the database %s", name)
	case 11: // SQLITE_CORRUPT
		return fail("restore it from a backup, or recover it with the command .recover of sqlite3", err, "the database %s is damaged", name)
	case 13: // SQLITE_FULL
		return fail("free space and try again", syscall.ENOSPC, "the disk with the database %s is full, so nothing was changed", name)
	case 26: // SQLITE_NOTADB
		return fail("use the path of another file", err, "%s is not an SQLite database", name)
	}
	return err
}

// lostRace reports whether PostgreSQL has undone a transaction because of another one, or because an
// administrator ended the connection. If the connection ended during the commit, nobody knows.
func lostRace(err error) bool {
	var p *pgconn.PgError
	var commit *commitError
	return errors.As(err, &p) && (p.Code == "40001" || p.Code == "40P01" || p.Code == "57P01" && !errors.As(err, &commit))
}

// explainPostgres returns what an error of PostgreSQL means for the database called name.
func explainPostgres(err error, name, schema string) error {
	var own *Error
	var p *pgconn.PgError
	var connecting *pgconn.ConnectError
	var commit *commitError
	if errors.As(err, &own) {
		return err
	}
	code := ""
	if errors.As(err, &p) {
		code = p.Code
	}
	switch code {
	case "28P01", "28000":
		return fail("check the user in the URL, and the variable PGPASSWORD", fs.ErrPermission, "the database %s refuses the user or the password", name)
	case "3D000":
		return fail("create it with createdb, or use another name", fs.ErrNotExist, "the database %s does not exist", name)
	case "42501":
		return fail("grant CREATE on the database, or create the schema "+schema+" for this user", fs.ErrPermission, "the user has no permission in the database %s: %s", name, p.Message)
	case "25006":
		return fail("use the URL of the primary server, and a user who may write", fs.ErrPermission, "the database %s is read-only", name)
	case "55P03":
		return fail("try again; if the error continues, end the other process", err, "another process has been writing to the database %s for more than 15 seconds", name)
	case "53100":
		return fail("free space and try again", syscall.ENOSPC, "the disk with the database %s is full, so nothing was changed", name)
	case "53300":
		return fail("close connections, or raise max_connections", err, "the database %s has no connection left", name)
	case "XX001", "XX002":
		return fail("restore it from a backup", err, "the database %s is damaged", name)
	case "42P01", "3F000":
		return fail("put them back, or restart dragoman", err, "the tables in the schema %s of the database %s were moved or deleted while dragoman was running", schema, name)
	}
	switch {
	case errors.As(err, &connecting):
		return fail("check the URL, and check that PostgreSQL is running at the address in it", err, "dragoman cannot connect to the database %s", name)
	case errors.As(err, &commit) && (code == "" || code == "57P01"):
		return fail("look whether it was made before you try again", err, "the connection to the database %s ended during a change, so nobody knows whether it was made", name)
	}
	return err
}
