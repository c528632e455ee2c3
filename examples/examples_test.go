//go:build unix

// Package examples has no code. Its test runs the examples.
package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestExamples runs each example with one build of the program, and one as its README says, without
// variables: team, since it needs the most of what is in the folder of an example.
func TestExamples(t *testing.T) {
	scripts, err := filepath.Glob("*/run.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "./cmd/dragoman", "./examples/post")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Run("as the README says", func(t *testing.T) {
		t.Parallel()
		run(t, "team/run.sh", "DRAGOMAN=", "POST=")
	})
	for _, script := range scripts {
		t.Run(filepath.Dir(script), func(t *testing.T) {
			t.Parallel()
			run(t, script, "DRAGOMAN="+filepath.Join(programs, "dragoman"), "POST="+filepath.Join(programs, "post"))
			if _, err := os.Stat(filepath.Join(filepath.Dir(script), "README.md")); err != nil {
				t.Error(err)
			}
		})
	}
}

func run(t *testing.T, script string, variables ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", script)
	c.Env = append(os.Environ(), variables...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // so that the script can stop its children
	c.WaitDelay = 10 * time.Second
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
