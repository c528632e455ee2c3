package mcp

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
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

// maxTraceText is the maximum length of baggage in bytes (W3C Baggage §3.3.1). Dragoman uses the
// same limit for tracestate.
const maxTraceText = 8192

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

func junkOf(raw []byte, parent, state, baggage jsonrpc.Span) (junk uint8) {
	if !parent.IsZero() && !isTraceparent(unquoted(raw, parent)) {
		junk |= junkParent
	}
	if !state.IsZero() && !isTraceText(unquoted(raw, state)) {
		junk |= junkState
	}
	if !baggage.IsZero() && !isTraceText(unquoted(raw, baggage)) {
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

// isTraceparent reports whether b has the form version "-" trace-id "-" parent-id "-" flags, in
// lower case hex. Later versions may append more fields (W3C Trace Context §3.2).
func isTraceparent(b []byte) bool {
	if len(b) < 55 || len(b) > 512 || b[2] != '-' || b[35] != '-' || b[52] != '-' {
		return false
	}
	if !isHex(b[:2]) || !isHex(b[3:35]) || !isHex(b[36:52]) || !isHex(b[53:55]) || string(b[:2]) == "ff" {
		return false
	}
	if len(b) > 55 && (string(b[:2]) == "00" || b[55] != '-' || !isTraceText(b[55:])) {
		return false
	}
	return len(bytes.Trim(b[3:35], "0")) > 0 && len(bytes.Trim(b[36:52], "0")) > 0
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isTraceText(b []byte) bool {
	if b == nil || len(b) > maxTraceText {
		return false
	}
	for _, c := range b {
		if c < 0x20 || c > 0x7e || c == '\\' {
			return false
		}
	}
	return true
}
