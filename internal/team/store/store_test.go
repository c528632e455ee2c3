package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// TestWrites checks each change: the snapshot has it when Write returns and another store soon, the
// snapshot from before stays as it is, and there's one act.
func TestWrites(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		begun := time.Now().Add(-time.Second)
		for i, c := range []struct {
			actor  string
			change func(*Tx) error
			want   string
			act    string // "" for none
		}{
			{"ada", func(t *Tx) error { return t.SetHouse("vault", []byte{0, 255}) }, " | 00ff", "ada set house:vault"},
			{"ada", func(t *Tx) error { return t.SetHouse("vault", []byte{1}) }, " | 01", "ada set house:vault"},
			{"ada", func(t *Tx) error { return t.SetHouse("vault", nil) }, " | 01", ""},
			{"ada", func(t *Tx) error { return t.SetSecret(Secret{Project: "shop", Name: "b", Sealed: []byte("1\x00")}) }, "shop/b=1\x00 by ada | 01", "ada set secret:shop/b"},
			{"bob", func(t *Tx) error { return t.SetSecret(Secret{Project: "default", Name: "a", Sealed: []byte("2")}) }, "default/a=2 by bob, shop/b=1\x00 by ada | 01", "bob set secret:default/a"},
			{"bob", func(t *Tx) error { return t.SetSecret(Secret{Project: "shop", Name: "b", Sealed: []byte("3")}) }, "default/a=2 by bob, shop/b=3 by bob | 01", "bob set secret:shop/b"},
			{"ada", remove("default", "a", true), "shop/b=3 by bob | 01", "ada removed secret:default/a"},
			{"ada", remove("default", "a", false), "shop/b=3 by bob | 01", ""},
			{"ada", func(t *Tx) error { return errors.Join(t.SetHouse("vault", []byte("new")), errors.New("no")) }, "shop/b=3 by bob | 01", ""},
			{"", func(t *Tx) error { return t.SetHouse("vault", []byte("new")) }, "shop/b=3 by bob | 01", ""},
			{"eve", reseal, "shop/b=3 again by eve | 6b6579", "eve set secret:shop/b"},
		} {
			before := s.Snapshot()
			was, acts := text(before), actsOf(t, s)
			err := s.Write(t.Context(), c.actor, c.change)
			if (err != nil) != (c.act == "" && c.want == was && i != 7) {
				t.Errorf("%d: %v", i, err)
			}
			if got := text(s.Snapshot()); got != c.want {
				t.Errorf("%d: the snapshot is %q, want %q", i, got, c.want)
			}
			if text(before) != was {
				t.Errorf("%d: the snapshot from before has become %q", i, text(before))
			}
			select {
			case <-before.Replaced():
			default:
				if c.act != "" {
					t.Errorf("%d: nobody is told of the snapshot", i)
				}
			}
			now := actsOf(t, s)
			if c.act == "" && len(now) != len(acts) || c.act != "" && now[0] != c.act {
				t.Errorf("%d: the acts are %q", i, now)
			}
		}
		x, ok := s.Snapshot().Secret("shop", "b")
		if !ok || x.Changed.Before(begun) || time.Since(x.Changed) > time.Hour || x.Changed.Location() != time.UTC {
			t.Errorf("the secret is %+v", x)
		}
		if _, ok := s.Snapshot().Secret("default", "b"); ok {
			t.Error("another project has the secret")
		}
		other := open(t, o)
		if got := text(other.Snapshot()); got != text(s.Snapshot()) {
			t.Errorf("another store begins with %q", got)
		}
		if err := set(t.Context(), s, "c", "4"); err != nil {
			t.Fatal(err)
		}
		await(t, other, "the change of another store", func(n *Snapshot) bool { _, ok := n.Secret("shop", "c"); return ok })
	})
}

// text returns what a snapshot has.
func text(s *Snapshot) string { return secrets(s) + fmt.Sprintf(" | %x", s.House("vault")) }

func remove(project, name string, want bool) func(*Tx) error {
	return func(t *Tx) error {
		was, err := t.RemoveSecret(project, name)
		if err == nil && was != want {
			err = fmt.Errorf("removed: %v", was)
		}
		return err
	}
}

// reseal is what a new key of the vault does to all secrets, in one transaction.
func reseal(t *Tx) error {
	all, err := t.Secrets()
	if old, houseErr := t.House("vault"); houseErr != nil || string(old) != "\x01" {
		err = errors.Join(err, fmt.Errorf("the vault was %q: %w", old, houseErr))
	}
	err = errors.Join(err, t.SetHouse("vault", []byte("key")))
	for _, x := range all {
		x.Sealed = append(x.Sealed, " again"...)
		err = errors.Join(err, t.SetSecret(x))
	}
	return err
}

