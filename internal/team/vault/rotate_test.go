package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

var errFull, errReadOnly error = syscall.ENOSPC, syscall.EROFS

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// store makes a database with sealed values.
func store(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Dir(file(t))
	v, sealed := opened(t, Options{File: filepath.Join(folder, "vault.key")})
	d := database{v.Fingerprint(), map[string][]byte{"gh": sealed}}
	for _, name := range []string{"a", "b"} {
		sealed, err := v.Seal(t.Context(), "shop", name, []byte("value"))
		if err != nil {
			t.Fatal(err)
		}
		d.Values[name] = sealed
	}
	if err := d.commit(folder, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return folder
}

// whole checks that a new process opens everything in the database, and returns its fingerprint.
func whole(t *testing.T, folder string) []byte {
	t.Helper()
	d, err := load(folder)
	if err != nil {
		t.Fatal(err)
	}
	v := New(Options{File: filepath.Join(folder, "vault.key")})
	if err := v.Use(t.Context(), d.Fingerprint); err != nil {
		t.Fatal(err)
	}
	if len(d.Values) != 3 {
		t.Errorf("%d values", len(d.Values))
	}
	for name, sealed := range d.Values {
		opens(t, v, "shop", name, sealed, "value")
		if !SealedBy(d.Fingerprint, sealed) {
			t.Errorf("%s is sealed with another key than the database has", name)
		}
	}
	sealed, err := v.Seal(t.Context(), "shop", "new", []byte("value"))
	if err != nil || !SealedBy(d.Fingerprint, sealed) {
		t.Errorf("it seals with another key than the database has (%v)", err)
	}
	return d.Fingerprint
}

// TestKillRotation kills a rotation at each step. Afterwards everything can be opened, either with the
// old key or with the new one, and the next rotation completes.
func TestKillRotation(t *testing.T) {
	for _, tt := range []struct {
		step    string
		rotated bool
		keys    int // in the file, after the kill and after the next rotation
	}{
		{"create", false, 1}, {"write", false, 1}, {"sync", false, 1}, {"rename", false, 1},
		{"sync folder", false, 2}, {"reseal gh", false, 2}, {"commit", false, 2}, {"committed", true, 2},
	} {
		t.Run(strings.ReplaceAll(tt.step, " ", "_"), func(t *testing.T) {
			t.Parallel()
			folder := store(t)
			old := whole(t, folder)
			err := peertest.Command(t, peer{folder, tt.step}).Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != killed {
				t.Fatalf("the peer was not killed: %v", err)
			}
			if now := whole(t, folder); bytes.Equal(now, old) == tt.rotated {
				t.Errorf("the fingerprint was %x and is %x", old, now)
			}
			if n := keysOf(t, folder); n != tt.keys {
				t.Errorf("the file has %d keys after the kill", n)
			}
			if err := rotate(t.Context(), folder, func(string) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if now := whole(t, folder); bytes.Equal(now, old) {
				t.Error("the key was not rotated")
			}
			want := 2
			if tt.rotated {
				want = 3
			}
			if n := keysOf(t, folder); n != want {
				t.Errorf("the file has %d keys after the next rotation", n)
			}
			if _, err := os.Stat(filepath.Join(folder, "vault.key.part")); err == nil {
				t.Error("half a file is left")
			}
		})
	}
}

func keysOf(t *testing.T, folder string) int {
	t.Helper()
	keys, err := keysIn(t.Context(), &keyFile{path: filepath.Join(folder, "vault.key")}, "")
	if err != nil {
		t.Fatal(err)
	}
	return len(keys)
}

// TestRotateBesideOthers rotates while another process with the same key runs.
func TestRotateBesideOthers(t *testing.T) {
	path := file(t)
	v, sealed := opened(t, Options{File: path})
	other := New(Options{File: path})
	if err := other.Use(t.Context(), v.Fingerprint()); err != nil {
		t.Fatal(err)
	}
	r, err := v.Rotate(t.Context())
	if err != nil || !bytes.Equal(r.From, other.Fingerprint()) || bytes.Equal(r.From, r.To) {
		t.Fatalf("%+v, %v", r, err)
	}
	again, err := other.Rotate(t.Context()) // two people at the same time move to the same key
	if err != nil || !bytes.Equal(again.To, r.To) {
		t.Errorf("%+v, %v", again, err)
	}
	moved, err := r.Reseal("shop", "gh", sealed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reseal("bank", "gh", sealed); !errors.Is(err, ErrSealed) {
		t.Errorf("a value of somebody else was sealed again: %v", err)
	}
	opens(t, v, "shop", "gh", moved, "value") // committed, and Use not yet called
	stale, err := other.Seal(t.Context(), "shop", "x", []byte("late"))
	if err != nil || SealedBy(r.To, stale) {
		t.Errorf("%v: what was sealed with the old key passes for new", err)
	}
	for _, v := range []*Vault{v, other} {
		if err := v.Use(t.Context(), r.To); err != nil {
			t.Fatal(err)
		}
		opens(t, v, "shop", "gh", moved, "value")
		opens(t, v, "shop", "gh", sealed, "value") // of a backup
		if fresh, err := v.Seal(t.Context(), "shop", "x", nil); err != nil || !SealedBy(r.To, fresh) {
			t.Errorf("%v: it seals with the old key", err)
		}
	}
	if err := other.Use(t.Context(), r.From); err != nil { // the backup is restored
		t.Error(err)
	}
}

// TestManyRotations rotates until there is no room.
func TestManyRotations(t *testing.T) {
	path := file(t)
	v, sealed := opened(t, Options{File: path})
	for range mostKeys - 1 {
		r, err := v.Rotate(t.Context())
		if err == nil {
			err = v.Use(t.Context(), r.To)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	opens(t, v, "shop", "gh", sealed, "value")
	_, err := v.Rotate(t.Context())
	says(t, err, path, fmt.Sprintf("there are %d keys in KEY / remove the last keys, which only old backups need", mostKeys), nil)
}

// TestAllAtOnce does everything at the same time, for the race detector.
func TestAllAtOnce(t *testing.T) {
	path := file(t)
	v, sealed := opened(t, Options{File: path})
	first := v.Fingerprint()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				opens(t, v, "shop", "gh", sealed, "value")
				fresh, err := v.Seal(t.Context(), "shop", "gh", []byte("value"))
				if err != nil {
					t.Error(err)
				}
				opens(t, v, "shop", "gh", fresh, "value")
				if err := v.Use(t.Context(), first); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for range 5 {
			r, err := v.Rotate(t.Context())
			if err == nil {
				err = v.Use(t.Context(), r.To)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
}
