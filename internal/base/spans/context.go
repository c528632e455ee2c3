package spans

import (
	"bytes"
	"encoding/hex"
)

// Context is what the other side of a leg learns of a span: the members traceparent and tracestate of W3C Trace
// Context, and the baggage, which we only pass on. The zero Context belongs to no trace.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Flags   byte // 1: the trace is recorded
	State   string
	Baggage string
}

// IsZero reports whether c belongs to no trace.
func (c *Context) IsZero() bool { return c.Trace == [16]byte{} }

// Sampled reports whether the trace is recorded.
func (c *Context) Sampled() bool { return c.Flags&sampled != 0 }

const (
	sampled    = 1
	knownFlags = 3 // sampled, and that the trace id is random
)

// maxText is the maximum length of baggage in bytes (W3C Baggage §3.3.1). We use the same limit for tracestate.
const maxText = 8192

// ParseContext returns the context that a traceparent, a tracestate and a baggage describe. An invalid or empty
// traceparent makes the tracestate useless too (W3C Trace Context §4.3); the baggage stands alone.
func ParseContext(parent, state, baggage string) (c Context) {
	if b := []byte(parent); IsParent(b) {
		_, _ = hex.Decode(c.Trace[:], b[3:35])
		_, _ = hex.Decode(c.Span[:], b[36:52])
		var flags [1]byte
		_, _ = hex.Decode(flags[:], b[53:55])
		c.Flags = flags[0] & knownFlags
		if state != "" && IsText([]byte(state)) {
			c.State = state
		}
	}
	if baggage != "" && IsText([]byte(baggage)) {
		c.Baggage = baggage
	}
	return c
}

// Parent returns the traceparent of c (W3C Trace Context §3.2).
func (c *Context) Parent() string {
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, c.Trace[:])
	b = hex.AppendEncode(append(b, '-'), c.Span[:])
	return string(hex.AppendEncode(append(b, '-'), []byte{c.Flags}))
}

// IsParent reports whether b has the form version "-" trace-id "-" parent-id "-" flags, in lower case hex. Later
// versions may append more fields (W3C Trace Context §3.2).
func IsParent(b []byte) bool {
	if len(b) < 55 || len(b) > 512 || b[2] != '-' || b[35] != '-' || b[52] != '-' {
		return false
	}
	if !isHex(b[:2]) || !isHex(b[3:35]) || !isHex(b[36:52]) || !isHex(b[53:55]) || string(b[:2]) == "ff" {
		return false
	}
	if len(b) > 55 && (string(b[:2]) == "00" || b[55] != '-' || !IsText(b[55:])) {
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

// IsText reports whether b may be a tracestate or a baggage: printable, without backslashes, and not too long.
func IsText(b []byte) bool {
	if b == nil || len(b) > maxText {
		return false
	}
	for _, c := range b {
		if c < 0x20 || c > 0x7e || c == '\\' {
			return false
		}
	}
	return true
}
