package runtime

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
)

// Handle is a downstream.Handler that passes all requests to another handler, its host. The host
// can be replaced while clients are connected. A running call stays with the host with which it
// began. New calls go to the new host, and the subscriptions of legacy clients move to the new
// host. Call Replace once before any other method. Handle is safe for concurrent use.
type Handle struct {
	now atomic.Pointer[Generation]

	mu       sync.Mutex // guards the field attached; held while the field now is changed
	attached map[*attachment]struct{}
}

// Generation is one host of a Handle, such as a gateway, with the number of requests that use it.
type Generation struct {
	host  downstream.Handler
	users atomic.Int64 // the number of requests that use the generation; retired is added when the generation is replaced
	once  sync.Once
	idle  chan struct{}
}

// retired is added to Generation.users when the generation is replaced. After that, users is
// negative, and users == retired means that no request uses the generation.
const retired = math.MinInt64 / 2

// Idle returns a channel that is closed when the generation has been replaced and no request uses
// it any more.
func (g *Generation) Idle() <-chan struct{} { return g.idle }

func (g *Generation) leave() {
	if g.users.Add(-1) == retired {
		g.once.Do(func() { close(g.idle) })
	}
}

// retire marks a generation as replaced. Call retire once, after the new generation was stored in
// Handle.now.
func (g *Generation) retire() {
	if g.users.Add(retired) == retired {
		g.once.Do(func() { close(g.idle) })
	}
}

// enter increments users of the current generation and returns this generation. enter does not take
// a lock or allocate memory.
func (h *Handle) enter() *Generation {
	for {
		g := h.now.Load()
		if g.users.Add(1) > 0 {
			return g
		}
		g.leave() // the generation was replaced in the meantime, so try the new one
	}
}

// attachment is a legacy client that gets notifications outside of its calls.
type attachment struct {
	facts  *mcp.ClientInfo
	to     mcp.Subscriber
	detach func()
}

// watcher is a host that keeps the resource subscriptions of its attached clients.
type watcher interface {
	// TakeWatched returns the subscriptions of a client. After that, the host refuses new
	// subscriptions of the client.
	TakeWatched(f *mcp.ClientInfo) gateway.Watched
	// Resume adds subscriptions of an attached client. It does not wait for servers.
	Resume(f *mcp.ClientInfo, all gateway.Watched)
}

// carry moves the resource subscriptions of a client from one host to another.
func carry(from, to downstream.Handler, f *mcp.ClientInfo) {
	old, knows := from.(watcher)
	next, can := to.(watcher)
	if !knows || !can {
		return
	}
	if all := old.TakeWatched(f); len(all) > 0 {
		next.Resume(f, all)
	}
}

// Replace replaces the host and moves all attached clients, with their subscriptions, to the new
// host. The clients get a list_changed notification for each list. Replace returns the old
// generation, or nil on the first call. Calls of Replace must not overlap.
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
		if old != nil {
			carry(old.host, host, a.facts)
		}
		before() // detach after carry, so that servers of both hosts keep their resource subscriptions
		for _, note := range []string{mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged} {
			a.to.Notify(mcp.NewNote(note, nil))
		}
	}
	return old
}

// Renew starts a new generation with the same host, and returns the old generation. Clients are not
// affected. Replace must have been called before. Calls of Renew and Replace must not overlap.
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

// Call implements downstream.Handler. When the host is replaced, a subscriptions/listen moves to the new
// host, like a subscription. Its client would otherwise hear of no further change: for clients, a listen that
// has ended with its result has ended on purpose (2026-07-28 §Subscriptions, "Graceful Closure").
func (h *Handle) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	reply, host, err := h.callOnce(ctx, c, k, nil)
	for err == nil && reply != nil && reply.Replaced {
		again, next, failed := h.callOnce(ctx, c, moved{k}, host)
		if next == host {
			break // it is gone, and nobody takes over
		}
		reply, host, err = again, next, failed
	}
	return reply, err
}

// callOnce sends a call to the current host and returns this host. It does nothing if the host is but.
func (h *Handle) callOnce(ctx context.Context, c *mcp.Call, k mcp.Caller, but downstream.Handler) (*mcp.Reply, downstream.Handler, error) {
	g := h.enter()
	defer g.leave()
	if g.host == but {
		return nil, but, nil
	}
	reply, err := g.host.Call(ctx, c, k)
	return reply, g.host, err
}

// moved is the client of a listen that has moved to another host. It has been told already that the listen is
// acknowledged.
type moved struct{ mcp.Caller }

func (k moved) Notify(n *mcp.Note) {
	if n.Msg.Method != mcp.NoteAcknowledged {
		k.Caller.Notify(n)
	}
}

// Notify implements downstream.Handler.
func (h *Handle) Notify(ctx context.Context, f *mcp.ClientInfo, m *jsonrpc.Message) {
	g := h.enter()
	defer g.leave()
	g.host.Notify(ctx, f, m)
}

// Resubscribe implements downstream.Handler. If the host is replaced meanwhile, the client may have left it already,
// so its resources go to the new host, too.
func (h *Handle) Resubscribe(ctx context.Context, f *mcp.ClientInfo, uris []string) {
	for {
		g := h.enter()
		g.host.Resubscribe(ctx, f, uris)
		g.leave()
		if h.now.Load().host == g.host {
			return
		}
	}
}

// Subscribe implements downstream.Handler. When the host is replaced, the subscription moves to the
// new host.
func (h *Handle) Subscribe(f *mcp.ClientInfo, to mcp.Subscriber) (detach func()) {
	a := &attachment{facts: f, to: to}
	for {
		g := h.now.Load()
		a.detach = g.host.Subscribe(f, to)
		h.mu.Lock()
		if h.now.Load() == g {
			break
		}
		// The generation was replaced during Subscribe, so the client may be subscribed to an old
		// host.
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
