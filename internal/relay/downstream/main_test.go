package downstream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakeHandler answers a request with the function for its method in on. Without such a function,
// the result contains the method.
type fakeHandler struct {
	on map[string]func(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error)
	// failing is the error that Hello returns; nil if Hello succeeds.
	failing error

	mu       sync.Mutex
	hellos   []*mcp.ClientInfo
	notices  []string
	calls    []string
	standing mcp.Subscriber
	detached int
	restored []string // the resources of Resubscribe
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

func (h *fakeHandler) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	h.mu.Lock()
	h.calls = append(h.calls, c.Msg.Method)
	h.mu.Unlock()
	if f := h.on[c.Msg.Method]; f != nil {
		return f(ctx, c, k)
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

func (h *fakeHandler) Resubscribe(_ context.Context, _ *mcp.ClientInfo, uris []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.restored = append(h.restored, uris...)
}

// visit lets r serve a client on a pipe, in a synctest bubble. script acts as the client. After
// script, visit closes the client's end of the pipe, and ServePipe must return nil.
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

// visitLegacy is like visit, but makes a legacy handshake before script.
func visitLegacy(t *testing.T, h *fakeHandler, script func(w *pipetest.Wire)) {
	t.Helper()
	visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
		w.Say(hello25, ready)
		w.Want(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"2025-11-25"…}}`)
		script(w)
	})
}

// gate blocks calls until the test closes the channel open() or a call is cancelled. open creates
// the channel on first use, so that it belongs to the synctest bubble of the test.
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

type methods = map[string]func(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error)

const elicit = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m"}}`

func progress(token string, n float64) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%v}}`, token, n)
}
