package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// serverAskingWho returns a server whose tool asks for the name of its caller before it
// answers. The server's request does not say which call it belongs to.
func serverAskingWho() *testServer {
	s := &testServer{}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodCallTool:
			l.say(`{"jsonrpc":"2.0","id":"q` + string(m.ID) + `",` + elicit + `}`)
		case m.Kind == jsonrpc.Result, m.Kind == jsonrpc.Failure:
			// The response to the request q5 belongs to call 5.
			id := strings.Trim(string(m.ID), `"q`)
			l.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[],"heard":` + string(m.Raw) + `}}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	return s
}

// TestT6_QuestionsReachTheirOwnCaller runs interactive calls of several clients at once, both
// legacy and modern, with the same ids. Each server request must reach the client of its call.
func TestT6_QuestionsReachTheirOwnCaller(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := serverAskingWho()
		w := build(t, s)
		var legacy, modern []*testClient
		for range 3 {
			legacy = append(legacy, w.legacy(`{"elicitation":{}}`))
			modern = append(modern, w.client())
		}
		for _, n := range legacy {
			n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
		}
		const params = `"name":"t","arguments":{}`
		for _, n := range modern {
			n.say(modernRequest("1", "tools/call", params, `{"elicitation":{}}`))
		}
		for i, n := range legacy {
			q := n.request()
			n.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"who":"legacy %d"}}}`, q.ID, i))
		}
		for i, n := range modern {
			m := n.answerTo("1")
			state := string(m.ResultMember("requestState").Of(m.Raw))
			var key string
			for a := range jsonrpc.Members(m.Raw, m.ResultMember("inputRequests")) {
				key = string(a.Key.Of(m.Raw))
			}
			n.say(modernRequest("2", "tools/call", fmt.Sprintf(`%s,"requestState":%s,"inputResponses":{%s:{"action":"accept","content":{"who":"modern %d"}}}`, params, state, key, i), `{"elicitation":{}}`))
		}
		for i, n := range legacy {
			n.wants(n.answerTo("1"), fmt.Sprintf(`"who":"legacy %d"`, i))
		}
		for i, n := range modern {
			n.wants(n.answerTo("2"), fmt.Sprintf(`"who":"modern %d"`, i))
		}
		calls := 0
		for i := range s.opened() {
			calls += len(s.link(t, i).got(mcp.MethodCallTool))
		}
		if calls != 6 {
			t.Errorf("the tool ran %d times", calls)
		}
	})
}

// TestTwoCallsOfOneLegacyClientAskOverOneSession checks that two calls of a legacy client share
// one session. A server request goes to the client but does not name its call. So the request stays
// open until the user answers, even if one of the calls ends first.
func TestTwoCallsOfOneLegacyClientAskOverOneSession(t *testing.T) {
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		inBubble(t, func(t *testing.T) {
			s := serverAskingWho()
			n := build(t, s).legacy(`{"elicitation":{}}`)
			for id := range 2 {
				n.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{}}}`, id))
			}
			asked := [2]*jsonrpc.Message{n.request(), n.request()}
			for _, i := range order {
				time.Sleep(2 * time.Minute) // the user thinks for longer than the idle timeout of a call
				n.say(`{"jsonrpc":"2.0","id":` + string(asked[i].ID) + `,"result":{"action":"cancel"}}`)
				n.wants(n.next(), `"action":"cancel"`)
			}
			if got := n.rest(); len(got) != 0 {
				t.Errorf("and %q", got)
			}
			if s.opened() != 1 {
				t.Errorf("the server has %d sessions", s.opened())
			}
		})
	}
}

// TestT12_ClientGoneInMidCallEndsItAtTheServer checks that a call is cancelled at the server when
// its client disconnects. The test covers all combinations of client era and server era. It covers
// calls that run, and calls that wait for the client.
func TestT12_ClientGoneInMidCallEndsItAtTheServer(t *testing.T) {
	for _, asks := range []bool{false, true} {
		for name, open := range map[string]func(w *whole) *testClient{
			"legacy": func(w *whole) *testClient {
				n := w.legacy(`{"elicitation":{}}`)
				n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
				return n
			},
			"modern": func(w *whole) *testClient {
				n := w.client()
				n.say(modernRequest("1", "tools/call", `"name":"t","arguments":{}`, `{"elicitation":{}}`))
				return n
			},
		} {
			t.Run(fmt.Sprintf("%s_asks_%t", name, asks), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &testServer{}
					s.on = func(l *testSession, m *jsonrpc.Message) {
						switch {
						case m.Method == mcp.MethodCallTool && asks:
							l.say(`{"jsonrpc":"2.0","id":"q",` + elicit + `}`)
						case m.Method == mcp.MethodCallTool:
						case m.Kind == jsonrpc.Request:
							l.answer(m, `{}`)
						}
					}
					w := build(t, s)
					n := open(w)
					time.Sleep(time.Second)
					_ = n.pipe.Close()
					// A modern client that got a server request may return on another connection
					// within ten minutes.
					patience := 5 * time.Second
					if asks && name == "modern" {
						patience = 11 * time.Minute
					}
					time.Sleep(patience)
					l := s.link(t, 0)
					calls, ends := l.got(mcp.MethodCallTool), l.got(mcp.NoteCancelled)
					if len(calls) != 1 || len(ends) != 1 || string(ends[0].Param("requestId").Of(ends[0].Raw)) != string(calls[0].ID) {
						t.Errorf("the server got %d calls and %d cancellations", len(calls), len(ends))
					}
				})
			})
		}
	}
}

// TestServerGoneInMidCall checks a server that exits during a call. The client gets one error
// with the correct outcome, and the next call works.
func TestServerGoneInMidCall(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &testServer{modern: modern}
				s.on = func(l *testSession, m *jsonrpc.Message) {
					switch {
					case m.Method == mcp.MethodListen:
						l.acknowledge(m)
					case m.Method == mcp.MethodCallTool && l.number == 0:
						_ = l.pipe.Close()
					case m.Kind == jsonrpc.Request:
						l.answer(m, `{"resultType":"complete"}`)
					}
				}
				n := build(t, s).legacy(`{}`)
				n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
				m := n.answerTo("1")
				n.wants(m, `"outcome":"unknown"`)
				n.wants(m, `"cause":"exited"`)
				n.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
				if m := n.answerTo("2"); m.Kind != jsonrpc.Result {
					t.Errorf("got %s", m.Raw)
				}
				if got := n.rest(); len(got) != 0 {
					t.Errorf("the next call got %q", got)
				}
			})
		})
	}
}
