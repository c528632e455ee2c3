package fake

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// serveModern serves Streamable HTTP without sessions (2026-07-28 §Streamable HTTP).
func (s *Server) serveModern(w http.ResponseWriter, r *http.Request) {
	// §Streamable HTTP, "Earlier Streamable HTTP Revisions": the server answers GET and DELETE with
	// 405.
	if !s.only(w, r, http.MethodPost) || !s.accepts(w, r, "application/json", "text/event-stream") {
		return
	}
	raw, ok := s.body(w, r)
	if !ok {
		return
	}
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxMessage})
	if err != nil {
		s.fail(w, http.StatusBadRequest, s.unreadable(err))
		return
	}
	st := newStream(s, "")
	c := s.converse(st)
	if m.Kind == jsonrpc.Request {
		if bad := s.mirrors(r.Header, m); bad != nil {
			c.end(errGone)
			s.deny(w, http.StatusBadRequest, m, bad)
			return
		}
	}
	accepted := true
	c.applyTwist(&arrival{c, raw, m, st}, func() {
		var x *exchange
		x, accepted = c.take(s.ctx, m, r.Header, st)
		if x != nil {
			st.serve(c, x.run)
		}
	})
	if m.Kind != jsonrpc.Request {
		c.end(errGone)
		s.accepted(w, r, st, accepted)
		return
	}
	st.deliver(w, r, 0, func(msg []byte) int { return modernStatus(msg, !accepted) })
	// §Cancellation: a client that disconnects cancels its request. If the request has already been
	// answered, abandon returns nil.
	if x := c.abandon(m.ID); x != nil {
		x.cancel(errCancelled)
	}
	c.end(errGone)
}

// modernStatus returns the HTTP status for a plain JSON response. If refused is true, the server did
// not execute the request.
func modernStatus(msg []byte, refused bool) int {
	m, err := jsonrpc.Scan(msg, jsonrpc.Limits{Tolerant: true})
	if err != nil || m.Kind != jsonrpc.Failure {
		return http.StatusOK
	}
	code, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	switch {
	case code == jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound // §Streamable HTTP, "Protocol Version Header"
	case refused, code == mcp.CodeMissingCapability:
		return http.StatusBadRequest // §Base, "Per-request protocol fields"
	}
	return http.StatusOK
}

// mirrors checks that the headers match the values in the body (§Streamable HTTP, "Request
// Metadata").
func (s *Server) mirrors(h http.Header, m *jsonrpc.Message) *jsonrpc.Error {
	bad := func(format string, args ...any) *jsonrpc.Error {
		text := fmt.Sprintf(format, args...)
		s.violate(m.Method, "%s", text)
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "Header mismatch: " + text}
	}
	version := h.Values(mcp.HeaderVersion)
	body, inBody := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyVersion))
	switch {
	case len(version) == 0 && m.Method == mcp.MethodInitialize:
		// The request comes from a legacy client, which is not a violation. The error message lists
		// the supported versions (§Versioning, "Backward Compatibility").
		return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "Header mismatch: MCP-Protocol-Version is missing; this server supports " + s.part.ed.date + " and nothing else"}
	case len(version) != 1:
		return bad("the request has %d MCP-Protocol-Version headers instead of one", len(version))
	case inBody && version[0] != body:
		return bad("MCP-Protocol-Version is %q, but the body has %q", clip(version[0]), clip(body))
	case version[0] != s.part.ed.date:
		return &jsonrpc.Error{
			Code: mcp.CodeUnsupportedVersion, Message: "unsupported protocol version",
			Data: []byte(`{"supported":[` + quote(s.part.ed.date) + `],"requested":` + quote(version[0]) + `}`),
		}
	}
	if got := h.Values(mcp.HeaderMethod); len(got) != 1 || got[0] != m.Method {
		return bad("Mcp-Method is %q, but the body has %q", clip(strings.Join(got, ", ")), clip(m.Method))
	}
	key := map[string]string{mcp.MethodCallTool: "name", mcp.MethodGetPrompt: "name", mcp.MethodReadResource: "uri",
		mcp.MethodGetTask: "taskId", mcp.MethodUpdateTask: "taskId", mcp.MethodCancelTask: "taskId"}[m.Method]
	name, given := jsonrpc.Text(m.Raw, m.Param(key))
	if key == "" || !given {
		return nil
	}
	if wrong := mirrors(h, mcp.HeaderName, name, true); wrong != "" {
		return bad("%s", wrong)
	}
	if t := s.tool(name); m.Method == mcp.MethodCallTool && t != nil {
		for _, a := range t.args {
			if a.header == "" {
				continue
			}
			value, there := headerText(m.Raw, jsonrpc.Find(m.Raw, m.Param("arguments"), a.name))
			if wrong := mirrors(h, mcp.HeaderParam+a.header, value, there); wrong != "" {
				return bad("%s", wrong)
			}
		}
	}
	return nil
}

// headerText returns the value of an argument as a header value (§Streamable HTTP, "Value
// Encoding"). The second result is false for a value that has no header, such as null.
func headerText(raw []byte, at jsonrpc.Span) (string, bool) {
	switch jsonrpc.KindOf(raw, at) {
	case '"':
		return jsonrpc.Text(raw, at)
	case '0':
		n, ok := jsonrpc.Int(raw, at)
		return strconv.FormatInt(n, 10), ok
	case 't', 'f':
		return string(at.Of(raw)), true
	}
	return "", false
}

// mirrors returns the fault of one header, or "". If the parameter there is true, the body contains
// value, and the header must have the same value. If it is false, the header must be absent.
func mirrors(h http.Header, name, value string, there bool) string {
	got := h.Values(name)
	if !there {
		if len(got) > 0 {
			return name + " is present, but the body has no value for it"
		}
		return ""
	}
	if len(got) != 1 {
		return fmt.Sprintf("the request has %d %s headers instead of one", len(got), name)
	}
	decoded := got[0]
	for _, b := range []byte(decoded) {
		if b != '\t' && (b < ' ' || b > '~') {
			return name + " has characters that headers do not allow"
		}
	}
	if body, ok := strings.CutPrefix(decoded, "=?base64?"); ok && strings.HasSuffix(body, "?=") {
		plain, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(body, "?="))
		if err != nil {
			return name + " is not valid base64"
		}
		decoded = string(plain)
	}
	if decoded != value {
		return fmt.Sprintf("%s is %q, but the body has %q", name, clip(decoded), clip(value))
	}
	return ""
}
