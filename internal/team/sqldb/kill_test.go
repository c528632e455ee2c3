package sqldb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// kills is how often TestKill kills a writer, and migrations how often TestKillMigration kills a
// migration.
const kills, migrations = 50, 20

// TestKill kills processes while they write. The database must have each change that a killed process
// had acknowledged.
func TestKill(t *testing.T) {
	both(t, func(t *testing.T, where string, o Options) {
		acknowledged := map[int64]bool{}
		for round := range kills {
			c, out := peertest.Start(t, peer{"write", where, o.Schema})
			for lines := 0; out.Scan(); {
				var n, at int64
				if got, _ := fmt.Sscan(out.Text(), &n, &at); got == 2 { // or else it was killed in this line
					acknowledged[n] = true
				}
				if lines++; lines == round%7+1 {
					_ = c.Process.Kill() // SIGKILL; we still read the lines that are in the pipe
				}
			}
			_ = c.Wait()
			d, err := Open(t.Context(), where, o)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for n := range acknowledged {
				if count(t, d, "FROM notes WHERE id = ? AND body = ?", n, body(n)) != 1 {
					t.Errorf("round %d: note %d was acknowledged and is lost", round, n)
				}
			}
			intact(t, d)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(acknowledged) < kills {
			t.Errorf("only %d changes were acknowledged", len(acknowledged))
		}
		t.Logf("%d acknowledged changes survived %d kills", len(acknowledged), kills)
	})
}

func intact(t *testing.T, d *DB) {
	t.Helper()
	if d.e.file == nil {
		return
	}
	var check string
	if err := d.db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("the check says %s (%v)", check, err)
	}
}

// TestKillMigration kills processes while they migrate, at moments that cover the whole migration. The
// next process must be able to migrate, and the copy of the old database must be complete.
func TestKillMigration(t *testing.T) {
	const rows = 5000
	both(t, func(t *testing.T, where string, o Options) {
		d := open(t, where, o)
		execute(t, d, fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) INSERT INTO notes (id, body) SELECT i, 'the text of note ' || i FROM n", rows))
		took, undone, kept := time.Duration(0), 0, 0
		for round := range migrations + 1 { // the first one isn't killed, but measured
			start := time.Now()
			c, _ := peertest.Start(t, peer{"migrate", where, o.Schema})
			if round > 0 {
				time.Sleep(took * time.Duration(round) / migrations)
				_ = c.Process.Kill()
			}
			err := c.Wait()
			if took = max(took, time.Since(start)); round == 0 && err != nil {
				t.Fatal(err)
			}
			if count(t, d, "FROM notes_app WHERE name = 'schema' AND value = '1'") == 1 {
				undone++
			}
			kept += beforeMigration(t, where, o, rows)
			next, err := Open(t.Context(), where, app(2, o.Schema))
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if n := count(t, next, "FROM notes WHERE size = LENGTH(body)"); n != rows {
				t.Errorf("round %d: %d notes", round, n)
			}
			intact(t, next)
			if err := next.Close(); err != nil {
				t.Error(err)
			}
			beforeMigration(t, where, o, rows)
			if _, err := os.Stat(where + ".before-2.part"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("round %d: half a copy is left: %v", round, err)
			}
			_ = os.Remove(where + ".before-2")
			execute(t, d, "DROP INDEX notes_size")
			execute(t, d, "ALTER TABLE notes DROP COLUMN size")
			execute(t, d, "UPDATE notes_app SET value = '1'")
		}
		if undone == 0 || undone > migrations {
			t.Errorf("%d of %d migrations were undone", undone, migrations)
		}
		t.Logf("%d migrations, %d undone, %d copies", migrations, undone, kept)
	})
}

// beforeMigration checks the copy of a database, and returns 1 if there is one.
func beforeMigration(t *testing.T, where string, o Options, rows int) int {
	t.Helper()
	name := where + ".before-2"
	fi, err := os.Stat(name)
	if strings.Contains(where, "://") || errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil || fi.Mode().Perm()&0o077 != 0 {
		t.Errorf("the copy: %v, %v", fi.Mode(), err)
	}
	// The copy is copied once more, since opening it adds a log.
	content, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name+".read", content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), name+".read", o)
	if err != nil {
		t.Fatal(err)
	}
	intact(t, d)
	if n := count(t, d, "FROM notes"); n != rows {
		t.Errorf("the copy has %d notes", n)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	return 1
}
