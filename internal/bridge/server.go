package bridge

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Server is a server as the bridge uses it. It is safe for concurrent use.
type Server interface {
	// Name returns its configured name.
	Name() string
	// Call relays one call. The error is what the client gets, see mcp.Wire.
	Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error)
	// ToolParams returns what a tool of the client f wants mirrored into headers.
	ToolParams(ctx context.Context, f *mcp.ClientInfo, tool string) (params []mirror.Param, known bool)
	// Tasks returns in which form the server has tasks for the client f, and what its
	// tool says of them; tool may be "".
	Tasks(ctx context.Context, f *mcp.ClientInfo, tool string) (mcp.TaskForm, mcp.TaskSupport)
}
