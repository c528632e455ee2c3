package gateway

import (
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// traced describes the end of a call in its span. Attributes with the prefix dragoman are ours, and the others
// are those of the semantic conventions for MCP. A name that no server has isn't part of the span's name.
func (r *route) traced(a *policy.Answer, cause string) {
	s := r.Span
	s.Set(
		spans.Text("dragoman.server", r.Server), spans.Text("dragoman.outcome", string(a.Outcome)), spans.Int("dragoman.call", int64(r.Number)), spans.Int("dragoman.queue_ms", r.Waited.Milliseconds()),
	)
	if r.Server != "" && a.Outcome != event.Refused {
		s.Name = mcp.NameSpan(s, r.Msg.Method, r.Name)
	}
	if a.Outcome == event.Parked {
		r.TraceQuestion("", "", 0)
	}
	switch {
	case a.Outcome == event.ToolError:
		s.Fail("tool_error")
	case a.Outcome == event.Cancelled:
		s.Fail("cancelled")
	case a.Code != 0:
		code := strconv.FormatInt(a.Code, 10)
		s.Set(spans.Text("rpc.response.status_code", code), spans.Text("dragoman.cause", cause))
		s.Fail(code)
	}
}
