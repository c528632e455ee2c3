package runtime

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// DrainLimit is how long running calls may continue after the process begins to stop, or after
// their server was removed from the configuration.
const DrainLimit = 30 * time.Second

// Options are the options of New. Config, Log, Guard, Principal and Budget must be set.
type Options struct {
	// Config is the initial configuration of the default project. Its public URL stays in force,
	// because Apply does not change it.
	Config *config.Snapshot
	Log    *slog.Logger
	Events *event.Publisher // receives events; if it is nil, nothing is published
	// Calls records the calls of the default project's clients. Each other project gets a ring like
	// it. If it is nil, no calls are recorded.
	Calls *calls.Ring
	// Recent records the stderr of servers, each project's in its own part. If it is nil, only the lines
	// that errors quote are kept.
	Recent *logring.Ring
	Guard  *httpdoor.Guard // the caller puts it before Routes
	// Principal, Places and Forward are those of every endpoint; see EndpointOptions.
	Principal func(*http.Request) (*identity.Principal, error)
	Places    transport.Places
	Forward   httpdoor.Forwarder
	// Seats says which of several processes has which sessions with legacy servers. Nil means that this one has all.
	Seats upstream.Seats
	// Reach says what who may use in a project. If ok is false, it looks to who as if there were no such
	// project; if the filter is nil, nothing is hidden. Reach is called for each request, so that it counts
	// at once if it changes, and must not block. Nil shows everything to the local user, and nothing to
	// anybody else.
	Reach func(who *identity.Principal, project string) (show catalog.Filter, ok bool)
	// Barred says why somebody may not use an endpoint whom Reach refuses, if they may know that the project exists.
	// Otherwise it's "", and nil is always "".
	Barred func(who *identity.Principal, project string) string
	// Holder returns who comes with the API key that has an id, or the *httpdoor.Denied that whoever sends it gets; see
	// Project.Look. Nil knows no keys.
	Holder func(id string) (*identity.Principal, error)
	// Caller says how the rules of a project know who; see config.Snapshot.Policy. It's called for each request,
	// and must not block. Nil knows nobody, so that only the rules for everybody count.
	Caller func(who *identity.Principal, project string) policy.Caller
	// Keyed means that clients need a key, so that changed definitions are held if the configuration doesn't say
	// otherwise. Pins keeps what was seen; nil keeps nothing.
	Keyed bool
	Pins  PinKeeper
	// Budget is for the messages of all projects. The default project may use it all, each other one as
	// much as its own limits allow.
	Budget *transport.Budget
	// Drain is how long calls to a removed server may continue; 0 means DrainLimit.
	Drain   time.Duration
	Version string
	// Exposed means that clients may be on other machines; see upstream.Options.
	Exposed bool
	// TaskKey signs the ids of tasks; see bridge.NewKeys. Each project gets a key of its own from it. The
	// names of the files in ListFolder also depend on it.
	TaskKey []byte
	// Seals has the keys that replicas share for states and ids of tasks. Nil means that each project has keys of its
	// own, for this process alone.
	Seals *bridge.Roots
	// ListFolder is the folder in which the lists of the servers are kept, so that the next process can
	// show them while the servers start. It is created if necessary. "" means that no lists are kept.
	ListFolder string
	// Own refuses elicitations that lead to Dragoman itself. It may be nil.
	Own *mcp.Own
	// Credentials returns what signs the requests to a server that a project has in its own configuration, or
	// nil if its headers are enough. SignIn returns what signs people in to these servers. Each may be nil.
	Credentials func(project string, c config.Server) upstream.Credentials
	SignIn      func(project string) gateway.Signer
	// Prompts returns the prompts that a project has of its own. It's called for each project when that is added,
	// and for all after Runtime.PromptsChanged, and must not block. Nil means that there are none.
	Prompts func(project string) []store.Prompt
	// Gate stands before the servers of every endpoint, and before those that Try opens.
	Gate Gate
	// Traces starts a span for each call of a client. Nil means that calls are not traced.
	Traces *spans.Tracer
}

