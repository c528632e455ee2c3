package downstream

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Handler answers the requests of clients. The gateway implements it.
type Handler interface {
	// Hello returns the server information for a client at the handshake. It may block until
	// the servers have answered or ctx ends.
	Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error)
	// Call answers one request. The Session answers the methods of the handshake itself, so they
	// never reach Call. The error can be any error; mcp.Wire converts it to a JSON-RPC error.
	Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error)
	// Notify handles the notifications from the client, except those about the conversation itself.
	Notify(ctx context.Context, f *mcp.ClientInfo, m *jsonrpc.Message)
	// Subscribe registers a legacy client that has finished its handshake, so that it gets
	// notifications outside its requests. detach is called once, when the conversation ends.
	Subscribe(f *mcp.ClientInfo, s mcp.Subscriber) (detach func())
	// Resubscribe subscribes a client that Subscribe has registered to resources to which it was subscribed in another
	// process. What it may not see any more is left out. Resubscribe may ask servers which of them has a resource, but
	// doesn't wait until they have subscribed it.
	Resubscribe(ctx context.Context, f *mcp.ClientInfo, uris []string)
}
