package runtime

import (
	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// NewBridge returns a bridge that publishes its losses and refusals to p, which may be nil.
// Budget may be nil.
func NewBridge(p *event.Publisher, budget *transport.Budget) *bridge.Bridge {
	return &bridge.Bridge{Budget: budget, Events: p}
}
