// Package built builds dragoman for tests that start it.
package built

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Dragoman builds the program as it is released, without cgo, and returns its path. The folder has nothing else in it, and
// is removed after the test.
func Dragoman(t testing.TB, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dragoman")
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", out}, flags...), "./cmd/dragoman")...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	return out
}
