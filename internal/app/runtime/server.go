package runtime

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// StopLimit is how long a server may take to exit by itself before it is killed.
const StopLimit = 10 * time.Second

// server implements gateway.Upstream with an *upstream.Upstream, and counts the users of the
// server. The users are the current configuration of each project that has it, each generation that can reach the server and is
// not idle, and each lease. Leases are counted because a parked call may continue after its
// generation is idle.
type server struct {
	*upstream.Upstream
	home      string // the project whose configuration has the server; others may use it, too
	*shelf           // keeps the lists of the server; nil if they are not kept
	users     atomic.Int64
	once      sync.Once
	idle      chan struct{} // closed when the last user has left
	onRelease func()        // the method value of release, created once so that Acquire does not allocate it
}

// newServer returns a server with one user, the current configuration of its project. lists may be nil.
func newServer(u *upstream.Upstream, home string, lists *shelf) *server {
	s := &server{Upstream: u, home: home, shelf: lists, idle: make(chan struct{})}
	s.users.Store(1)
	s.onRelease = s.release
	return s
}

func (s *server) hold() { s.users.Add(1) }

func (s *server) release() {
	if s.users.Add(-1) == 0 {
		s.once.Do(func() { close(s.idle) })
	}
}

// ForGateway returns the upstream as a gateway.Upstream.
func ForGateway(u *upstream.Upstream) gateway.Upstream {
	return newServer(u, event.DefaultProject, nil)
}

// Subscribe implements gateway.Upstream.
func (s *server) Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) gateway.Subscriber {
	return s.Upstream.Subscribe(f, deliver, asker)
}

// Acquire implements bridge.Server.
func (s *server) Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (bridge.Lease, error) {
	s.hold()
	l, err := s.Upstream.Acquire(ctx, f, need)
	if err != nil {
		s.release()
		return nil, err
	}
	l.OnRelease(s.onRelease)
	return l, nil
}

// Hooks contains the values that NewUpstream needs besides the configuration of a server. Log must
// be set.
type Hooks struct {
	Log *slog.Logger
	// Events receives the events of upstreams. If it is nil, nothing is published.
	Events *event.Publisher
	// Changed, if set, is called when a list of a server has changed; see gateway.Merged.Changed.
	Changed func(server, kind string)
	// Version is the version that Dragoman reports to servers; "" means "devel".
	Version string
	// Recent records the stderr of servers. If it is nil, only the lines that errors quote are kept.
	Recent *logring.Ring
	// OneClient means that there is only one client.
	OneClient bool
	// Exposed means that clients may be on other machines; see upstream.Options.
	Exposed bool
	// Starts limits how many servers start at the same time. Nil means no limit.
	Starts *upstream.Starts
	// Seats and Home are those of upstream.Options.
	Seats upstream.Seats
	Home  string
	// Pinned is upstream.Options.Pinned.
	Pinned func() bool
	// Own refuses elicitations that lead to Dragoman itself. It may be nil.
	Own *mcp.Own
	// Credentials returns what signs the requests to a server, or nil if its headers are enough. A nil
	// Credentials returns nil.
	Credentials func(c config.Server) upstream.Credentials
	// Dialects are the profiles that Dragoman can detect. Nil means the built-in profiles.
	Dialects []*dialect.Profile
}

// NewUpstream creates the upstream for a configured server. It does no I/O, because the server is
// opened on first use.
func NewUpstream(c config.Server, h Hooks) *upstream.Upstream {
	spec := upstream.Spec{
		Name: c.Name, Command: c.Command, Args: c.Args, Dir: c.Dir, URL: c.URL, Shown: c.Describe(),
		Isolation: upstream.Isolation(c.Isolation.String()), OneClient: h.OneClient, Pin: c.Revision,
		Dialect: c.Profile, Dialects: h.Dialects, Given: c.Given, CAFile: c.CAFile,
		Unusable: unusableOf(c), Runner: c.Runner(),
		Start: c.StartTimeout, Idle: c.CallTimeout, Hard: c.CallMax, Ping: c.Ping, Message: c.Message,
	}
	if config.IsRequirements(c.Args) { // it says in its database who has written what
		spec.Vouched = true
		spec.Self, _ = os.Executable() // without it, the server gets no vouchers
	}
	if h.Credentials != nil && c.URL != "" {
		spec.Credentials = h.Credentials(c)
	}
	if c.Kind == config.KindHTTP || c.Kind == config.KindSSE {
		spec.Kind = c.Kind.String()
	}
	if len(c.Env) > 0 {
		spec.Env = make(map[string]string, len(c.Env))
		for k, v := range c.Env {
			spec.Env[k] = v.Reveal()
		}
	}
	if len(c.InheritEnv) > 0 {
		spec.Inherit = c.Inherits
	}
	for _, f := range c.Header {
		spec.Header = append(spec.Header, upstream.Header{Name: f.Name, Value: f.Value.Reveal()})
	}
	clean := redactor(c)
	worker := func(p *dialect.Profile) upstream.Adapter {
		return codex.New(codex.Options{
			Server: c.Name, Initialized: !p.Open.NoInitialized, WrongParams: p.Errors.WrongParams,
			Events: h.Events, Log: h.Log, Clean: clean, Message: c.Message,
		})
	}
	switch p := c.Profile; {
	case p != nil && p.Bridge == dialect.CodexAppServer:
		spec.Adapter, spec.Dialect = worker(p), nil // the adapter translates between the protocol of the app-server and MCP
	case p == nil:
		spec.AdapterFor = func(name string) upstream.Adapter {
			if name != handshake.DialectAppServer {
				return nil
			}
			return worker(dialect.Lookup(dialect.CodexAppServer))
		}
	}
	o := upstream.Options{Info: info(h.Version), Exposed: h.Exposed, Events: h.Events, Log: h.Log, Clean: clean, Starts: h.Starts, Seats: h.Seats, Home: h.Home, Own: h.Own, Pinned: h.Pinned}
	if h.Recent != nil {
		o.Stderr = h.Recent.Stderr(c.Name, clean)
	}
	if h.Changed != nil {
		o.Changed = func(kind string) { h.Changed(c.Name, kind) }
	}
	return upstream.New(spec, o)
}

func timesOf(c config.Server) upstream.Times {
	return upstream.Times{Start: c.StartTimeout, Idle: c.CallTimeout, Hard: c.CallMax, Ping: c.Ping}
}

// info returns the Implementation object for sessions that Dragoman opens without a client. An
// empty version means "devel".
func info(version string) []byte {
	if version == "" {
		version = "devel"
	}
	return append(jsonrpc.AppendQuote([]byte(`{"name":"dragoman","version":`), version), '}')
}

// CloseAll closes upstreams concurrently and waits until they are closed. After the time limit, it
// kills the processes that have not exited.
func CloseAll(all []*upstream.Upstream, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var wait sync.WaitGroup
	for _, u := range all {
		wait.Go(func() { u.Close(ctx) })
	}
	wait.Wait()
}
