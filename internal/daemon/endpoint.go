package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/peer"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// endpoint is one place where clients can knock: Streamable HTTP of both eras on
// one URL, and HTTP+SSE beside it.
type endpoint struct {
	name string
	http *streamhttp.Server
	sse  *sse.Server
}

type endpointOptions struct {
	guard  *httpdoor.Guard
	limits config.Limits
	allow  func(remote, principal string) (time.Duration, bool)
	budget *transport.Budget
	log    *slog.Logger
}

func newEndpoint(name string, r *peer.Reception, o endpointOptions) *endpoint {
	return &endpoint{
		name: name,
		http: streamhttp.NewServer(streamhttp.Options{
			Acceptor: r, Endpoint: name, Guard: o.guard, AllowInitialize: o.allow,
			MaxBody: int64(o.limits.Body), Budget: o.budget, Log: o.log,
		}),
		sse: sse.NewServer(sse.Options{
			Acceptor: r, Endpoint: name, Guard: o.guard, AllowStream: o.allow,
			MaxBody: int64(o.limits.Body), Budget: o.budget, Log: o.log,
		}),
	}
}

// mount puts the endpoint's three routes under prefix.
func (e *endpoint) mount(mux *http.ServeMux, prefix string) {
	mux.Handle(prefix+"/mcp", e.http)
	mux.Handle(prefix+"/sse", e.sse)
	mux.Handle(prefix+"/messages", e.sse)
}

// run looks after the endpoint's sessions until ctx ends.
func (e *endpoint) run(ctx context.Context) { _ = e.http.Run(ctx) }

// drain lets go what does not end by itself and refuses newcomers.
func (e *endpoint) drain() {
	e.http.Drain()
	e.sse.Drain()
}

// close ends what runs at the endpoint, tells it the cause, and waits for it.
func (e *endpoint) close(cause error) {
	var wait sync.WaitGroup
	wait.Go(func() { _ = e.http.CloseWith(cause) })
	_ = e.sse.CloseWith(cause)
	wait.Wait()
}

// newcomers limits how often one client may open a session.
type newcomers struct {
	perSecond int

	mu   sync.Mutex
	seen map[string]*newcomer
}

type newcomer struct {
	limit *rate.Limiter
	last  time.Time
}

// maxNewcomers bounds how many clients are remembered at once.
const maxNewcomers = 4096

// allow is a streamhttp.Options.AllowInitialize. A burst of ten seconds' worth is
// allowed, since clients open several sessions when they start.
func (n *newcomers) allow(remote, principal string) (retryAfter time.Duration, ok bool) {
	if n.perSecond <= 0 {
		return 0, true
	}
	key := remote + "\x00" + principal
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = make(map[string]*newcomer)
	}
	c := n.seen[key]
	if c == nil {
		if len(n.seen) >= maxNewcomers {
			n.forgetLocked(now)
		}
		c = &newcomer{limit: rate.NewLimiter(rate.Limit(n.perSecond), 10*n.perSecond)}
		n.seen[key] = c
	}
	c.last = now
	if c.limit.AllowN(now, 1) {
		return 0, true
	}
	return time.Second, false
}

// forgetLocked makes room: whoever has been quiet for long enough to have its
// whole burst again, or, when all are busy, anyone.
func (n *newcomers) forgetLocked(now time.Time) {
	for key, c := range n.seen {
		if now.Sub(c.last) > 10*time.Second {
			delete(n.seen, key)
		}
	}
	for key := range n.seen {
		if len(n.seen) < maxNewcomers {
			return
		}
		delete(n.seen, key)
	}
}
