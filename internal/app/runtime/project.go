package runtime

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"log/slog"
	"maps"
	"os"
	processors "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Project is a set of servers and the endpoints of their clients, with a configuration of its own. It
// has its own bridge and keys, so a state or a task id of one project is unknown in every other; its
// own quotas and rates; and its own records of calls and log. Projects share the process: the listener,
// the principals, the policy, the memory. Runtime.Apply makes a Project. All methods are safe for
// concurrent use.
type Project struct {
	name      string
	runtime   *Runtime
	log       *slog.Logger
	events    *event.Publisher
	calls     *calls.Ring   // nil if no calls are recorded
	recent    *logring.Ring // nil if no records are kept
	budget    *transport.Budget
	hooks     Hooks
	bridge    *bridge.Bridge
	listens   gateway.ListenQuota
	signers   signers
	signIn    *gateway.SignIn // nil if nobody can sign in
	newcomers newcomers
	limits    limiter
	result    atomic.Int64 // of the current configuration, like maxBody
	shortener *gateway.Shortener
	rules     atomic.Pointer[downstream.Rules] // of the current configuration, like maxBody
	maxBody   atomic.Int64
	texts     instructions
	prompts   prompts
	pins      pinboard
	questions questions.Box
	joined    *mount        // the endpoint of all servers
	find      *mount        // the same, but clients search their tools
	gone      chan struct{} // closed when the project was removed or the process stops

	mu       sync.Mutex // guards the fields below
	snapshot *config.Snapshot
	asked    *config.Snapshot   // as it was given to Apply; in snapshot, the servers of default that the project uses are filled in
	former   []string           // the secrets of earlier configurations, oldest first; apply replaces the slice and never changes its elements
	cleaners *cleaners          // of snapshot and former, or nil if there's no snapshot yet
	since    time.Time          // the time of the last apply
	servers  map[string]*server // the enabled servers by name and fingerprint
	order    []*server          // the enabled servers in the order of the configuration
	gateway  *gateway.Merged
	uris     catalog.URIs               // what clients call the pages and skills of the servers
	single   map[string]*mount          // the endpoints of single servers, by server name
	singles  map[string]*gateway.Single // the handlers of the endpoints in single, by server name
	policy   atomic.Pointer[rules]      // of snapshot; written under mu
	round    int                        // how often somebody has got other roles, or what is held has changed; rules of another round aren't the same
	draining bool
	removed  bool // gone is closed or about to be
}

// newProject returns a project without servers. Its limits are those of s.
func (r *Runtime) newProject(name string, s *config.Snapshot) *Project {
	o := &r.opts
	p := &Project{
		name: name, runtime: r, log: o.Log, events: o.Events.For(name), calls: o.Calls, recent: o.Recent, budget: o.Budget,
		since: time.Now(), gone: make(chan struct{}), servers: make(map[string]*server),
		single: make(map[string]*mount), singles: make(map[string]*gateway.Single),
	}
	key := o.TaskKey
	if name != event.DefaultProject {
		p.log = o.Log.With(loglimit.Peer("project", name))
		p.budget = o.Budget.Part(inFlightOf(s))
		if o.Calls != nil {
			p.calls = calls.New(calls.Options{})
		}
		if o.Recent != nil {
			p.recent = o.Recent.Part(name)
		}
		if key != nil {
			key = keyFor(key, name)
		}
	}
	p.bridge = NewBridge(p.events, p.budget)
	p.bridge.Keys, p.bridge.Places, p.bridge.Own = bridge.NewKeys(key), o.Places, o.Own
	if o.Seals != nil {
		p.bridge.Keys = o.Seals.Keyring(name)
	}
	p.hooks = Hooks{
		Log: p.log, Events: p.events, Recent: p.recent, Version: o.Version, Exposed: o.Exposed, Changed: p.changed,
		Starts: upstream.NewStarts(1), Seats: o.Seats, Home: name, Own: o.Own, Pinned: func() bool { return p.PinMode() != pins.Off },
	}
	p.newcomers.log = p.log
	p.shortener = &gateway.Shortener{Kept: &r.results, Most: func() int { return int(p.result.Load()) }}
	p.limits.table, p.limits.project, p.limits.caller = &r.traffic, name, p.caller
	p.questions.Events = p.events
	if o.Credentials != nil {
		p.hooks.Credentials = func(c config.Server) upstream.Credentials { return o.Credentials(name, c) }
	}
	if o.SignIn != nil {
		p.signIn = NewSignIn(&p.signers, o.Version)
		p.signIn.Signed = p.SignedIn
	}
	p.texts.ask = p.activePrompt
	if o.Prompts != nil {
		p.prompts.replace(o.Prompts(name))
	}
	p.limit(s)
	p.openPins()
	p.joined, p.find = p.newMount(""), p.newMount(findName)
	return p
}

