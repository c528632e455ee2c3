package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/catalog"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Upstream is a server as the gateway uses it.
type Upstream interface {
	bridge.Server
	catalog.Source
	// SetLevel answers logging/setLevel.
	SetLevel(ctx context.Context, c *mcp.Call) (*mcp.Reply, error)
	// Forward passes on a client's notification. It does not wait.
	Forward(f *mcp.ClientInfo, raw []byte, method string)
	// Subscribe registers somebody who hears the server's notices.
	Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) Subscriber
}

// Subscriber is somebody who hears a server's notices until Close.
type Subscriber interface {
	// Lists says which list changes are wanted from now on. It does not wait.
	Lists(tools, prompts, resources bool)
	Subscribe(ctx context.Context, uri string) (*mcp.Reply, error)
	Unsubscribe(ctx context.Context, uri string) (*mcp.Reply, error)
	// Watch says at once what is wanted from now on, and returns what of it the
	// server has agreed to tell.
	Watch(ctx context.Context, want mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error)
	Close()
}

// servers returns the upstreams as the bridge knows them.
func servers(all []Upstream) []bridge.Server {
	out := make([]bridge.Server, len(all))
	for i, u := range all {
		out[i] = u
	}
	return out
}

// upstreamOf returns the server that a name leads to. All sources of a catalog are
// upstreams, because Merged makes it of those.
func upstreamOf(t catalog.Target) Upstream { return t.Server.(Upstream) }
