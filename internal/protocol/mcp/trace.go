package mcp

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/spans"
)

// These are the keys of OpenTelemetry trace context, which Dragoman passes on to servers
// (2026-07-28 §Base, "OpenTelemetry trace context").
const (
	KeyTraceparent = "traceparent"
	KeyTracestate  = "tracestate"
	KeyBaggage     = "baggage"
)

// hopKeys are the keys of _meta that NewCall reads.
var hopKeys = []string{KeyProgressToken, KeyTraceparent, KeyTracestate, KeyBaggage}

const (
	junkParent uint8 = 1 << iota
	junkState
	junkBaggage
)

// HasJunk reports whether _meta has invalid trace context.
func (c *Call) HasJunk() bool { return c.junk != 0 }

// IsJunk reports whether a member of _meta is trace context in an invalid format, according to W3C
// Trace Context and Baggage. Dragoman drops such a member, because it writes trace context to
// headers and logs. The call itself is still valid.
func (c *Call) IsJunk(key []byte) bool {
	switch string(key) {
	case KeyTraceparent:
		return c.junk&junkParent != 0
	case KeyTracestate:
		return c.junk&junkState != 0
	case KeyBaggage:
		return c.junk&junkBaggage != 0
	}
	return false
}

// TraceID returns the id of the client's W3C trace, or "" if the request has no valid traceparent.
// The result does not share memory with the request.
func (c *Call) TraceID() string {
	if c.parent.IsZero() || c.junk&junkParent != 0 {
		return ""
	}
	return string(unquoted(c.Msg.Raw, c.parent)[3:35])
}

// TraceContext returns the trace context in _meta. What isn't valid is left out.
func (c *Call) TraceContext() spans.Context {
	if c.Meta.IsZero() {
		return spans.Context{}
	}
	var at [3]jsonrpc.Span
	jsonrpc.FindAll(c.Msg.Raw, c.Meta, hopKeys[1:], at[:])
	text := func(i int) string { return string(unquoted(c.Msg.Raw, at[i])) }
	return spans.ParseContext(text(0), text(1), text(2))
}

func junkOf(raw []byte, parent, state, baggage jsonrpc.Span) (junk uint8) {
	if !parent.IsZero() && !spans.IsParent(unquoted(raw, parent)) {
		junk |= junkParent
	}
	if !state.IsZero() && !spans.IsText(unquoted(raw, state)) {
		junk |= junkState
	}
	if !baggage.IsZero() && !spans.IsText(unquoted(raw, baggage)) {
		junk |= junkBaggage
	}
	return junk
}

// unquoted returns the bytes between the quotes of a string, or nil if the value is not a string.
// Valid trace context needs no escapes, so unquoted does not decode them.
func unquoted(raw []byte, at jsonrpc.Span) []byte {
	b := at.Of(raw)
	if len(b) < 2 || b[0] != '"' {
		return nil
	}
	return b[1 : len(b)-1]
}

// TraceFields returns the members of _meta that tell a server the context of a span. The values are JSON.
func TraceFields(c *spans.Context) []jsonrpc.Field {
	f := make([]jsonrpc.Field, 0, 3)
	f = append(f, jsonrpc.Field{Key: KeyTraceparent, Value: jsonrpc.AppendQuote(nil, c.Parent())})
	if c.State != "" {
		f = append(f, jsonrpc.Field{Key: KeyTracestate, Value: jsonrpc.AppendQuote(nil, c.State)})
	}
	if c.Baggage != "" {
		f = append(f, jsonrpc.Field{Key: KeyBaggage, Value: jsonrpc.AppendQuote(nil, c.Baggage)})
	}
	return f
}

// TraceLoss adds a loss to the span of the call. c may be nil, and may have no span.
func (c *Call) TraceLoss(what, why string) {
	if c == nil || c.Span == nil {
		return
	}
	c.Span.Event("dragoman.loss", spans.Text("dragoman.loss.what", what), spans.Text("dragoman.loss.reason", why))
}

// TraceQuestion adds a server's request to the client to the span of the call. c may be nil, and may have no
// span. outcome is empty if the answer comes with a later call.
func (c *Call) TraceQuestion(method string, outcome Outcome, took time.Duration) {
	if c == nil || c.Span == nil {
		return
	}
	c.Span.Event("dragoman.question", spans.Text("mcp.method.name", method), spans.Text("dragoman.outcome", string(outcome)), spans.Int("dragoman.took_ms", took.Milliseconds()))
}

// NameSpan returns the name of a span for a request about an item, and adds the item's name to the span
// (OpenTelemetry semantic conventions for MCP, "Client" and "Server"). URIs are left out: they may contain values
// of arguments, and would make too many names.
func NameSpan(s *spans.Span, method, name string) string {
	switch method {
	case MethodCallTool:
		s.Set(spans.Text("gen_ai.operation.name", "execute_tool"), spans.Text("gen_ai.tool.name", name))
	case MethodGetPrompt:
		s.Set(spans.Text("gen_ai.prompt.name", name))
	default:
		name = ""
	}
	if name == "" {
		return method
	}
	return method + " " + name
}