// keyFor derives the key of a project from the key of the process.
func keyFor(key []byte, project string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte("project " + project))
	return h.Sum(nil)
}

// inFlightOf returns how many bytes of messages may be in memory at the same time with a configuration.
func inFlightOf(s *config.Snapshot) int64 { return InFlight(s.Limits.InFlight, s.Limits.Body) }

// limit makes the limits and revisions of a configuration count for the next request and the next
// session.
func (p *Project) limit(s *config.Snapshot) {
	p.newcomers.setRate(s.Limits.InitializePerSecond)
	p.limits.now.Store(trafficOf(s))
	p.result.Store(int64(s.Limits.Result))
	p.maxBody.Store(int64(s.Limits.Body))
	p.rules.Store(&downstream.Rules{Revisions: s.Revisions.Accept, Strict: s.Revisions.Refuse, ManifestClient: s.Limits.ManifestClient})
	p.hooks.Starts.SetLimit(startsOf(s))
	if p.budget != p.runtime.opts.Budget {
		p.budget.SetLimit(inFlightOf(s))
	}
}

// startsOf returns how many servers may start at the same time. The start of a server mostly needs the
// processor, so the default is twice the number of processors.
func startsOf(s *config.Snapshot) int {
	return cmp.Or(s.Limits.Starts, 2*processors.NumCPU())
}

// Name returns the name of the project.
func (p *Project) Name() string { return p.name }

// Gone returns a channel that is closed when the project was removed, or when the process stops.
func (p *Project) Gone() <-chan struct{} { return p.gone }

// Calls returns the calls of the project's clients. It returns nil if they are not recorded.
func (p *Project) Calls() *calls.Ring { return p.calls }

// Recent returns the log records about the project. It returns nil if they are not kept.
func (p *Project) Recent() *logring.Ring { return p.recent }

// Budget returns the memory for the messages of the project.
func (p *Project) Budget() *transport.Budget { return p.budget }

// Joined returns the endpoint of all servers, for a client on a pipe.
func (p *Project) Joined() *downstream.Endpoint { return p.joined.clients }

// Current returns the configuration in use. It returns nil if none was applied yet.
func (p *Project) Current() *config.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot
}

// House returns the configuration in use of the default project, which is that of the whole file.
func (p *Project) House() *config.Snapshot { return p.runtime.own.Current() }

