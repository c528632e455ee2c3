package access

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// TestDesk makes, rotates and revokes keys, and asks a gate after each step, also one that reads the
// database anew. The database has no part of a secret, and the other key stays in force.
func TestDesk(t *testing.T) {
	where := filepath.Join(t.TempDir(), "dragoman.db")
	file := filepath.Join(t.TempDir(), "vault.key")
	open := func() *store.Safe {
		s, err := store.Open(t.Context(), store.Options{Database: where})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return store.NewSafe(s, vault.New(vault.Options{File: file}))
	}
	desk := NewDesk(open())
	is := func(text string, want int) {
		t.Helper()
		for _, d := range []*Desk{desk, NewDesk(open())} {
			g := NewGate(false)
			keys, err := d.Keys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			g.Use(keys)
			if _, err := g.Principal(request("/mcp", "X-API-Key", text)); status(err) != want {
				t.Errorf("%v, want %d", err, want)
			}
		}
	}
	is(Text(NewID(), NewSecret()), 401)
	innocent, _, err := desk.Make(t.Context(), "local", Wish{Name: "innocent", Project: "default", Role: identity.Caller})
	if err != nil {
		t.Fatal(err)
	}
	text, key, err := desk.Make(t.Context(), "local", Wish{Name: "ci", Project: "shop", Role: identity.Caller, Life: time.Hour, Servers: []string{"git"}})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(key.Until); key.Actor != "local" || key.Hint != text[57:61] || left < 59*time.Minute || left > time.Hour+time.Second {
		t.Errorf("the key is %+v", key)
	}
	is(text, 200)
	later, rotated, err := desk.Rotate(t.Context(), "ada", key.ID, "", time.Hour, 0)
	if err != nil || !rotated.Until.IsZero() || rotated.Made != key.Made {
		t.Errorf("rotated: %+v, %v", rotated, err)
	}
	is(text, 200)
	is(later, 200)
	if _, _, err := desk.Rotate(t.Context(), "ada", key.ID, "none", 0, 0); !errors.Is(err, ErrRotated) {
		t.Errorf("a secret that isn't there is replaced: %v", err)
	}
	last, _, err := desk.Rotate(t.Context(), "ada", key.ID, "", 0, 0)
	if err != nil {
		t.Error(err)
	}
	is(text, 401)
	is(later, 401)
	is(last, 200)
	if err := desk.Revoke(t.Context(), "ada", key.ID); err != nil {
		t.Error(err)
	}
	is(last, 401)
	is(innocent, 200)
	_, _, again := desk.Rotate(t.Context(), "ada", key.ID, "", 0, 0)
	_, _, odd := desk.Rotate(t.Context(), "ada", "x", "", 0, 0)
	for _, err := range []error{again, odd, desk.Revoke(t.Context(), "ada", key.ID)} {
		if !errors.Is(err, ErrNoKey) {
			t.Errorf("no such key: %v", err)
		}
	}
	for _, f := range []string{where, where + "-wal"} {
		if all, _ := os.ReadFile(f); strings.Contains(string(all), innocent[20:40]) {
			t.Errorf("%s has a secret", f)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := NewDesk(open()).Keys(t.Context()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without the vault's key: %v", err)
	}
}

// TestTA08WrittenIntoTheDatabase checks that whoever can write to the database, and has a key of little
// worth, gets no other rights out of it: a row that we haven't written is no key, in no part, and can't be
// rotated into one. An innocent key stays in force.
func TestTA08WrittenIntoTheDatabase(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Database: filepath.Join(t.TempDir(), "dragoman.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	desk := NewDesk(store.NewSafe(s, vault.New(vault.Options{File: filepath.Join(t.TempDir(), "vault.key")})))
	wish := func(name string) Wish {
		return Wish{Name: name, Project: "shop", Role: identity.Caller, Servers: []string{"git"}, Tools: []string{"git/log", "git/show"}, Life: time.Hour}
	}
	innocent, theirs, err := desk.Make(t.Context(), "local", wish("innocent"))
	if err != nil {
		t.Fatal(err)
	}
	eves, row, err := desk.Make(t.Context(), "local", wish("eve"))
	if err != nil {
		t.Fatal(err)
	}
	before, _, err := desk.Rotate(t.Context(), "local", row.ID, "", time.Minute, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	eves, before = before, eves
	row, _ = s.Snapshot().Key(row.ID)
	unsigned := MACKey(NewSecret())
	for name, forge := range map[string]func(k *store.Key){
		"nothing":            func(*store.Key) {},
		"another name":       func(k *store.Key) { k.Name = "innocent" },
		"all servers":        func(k *store.Key) { k.Servers = nil },
		"another server":     func(k *store.Key) { k.Servers = []string{"*"} },
		"all tools":          func(k *store.Key) { k.Tools = nil },
		"a tool as a server": func(k *store.Key) { k.Servers, k.Tools = append(k.Servers, k.Tools[0]), k.Tools[1:] },
		"a role":             func(k *store.Key) { k.Role = identity.Admin },
		"a person":           func(k *store.Key) { k.Owner = "local" },
		"a project":          func(k *store.Key) { k.Project = "default" },
		"a longer life":      func(k *store.Key) { k.Until = k.Until.Add(time.Hour) },
		"no end":             func(k *store.Key) { k.Until = time.Time{} },
		"a longer overlap":   func(k *store.Key) { k.OldUntil = k.OldUntil.Add(time.Hour) },
		"the old secret":     func(k *store.Key) { k.Sum = append(bytes.Clone(k.OldSum), k.Sum[32:]...) },
		"no signature":       func(k *store.Key) { k.Sum = k.Sum[:32] },
		"a copy":             func(k *store.Key) { k.ID = NewID().String() },
		"another's id":       func(k *store.Key) { k.Sum, k.OldSum = theirs.Sum, nil },
		"signed by eve":      func(k *store.Key) { k.Sum = k.Sum[:32]; k.Role = identity.Admin; unsigned.sign(k) },
	} {
		k := row
		k.Servers, k.Tools = slices.Clone(row.Servers), slices.Clone(row.Tools)
		forge(&k)
		err := s.Write(t.Context(), "eve", func(tx *store.Tx) error {
			if _, err := tx.RevokeKey(row.ID); err != nil {
				return err
			}
			return tx.AddKey(k)
		})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := desk.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gate := NewGate(false)
		gate.Use(keys)
		want, forged := 401, 1
		if name == "nothing" {
			want, forged = 200, 0
		}
		for _, text := range []string{eves, before} {
			id, secret, _ := parse(mark, text)
			if k.ID != id.String() {
				other, _ := ParseID(k.ID)
				text = Text(other, secret)
			}
			if _, err := gate.Principal(request("/mcp", "X-API-Key", text)); status(err) != want {
				t.Errorf("%s: %v, want %d", name, err, want)
			}
		}
		if _, err := gate.Principal(request("/mcp", "X-API-Key", innocent)); err != nil || keys.Forged() != forged {
			t.Errorf("%s: the innocent key: %v; forged: %d", name, err, keys.Forged())
		}
		if _, _, err := desk.Rotate(t.Context(), "local", k.ID, "", 0, 0); forged == 1 && !errors.Is(err, ErrNoKey) {
			t.Errorf("%s: rotating it: %v", name, err)
		}
		if err := s.Write(t.Context(), "eve", func(tx *store.Tx) error { _, err := tx.RevokeKey(k.ID); return err }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWishes checks which keys are not made, and that the reason is a sentence for whoever asked.
func TestWishes(t *testing.T) {
	good := Wish{Name: "ci", Project: "shop", Role: identity.Caller, Servers: []string{"g*"}, Tools: []string{"*/log"}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, edit := range map[string]func(*Wish){
		"no name":            func(w *Wish) { w.Name = " " },
		"a long name":        func(w *Wish) { w.Name = strings.Repeat("x", maxName+1) },
		"an odd name":        func(w *Wish) { w.Name = "a\nb" },
		"another direction":  func(w *Wish) { w.Name = "a\u202eb" },
		"an isolate":         func(w *Wish) { w.Name = "a\u2066b" },
		"a C1 control":       func(w *Wish) { w.Name = "a\u009bb" },
		"a delete":           func(w *Wish) { w.Name = "a\x7fb" },
		"no UTF-8":           func(w *Wish) { w.Name = "a\xffb" },
		"an odd server":      func(w *Wish) { w.Servers = []string{"a\u202eb"} },
		"an odd tool":        func(w *Wish) { w.Tools = []string{"a/\u202eb"} },
		"a key as a name":    func(w *Wish) { w.Name = "my " + Text(NewID(), NewSecret()) },
		"no project":         func(w *Wish) { w.Project = "" },
		"no role":            func(w *Wish) { w.Role = 0 },
		"an unknown role":    func(w *Wish) { w.Role = 9 },
		"a negative life":    func(w *Wish) { w.Life = -1 },
		"an admin of a part": func(w *Wish) { w.Role = identity.Admin },
		"an empty pattern":   func(w *Wish) { w.Servers = []string{""} },
		"two lines":          func(w *Wish) { w.Servers = []string{"a\nb"} },
		"a tool only":        func(w *Wish) { w.Tools = []string{"log"} },
		"a long pattern":     func(w *Wish) { w.Tools = []string{"a/" + strings.Repeat("x", maxPattern)} },
		"many patterns":      func(w *Wish) { w.Tools = make([]string, maxPatterns+1) },
	} {
		w := good
		edit(&w)
		var m Mistake
		if err := w.Check(); !errors.As(err, &m) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
