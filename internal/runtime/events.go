package runtime

import (
	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// What is in this file publishes what the callbacks of the rooms below are told. Each
// function goes when its room publishes by itself.

// NewBridge returns a bridge that publishes what it loses and refuses to p, which may be
// nil. Budget may be nil.
func NewBridge(p *event.Publisher, budget *transport.Budget) *bridge.Bridge {
	return &bridge.Bridge{Budget: budget, Events: p}
}

func observedBy(p *event.Publisher) func(server string, from, to mcp.Revision, code int64) {
	return func(server string, from, to mcp.Revision, code int64) {
		p.Publish(event.Event{Kind: event.Call, Server: server, From: from, To: to, Code: code})
	}
}
