package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// TestSafe keeps secrets and a value of the house, by two processes at the same time, of which one rotates
// the key again and again. No secret is lost, none can be opened in another project, and the database has
// no text of theirs.
func TestSafe(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		file := filepath.Join(t.TempDir(), "vault.key")
		one := NewSafe(open(t, o), vault.New(vault.Options{File: file}))
		if err := one.Check(t.Context()); err != nil {
			t.Error(err)
		}
		if n, err := one.RotateKey(t.Context(), "ada"); n != 0 || err != nil {
			t.Errorf("nothing to rotate: %d, %v", n, err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("there is a key before it is needed")
		}
		two := NewSafe(open(t, o), vault.New(vault.Options{File: file}))
		if _, ok, err := one.OfHouse(t.Context(), "keys"); ok || err != nil {
			t.Errorf("no value of the house: %t, %v", ok, err)
		}
		var made [2]vault.Secret
		var all sync.WaitGroup
		for i, s := range []*Safe{one, two} {
			all.Go(func() {
				var ok bool
				err := s.Begin(t.Context(), "ada", "keys", bytes.Repeat([]byte{byte(i)}, 32))
				if err == nil {
					made[i], ok, err = s.OfHouse(t.Context(), "keys")
				}
				if err != nil || !ok {
					t.Error(ok, err)
				}
				for n := range 20 {
					if err := s.SetSecret(t.Context(), "ada", "shop", fmt.Sprint(i, "-", n), fmt.Append(nil, "canary ", i, " ", n)); err != nil {
						t.Error(err)
					}
					if i == 0 && n%5 == 0 {
						if _, err := s.RotateKey(t.Context(), "ada"); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		if made[0].Reveal() != made[1].Reveal() {
			t.Error("two values of the house")
		}
		await(t, one.Store(), "all secrets", func(n *Snapshot) bool { return len(n.Secrets()) == 40 })
		for i := range 2 {
			for n := range 20 {
				name := fmt.Sprint(i, "-", n)
				got, ok, err := one.Secret(t.Context(), "shop", name)
				if want := fmt.Sprint("canary ", i, " ", n); !ok || err != nil || got.Reveal() != want {
					t.Errorf("%s is %t, %v", name, ok, err)
				}
				x, _ := one.Store().Snapshot().Secret("shop", name)
				if bytes.Contains(x.Sealed, []byte("canary")) {
					t.Errorf("%s isn't sealed", name)
				}
				x.Project = "other"
				if err := one.Store().Write(t.Context(), "eve", func(t *Tx) error { return t.SetSecret(x) }); err != nil {
					t.Fatal(err)
				}
				if got, _, err := one.Secret(t.Context(), "other", name); err == nil {
					t.Errorf("another project opens %s: %d characters", name, len(got.Reveal()))
				}
			}
		}
		if _, ok, err := one.Secret(t.Context(), "shop", "none"); ok || err != nil {
			t.Errorf("no secret: %t, %v", ok, err)
		}
		if again, ok, err := two.OfHouse(t.Context(), "keys"); !ok || err != nil || again.Reveal() != made[0].Reveal() || len(again.Reveal()) != 32 {
			t.Errorf("another value of the house: %v", err)
		}
		if _, err := one.RotateKey(t.Context(), "ada"); err == nil || !strings.Contains(err.Error(), "of the project other") {
			t.Errorf("a value that nobody can open: %v", err)
		}
		// The key is gone: it's not made anew.
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		late := NewSafe(one.Store(), vault.New(vault.Options{File: file}))
		_, _, openErr := late.Secret(t.Context(), "shop", "0-0")
		for _, err := range []error{late.Check(t.Context()), late.SetSecret(t.Context(), "ada", "shop", "x", nil), openErr} {
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("without the key: %v", err)
			}
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("the key was made anew")
		}
	})
}
