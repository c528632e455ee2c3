package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
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
	h, err := g.Upstream.Hello(ctx, f)
	if err != nil {
		return nil, err
	}
	// What we speak, not what the server speaks: that is the point of us.
	out := *h
	out.Versions = ourVersions
	return &out, nil
}

var ourVersions = func() []string {
	var out []string
	for _, r := range mcp.Revisions() {
		out = append(out, r.String())
	}
	return out
}()

// Call answers one request.
func (g *Single) Call(ctx context.Context, c *mcp.Call, s peer.Sink) (*mcp.Reply, error) {
	switch c.Msg.Method {
	case mcp.MethodListen:
		return g.listen(ctx, c, s, []Upstream{g.Upstream}, identity)
	case mcp.MethodSetLevel:
		return g.Upstream.SetLevel(ctx, c)
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return g.subscribe(ctx, c, g.Upstream, c.Name)
	case mcp.MethodListTools:
		reply, err := g.Relay.relay(ctx, g.Upstream, c, s)
		if err == nil && reply.From.Can(mcp.MirroredHeaders) {
			g.leaveOut(ctx, reply)
		}
		return reply, err
	}
	return g.Relay.relay(ctx, g.Upstream, c, s)
}

// leaveOut removes the tools from a list whose x-mcp-header no client may accept
// (2026-07-28 §Streamable HTTP, "Schema Extension"); towards such a server we are
// that client.
func (g *Single) leaveOut(ctx context.Context, reply *mcp.Reply) {
	raw := reply.Msg.Raw
	cutInvalid(raw, reply.Msg.ResultMember("tools"), &reply.Edits)
}

// Notice passes a client's notification on to the server.
func (g *Single) Notice(ctx context.Context, f *mcp.ClientFacts, m *jsonrpc.Message) {
	g.Upstream.Forward(ctx, f, m.Raw, m.Method)
}

// Attach lets a legacy client hear the server's standing notices.
func (g *Single) Attach(f *mcp.ClientFacts, s peer.Standing) (detach func()) {
	return g.attach(f, s, []Upstream{g.Upstream}, identity, false)
}

// identity leaves a notice as it is.
func identity(_ Upstream, _ *jsonrpc.Message, _ *jsonrpc.Edits) {}
