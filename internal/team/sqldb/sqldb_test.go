package sqldb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// TestProcesses lets two other processes write, while we write and follow. Each change has a number of
// its own, and we hear of each within a second.
func TestProcesses(t *testing.T) {
	const each = 20
	both(t, func(t *testing.T, where string, o Options) {
		d := open(t, where, o)
		var mu sync.Mutex
		heard, last := map[string]time.Time{}, int64(0)
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			d.Follow(ctx, 0, func(list []Change, complete bool) error {
				mu.Lock()
				defer mu.Unlock()
				for _, c := range list {
					if c.Seq != last+1 || c.Action != "added" || !complete {
						t.Errorf("%+v follows %d", c, last)
					}
					last, heard[c.Object] = c.Seq, time.Now()
				}
				return nil
			})
		})
		made := map[string]time.Time{}
		for range 2 {
			group.Go(func() {
				c, out := peertest.Start(t, peer{"write", where, o.Schema})
				for lines := 0; lines < each && out.Scan(); lines++ {
					var n, at int64
					_, _ = fmt.Sscan(out.Text(), &n, &at)
					mu.Lock()
					made[fmt.Sprint(n)] = time.Unix(0, at)
					mu.Unlock()
				}
				_ = c.Process.Kill()
				_ = c.Wait()
			})
		}
		for range each {
			n, err := add(t.Context(), d)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			made[fmt.Sprint(n)] = time.Now()
			mu.Unlock()
		}
		late := 0
		missing := func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			late = 0
			for object, at := range made {
				if when, ok := heard[object]; !ok {
					n++
				} else if when.Sub(at) > time.Second {
					late++
				}
			}
			return n + 3*each - len(made)
		}
		for end := time.Now().Add(time.Minute); missing() > 0 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		group.Wait()
		if n := missing(); n > 0 || late > 2*each { // some, since this machine may be busy
			t.Errorf("of %d changes, %d were not heard of and %d late", len(made), n, late)
		}
	})
}

