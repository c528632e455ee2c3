package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/codex"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/upstream"
)

// stopLimit is how long a server may take to end before it is no longer waited
// for politely.
const stopLimit = 10 * time.Second

// hurriedLimit is stopLimit where a client waits for our end, and kills us after five
// seconds.
const hurriedLimit = 2 * time.Second

// server makes an *upstream.Upstream what the gateway asks for.
type server struct{ *upstream.Upstream }

func (s server) Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) gateway.Subscriber {
	return s.Upstream.Stand(f, deliver, asker)
}

// shown is an upstream as far as clients may see it.
func shown(u *upstream.Upstream, e config.Expose) gateway.Upstream {
	if e.IsZero() {
		return server{u}
	}
	return &gateway.Filtered{Upstream: server{u}, Shows: func(kind, name string) bool {
		switch kind {
		case "tools":
			return e.Tools.Allows(name)
		case "prompts":
			return e.Prompts.Allows(name)
		}
		return e.Resources.Allows(name)
	}}
}

// hooks are what all upstreams of a daemon report to.
type hooks struct {
	log      *slog.Logger
	events   *event.Publisher
	changed  func(server, kind string)
	version  string
	sole     bool               // one client alone is served
	dialects []*dialect.Profile // that are looked for; nil for the built-in ones
}

// newUpstream makes an upstream of a configured server.
func newUpstream(c config.Server, h hooks) *upstream.Upstream {
	spec := upstream.Spec{
		Name: c.Name, Command: c.Command, Args: c.Args, Dir: c.Dir, URL: c.URL, Shown: c.Describe(),
		Isolation: upstream.Isolation(c.Isolation.String()), OneClient: h.sole, Pin: c.Revision,
		Dialect: c.Profile, Dialects: h.dialects,
		Start: c.StartTimeout, Idle: c.CallTimeout, Hard: c.CallMax, Message: c.Message,
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
	for _, f := range c.Header {
		spec.Header = append(spec.Header, upstream.Header{Name: f.Name, Value: f.Value.Reveal()})
	}
	clean := redactor(c)
	worker := func(p *dialect.Profile) upstream.Adapter {
		return codex.New(codex.Options{
			Server: c.Name, Initialized: !p.Open.NoInitialized, WrongParams: p.Errors.WrongParams,
			Trace: tracedBy(h.events), Log: h.log, Clean: clean, Message: c.Message,
		})
	}
	switch p := c.Profile; {
	case p != nil && p.Bridge == dialect.CodexAppServer:
		spec.Adapter, spec.Dialect = worker(p), nil // what comes out of it is MCP
	case p == nil:
		spec.AdapterFor = func(name string) upstream.Adapter {
			if name != handshake.DialectAppServer {
				return nil
			}
			return worker(dialect.Lookup(dialect.CodexAppServer))
		}
	}
	o := upstream.Options{Info: ourInfo(h.version), Progress: stepOf(h.events), Trace: tracedBy(h.events), Lost: lostAt(h.events), Log: h.log, Clean: clean}
	if h.changed != nil {
		o.Changed = func(kind string) { h.changed(c.Name, kind) }
	}
	return upstream.New(spec, o)
}

func timesOf(c config.Server) upstream.Times {
	return upstream.Times{Start: c.StartTimeout, Idle: c.CallTimeout, Hard: c.CallMax}
}

// ourInfo is the Implementation object by which we introduce ourselves to servers
// when no client stands behind a session.
func ourInfo(version string) []byte {
	if version == "" {
		version = "devel"
	}
	return append(jsonrpc.AppendQuote([]byte(`{"name":"dragoman","version":`), version), '}')
}

// closeAll ends upstreams at the same time and waits for them. limit bounds the
// politeness.
func closeAll(all []*upstream.Upstream, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var wait sync.WaitGroup
	for _, u := range all {
		wait.Go(func() { u.Close(ctx) })
	}
	wait.Wait()
}

// nameOf is what a server is called that has no configured name.
func nameOf(c config.Server) string {
	if c.Name != "" {
		return c.Name
	}
	if c.Command != "" {
		return filepath.Base(c.Command)
	}
	return "server"
}