// mount returns the mount of a server, or nil if there is none. For "" it returns that of all servers.
func (p *Project) mount(server string) *mount {
	if server == "" {
		return p.joined
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.single[server]
}

// follow applies the configuration of the project again, if servers of default that it uses have changed.
// of is the new configuration of default.
func (p *Project) follow(of *config.Snapshot) {
	p.mu.Lock()
	asked, current := p.asked, p.snapshot
	p.mu.Unlock()
	if asked.Shares() && !asked.Bind(of).Equal(current) {
		p.apply(asked)
	}
}

// changed is called by an upstream when one of its lists has changed. It tells the clients of all projects
// that have the server.
func (p *Project) changed(server, kind string) {
	for _, x := range p.runtime.Projects() {
		if g := x.merged(); g != nil && (x == p || p == p.runtime.own && x.Shares(server)) {
			g.Changed(server, kind)
		}
	}
}

// Shares reports whether the enabled server with this name is one of default that the project only uses.
func (p *Project) Shares(name string) bool {
	x := p.server(name)
	return x != nil && x.home != p.name
}

// merged returns the current gateway. It returns nil before the first apply.
func (p *Project) merged() *gateway.Merged {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gateway
}

// apply replaces the current configuration; see Runtime.Apply.
func (p *Project) apply(asked *config.Snapshot) {
	s := asked
	if own := p.runtime.own; p != own && s.Shares() {
		if of := own.Current(); of != nil {
			s = s.Bind(of)
		}
	}
	h := p.hooks
	h.Dialects = s.Look()
	p.limit(s)
	if p.calls != nil {
		p.calls.Record(s.Record.On(!p.runtime.opts.Exposed))
	}
	out := leaving{cause: errServerRemoved}
	shared := p.runtime.sharedWith(p)
	p.mu.Lock()
	p.asked = asked
	order, enabled := p.adoptLocked(s, h, shared, &out)
	moves := p.planLocked(s, order, enabled, &out)
	p.mu.Unlock()
	p.move(moves, out)
}

// move brings new handlers into use, and retires what isn't used any longer.
func (p *Project) move(moves []move, out leaving) {
	for _, x := range moves {
		out.add(x.m.replace(x.h, x.to))
	}
	for _, m := range out.mounts {
		out.add(m.handle.Renew(), m.servers)
	}
	for _, h := range out.singles {
		h.EndListens()
	}
	for _, g := range out.gateways {
		g.EndListens()
	}
	p.retire(out)
}

// sharedWith returns the servers that a project may use besides its own: those of default, by name and
// fingerprint.
func (r *Runtime) sharedWith(p *Project) map[string]*server {
	if p == r.own {
		return nil
	}
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	return r.own.servers // apply replaces the map and never changes it
}

// adoptLocked makes s the current configuration. It returns the enabled servers with their settings,
// and adds those to l that are no longer configured. shared has the servers that the project may use
// besides its own.
func (p *Project) adoptLocked(s *config.Snapshot, h Hooks, shared map[string]*server, l *leaving) (order []*server, enabled []config.Server) {
	next := make(map[string]*server)
	for _, c := range s.Servers {
		if c.Disabled {
			continue
		}
		key := c.Name + "\x00" + c.Fingerprint
		x := p.servers[key]
		switch {
		case c.Shared && shared[key] != nil:
			if x = shared[key]; p.servers[key] != x {
				x.hold() // by this configuration; retire releases it
			}
		case x == nil || x.home != p.name:
			x = newServer(NewUpstream(c, h), p.name, p.runtime.lists.shelf(p.name, c))
		default:
			x.SetTimes(timesOf(c))
		}
		next[key] = x
		order, enabled = append(order, x), append(enabled, c)
	}
	for key, x := range p.servers {
		switch {
		case next[key] == x:
		case x.home != p.name:
			l.shared = append(l.shared, x)
		default:
			l.servers = append(l.servers, x)
		}
	}
	p.retireSecretsLocked()
	p.snapshot, p.servers, p.order, p.since = s, next, order, time.Now()
	p.cleaners = &cleaners{current: s, former: p.former, made: make(map[string]func(string) string)}
	return order, enabled
}

// mount is an endpoint with the handle that serves its clients.
type mount struct {
	handle   *Handle
	clients  *downstream.Endpoint
	endpoint *Endpoint
	servers  []*server // the servers that the current generation of handle uses; only apply and end use this field
}

// replace makes h the handler for clients. The parameter to contains the servers that h can reach.
// replace returns the old generation, which is nil on the first call, and the servers of that
// generation.
func (m *mount) replace(h downstream.Handler, to []*server) (*Generation, []*server) {
	for _, x := range to {
		x.hold()
	}
	before := m.servers
	m.servers = to
	return m.handle.Replace(h), before
}

// move is a new handler for a mount, with the servers that the handler can reach.
type move struct {
	m  *mount
	h  downstream.Handler
	to []*server
}

// newMount returns the mount of a server, or with "" that of all servers.
func (p *Project) newMount(name string) *mount {
	o := &p.runtime.opts
	m := &mount{handle: &Handle{}}
	m.clients = &downstream.Endpoint{Handler: m.handle, Events: p.events, Calls: p.calls, Log: p.log, Rules: p.rules.Load, Budget: p.budget, Traces: o.Traces.For(p.name)}
	m.endpoint = NewEndpoint(name, m.clients, EndpointOptions{
		Project: p.name, Guard: o.Guard, Principal: o.Principal, Places: o.Places, Forward: o.Forward,
		MaxBody: p.maxBody.Load, Prefix: o.Config.PublicPath(), Allow: p.newcomers.allow, Budget: p.budget, Log: p.log,
	})
	p.runtime.endpoints.Add(m.endpoint)
	return m
}

// planLocked creates the handlers for a configuration. enabled[i] contains the settings of order[i].
// planLocked returns a move for each mount that needs a new handler. It adds to l the objects that are
// no longer used.
func (p *Project) planLocked(s *config.Snapshot, order []*server, enabled []config.Server, l *leaving) (moves []move) {
	if p.gateway != nil {
		l.gateways = append(l.gateways, p.gateway)
	}
	p.setSigners(order)
	if mode := p.pinMode(s); p.pins.mode.Swap(uint32(mode)) != uint32(mode) {
		p.round++ // other items may be held
	}
	before, policy := p.policy.Load(), p.newRules(s)
	if before.same(policy) {
		policy = before
	}
	p.policy.Store(policy)
	p.gateway = p.newMerged(s, order, enabled)
	moves = []move{{p.joined, p.gateway, order}, {p.find, gateway.Finder{Merged: p.gateway}, order}}
	gone := p.singles
	p.singles = make(map[string]*gateway.Single)
	for i, x := range order {
		m := p.single[x.Name()]
		if m == nil {
			m = p.newMount(x.Name())
			p.single[x.Name()] = m
		}
		if h := gone[x.Name()]; h != nil && h.Upstream == gateway.Upstream(x) && policy == before && h.Questions == p.inbox(s) && sameExposed(h.Expose, exposedOf(enabled[i])) {
			p.singles[x.Name()] = h
			delete(gone, x.Name())
			continue
		}
		h := p.runtime.opts.Gate.Single(p.bridge, x, &p.listens, enabled[i])
		h.Project, h.Expose, h.Filter, h.SignIn, h.Policy = p.name, exposedOf(enabled[i]), p.filterBy(policy), p.signIn, policy.chain(h.Policy)
		h.Questions = p.inbox(s)
		h.Shortener = p.shortener
		h.Vet, h.Withheld, h.Renames = policy.vet(p.vet(enabled[i])), p.withheld(x.Name()), policy.renames()
		if x.shelf != nil {
			h.Kept = x.shelf
		}
		p.singles[x.Name()] = h
		moves = append(moves, move{m, h, []*server{x}})
	}
	l.singles = slices.AppendSeq(l.singles, maps.Values(gone))
	for name, m := range p.single {
		if p.singles[name] == nil {
			l.mounts = append(l.mounts, m)
			delete(p.single, name)
		}
	}
	return moves
}

// newMerged returns the gateway of all servers for a configuration.
func (p *Project) newMerged(s *config.Snapshot, order []*server, enabled []config.Server) *gateway.Merged {
	gate, policy := &p.runtime.opts.Gate, p.policy.Load()
	g := &gateway.Merged{
		Bridge: p.bridge, Policy: policy.chain(gate.Policy), Audit: gate.Audit, Project: p.name, Listens: &p.listens, Names: catalog.Names{Separator: s.Separator}, Identity: p.identity(s, p.prompts.instructions),
		Prefixes: make(map[string]string), Expose: exposedOf(enabled...), Filter: p.filterBy(policy), Vet: policy.vet(p.vet(enabled...)), Renames: policy.renames(), Withholds: p.PinMode() == pins.Hold, Clean: p.Clean, URIs: &p.uris, Before: p.gateway,
		SignIn: p.signIn, Own: p.prompts.upstream(), Questions: p.inbox(s), Shortener: p.shortener, Find: p.findBy(s, policy, enabled),
	}
	var names []string
	for i, x := range order {
		names = append(names, x.Name())
		g.Upstreams = append(g.Upstreams, x)
		if prefix := enabled[i].Prefix; prefix != x.Name() && (prefix != "" || enabled[i].Unprefixed) {
			g.Prefixes[x.Name()] = prefix
		}
	}
	p.uris.Retain(names)
	return g
}

// identity returns the name, title and version with which Dragoman describes itself. Environment
// variables override the configuration, so that a container needs no configuration file. active returns what the
// active prompt says.
func (p *Project) identity(s *config.Snapshot, active func() string) catalog.Identity {
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
		f.Version = p.runtime.opts.Version
	}
	in := s.Identity.Instructions
	f.From = in.From
	f.Instructions = func(ctx context.Context, client *mcp.ClientInfo) string {
		own := fill(p.texts.get(ctx, in, p.log), p.name, client)
		return strings.TrimSpace(own + "\n\n" + active())
	}
	return f
}

