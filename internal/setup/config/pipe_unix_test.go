//go:build unix

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestPipeIsRefused checks that a named pipe is refused at once, on load and when it
// replaces a watched file. Nothing opens the pipe's other end, so a blocking open would hang.
func TestPipeIsRefused(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.yaml")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for path, what := range map[string]string{pipe: "a pipe", link: "a pipe", dir: "a folder", "/dev/null": "a device"} {
		done := make(chan Problems, 1)
		var loading sync.WaitGroup
		loading.Go(func() {
			_, problems := Load(path)
			done <- problems
		})
		select {
		case p := <-done:
			if p.Err() == nil || !strings.Contains(p.Err().Error(), "cannot be read: it is "+what+", not a regular file") {
				t.Errorf("%s: %v", path, p.Err())
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: Load blocks", path)
			if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil { // opening the other end makes Load return
				_ = f.Close()
			}
		}
		loading.Wait()
	}

	// A pipe that replaces the watched file is ignored. Pipes and good files alternate.
	path := write(t, filepath.Join(dir, "f.yaml"), "start", 0o600)
	watching(t, path, func(changes <-chan string) {
		n := 0
		until(t, changes, func(text string) {
			n++
			appear := func(what string, err error) {
				if err == nil {
					err = os.Rename(what, path)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if next := fmt.Sprintf("%s.%d", path, n); n%2 == 1 {
				appear(next, syscall.Mkfifo(next, 0o600))
			} else {
				appear(next, os.WriteFile(next, []byte(text), 0o600))
			}
		})
	})
}
