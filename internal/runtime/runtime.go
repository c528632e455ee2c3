package runtime

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/catalog"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/downstream"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// DrainLimit is how long running calls may take to end once we are told to stop, or their
// server is taken out of the configuration.
const DrainLimit = 30 * time.Second

// Options are those of New. Config, Log, Guard and Budget must be set.
type Options struct {
	// Config is the configuration of the start. Apply does not change its limits,
	// revisions, hosts and origins; see config.Snapshot.
	Config *config.Snapshot
	Log    *slog.Logger
	Events *event.Publisher // nil publishes nothing
	Guard  *httpdoor.Guard
	Budget *transport.Budget
	// Drain is how long calls of a removed server may take to end; 0 means DrainLimit.
	Drain   time.Duration
	Version string
}

// Runtime is what a configuration has been turned into. Apply replaces the configuration
// while clients are there. New makes a Runtime; Close must be called at the end. All
// methods are safe for concurrent use, but calls of Apply must not overlap.
type Runtime struct {
	opts      Options
	hooks     Hooks
	bridge    *bridge.Bridge
	listens   gateway.ListenQuota
	newcomers newcomers
	texts     instructions
	endpoints *Endpoints
	retired   work.Group // what waits for the end of replaced generations

	joined *mount // of all servers; lives as long as the Runtime

	mu       sync.Mutex
	snapshot *config.Snapshot
	since    time.Time                  // of the last Apply
	servers  map[string]*server         // by name and fingerprint
	order    []*server                  // as in the configuration
	gateway  *gateway.Merged            // that joined leads to
	single   map[string]*mount          // by server name
	singles  map[string]*gateway.Single // that they lead to
	draining bool
}

// mount is an endpoint with the handle that its clients' conversations lead to.
type mount struct {
	handle    *Handle
	reception *downstream.Endpoint
	endpoint  *Endpoint
	servers   []*server // that the current generation of handle holds; only Apply uses it
}

// replace lets clients reach h from now on, and with it these servers. It returns the old
// generation, nil the first time, and the servers that it holds.
func (m *mount) replace(h downstream.Handler, to []*server) (*Generation, []*server) {
	for _, x := range to {
		x.hold()
	}
	before := m.servers
	m.servers = to
	return m.handle.Replace(h), before
}

// New makes a Runtime without servers. Apply must be called before clients come.
func New(o Options) *Runtime {
	r := &Runtime{
		opts: o, endpoints: NewEndpoints(), since: time.Now(), servers: make(map[string]*server),
		single: make(map[string]*mount), singles: make(map[string]*gateway.Single),
	}
	r.bridge = NewBridge(o.Events, o.Budget)
	r.hooks = Hooks{Log: o.Log, Events: o.Events, Version: o.Version, Changed: r.changed}
	r.newcomers.perSecond = o.Config.Limits.InitializePerSecond
	r.joined = r.newMount("")
	return r
}

// newMount makes a mount with the settings of the configuration of the start.
func (r *Runtime) newMount(name string) *mount {
	s := r.opts.Config
	m := &mount{handle: &Handle{}}
	m.reception = &downstream.Endpoint{
		Host: m.handle, Events: r.opts.Events, Log: r.opts.Log,
		Revisions: s.Revisions.Accept, Strict: s.Revisions.Refuse, Budget: r.opts.Budget,
	}
	m.endpoint = NewEndpoint(name, m.reception, EndpointOptions{
		Guard: r.opts.Guard, Limits: s.Limits, Allow: r.newcomers.allow, Budget: r.opts.Budget, Log: r.opts.Log,
	})
	r.endpoints.Add(m.endpoint)
	return m
}

// changed hears from upstreams that their lists have changed.
func (r *Runtime) changed(server, kind string) {
	r.mu.Lock()
	g := r.gateway
	r.mu.Unlock()
	if g != nil {
		g.Changed(server, kind)
	}
}

