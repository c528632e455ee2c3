package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/catalog"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Single presents one server as it is: its own identity, names and URIs.
type Single struct {
	Bridge *bridge.Bridge
	// Listens bounds the subscriptions/listen of all endpoints together; nil
	// bounds those of this one alone.
	Listens  *ListenQuota
	Upstream Upstream

	notices
}

// Hello returns the server's own words.
func (g *Single) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	return g.Upstream.Hello(ctx, f)
}

// call is Call without the event.
func (g *Single) call(ctx context.Context, a *mcp.Attempt, s mcp.Caller) (*mcp.Reply, error) {
	c := a.Call
	if c.Method != nil && c.Method.Task {
		return g.Bridge.Tasks(ctx, []bridge.Server{g.Upstream}, a, s)
	}
	switch c.Msg.Method {
	case mcp.MethodListen:
		leave, err := g.admit(g.Listens, c)
		if err != nil {
			return nil, err
		}
		defer leave()
		return g.listen(ctx, g.Bridge, c, s, []Upstream{g.Upstream}, true, nil)
	case mcp.MethodSetLevel:
		return g.Upstream.SetLevel(ctx, c)
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return g.subscribe(ctx, c, g.Upstream)
	case mcp.MethodListTools:
		reply, err := exchange(ctx, g.Bridge, g.Upstream, a, s)
		if _, cut := g.Upstream.(*Filtered); err == nil && !cut {
			lost := func(tool, why string) { g.Bridge.TellLost(g.Upstream.Name(), c.Msg.Method, catalog.LeftOut(tool, why)) }
			if keepTools(reply, nil, lost) || paged(c, reply) && reply.From.Can(mcp.MirroredHeaders) {
				// All pages have one scope (2026-07-28 §Caching, "Interaction with
				// Pagination"), and of one of the others a tool may be left out.
				keepPrivate(reply)
			}
		}
		if err == nil && c.Client.Revision.Can(mcp.ExperimentalTasks) && reply.From.Can(mcp.TasksExtension) {
			if g.Upstream.Tasks(ctx, c.Client) == mcp.DirectedTasks {
				offerTasks(reply)
			}
		}
		return reply, err
	}
	return exchange(ctx, g.Bridge, g.Upstream, a, s)
}

// paged reports whether a list has further pages beside the one in reply.
func paged(c *mcp.Call, reply *mcp.Reply) bool {
	return !c.Msg.Param("cursor").IsZero() || !reply.Msg.ResultMember("nextCursor").IsZero()
}

// keepTools removes tools from a list: those that shows does not want, nil for
// none, and those whose x-mcp-header no client may accept (2026-07-28 §Streamable
// HTTP, "Schema Extension"), since towards such a server we are that client. It
// must be called once for a reply, and reports whether it removed any. lost is told of the second kind, and may be nil.
func keepTools(reply *mcp.Reply, shows func(tool jsonrpc.Span) bool, lost func(tool, why string)) (cut bool) {
	raw := reply.Msg.Raw
	mirrors := reply.From.Can(mcp.MirroredHeaders)
	return cutItems(raw, reply.Msg.ResultMember("tools"), &reply.Edits, func(tool jsonrpc.Span) jsonrpc.Reason {
		if shows != nil && !shows(tool) {
			return mcp.WhyHidden
		}
		if !mirrors {
			return jsonrpc.NoReason
		}
		_, err := mirror.ParseParams(raw, jsonrpc.Find(raw, tool, "inputSchema"))
		if err == nil {
			return jsonrpc.NoReason
		}
		if lost != nil {
			name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, tool, "name"))
			lost(name, "its x-mcp-header is invalid: "+err.Error())
		}
		return mcp.WhyUnusable
	})
}

// keepPrivate takes back a server's word that a result is for everybody: one that
// was filtered is what one client sees (2026-07-28 §Caching, "Choosing a Cache
// Scope").
func keepPrivate(reply *mcp.Reply) {
	if scope := reply.Msg.ResultMember("cacheScope"); !scope.IsZero() {
		reply.Edits.Replace(mcp.WhyCaching, scope, []byte(`"private"`))
	}
}

// Notify passes a client's notification on to the server.
func (g *Single) Notify(_ context.Context, f *mcp.ClientInfo, m *jsonrpc.Message) {
	g.Upstream.Forward(f, onward(m), m.Method)
}

// Subscribe lets a legacy client hear the server's standing notices.
func (g *Single) Subscribe(f *mcp.ClientInfo, s mcp.Subscriber) (detach func()) {
	return g.attach(f, g.Bridge, s, []Upstream{g.Upstream}, g.Bridge.TaskNames(f, true), false)
}

// offerTasks says of the tools of a modern server with tasks that they may be
// called as such, which a legacy client must not do otherwise (2025-11-25 §Tasks,
// "Tool-Level Negotiation"). Whether a call becomes one that server decides.
func offerTasks(reply *mcp.Reply) {
	raw := reply.Msg.Raw
	for tool := range jsonrpc.Elements(raw, reply.Msg.ResultMember("tools")) {
		if jsonrpc.Find(raw, tool, "execution").IsZero() {
			reply.Edits.Object(mcp.WhyToolTask, raw, tool, nil, mayBeTask)
		}
	}
}

var mayBeTask = jsonrpc.Field{Key: "execution", Value: []byte(`{"taskSupport":"optional"}`)}
