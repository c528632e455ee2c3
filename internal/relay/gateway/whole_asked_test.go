package gateway_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// askingStep is a policy step that asks the person before each call of a tool.
type askingStep struct {
	name   string
	url    string
	method string // the method of the requests about which it asks; "" means tools/call

	mu   sync.Mutex
	seen []string
}

func (s *askingStep) Before(_ context.Context, c *policy.Call) policy.Verdict {
	if c.Request.Msg.Method != cmp.Or(s.method, mcp.MethodCallTool) || c.Resumed {
		return policy.Verdict{}
	}
	a := c.Answered(s.name)
	s.note("before " + a.Action())
	switch a.Action() {
	case "":
		q := &mcp.Question{Message: s.name + " " + c.Name + "?", URL: s.url, Schema: []byte(`{"type":"object","properties":{"sure":{"type":"boolean"}}}`)}
		return policy.Verdict{Ask: &policy.Ask{Step: s.name, Question: q, State: []byte("for " + c.Who.Key())}}
	case "accept":
		if string(a.State) != "for "+c.Who.Key() {
			return policy.Verdict{Refuse: fmt.Errorf("the state is %q", a.State)}
		}
		return policy.Verdict{}
	}
	return policy.Verdict{Refuse: &jsonrpc.Error{Code: -31997, Message: "the user answered " + a.Action()}}
}

func (s *askingStep) After(_ context.Context, _ *policy.Call, a *policy.Answer) {
	s.note("after " + string(a.Outcome))
}

func (s *askingStep) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, strings.TrimSpace(what))
}

func (s *askingStep) all() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	got := strings.Join(s.seen, ", ")
	s.seen = nil
	return got
}

// quiet returns a server whose tool only counts its calls.
func quiet(modern bool) *testServer {
	s := &testServer{modern: modern}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodListTools:
			l.answer(m, `{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":60000,"cacheScope":"public"}`)
		case m.Method == mcp.MethodCallTool:
			l.answer(m, `{"resultType":"complete","content":[],"done":true}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	return s
}

// eachWay runs a test at the endpoint of one server and of two, with servers of both eras. prefix is
// what precedes the name of a tool.
func eachWay(t *testing.T, test func(t *testing.T, w *whole, s *testServer, prefix string)) {
	for _, joined := range []bool{false, true} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("joined %t, %s server", joined, eraOf(modern)), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := quiet(modern)
					if joined {
						test(t, build(t, s, quiet(modern)), s, "a__")
						return
					}
					test(t, build(t, s), s, "")
				})
			})
		}
	}
}

// answersTo are the answers that a person can give, and what the client gets then.
var answersTo = map[string]string{
	`{"action":"accept","content":{"sure":true}}`: `"done":true`,
	`{"action":"decline"}`:                        "the user answered decline",
	`{"action":"cancel"}`:                         "the user answered cancel",
}

// withAnswer replaces the answer in the params of a retry that retryOf has made.
func withAnswer(retry, answer string) string {
	return strings.Replace(retry, `{"action":"accept"}`, answer, 1)
}

// TestStepAsksALegacyClient checks that a step's question reaches a legacy client during its call, and
// that the server gets the call once, and only if the person accepts.
func TestStepAsksALegacyClient(t *testing.T) {
	eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
		step, audit := &askingStep{name: "confirm"}, &recordingAuditor{t: t}
		w.setPolicy(policy.Chain{&recordingStep{t: t, refuses: "none"}, step}, audit)
		n := w.clientOf("ada")
		n.open(canBeAsked)
		want := 0
		for answer, result := range answersTo {
			n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + prefix + `t","arguments":{}}}`)
			q := n.request()
			n.wants(q, `"message":"confirm t?"`)
			n.wants(q, `"requestedSchema":{"type":"object","properties":{"sure":{"type":"boolean"}}}`)
			if s.calls(t) != want {
				t.Error("the server got the call before the answer")
			}
			n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + answer + `}`)
			n.wants(n.answerTo("1"), result)
			outcome, seen := "refused", ""
			if strings.Contains(answer, "accept") {
				want++
				outcome, seen = "ok", ", after ok"
			}
			if s.calls(t) != want {
				t.Errorf("the server got %d calls, want %d", s.calls(t), want)
			}
			action := strings.Split(answer, `"`)[3]
			if got := step.all(); got != "before, before "+action+seen {
				t.Errorf("the step saw %s", got)
			}
			if got := audit.all(); got != `ada tools/call "a" "t" `+outcome {
				t.Errorf("the auditor saw %s", got)
			}
		}
	})
}

