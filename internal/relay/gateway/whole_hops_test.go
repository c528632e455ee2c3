package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// holding returns a server that delays the calls of its tool until the test answers them.
func holding(modern bool) (*testServer, <-chan *jsonrpc.Message) {
	s := &testServer{modern: modern}
	held := make(chan *jsonrpc.Message, 64)
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodCallTool:
			held <- m
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{"resultType":"complete"}`)
		}
	}
	return s, held
}

// TestT22_LevelOfOneRequest checks a modern client that asks for log messages in one request.
// The client gets these messages while that request runs. Its other requests, and the requests of
// other clients, get no messages.
func TestT22_LevelOfOneRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, held := holding(false)
		w := build(t, s)
		a, b, c := w.client(), w.client(), w.legacy(`{}`)
		c.say(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"emergency"}}`)
		c.answerTo("1")
		log := func(level string) {
			s.link(t, 0).say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":"secret"}}`)
			synctest.Wait()
		}
		quiet := func(who string, n *testClient) {
			t.Helper()
			if got := n.rest(); len(got) != 0 {
				t.Errorf("%s got %q", who, got)
			}
		}
		const call = `"name":"t","arguments":{}`
		leveled := strings.Replace(modernRequest("1", "tools/call", call, `{}`), `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":"warning",`, 1)
		a.say(leveled)
		m := <-held
		if got := s.link(t, 0).got(mcp.MethodSetLevel); len(got) == 0 || !strings.Contains(string(got[len(got)-1].Raw), `"warning"`) {
			t.Errorf("the level that the server got is %v", got)
		}
		log("debug")
		log("error")
		if got := a.rest(); len(got) != 1 || !strings.Contains(got[0], `"error"`) {
			t.Errorf("the client that asked for warnings got %q", got)
		}
		// Calls of two clients are running. A log message may belong to either call, so neither
		// client gets the message.
		b.say(modernRequest("1", "tools/call", call, `{}`))
		other := <-held
		log("error")
		quiet("who asked", a)
		quiet("who did not", b)
		s.link(t, 0).answer(m, `{}`)
		a.answerTo("1")
		log("error")
		quiet("who had asked", a)
		quiet("whose call is alone", b)
		quiet("who wants emergencies only", c)
		s.link(t, 0).answer(other, `{}`)
		b.answerTo("1")
		log("error")
		quiet("who had asked", a)
		quiet("who never asked", b)
	})
}

