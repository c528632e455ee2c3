package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Stamp is what a codec puts on a call for the hop to a server.
type Stamp struct {
	ID jsonrpc.ID
	// Token is our own progress token as JSON, used when the client sent one.
	Token []byte
	// Info and Capabilities describe the client to a server that has no session
	// in which it was told. Nil leaves what the call carries, or {}.
	Info, Capabilities []byte
	Level              mcp.LogLevel
}

// codec writes the words of one revision.
type codec interface {
	// request appends a call in the words of a server of this revision.
	request(dst []byte, c *mcp.Call, s *Stamp) []byte
	// reply appends an answer in the words of a client of this revision.
	reply(dst []byte, c *mcp.Call, r *mcp.Reply) []byte
	// hello returns the result that opens a conversation with a client.
	hello(h *mcp.Hello) []byte
}

var codecs = [...]codec{
	mcp.R20241105: r20241105,
	mcp.R20250326: r20250326,
	mcp.R20250618: r20250618,
	mcp.R20251125: r20251125,
	mcp.R20260728: r20260728,
}

func of(r mcp.Revision) codec {
	if r == mcp.Unknown || int(r) >= len(codecs) {
		return codecs[mcp.Assumed]
	}
	return codecs[r]
}

// Request appends a client's call as a server of revision to expects it.
func Request(dst []byte, to mcp.Revision, c *mcp.Call, s *Stamp) []byte {
	return of(to).request(dst, c, s)
}

// Reply appends the answer to a call as the call's client expects it, with that
// client's id.
func Reply(dst []byte, c *mcp.Call, r *mcp.Reply) []byte {
	return of(c.Client.Revision).reply(dst, c, r)
}

// Hello returns the result object of initialize or server/discover for a client
// of revision to.
func Hello(to mcp.Revision, h *mcp.Hello) []byte { return of(to).hello(withCompletions(to, h)) }

// PerRequest returns the members of _meta by which a modern request describes
// its sender (2026-07-28 §Base, "Per-request protocol fields").
func PerRequest(rev mcp.Revision, info, capabilities []byte) []jsonrpc.Field {
	f := make([]jsonrpc.Field, 0, 4)
	f = append(f, jsonrpc.Field{Key: mcp.KeyVersion, Value: quote(rev.String())})
	if info != nil {
		f = append(f, jsonrpc.Field{Key: mcp.KeyClientInfo, Value: info})
	}
	if capabilities == nil {
		capabilities = emptyObject
	}
	return append(f, jsonrpc.Field{Key: mcp.KeyClientCaps, Value: capabilities})
}

var emptyObject = []byte("{}")

func quote(s string) []byte { return jsonrpc.AppendQuote(nil, s) }
