package store

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestKeys makes, rotates and revokes keys. Each change leaves an act and reaches another store, and the
// other keys stay as they are.
func TestKeys(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		noon := time.Date(2026, 12, 1, 12, 0, 0, 5e8, time.UTC)
		ci := Key{ID: "0123456789ab", Name: "ci", Sum: []byte{0, 1}, Hint: "wxyz", Project: "shop", Servers: []string{"git", "g*"}, Tools: []string{"git/log"}, Role: identity.Caller, Until: noon}
		ada := Key{ID: "ada456789abc", Name: "laptop", Sum: []byte{2}, Hint: "abcd", Owner: "p:ada", Project: "default", Role: identity.Admin}
		change := func(want string, f func(*Tx) error) {
			t.Helper()
			if err := s.Write(t.Context(), "ada", f); err != nil {
				t.Fatal(err)
			}
			if got := actsOf(t, s)[0]; got != want {
				t.Errorf("the act is %q, want %q", got, want)
			}
		}
		was := func(want bool) func(bool, error) error {
			return func(was bool, err error) error {
				if err == nil && was != want {
					err = fmt.Errorf("there was one: %t", was)
				}
				return err
			}
		}
		has := func(want ...Key) {
			t.Helper()
			for _, from := range []*Store{s, open(t, o)} {
				got := from.Snapshot().Keys()
				for i := range got {
					if got[i].Actor != "ada" || time.Since(got[i].Made).Abs() > time.Hour {
						t.Errorf("made by %q at %v", got[i].Actor, got[i].Made)
					}
					if x, ok := from.Snapshot().Key(got[i].ID); !ok || !reflect.DeepEqual(x, got[i]) {
						t.Errorf("the key %s is %+v", got[i].ID, x)
					}
					got[i].Actor, got[i].Made = "", time.Time{}
					if len(got[i].OldSum) == 0 {
						got[i].OldSum = nil
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("the keys are %+v,\nwant %+v", got, want)
				}
			}
		}
		change("ada made key:shop/0123456789ab", func(t *Tx) error { return t.AddKey(ci) })
		change("ada made key:default/ada456789abc", func(t *Tx) error { return t.AddKey(ada) })
		if err := s.Write(t.Context(), "eve", func(t *Tx) error { return t.AddKey(ci) }); err == nil {
			t.Error("a key was made twice")
		}
		has(ada, ci)
		change("ada rotated key:shop/0123456789ab", func(t *Tx) error {
			return was(true)(t.RotateKey(ci.ID, func(k *Key) error {
				k.OldSum, k.OldUntil = k.Sum, noon
				k.Sum, k.Hint, k.Until = []byte{3}, "hint", noon.Add(time.Hour)
				return nil
			}))
		})
		rotated := ci
		rotated.Sum, rotated.OldSum, rotated.Hint, rotated.OldUntil, rotated.Until = []byte{3}, ci.Sum, "hint", noon, noon.Add(time.Hour)
		has(ada, rotated)
		change("ada revoked key:default/ada456789abc", func(t *Tx) error {
			return errors.Join(was(true)(t.RevokeKey(ada.ID)), was(false)(t.RevokeKey(ada.ID)), was(false)(t.RotateKey(ada.ID, nil)))
		})
		has(rotated)
	})
}

// TestUses notes when keys were used, in two stores. The later minute counts, a revoked key stays away, and nobody
// makes a new snapshot because of it.
func TestUses(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		if uses, err := s.Uses(t.Context()); err != nil || len(uses) != 0 {
			t.Errorf("without a database: %v %v", uses, err)
		}
		err := s.Write(t.Context(), "ada", func(t *Tx) error {
			for _, id := range []string{"a", "b", "gone"} {
				if err := t.AddKey(Key{ID: id, Project: "shop", Sum: []byte{1}, Role: identity.Caller}); err != nil {
					return err
				}
			}
			_, err := t.RevokeKey("gone")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		other := open(t, o)
		before, acts := other.Snapshot(), len(actsOf(t, s))
		noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
		for _, c := range []struct {
			by   *Store
			uses map[string]time.Time
		}{
			{s, map[string]time.Time{"a": noon, "gone": noon}}, {other, map[string]time.Time{"a": noon.Add(-time.Minute)}}, {other, map[string]time.Time{"a": noon.Add(90 * time.Second)}}, {s, nil},
		} {
			if err := c.by.KeepUses(t.Context(), c.uses); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]time.Time{"a": noon.Add(time.Minute)}
		for name, x := range map[string]*Store{"here": s, "there": other, "anew": open(t, o)} {
			if got, err := x.Uses(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v %v, want %v", name, got, err, want)
			}
		}
		if err := other.Refresh(t.Context()); err != nil || other.Snapshot() != before || len(actsOf(t, s)) != acts {
			t.Errorf("a use has made a snapshot or an act (%v)", err)
		}
	})
}
