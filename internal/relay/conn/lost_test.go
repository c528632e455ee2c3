package conn

import (
	"errors"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestU20_SessionIsLostInAnySpelling checks answers with which existing servers report an unknown
// session, and answers that only look similar.
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
		pings := false // whether the server answers pings
		do := func(out *transport.Outgoing) (*jsonrpc.Message, error) {
			if out.Method == mcp.MethodPing && pings {
				return jsonrpc.Scan(jsonrpc.AppendResult(nil, out.ID, []byte("{}")), jsonrpc.Limits{})
			}
			m, _ := jsonrpc.Scan([]byte(test.body), jsonrpc.Limits{Tolerant: true})
			if test.status == 200 {
				return m, nil
			}
			return nil, &transport.StatusError{Status: test.status, Body: []byte(test.body), Msg: m}
		}
		for rev, can := range map[mcp.Revision]bool{mcp.R20251125: true, mcp.R20260728: false} {
			for _, pings = range []bool{false, true} {
				posting(t, &fakePoster{rev: rev, session: "s", do: do}, func(c *Conn) {
					a := start(c, anna, toolCall)
					time.Sleep(5 * time.Second) // calls wait while a server is not ready
					a.ended()
					if got := errors.Is(a.err, ErrSessionLost); got != (test.lost && can && !pings) {
						t.Errorf("%v: status %d %s: pings are answered: %t, lost is %t, %v", rev, test.status, test.body, pings, got, a.err)
					}
				})
			}
		}
	}
}

// TestASessionThatAnswersIsNotLost checks a tool that reports that one of its own sessions is
// not found, with the text of a server that has lost a session. The client gets that error. Dragoman
// does not ping the server for each of these errors.
func TestASessionThatAnswersIsNotLost(t *testing.T) {
	const own = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found: browser 7"}}`
	for _, status := range []int{200, 400} {
		pings, pingIs := 0, error(nil)
		do := func(out *transport.Outgoing) (*jsonrpc.Message, error) {
			if out.Method == mcp.MethodPing {
				pings++
				if pingIs != nil {
					return nil, pingIs
				}
				return jsonrpc.Scan(jsonrpc.AppendResult(nil, out.ID, []byte("{}")), jsonrpc.Limits{})
			}
			m, _ := jsonrpc.Scan([]byte(own), jsonrpc.Limits{Tolerant: true})
			if status == 200 {
				return m, nil
			}
			return nil, &transport.StatusError{Status: status, Body: []byte(own), Msg: m}
		}
		posting(t, &fakePoster{rev: mcp.R20251125, do: do}, func(c *Conn) {
			for n := range 10 {
				a := start(c, anna, toolCall)
				a.ended()
				if a.err != nil || a.reply.Code() != -32001 {
					t.Fatalf("status %d, call %d: %v", status, n, a.err)
				}
			}
			if pings != 1 {
				t.Errorf("status %d: %d pings for ten such answers in a row", status, pings)
			}
			time.Sleep(time.Minute)
			pingIs = errors.New("the line is cut")
			a := start(c, anna, toolCall)
			a.ended()
			if errors.Is(a.err, ErrSessionLost) {
				t.Errorf("status %d, and a ping without an answer: %v", status, a.err)
			}
		})
	}
}

// TestA404DoesNotAlwaysMeanALostSession checks tools that answer with status 404, although the
// specification reserves it for lost sessions. The session is lost unless the server answers a ping.
// But it is lost after three such calls in a row, since some servers may answer pings in any session.
func TestA404DoesNotAlwaysMeanALostSession(t *testing.T) {
	const fine, unknown, cut = "fine", "unknown", "cut"
	for name, test := range map[string]struct {
		session, ping string
		calls         string // a call for each letter: x gets a 404, and . gets a result
		lost          string // which of them say that the session is lost
		pings         int
	}{
		"it is lost":                {"s", "404", "xxx", "yyy", 1},
		"a server without ping":     {"s", unknown, "x", "n", 1},
		"no answer to the ping":     {"s", cut, "x", "y", 1},
		"the tool's own":            {"s", fine, "x.xx.x", "nnnnnn", 4},
		"in a row":                  {"s", fine, "xxxx", "nnyy", 3},
		"a server without sessions": {"", "404", "xxxx", "nnnn", 0},
	} {
		pings, next := 0, byte(0)
		do := func(out *transport.Outgoing) (*jsonrpc.Message, error) {
			refused := &transport.StatusError{Status: 404, Body: []byte("not found")}
			if out.Method == mcp.MethodPing {
				pings++
				switch test.ping {
				case "404":
					return nil, refused
				case cut:
					return nil, errors.New("the line is cut")
				case unknown:
					refused.Msg, _ = jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"m"}}`), jsonrpc.Limits{Tolerant: true})
					return nil, refused
				}
			} else if next == 'x' {
				return nil, refused
			}
			return jsonrpc.Scan(jsonrpc.AppendResult(nil, out.ID, []byte("{}")), jsonrpc.Limits{})
		}
		posting(t, &fakePoster{rev: mcp.R20251125, session: test.session, do: do}, func(c *Conn) {
			lost := ""
			for i := range len(test.calls) {
				next = test.calls[i]
				a := start(c, anna, toolCall)
				a.ended()
				lost += map[bool]string{true: "y", false: "n"}[errors.Is(a.err, ErrSessionLost)]
			}
			if lost != test.lost || pings != test.pings {
				t.Errorf("%s: got %s with %d pings, want %s with %d", name, lost, pings, test.lost, test.pings)
			}
		})
	}
}