// TestStepAsksAModernClient checks the same with a modern client, which gets the question as the
// answer to its call. Its requestState is good for one use.
func TestStepAsksAModernClient(t *testing.T) {
	eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
		step, audit, first := &askingStep{name: "confirm"}, &recordingAuditor{t: t}, &recordingStep{t: t, refuses: "none"}
		w.setPolicy(policy.Chain{first, step}, audit)
		n, other := w.clientOf("ada"), w.clientOf("bob")
		params := `"name":"` + prefix + `t","arguments":{"n":1}`
		want := 0
		for answer, result := range answersTo {
			n.say(modernRequest("1", "tools/call", params, canBeAsked))
			m := n.answerTo("1")
			n.wants(m, `"user_confirm":{"method":"elicitation/create","params":{`)
			n.wants(m, `"message":"confirm t?"`)
			retry := withAnswer(retryOf(t, m), answer)
			if s.calls(t) != want {
				t.Error("the server got the call before the answer")
			}
			other.say(modernRequest("2", "tools/call", params+retry, canBeAsked))
			other.wants(other.answerTo("2"), "requestState is not valid")
			n.say(modernRequest("3", "tools/call", strings.Replace(params, "1", "2", 1)+retry, canBeAsked))
			n.wants(n.answerTo("3"), "requestState is not valid")
			n.say(modernRequest("4", "tools/call", params+retry, canBeAsked))
			n.wants(n.answerTo("4"), result)
			outcome, seen := "refused", ""
			if strings.Contains(answer, "accept") {
				want++
				outcome, seen = "ok", ", after ok"
			}
			n.say(modernRequest("5", "tools/call", params+retry, canBeAsked))
			n.wants(n.answerTo("5"), "this requestState has been used")
			if s.calls(t) != want {
				t.Errorf("the server got %d calls, want %d", s.calls(t), want)
			}
			action := strings.Split(answer, `"`)[3]
			if got := step.all(); got != "before, before "+action+seen {
				t.Errorf("the step saw %s", got)
			}
			refused := "ada tools/call \"a\" \"t\" refused n=2"
			if got := audit.all(); got != `ada tools/call "a" "t" parked n=1
bob tools/call "a" "t" refused n=1
`+refused+`
ada tools/call "a" "t" `+outcome+` n=1 resumed
ada tools/call "a" "t" refused n=1 resumed` {
				t.Errorf("the auditor saw\n%s", got)
			}
		}
		for i := range s.opened() {
			for _, m := range s.link(t, i).got(mcp.MethodCallTool) {
				if raw := string(m.Raw); strings.Contains(raw, "requestState") || strings.Contains(raw, "inputResponses") {
					t.Errorf("the server got %s", raw)
				}
			}
		}
		if got := first.all(); !strings.Contains(got, "parked 0\n") || !strings.Contains(got, "resumed") {
			t.Errorf("the step before saw\n%s", got)
		}
	})
}

// TestRetriesOfAnAskAtOnce checks that of two equal retries at the same time one gets through.
func TestRetriesOfAnAskAtOnce(t *testing.T) {
	eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
		w.setPolicy(policy.Chain{&askingStep{name: "confirm"}}, nil)
		n, n2 := w.clientOf("ada"), w.clientOf("ada")
		params := `"name":"` + prefix + `t","arguments":{}`
		retry := n.parked("1", params)
		synctest.Wait() // the server has read s.slow for the earlier messages
		s.slow = time.Second
		n.say(modernRequest("2", "tools/call", params+retry, canBeAsked))
		n2.say(modernRequest("2", "tools/call", params+retry, canBeAsked))
		got := []string{string(n.answerTo("2").Raw), string(n2.answerTo("2").Raw)}
		if strings.Contains(got[1], "done") {
			slices.Reverse(got)
		}
		if !strings.Contains(got[0], `"done":true`) || !strings.Contains(got[1], "has been used") {
			t.Errorf("got %s", got)
		}
		if s.calls(t) != 1 {
			t.Errorf("the server got %d calls", s.calls(t))
		}
	})
}