// actsOf returns all acts, the newest first, and reads them two at a time.
func actsOf(t *testing.T, s *Store) (all []string) {
	t.Helper()
	for before := int64(0); ; {
		list, err := s.Acts(t.Context(), before, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			if before != 0 && a.Seq != before-1 || time.Since(a.At) > time.Hour {
				t.Errorf("%+v comes after %d", a, before)
			}
			before = a.Seq
			all = append(all, a.Actor+" "+a.Action+" "+a.Object)
		}
		if len(list) == 0 {
			return all
		}
	}
}

// TestActsAreBounded writes more acts than the database keeps.
func TestActsAreBounded(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		// Old acts, and the number of the last one.
		err := s.Write(t.Context(), "ada", func(t *Tx) error {
			if _, err := t.t.Take("acts"); err != nil {
				return err
			}
			for _, q := range []string{
				"INSERT INTO acts (" + actColumns + ") VALUES (50, 'ada', '', '', 'set', 'x', '', '', '2026-01-02T03:04:05.000Z', '', ''), (150, 'ada', '', '', 'set', 'x', '', '', '2026-01-02T03:04:05.000Z', '', '')",
				fmt.Sprintf("UPDATE counters SET last = %d WHERE name = 'acts'", keptActs+99),
			} {
				if err := t.t.Exec(q); err != nil {
					return err
				}
			}
			return t.SetHouse("x", []byte("y"))
		})
		list, readErr := s.Acts(t.Context(), 0, 10)
		if err != nil || readErr != nil || len(list) != 2 || list[0].Seq != keptActs+100 || list[1].Seq != 150 {
			t.Errorf("the acts are %+v: %v, %v", list, err, readErr)
		}
	})
}

