package peer

import (
	"errors"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestU20_SessionIsLostInAnySpelling: what servers in the field answer in a session
// that they do not know, and what only sounds like it.
func TestU20_SessionIsLostInAnySpelling(t *testing.T) {
	rpc := func(code, message string) string {
		return `{"jsonrpc":"2.0","id":null,"error":{"code":` + code + `,"message":"` + message + `"}}`
	}
	for _, test := range []struct {
		status int
		body   string
		lost   bool
	}{
		{404, "", true},
		{404, rpc("-32001", "Session not found"), true},
		{404, rpc("-32600", "Session has been terminated"), true},
		{400, "Invalid or missing session ID", true},
		{400, "Unknown session", true},
		{400, "No such session: 7f", true},
		{400, "could not find session", true},
		{400, rpc("-32000", "Bad Request: No valid session ID provided"), true},
		{400, rpc("-32000", "Bad Request: Server not initialized"), true},
		{400, rpc("-32600", "Bad Request: Missing session ID"), true},
		{400, rpc("-32000", "The session 7f does not exist"), true},
		{410, "Session expired", true},
		{409, `{"error":"mcp session no longer available"}`, true},
		{400, "what?", false},
		{400, rpc("-32602", "Invalid params: session_id is missing"), false},
		{400, rpc("-32602", "Unknown session of the browser"), false},
		{400, rpc("-32603", "session expired"), false},
		{400, rpc("-32000", "Bad Request: unsupported protocol version"), false},
		{401, "session expired", false},
		{403, "Invalid session", false},
		{429, "too many requests in this session; it has ended", false},
		{500, "Session not found", false},
		{200, rpc("-32001", "Session not found"), true},
		{200, rpc("-32001", "Request timed out"), false},
		{200, rpc("-32602", "Session not found"), false},
		{200, rpc("-32000", "Session not found"), false},
	} {
		do := func(out *transport.Outgoing) (*jsonrpc.Message, error) {
			m, _ := jsonrpc.Scan([]byte(test.body), jsonrpc.Limits{Tolerant: true})
			if test.status == 200 {
				return m, nil
			}
			return nil, &transport.StatusError{Status: test.status, Body: []byte(test.body), Msg: m}
		}
		for rev, can := range map[mcp.Revision]bool{mcp.R20251125: true, mcp.R20260728: false} {
			posting(t, &fakePoster{rev: rev, do: do}, func(s *Server) {
				a := start(s, anna, toolCall)
				a.ended()
				if got := errors.Is(a.err, ErrSessionLost); got != (test.lost && can) {
					t.Errorf("%v: %d %s: lost is %t, %v", rev, test.status, test.body, got, a.err)
				}
			})
		}
	}
}
