package dialect

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Code returns the error code that the call's client gets for a reply, 0 for a
// result. It differs from r.Code where the server's code has no meaning for this
// client, or another one.
func Code(c *mcp.Call, r *mcp.Reply) int64 {
	if r.Msg.Kind != jsonrpc.Failure {
		return 0
	}
	code, _ := codeFor(c.Client.Revision, c, r)
	return code
}

// recode replaces an error's code by the one that a client of revision to gets.
func recode(e *jsonrpc.Edits, to mcp.Revision, c *mcp.Call, r *mcp.Reply) {
	code, note := codeFor(to, c, r)
	if code == r.Code() {
		return
	}
	raw := r.Msg.Raw
	e.Replace(mcp.WhyErrorCode, jsonrpc.Find(raw, r.Msg.Error, "code"), jsonInt(code))
	if note.Key != "" {
		noted(e, raw, r.Msg.Error, note)
	}
}

// codeFor returns the code that a client of revision to gets, and a member for the
// error's data that explains it. Codes that we answer with ourselves, and codes between
// two legacy parties, stay as they are.
//
// The codes from -32020 to -32099 mean what the specification says or must not be sent
// (2026-07-28 §Base, "Error Codes"). To a client, Dragoman is the server: when a server
// behind it refuses a header or a version, that header is not one of the client's
// request. So these codes become an internal error that names the original code. The
// exception is a true error that this client lacks a capability: servers of both eras
// use one code for it.
func codeFor(to mcp.Revision, c *mcp.Call, r *mcp.Reply) (code int64, note jsonrpc.Field) {
	code = r.Code()
	if r.From == mcp.Unknown || r.From.Legacy() && to.Legacy() {
		return code, note
	}
	raw := r.Msg.Raw
	switch {
	case code == mcp.CodeResourceNotFound && !to.Can(mcp.ResourceNotFoundCode):
		// 2026-07-28 §Resources, "Error Handling": a missing resource was -32002
		// before and is -32602 there.
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
			return jsonrpc.CodeInvalidRequest, note // it cannot know the code
		}
	case mcp.IsReservedCode(code):
		return jsonrpc.CodeInternal, jsonrpc.Field{Key: "upstreamCode", Value: jsonInt(code)}
	}
	return code, note
}

// lacksRequired reports whether an error says which capabilities the server requires
// and the client has indeed not declared all of them (2026-07-28 §Base, "Per-request
// protocol fields").
func lacksRequired(c *mcp.Call, r *mcp.Reply) bool {
	raw := r.Msg.Raw
	need := jsonrpc.Find(raw, jsonrpc.Find(raw, r.Msg.Error, "data"), "requiredCapabilities")
	return mcp.LacksCapability(c.Client.Capabilities, raw, need)
}

// aboutResource tells a missing resource from other invalid parameters: the
// specification's own example names the URI in data.
func aboutResource(raw []byte, errAt jsonrpc.Span) bool {
	data := jsonrpc.Find(raw, errAt, "data")
	if !jsonrpc.Find(raw, data, "uri").IsZero() {
		return true
	}
	msg, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, errAt, "message"))
	return bytes.Contains(bytes.ToLower([]byte(msg)), []byte("not found"))
}
