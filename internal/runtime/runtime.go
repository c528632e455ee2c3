package runtime

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/downstream"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/upstream"
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
	retired   work.Group // upstreams that are being closed

	joined *mount // of all servers; lives as long as the Runtime

	mu        sync.Mutex
	snapshot  *config.Snapshot
	since     time.Time                     // of the last Apply
	upstreams map[string]*upstream.Upstream // by name and fingerprint
	order     []*upstream.Upstream          // as in the configuration
	gateway   *gateway.Merged               // that joined leads to
	single    map[string]*mount             // by server name
	singles   map[string]*gateway.Single    // that they lead to
	draining  bool
}

// mount is an endpoint with the handle that its clients' conversations lead to.
type mount struct {
	handle    *Handle
	reception *downstream.Endpoint
	endpoint  *Endpoint
}

// New makes a Runtime without servers. Apply must be called before clients come.
func New(o Options) *Runtime {
	r := &Runtime{
		opts: o, endpoints: NewEndpoints(), since: time.Now(), upstreams: make(map[string]*upstream.Upstream),
		single: make(map[string]*mount), singles: make(map[string]*gateway.Single),
	}
	r.bridge = NewBridge(o.Events, o.Budget)
	r.bridge.Observe = observedBy(o.Events)
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
// running. Others are closed when their last call has ended, or after Options.Drain.
func (r *Runtime) Apply(s *config.Snapshot) {
	h := r.hooks
	h.Dialects = s.Look()
	r.mu.Lock()
	next := make(map[string]*upstream.Upstream)
	var order []*upstream.Upstream
	var enabled []config.Server
	for _, c := range s.Servers {
		if c.Disabled {
			continue
		}
		key := c.Name + "\x00" + c.Fingerprint
		u := r.upstreams[key]
		if u == nil {
			u = NewUpstream(c, h)
		} else {
			u.SetTimes(timesOf(c))
		}
		next[key] = u
		order = append(order, u)
		enabled = append(enabled, c)
	}
	var old []*upstream.Upstream
	for key, u := range r.upstreams {
		if next[key] == nil {
			old = append(old, u)
		}
	}
	before := r.gateway
	g := &gateway.Merged{
		Bridge: r.bridge, Listens: &r.listens, Names: gateway.Names{Separator: s.Separator}, Face: r.identity(s),
		Prefixes: make(map[string]string),
	}
	for i, u := range order {
		g.Upstreams = append(g.Upstreams, shown(u, enabled[i].Expose))
		if p := enabled[i].Prefix; p != "" && p != u.Name() {
			g.Prefixes[u.Name()] = p
		}
	}
	r.snapshot, r.upstreams, r.order, r.gateway, r.since = s, next, order, g, time.Now()
	type move struct {
		m *mount
		h downstream.Handler
	}
	moves := []move{{r.joined, g}}
	gone := r.singles
	r.singles = make(map[string]*gateway.Single)
	for i, u := range order {
		m := r.single[u.Name()]
		if m == nil {
			m = r.newMount(u.Name())
			r.single[u.Name()] = m
		}
		if h := gone[u.Name()]; h != nil && h.Upstream == gateway.Upstream(server{u}) && enabled[i].Expose.IsZero() {
			r.singles[u.Name()] = h
			delete(gone, u.Name())
			continue
		}
		h := &gateway.Single{Bridge: r.bridge, Listens: &r.listens, Upstream: shown(u, enabled[i].Expose)}
		r.singles[u.Name()] = h
		moves = append(moves, move{m, h})
	}
	var closing []*mount
	for name, m := range r.single {
		if r.singles[name] == nil {
			closing = append(closing, m)
			delete(r.single, name)
		}
	}
	r.mu.Unlock()
	var replaced []*Generation
	for _, x := range moves {
		if g := x.m.handle.Replace(x.h); g != nil {
			replaced = append(replaced, g)
		}
	}
	for _, h := range gone {
		h.Drain()
	}
	if before != nil {
		before.Drain()
	}
	if len(old) > 0 || before != nil {
		r.retired.Go(func() {
			r.retire(old, replaced, closing)
			if before != nil {
				before.Close()
			}
		})
	}
}

// identity returns how we introduce ourselves under a configuration. The environment wins
// over the file, so that a container can be told without one.
func (r *Runtime) identity(s *config.Snapshot) gateway.Identity {
	or := func(env, value string) string {
		if v := os.Getenv(env); v != "" {
			return v
		}
		return value
	}
	f := gateway.Identity{
		Name:    or("DRAGOMAN_SERVER_NAME", s.Identity.Name),
		Title:   or("DRAGOMAN_SERVER_TITLE", s.Identity.Title),
		Version: or("DRAGOMAN_SERVER_VERSION", s.Identity.Version),
		Join:    gateway.InstructionsOrder(s.Identity.Instructions.Join.String()),
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
	CloseAll(order, limit)
	r.retired.Wait()
}
