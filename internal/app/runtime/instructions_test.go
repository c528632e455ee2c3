//go:build unix

package runtime

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestInstructionsCommandOnce checks that the command runs only once for several callers at the
// same time. If one caller stops waiting, the others still get the output.
func TestInstructionsCommandOnce(t *testing.T) {
	var texts instructions
	ran := filepath.Join(t.TempDir(), "ran")
	in := config.Instructions{Command: []string{"/bin/sh", "-c", "echo x >>" + ran + "; sleep 0.2; echo told"}}
	log := slog.New(slog.DiscardHandler)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i == 0 {
				cancel()
				texts.get(ctx, in, log)
				return
			}
			if got := texts.get(ctx, in, log); got != "told" {
				t.Errorf("got %q", got)
			}
		})
	}
	wait.Wait()
	if b, _ := os.ReadFile(ran); string(b) != "x\n" {
		t.Errorf("ran %d times", strings.Count(string(b), "x"))
	}
}

// TestInstructionsCommandAgain checks that the command runs again after the configured time.
func TestInstructionsCommandAgain(t *testing.T) {
	var texts instructions
	said := filepath.Join(t.TempDir(), "said")
	in := config.Instructions{Command: []string{"/bin/cat", said}, Keep: time.Millisecond}
	log := slog.New(slog.DiscardHandler)
	for _, want := range []string{"one", "two", ""} {
		if err := os.WriteFile(said, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); texts.get(t.Context(), in, log) != want; {
			if time.Now().After(end) {
				t.Fatalf("the text is never %q", want)
			}
		}
	}
}

// TestFailedInstructionsCommand checks that a command that failed runs again soon, however long its output
// would be kept, but not for each client.
func TestFailedInstructionsCommand(t *testing.T) {
	var texts instructions
	folder := t.TempDir()
	said, ran := filepath.Join(folder, "said"), filepath.Join(folder, "ran")
	in := config.Instructions{Command: []string{"/bin/sh", "-c", "echo x >>" + ran + "; cat " + said}, Keep: time.Hour}
	log := slog.New(slog.DiscardHandler)
	for range 3 {
		if got := texts.get(t.Context(), in, log); got != "" {
			t.Errorf("got %q", got)
		}
	}
	if b, _ := os.ReadFile(ran); string(b) != "x\n" || time.Until(texts.until) > failedInstructionsKept {
		t.Errorf("ran %d times, and again in %v", strings.Count(string(b), "x"), time.Until(texts.until))
	}
	texts.until = time.Now()
	if err := os.WriteFile(said, []byte("now"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := texts.get(t.Context(), in, log); got != "now" || time.Until(texts.until) < 30*time.Minute {
		t.Errorf("got %q, and again in %v", got, time.Until(texts.until))
	}
}
