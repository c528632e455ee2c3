package peer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func scan(t testing.TB, s string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(s), jsonrpc.Limits{Tolerant: true})
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return m
}

// wire is one end of a pipe, used by a test in a bubble: everything that arrives is
// kept until it is asked for.
type wire struct {
	t    *testing.T
	pipe transport.Pipe

	mu  sync.Mutex
	got []string
	end error
}

// tap reads a pipe until it ends.
func tap(t *testing.T, p transport.Pipe, reading *sync.WaitGroup) *wire {
	w := &wire{t: t, pipe: p}
	reading.Go(func() {
		for {
			m, err := p.Read()
			var batch *transport.Batch
			line := ""
			switch {
			case errors.As(err, &batch):
				line = string(batch.Raw)
			case err != nil:
				w.mu.Lock()
				w.end = err
				w.mu.Unlock()
				return
			default:
				line = string(m.Raw)
			}
			w.mu.Lock()
			w.got = append(w.got, line)
			w.mu.Unlock()
		}
	})
	return w
}

// say writes lines and waits until they have had all their effect.
func (w *wire) say(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		if err := w.pipe.Write([]byte(line)); err != nil {
			w.t.Fatalf("saying %s: %v", line, err)
		}
		synctest.Wait()
	}
}

// heard returns what has arrived since it was last asked.
func (w *wire) heard() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got = nil
	return got
}

// want compares what has arrived with patterns, in which … stands for anything.
func (w *wire) want(patterns ...string) {
	w.t.Helper()
	got := w.heard()
	if len(got) != len(patterns) {
		w.t.Fatalf("heard %d messages, want %d:\n%s\nwant:\n%s", len(got), len(patterns), strings.Join(got, "\n"), strings.Join(patterns, "\n"))
	}
	for i, p := range patterns {
		if !like(got[i], p) {
			w.t.Errorf("heard %s\nwant  %s", got[i], p)
		}
	}
}

// like reports whether the parts of a pattern, which … separates, are in s one
// after the other, the first at its beginning and the last at its end.
func like(s, pattern string) bool {
	parts := strings.Split(pattern, "…")
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	if len(parts) == 1 {
		return s == ""
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, last)
}

// fakeHost answers by method, and everything else with what it was asked.
type fakeHost struct {
	on map[string]func(ctx context.Context, c *mcp.Call, s Sink) (*mcp.Reply, error)

	mu       sync.Mutex
	hellos   []*mcp.ClientFacts
	notices  []string
	calls    []string
	standing Standing
	detached int
}

func (h *fakeHost) Hello(_ context.Context, f *mcp.ClientFacts) (*mcp.Hello, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hellos = append(h.hellos, f)
	return &mcp.Hello{Info: []byte(`{"name":"host","version":"1"}`), Capabilities: []byte(`{"tools":{}}`)}, nil
}

func (h *fakeHost) Call(ctx context.Context, c *mcp.Call, s Sink) (*mcp.Reply, error) {
	h.mu.Lock()
	h.calls = append(h.calls, c.Msg.Method)
	h.mu.Unlock()
	if f := h.on[c.Msg.Method]; f != nil {
		return f(ctx, c, s)
	}
	return mcp.Answer([]byte(`{"method":"` + c.Msg.Method + `"}`)), nil
}

func (h *fakeHost) Notice(_ context.Context, _ *mcp.ClientFacts, m *jsonrpc.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = append(h.notices, m.Method)
}

func (h *fakeHost) Attach(_ *mcp.ClientFacts, s Standing) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standing = s
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.detached++
	}
}

// visit serves a client on a pipe in a bubble. After script the client hangs up,
// and the conversation has to end by itself without an error.
func visit(t *testing.T, r *Reception, script func(w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := inmem.Pipe()
		var all sync.WaitGroup
		w := tap(t, near, &all)
		all.Go(func() {
			if err := r.ServePipe(t.Context(), far, transport.Peer{Transport: "inmem"}); err != nil {
				t.Errorf("ServePipe: %v", err)
			}
		})
		defer all.Wait()
		defer func() { _ = near.Close() }()
		script(w)
	})
}

const (
	hello25  = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	hello26  = `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}`
	ready    = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	modernly = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
)

// greeted is visit after a legacy handshake.
func greeted(t *testing.T, h *fakeHost, script func(w *wire)) {
	t.Helper()
	visit(t, &Reception{Host: h}, func(w *wire) {
		w.say(hello25, ready)
		w.want(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"2025-11-25"…}}`)
		script(w)
	})
}

// gate is a call that waits until it is opened or cancelled. Its channel is made by
// whoever comes first, in the bubble of the test.
type gate struct {
	once   sync.Once
	way    chan struct{}
	mu     sync.Mutex
	causes []error
}

func (g *gate) open() chan struct{} {
	g.once.Do(func() { g.way = make(chan struct{}) })
	return g.way
}

func (g *gate) call(ctx context.Context, _ *mcp.Call, _ Sink) (*mcp.Reply, error) {
	select {
	case <-g.open():
		return mcp.Answer([]byte(`{"gate":"open"}`)), nil
	case <-ctx.Done():
		g.mu.Lock()
		g.causes = append(g.causes, context.Cause(ctx))
		g.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

func (g *gate) ended() []error {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.causes
}

type calls = map[string]func(ctx context.Context, c *mcp.Call, s Sink) (*mcp.Reply, error)