// TestT23_CollidingProgressTokens lets clients of both eras use the same tokens, as a number and as
// a string, on one session of the server. The server sees different tokens. Each client gets the
// progress of its own call, with the client's token in the same spelling.
func TestT23_CollidingProgressTokens(t *testing.T) {
	for era, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(era, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, held := holding(modern)
				w := build(t, s)
				tokens := []string{`1`, `"1"`, `1`, `"1"`, `9007199254740993`, `"\u0031"`}
				var clients []*testClient
				for i, token := range tokens {
					n := w.client()
					body := modernRequest("1", "tools/call", fmt.Sprintf(`"name":"t","arguments":{"who":%d}`, i), `{}`)
					if i%2 == 1 {
						n = w.legacy(`{}`)
						body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"who":%d},"_meta":{}}}`, i)
					}
					n.say(strings.NewReplacer(`"_meta":{"`, `"_meta":{"progressToken":`+token+`,"`, `"_meta":{}`, `"_meta":{"progressToken":`+token+`}`).Replace(body))
					clients = append(clients, n)
				}
				var calls []*jsonrpc.Message
				seen := map[string]bool{}
				for range tokens {
					m := <-held
					seen[string(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw))] = true
					calls = append(calls, m)
				}
				if len(seen) != len(tokens) || s.opened() != 1 {
					t.Fatalf("the server got %d tokens for %d calls on %d sessions", len(seen), len(tokens), s.opened())
				}
				l := s.link(t, 0)
				for _, m := range slices.Backward(calls) {
					token := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw)
					who := jsonrpc.Find(m.Raw, m.Param("arguments"), "who").Of(m.Raw)
					l.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"%s"}}`, token, who))
				}
				// Dragoman ignores progress with a token that Dragoman did not choose.
				l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"unknown","progress":1}}`)
				for i, n := range clients {
					got := n.rest()
					want := fmt.Sprintf(`"progressToken":%s,"progress":1,"message":"%d"`, tokens[i], i)
					if len(got) != 1 || !strings.Contains(got[0], want) {
						t.Errorf("client %d got %q, want %s", i, got, want)
					}
				}
				for _, m := range calls {
					l.answer(m, `{"resultType":"complete"}`)
				}
				for _, n := range clients {
					n.answerTo("1")
				}
			})
		})
	}
}

// TestT24_ReservedKeysStayOnTheirHop checks the _meta keys that describe the sender, which are
// valid for one connection only. A legacy server got this information at initialize. It gets none
// of these keys, whatever a client sends. A modern server gets each key once, with Dragoman's facts
// about the client. Trace context and unknown keys pass unchanged for all combinations of client
// era and server era.
func TestT24_ReservedKeysStayOnTheirHop(t *testing.T) {
	const (
		trace  = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate":"a=1", "baggage":"b=2"`
		others = `"com.example/k":{"x" : 1e400}`
		forged = `"io.modelcontextprotocol/clientInfo":{"name":"forged"},"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/logLevel":"debug"`
	)
	perRequest := []string{mcp.KeyVersion, mcp.KeyClientInfo, mcp.KeyClientCaps, mcp.KeyLogLevel}
	metaOf := func(m *jsonrpc.Message) (text string, n map[string]int) {
		n = map[string]int{}
		for x := range jsonrpc.Members(m.Raw, m.Param(mcp.KeyMeta)) {
			key, _ := jsonrpc.Text(m.Raw, x.Key)
			n[key]++
		}
		return string(m.Param(mcp.KeyMeta).Of(m.Raw)), n
	}
	for _, modernServer := range []bool{false, true} {
		for _, modernClient := range []bool{false, true} {
			t.Run(fmt.Sprintf("client_modern_%t_server_modern_%t", modernClient, modernServer), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &testServer{modern: modernServer}
					s.on = func(l *testSession, m *jsonrpc.Message) {
						switch {
						case m.Method == mcp.MethodListen:
							l.acknowledge(m)
						case m.Kind == jsonrpc.Request:
							l.answer(m, `{"resultType":"complete","content":[],"_meta":{`+trace+`,`+others+`}}`)
						}
					}
					w := build(t, s)
					var n *testClient
					call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{` + forged + `,` + trace + `,` + others + `}}}`
					note := `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{` + forged + `,` + trace + `,` + others + `}}}`
					if modernClient {
						own := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`
						n = w.client()
						call, note = strings.Replace(call, `"_meta":{`, own, 1), strings.Replace(note, `"_meta":{`, own, 1)
					} else {
						n = w.legacy(`{}`)
					}
					n.say(call)
					reply := n.answerTo("1")
					n.wants(reply, others)
					n.wants(reply, trace)
					n.say(note)
					n.rest()
					var calls, notes []*jsonrpc.Message
					for i := range s.opened() {
						calls = append(calls, s.link(t, i).got(mcp.MethodCallTool)...)
						notes = append(notes, s.link(t, i).got("notifications/x")...)
					}
					if len(calls) != 1 {
						t.Fatalf("the server got %d calls", len(calls))
					}
					// The notification reaches the server only if both sides are legacy.
					if legacy := !modernClient && !modernServer; legacy != (len(notes) == 1) {
						t.Errorf("the server got %d notifications", len(notes))
					}
					for _, m := range append(calls, notes...) {
						text, have := metaOf(m)
						if !strings.Contains(text, trace) || !strings.Contains(text, others) {
							t.Errorf("%s arrived with the _meta %s", m.Method, text)
						}
						for _, key := range perRequest {
							want := 0
							if modernServer && (key != mcp.KeyLogLevel || modernClient) {
								want = 1
							}
							if have[key] != want {
								t.Errorf("%s arrived with %d of %s, want %d: %s", m.Method, have[key], key, want, text)
							}
						}
						if !modernClient && strings.Contains(text, "forged") {
							t.Errorf("the server got %s", text)
						}
					}
				})
			})
		}
	}
}
