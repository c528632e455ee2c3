package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// asksForURL returns a server that shows a URL to the client of each call: with a live request, or with an
// error.
func asksForURL(live bool) *testServer {
	const url = `{"mode":"url","message":"Sign in","elicitationId":"1","url":"https://example.com/a"}`
	s := &testServer{}
	var waiting *jsonrpc.Message
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListTools:
			l.answer(m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
		case m.Method == mcp.MethodCallTool && live:
			s.mu.Lock()
			waiting = m
			s.mu.Unlock()
			l.say(`{"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":` + url + `}`)
		case m.Method == mcp.MethodCallTool:
			l.fail(m, mcp.CodeURLElicitationRequired, `{"elicitations":[`+url+`]}`)
		case m.Kind == jsonrpc.Result && m.ID == "77":
			s.mu.Lock()
			m = waiting
			s.mu.Unlock()
			l.answer(m, `{"content":[]}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	return s
}

// sayToAll sends a message on all sessions of a server.
func (s *testServer) sayToAll(t *testing.T, raw string) {
	for i := range s.opened() {
		s.link(t, i).say(raw)
	}
	synctest.Wait()
}

const urlDone = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"1"}}`

// TestEndOfAURL checks who learns that the user is done at a URL: only the client that got the URL, only from
// the server that sent it, and with the id that the client knows. Another server has the same id, and
// another client shares the sessions.
func TestEndOfAURL(t *testing.T) {
	for name, tt := range map[string]struct {
		live bool
	}{
		"live":               {live: true},
		"an error":           {},
		"one server":         {live: true},
		"one server's error": {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				merged := !strings.HasPrefix(name, "one")
				victim, evil := asksForURL(tt.live), asksForURL(true)
				victim.isolation, evil.isolation = upstream.Shared, upstream.Shared
				all, prefix, id := []*testServer{victim}, "", `"elicitationId":"1"`
				if merged {
					all, prefix, id = append(all, evil), "a__", `"elicitationId":"a/1"`
				}
				w := build(t, all...)
				anna, ben := w.legacyOf("anna", `{"elicitation":{"url":{}}}`), w.legacyOf("ben", `{"elicitation":{"url":{}}}`)
				victim.sayToAll(t, urlDone) // nobody has asked anything yet
				if lost := w.lostSoFar(); len(lost) == 0 || !strings.Contains(lost[0], "a "+mcp.NoteElicitComplete) {
					t.Errorf("lost: %q", lost)
				}
				anna.say(strings.Replace(callOf(1, "anna", ""), `"name":"t"`, `"name":"`+prefix+`t"`, 1))
				if tt.live {
					q := anna.request()
					if !strings.Contains(string(q.Raw), id) {
						t.Errorf("the question is %s", q.Raw)
					}
					anna.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`)
				}
				if m := anna.answerTo("1"); !tt.live && !strings.Contains(string(m.Raw), id) {
					t.Errorf("the answer is %s", m.Raw)
				}
				_ = w.lostSoFar()
				expect := func(when string, want int) {
					t.Helper()
					got := anna.rest()
					if len(got) != want || want == 1 && !strings.Contains(got[0], id) {
						t.Errorf("%s: anna got %q", when, got)
					}
					if got := ben.rest(); len(got) != 0 {
						t.Errorf("%s: ben got %q", when, got)
					}
				}
				if merged {
					evil.sayToAll(t, urlDone)
					expect("the other server", 0)
					if lost := w.lostSoFar(); len(lost) == 0 || !strings.Contains(lost[0], "b "+mcp.NoteElicitComplete) {
						t.Errorf("lost: %q", lost)
					}
				}
				victim.sayToAll(t, urlDone)
				expect("the server", 1)
				if lost := w.lostSoFar(); len(lost) != 0 {
					t.Errorf("lost: %q", lost)
				}
				time.Sleep(2 * time.Hour)
				victim.sayToAll(t, urlDone)
				expect("two hours later", 0)
			})
		})
	}
}

// TestNotificationsOfAVendor checks that at the endpoint of several servers, a notification that MCP does
// not define reaches only a client that has declared something of a vendor. One server's own clients
// get everything.
func TestNotificationsOfAVendor(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","method":"com.evil/hello","params":{"text":"x"}}`
	for _, servers := range []int{1, 2} {
		inBubble(t, func(t *testing.T) {
			all := []*testServer{{isolation: upstream.Shared}, {isolation: upstream.Shared}}[:servers]
			w := build(t, all...)
			want := map[*testClient]int{
				w.legacyOf("anna", `{}`): 2 - servers,
				w.legacyOf("ben", `{"extensions":{"io.modelcontextprotocol/ui":{}}}`): 2 - servers,
				w.legacyOf("carla", `{"extensions":{"com.evil/x":{}}}`):               1,
				w.legacyOf("dora", `{"experimental":{"evil":{}}}`):                    1,
			}
			_ = w.lostSoFar()
			all[servers-1].sayToAll(t, hello)
			for n, want := range want {
				if got := n.rest(); len(got) != want {
					t.Errorf("%d servers: got %q", servers, got)
				}
			}
			if lost := w.lostSoFar(); len(lost) != 2*(servers-1) {
				t.Errorf("%d servers: lost %q", servers, lost)
			}
		})
	}
}
