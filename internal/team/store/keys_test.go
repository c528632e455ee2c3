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
