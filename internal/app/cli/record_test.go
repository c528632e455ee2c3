package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRemoveBlank(t *testing.T) {
	for text, gone := range map[string]bool{
		"Recorded by dragoman.\n\n":                                      true,
		"Recorded by dragoman.\n\n-- client --\n{\"jsonrpc\":\"2.0\"}\n": false,
		"Recorded by dragoman.\n\n-- server.close --\nexit status 1\n":   false,
	} {
		name := filepath.Join(t.TempDir(), "talk.txtar")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		removeBlank(name)
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) != gone {
			t.Errorf("after removeBlank of %q: %v, want it gone: %v", text, err, gone)
		}
	}
}

// TestCreateNew checks that a recording gets a name of its own beside a file, but not beside a directory.
func TestCreateNew(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"talk.txtar", "talk-2.txtar"} {
		f, err := createNew(filepath.Join(dir, "talk.txtar"))
		if err != nil || filepath.Base(f.Name()) != want {
			t.Fatalf("%v, want %s", err, want)
		}
		_ = f.Close()
	}
	if f, err := createNew(dir); err == nil {
		_ = f.Close()
		t.Errorf("created %s for a directory", f.Name())
	}
}
