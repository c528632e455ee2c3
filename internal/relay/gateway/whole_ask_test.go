package gateway_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const elicit = `"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}`

// TestListMeanwhileTakesNoQuestion checks that a server request during a call belongs to the call,
// even while Dragoman reads a list on the same session, for a modern client or for itself.
func TestListMeanwhileTakesNoQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var held *jsonrpc.Message
		s := &testServer{}
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodListTools:
				held = m
				l.say(`{"jsonrpc":"2.0","id":"q",` + elicit + `}`)
			case m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure:
				l.answer(held, `{"tools":[]}`)
				l.answer(l.got(mcp.MethodCallTool)[0], `{"content":[],"heard":"`+string(m.Raw[len(m.Raw)-20:len(m.Raw)-18])+`"}`)
			case m.Method == mcp.MethodCallTool:
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{}`)
			}
		}
		n := build(t, s).client()
		n.say(modernRequest("1", "tools/call", `"name":"t","arguments":{}`, `{"elicitation":{}}`))
		synctest.Wait()
		n.say(modernRequest("2", "tools/list", "", `{"elicitation":{}}`))
		m := n.next()
		if m.ID != "1" {
			t.Fatalf("got %s", m.Raw)
		}
		n.wants(m, `"resultType":"input_required"`)
		if s.opened() != 1 {
			t.Errorf("the server has %d sessions, so this test does not prove anything", s.opened())
		}
	})
}

// TestQuestionIsNeverDropped checks a client that reads slowly and a server that logs a lot.
// Log messages may be lost, but the server request of the call is not.
func TestQuestionIsNeverDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{}
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodCallTool:
				for range 2000 {
					l.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}`)
				}
				l.say(`{"jsonrpc":"2.0","id":"q",` + elicit + `}`)
			case m.Kind == jsonrpc.Result, m.Kind == jsonrpc.Failure:
				l.answer(l.got(mcp.MethodCallTool)[0], `{"content":[],"x":"done"}`)
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{}`)
			}
		}
		w := build(t, s)
		n := w.legacy(`{"elicitation":{}}`)
		n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
		start := time.Now()
		q := n.request()
		n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"cancel"}}`)
		n.wants(n.answerTo("1"), "done")
		if time.Since(start) > time.Second {
			t.Errorf("the call took %v", time.Since(start))
		}
	})
}

// TestLiveQuestionsThatAreNone checks input requests that are not valid. The error blames the
// server, and no request reaches the client.
func TestLiveQuestionsThatAreNone(t *testing.T) {
	for name, asks := range map[string]string{
		"params null":  `{"k":{"method":"elicitation/create","params":null}}`,
		"params array": `{"k":{"method":"elicitation/create","params":[]}}`,
		"no object":    `{"k":7}`,
		"an array":     `[{"method":"elicitation/create"}]`,
		"a text":       `"elicitation/create"`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &testServer{modern: true}
				s.on = func(l *testSession, m *jsonrpc.Message) {
					switch {
					case m.Method == mcp.MethodListen:
						l.acknowledge(m)
					case m.Kind == jsonrpc.Request:
						l.answer(m, `{"resultType":"input_required","inputRequests":`+asks+`,"requestState":"s"}`)
					}
				}
				n := build(t, s).legacy(`{"elicitation":{}}`)
				n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
				m := n.next()
				if m.Kind != jsonrpc.Failure || !strings.Contains(string(m.Raw), `"code":-32603`) || m.ID != "1" {
					t.Errorf("got %s", m.Raw)
				}
				if calls := len(s.link(t, 0).got(mcp.MethodCallTool)); calls != 1 {
					t.Errorf("the server was called %d times", calls)
				}
			})
		})
	}
}

// TestLiveQuestionsOfAnyParams checks that Dragoman's retry of a call contains the responses and
// the state, whatever params the call had.
func TestLiveQuestionsOfAnyParams(t *testing.T) {
	for name, params := range map[string]string{"none": "", "empty": `,"params":{}`, "blank": `,"params":{ }`, "meta": `,"params":{"_meta":{}}`} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &testServer{modern: true}
				s.on = func(l *testSession, m *jsonrpc.Message) {
					switch {
					case m.Method == mcp.MethodListen:
						l.acknowledge(m)
					case m.Kind == jsonrpc.Request && m.Param("requestState").IsZero():
						l.answer(m, `{"resultType":"input_required","inputRequests":{"k":{`+elicit+`}},"requestState":"s\u0041"}`)
					case m.Kind == jsonrpc.Request:
						l.answer(m, `{"resultType":"complete","content":[]}`)
					}
				}
				n := build(t, s).legacy(`{"elicitation":{}}`)
				n.say(`{"jsonrpc":"2.0","id":1,"method":"prompts/get"` + params + `}`)
				q := n.request()
				n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"decline"}}`)
				if m := n.answerTo("1"); m.Kind != jsonrpc.Result {
					t.Errorf("got %s", m.Raw)
				}
				calls := s.link(t, 0).got(mcp.MethodGetPrompt)
				if len(calls) != 2 {
					t.Fatalf("the server was called %d times", len(calls))
				}
				m := calls[1]
				for key, want := range map[string]string{"requestState": `"s\u0041"`, "inputResponses": `{"k":{"action":"decline"}}`} {
					if got := string(m.Param(key).Of(m.Raw)); got != want {
						t.Errorf("the member %s is %s: %s", key, got, m.Raw)
					}
				}
				if jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyVersion).IsZero() {
					t.Errorf("the list of cases has no entry for %s", m.Raw)
				}
			})
		})
	}
}

// TestM09_LegacyClientIsToldInItsOwnCodes checks a modern server that needs a capability that a
// legacy client lacks. The client gets a code that it knows instead of -32021.
func TestM09_LegacyClientIsToldInItsOwnCodes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{modern: true}
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodListen:
				l.acknowledge(m)
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{"resultType":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{}}}}`)
			}
		}
		n := build(t, s).legacy(`{"elicitation":{}}`)
		n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
		m := n.next()
		n.wants(m, `sampling`)
		if strings.Contains(string(m.Raw), "-32021") || m.Kind != jsonrpc.Failure {
			t.Errorf("got %s", m.Raw)
		}
	})
}