// TestAskOfAClientThatCannotBeAsked checks that the call of such a client is refused with an error that
// contains the question.
func TestAskOfAClientThatCannotBeAsked(t *testing.T) {
	const link = "https://example.com/in"
	for name, tt := range map[string]struct{ modern, legacy, url string }{
		"no capability":  {`{}`, `{}`, ""},
		"only links":     {`{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`, ""},
		"only forms":     {canBeAsked, canBeAsked, link},
		"other requests": {`{"sampling":{}}`, `{"roots":{}}`, link},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
				w.setPolicy(policy.Chain{&askingStep{name: "confirm", url: tt.url}}, nil)
				for _, c := range []*caller{w.callerAs("ada", true, tt.modern), w.callerAs("ada", false, tt.legacy)} {
					m := c.ask(mcp.MethodCallTool, `"name":"`+prefix+`t","arguments":{}`)
					c.wants(m, "which this client cannot show: confirm t?")
					c.wants(m, `"cause":"cannot_ask","outcome":"not_sent"`)
					c.wants(m, tt.url)
				}
				if s.calls(t) != 0 {
					t.Error("the server got the call")
				}
			})
		})
	}
}

// TestStepAsksWithALink checks that a step can ask with a link, in both eras.
func TestStepAsksWithALink(t *testing.T) {
	const caps = `{"elicitation":{"url":{}}}`
	eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
		w.setPolicy(policy.Chain{&askingStep{name: "sign-in", url: "https://example.com/in"}}, nil)
		n := w.clientOf("ada")
		n.open(caps)
		params := `"name":"` + prefix + `t","arguments":{}`
		n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`)
		q := n.request()
		n.wants(q, `"mode":"url","url":"https://example.com/in"`)
		n.wants(q, `"elicitationId":"`)
		n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`)
		n.wants(n.answerTo("1"), `"done":true`)
		n = w.clientOf("bob")
		n.say(modernRequest("1", "tools/call", params, caps))
		m := n.answerTo("1")
		n.wants(m, `"mode":"url","url":"https://example.com/in"`)
		n.say(modernRequest("2", "tools/call", params+retryOf(t, m), caps))
		n.wants(n.answerTo("2"), `"done":true`)
		if s.calls(t) != 2 {
			t.Errorf("the server got %d calls", s.calls(t))
		}
	})
}

// TestTwoStepsAsk checks that two steps can ask about one call. Each gets its own answer, and neither
// asks twice.
func TestTwoStepsAsk(t *testing.T) {
	eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
		a, b := &askingStep{name: "confirm"}, &askingStep{name: "sign-in"}
		w.setPolicy(policy.Chain{a, b}, nil)
		n := w.clientOf("ada")
		params := `"name":"` + prefix + `t","arguments":{}`
		first := n.parked("1", params)
		n.say(modernRequest("2", "tools/call", params+first, canBeAsked))
		m := n.answerTo("2")
		n.wants(m, "sign-in t?")
		second := retryOf(t, m)
		// Without the answer, the person is asked again from the beginning: otherwise one
		// confirmation would be good for two calls.
		n.say(modernRequest("3", "tools/call", params+strings.Split(second, `,"inputResponses"`)[0], canBeAsked))
		n.wants(n.answerTo("3"), "confirm t?")
		n.say(modernRequest("4", "tools/call", params+withAnswer(second, `{"action":"maybe"}`), canBeAsked))
		n.wants(n.answerTo("4"), "not a valid answer")
		n.say(modernRequest("5", "tools/call", params+second, canBeAsked))
		n.wants(n.answerTo("5"), `"done":true`)
		n.open(canBeAsked)
		n.say(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{` + params + `}}`)
		for _, text := range []string{"confirm t?", "sign-in t?"} {
			q := n.request()
			n.wants(q, text)
			n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`)
		}
		n.wants(n.answerTo("6"), `"done":true`)
		if s.calls(t) != 2 {
			t.Errorf("the server got %d calls", s.calls(t))
		}
	})
}

// TestStepAndServerAsk checks a call about which first a step and then the server asks. The person who
// agreed to one call hasn't agreed to two, so every state of the call is good for one use.
func TestStepAndServerAsk(t *testing.T) {
	for _, serverIsModern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := newAskingServer(serverIsModern)
			w := build(t, s)
			step := &askingStep{name: "confirm"}
			w.setPolicy(policy.Chain{step}, nil)
			n := w.clientOf("ada")
			n.say(modernRequest("2", "tools/call", tool+n.parked("1", tool), canBeAsked))
			retry := retryOf(t, n.answerTo("2"))
			n.say(modernRequest("3", "tools/call", tool+retry, canBeAsked))
			n.wants(n.answerTo("3"), `"done":true`)
			before := s.calls(t)
			n.say(modernRequest("4", "tools/call", tool+retry, canBeAsked))
			if m := n.answerTo("4"); m.Kind != jsonrpc.Failure {
				t.Errorf("got %s", m.Raw)
			}
			if s.calls(t) != before {
				t.Error("the server got the call again")
			}
			// A parked call ends with its first retry, and this is found out after the policy.
			if got := strings.TrimSuffix(step.all(), ", after refused"); got != "before, before accept, after parked, after ok" {
				t.Errorf("the step saw %s", got)
			}
		})
	}
}

// TestRefusedRetryKeepsItsAnswer checks that an answer isn't used up by a retry that a step refuses
// before the step that asked has seen the answer.
func TestRefusedRetryKeepsItsAnswer(t *testing.T) {
	eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
		first := &recordingStep{t: t, refuses: "none"}
		w.setPolicy(policy.Chain{first, &askingStep{name: "confirm"}}, nil)
		n := w.clientOf("ada")
		params := `"name":"` + prefix + `t","arguments":{}`
		retry := n.parked("1", params)
		for i, refuses := range []string{"t", "none"} {
			first.mu.Lock()
			first.refuses = refuses
			first.mu.Unlock()
			n.say(modernRequest(fmt.Sprint(2+i), "tools/call", params+retry, canBeAsked))
			n.wants(n.answerTo(fmt.Sprint(2+i)), []string{"not for ada", `"done":true`}[i])
		}
		if s.calls(t) != 1 {
			t.Errorf("the server got %d calls", s.calls(t))
		}
	})
}

// TestNobodyAnswers checks a legacy client that doesn't answer: other calls go on meanwhile, and the
// call fails after ten minutes, or at once if the client answers with an error.
func TestNobodyAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
		w.setPolicy(policy.Chain{&askingStep{name: "confirm"}}, nil)
		n := w.clientOf("ada")
		n.open(canBeAsked)
		call := func(id string) *jsonrpc.Message {
			n.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + prefix + `t","arguments":{}}}`)
			return n.request()
		}
		began := time.Now()
		call("1")
		q := call("2")
		n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"error":{"code":-1,"message":"no"}}`)
		n.wants(n.answerTo("2"), `"cause":"unanswered","outcome":"not_sent"`)
		n.wants(n.answerTo("1"), `"cause":"unanswered","outcome":"not_sent"`)
		if took := time.Since(began).Round(time.Second); took != 10*time.Minute {
			t.Errorf("the call took %v", took)
		}
		if s.calls(t) != 0 {
			t.Error("the server got the call")
		}
	})
}

// TestAskAboutARequestThatIsNoCall checks the methods whose answer can't be input_required (2026-07-28
// §MRTR, "Supported Requests"). Only legacy clients can be asked about them.
func TestAskAboutARequestThatIsNoCall(t *testing.T) {
	for method, params := range map[string]string{mcp.MethodListTools: "", mcp.MethodGetTask: `"taskId":"x"`, "vendor/thing": ""} {
		t.Run(strings.ReplaceAll(method, "/", "_"), func(t *testing.T) {
			eachWay(t, func(t *testing.T, w *whole, s *testServer, prefix string) {
				w.setPolicy(policy.Chain{&askingStep{name: "confirm", method: method}}, nil)
				n := w.clientOf("ada")
				n.say(modernRequest("1", method, params, canBeAsked))
				if m := n.answerTo("1"); m.Kind != jsonrpc.Failure {
					t.Errorf("got %s", m.Raw)
				}
				n.open(canBeAsked)
				n.say(`{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":{` + params + `}}`)
				if method == "vendor/thing" && prefix != "" {
					n.answerTo("2") // no server has this method, so no step sees the request
					return
				}
				q := n.request()
				n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"decline"}}`)
				n.wants(n.answerTo("2"), "the user answered decline")
			})
		})
	}
}
