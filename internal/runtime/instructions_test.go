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

	"github.com/dragoman-mcp/dragoman/internal/config"
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
