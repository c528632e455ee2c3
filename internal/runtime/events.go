package runtime

import (
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// What is in this file publishes what the callbacks of the rooms below are told. Each
// function goes when its room publishes by itself.

// NewBridge returns a bridge that publishes what it loses and refuses to p, which may be
// nil. Budget may be nil.
func NewBridge(p *event.Publisher, budget *transport.Budget) *bridge.Bridge {
	return &bridge.Bridge{Budget: budget, Lost: lostBy(p), Refused: refusedBy(p)}
}

func observedBy(p *event.Publisher) func(server string, from, to mcp.Revision, code int64) {
	return func(server string, from, to mcp.Revision, code int64) {
		p.Publish(event.Event{Kind: event.Call, Server: server, From: from, To: to, Code: code})
	}
}

func lostBy(p *event.Publisher) func(server, what, why string) {
	return func(server, what, why string) {
		p.Publish(event.Event{Kind: event.Loss, Level: slog.LevelWarn, Server: server, Name: what, Detail: why})
	}
}

func renamedBy(p *event.Publisher) func(server, list, name, why string) {
	return func(server, list, name, why string) {
		p.Publish(event.Event{Kind: event.Rename, Level: slog.LevelWarn, Server: server, Method: list, Name: name, Detail: why})
	}
}

func refusedBy(p *event.Publisher) func(server, principal, method string) {
	return func(server, principal, method string) {
		p.Publish(event.Event{
			Kind: event.Refusal, Level: slog.LevelWarn, Server: server, Method: method, Who: identity.Named(principal),
			Detail: "a requestState was refused: it is another client's, another request's, or was changed",
		})
	}
}
