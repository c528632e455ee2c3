package gateway_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
)

// at returns a gateway through which new clients see only server n, with the names that the server
// itself uses.
func (w *whole) at(n int) {
	host := &gateway.Single{Bridge: w.relay, Upstream: w.servers[n]}
	w.host = host
	w.ends = append(w.ends, host.Drain)
}

// serverAskingInAnswer returns a legacy server that puts input requests into its answer. If state
// is not "", the server adds this state.
func serverAskingInAnswer(state string) *testServer {
	s := &testServer{}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case (m.Method == mcp.MethodCallTool || m.Method == mcp.MethodGetPrompt) && m.Param("inputResponses").IsZero():
			l.answer(m, `{"resultType":"input_required","inputRequests":{"k":{`+elicit+`}}`+state+`}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{"content":[],"messages":[],"done":true}`)
		}
	}
	return s
}

// askingAlways returns the server of newAskingServer, changed so that it also answers prompts/get.
// The answer comes without a request to the client.
func askingAlways(modern bool) *testServer {
	s := newAskingServer(modern)
	on := s.on
	s.on = func(l *testSession, m *jsonrpc.Message) {
		if m.Method == mcp.MethodGetPrompt {
			l.answer(m, `{"resultType":"complete","messages":[]}`)
			return
		}
		on(l, m)
	}
	return s
}

// sealChanges are changes that a client makes to a retry, one at a time.
var sealChanges = []struct {
	name   string
	who    string // the client of the retry; "" means the client that was asked
	server int
	method string // the method of the retry; "" means tools/call
	params string // the params of the retry; "" means the params of the first request
	after  time.Duration
	anew   bool // Dragoman is restarted before the retry
	state  func(string) string
}{
	{name: "nothing"},
	{name: "another principal", who: "bert at 1"},
	{name: "nobody", who: "nobody"},
	{name: "another seat of the same subject", who: "anna at 2"},
	{name: "another server", server: 1},
	{name: "another method", method: mcp.MethodGetPrompt},
	{name: "another tool", params: `"name":"u","arguments":{"n":1}`},
	{name: "another argument", params: `"name":"t","arguments":{"n":2}`},
	{name: "one parameter more", params: `"name":"t","arguments":{"n":1},"x":1`},
	{name: "another spelling", params: `"arguments" : { "\u006e": 1 }, "name":"t"`},
	{name: "a byte of the state", state: func(s string) string {
		b := []byte(s)
		b[len(b)/2] ^= 1
		return string(b)
	}},
	{name: "a state of somebody else's make", state: func(string) string { return "theirs" }},
	{name: "eleven minutes later", after: 11 * time.Minute},
	{name: "after a restart", anew: true},
}

// TestSealsAreHeld records, byte for byte, the answer to a retry with one change. The answer is the
// same whether the state contains a parked call, a server's own state, or nothing.
func TestSealsAreHeld(t *testing.T) {
	kinds := []struct {
		name  string
		serve func() *testServer
	}{
		{"a parked call", func() *testServer { return askingAlways(false) }},
		{"a modern server's state", func() *testServer { return askingAlways(true) }},
		{"a legacy server that asks in its answer", func() *testServer { return serverAskingInAnswer("") }},
		{"a legacy server that does so with a state", func() *testServer { return serverAskingInAnswer(`,"requestState":"x"`) }},
	}
	stateOf := regexp.MustCompile(`drg1\.[\w-]+`)
	var out strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&out, "# %s\n", kind.name)
		for _, x := range sealChanges {
			inBubble(t, func(t *testing.T) {
				const asked, first = "anna at 1", `"name":"t","arguments":{"n":1}`
				w := build(t, kind.serve(), kind.serve())
				w.at(0)
				c := w.callerAs(asked, true, canBeAsked)
				retry := retryOf(t, c.ask(mcp.MethodCallTool, first))
				called := w.called(t)
				if x.anew {
					w = build(t, kind.serve(), kind.serve())
					called = 0
				}
				time.Sleep(x.after)
				who, method, params := asked, mcp.MethodCallTool, first
				if x.who != "" {
					who = x.who
				}
				if x.method != "" {
					method = x.method
				}
				if x.params != "" {
					params = x.params
				}
				if x.state != nil {
					retry = stateOf.ReplaceAllStringFunc(retry, x.state)
				}
				w.at(x.server)
				m := w.callerAs(who, true, canBeAsked).ask(method, params+retry)
				got := "result"
				if m.Kind == jsonrpc.Failure {
					got = string(m.Error.Of(m.Raw))
				}
				fmt.Fprintf(&out, "%s: %s, %d calls more\n", x.name, got, w.called(t)-called)
			})
		}
	}
	golden(t, "seals.txt", out.String())
}

// called returns how many tools/call and prompts/get requests all servers got.
func (w *whole) called(t *testing.T) (n int) {
	for _, s := range w.far {
		for i := range s.opened() {
			n += len(s.link(t, i).got(mcp.MethodCallTool)) + len(s.link(t, i).got(mcp.MethodGetPrompt))
		}
	}
	return n
}

// TestTaskIDsAfterARestart records what happens to a task id that was given out before Dragoman
// restarted, and to a task id that is used at another server.
func TestTaskIDsAfterARestart(t *testing.T) {
	var out strings.Builder
	serve := func(modern bool) *testServer {
		s := newLeaseServer(modern)
		return s.testServer
	}
	for _, modern := range []bool{false, true} {
		for _, who := range []string{"nobody", "anna at 1"} {
			inBubble(t, func(t *testing.T) {
				w := build(t, serve(modern), serve(modern))
				w.at(0)
				m := w.callerAs(who, true, takesTasks).ask(mcp.MethodCallTool, `"name":"job","arguments":{}`)
				id := `"taskId":` + string(m.ResultMember("taskId").Of(m.Raw))
				ask := func(when string) {
					m := w.callerAs(who, true, takesTasks).ask(mcp.MethodGetTask, id)
					got := "result"
					if m.Kind == jsonrpc.Failure {
						got = string(m.Error.Of(m.Raw))
					}
					fmt.Fprintf(&out, "%s server, %s, %s: %s\n", eraOf(modern), who, when, got)
				}
				ask("at once")
				w.at(1)
				ask("at another server")
				time.Sleep(time.Hour) // otherwise, the sessions before and after the restart have the same numbers
				w = build(t, serve(modern), serve(modern))
				w.at(0)
				ask("after a restart")
			})
		}
	}
	golden(t, "taskids_restart.txt", out.String())
}