// TestStateOfOtherMethodsIsTheirs checks that Dragoman passes on requestState unchanged for methods
// without input rounds.
func TestStateOfOtherMethodsIsTheirs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{modern: true}
		n := build(t, s).client()
		n.say(modernRequest("1", "foo/bar", `"requestState":"mine"`, `{}`))
		if m := n.answerTo("1"); m.Kind != jsonrpc.Result {
			t.Errorf("got %s", m.Raw)
		}
		got := s.link(t, 0).got("foo/bar")
		if len(got) != 1 || string(got[0].Param("requestState").Of(got[0].Raw)) != `"mine"` {
			t.Errorf("the server got %d requests", len(got))
		}
	})
}

// TestQuestionsOfReadsAreNotCacheable checks that input_required for resources/read has neither
// ttlMs nor cacheScope (2026-07-28 §MRTR).
func TestQuestionsOfReadsAreNotCacheable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{caps: `{"resources":{}}`}
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodReadResource:
				l.say(`{"jsonrpc":"2.0","id":"q",` + elicit + `}`)
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{}`)
			}
		}
		n := build(t, s).client()
		n.say(modernRequest("1", "resources/read", `"uri":"x:1"`, `{"elicitation":{}}`))
		m := n.answerTo("1")
		n.wants(m, `"resultType":"input_required"`)
		if strings.Contains(string(m.Raw), "ttlMs") || strings.Contains(string(m.Raw), "cacheScope") {
			t.Errorf("got %s", m.Raw)
		}
	})
}

// TestProgressGoesOnThroughTheRounds checks a server that restarts its progress with each round
// of input. The client gets progress that increases (§Progress, all revisions), even if the first
// round had no progress. A second client with the same token is not affected by the first client.
func TestProgressGoesOnThroughTheRounds(t *testing.T) {
	for name, test := range map[string]struct {
		rounds []string // the progress values of each round
		want   string
	}{
		"each begins anew":            {[]string{"1 2", "1 2 3"}, "1 2 3"},
		"the first is silent":         {[]string{"", "1 2 3", "1 2 3 4"}, "1 2 3 4"},
		"the second is silent":        {[]string{"1 2", "", "1 2 3"}, "1 2 3"},
		"each says the same":          {[]string{"5", "5", "5"}, "5"},
		"the last is behind":          {[]string{"10 20", "1 2 3"}, "10 20"},
		"equal steps of one attempt":  {[]string{"1 1", "1 2 2"}, "1 1 2 2"},
		"a fraction more than before": {[]string{"", "1.5", "1 1.25 1.75"}, "1.5 1.75"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &testServer{modern: true}
				s.on = func(l *testSession, m *jsonrpc.Message) {
					switch {
					case m.Method == mcp.MethodListen:
						l.acknowledge(m)
					case m.Kind == jsonrpc.Request:
						token := string(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw))
						state, _ := jsonrpc.Text(m.Raw, m.Param("requestState"))
						round, _ := strconv.Atoi(state)
						for _, p := range strings.Fields(test.rounds[round]) {
							l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":` + p + `}}`)
						}
						if round+1 < len(test.rounds) {
							l.answer(m, `{"resultType":"input_required","inputRequests":{"k":{`+elicit+`}},"requestState":"`+strconv.Itoa(round+1)+`"}`)
							return
						}
						l.answer(m, `{"resultType":"complete","content":[]}`)
					}
				}
				w := build(t, s)
				for range 2 {
					n := w.legacy(`{"elicitation":{}}`)
					n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"p"}}}`)
					var heard []string
					for {
						m := n.next()
						if m.Kind == jsonrpc.Request {
							n.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"cancel"}}`)
							continue
						}
						if m.ID == "1" {
							break
						}
						heard = append(heard, string(m.Param("progress").Of(m.Raw)))
					}
					if got := strings.Join(heard, " "); got != test.want {
						t.Errorf("the client got %s, want %s", got, test.want)
					}
				}
			})
		})
	}
}
