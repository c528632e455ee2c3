package mcp

import (
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// maxRepeated bounds what is repeated of a peer in an answer or a log, in bytes.
const maxRepeated = 64

// Opening is what one message from a client says about its sender's era.
type Opening struct {
	// Revision is modern when the message is served statelessly. For a legacy
	// message without a session it is the revision that the header names, or
	// Assumed.
	Revision Revision
	// Meta is params._meta, absent when there is none.
	Meta jsonrpc.Span
}

// Classify decides the era of a request or notification. header is the
// MCP-Protocol-Version header, "" when absent or when the link has none; http
// says whether the link has headers at all. What counts is the version key in
// _meta and that header, nothing else: clients of the old era send Mcp-Method and
// other reserved keys too. The error is the answer that the client gets.
//
// Source: 2026-07-28 §Versioning, "Backward Compatibility", §Streamable HTTP,
// "Protocol Version Header".
func Classify(m *jsonrpc.Message, header string, http bool) (Opening, *jsonrpc.Error) {
	meta := m.Param(KeyMeta)
	o := Opening{Meta: meta}
	at := jsonrpc.Find(m.Raw, meta, KeyVersion)
	if at.IsZero() {
		return classifyBare(m, o, header)
	}
	date, ok := header, true
	if jsonrpc.KindOf(m.Raw, at) != '"' || string(m.Raw[at.Start+1:at.End-1]) != header {
		date, ok = jsonrpc.Text(m.Raw, at)
	}
	if !ok {
		return o, refuse(m, jsonrpc.CodeInvalidParams, "_meta "+KeyVersion+" must be a string")
	}
	if http && header == "" {
		return o, refuse(m, CodeHeaderMismatch, "header mismatch: MCP-Protocol-Version is missing, _meta says "+excerpt.Cut(date, maxRepeated))
	}
	if http && header != date {
		return o, refuse(m, CodeHeaderMismatch, "header mismatch: MCP-Protocol-Version is "+excerpt.Cut(header, maxRepeated)+", _meta says "+excerpt.Cut(date, maxRepeated))
	}
	rev, _ := ParseRevision(date)
	if !rev.Modern() {
		return o, UnsupportedVersion(m.ID, date)
	}
	o.Revision = rev
	return o, nil
}

// classifyBare decides on a message without the version key.
func classifyBare(m *jsonrpc.Message, o Opening, header string) (Opening, *jsonrpc.Error) {
	if m.Method == MethodInitialize {
		o.Revision = LatestLegacy
		return o, nil
	}
	if m.Method == MethodDiscover {
		// There is no legacy method of this name, so the sender is modern and
		// malformed; it is answered rather than left to guess.
		return o, refuse(m, jsonrpc.CodeInvalidParams, "_meta must carry "+KeyVersion)
	}
	if header == "" {
		o.Revision = Assumed
		return o, nil
	}
	rev, ok := ParseRevision(header)
	switch {
	case !ok:
		return o, UnsupportedVersion(m.ID, header)
	case rev.Modern() && m.Kind == jsonrpc.Request:
		return o, refuse(m, jsonrpc.CodeInvalidParams, "_meta must carry "+KeyVersion)
	}
	// Of notifications nothing is required: _meta is a request's (2026-07-28 §Base,
	// "Per-request protocol fields"), and §Cancellation shows one without.
	o.Revision = rev
	return o, nil
}

// CheckModern checks what every modern request must carry in _meta (2026-07-28
// §Base, "Per-request protocol fields") once Classify found it modern.
func CheckModern(m *jsonrpc.Message, o Opening) *jsonrpc.Error {
	var at [3]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, o.Meta, []string{KeyClientCaps, KeyClientInfo, KeyLogLevel}, at[:])
	if jsonrpc.KindOf(m.Raw, at[0]) != '{' {
		return refuse(m, jsonrpc.CodeInvalidParams, "_meta must carry "+KeyClientCaps+", an object")
	}
	if !at[1].IsZero() && jsonrpc.KindOf(m.Raw, at[1]) != '{' {
		return refuse(m, jsonrpc.CodeInvalidParams, "_meta "+KeyClientInfo+" must be an object")
	}
	if !at[2].IsZero() {
		s, _ := jsonrpc.Text(m.Raw, at[2])
		if _, ok := ParseLogLevel(s); !ok {
			// 2026-07-28 §Logging, "Error Handling".
			return refuse(m, jsonrpc.CodeInvalidParams, "_meta "+KeyLogLevel+" is no log level")
		}
	}
	return nil
}

// UnsupportedVersion is the answer to a version that is not spoken (2026-07-28
// §Versioning, "Protocol Version Negotiation"). It lists all revisions, or those
// that can do all of the features named.
func UnsupportedVersion(id jsonrpc.ID, requested string, can ...Feature) *jsonrpc.Error {
	return UnsupportedAmong(id, requested, Revisions(can...))
}

// UnsupportedAmong is UnsupportedVersion of somebody who speaks the list given.
func UnsupportedAmong(id jsonrpc.ID, requested string, speaks []Revision) *jsonrpc.Error {
	d := []byte(`{"supported":[`)
	for i, r := range speaks {
		if i > 0 {
			d = append(d, ',')
		}
		d = jsonrpc.AppendQuote(d, r.String())
	}
	d = append(d, `],"requested":`...)
	d = jsonrpc.AppendQuote(d, excerpt.Cut(requested, maxRepeated))
	return &jsonrpc.Error{Code: CodeUnsupportedVersion, Message: "Unsupported protocol version", Data: append(d, '}'), ID: id}
}

func refuse(m *jsonrpc.Message, code int64, text string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: text, ID: m.ID}
}