// TestFollow checks batches, an error of the follower, and changes that the database has deleted.
func TestFollow(t *testing.T) {
	both(t, func(t *testing.T, where string, o Options) {
		d := open(t, where, o)
		err := d.Write(t.Context(), func(tx *Tx) error {
			for i := range batch + 5 {
				if err := tx.Changed(fmt.Sprint(i), "made"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		follow := func(after int64, want ...string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var got []string
			d.Follow(ctx, after, func(list []Change, complete bool) error {
				got = append(got, fmt.Sprintln(len(list), complete))
				switch len(got) {
				case 1:
					return errors.New("once more")
				case len(want):
					cancel()
				}
				return nil
			})
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("after %d: got %q, want %q", after, got, want)
			}
		}
		follow(0, "1000 true\n", "1000 true\n", "5 true\n")
		follow(batch+2, "3 true\n", "3 true\n")
		execute(t, d, "DELETE FROM changes WHERE seq < 10")
		follow(8, "0 false\n", "0 false\n")
		follow(9, "996 true\n", "996 true\n")
		follow(batch+6, "0 false\n", "0 false\n") // the database is an older one
		if took := ownChange(t, d); took > poll/2 {
			t.Errorf("a change of our own is heard after %v", took)
		}
	})
}

// ownChange returns how long it takes until a follower hears of a change of its own process, at best.
func ownChange(t *testing.T, d *DB) (best time.Duration) {
	heard := make(chan time.Time)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() {
		d.Follow(ctx, batch+5, func([]Change, bool) error { heard <- time.Now(); return nil })
	})
	best = time.Hour
	for range 3 {
		if _, err := add(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		made := time.Now()
		best = min(best, (<-heard).Sub(made))
		time.Sleep(poll / 10) // until it waits again
	}
	return best
}

// TestOpenTogether opens, creates and updates one database many times at once.
func TestOpenTogether(t *testing.T) {
	both(t, func(t *testing.T, where string, o Options) {
		for version := 1; version <= 2; version++ {
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					d, err := Open(t.Context(), where, app(version, o.Schema))
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := add(t.Context(), d); err != nil {
						t.Error(err)
					}
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
		}
		if n := count(t, open(t, where, app(2, o.Schema)), "FROM notes"); n != 16 {
			t.Errorf("there are %d notes", n)
		}
	})
}

// TestTryAgain checks that a transaction that lost against another one runs again, and what a change
// does whose caller gave up.
func TestTryAgain(t *testing.T) {
	both(t, func(t *testing.T, where string, o Options) {
		d := open(t, where, o)
		ran, lost := 0, errors.New("lost")
		d.e.again = func(err error) bool { return err == lost }
		err := d.Write(t.Context(), func(tx *Tx) error {
			ran++
			if err := tx.Exec("INSERT INTO notes (id, body) VALUES (?, 'x')", ran); err != nil || ran == 3 {
				return err
			}
			return lost
		})
		if err != nil || ran != 3 {
			t.Errorf("%d runs: %v", ran, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d.turn <- struct{}{} // another change runs
		cancel()
		if _, err := add(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("while another change runs: %v", err)
		}
		<-d.turn
		if _, err := add(ctx, d); !errors.Is(err, context.Canceled) {
			t.Errorf("before the change: %v", err)
		}
		if n := count(t, d, "FROM notes"); n != 1 {
			t.Errorf("there are %d notes", n)
		}
	})
}

// TestRetry checks how long a transaction tries again.
func TestRetry(t *testing.T) {
	busy, broken := errors.New("busy"), errors.New("broken")
	for name, c := range map[string]struct {
		fails []error // the errors of the first attempts; all later attempts return the last error
		limit time.Duration
		want  error
		took  time.Duration // the shortest time that retry may take
	}{
		"at once":       {nil, time.Hour, nil, 0},
		"after two":     {[]error{busy, busy, nil}, time.Hour, nil, 3 * time.Millisecond},
		"another error": {[]error{busy, broken}, time.Hour, broken, time.Millisecond},
		"always busy":   {[]error{busy}, time.Hour, busy, waitForOthers - time.Second},
		"context":       {[]error{busy}, time.Second, context.DeadlineExceeded, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				start, n := time.Now(), 0
				err := retry(ctx, waitForOthers, func(err error) bool { return err == busy }, func() error {
					n++
					if len(c.fails) == 0 {
						return nil
					}
					return c.fails[min(n, len(c.fails))-1]
				})
				if took := time.Since(start); !errors.Is(err, c.want) || took < c.took || took > waitForOthers {
					t.Errorf("%v after %v and %d attempts", err, took, n)
				}
			})
		})
	}
}

// TestSettings checks, on every connection, the SQLite settings on which the guarantees depend, and the
// permissions of the files.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "x.db")
	o := app(1, "")
	o.Private = true
	d := open(t, path, o)
	if _, err := add(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for range connections {
		c, err := d.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "15000", "foreign_keys": "1", "application_id": "4711"} {
			var got string
			if err := c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, want %s (%v)", pragma, got, want, err)
			}
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	for name, want := range map[string]os.FileMode{path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, filepath.Dir(path): 0o700} {
		if fi, err := os.Stat(name); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v %v", name, fi.Mode(), err)
		}
	}
}

// TestMoved moves, replaces and deletes the file of an open database. Nothing is acknowledged that
// would be lost, and all goes on when the file is back.
func TestMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	d := open(t, path, app(1, ""))
	away := path + ".away"
	if err := os.Rename(path, away); err != nil {
		t.Skip(err) // Windows does not move open files
	}
	const want = `the database DB was moved, deleted or replaced while dragoman was running, so a change would be lost / put the file back, or restart dragoman`
	refused := func() {
		t.Helper()
		_, err := add(t.Context(), d)
		says(t, err, d.e.called, want)
		says(t, d.Read(t.Context(), func(*Tx) error { return nil }), d.e.called, want)
	}
	refused()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused()
	if err := os.Rename(away, path); err != nil {
		t.Fatal(err)
	}
	if _, err := add(t.Context(), d); err != nil {
		t.Errorf("back again: %v", err)
	}
	err := d.Write(t.Context(), func(tx *Tx) error {
		return errors.Join(tx.Changed("x", "made"), os.Rename(path, away))
	})
	says(t, err, d.e.called, want)
	if err := os.Rename(away, path); err != nil {
		t.Fatal(err)
	}
	// After a while, the file alone has all changes.
	d.checkpoint()
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() != 0 {
		t.Errorf("the log is %v, %v", log, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused()
}

// TestMemory checks that a database in memory has all connections of its DB, outlives a query that was
// cancelled, and is nobody else's.
func TestMemory(t *testing.T) {
	o := app(1, "")
	o.Memory = true
	d, other := open(t, "", o), open(t, "", o)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if _, err := add(t.Context(), d); err != nil {
					t.Error(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				_ = d.Read(ctx, func(tx *Tx) error {
					cancel()
					_, err := tx.Count("FROM notes")
					return err
				})
			}
		})
	}
	group.Wait()
	var counters map[string]int64
	err := d.Read(t.Context(), func(tx *Tx) (err error) {
		counters, err = tx.Counters()
		return err
	})
	if n := count(t, d, "FROM notes"); err != nil || n != 160 || counters["notes"] != 160 || counters["changes"] != 160 {
		t.Errorf("there are %d notes, and the counters are %v: %v", n, counters, err)
	}
	if n := count(t, other, "FROM notes"); n != 0 {
		t.Errorf("another database has %d notes", n)
	}
}

