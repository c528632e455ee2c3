//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/matrix"
	"github.com/dragoman-mcp/dragoman/test/built"
)

// asProgram is the first argument of a process that the matrix measures. The second is the path of the real program.
const asProgram = "as-program"

// envOnlyKeys makes the replicas of such a process share only keys.
const envOnlyKeys = "DRAGOMAN_CLUSTER_ONLY_KEYS"

// overHTTP selects the cells of TestTC03. A server on a pipe has a process at each replica, each with a memory of its own.
var overHTTP = []matrix.Transport{matrix.HTTP, matrix.SSE}

// TestTC03 measures the matrix with clients and servers over HTTP through three replicas, of which each request gets the next
// one. No cell is worse than alone.
func TestTC03(t *testing.T) {
	needLong(t)
	compareCells(t, matrix.Filter{ClientTransports: overHTTP, ServerTransports: overHTTP}, nil)
}

// TestTC03OnlyKeys does the same with replicas that share nothing but keys, for modern clients of modern servers.
func TestTC03OnlyKeys(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	modern := mcp.Revisions()[:1]
	compareCells(t, matrix.Filter{Clients: modern, Servers: modern, ClientTransports: overHTTP, ServerTransports: overHTTP}, []string{envOnlyKeys + "=1"})
}

// compareCells compares the matrix through replicas with that through a `dragoman run`. The sign-ins are those of a run, so
// they're left out.
func compareCells(t *testing.T, f matrix.Filter, env []string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f.Features = slices.DeleteFunc(matrix.Features(), func(f string) bool { return f == "sign-in" })
	program := built.Dragoman(t)
	measure := func(command ...string) []matrix.Cell {
		r, err := matrix.Run(t.Context(), matrix.Options{Program: command, Through: true, Filter: f, Env: func(matrix.Pair) []string { return env }})
		if err != nil {
			t.Fatal(err)
		}
		return r.Cells
	}
	alone, found := measure(program), map[matrix.Outcome]int{}
	for i, c := range measure(self, asProgram, program) {
		found[c.Outcome]++
		if was := alone[i]; c.Outcome != was.Outcome {
			t.Errorf("%s, %s: %s, and alone %s: %s", c.Pair, c.Feature, c.Outcome, was.Outcome, c.Reason)
		}
	}
	if found[matrix.Works] == 0 {
		t.Error("nothing was measured")
	}
	t.Logf("%d cells: %v", len(alone), found)
}

// measured is a program that the matrix measures: `run` becomes three replicas and a balancer, and everything else stays as
// it is.
func measured(program string, args []string) error {
	if args[0] != "run" {
		return syscall.Exec(program, append([]string{program}, args...), os.Environ())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := os.MkdirTemp("", "dragoman-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	c, err := built.StartCluster(ctx, built.ClusterOptions{Program: program, Folder: folder, Servers: built.Behind(args[3:]), OnlyKeys: os.Getenv(envOnlyKeys) != "", Args: []string{"--no-console"}}) // what is behind run --listen ADDRESS
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "the endpoint is at http://%s/mcp\n", l.Addr())
	// `run` has the endpoint of the one server.
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" || r.URL.Path == "/sse" {
			r.URL.Path = "/s/fake" + r.URL.Path
		}
		c.ServeHTTP(w, r)
	})}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
