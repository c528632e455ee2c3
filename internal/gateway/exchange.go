package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// exchange takes an attempt to its server and the answer back.
func exchange(ctx context.Context, b *bridge.Bridge, u Upstream, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	res, err := b.Open(u, a.Call)
	if err != nil {
		return nil, err
	}
	return b.Exchange(ctx, u, a, res, k)
}
