package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// TestSubscribeThroughAJoinedEndpoint: a resource is watched at its owner, and both of its
// subscribers are notified.
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
					t.Errorf("the server was asked %d times", len(subs))
				}
				l.say(update)
				for _, c := range []*testClient{n, o} {
					if got := c.rest(); len(got) != 1 || !strings.Contains(got[0], `"uri":"a:1"`) || strings.Contains(got[0], "subscriptionId") {
						t.Errorf("heard %q", got)
					}
				}
				n.say(`{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"a:1"}}`)
				n.answerTo("2")
				if got := l.got(mcp.MethodUnsubscribe); len(got) != 0 {
					t.Error("unsubscribed while somebody watches")
				}
				if modern {
					update = strings.Replace(update, `"subscriptionId":`, `"subscriptionId":`, 1)
				}
				l.say(update)
				if got := n.rest(); len(got) != 0 {
					t.Errorf("who left heard %q", got)
				}
				if got := o.rest(); len(got) != 1 {
					t.Errorf("who stayed heard %q", got)
				}
			})
		})
	}
}

// TestErrorOfAnOpenIsNotRepeated: a failed open is reported to those who waited for it, not
// to a client that comes when the server is back.
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
		// The client cancels at once; nobody waits for the open.
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

// TestCancelledRightBehind: a cancellation that follows its request at once takes effect.
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
		// The ids are free again.
		n.say(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		if got := n.rest(); len(got) != 1 || !strings.Contains(got[0], `"id":7,"result"`) {
			t.Errorf("got %d answers: %.300q", len(got), got)
		}
		l := s.link(t, 0)
		if calls, ends := len(l.got(mcp.MethodCallTool)), len(l.got(mcp.NoteCancelled)); calls != ends {
			t.Errorf("%d calls reached the server, %d were cancelled there", calls, ends)
		}
	})
}

// TestLevelIsSetWhereThereIsALog: logging/setLevel goes to no server that has not declared
// logging.
func TestLevelIsSetWhereThereIsALog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		with, without := &testServer{}, &testServer{caps: `{"tools":{}}`}
		n := build(t, with, without).legacy(`{}`)
		n.say(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
		if m := n.answerTo("1"); m.Kind != jsonrpc.Result {
			t.Errorf("got %s", m.Raw)
		}
		if got := with.link(t, 0).got(mcp.MethodSetLevel); len(got) != 1 {
			t.Errorf("the server with a log was told %d times", len(got))
		}
		if got := without.link(t, 0).got(mcp.MethodSetLevel); len(got) != 0 {
			t.Error("the server without a log was told")
		}
	})
}

// TestT22_LevelOfOneSendsNothingToAnother: two clients share a session of the server. One
// wants all log messages, the other never asked for any.
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
		// A message outside of any call goes to the client that asked for it.
		l := s.link(t, 0)
		l.say(log("debug"))
		if got := len(a.rest()); got != 1 {
			t.Errorf("who asked heard %d", got)
		}
		if got := b.rest(); len(got) != 0 {
			t.Errorf("who never asked heard %q", got)
		}
		if got := c.rest(); len(got) != 0 {
			t.Errorf("who asked for errors heard %q", got)
		}
		l.say(log("error"))
		if len(a.rest()) != 1 || len(c.rest()) != 1 {
			t.Error("an error did not reach who asked for it")
		}
		// Calls of both clients are running: the message may belong to either.
		a.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
		c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
		synctest.Wait()
		l.say(log("error"))
		for name, n := range map[string]*testClient{"a": a, "b": b, "c": c} {
			if got := n.rest(); len(got) != 0 {
				t.Errorf("%s heard what may be another's: %q", name, got)
			}
		}
		l.answer(<-held, `{}`)
		l.answer(<-held, `{}`)
		a.answerTo("2")
		c.answerTo("2")
	})
}

// TestX05_AnswersReachWhoAsked: many clients with the same ids and tokens use one session
// of the server, which answers in another order.
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
			t.Errorf("the server has %d sessions: the test shows nothing", s.opened())
		}
	})
}
