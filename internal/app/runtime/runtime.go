package runtime

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	processors "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// DrainLimit is how long running calls may continue after the process begins to stop, or after
// their server was removed from the configuration.
const DrainLimit = 30 * time.Second

// Options are the options of New. Config, Log, Guard, Principal and Budget must be set.
type Options struct {
	// Config is the initial configuration. Its public URL stays in force, because Apply does not
	// change it.
	Config *config.Snapshot
	Log    *slog.Logger
	Events *event.Publisher // receives events; if it is nil, nothing is published
	Calls  *calls.Ring      // records the calls of clients; if it is nil, calls are not recorded
	Recent *logring.Ring    // records the stderr of servers; if it is nil, only the lines that errors quote are kept
	Guard  *httpdoor.Guard  // the caller puts it before Routes
	// Principal, Places and Forward are those of every endpoint; see EndpointOptions.
	Principal func(*http.Request) (*identity.Principal, error)
	Places    transport.Places
	Forward   httpdoor.Forwarder
	Budget    *transport.Budget
	// Drain is how long calls to a removed server may continue; 0 means DrainLimit.
	Drain   time.Duration
	Version string
	// Exposed means that clients may be on other machines; see upstream.Options.
	Exposed bool
	// TaskKey signs the ids of tasks; see bridge.NewKeys. The names of the files in ListFolder also
	// depend on it.
	TaskKey []byte
	// ListFolder is the folder in which the lists of the servers are kept, so that the next process can
	// show them while the servers start. It is created if necessary. "" means that no lists are kept.
	ListFolder string
	// Own refuses elicitations that lead to Dragoman itself. It may be nil.
	Own *mcp.Own
	// Policy decides which calls are allowed. The chain is still empty, so it allows every call.
	// Future steps must be in this order: authorise, limit, confirm, sign-in.
	Policy policy.Chain
	// Audit hears of every request, also of those that Policy refuses. Nil means no auditor.
	Audit policy.Auditor
}

// Runtime runs the servers and endpoints of a configuration. Apply replaces the configuration
// while clients are connected. New creates a Runtime, and the caller must call Close. All
// methods are safe for concurrent use, but calls of Apply must not overlap.
type Runtime struct {
	opts      Options
	hooks     Hooks
	bridge    *bridge.Bridge
	listens   gateway.ListenQuota
	newcomers newcomers
	rules     atomic.Pointer[downstream.Rules] // of the current configuration, like maxBody
	maxBody   atomic.Int64
	texts     instructions
	lists     *listFiles // nil if no lists are kept
	endpoints *Endpoints
	retired   work.Group          // goroutines that close replaced gateways and removed servers
	projects  map[string]*project // the projects by name; the map does not change

	mu       sync.Mutex
	snapshot *config.Snapshot
	former   []string           // the secrets of earlier configurations, oldest first; Apply replaces the slice and never changes its elements
	since    time.Time          // the time of the last Apply
	servers  map[string]*server // the enabled servers by name and fingerprint
	order    []*server          // the enabled servers in the order of the configuration
	draining bool
}

// New returns a Runtime without servers. Apply must be called before clients connect.
func New(o Options) *Runtime {
	r := &Runtime{opts: o, endpoints: NewEndpoints(), since: time.Now(), servers: make(map[string]*server)}
	r.bridge = NewBridge(o.Events, o.Budget)
	r.bridge.Keys, r.bridge.Places, r.bridge.Own = bridge.NewKeys(o.TaskKey), o.Places, o.Own
	r.hooks = Hooks{Log: o.Log, Events: o.Events, Recent: o.Recent, Version: o.Version, Exposed: o.Exposed, Changed: r.changed, Starts: upstream.NewStarts(1), Own: o.Own}
	if o.ListFolder != "" {
		r.lists = &listFiles{folder: o.ListFolder, key: o.TaskKey, log: o.Log}
	}
	r.newcomers.log = o.Log
	r.limit(o.Config)
	r.projects = map[string]*project{defaultProject: r.newProject(defaultProject)}
	return r
}

// limit makes the limits and revisions of a configuration count for the next request and the next
// session.
func (r *Runtime) limit(s *config.Snapshot) {
	r.newcomers.setRate(s.Limits.InitializePerSecond)
	r.maxBody.Store(int64(s.Limits.Body))
	r.rules.Store(&downstream.Rules{Revisions: s.Revisions.Accept, Strict: s.Revisions.Refuse, ManifestClient: s.Limits.ManifestClient})
	r.hooks.Starts.SetLimit(startsOf(s))
}

