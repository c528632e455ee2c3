package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/downstream"
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
	allow  func(context.Context, transport.Newcomer) (time.Duration, bool)
	budget *transport.Budget
	log    *slog.Logger
}

func newEndpoint(name string, r *downstream.Endpoint, o endpointOptions) *endpoint {
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

// path returns where the endpoint's Streamable HTTP is.
func (e *endpoint) path() string {
	if e.name == "" {
		return "/mcp"
	}
	return "/s/" + e.name + "/mcp"
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
