//go:build unix

package house

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/matrix"
	"github.com/dragoman-mcp/dragoman/test/built"
)

// asProgram is the first argument of a process that the matrix measures. The second is the path of the real program.
const asProgram = "as-program"

func TestMain(m *testing.M) {
	if len(os.Args) < 4 || os.Args[1] != asProgram {
		leaktest.Main(m)
		return
	}
	if err := measured(os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

// TestMatrix measures the matrix with clients over HTTP, since those on a pipe need no key. Its sign-ins are those of a `dragoman
// run`, so they're left out.
func TestMatrix(t *testing.T) {
	if os.Getenv("DRAGOMAN_HOUSE") == "" {
		t.Skip("set DRAGOMAN_HOUSE=1 (or make house)")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := matrix.Run(t.Context(), matrix.Options{Program: []string{self, asProgram, built.Dragoman(t)}, Through: true, Filter: matrix.Filter{
		ClientTransports: []matrix.Transport{matrix.HTTP, matrix.SSE},
		Features:         slices.DeleteFunc(matrix.Features(), func(f string) bool { return f == "sign-in" }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[matrix.Outcome]int{}
	for _, c := range r.Cells {
		found[c.Outcome]++
		if c.Outcome == matrix.Fails {
			t.Errorf("%s, %s: %s", c.Pair, c.Feature, c.Reason)
		}
	}
	t.Logf("%d cells: %v", len(r.Cells), found)
}

// measured is a program that the matrix measures: `run` becomes a serve with a house, and everything else stays as it is.
func measured(program string, args []string) error {
	if args[0] != "run" {
		return syscall.Exec(program, append([]string{program}, args...), os.Environ())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := os.MkdirTemp("", "dragoman-house-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	h, err := built.Furnish(ctx, program, folder, built.Behind(args[3:])) // what is behind run --listen ADDRESS
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.Command(program, "-q", "serve", "-c", h.File, "--no-console", "--listen", address)
	cmd.Env = append(os.Environ(), h.Env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	end := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer end()
	return errors.Join(front(ctx, h, address), cmd.Wait())
}

// front serves the endpoint of the one server as `run` does, until ctx ends.
func front(ctx context.Context, h *built.House, address string) error {
	for { // serve is a separate process, so poll until it listens
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	proxy, err := h.Front("http://"+address, map[string]string{"/mcp": "/s/fake/mcp", "/sse": "/s/fake/sse"})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the endpoint is at http://%s/mcp\n", l.Addr())
	s := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
