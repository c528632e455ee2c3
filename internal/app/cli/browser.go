package cli

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/signin"
)

// seat is where the user sits, as far as the environment says it.
func (e environment) seat() signin.World {
	return signin.World{Getenv: e.value, System: runtime.GOOS, Run: startBrowser}
}

func (e environment) value(name string) string {
	v, _ := e(name)
	return v
}

// browserWait is how long we wait for a program that opens a browser. After that it's a browser in the
// foreground, which is open.
const browserWait = 3 * time.Second

// startBrowser starts a program, and returns an error if it fails soon. It stays when we end, also if
// the user ends us with ctrl-C.
func startBrowser(ctx context.Context, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = apart()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	late := time.NewTimer(browserWait)
	defer late.Stop()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case <-late.C:
	case <-ctx.Done():
	}
	return nil
}
