package gateway

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// Upstream is a server, as the gateway uses it.
type Upstream interface {
	bridge.Server
	catalog.Source
	// SetLevel answers logging/setLevel.
	SetLevel(ctx context.Context, c *mcp.Call) (*mcp.Reply, error)
	// Renewed says that a credential scope has got credentials, or has lost them.
	Renewed(scope string)
	// Forward sends a client's notification to the server. Forward does not wait.
	Forward(f *mcp.ClientInfo, raw []byte, method string)
	// Subscribe registers deliver as a receiver of the server's notifications.
	Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) Subscriber
}

// Seated is an Upstream whose sessions may be in another process.
type Seated interface {
	// Sit makes sure that the next call of a client belongs to this process, and keeps it so until leave is called. If
	// it belongs to another one, the error wraps a *transport.Elsewhere.
	Sit(ctx context.Context, f *mcp.ClientInfo) (leave func(), err error)
}

// Subscriber receives a server's notifications until Close is called.
type Subscriber interface {
	// Lists sets which list changes are sent to the subscriber from now on. Lists does not wait.
	Lists(tools, prompts, resources bool)
	Subscribe(ctx context.Context, uri string) (*mcp.Reply, error)
	Unsubscribe(ctx context.Context, uri string) (*mcp.Reply, error)
	// Resume subscribes to the resources that the client subscribed to through another gateway.
	// Resume does not wait.
	Resume(uris []string)
	// Watch replaces the subscription filter. It returns the part of the new filter that the server
	// has accepted.
	Watch(ctx context.Context, want mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error)
	Close()
}

// servers converts upstreams to the type that the bridge uses.
func servers(all []Upstream) []bridge.Server {
	out := make([]bridge.Server, len(all))
	for i, u := range all {
		out[i] = u
	}
	return out
}

// upstreamOf returns the server of a target. All sources of Merged's catalog are upstreams,
// because Merged created the catalog from them.
func upstreamOf(t catalog.Target) Upstream { return t.Server.(Upstream) }
