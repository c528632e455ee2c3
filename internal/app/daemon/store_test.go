//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// storeAt makes a database with secrets.
func storeAt(t testing.TB, path string, secrets int) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Database: path})
	if err == nil {
		err = s.Write(t.Context(), "ada", func(t *store.Tx) error {
			for i := range secrets {
				if err := t.SetSecret(store.Secret{Project: "default", Name: fmt.Sprint(i), Sealed: []byte("sealed")}); err != nil {
					return err
				}
			}
			return nil
		})
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStore starts serve without a database, with one, and where there can't be one, and checks what
// the status says. Without a change, serve creates nothing.
func TestStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, usual, named string
		exists             bool
		want               admin.Store
		text               string
	}{
		{name: "none", usual: filepath.Join(dir, "a", "dragoman.db"), want: admin.Store{Place: "absent"}, text: "store: nothing yet; it will be DB"},
		{name: "usual", usual: filepath.Join(dir, "b", "dragoman.db"), exists: true, want: admin.Store{Place: "file"}, text: "store: DB"},
		{name: "named", usual: filepath.Join(dir, "c", "dragoman.db"), named: filepath.Join(dir, "d", "x.db"), exists: true, want: admin.Store{Place: "file"}, text: "store: DB"},
		{name: "no folder", want: admin.Store{Place: "memory", Problem: "no folder for data", Action: "set HOME"}, text: "store: in memory until dragoman ends, because this user has no folder for data (set HOME"},
		{name: "no directory", usual: filepath.Join(file, "dragoman.db"), want: admin.Store{Place: "memory", Problem: "not a directory", Action: "path of a file"}, text: "store: in memory until dragoman ends, because dragoman cannot open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := c.usual
			if c.named != "" {
				path = c.named
			}
			if c.exists {
				storeAt(t, path, 1)
			}
			s := snapshot()
			s.Database = c.named
			r := serve(t, s, func(o *ServeOptions) { o.Database = c.usual })
			report, _ := r.status()
			got := *report.Store
			if got.Place != c.want.Place || got.Database != path || !strings.Contains(got.Problem, c.want.Problem) || (got.Problem == "") != (c.want.Problem == "") || !strings.Contains(got.Action, c.want.Action) {
				t.Errorf("the status says %+v", got)
			}
			text := strings.ReplaceAll(string(report.Text(time.Now())), path, "DB")
			if path == "" {
				text = string(report.Text(time.Now()))
			}
			if !strings.Contains(text, "\n"+c.text) {
				t.Errorf("the status is %s", text)
			}
			if n := r.log.count("store_in_memory"); n != map[bool]int{true: 1}[c.want.Place == "memory"] {
				t.Errorf("the log says %d times that nothing can be stored", n)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a folder was created: %v", err)
			}
		})
	}
}

// TestStoreRefused starts serve with a database that can't be used. It must fail before it listens.
func TestStoreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	garbage, file := filepath.Join(dir, "garbage"), filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ usual, named, want string }{
		{usual: garbage, want: "is not an SQLite database"},
		{named: garbage, want: "is not an SQLite database"},
		{named: filepath.Join(file, "x.db"), want: "not a directory"}, // it would be in memory if nobody had named it
		{named: "postgres://me@127.0.0.1:1/team", want: "cannot connect"},
	} {
		s := *config.Default()
		s.Database = c.named
		err := Serve(t.Context(), ServeOptions{Config: &s, Listen: "127.0.0.1:0", Database: c.usual, Ready: func(string) { t.Error("it listens") }})
		var e *store.Error
		if !errors.As(err, &e) || !strings.Contains(e.Text, c.want) || e.Next == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestVaultKey starts serve with sealed values, with their key, without it and with another one. Without the
// right one, it must fail before it listens, and make none.
func TestVaultKey(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "house")
	database, file := filepath.Join(folder, "dragoman.db"), filepath.Join(folder, "vault.key")
	db, err := store.Open(t.Context(), store.Options{Database: database})
	if err == nil {
		err = store.NewSafe(db, vault.New(vault.Options{File: file})).SetSecret(t.Context(), "ada", "default", "gh", []byte("value"))
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	another := strings.Repeat("Abcd", 10) + "Abc="
	for _, c := range []struct{ key, want string }{{"", "vault's key is missing"}, {another, "is not the one"}, {string(right), ""}} {
		err := os.Remove(file)
		if c.key != "" {
			err = os.WriteFile(file, []byte(c.key), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		listens := false
		err = Serve(ctx, ServeOptions{Config: snapshot(), Listen: "127.0.0.1:0", Database: database, Ready: func(string) { listens = true; end() }})
		end()
		var e *vault.Error
		if c.want == "" && (err != nil || !listens) || c.want != "" && (listens || !errors.As(err, &e) || !strings.Contains(e.Text, c.want) || !strings.Contains(e.Text, file) || e.Next == "") {
			t.Errorf("%q: listens %t, %v", c.want, listens, err)
		}
		if _, err := os.Stat(file); (err == nil) != (c.key != "") {
			t.Errorf("%q: %v", c.want, err)
		}
	}
	for _, c := range [][3]string{
		{"/data/dragoman.db", "", "/data/vault.key"}, {"/data/dragoman.db", "/srv/x.db", "/srv/vault.key"}, {"/data/dragoman.db", "postgres://db/team", "/data/vault.key"}, {"", "postgresql://db/team", ""},
	} {
		s := snapshot()
		s.Database = c[1]
		if got := vaultFile(&ServeOptions{Database: c[0], Config: s}); got != filepath.FromSlash(c[2]) {
			t.Errorf("%q: %q", c, got)
		}
	}
}

// BenchmarkStart measures how long serve needs until it's ready, without a database and with one. They
// take turns, so that a busy machine slows both.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	paths := []string{filepath.Join(dir, "without", "dragoman.db"), filepath.Join(dir, "with", "dragoman.db")}
	storeAt(b, paths[1], 100)
	took := make([][]time.Duration, 2)
	for b.Loop() {
		for i, path := range paths {
			ctx, cancel := context.WithCancel(b.Context())
			begin := time.Now()
			err := Serve(ctx, ServeOptions{Config: snapshot(), Listen: "127.0.0.1:0", Database: path, Ready: func(string) {
				took[i] = append(took[i], time.Since(begin))
				cancel()
			}})
			cancel()
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	for i, unit := range []string{"ms-without", "ms-with"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds())/1000, unit)
	}
}
