package gateway_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// legacyOf returns a legacy client with a principal.
func (w *whole) legacyOf(principal, capabilities string) *testClient {
	w.t.Helper()
	n := w.clientOf(principal)
	n.say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"clientInfo":{"name":"n","version":"1"}}}`)
	if m := n.answerTo(`"init"`); m.Kind != jsonrpc.Result {
		w.t.Fatalf("initialize: %s", m.Raw)
	}
	n.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	synctest.Wait()
	return n
}

func callOf(id int, who, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"who":"%s %d"}%s}}`, id, who, id, more)
}

// whoOf returns the name of the client that callOf has written into a call.
func whoOf(m *jsonrpc.Message) string {
	who, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Param("arguments"), "who"))
	return who
}

func progressOf(m *jsonrpc.Message, n int, text string) string {
	token := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw)
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`, token, n, text)
}

// TestAnswersOfAServerThatBroadcasts runs a server that sends each answer and each progress
// notification to all its sessions. Clients with different principals each have a session, through
// one or two instances of Dragoman. Every client gets only its own messages.
func TestAnswersOfAServerThatBroadcasts(t *testing.T) {
	for _, dragomans := range []int{1, 2} {
		t.Run(strconv.Itoa(dragomans), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { manyAtOneThatBroadcasts(t, dragomans) })
		})
	}
}

func manyAtOneThatBroadcasts(t *testing.T, dragomans int) {
	const clients, calls = 16, 10
	s := &testServer{broadcasts: true}
	var answering sync.WaitGroup
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodCallTool:
			answering.Go(func() {
				who := whoOf(m)
				n, _ := strconv.Atoi(who[strings.LastIndexByte(who, ' ')+1:])
				time.Sleep(time.Duration(1+(n*7+len(who))%5) * time.Second)
				l.say(progressOf(m, 1, who))
				l.answer(m, `{"content":[{"type":"text","text":"`+who+`"}]}`)
			})
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	var all []*testClient
	var wholes []*whole
	for range dragomans {
		wholes = append(wholes, build(t, s))
	}
	for i := range clients {
		all = append(all, wholes[i%dragomans].legacyOf(fmt.Sprint("p", i), `{}`))
	}
	for id := range calls {
		for i, n := range all {
			n.say(callOf(id, fmt.Sprint("p", i), `,"_meta":{"progressToken":"p"}`))
		}
	}
	time.Sleep(time.Minute)
	answering.Wait()
	for i, n := range all {
		got := n.rest()
		if len(got) != 2*calls {
			t.Errorf("p%d got %d messages, want %d", i, len(got), 2*calls)
		}
		for _, text := range got {
			m, err := jsonrpc.Scan([]byte(text), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`"p%d `, i)
			if m.Kind == jsonrpc.Result {
				want = fmt.Sprintf(`"p%d %s"`, i, m.ID)
			}
			if !strings.Contains(text, want) {
				t.Errorf("p%d got %s", i, text)
			}
		}
	}
	if n := s.opened(); n != clients {
		t.Errorf("the server has %d sessions", n)
	}
	// Each answer also reached all other sessions. The answers of each handshake reached all
	// sessions that existed at that time.
	var unasked int64
	for _, w := range wholes {
		r := w.upstreams[0].Report()
		if unasked += r.Unasked; !r.Broadcasts {
			t.Error("the report does not say that the server broadcasts")
		}
	}
	if want := int64(clients*calls*(clients-1) + clients*(clients-1)/2); unasked != want {
		t.Errorf("%d answers belong to no request, want %d", unasked, want)
	}
}

