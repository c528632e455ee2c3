package dialect

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Code returns the error code that the call's client gets for a reply, or 0 for a result. It
// differs from r.Code if the server's code has no meaning or a different meaning for this
// client.
func Code(c *mcp.Call, r *mcp.Reply) int64 {
	if r.Msg.Kind != jsonrpc.Failure {
		return 0
	}
	code, _ := codeFor(c.Client.Revision, c, r)
	return code
}

// recode replaces an error's code by the code for a client of the given revision.
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
// that explains the code. Codes of Dragoman itself are unchanged, and so are codes between a legacy
// client and a legacy server.
//
// The codes from -32020 to -32099 must have the specified meaning (2026-07-28 §Base, "Error
// Codes"). For a client, Dragoman is the server. If a server behind Dragoman refuses a header or a
// version, the client did not send that header or version. So these codes become an internal error
// that names the original code. There is one exception: an error that correctly says that this
// client lacks a capability. Both eras use the same code for this error.
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
			return jsonrpc.CodeInvalidRequest, note // this client does not know the code
		}
	case mcp.IsReservedCode(code):
		return jsonrpc.CodeInternal, jsonrpc.Field{Key: "upstreamCode", Value: jsonInt(code)}
	}
	return code, note
}

// lacksRequired reports whether an error lists the capabilities that the server requires, and
// the client lacks one of them (2026-07-28 §Base, "Per-request protocol fields").
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
