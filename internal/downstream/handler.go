package downstream

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Handler answers the requests of a client. The gateway implements it.
type Handler interface {
	// Hello returns what a client gets at the handshake. It may block until the servers
	// have answered or ctx ends.
	Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error)
	// Call answers one request; methods of the handshake itself do not get here. mcp.Wire
	// converts the error.
	Call(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error)
	// Notify handles a client's notification that is not about the conversation itself.
	Notify(ctx context.Context, f *mcp.ClientInfo, m *jsonrpc.Message)
	// Subscribe registers a legacy client that has finished its handshake, so that it gets
	// notifications outside of its requests. detach is called once, at the end of the
	// conversation.
	Subscribe(f *mcp.ClientInfo, s mcp.Subscriber) (detach func())
}