// Runtime is the set of projects in a process, with their endpoints. The default project exists as long
// as the Runtime; Apply and Remove change the set while clients are connected. New creates a Runtime,
// and the caller must call Close. All methods are safe for concurrent use.
type Runtime struct {
	opts      Options
	lists     *listFiles // nil if no lists are kept
	endpoints *Endpoints
	retired   work.Group // goroutines that close replaced gateways and removed servers
	own       *Project   // the default project
	traffic   limits.Table
	results   gateway.Results

	turn     chan struct{} // holds one value while Apply or Remove runs
	mu       sync.RWMutex
	projects map[string]*Project
	draining bool
}

// New returns a Runtime whose default project has no servers. Apply must be called for it before clients
// connect.
func New(o Options) *Runtime {
	r := &Runtime{opts: o, endpoints: NewEndpoints(), turn: make(chan struct{}, 1)}
	if o.ListFolder != "" {
		r.lists = &listFiles{folder: o.ListFolder, key: o.TaskKey, log: o.Log}
	}
	r.own = r.newProject(event.DefaultProject, o.Config)
	r.projects = map[string]*Project{event.DefaultProject: r.own}
	return r
}

// Apply replaces the configuration of a project, or adds the project if there is none with this name,
// which must be a path segment without escapes. Servers with unchanged settings keep running. All
// other servers of the old configuration are closed in the background after their running calls have
// ended, but at the latest after Options.Drain. Other projects notice nothing, unless they use servers of
// default: then they have from now on the servers that default has.
func (r *Runtime) Apply(name string, s *config.Snapshot) *Project {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	p := r.Project(name)
	if p != nil {
		p.apply(s)
		for _, x := range r.Projects() {
			if p == r.own && x != r.own {
				x.follow(s)
			}
		}
		return p
	}
	p = r.newProject(name, s)
	p.apply(s)
	r.mu.Lock()
	r.projects[name] = p
	draining := r.draining
	r.mu.Unlock()
	if draining {
		p.drain()
	}
	return p
}

// Remove removes a project, and returns false if there is none with this name, or if it is the default
// project. From now on its paths lead nowhere, and its streams and subscriptions/listen end. Its running
// calls may go on for Options.Drain; then they end with an error that says why. Remove does not wait
// for them.
func (r *Runtime) Remove(name string) bool {
	if name == event.DefaultProject {
		return false
	}
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.mu.Lock()
	p := r.projects[name]
	delete(r.projects, name)
	r.mu.Unlock()
	if p == nil {
		return false
	}
	p.end()
	return true
}

// Project returns the project with this name, or nil.
func (r *Runtime) Project(name string) *Project {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.projects[name]
}

// Default returns the default project.
func (r *Runtime) Default() *Project { return r.own }

// Projects returns all projects: the default project, and then the others, sorted by name.
func (r *Runtime) Projects() []*Project {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := []*Project{r.own}
	for _, name := range slices.Sorted(maps.Keys(r.projects)) {
		if p := r.projects[name]; p != r.own {
			all = append(all, p)
		}
	}
	return all
}

// Endpoints returns the endpoints of all projects.
func (r *Runtime) Endpoints() *Endpoints { return r.endpoints }

// Drain ends requests that would never end by themselves, such as subscriptions/listen.
func (r *Runtime) Drain() {
	r.mu.Lock()
	r.draining = true
	r.mu.Unlock()
	for _, p := range r.Projects() {
		p.drain()
	}
}

// Parked returns how many calls wait for a retry of their client.
func (r *Runtime) Parked() (n int) {
	for _, p := range r.Projects() {
		n += p.bridge.Parked()
	}
	return n
}

// Close closes all endpoints and servers, and waits until they have stopped. It kills the processes
// that have not exited within limit.
func (r *Runtime) Close(limit time.Duration) {
	r.endpoints.Close()
	var servers []*server
	for _, p := range r.Projects() {
		servers = append(servers, p.close()...)
	}
	closeServers(servers, limit)
	r.retired.Wait()
}
