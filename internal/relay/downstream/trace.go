package downstream

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// startSpan starts the span of a call. Its parent is what the client wrote into _meta (2026-07-28 §Base,
// "OpenTelemetry trace context"), or else into the HTTP header. If both are there and differ, the span links the
// one in the header, since that of the message has precedence in the semantic conventions for MCP ("Context
// propagation").
func (c *Session) startSpan(call *mcp.Call, r *transport.Request) {
	in, outer := call.TraceContext(), spans.ParseContext(header(r, "Traceparent"), header(r, "Tracestate"), header(r, "Baggage"))
	baggage := in.Baggage
	if baggage == "" {
		baggage = outer.Baggage
	}
	if in.IsZero() {
		in, outer = outer, spans.Context{}
	}
	in.Baggage = baggage
	s := c.endpoint.Traces.Start(in)
	if !outer.IsZero() && (outer.Trace != in.Trace || outer.Span != in.Span) {
		s.Link = outer
	}
	s.Name = call.Msg.Method
	s.Set(
		spans.Text("mcp.method.name", s.Name), spans.Text("mcp.protocol.version", call.Client.Revision.String()),
		spans.Text("jsonrpc.request.id", strings.Trim(string(call.Msg.ID), `"`)),
	)
	if r.Method == "" {
		s.Set(spans.Text("network.transport", "pipe"))
	} else {
		s.Set(spans.Text("network.transport", "tcp"), spans.Text("network.protocol.name", "http"))
	}
	call.Span = s
}

// header returns a field of an HTTP header, with several values joined, as both specifications of W3C demand.
func header(r *transport.Request, name string) string { return strings.Join(r.Header[name], ",") }