// TestAbsent checks that nothing is created before the first change, in which folder whatever.
func TestAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "dragoman.db")
	s := open(t, Options{Database: path})
	empty := s.Snapshot()
	if got := s.State(); got != (State{Place: Absent, Database: path}) || text(empty) != " | " {
		t.Errorf("the state is %+v, the snapshot %q", got, text(empty))
	}
	if list, err := s.Acts(t.Context(), 0, 10); err != nil || len(list) != 0 {
		t.Errorf("acts: %v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
	var group sync.WaitGroup // several changes at once create one database
	for i := range 4 {
		group.Go(func() {
			if err := set(t.Context(), s, fmt.Sprint(i), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := s.State(); got != (State{Place: File, Database: path}) || len(s.Snapshot().Secrets()) != 4 {
		t.Errorf("the state is %+v, the snapshot %q", got, text(s.Snapshot()))
	}
	for p, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if fi, err := os.Stat(p); runtime.GOOS != "windows" && (err != nil || fi.Mode() != mode) {
			t.Errorf("%s: %v, %v", p, fi.Mode(), err)
		}
	}
}

// TestClosed checks that a closed store neither creates nor reads a database.
func TestClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dragoman.db")
	s := open(t, Options{Database: path})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := set(t.Context(), s, "x", "y"); err == nil {
		t.Error("a closed store can write")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there's a database: %v", err)
	}
}

// TestProcesses lets another process create the database and write, while we write too. We must see each
// of its changes within a second, from the first one on.
func TestProcesses(t *testing.T) {
	const each = 20
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		c, out := peertest.Start(t, peer{o.Database, o.Schema, "peer"})
		late := 0
		var opened time.Time
		for i := 0; i < each; {
			var name string
			var at int64
			out.Scan()
			if _, err := fmt.Sscan(out.Text(), &name, &at); err != nil {
				t.Fatalf("the other process: %v", err)
			}
			await(t, s, name, func(n *Snapshot) bool {
				x, ok := n.Secret("shop", name)
				return ok && string(x.Sealed) == "sealed "+name
			})
			made := time.Unix(0, at)
			switch {
			case i == 0:
				opened = time.Now() // we look for the database once a second, and then open it
			case made.Before(opened):
				continue
			case time.Since(made) > time.Second:
				late++
			}
			i++
			if err := set(t.Context(), s, fmt.Sprint("own", i), "x"); err != nil {
				t.Error(err)
			}
		}
		_ = c.Process.Kill()
		_ = c.Wait()
		if late >= each-1 { // all but the first; some may be, since this machine may be busy
			t.Errorf("%d of %d changes came late", late, each)
		}
	})
}

// TestKill kills processes while they create the database and write. A change is either there with its
// act, or neither is; what was acknowledged is there.
func TestKill(t *testing.T) {
	const kills = 50
	both(t, func(t *testing.T, o Options) {
		acknowledged, unborn := map[string]bool{}, 0
		for round := range kills {
			c, out := peertest.Start(t, peer{o.Database, o.Schema, fmt.Sprintf("r%d-", round)})
			if round < kills/5 { // while it creates the database, or soon after
				time.Sleep(time.Duration(round) * 4 * time.Millisecond)
				_ = c.Process.Kill()
			}
			for lines := 0; out.Scan(); {
				var name string
				var at int64
				if got, _ := fmt.Sscan(out.Text(), &name, &at); got == 2 { // or else it was killed in this line
					acknowledged[name] = true
				}
				if lines++; lines == round%7+1 {
					_ = c.Process.Kill() // SIGKILL; we still read the lines that are in the pipe
				}
			}
			_ = c.Wait()
			s := open(t, o)
			if s.State().Place == Absent {
				unborn++
			}
			for name := range acknowledged {
				if _, ok := s.Snapshot().Secret("shop", name); !ok {
					t.Errorf("round %d: %s was acknowledged and is lost", round, name)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		s := open(t, o)
		if acts := actsOf(t, s); len(acts) != len(s.Snapshot().Secrets()) {
			t.Errorf("there are %d acts and %d secrets", len(acts), len(s.Snapshot().Secrets()))
		}
		if c, err := s.VerifyActs(t.Context()); err != nil || c.Broken != "" || c.Last != int64(len(s.Snapshot().Secrets())) {
			t.Errorf("the chain of the acts: %+v, %v", c, err)
		}
		if len(acknowledged) < kills/2 {
			t.Errorf("only %d changes were acknowledged", len(acknowledged))
		}
		t.Logf("%d acknowledged changes survived %d kills, of which %d came before the database", len(acknowledged), kills, unborn)
	})
}

// TestMemory checks a store whose file can't be created. It says so once, and changes last as long as the
// store.
func TestMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]Options{
		"no folder for data": {},
		"not a directory":    {Database: filepath.Join(file, "dragoman", "dragoman.db")},
	}
	if runtime.GOOS != "windows" {
		open := t.TempDir()
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		cases["other users can write to the folder"] = Options{Database: filepath.Join(open, "dragoman.db")}
	}
	if os.Geteuid() > 0 {
		locked := t.TempDir()
		if err := os.Chmod(locked, 0o500); err != nil {
			t.Fatal(err)
		}
		cases["no permission"] = Options{Database: filepath.Join(locked, "dragoman", "dragoman.db")}
	}
	for why, o := range cases {
		t.Run(why, func(t *testing.T) {
			if s, err := Open(t.Context(), o); err == nil {
				_ = s.Close()
				t.Error("a store that must not forget was opened")
			} else {
				says(t, err, why, "")
			}
			var log logged
			o.MayForget, o.Log = true, log.logger()
			s := open(t, o)
			before := s.State()
			var group sync.WaitGroup
			for i := range 4 {
				group.Go(func() {
					if err := set(t.Context(), s, fmt.Sprint(i), "x"); err != nil {
						t.Error(err)
					}
					for range 20 {
						if err := s.db.Load().Read(t.Context(), func(*sqldb.Tx) error { return nil }); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			if got := s.State(); got != before || got.Place != Memory || got.Database != o.Database {
				t.Errorf("the state is %+v, and was %+v", got, before)
			}
			says(t, before.Problem, why, "")
			if n := len(s.Snapshot().Secrets()); n != 4 || len(actsOf(t, s)) != 4 {
				t.Errorf("there are %d secrets and the acts %q", n, actsOf(t, s))
			}
			if n := strings.Count(log.String(), "nothing can be stored"); n != 1 || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("the log is %s", log.String())
			}
		})
	}
}

// says checks that an error is an *Error with a text and a next step.
func says(t *testing.T, err error, text, next string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Text, text) || !strings.Contains(e.Next, next) || e.Next == "" {
		t.Errorf("got %#v, want %s / %s", err, text, next)
	}
}

// TestMemoryLater checks a store whose folder can no longer be written to when the first change comes.
func TestMemoryLater(t *testing.T) {
	for _, mayForget := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "dragoman.db")
		var log logged
		s := open(t, Options{Database: path, MayForget: mayForget, Log: log.logger()})
		if runtime.GOOS == "windows" {
			t.Skip("Windows has no such modes")
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		err := set(t.Context(), s, "a", "b")
		if !mayForget {
			says(t, err, "other users can write to the folder", "chmod go-w")
		} else if err != nil || s.State().Place != Memory || secrets(s.Snapshot()) == "" {
			t.Errorf("the state is %+v: %v", s.State(), err)
		}
		if n := strings.Count(log.String(), "nothing can be stored"); n != map[bool]int{true: 1}[mayForget] {
			t.Errorf("the log is %s", log.String())
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an empty file is left, which nobody can open: %v", err)
		}
	}
}

// TestRefused checks what Open refuses although the store may forget: there is a database, so it has what
// must last. sqldb has the tests of the sentences.
func TestRefused(t *testing.T) {
	garbage := []byte(strings.Repeat("no database ", 1000))
	for _, c := range []struct {
		name, text, next string
		spoil            func(t *testing.T, path string) error
	}{
		{"folder", "is not a file", "path of a file", func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) }},
		{"another program", "tables of another program", "another database", foreign},
		{"newer", "schema version 99", "newer dragoman", newer},
		{"damaged", "not an SQLite database", "path of another file", func(_ *testing.T, path string) error { return os.WriteFile(path, garbage, 0o600) }},
		{"open to others", "other users can read", "chmod 600", func(_ *testing.T, path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o644))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "open to others" && runtime.GOOS == "windows" {
				t.Skip("Windows has no such modes")
			}
			path := filepath.Join(t.TempDir(), "dragoman.db")
			if err := c.spoil(t, path); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), Options{Database: path, MayForget: true})
			if err == nil {
				_ = s.Close()
			}
			says(t, err, c.text, c.next)

			// If such a file comes while we run, the snapshot stays empty, a change fails, and the log
			// says why once.
			path = filepath.Join(t.TempDir(), "dragoman.db")
			var log logged
			s = open(t, Options{Database: path, MayForget: true, Log: log.logger()})
			if err := c.spoil(t, path); err != nil {
				t.Fatal(err)
			}
			says(t, set(t.Context(), s, "a", "b"), c.text, c.next)
			s.look()
			s.look()
			got := s.State()
			says(t, got.Problem, c.text, c.next)
			if got.Place != Absent || strings.Count(log.String(), c.text) != 1 || text(s.Snapshot()) != " | " {
				t.Errorf("the state is %+v, the log %s", got, log.String())
			}
			// And when it goes, all is well.
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if s.look(); s.State().Problem != nil {
				t.Errorf("the state is %+v", s.State())
			}
			if err := set(t.Context(), s, "a", "b"); err != nil || s.State().Place != File {
				t.Errorf("the state is %+v: %v", s.State(), err)
			}
		})
	}
}

