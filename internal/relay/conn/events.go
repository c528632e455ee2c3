package conn

import (
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// publishLoss publishes an event about a message or content that was not delivered. The parameter
// what is a method or a kind of content, and why is the reason. c is the call that the lost message
// belongs to, or nil if the call is unknown.
func (c *Conn) publishLoss(call *mcp.Call, what, why string) {
	e := event.Event{Kind: event.Loss, Level: slog.LevelDebug, Server: c.opts.Name, Name: what, Detail: why}
	call.TraceLoss(what, why)
	if call != nil {
		e.Who, e.Method, e.Call, e.From = call.Client.Who, call.Msg.Method, call.Number, call.Client.Revision
	}
	if o := c.opening.Load(); o != nil {
		e.To = o.Revision
	}
	c.opts.Events.Publish(e)
}

// about returns the call of the flow, or nil for a nil flow.
func (f *flow) about() *mcp.Call {
	if f == nil || f.call == nil {
		return nil
	}
	return f.call.Call
}
