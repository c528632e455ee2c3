package conn

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// traced does the same as attempt for a traced call. Each request to the server has a span of its own, so that the
// server's span has one parent; a request after the first is an event of the call's span.
func (c *Conn) traced(ctx context.Context, opened *handshake.Outcome, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	leg, resent := a.Span.Leg()
	if resent && a.Retry == nil {
		a.Span.Event("dragoman.retry")
	}
	leg.Name = mcp.NameSpan(leg, a.Msg.Method, a.Name)
	leg.Set(spans.Text("mcp.method.name", a.Msg.Method), spans.Text("mcp.protocol.version", opened.Revision.String()), spans.Text("dragoman.server", c.opts.Name))
	if _, http := c.link.(*httpConn); http || c.opts.Posts {
		leg.Set(spans.Text("network.transport", "tcp"), spans.Text("network.protocol.name", "http"))
	} else {
		leg.Set(spans.Text("network.transport", "pipe"))
	}
	defer leg.End()
	reply, err := c.exchange(ctx, opened, a, k, leg)
	var e *mcp.Error
	switch {
	case errors.As(err, &e):
		leg.Set(spans.Text("dragoman.outcome", string(e.Outcome)))
		leg.Fail(cmp.Or(e.Cause, "_OTHER"))
	case err != nil:
		leg.Fail("_OTHER")
	case reply.Code() != 0:
		code := strconv.FormatInt(reply.Code(), 10)
		leg.Set(spans.Text("rpc.response.status_code", code))
		leg.Fail(code)
	case mcp.SaysToolError(a.Msg.Method, reply):
		leg.Fail("tool_error")
	}
	return reply, err
}

// carry tells the server the context of leg: in _meta, where MCP wants it (2026-07-28 §Base, "OpenTelemetry trace
// context"), and over HTTP also in the header, for the proxies and the web framework in front of the server.
func (c *Conn) carry(leg *spans.Span, stamp *dialect.Stamp, out *transport.Outgoing) {
	leg.Set(spans.Text("jsonrpc.request.id", string(stamp.ID)))
	stamp.Trace = mcp.TraceFields(&leg.Context)
	out.Header = append(out.Header, transport.HeaderField{Name: "Traceparent", Value: leg.Context.Parent()})
	if leg.State != "" {
		out.Header = append(out.Header, transport.HeaderField{Name: "Tracestate", Value: leg.State})
	}
	if leg.Baggage != "" {
		out.Header = append(out.Header, transport.HeaderField{Name: "Baggage", Value: leg.Baggage})
	}
}
