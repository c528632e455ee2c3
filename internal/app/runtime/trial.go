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
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
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
// failure. If ctx ends, Trial.Failure says so. dialects are the profiles that Dragoman can detect; nil
// means the built-in profiles.
func Try(ctx context.Context, server config.Server, dialects []*dialect.Profile, version string) Trial {
	t := Trial{Clean: redactor(server), Counts: map[string]int{}}
	u := NewUpstream(server, Hooks{Log: slog.New(slog.DiscardHandler), Events: &event.Publisher{}, Version: version, Dialects: dialects})
	host := &gateway.Single{Bridge: &bridge.Bridge{}, Listens: &gateway.ListenQuota{}, Upstream: ForGateway(u)}
	defer func() {
		host.Bridge.Close()
		CloseAll([]*upstream.Upstream{u}, trialStop)
	}()
	facts := &mcp.ClientInfo{Revision: mcp.LatestLegacy, Info: info(version), Capabilities: []byte("{}"), Conversation: 1}
	hello, err := host.Hello(ctx, facts)
	if err == nil {
		t.Info = hello.Info
		err = t.count(ctx, u, facts, hello, Vet(server))
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
func (t *Trial) count(ctx context.Context, u *upstream.Upstream, facts *mcp.ClientInfo, hello *mcp.ServerInfo, vet catalog.Vet) error {
	capabilities := hello.Capabilities
	for _, method := range []string{mcp.MethodListTools, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListPrompts} {
		x := mcp.LookupMethod(method)
		if x == nil || jsonrpc.KindOf(capabilities, jsonrpc.Find(capabilities, jsonrpc.Whole(capabilities), x.Capability)) != '{' {
			continue
		}
		items, _, err := u.ListPages(ctx, facts, method, func(*jsonrpc.Message) {})
		switch {
		case err == nil:
			items, _ = passing(vet, method, u.Name(), hello.Revision, items)
			t.Counts[method] = len(items)
		case method == mcp.MethodListTools || ctx.Err() != nil:
			return err
		}
		// Ignore the error, because some servers declare resources but support only one of
		// resources/list and resources/templates/list.
	}
	return nil
}
