package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Stamp contains what a codec adds to a call for one server.
type Stamp struct {
	ID jsonrpc.ID
	// Token is the progress token that Dragoman has chosen, as JSON. The codec uses it only if the
	// client sent a token.
	Token []byte
	// Info and Capabilities describe a legacy client to a modern server. If Info is nil, the call
	// has no clientInfo. If Capabilities is nil, the codec adds {}.
	Info, Capabilities []byte
	Level              mcp.LogLevel
	// Trace are the members of _meta with the context of our span, or nil if the call is not traced.
	Trace []jsonrpc.Field
	// Trusts says that the server is one of ours and gets vouchers, which clients can't send to it. Voucher
	// is the one for this call, as JSON, or nil if there is none.
	Trusts  bool
	Voucher []byte

	digits [20]byte // room for the id as bytes, so that it takes no allocation
}

// id returns the bytes of s.ID, until its next call.
func (s *Stamp) id() []byte { return append(s.digits[:0], s.ID...) }

// meta returns the members that _meta gets in each revision, and why.
func (s *Stamp) meta() ([]jsonrpc.Field, jsonrpc.Reason) {
	if s.Voucher == nil {
		return s.Trace, mcp.WhyTrace
	}
	return append(s.Trace[:len(s.Trace):len(s.Trace)], jsonrpc.Field{Key: mcp.KeyVoucher, Value: s.Voucher}), mcp.WhyVoucher
}

// isForeign reports whether a member of the client's _meta must not reach the server.
func (s *Stamp) isForeign(a *mcp.Attempt, key []byte) bool {
	return a.IsJunk(key) || s.Trusts && string(key) == mcp.KeyVoucher
}

// codec writes messages in the form of one revision.
type codec interface {
	// request appends a call for a server of this revision.
	request(dst []byte, a *mcp.Attempt, s *Stamp) []byte
	// reply appends an answer for a client of this revision.
	reply(dst []byte, c *mcp.Call, r *mcp.Reply) []byte
	// hello returns the result of the handshake with a client.
	hello(h *mcp.ServerInfo) []byte
}

// codecs maps each revision to its codec. The feature table of package mcp says which
// features a revision has.
var codecs = [...]codec{
	mcp.R20241105: legacy{mcp.R20241105},
	mcp.R20250326: legacy{mcp.R20250326},
	mcp.R20250618: legacy{mcp.R20250618},
	mcp.R20251125: legacy{mcp.R20251125},
	mcp.R20260728: modern{mcp.R20260728},
}

// quotedDates are the revisions as JSON strings. They must not be modified.
var quotedDates = func() (all [len(codecs)][]byte) {
	for r := range codecs {
		all[r] = quote(mcp.Revision(r).String())
	}
	return all
}()

func of(r mcp.Revision) codec {
	if r == mcp.Unknown || int(r) >= len(codecs) {
		return codecs[mcp.Assumed]
	}
	return codecs[r]
}

// Request appends a client's call to dst, in the form that a server of the given revision expects.
func Request(dst []byte, to mcp.Revision, a *mcp.Attempt, s *Stamp) []byte {
	return of(to).request(dst, a, s)
}

// Reply appends the answer to a call to dst. The answer has the form of the client's revision and
// the id of the client's request.
func Reply(dst []byte, c *mcp.Call, r *mcp.Reply) []byte {
	return of(c.Client.Revision).reply(dst, c, r)
}

// Hello returns the result object of initialize or server/discover, for a client that speaks the
// given revision.
func Hello(to mcp.Revision, h *mcp.ServerInfo) []byte { return of(to).hello(withCompletions(to, h)) }

// PerRequest returns the members of _meta that describe the sender of a modern request
// (2026-07-28 §Base, "Per-request protocol fields").
func PerRequest(rev mcp.Revision, info, capabilities []byte) []jsonrpc.Field {
	f := make([]jsonrpc.Field, 0, 4)
	f = append(f, jsonrpc.Field{Key: mcp.KeyVersion, Value: quotedDates[rev]})
	if info != nil {
		f = append(f, jsonrpc.Field{Key: mcp.KeyClientInfo, Value: info})
	}
	if capabilities == nil {
		capabilities = emptyObject
	}
	return append(f, jsonrpc.Field{Key: mcp.KeyClientCaps, Value: capabilities})
}

// lacksArguments reports whether the arguments of a tool call are absent or null. Arguments are
// optional, but some legacy servers crash if the arguments are absent. MCP does not allow null.
func lacksArguments(a *mcp.Attempt) bool {
	if a.Msg.Params.IsZero() {
		return false
	}
	k := a.Args.Kind()
	return k == 0 || k == 'n'
}

// objectResult returns a replacement for a result that is not an object, because every revision
// requires an object. For a tool call, the replacement contains the original value as content,
// unless the value is null.
func objectResult(c *mcp.Call, m *jsonrpc.Message) []byte {
	if c.Msg.Method == mcp.MethodCallTool && jsonrpc.KindOf(m.Raw, m.Result) != 'n' {
		return wrapValue(m.Raw, m.Result)
	}
	return emptyObject
}

// repairError sets the code of an error if the code is not an integer, and the message if the
// message is not a string. It reports whether it set the code. If the error had another code, and
// data is an object or absent, repairError adds that code to data.
func repairError(e *jsonrpc.Edits, m *jsonrpc.Message) bool {
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Error, []string{"code", "message"}, at[:])
	_, isInt := jsonrpc.Int(m.Raw, at[0])
	if isInt && jsonrpc.KindOf(m.Raw, at[1]) == '"' {
		return false
	}
	var set []jsonrpc.Field
	if !isInt {
		set = append(set, jsonrpc.Field{Key: "code", Value: jsonInt(jsonrpc.CodeInternal)})
	}
	if jsonrpc.KindOf(m.Raw, at[1]) != '"' {
		set = append(set, jsonrpc.Field{Key: "message", Value: []byte(`""`)})
	}
	if note := (jsonrpc.Field{Key: "upstreamCode", Value: at[0].Of(m.Raw)}); !isInt && note.Value != nil {
		switch data := jsonrpc.Find(m.Raw, m.Error, "data"); jsonrpc.KindOf(m.Raw, data) {
		case 0:
			set = append(set, jsonrpc.Field{Key: "data", Value: object([]jsonrpc.Field{note})})
		case '{':
			addNote(e, m.Raw, m.Error, note)
		}
	}
	e.Object(mcp.WhyErrorForm, m.Raw, m.Error, nil, set...)
	return !isInt
}

// addNote adds a member to an error's data, if the data is an object or absent.
func addNote(e *jsonrpc.Edits, raw []byte, errAt jsonrpc.Span, note jsonrpc.Field) {
	data := jsonrpc.Find(raw, errAt, "data")
	switch jsonrpc.KindOf(raw, data) {
	case 0:
		e.Object(mcp.WhyErrorNote, raw, errAt, nil, jsonrpc.Field{Key: "data", Value: object([]jsonrpc.Field{note})})
	case '{':
		if jsonrpc.Find(raw, data, note.Key).IsZero() {
			e.Object(mcp.WhyErrorNote, raw, data, nil, note)
		}
	}
}

var emptyObject = []byte("{}")

func quote(s string) []byte { return jsonrpc.AppendQuote(nil, s) }