// Warm starts to open all servers that are not lazy, so that the first client does not have to
// wait. After that, such a server is opened again in the background whenever it fails or ends. Warm
// does not wait for the servers.
func (p *Project) Warm() {
	p.mu.Lock()
	order, g := p.order, p.gateway
	lazy := make(map[string]bool)
	for _, c := range p.snapshot.Servers {
		lazy[c.Name] = c.Lazy
	}
	p.mu.Unlock()
	for _, x := range order {
		if x.home == p.name { // else default keeps it open
			x.KeepOpen(!lazy[x.Name()])
		}
	}
	g.Warm(func(server string) bool { return !lazy[server] })
}

// inbox returns where the questions wait that clients can't show with a configuration, or nil.
func (p *Project) inbox(s *config.Snapshot) *questions.Box {
	if !s.Questions {
		return nil
	}
	return &p.questions
}

// Questions returns the questions that wait for people.
func (p *Project) Questions() *questions.Box { return &p.questions }

// drain ends requests that would never end by themselves, such as subscriptions/listen, and those that wait for people.
func (p *Project) drain() {
	p.questions.Close()
	p.mu.Lock()
	p.draining = true
	g, singles := p.gateway, slices.Collect(maps.Values(p.singles))
	p.mu.Unlock()
	if g != nil {
		g.Drain()
	}
	for _, h := range singles {
		h.Drain()
	}
}