// TestLost takes the file away from a DB that follows, and gives it back.
func TestLost(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows doesn't let us move a file that is open")
	}
	path, lost := filepath.Join(t.TempDir(), "x.db"), make(chan error)
	o := app(1, "")
	o.Lost = func(err error) { lost <- err }
	d := open(t, path, o)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { d.Follow(ctx, 0, func([]Change, bool) error { return nil }) })
	for range 2 {
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		var e *Error
		if err := <-lost; !errors.As(err, &e) {
			t.Errorf("the error is %v", err)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
		if err := <-lost; err != nil {
			t.Errorf("back again: %v", err)
		}
	}
}

// TestBackup copies a database while another process writes to it. Each note that was acknowledged before
// must be in the copy.
func TestBackup(t *testing.T) {
	dir, o := t.TempDir(), app(1, "")
	path := filepath.Join(dir, "x.db")
	c, out := peertest.Start(t, peer{"write", path, ""})
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	for round := range 5 {
		var n, at int64
		out.Scan()
		if _, err := fmt.Sscan(out.Text(), &n, &at); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, fmt.Sprint("copy", round))
		if err := Backup(t.Context(), path, to, o); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(to); err != nil || runtime.GOOS != "windows" && fi.Mode() != 0o600 {
			t.Errorf("the copy: %v, %v", fi, err)
		}
		d := open(t, to, o)
		intact(t, d)
		if got := count(t, d, "FROM notes WHERE id <= ? AND body <> ''", n); got != int(n) {
			t.Errorf("the copy has %d of %d notes", got, n)
		}
	}
	before, err := filepath.Glob(filepath.Join(dir, "copy*"))
	if err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer.db")
	if d, err := Open(t.Context(), newer, app(2, "")); err != nil || d.Close() != nil {
		t.Fatal(err)
	}
	foreign := app(1, "")
	foreign.Name, foreign.ID = "others", 4712
	for _, c := range []struct {
		where, to, want string
		o               Options
	}{
		{path, filepath.Join(dir, "copy0"), `the file "` + filepath.Join(dir, "copy0") + `" exists already / name a file that doesn't exist`, o},
		{filepath.Join(dir, "none.db"), filepath.Join(dir, "copy"), "there is no database DB / name another database", o},
		{path, filepath.Join(dir, "copy"), "the database DB has tables of another program / use another database", foreign},
		{path, filepath.Join(dir, "none", "copy"), `the database DB can't be copied to "` + filepath.Join(dir, "none", "copy") + `": no such file or directory / free space, or use another folder`, o},
		{"postgres://me:secret@127.0.0.1:1/x", filepath.Join(dir, "copy"), `the database "x" on "127.0.0.1" is in PostgreSQL, which has a program of its own for backups / use pg_dump --schema=notes_app`, o},
		{newer, filepath.Join(dir, "newer"), "", o},
	} {
		err := Backup(t.Context(), c.where, c.to, c.o)
		if c.want != "" && runtime.GOOS != "windows" {
			says(t, err, fmt.Sprintf("%q", c.where), c.want)
		} else if c.want == "" && err != nil {
			t.Error(err)
		}
	}
	if after, err := filepath.Glob(filepath.Join(dir, "copy*")); err != nil || len(after) != len(before) {
		t.Errorf("there are %v, %v", after, err)
	}
	for _, name := range []string{"none.db", "none"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was created", name)
		}
	}
}

