package downstream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakeHandler answers requests with functions by method. It answers other requests with their
// own params.
type fakeHandler struct {
	on map[string]func(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error)
	// failing is the error of Hello. Nil means that Hello succeeds.
	failing error

	mu       sync.Mutex
	hellos   []*mcp.ClientInfo
	notices  []string
	calls    []string
	standing mcp.Subscriber
	detached int
}

func (h *fakeHandler) Hello(_ context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hellos = append(h.hellos, f)
	if h.failing != nil {
		return nil, h.failing
	}
	return &mcp.ServerInfo{Info: []byte(`{"name":"host","version":"1"}`), Capabilities: []byte(`{"tools":{}}`)}, nil
}

func (h *fakeHandler) Call(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	h.mu.Lock()
	h.calls = append(h.calls, c.Msg.Method)
	h.mu.Unlock()
	if f := h.on[c.Msg.Method]; f != nil {
		return f(ctx, c, s)
	}
	return mcp.Answer([]byte(`{"method":"` + c.Msg.Method + `"}`)), nil
}

func (h *fakeHandler) Notify(_ context.Context, _ *mcp.ClientInfo, m *jsonrpc.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notices = append(h.notices, m.Method)
}

func (h *fakeHandler) Subscribe(_ *mcp.ClientInfo, s mcp.Subscriber) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standing = s
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.detached++
	}
}

// visit serves a client on a pipe in a synctest bubble. After script, it closes the client's
// end, and the conversation must end without an error.
func visit(t *testing.T, r *Endpoint, script func(w *pipetest.Wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := inmem.Pipe()
		var all sync.WaitGroup
		w := pipetest.Tap(t, near, &all)
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

// visitLegacy does the same as visit, after a legacy handshake.
func visitLegacy(t *testing.T, h *fakeHandler, script func(w *pipetest.Wire)) {
	t.Helper()
	visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
		w.Say(hello25, ready)
		w.Want(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"2025-11-25"…}}`)
		script(w)
	})
}

// gate blocks a call until the call is released or cancelled. Its channel is created on first
// use, in the synctest bubble of the test.
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

func (g *gate) call(ctx context.Context, _ *mcp.Call, _ mcp.Caller) (*mcp.Reply, error) {
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

type methods = map[string]func(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error)

const elicit = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m"}}`

func progress(token string, n float64) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%v}}`, token, n)
}
