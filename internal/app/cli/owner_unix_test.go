//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOfOther checks whose configuration file may be found in the working directory: that of the user
// and that of root. For root every file may be.
func TestOfOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	owner := os.Getuid()
	if owner == 0 {
		st, err := os.Stat(path)
		if err != nil || ofOtherThan(st, 1000) {
			t.Errorf("the file of root: %v", err)
		}
		owner = 1000
		if err := os.Chown(path, owner, -1); err != nil {
			t.Skip("this root may not change owners")
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for me, want := range map[int]bool{owner: false, owner + 1: true, 0: false} {
		if ofOtherThan(st, me) != want {
			t.Errorf("for the user %d a file of %d: want %t", me, owner, want)
		}
	}
	if ofOther(filepath.Join(t.TempDir(), "absent")) {
		t.Error("a file that does not exist")
	}
}