// startsOf returns how many servers may start at the same time. The start of a server mostly needs the
// processor, so the default is twice the number of processors.
func startsOf(s *config.Snapshot) int {
	return cmp.Or(s.Limits.Starts, 2*processors.NumCPU())
}

// changed is called by an upstream when one of its lists has changed.
func (r *Runtime) changed(server, kind string) {
	for _, g := range r.gateways() {
		g.Changed(server, kind)
	}
}

// gateways returns the gateway of each project. It returns nil before the first Apply.
func (r *Runtime) gateways() (all []*gateway.Merged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.projects {
		if p.gateway != nil {
			all = append(all, p.gateway)
		}
	}
	return all
}

// Apply replaces the current configuration. Servers with unchanged settings keep running. All other
// servers of the old configuration are closed in the background after their running calls have
// ended, but at the latest after Options.Drain.
func (r *Runtime) Apply(s *config.Snapshot) {
	h := r.hooks
	h.Dialects = s.Look()
	r.limit(s)
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
			x = newServer(NewUpstream(c, h), r.lists.shelf(c))
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
	r.retireSecretsLocked()
	r.snapshot, r.servers, r.order, r.since = s, next, order, time.Now()
	moves := r.planLocked(r.projects[defaultProject], s, order, enabled, &out)
	r.mu.Unlock()
	for _, x := range moves {
		out.add(x.m.replace(x.h, x.to))
	}
	for _, m := range out.mounts {
		out.add(m.handle.Renew(), m.servers)
	}
	for _, h := range out.singles {
		h.Drain()
	}
	for _, g := range out.gateways {
		g.EndListens()
	}
	r.retire(out)
}

// identity returns the name, title and version with which Dragoman describes itself. Environment
// variables override the configuration, so that a container needs no configuration file. project is
// the value of the placeholder {{project}} in the instructions.
func (r *Runtime) identity(s *config.Snapshot, project string) catalog.Identity {
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
	f.Instructions = func(ctx context.Context, client *mcp.ClientInfo) string {
		return fill(r.texts.get(ctx, in, r.opts.Log), project, client)
	}
	return f
}

// Current returns the configuration of the last Apply. It returns nil before the first Apply.
func (r *Runtime) Current() *config.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot
}

// Warm starts to open all servers that are not lazy, so that the first client does not have to
// wait. After that, such a server is opened again in the background whenever it fails or ends. Warm
// does not wait for the servers.
func (r *Runtime) Warm() {
	r.mu.Lock()
	order := r.order
	lazy := make(map[string]bool)
	for _, c := range r.snapshot.Servers {
		lazy[c.Name] = c.Lazy
	}
	r.mu.Unlock()
	for _, x := range order {
		x.KeepOpen(!lazy[x.Name()])
	}
	for _, g := range r.gateways() {
		g.Warm(func(server string) bool { return !lazy[server] })
	}
}

// Endpoints returns the endpoints of all servers, including the merged endpoint.
func (r *Runtime) Endpoints() *Endpoints { return r.endpoints }

// Clients returns the merged endpoint of the default project, for a client on a pipe.
func (r *Runtime) Clients() *downstream.Endpoint {
	return r.projects[defaultProject].joined.clients
}

// Drain ends requests that would never end by themselves, such as subscriptions/listen.
func (r *Runtime) Drain() {
	r.mu.Lock()
	r.draining = true
	r.mu.Unlock()
	for _, g := range r.gateways() {
		g.Drain()
	}
	r.drainSingles()
}

func (r *Runtime) drainSingles() {
	r.mu.Lock()
	var all []*gateway.Single
	for _, p := range r.projects {
		all = slices.AppendSeq(all, maps.Values(p.singles))
	}
	r.mu.Unlock()
	for _, h := range all {
		h.Drain()
	}
}

// Close closes all endpoints and servers, and waits until they have stopped. It kills the processes
// that have not exited within limit.
func (r *Runtime) Close(limit time.Duration) {
	r.endpoints.Close()
	r.drainSingles()
	for _, g := range r.gateways() {
		g.Close()
	}
	r.bridge.Close()
	r.mu.Lock()
	order := r.order
	r.mu.Unlock()
	closeServers(order, limit)
	r.retired.Wait()
}