// TestAnswersAfterARestart checks answers to calls of old sessions that arrive on new sessions.
// These answers reach no client.
func TestAnswersAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{}
		var mu sync.Mutex
		var old []jsonrpc.ID
		s.on = func(l *testSession, m *jsonrpc.Message) {
			if m.Method != mcp.MethodCallTool {
				l.answer(m, `{}`)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if l.number == 0 {
				if old = append(old, m.ID); len(old) == 3 {
					_ = l.pipe.Close()
				}
				return
			}
			for _, id := range old {
				l.say(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"content":[],"of":"before"}}`)
			}
			l.answer(m, `{"content":[],"of":"now"}`)
		}
		w := build(t, s)
		n, other := w.legacyOf("a", `{}`), w.client()
		for id := range 3 {
			n.say(callOf(id, "a", ""))
		}
		_ = n.rest()
		for id := 10; id < 15; id++ {
			n.say(callOf(id, "a", ""))
			if m := n.answerTo(strconv.Itoa(id)); !strings.Contains(string(m.Raw), `"of":"now"`) {
				t.Errorf("got %s", m.Raw)
			}
		}
		other.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if got := other.rest(); len(got) != 1 {
			t.Errorf("the second client got %q", got)
		}
		if r := w.upstreams[0].Report(); r.Unasked != 15 {
			t.Errorf("%d answers belong to no request, want 15", r.Unasked)
		}
	})
}

const formAsked = `"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}`

// TestQuestionsOfAServerThatBroadcasts sends a server request to the sessions of two clients.
// If Dragoman can determine the client of the request, that client gets the request. Otherwise no
// client gets the request.
func TestQuestionsOfAServerThatBroadcasts(t *testing.T) {
	for name, test := range map[string]struct {
		token    bool // the request contains the progress token of its call
		other    bool // the other client also has a running call
		stranger bool // another client is connected to the server without Dragoman
		asked    bool // the client of the call gets the request
		answers  int  // number of responses that the server gets
	}{
		"it names its call":                         {token: true, other: true, asked: true, answers: 1},
		"it names its call, with strangers":         {token: true, other: true, stranger: true, asked: true, answers: 1},
		"only one client has a call":                {asked: true, answers: 1},
		"both have a call":                          {other: true, answers: 2},
		"one client, and strangers":                 {stranger: true, answers: 2},
		"both have a call, and there are strangers": {other: true, stranger: true, answers: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &testServer{broadcasts: true}
				calls := map[string]*jsonrpc.Message{}
				var mu sync.Mutex
				var answers []string
				s.on = func(l *testSession, m *jsonrpc.Message) {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case m.Method == mcp.MethodCallTool:
						calls[whoOf(m)] = m
					case m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure:
						answers = append(answers, string(m.Raw))
					case m.Kind == jsonrpc.Request:
						l.answer(m, `{}`)
					}
				}
				w := build(t, s)
				a, b := w.legacyOf("a", `{"elicitation":{}}`), w.legacyOf("b", `{"elicitation":{}}`)
				// Each client has had a session before the test starts.
				for who, n := range map[string]*testClient{"a": a, "b": b} {
					n.say(callOf(0, who, ""))
					synctest.Wait()
					s.link(t, 0).answer(calls[who+" 0"], `{"content":[]}`)
					n.answerTo("0")
				}
				if test.stranger {
					for id := range 3 {
						s.link(t, 0).say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, id))
					}
				}
				a.say(callOf(1, "a", `,"_meta":{"progressToken":"p"}`))
				if test.other {
					b.say(callOf(1, "b", `,"_meta":{"progressToken":"p"}`))
				}
				synctest.Wait()
				question := `{"jsonrpc":"2.0","id":7,` + formAsked
				if test.token {
					mine := calls["a 1"]
					question += `,"_meta":{"progressToken":` + string(jsonrpc.Find(mine.Raw, mine.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(mine.Raw)) + `}`
				}
				s.link(t, 0).say(question + "}}")
				synctest.Wait()
				for _, text := range b.rest() {
					t.Errorf("the other client got %s", text)
				}
				if test.asked {
					m := a.request()
					a.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"decline"}}`)
				}
				for _, text := range a.rest() {
					t.Errorf("the client got %s", text)
				}
				mu.Lock()
				defer mu.Unlock()
				if len(answers) != test.answers {
					t.Errorf("the server got %q", answers)
				}
				for _, text := range answers {
					if strings.Contains(text, `"action":"decline"`) != test.asked {
						t.Errorf("the server got %s", text)
					}
				}
			})
		})
	}
}

// TestLogsOfAServerThatBroadcasts checks that a log message reaches a client once, if only one
// running call, on any session, can have caused the message. Otherwise no client gets the message.
func TestLogsOfAServerThatBroadcasts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}`
		s := &testServer{broadcasts: true}
		calls := map[string]*jsonrpc.Message{}
		var mu sync.Mutex
		s.on = func(l *testSession, m *jsonrpc.Message) {
			mu.Lock()
			defer mu.Unlock()
			if m.Method == mcp.MethodCallTool {
				calls[whoOf(m)] = m
			} else if m.Kind == jsonrpc.Request {
				l.answer(m, `{}`)
			}
		}
		w := build(t, s)
		a, b := w.legacyOf("a", `{}`), w.legacyOf("b", `{}`)
		expect := func(when string, ofA, ofB, lost int) {
			t.Helper()
			_ = w.lostSoFar()
			s.link(t, 0).say(log)
			if got := a.rest(); len(got) != ofA {
				t.Errorf("%s: a got %q", when, got)
			}
			if got := b.rest(); len(got) != ofB {
				t.Errorf("%s: b got %q", when, got)
			}
			if got := w.lostSoFar(); len(got) != lost {
				t.Errorf("%s: lost %q", when, got)
			}
		}
		a.say(callOf(1, "a", ""))
		expect("a calls", 1, 0, 0)
		b.say(callOf(1, "b", ""))
		expect("both call", 0, 0, 2)
		s.link(t, 0).answer(calls["a 1"], `{"content":[]}`)
		a.answerTo("1")
		expect("b calls", 0, 1, 0)
		b.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		expect("b has given up", 0, 0, 2)
		a.say(callOf(2, "a", ""))
		expect("b has given up and a calls", 0, 0, 2)
		time.Sleep(20 * time.Second)
		expect("b is forgotten", 1, 0, 0)
		for id := range 3 {
			s.link(t, 0).say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id))
		}
		expect("there are strangers", 0, 0, 2)
	})
}
