package runtime

import (
	"context"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Trial is the result of Try.
type Trial struct {
	// Report describes the server at the end of the trial: its revision, its transport, and the
	// handshake with its messages.
	Report upstream.Report
	// Failure says why the server cannot be used. Nil means that the server works.
	Failure *failure.Failure
	// Counts are the lengths of the lists that the server declares, by method.
	Counts map[string]int
	// Info is the server's Implementation object, with its bytes unchanged.
	Info []byte
	// Clean masks the secrets of the server's configuration in a text from the server.
	Clean func(string) string
}

// trialStop is how long a server may take to exit by itself at the end of a trial.
const trialStop = 3 * time.Second

// Try opens a server once, reads its lists, closes the server, and waits until the server has
// stopped. No client sees the server. Try calls no tool, and does not open the server again after a
// failure. If ctx ends, Trial.Failure says so.
func (p *Project) Try(ctx context.Context, server config.Server) Trial {
	var dialects []*dialect.Profile // nil means the built-in profiles
	if s := p.Current(); s != nil {
		dialects = s.Look()
	}
	version := p.runtime.opts.Version
	t := Trial{Clean: redactor(server), Counts: map[string]int{}}
	u := NewUpstream(server, Hooks{Log: slog.New(slog.DiscardHandler), Events: &event.Publisher{}, Version: version, Dialects: dialects})
	s := &Session{
		upstream: u, host: p.runtime.opts.Gate.Single(&bridge.Bridge{}, ForGateway(u), &gateway.ListenQuota{}, server),
		facts: &mcp.ClientInfo{Revision: mcp.LatestLegacy, Info: info(version), Capabilities: []byte("{}"), Conversation: 1},
	}
	defer func() {
		s.host.Bridge.Close()
		CloseAll([]*upstream.Upstream{u}, trialStop)
	}()
	hello, err := s.host.Hello(ctx, s.facts)
	if err == nil {
		t.Info = hello.Info
		err = t.count(ctx, s, hello)
	}
	t.Report = u.Report()
	if err != nil {
		if t.Failure = t.Report.Failure; t.Failure == nil {
			t.Failure = failure.Of(err, failure.Facts{Server: server.Name})
		}
	}
	return t
}

// count reads the lists that the server declares, and stores in t.Counts how many items clients see.
func (t *Trial) count(ctx context.Context, s *Session, hello *mcp.ServerInfo) error {
	capabilities := hello.Capabilities
	for _, method := range []string{mcp.MethodListTools, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListPrompts} {
		x := mcp.LookupMethod(method)
		if x == nil || jsonrpc.KindOf(capabilities, jsonrpc.Find(capabilities, jsonrpc.Whole(capabilities), x.Capability)) != '{' {
			continue
		}
		var items [][]byte
		err := s.readList(ctx, method, func(ctx context.Context) (err error) {
			items, _, err = s.upstream.List(ctx, s.facts, method)
			return err
		})
		switch {
		case err == nil:
			items, _ = passing(s.host.Vet, method, s.upstream.Name(), hello.Revision, items)
			t.Counts[method] = len(items)
		case method == mcp.MethodListTools || ctx.Err() != nil:
			return err
		}
		// Ignore the error, because some servers declare resources but support only one of
		// resources/list and resources/templates/list.
	}
	return nil
}
