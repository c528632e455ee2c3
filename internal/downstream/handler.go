package downstream

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Handler is what stands behind a client's conversation and answers it: the gateway.
type Handler interface {
	// Hello returns what a client is told when it opens. It may block until the
	// servers behind have answered, or as long as ctx.
	Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error)
	// Call answers one request, every method but those of the handshake itself.
	// The error is turned into a Failure with mcp.Wire.
	Call(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error)
	// Notify takes a client's notification that is not about our own conversation.
	Notify(ctx context.Context, f *mcp.ClientInfo, m *jsonrpc.Message)
	// Subscribe says that a legacy client has finished its handshake and hears
	// standing notices from now on. detach is called once, when it is gone.
	Subscribe(f *mcp.ClientInfo, s mcp.Subscriber) (detach func())
}
