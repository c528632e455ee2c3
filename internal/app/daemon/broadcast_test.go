//go:build unix

package daemon

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// TestAnswersBehindAWrapperThatBroadcasts uses strict clients that share an HTTP+SSE server,
// which sends every message to all sessions. The clients call the server at the same time. Each
// client gets its own answers and progress, and nothing that is for another client.
func TestAnswersBehindAWrapperThatBroadcasts(t *testing.T) {
	t.Parallel()
	server, err := fake.NewServer("broadcasts", fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server.Handler())
	defer web.Close()
	defer func() { _ = server.Close() }()
	c, problem := config.Complete(config.Server{Name: "wrapped", URL: web.URL + server.Path(), Kind: config.KindSSE})
	if problem != nil {
		t.Fatal(problem)
	}
	r := serve(t, snapshot(&upstreamUnderTest{Server: c}))
	defer func() { _ = r.stop() }() // stop Dragoman before the server, because closing the server waits for its streams
	const clients, calls = 10, 15
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			c, err := fake.OpenClient(ctx, "strict-2025-06-18", fake.Where{URL: r.base + "/s/wrapped/mcp"}, fake.ClientOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			for n := range calls {
				text := fmt.Sprintf("client %d call %d", i, n)
				got, err := c.Call(ctx, mcp.MethodCallTool, []byte(`{"name":"echo","arguments":{"text":"`+text+`"}}`), fake.CallOptions{})
				if err != nil || got.Err != nil || !strings.Contains(string(got.Result), `"`+text+`"`) {
					t.Errorf("%s: %v, %+v", text, err, got)
				}
				got, err = c.Call(ctx, mcp.MethodCallTool, []byte(`{"name":"wait","arguments":{"steps":3,"ms":1}}`), fake.CallOptions{Progress: true})
				if err != nil || got.Err != nil || len(got.Progress) > 3 {
					t.Errorf("%s: %v, %+v", text, err, got)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			for _, v := range c.Violations() {
				t.Errorf("client %d saw: %s", i, v)
			}
		})
	}
	all.Wait()
	report, _ := r.status()
	if s := serverIn(t, report, "wrapped"); !s.Broadcasts || s.Unasked == 0 || len(s.Sessions) < 2 {
		t.Errorf("the status says %+v", s)
	}
	if log := r.log.String(); strings.Count(log, "code=server_broadcasts") != 1 {
		t.Error("the log does not have the line exactly once")
	}
}
