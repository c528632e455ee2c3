//go:build unix

package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSharedFolders checks that neither the lists of the servers nor the key for the ids of tasks are in
// a folder to which other users can write.
func TestSharedFolders(t *testing.T) {
	for _, shared := range []string{"", "lists"} {
		folder := filepath.Join(t.TempDir(), "dragoman")
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		folders := []string{t.TempDir(), folder}
		if got := listFolder(folders, log); got != filepath.Join(folder, "lists") {
			t.Errorf("a folder that does not exist yet: %q", got)
		}
		if err := os.MkdirAll(filepath.Join(folder, "lists"), 0o700); err != nil {
			t.Fatal(err)
		}
		key := taskKey(folders, log)
		if got := listFolder(folders, log); got == "" || !bytes.Equal(taskKey(folders, log), key) || said.Len() > 0 {
			t.Errorf("a private folder: %q\n%s", got, &said)
		}
		if err := os.Chmod(filepath.Join(folder, shared), 0o777); err != nil {
			t.Fatal(err)
		}
		if got := listFolder(folders, log); got != "" || !strings.Contains(said.String(), "could not be kept") {
			t.Errorf("%q is shared: %q\n%s", shared, got, &said)
		}
		if same := bytes.Equal(taskKey(folders, log), key); same != (shared != "") {
			t.Errorf("%q is shared, the key is the same: %t", shared, same)
		}
	}
}