// TestOlderProcess keeps a database open while a newer version updates its tables. The older one must change
// nothing from then on, and can still read.
func TestOlderProcess(t *testing.T) {
	both(t, func(t *testing.T, where string, o Options) {
		older := open(t, where, o)
		if _, err := add(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		open(t, where, app(2, o.Schema))
		_, err := add(t.Context(), older)
		says(t, err, older.Name(), "the database DB has schema version 2, and this dragoman knows versions up to 1 / use a newer dragoman, or another database")
		if n := count(t, older, "FROM notes"); n != 1 {
			t.Errorf("there are %d notes", n)
		}
	})
}

// TestAhead updates the tables step by step. A program that is older than they are goes on if the migrations say that it
// can, whether it's running or starts then, and refuses them otherwise.
func TestAhead(t *testing.T) {
	both(t, func(t *testing.T, where string, o Options) {
		files := fstest.MapFS{}
		for i, text := range []string{
			"CREATE TABLE notes (id BIGINT PRIMARY KEY, body TEXT NOT NULL);",
			"-- works with 1\nALTER TABLE notes ADD COLUMN size BIGINT NOT NULL DEFAULT 0;",
			"-- works with 2\nALTER TABLE notes ADD COLUMN kind TEXT NOT NULL DEFAULT 'note';",
			"-- works with 1\nCREATE TABLE kinds (name TEXT PRIMARY KEY);",
			"-- works with some\nCREATE TABLE tags (name TEXT PRIMARY KEY);",
		} {
			files[fmt.Sprintf("%03d.sql", i+1)] = &fstest.MapFile{Data: []byte(text)}
		}
		program := func(version int) Options {
			known := fstest.MapFS{}
			for i := range version {
				name := fmt.Sprintf("%03d.sql", i+1)
				known[name] = files[name]
			}
			p := o
			p.Migrations = known
			return p
		}
		oldest, notes := []int{1, 1, 2, 2, 5}, 0
		var running []*DB // the programs of all versions so far
		for version := 1; version <= len(files); version++ {
			running = append(running, open(t, where, program(version)))
			for i, d := range running {
				_, err := add(t.Context(), d)
				restarted, openErr := Open(t.Context(), where, program(i+1))
				if openErr == nil {
					openErr = restarted.Close()
				}
				if i+1 < oldest[version-1] {
					want := fmt.Sprintf("the database DB has schema version %d, and this dragoman knows versions up to %d / use a newer dragoman, or another database", version, i+1)
					says(t, err, d.Name(), want)
					says(t, openErr, d.Name(), want)
					continue
				}
				notes++
				if err != nil || openErr != nil {
					t.Errorf("version %d with tables of version %d: %v, %v", i+1, version, err, openErr)
				}
			}
		}
		newest := running[len(running)-1]
		if n := count(t, newest, "FROM notes WHERE kind = 'note' AND size = 0"); n != notes {
			t.Errorf("there are %d notes, and %d were made", n, notes)
		}
		if n := count(t, newest, "FROM notes_app WHERE name = 'schema' AND value = '5'"); n != 1 {
			t.Error("an older program has changed the version of the tables")
		}
	})
}
