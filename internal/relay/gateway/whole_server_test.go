package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestSubscribeThroughAJoinedEndpoint checks that a subscription goes to the server that has
// the resource, and that both subscribed clients are notified.
func TestSubscribeThroughAJoinedEndpoint(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &testServer{modern: modern, caps: `{"resources":{"subscribe":true,"listChanged":true}}`}
				var listen atomic.Value
				s.on = func(l *testSession, m *jsonrpc.Message) {
					switch {
					case m.Method == mcp.MethodListen:
						listen.Store(string(m.ID))
						l.acknowledge(m)
					case m.Method == mcp.MethodListResources:
						l.answer(m, `{"resources":[{"uri":"a:1","name":"one"}]}`)
					case m.Kind == jsonrpc.Request:
						l.answer(m, `{}`)
					}
				}
				w := build(t, &testServer{}, s)
				n, o := w.legacy(`{}`), w.legacy(`{}`)
				for _, c := range []*testClient{n, o} {
					c.say(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:1"}}`)
					if m := c.answerTo("1"); m.Kind != jsonrpc.Result {
						t.Fatalf("got %s", m.Raw)
					}
				}
				l := s.link(t, 0)
				update := `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}`
				if modern {
					update = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + listen.Load().(string) + `},"uri":"a:1"}}`
				} else if subs := l.got(mcp.MethodSubscribe); len(subs) != 1 {
					t.Errorf("the server got %d subscriptions", len(subs))
				}
				l.say(update)
				for _, c := range []*testClient{n, o} {
					if got := c.rest(); len(got) != 1 || !strings.Contains(got[0], `"uri":"a:1"`) || strings.Contains(got[0], "subscriptionId") {
						t.Errorf("the client got %q", got)
					}
				}
				n.say(`{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"a:1"}}`)
				n.answerTo("2")
				if got := l.got(mcp.MethodUnsubscribe); len(got) != 0 {
					t.Error("unsubscribed at the server while a client still watches")
				}
				if modern {
					update = strings.Replace(update, `"subscriptionId":`, `"subscriptionId":`, 1)
				}
				l.say(update)
				if got := n.rest(); len(got) != 0 {
					t.Errorf("the client that unsubscribed got %q", got)
				}
				if got := o.rest(); len(got) != 1 {
					t.Errorf("the client that stayed subscribed got %q", got)
				}
			})
		})
	}
}

// TestErrorOfAnOpenIsNotRepeated checks that the error of a failed open goes to the requests that
// waited for this open. A client that connects when the server works again does not get this error.
func TestErrorOfAnOpenIsNotRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{}
		w := build(t, s)
		n := w.legacy(`{}`)
		n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		n.answerTo("1")
		s.refuseOpens(errors.New("away"))
		_ = s.link(t, 0).pipe.Close()
		synctest.Wait()
		// The client cancels at once, so no request waits for the open.
		n.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		n.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		time.Sleep(10 * time.Minute)
		n.rest()
		s.refuseOpens(nil)
		n.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
		if m := n.answerTo("3"); m.Kind != jsonrpc.Result {
			t.Errorf("got %s", m.Raw)
		}
	})
}

