package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/downstream"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/upstream"
)

// RunOptions are those of Run.
type RunOptions struct {
	Server config.Server
	Listen string // "" serves standard input and output
	Log    *slog.Logger
	// Progress hears what is being done while somebody waits; an empty step says
	// that it is over.
	Progress func(server, step string)
	// Trace hears how the handshakes with the server went.
	Trace func(server, trace string)
	// Stdin and Stdout take the place of the process's own, for tests.
	Stdin   io.Reader
	Stdout  io.WriteCloser
	Ready   func(url string) // called once when it listens; not on stdio
	Drain   time.Duration    // that running calls have once ctx has ended; 0 means 30 s. Not on stdio
	Version string
	// Events is where everything that happens is published. Nil makes a publisher that
	// only the log subscribes to.
	Events *event.Publisher
}

// Run offers one server under its own names until ctx ends or, on stdio, the
// client is gone. It returns nil for either.
func Run(ctx context.Context, o RunOptions) error {
	limited, flush := limitLog(orDiscard(o.Log))
	defer flush()
	o.Log = limited
	o.Server.Name = nameOf(o.Server)
	if o.Events == nil {
		o.Events = &event.Publisher{}
	}
	shown := telemetry.NewLog(o.Events, telemetry.LogOptions{Log: o.Log, Step: o.Progress, Trace: o.Trace})
	defer shown.Close()
	u := newUpstream(o.Server, hooks{log: o.Log, events: o.Events, version: o.Version, sole: o.Listen == ""})
	limit := stopLimit
	defer func() { closeAll([]*upstream.Upstream{u}, limit) }()
	b := &bridge.Bridge{Lost: lostBy(o.Events), Refused: refusedBy(o.Events)}
	defer b.Close()
	host := &gateway.Single{Bridge: b, Listens: &gateway.ListenQuota{}, Upstream: server{u}}
	budget := transport.NewBudget(inFlight(config.Default().Limits.InFlight, config.Default().Limits.Body))
	b.Budget = budget
	reception := &downstream.Endpoint{
		Host: host, Log: o.Log, Budget: budget,
		Lost: lostTo(o.Events),
	}
	if o.Listen == "" {
		err := servePipe(ctx, reception, host.Drain, config.Default().Limits.Body, o.Stdin, o.Stdout)
		if errors.Is(err, downstream.ErrShutdown) {
			limit, err = hurriedLimit, nil
		}
		return err
	}
	guard := httpdoor.NewGuard(nil, nil, nil)
	e := newEndpoint("run", reception, endpointOptions{guard: guard, budget: budget, log: o.Log})
	doors := newDoors()
	doors.add(e)
	mux := http.NewServeMux()
	e.mount(mux, "")
	return listen(ctx, listenOptions{
		address: o.Listen, handler: mux, doors: doors, log: o.Log, drain: host.Drain, limit: o.Drain,
		ready: func(base string) {
			if o.Ready != nil {
				o.Ready(base + "/mcp")
			}
		},
	})
}

// servePipe serves a client on standard input and output, or on what stands for
// them, and reads messages of at most body bytes. When ctx ends, drain ends what would never end by itself, and what else
// runs is cut off: whoever stops a program on a pipe waits for it. The error is
// downstream.ErrShutdown where the client waits for our end.
func servePipe(ctx context.Context, r *downstream.Endpoint, drain func(), body int, in io.Reader, out io.WriteCloser) error {
	pipeOptions := stdio.Options{Limits: jsonrpc.Limits{Bytes: body, Names: mcp.MethodName}}
	var pipe transport.Pipe
	if in != nil {
		pipe = stdio.NewPipe(in, out, pipeOptions)
	} else {
		std, err := stdio.Std(pipeOptions)
		if err != nil {
			return err
		}
		pipe = std
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		select {
		case <-ctx.Done():
			drain()
			cancel(mcp.ErrShutdown)
		case <-life.Done():
		}
	})
	err := r.ServePipe(life, pipe, transport.Peer{Transport: "stdio", Endpoint: "stdio"})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
