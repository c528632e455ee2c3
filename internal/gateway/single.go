package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/peer"
)

// Single presents one server as it is: its own identity, names and URIs.
type Single struct {
	Relay    *Relay
	Upstream Upstream

	notices
}

// Hello returns the server's own words.
func (g *Single) Hello(ctx context.Context, f *mcp.ClientFacts) (*mcp.Hello, error) {
	return g.Upstream.Hello(ctx, f)
}

// Call answers one request.
func (g *Single) Call(ctx context.Context, c *mcp.Call, s peer.Sink) (*mcp.Reply, error) {
	switch c.Msg.Method {
	case mcp.MethodListen:
		return g.listen(ctx, c, s, []Upstream{g.Upstream}, identity, nil)
	case mcp.MethodSetLevel:
		return g.Upstream.SetLevel(ctx, c)
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return g.subscribe(ctx, c, g.Upstream)
	case mcp.MethodListTools:
		reply, err := g.Relay.relay(ctx, g.Upstream, c, s)
		if _, cut := g.Upstream.(*Filtered); err == nil && !cut {
			keepTools(reply, nil)
		}
		return reply, err
	}
	return g.Relay.relay(ctx, g.Upstream, c, s)
}

// keepTools removes tools from a list: those that shows does not want, nil for
// none, and those whose x-mcp-header no client may accept (2026-07-28 §Streamable
// HTTP, "Schema Extension"), since towards such a server we are that client. It
// must be called once for a reply.
func keepTools(reply *mcp.Reply, shows func(tool jsonrpc.Span) bool) {
	raw := reply.Msg.Raw
	mirrors := reply.From.Can(mcp.MirroredHeaders)
	keepOnly(raw, reply.Msg.ResultMember("tools"), &reply.Edits, func(tool jsonrpc.Span) bool {
		if shows != nil && !shows(tool) {
			return false
		}
		if !mirrors {
			return true
		}
		_, err := mirror.ParseParams(raw, jsonrpc.Find(raw, tool, "inputSchema"))
		return err == nil
	})
}

// Notice passes a client's notification on to the server.
func (g *Single) Notice(_ context.Context, f *mcp.ClientFacts, m *jsonrpc.Message) {
	g.Upstream.Forward(f, m.Raw, m.Method)
}

// Attach lets a legacy client hear the server's standing notices.
func (g *Single) Attach(f *mcp.ClientFacts, s peer.Standing) (detach func()) {
	return g.attach(f, s, []Upstream{g.Upstream}, identity, false)
}

// identity leaves a notice as it is.
func identity(_ Upstream, _ *jsonrpc.Message, _ *jsonrpc.Edits) {}