// foreign makes a database of another program.
func foreign(t *testing.T, path string) error {
	o := (&Store{o: Options{Database: path}}).options()
	o.Name, o.ID = "notes", 4711
	db, err := sqldb.Open(t.Context(), path, o)
	if err == nil {
		err = db.Close()
	}
	return err
}

// newer makes a database of a newer version of dragoman.
func newer(t *testing.T, path string) error {
	db, err := sqldb.Open(t.Context(), path, (&Store{o: Options{Database: path}}).options())
	if err == nil {
		err = db.Write(t.Context(), func(t *sqldb.Tx) error { return t.Exec("UPDATE dragoman_house SET value = '99'") })
		err = errors.Join(err, db.Close())
	}
	return err
}

// TestMoved moves the file away while the store uses it. Changes fail, the snapshot stays, and State and
// the log say so until the file is back.
func TestMoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows doesn't let us move a file that is open")
	}
	path := filepath.Join(t.TempDir(), "dragoman.db")
	var log logged
	s := open(t, Options{Database: path, Log: log.logger()})
	if err := set(t.Context(), s, "a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	says(t, set(t.Context(), s, "c", "d"), "moved", "put the file back")
	problem := func(want bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); (s.State().Problem != nil) != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the state is %+v", s.State())
			}
		}
	}
	problem(true)
	says(t, s.State().Problem, "moved", "put the file back")
	if got := secrets(s.Snapshot()); got != "shop/a=b by ada" {
		t.Errorf("the snapshot is %q", got)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	problem(false)
	if err := set(t.Context(), s, "c", "d"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("the log is %s", log.String())
	}
}
