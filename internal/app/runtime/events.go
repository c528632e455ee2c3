package runtime

import (
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// NewBridge returns a bridge that publishes its events to p. p and budget may be nil.
func NewBridge(p *event.Publisher, budget *transport.Budget) *bridge.Bridge {
	return &bridge.Bridge{Budget: budget, Events: p}
}
