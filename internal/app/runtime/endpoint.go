package runtime

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// Endpoint is one address for clients. It serves Streamable HTTP of both eras on one URL, and
// HTTP+SSE on two other URLs.
type Endpoint struct {
	base string // the URL path above those in leaves
	http *streamhttp.Server
	sse  *sse.Server
}

// findName stands for the address at which clients search their tools, among the names of servers. No server has it.
const findName = "/find"

// EndpointOptions are the options of NewEndpoint.
type EndpointOptions struct {
	// Project is the project of the endpoint. "" is the default project, whose paths do not name it.
	Project string
	Guard   *httpdoor.Guard
	// Principal says who sent a request; see streamhttp.Options. Nil refuses everybody.
	Principal func(*http.Request) (*identity.Principal, error)
	// Places says in which process a session or a stream exists. Nil means transport.Alone.
	Places transport.Places
	// MaxBody returns the maximum bytes of a client's message; see streamhttp.Options.
	MaxBody func() int64
	// Forward gets the requests for other processes. Nil means that they are refused.
	Forward httpdoor.Forwarder
	// Prefix is the path at which a reverse proxy publishes Dragoman; see sse.Options.
	Prefix string
	// Allow decides whether a client may open a session; see streamhttp.Options.
	Allow  func(context.Context, transport.Newcomer) (time.Duration, bool)
	Budget *transport.Budget
	Log    *slog.Logger
}

// NewEndpoint creates the endpoint of the server with the given name. With the name "" it creates
// the merged endpoint of all servers, and with findName the one at which clients search their tools. r handles the
// messages of the endpoint's clients.
func NewEndpoint(name string, r *downstream.Endpoint, o EndpointOptions) *Endpoint {
	base, label := "", name
	switch name {
	case "":
	case findName:
		base, label = "/find", "find"
	default:
		base = "/s/" + name
	}
	if o.Project != "" && o.Project != event.DefaultProject {
		base, label = "/p/"+o.Project+base, o.Project+"/"+label
	}
	return &Endpoint{
		base: base,
		http: streamhttp.NewServer(streamhttp.Options{
			Acceptor: r, Endpoint: label, Guard: o.Guard, Principal: o.Principal, Places: o.Places, Forward: o.Forward, AllowInitialize: o.Allow,
			MaxBody: o.MaxBody, Budget: o.Budget, Log: o.Log,
		}),
		sse: sse.NewServer(sse.Options{
			Acceptor: r, Endpoint: label, Guard: o.Guard, Principal: o.Principal, Places: o.Places, Forward: o.Forward, Prefix: o.Prefix, AllowStream: o.Allow,
			MaxBody: o.MaxBody, Budget: o.Budget, Log: o.Log,
		}),
	}
}

// Path returns the URL path at which the endpoint serves Streamable HTTP.
func (e *Endpoint) Path() string { return e.base + "/mcp" }

// Counts returns the endpoint's counters for Streamable HTTP and for HTTP+SSE.
func (e *Endpoint) Counts() (streamhttp.Counts, sse.Counts) { return e.http.Counts(), e.sse.Counts() }

// Mount registers the endpoint's three routes under prefix. They check the Host and the Origin of
// each request, and ask who sent it.
func (e *Endpoint) Mount(mux *http.ServeMux, prefix string) {
	for _, leaf := range leaves {
		if leaf == "mcp" {
			mux.Handle(prefix+"/"+leaf, e.http)
		} else {
			mux.Handle(prefix+"/"+leaf, e.sse)
		}
	}
}

// leaves are the last path segments of an endpoint's URLs.
var leaves = [...]string{"mcp", "sse", "messages"}

// serve answers a request with one of the path segments in leaves, which who has sent.
func (e *Endpoint) serve(w http.ResponseWriter, r *http.Request, leaf string, who *identity.Principal) {
	if leaf == "mcp" {
		e.http.Serve(w, r, who)
	} else {
		e.sse.Serve(w, r, who)
	}
}

// run removes the endpoint's expired sessions until ctx ends.
func (e *Endpoint) run(ctx context.Context) { _ = e.http.Run(ctx) }

// drain refuses new clients, and ends the streams that would otherwise stay open. Running requests
// continue.
func (e *Endpoint) drain() {
	e.http.Drain()
	e.sse.Drain()
}

// handOver gives the endpoint's sessions to other processes; see streamhttp.Server.HandOver.
func (e *Endpoint) handOver(ctx context.Context) { e.http.HandOver(ctx) }

// endSeat ends what runs for a seat; see Endpoints.EndSeat.
func (e *Endpoint) endSeat(seat string, cause error) {
	var wait sync.WaitGroup
	wait.Go(func() { e.http.EndSeat(seat, cause) })
	e.sse.EndSeat(seat, cause)
	wait.Wait()
}

// close ends all requests and sessions of the endpoint, and waits until they have ended. Clients
// with running requests get an error that contains the cause.
func (e *Endpoint) close(cause error) {
	var wait sync.WaitGroup
	wait.Go(func() { _ = e.http.CloseWith(cause) })
	_ = e.sse.CloseWith(cause)
	wait.Wait()
}
