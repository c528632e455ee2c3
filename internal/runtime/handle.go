package runtime

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/downstream"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Handle is a downstream.Handler whose host can be replaced while clients are there. Calls end in
// the host in which they began, later ones go to the new host, and legacy clients are
// attached to it. Replace must be called once before anything else. Safe for concurrent
// use.
type Handle struct {
	now atomic.Pointer[Generation]

	mu       sync.Mutex // of attached, and of changes to now
	attached map[*attachment]struct{}
}

// Generation is one host of a Handle, and the count of those who use it.
type Generation struct {
	host  downstream.Handler
	users atomic.Int64 // retired is added once it was replaced
	once  sync.Once
	idle  chan struct{}
}

// retired is far below any number of users, so that users is negative from then on.
const retired = math.MinInt64 / 2

// Idle is closed when the generation was replaced and its last call is over.
func (g *Generation) Idle() <-chan struct{} { return g.idle }

func (g *Generation) leave() {
	if g.users.Add(-1) == retired {
		g.once.Do(func() { close(g.idle) })
	}
}

// retire is called once, after the Handle has got another generation.
func (g *Generation) retire() {
	if g.users.Add(retired) == retired {
		g.once.Do(func() { close(g.idle) })
	}
}

// enter returns the generation that holds now, with one more user. It takes no lock and
// allocates nothing.
func (h *Handle) enter() *Generation {
	for {
		g := h.now.Load()
		if g.users.Add(1) > 0 {
			return g
		}
		g.leave() // it was retired meanwhile, and now is another already
	}
}

// attachment is a legacy client that hears what happens outside of its calls.
type attachment struct {
	facts  *mcp.ClientInfo
	to     mcp.Subscriber
	detach func()
}

// Replace puts a host in the place of the old one and moves all attached clients to it;
// they are told that all lists have changed. It returns the old generation, nil the first
// time. Calls of Replace must not overlap.
func (h *Handle) Replace(host downstream.Handler) *Generation {
	next := &Generation{host: host, idle: make(chan struct{})}
	h.mu.Lock()
	old := h.now.Swap(next)
	all := make([]*attachment, 0, len(h.attached))
	for a := range h.attached {
		all = append(all, a)
	}
	h.mu.Unlock()
	if old != nil {
		old.retire()
	}
	for _, a := range all {
		detach := host.Subscribe(a.facts, a.to)
		h.mu.Lock()
		_, still := h.attached[a]
		before := a.detach
		if still {
			a.detach = detach
		}
		h.mu.Unlock()
		if !still {
			detach()
			continue
		}
		before()
		for _, note := range []string{mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged} {
			a.to.Notify(jsonrpc.AppendNotification(nil, note, nil))
		}
	}
	return old
}

// Renew begins a new generation with the same host, of which clients notice nothing, and
// returns the old one. Replace must have been called before. Calls of Renew and Replace
// must not overlap.
func (h *Handle) Renew() *Generation {
	h.mu.Lock()
	old := h.now.Load()
	h.now.Store(&Generation{host: old.host, idle: make(chan struct{})})
	h.mu.Unlock()
	old.retire()
	return old
}

// Hello implements downstream.Handler.
func (h *Handle) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	g := h.enter()
	defer g.leave()
	return g.host.Hello(ctx, f)
}

// Call implements downstream.Handler.
func (h *Handle) Call(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	g := h.enter()
	defer g.leave()
	return g.host.Call(ctx, c, s)
}

// Notify implements downstream.Handler.
func (h *Handle) Notify(ctx context.Context, f *mcp.ClientInfo, m *jsonrpc.Message) {
	g := h.enter()
	defer g.leave()
	g.host.Notify(ctx, f, m)
}

// Subscribe implements downstream.Handler. The attachment follows the Handle from host to host.
func (h *Handle) Subscribe(f *mcp.ClientInfo, to mcp.Subscriber) (detach func()) {
	a := &attachment{facts: f, to: to}
	for {
		g := h.now.Load()
		a.detach = g.host.Subscribe(f, to)
		h.mu.Lock()
		if h.now.Load() == g {
			break
		}
		// The host was replaced meanwhile, and Replace has not seen this client.
		h.mu.Unlock()
		a.detach()
	}
	if h.attached == nil {
		h.attached = make(map[*attachment]struct{})
	}
	h.attached[a] = struct{}{}
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		delete(h.attached, a)
		detach := a.detach
		h.mu.Unlock()
		detach()
	}
}
