package conn

import (
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// publishLoss publishes an event about a message or content that was not delivered. The parameter
// what is a method or a kind of content, and why is the reason. c is the call that the lost message
// belongs to, or nil if the call is unknown.
func (s *Conn) publishLoss(c *mcp.Call, what, why string) {
	e := event.Event{Kind: event.Loss, Level: slog.LevelDebug, Server: s.opts.Name, Name: what, Detail: why}
	if c != nil {
		e.Who, e.Method, e.Call, e.From = c.Client.Who, c.Msg.Method, c.Number, c.Client.Revision
	}
	if o := s.opening.Load(); o != nil {
		e.To = o.Revision
	}
	s.opts.Events.Publish(e)
}

// about returns the call of the flow, or nil for a nil flow.
func (f *flow) about() *mcp.Call {
	if f == nil || f.call == nil {
		return nil
	}
	return f.call.Call
}
