package mcp

import (
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// maxRepeated is the most bytes of text from a peer that an answer or a log record quotes.
const maxRepeated = 64

// Opening describes the era of a client. It is derived from one message of the client.
type Opening struct {
	// If Revision is modern, the message is served without a session. For an initialize request,
	// Revision is LatestLegacy. For any other message of a legacy client, Revision is the revision
	// in the header, or Assumed if there is no header.
	Revision Revision
	// Meta is the position of params._meta, or the zero Span if there is no _meta.
	Meta jsonrpc.Span
}

// Classify determines the era of a request or notification. header is the MCP-Protocol-Version
// header, or "" if it is absent. http says whether the transport has headers. Classify looks only
// at the method, the version key in _meta and this header. It ignores Mcp-Method and other reserved
// keys, because legacy clients may also send them. A returned error is the error to send to the
// client.
//
// Source: 2026-07-28 §Versioning, "Backward Compatibility", §Streamable HTTP, "Protocol Version
// Header".
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
		return o, refuse(m, CodeHeaderMismatch, "header mismatch: MCP-Protocol-Version is missing, but _meta says "+excerpt.Cut(date, maxRepeated))
	}
	if http && header != date {
		return o, refuse(m, CodeHeaderMismatch, "header mismatch: MCP-Protocol-Version is "+excerpt.Cut(header, maxRepeated)+", but _meta says "+excerpt.Cut(date, maxRepeated))
	}
	rev, _ := ParseRevision(date)
	if !rev.Modern() {
		return o, UnsupportedVersion(m.ID, date)
	}
	o.Revision = rev
	return o, nil
}

// classifyBare classifies a message without the version key in _meta.
func classifyBare(m *jsonrpc.Message, o Opening, header string) (Opening, *jsonrpc.Error) {
	if m.Method == MethodInitialize {
		o.Revision = LatestLegacy
		return o, nil
	}
	if m.Method == MethodDiscover {
		// No legacy method is named server/discover, so the sender is modern and the request is
		// malformed. The error tells the sender which key is missing.
		return o, refuse(m, jsonrpc.CodeInvalidParams, "_meta must contain "+KeyVersion)
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
		return o, refuse(m, jsonrpc.CodeInvalidParams, "_meta must contain "+KeyVersion)
	}
	// A notification does not need _meta. Only requests require _meta (2026-07-28 §Base,
	// "Per-request protocol fields"), and §Cancellation shows a notification without _meta.
	o.Revision = rev
	return o, nil
}

// CheckModern checks that _meta of a modern request has the required members (2026-07-28 §Base,
// "Per-request protocol fields"). It must be called after Classify.
func CheckModern(m *jsonrpc.Message, o Opening) *jsonrpc.Error {
	var at [3]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, o.Meta, []string{KeyClientCaps, KeyClientInfo, KeyLogLevel}, at[:])
	if jsonrpc.KindOf(m.Raw, at[0]) != '{' {
		return refuse(m, jsonrpc.CodeInvalidParams, "_meta must contain "+KeyClientCaps+", an object")
	}
	if !at[1].IsZero() && jsonrpc.KindOf(m.Raw, at[1]) != '{' {
		return refuse(m, jsonrpc.CodeInvalidParams, "_meta "+KeyClientInfo+" must be an object")
	}
	if !at[2].IsZero() {
		s, _ := jsonrpc.Text(m.Raw, at[2])
		if _, ok := ParseLogLevel(s); !ok {
			// 2026-07-28 §Logging, "Error Handling".
			return refuse(m, jsonrpc.CodeInvalidParams, "_meta "+KeyLogLevel+" must be a log level, such as info")
		}
	}
	return nil
}

// UnsupportedVersion returns the error for an unsupported version (2026-07-28 §Versioning,
// "Protocol Version Negotiation"). The error lists all revisions that have the given features.
func UnsupportedVersion(id jsonrpc.ID, requested string, can ...Feature) *jsonrpc.Error {
	return UnsupportedAmong(id, requested, Revisions(can...))
}

// UnsupportedAmong returns the same error as UnsupportedVersion, for a peer that supports only the
// given revisions.
func UnsupportedAmong(id jsonrpc.ID, requested string, speaks []Revision) *jsonrpc.Error {
	d := jsonrpc.AppendStrings([]byte(`{"supported":`), Dates(speaks))
	d = append(d, `,"requested":`...)
	d = jsonrpc.AppendQuote(d, excerpt.Cut(requested, maxRepeated))
	return &jsonrpc.Error{Code: CodeUnsupportedVersion, Message: "Unsupported protocol version", Data: append(d, '}'), ID: id}
}

func refuse(m *jsonrpc.Message, code int64, text string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: text, ID: m.ID}
}
