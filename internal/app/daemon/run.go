package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/app/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// RunOptions are the options of Run.
type RunOptions struct {
	Server config.Server
	Listen string   // "" means stdio
	Hosts  []string // values of the Host header that Run accepts, in addition to the names of the loopback address
	Log    *slog.Logger
	// KeyFolders are the folders for the key of the ids of tasks; see ServeOptions.KeyFolders.
	KeyFolders []string
	// Terminal is true if stdin is a terminal, so that no MCP client can be connected to stdin.
	Terminal bool
	// LogCalls makes Run log each call at level info. Otherwise the level is debug.
	LogCalls bool
	// Progress is called with each step of the server's start while the user waits. The step ""
	// means that the user no longer waits. Several goroutines may call Progress. Progress may be
	// nil.
	Progress func(server, step string)
	// Trace is called with the trace of each handshake with the server. Trace may be nil.
	Trace func(server, trace string)
	// Stdin and Stdout replace the standard streams of the process, for tests.
	Stdin   io.Reader
	Stdout  io.WriteCloser
	Ready   func(url string) // Run calls Ready once: over HTTP when it listens, and over stdio, with "", before it reads messages
	Drain   time.Duration    // how long calls may continue after ctx has ended; 0 means 30 s; not used over stdio
	Version string
	Gate    runtime.Gate
	// Env returns the value of an environment variable; a nil Env means that there are no variables.
	Env func(string) (string, bool)
	// Desk signs the user in. It may be nil.
	Desk *Desk
	// Events publishes the events of Run. If it is nil, Run creates a publisher for its log.
	Events *event.Publisher
}

// Run serves one server without renaming its tools. It returns nil when ctx ends or, over stdio,
// when the client disconnects. If the server's program does not exist, Run returns an error at once
// over HTTP or if Terminal is true. Otherwise, Run sends the error to the client as the response to
// the first request, because the user would not see the output of Run; without any message of a
// client, Run returns the error at the end of stdin.
func Run(ctx context.Context, o RunOptions) error {
	plain := orDiscard(o.Log)
	limited, flush := limitLog(plain)
	defer flush()
	o.Log = limited
	o.Server.Name = nameOf(o.Server)
	if o.Events == nil {
		o.Events = &event.Publisher{}
	}
	mask := runtime.Cleaner(o.Server)
	clean := func(_, _ string) func(string) string { return mask }
	shown := telemetry.NewLog(o.Events, telemetry.LogOptions{Log: o.Log, Step: o.Progress, Trace: o.Trace, Clean: clean})
	defer shown.Close()
	o.Log = shown.InOrder()
	calls := telemetry.NewCallLog(o.Events, plain, callLevel(o.LogCalls), clean)
	defer calls.Close()
	traces := startTraces(config.Traces{}, o.Env, o.Version, plain, clean)
	defer traces.Close()
	u := runtime.NewUpstream(o.Server, runtime.Hooks{
		Log: o.Log, Events: o.Events, Version: o.Version, OneClient: o.Listen == "", Exposed: o.Listen != "" && !isLocal(o.Listen), Credentials: o.Desk.credentials(""),
	})
	limit := runtime.StopLimit
	defer func() { runtime.CloseAll([]*upstream.Upstream{u}, limit) }()
	missing := u.CheckCommand()
	if missing != nil {
		if o.Terminal || o.Listen != "" {
			return missing
		}
	}
	budget := transport.NewBudget(runtime.InFlight(config.Default().Limits.InFlight, config.Default().Limits.Body))
	b := runtime.NewBridge(o.Events, budget)
	key := taskKey(o.KeyFolders, o.Log)
	b.OneClient, b.Keys = o.Listen == "", bridge.NewKeys(key)
	defer b.Close()
	host := o.Gate.Single(b, runtime.ForGateway(u), &gateway.ListenQuota{}, o.Server)
	if o.Desk != nil {
		defer o.Desk.serve(ctx, host, u, o.Version)()
		runtime.KeepHello(host, o.Server, listFolder(o.KeyFolders, o.Log), key, o.Log)
	}
	clients := &downstream.Endpoint{Handler: host, Events: o.Events, Log: o.Log, Budget: budget, Traces: traces.Tracer().For(event.DefaultProject)}
	if o.Listen == "" {
		if o.Ready != nil {
			o.Ready("")
		}
		err := pipeClient{clients: clients, drain: host.Drain, body: config.Default().Limits.Body, in: o.Stdin, out: o.Stdout, untold: missing, tell: u.RecordFailure}.serve(ctx)
		if errors.Is(err, downstream.ErrShutdown) {
			limit, err = hurriedLimit, nil
		}
		return err
	}
	return o.serveHTTP(ctx, clients, budget, host.Drain)
}