// TestCancelledRightBehind checks that a cancellation takes effect even if it follows its
// request at once.
func TestCancelledRightBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{}
		s.on = func(l *testSession, m *jsonrpc.Message) {
			if m.Kind == jsonrpc.Request && m.Method != mcp.MethodCallTool {
				l.answer(m, `{}`)
			}
		}
		n := build(t, s).legacy(`{}`)
		for id := range 200 {
			n.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{}}}`, id))
			n.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
		}
		// The client may use the ids again.
		n.say(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		if got := n.rest(); len(got) != 1 || !strings.Contains(got[0], `"id":7,"result"`) {
			t.Errorf("the client got %d answers: %.300q", len(got), got)
		}
		l := s.link(t, 0)
		if calls, ends := len(l.got(mcp.MethodCallTool)), len(l.got(mcp.NoteCancelled)); calls != ends {
			t.Errorf("%d calls reached the server, %d were cancelled there", calls, ends)
		}
	})
}

// TestLevelIsSetWhereThereIsALog checks that logging/setLevel does not go to a server that has
// not declared logging.
func TestLevelIsSetWhereThereIsALog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		with, without := &testServer{}, &testServer{caps: `{"tools":{}}`}
		n := build(t, with, without).legacy(`{}`)
		n.say(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
		if m := n.answerTo("1"); m.Kind != jsonrpc.Result {
			t.Errorf("got %s", m.Raw)
		}
		if got := with.link(t, 0).got(mcp.MethodSetLevel); len(got) != 1 {
			t.Errorf("the server with logging got the level %d times", len(got))
		}
		if got := without.link(t, 0).got(mcp.MethodSetLevel); len(got) != 0 {
			t.Error("the server without logging got the level")
		}
	})
}

// TestT22_LevelOfOneSendsNothingToAnother checks two clients that share a session of the server.
// One client has asked for all log messages, and the other client has not asked for any.
func TestT22_LevelOfOneSendsNothingToAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{}
		held := make(chan *jsonrpc.Message, 8)
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodCallTool:
				held <- m
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{}`)
			}
		}
		w := build(t, s)
		a, b, c := w.legacy(`{}`), w.legacy(`{}`), w.legacy(`{}`)
		c.say(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
		c.answerTo("1")
		a.say(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`)
		a.answerTo("1")
		log := func(level string) string {
			return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":"secret"}}`
		}
		// A log message that belongs to no call goes to the client that asked for log messages.
		l := s.link(t, 0)
		l.say(log("debug"))
		if got := len(a.rest()); got != 1 {
			t.Errorf("the client that asked got %d messages", got)
		}
		if got := b.rest(); len(got) != 0 {
			t.Errorf("the client that did not ask got %q", got)
		}
		if got := c.rest(); len(got) != 0 {
			t.Errorf("the client that asked for errors got %q", got)
		}
		l.say(log("error"))
		if len(a.rest()) != 1 || len(c.rest()) != 1 {
			t.Error("an error did not reach the client that asked for it")
		}
		// While calls of a and c are running, a log message may belong to the call of either
		// client.
		a.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
		c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
		synctest.Wait()
		l.say(log("error"))
		for name, n := range map[string]*testClient{"a": a, "b": b, "c": c} {
			if got := n.rest(); len(got) != 0 {
				t.Errorf("%s got a message that may belong to another client: %q", name, got)
			}
		}
		l.answer(<-held, `{}`)
		l.answer(<-held, `{}`)
		a.answerTo("2")
		c.answerTo("2")
	})
}

// TestX05_AnswersReachWhoAsked lets many clients with the same ids and tokens use one session of
// the server, which answers them in a different order. Each client gets its own answers.
func TestX05_AnswersReachWhoAsked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{}
		queue := make(chan *jsonrpc.Message, 1024)
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodCallTool:
				queue <- m
				if len(queue) < 16 {
					return
				}
				var all []*jsonrpc.Message
				for len(queue) > 0 {
					all = append(all, <-queue)
				}
				for i := len(all) - 1; i >= 0; i-- {
					m := all[i]
					who := string(m.Param("arguments").Of(m.Raw))
					token := string(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw))
					l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1,"message":` + who[5:len(who)-1] + `}}`)
					l.answer(m, who)
				}
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{}`)
			}
		}
		w := build(t, s)
		var clients []*testClient
		for range 16 {
			clients = append(clients, w.legacy(`{}`))
		}
		for round := range 50 {
			for i, n := range clients {
				n.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"w":"%d-%d"},"_meta":{"progressToken":"1"}}}`, i, round))
			}
			for i, n := range clients {
				who := fmt.Sprintf(`"%d-%d"`, i, round)
				note, answer := n.next(), n.next()
				n.wants(note, `"progressToken":"1"`)
				n.wants(note, who)
				n.wants(answer, `"result":{"w":`+who+`}`)
			}
		}
		if s.opened() != 1 {
			t.Errorf("the server has %d sessions, so this test does not prove anything", s.opened())
		}
	})
}