// end closes a project that was removed; see Runtime.Remove.
func (p *Project) end() {
	p.drain()
	p.mu.Lock()
	own, shared := p.ownLocked()
	out := leaving{cause: errProjectRemoved, gateways: []*gateway.Merged{p.gateway}, servers: own, shared: shared, mounts: []*mount{p.joined, p.find}}
	out.mounts = slices.AppendSeq(out.mounts, maps.Values(p.single))
	p.mu.Unlock()
	for _, m := range out.mounts {
		m.endpoint.drain()
		out.add(m.handle.Renew(), m.servers)
	}
	out.then = func() {
		p.bridge.Close()
		if p.recent != nil {
			p.runtime.opts.Recent.Forget(p.name)
		}
	}
	p.leave()
	p.retire(out)
}

// close drains the project at the end of the process, after its endpoints were closed. It waits until
// the project's own work has ended, and returns its servers.
func (p *Project) close() []*server {
	p.drain()
	if g := p.merged(); g != nil {
		g.Close()
	}
	p.bridge.Close()
	p.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	own, _ := p.ownLocked()
	return own
}

// ownLocked returns the enabled servers of the project's own, and those of default.
func (p *Project) ownLocked() (own, shared []*server) {
	for _, x := range p.order {
		if x.home == p.name {
			own = append(own, x)
		} else {
			shared = append(shared, x)
		}
	}
	return own, shared
}

// leave tells those who wait for Gone.
func (p *Project) leave() {
	p.mu.Lock()
	first := !p.removed
	p.removed = true
	p.mu.Unlock()
	if first {
		close(p.gone)
	}
}
