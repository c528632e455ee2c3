package gateway_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/testkit/transcript"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// server adapts an upstream to the interface of the gateway.
type server struct{ *upstream.Upstream }

func (s server) Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) gateway.Subscriber {
	return s.Upstream.Subscribe(f, deliver, asker)
}

func (s server) Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (bridge.Lease, error) {
	l, err := s.Upstream.Acquire(ctx, f, need)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// start runs a complete Dragoman with one server, over two pipes in memory. A transcript has
// one connection to the server, so a second connection fails.
func start(t testing.TB, config string) transcript.Ends {
	t.Helper()
	return startTrailed(t, config, nil)
}

// trailed is a Handler that records all calls in one trail.
type trailed struct {
	downstream.Handler
	trail *trails.Trail
}

func (h trailed) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	if h.trail != nil {
		c.Trail = h.trail
	}
	return h.Handler.Call(ctx, c, k)
}

// startTrailed does the same as start, and records calls in trail, which may be nil.
func startTrailed(t testing.TB, config string, trail *trails.Trail) transcript.Ends {
	t.Helper()
	return startWith(t, config, trail, nil)
}

// startWith does the same as startTrailed, and keeps calls in ring, which may be nil.
func startWith(t testing.TB, config string, trail *trails.Trail, ring *calls.Ring) transcript.Ends {
	t.Helper()
	adapt, pin := func(p transport.Pipe) transport.Pipe { return p }, mcp.Unknown
	var ping time.Duration
	switch config = strings.TrimSpace(config); config {
	case "":
	case "ping: 5s":
		ping = 5 * time.Second
	case "dialect: " + dialect.CodexAppServer:
		adapt, pin = codex.New(codex.Options{}).Adapt, mcp.LatestLegacy
	default:
		t.Fatalf("unknown configuration: %q", config)
	}
	client, runnerClient := transcript.Pipe()
	behind, runnerUpstream := transcript.Pipe()
	var reached atomic.Bool
	u := upstream.New(upstream.Spec{Name: "s", OneClient: true, Pin: pin, Ping: ping, Pipe: func(context.Context) (transport.Pipe, error) {
		if reached.Swap(true) {
			return nil, errors.New("the transcript's server was opened twice")
		}
		return adapt(stdio.NewPipe(behind, behind, stdio.Options{Limits: jsonrpc.Limits{Bytes: stdio.MaxFromUpstream, Tolerant: true}})), nil
	}}, upstream.Options{Info: []byte(`{"name":"dragoman","version":"test"}`), Sessions: &conn.Sessions{}})
	relay := &bridge.Bridge{OneClient: true}
	endpoint := &downstream.Endpoint{Handler: trailed{&gateway.Single{Bridge: relay, Upstream: server{u}}, trail}, Events: &event.Publisher{}, Calls: ring}
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() {
		err := endpoint.ServePipe(t.Context(), stdio.NewPipe(client, client, stdio.Options{}), transport.Peer{Transport: "stdio", Endpoint: "stdio"})
		if errors.Is(err, downstream.ErrShutdown) {
			err = nil
		}
		synctest.Wait() // wait until the server has noticed that the client is gone
		relay.Close()
		u.Close(context.Background())
		ended <- errors.Join(err, client.Close(), behind.Close())
	})
	return transcript.Ends{Client: runnerClient, Upstream: runnerUpstream, Wait: func() error {
		running.Wait()
		return <-ended
	}}
}

const transcripts = "../../../testdata/transcripts/*.txtar"

// TestTranscripts runs the conversations of testdata/transcripts. They contain the bytes on
// both sides of Dragoman. Time is simulated, so no step waits in real time.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob(transcripts)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts were found: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { transcript.Run(t, f, start) })
		})
	}
}
