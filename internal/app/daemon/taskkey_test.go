package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestTaskKey starts several processes at once with one folder, and then one more.
func TestTaskKey(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new", "dragoman")
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	keys := make([][]byte, 8)
	var running sync.WaitGroup
	for i := range keys {
		running.Go(func() { keys[i] = taskKey([]string{t.TempDir(), folder}, log) })
	}
	running.Wait()
	for _, key := range append(keys, taskKey([]string{folder}, log)) {
		if len(key) != 32 || !bytes.Equal(key, keys[0]) {
			t.Fatalf("the keys differ: %x", keys)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
	if info, err := left[0].Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the mode of the key is %v, %v", info.Mode(), err)
	}
	if said.Len() != 0 {
		t.Errorf("the log has %s", &said)
	}
	if bytes.Equal(taskKey(nil, log), keys[0]) {
		t.Error("a process without a folder has the same key")
	}
	if err := os.WriteFile(filepath.Join(folder, taskKeyFile), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if key := taskKey([]string{folder}, log); len(key) != 32 || bytes.Equal(key, keys[0]) || !strings.Contains(said.String(), "delete the file") {
		t.Errorf("the key is %x, the log has %s", key, &said)
	}
}