// Apply makes a configuration the current one. Servers whose settings are the same keep
// running. Others are closed when the last call that began before has ended, or after
// Options.Drain.
func (r *Runtime) Apply(s *config.Snapshot) {
	h := r.hooks
	h.Dialects = s.Look()
	r.mu.Lock()
	next := make(map[string]*server)
	var order []*server
	var enabled []config.Server
	for _, c := range s.Servers {
		if c.Disabled {
			continue
		}
		key := c.Name + "\x00" + c.Fingerprint
		x := r.servers[key]
		if x == nil {
			x = newServer(NewUpstream(c, h))
		} else {
			x.SetTimes(timesOf(c))
		}
		next[key] = x
		order = append(order, x)
		enabled = append(enabled, c)
	}
	var out leaving
	for key, x := range r.servers {
		if next[key] == nil {
			out.servers = append(out.servers, x)
		}
	}
	out.gateway = r.gateway
	g := &gateway.Merged{
		Bridge: r.bridge, Listens: &r.listens, Names: catalog.Names{Separator: s.Separator}, Face: r.identity(s),
		Prefixes: make(map[string]string),
	}
	for i, x := range order {
		g.Upstreams = append(g.Upstreams, shown(x, enabled[i].Expose))
		if p := enabled[i].Prefix; p != "" && p != x.Name() {
			g.Prefixes[x.Name()] = p
		}
	}
	r.snapshot, r.servers, r.order, r.gateway, r.since = s, next, order, g, time.Now()
	type move struct {
		m  *mount
		h  downstream.Handler
		to []*server
	}
	moves := []move{{r.joined, g, order}}
	gone := r.singles
	r.singles = make(map[string]*gateway.Single)
	for i, x := range order {
		m := r.single[x.Name()]
		if m == nil {
			m = r.newMount(x.Name())
			r.single[x.Name()] = m
		}
		if h := gone[x.Name()]; h != nil && h.Upstream == gateway.Upstream(x) && enabled[i].Expose.IsZero() {
			r.singles[x.Name()] = h
			delete(gone, x.Name())
			continue
		}
		h := &gateway.Single{Bridge: r.bridge, Listens: &r.listens, Upstream: shown(x, enabled[i].Expose)}
		r.singles[x.Name()] = h
		moves = append(moves, move{m, h, []*server{x}})
	}
	for name, m := range r.single {
		if r.singles[name] == nil {
			out.mounts = append(out.mounts, m)
			delete(r.single, name)
		}
	}
	r.mu.Unlock()
	for _, x := range moves {
		out.add(x.m.replace(x.h, x.to))
	}
	for _, m := range out.mounts {
		out.add(m.handle.Renew(), m.servers)
	}
	for _, h := range gone {
		h.Drain()
	}
	if out.gateway != nil {
		out.gateway.EndListens()
	}
	r.retire(out)
}

// identity returns how we introduce ourselves under a configuration. The environment wins
// over the file, so that a container can be told without one.
func (r *Runtime) identity(s *config.Snapshot) catalog.Identity {
	or := func(env, value string) string {
		if v := os.Getenv(env); v != "" {
			return v
		}
		return value
	}
	f := catalog.Identity{
		Name:    or("DRAGOMAN_SERVER_NAME", s.Identity.Name),
		Title:   or("DRAGOMAN_SERVER_TITLE", s.Identity.Title),
		Version: or("DRAGOMAN_SERVER_VERSION", s.Identity.Version),
		Join:    catalog.InstructionsOrder(s.Identity.Instructions.Join.String()),
	}
	if f.Version == "" {
		f.Version = r.opts.Version
	}
	in := s.Identity.Instructions
	f.Instructions = func(ctx context.Context) string { return r.texts.get(ctx, in, r.opts.Log) }
	return f
}

// Current returns the configuration that was applied last, nil before the first.
func (r *Runtime) Current() *config.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot
}

// Warm opens all servers that are not lazy at once, so that the first client need not
// wait. It does not wait for them.
func (r *Runtime) Warm() {
	r.mu.Lock()
	g, s := r.gateway, r.snapshot
	r.mu.Unlock()
	lazy := make(map[string]bool)
	for _, c := range s.Servers {
		lazy[c.Name] = c.Lazy
	}
	g.Warm(func(server string) bool { return !lazy[server] })
}

// Endpoints returns the endpoints of all servers and the joined one.
func (r *Runtime) Endpoints() *Endpoints { return r.endpoints }

// Reception returns where a client on a pipe meets all servers.
func (r *Runtime) Reception() *downstream.Endpoint { return r.joined.reception }

// Drain ends what would never end by itself: listens, and what waits for a change.
func (r *Runtime) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	r.gateway.Drain()
	for _, h := range r.singles {
		h.Drain()
	}
}

// Close closes all endpoints and servers and returns when nothing runs any more. A server
// may take limit to end by itself.
func (r *Runtime) Close(limit time.Duration) {
	r.endpoints.Close()
	r.mu.Lock()
	g, order, singles := r.gateway, r.order, r.singles
	r.mu.Unlock()
	for _, h := range singles {
		h.Drain()
	}
	if g != nil {
		g.Close()
	}
	r.bridge.Close()
	closeServers(order, limit)
	r.retired.Wait()
}