// serveHTTP serves the clients at o.Listen.
func (o *RunOptions) serveHTTP(ctx context.Context, clients *downstream.Endpoint, budget *transport.Budget, drain func()) error {
	guard := httpdoor.NewGuard(o.Hosts, nil, nil)
	guard.LogTo(o.Log)
	e := runtime.NewEndpoint("run", clients, runtime.EndpointOptions{Guard: guard, Principal: identity.Anyone, Budget: budget, Log: o.Log})
	endpoints := runtime.NewEndpoints()
	endpoints.Add(e)
	mux := http.NewServeMux()
	e.Mount(mux, "")
	mux.HandleFunc("/", httpdoor.NotFound)
	return listen(ctx, listenOptions{
		address: o.Listen, handler: mux, endpoints: endpoints, log: o.Log, drain: drain, limit: o.Drain,
		ready: func(base string) {
			if o.Ready != nil {
				o.Ready(base + "/mcp")
			}
		},
	})
}

// pipeClient is the client on the other end of a pipe.
type pipeClient struct {
	clients *downstream.Endpoint
	drain   func() // ends the requests that would not end by themselves
	body    int    // the longest message in bytes
	in      io.Reader
	out     io.WriteCloser // if in is nil, the client is on stdin and stdout
	untold  error          // the result of serve if no client sends anything, and so none can be told
	tell    func(error)    // is called with untold before the client's first message is handled
}

// hearingPipe calls first when the other end has sent something.
type hearingPipe struct {
	transport.Pipe
	first func()
}

func (p hearingPipe) Read() (*jsonrpc.Message, error) {
	m, err := p.Pipe.Read()
	if err == nil || errors.As(err, new(*jsonrpc.Error)) {
		p.first()
	}
	return m, err
}

// serve serves the client. When ctx ends, it calls p.drain. Then it ends all other requests at once,
// because the client waits until the process exits. The error is downstream.ErrShutdown if the client
// has sent a shutdown notification.
func (p pipeClient) serve(ctx context.Context) error {
	pipeOptions := stdio.Options{Limits: jsonrpc.Limits{Bytes: p.body, Names: mcp.MethodName}}
	var pipe transport.Pipe
	if p.in != nil {
		pipe = stdio.NewPipe(p.in, p.out, pipeOptions)
	} else {
		std, err := stdio.Std(pipeOptions)
		if err != nil {
			return err
		}
		pipe = std
	}
	var heard atomic.Bool
	if p.untold != nil {
		pipe = hearingPipe{pipe, sync.OnceFunc(func() {
			heard.Store(true)
			p.tell(p.untold)
		})}
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-ctx.Done():
			p.drain()
			cancel(mcp.ErrShutdown)
		case <-life.Done():
		}
	})
	err := p.clients.ServePipe(life, pipe, transport.Peer{Transport: "stdio", Who: identity.Local, Endpoint: "stdio"})
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil && !heard.Load():
		return p.untold
	}
	return err
}

// nameOf returns the name of the server c. If c has no name, the result is the file name of its
// command, or "server" if it has no command.
func nameOf(c config.Server) string {
	if c.Name != "" {
		return c.Name
	}
	if c.Command != "" {
		return filepath.Base(c.Command)
	}
	return "server"
}

// hurriedLimit replaces runtime.StopLimit if the client waits until Dragoman exits. Such a client
// kills Dragoman after five seconds.
const hurriedLimit = 2 * time.Second
