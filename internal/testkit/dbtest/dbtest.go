// Package dbtest runs the tests of whatever stands on sqldb with both of its databases.
//
// SQLite needs nothing. PostgreSQL is at the URL in DRAGOMAN_TEST_POSTGRES, which .ci/postgres sets
// for the command that it runs; without it, these tests are skipped. Each test has a file or a schema
// of its own, so tests may run at the same time. The test program must import sqldb, which brings the
// driver.
package dbtest

import (
	"database/sql"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// URL returns the URL of a PostgreSQL database, or skips the test.
func URL(t *testing.T) string {
	t.Helper()
	url := os.Getenv("DRAGOMAN_TEST_POSTGRES")
	if url == "" {
		t.Skip("set DRAGOMAN_TEST_POSTGRES to the URL of a PostgreSQL database, for example postgres://me@127.0.0.1/test, or run the test with .ci/postgres")
	}
	return url
}

// Exec runs a statement in the database at a URL.
func Exec(t *testing.T, url, statement string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// Both runs a test with SQLite and with PostgreSQL. where is the database. schema is its PostgreSQL
// schema, and "" for SQLite.
func Both(t *testing.T, test func(t *testing.T, where, schema string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "a b?c#%41.db"), "")
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := URL(t)
		folder, err := os.Getwd() // that of the package: others may have a test of the same name
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ToLower(strings.NewReplacer("/", "_", "#", "_").Replace(t.Name()))
		schema := fmt.Sprintf("test_%08x_%s", crc32.ChecksumIEEE([]byte(folder)), name)
		drop := func() { Exec(t, url, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") }
		drop()
		t.Cleanup(drop)
		test(t, url, schema)
	})
}
