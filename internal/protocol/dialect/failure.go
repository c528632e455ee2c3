package dialect

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Code returns the error code that the call's client gets for a reply, or 0 for a result. The code
// differs from r.Code() if the server's code has no meaning or a different meaning for this client.
func Code(c *mcp.Call, r *mcp.Reply) int64 {
	if r.Msg.Kind != jsonrpc.Failure {
		return 0
	}
	code, _ := codeFor(c.Client.Revision, c, r)
	return code
}

// recode replaces the code of an error with the code for a client of the given revision.
func recode(e *jsonrpc.Edits, to mcp.Revision, c *mcp.Call, r *mcp.Reply) {
	code, note := codeFor(to, c, r)
	if code == r.Code() {
		return
	}
	raw := r.Msg.Raw
	e.Replace(mcp.WhyErrorCode, jsonrpc.Find(raw, r.Msg.Error, "code"), jsonInt(code))
	if note.Key != "" {
		addNote(e, raw, r.Msg.Error, note)
	}
}

// codeFor returns the code for a client of the given revision, and a member for the error's data
// that explains the code. Codes of Dragoman itself are unchanged. Codes from a legacy server to a
// legacy client are unchanged too.
//
// The codes from -32020 to -32099 must have the specified meaning (2026-07-28 §Base, "Error
// Codes"). If a server behind Dragoman refuses a header or a version, Dragoman sent that header or
// version, and not the client. So the client gets the code of an internal error instead, and the
// member names the original code. The only exception is an error that correctly says that this
// client lacks a capability. A modern client gets this error unchanged. A legacy client gets the
// code of an invalid request.
func codeFor(to mcp.Revision, c *mcp.Call, r *mcp.Reply) (code int64, note jsonrpc.Field) {
	code = r.Code()
	if r.From == mcp.Unknown || r.From.Legacy() && to.Legacy() {
		return code, note
	}
	raw := r.Msg.Raw
	switch {
	case code == mcp.CodeResourceNotFound && !to.Can(mcp.ResourceNotFoundCode):
		// 2026-07-28 §Resources, "Error Handling": the code of a missing resource
		// changed from -32002 to -32602.
		if c.Name != "" && c.Method != nil && c.Method.NameKey == "uri" {
			note = jsonrpc.Field{Key: "uri", Value: quote(c.Name)}
		}
		return jsonrpc.CodeInvalidParams, note
	case code == jsonrpc.CodeInvalidParams && to.Can(mcp.ResourceNotFoundCode):
		if c.Msg.Method == mcp.MethodReadResource && aboutResource(raw, r.Msg.Error) {
			return mcp.CodeResourceNotFound, note
		}
	case code == mcp.CodeMissingCapability && lacksRequired(c, r):
		if to.Legacy() {
			return jsonrpc.CodeInvalidRequest, note // legacy clients do not know CodeMissingCapability
		}
	case mcp.IsReservedCode(code):
		return jsonrpc.CodeInternal, jsonrpc.Field{Key: "upstreamCode", Value: jsonInt(code)}
	}
	return code, note
}

// lacksRequired reports whether an error lists required capabilities, and the client lacks at least
// one of these capabilities (2026-07-28 §Base, "Per-request protocol fields").
func lacksRequired(c *mcp.Call, r *mcp.Reply) bool {
	raw := r.Msg.Raw
	need := jsonrpc.Find(raw, jsonrpc.Find(raw, r.Msg.Error, "data"), "requiredCapabilities")
	return mcp.LacksCapability(c.Client.Capabilities, raw, need)
}

// aboutResource reports whether an error is about a missing resource, and not about other
// invalid parameters. In the specification's example, data contains the URI.
func aboutResource(raw []byte, errAt jsonrpc.Span) bool {
	data := jsonrpc.Find(raw, errAt, "data")
	if !jsonrpc.Find(raw, data, "uri").IsZero() {
		return true
	}
	msg, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, errAt, "message"))
	return bytes.Contains(bytes.ToLower([]byte(msg)), []byte("not found"))
}
