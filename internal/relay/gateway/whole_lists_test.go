package gateway_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// listing returns a server with one tool whose name the test may change.
func listing(modern bool, name *atomic.Value) *testServer {
	s := &testServer{modern: modern}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodListTools:
			l.answer(m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"`+name.Load().(string)+`","inputSchema":{"type":"object"}}]}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{"content":[]}`)
		}
	}
	return s
}

func named(name string) *atomic.Value {
	v := &atomic.Value{}
	v.Store(name)
	return v
}

// TestListsThatAreOldAreAnnounced checks a server that does not announce changes. When one
// client reads a newer list, clients with an older list are notified.
func TestListsThatAreOldAreAnnounced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tool := named("one")
		s := listing(false, tool)
		s.caps = `{"tools":{}}`
		w := build(t, s, listing(false, named("x")))
		n, o := w.legacy(`{}`), w.client()
		n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		n.answerTo("1")
		tool.Store("two")
		time.Sleep(time.Minute)
		o.say(modernRequest("1", "tools/list", "", `{}`))
		o.answerTo("1")
		if got := n.rest(); len(got) != 1 || !strings.Contains(got[0], mcp.NoteToolsChanged) {
			t.Errorf("the client got %q", got)
		}
		time.Sleep(time.Minute)
		o.say(modernRequest("2", "tools/list", "", `{}`))
		o.answerTo("2")
		if got := n.rest(); len(got) != 0 {
			t.Errorf("the client got %q without a change", got)
		}
	})
}

// TestU28_ListsOfARestartedServerAreAnnounced checks that clients are notified if a server's
// lists differ after a restart.
func TestU28_ListsOfARestartedServerAreAnnounced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		tool := named("one")
		s := listing(false, tool)
		w := build(t, s, listing(false, named("x")))
		n := w.legacy(`{}`)
		n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		n.wants(n.answerTo("1"), `"a__one"`)
		n.rest()
		tool.Store("two")
		_ = s.link(t, 0).pipe.Close()
		time.Sleep(time.Minute)
		n.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__one","arguments":{}}}`)
		time.Sleep(time.Minute)
		if got := strings.Join(n.rest(), "\n"); !strings.Contains(got, mcp.NoteToolsChanged) {
			t.Errorf("the client got %s", got)
		}
	})
}

// TestJoinedListsAreNotKeptForEver checks that a client that reads a list gets the server's current
// items. This is true even if the server does not announce changes, or if no client listens to the
// server.
func TestJoinedListsAreNotKeptForEver(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				tool := named("one")
				s := listing(modern, tool)
				if !modern {
					s.caps = `{"tools":{}}` // the server does not declare listChanged
				}
				w := build(t, s, listing(false, named("x")))
				n := w.client()
				for id := range 3 {
					n.say(modernRequest(fmt.Sprint(id), "tools/list", "", `{}`))
					n.wants(n.answerTo(fmt.Sprint(id)), `"a__one"`)
				}
				tool.Store("two")
				if modern {
					synctest.Wait() // Dragoman opens its listen at the server in the background
					l := s.link(t, 0)
					listens := l.got(mcp.MethodListen)
					if len(listens) != 1 {
						t.Fatalf("the server got %d listens", len(listens))
					}
					l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(listens[0].ID) + `}}}`)
				}
				time.Sleep(time.Minute)
				n.say(modernRequest("9", "tools/list", "", `{}`))
				n.wants(n.answerTo("9"), `"a__two"`)
			})
		})
	}
}

// TestLanesChangeNoLists checks that Dragoman does not read all lists again when a call opens
// another session.
func TestLanesChangeNoLists(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := listing(false, named("one"))
		w := build(t, s, listing(false, named("x")))
		n := w.client()
		n.say(modernRequest("1", "tools/list", "", `{}`))
		n.answerTo("1")
		lists := func() (all int) {
			for i := range s.opened() {
				all += len(s.link(t, i).got(mcp.MethodListTools))
			}
			return all
		}
		n.say(modernRequest("2", "tools/list", "", `{}`))
		n.answerTo("2")
		before, opened := lists(), s.opened()
		for i := range 5 {
			n.say(modernRequest(fmt.Sprint(10+i), "tools/call", `"name":"a__one","arguments":{}`, fmt.Sprintf(`{"elicitation":{},"x":%d}`, i)))
			n.answerTo(fmt.Sprint(10 + i))
			n.say(modernRequest(fmt.Sprint(20+i), "tools/list", "", `{}`))
			n.answerTo(fmt.Sprint(20 + i))
		}
		if s.opened() == opened {
			t.Error("no session was opened, so this test does not prove anything")
		}
		if now := lists(); now != before {
			t.Errorf("%d lists were read before, and %d after", before, now)
		}
	})
}

// TestWhyAListFails checks two servers that are open, but whose list of tools cannot be read: one answers
// with an error, and the other one does not answer. The reason is what each of them did.
func TestWhyAListFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		refuses, silent := &testServer{}, &testServer{}
		refuses.on = func(l *testSession, m *jsonrpc.Message) {
			if m.Method == mcp.MethodListTools {
				l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32603,"message":"database is locked"}}`)
			} else if m.Kind == jsonrpc.Request {
				l.answer(m, `{}`)
			}
		}
		silent.on = func(l *testSession, m *jsonrpc.Message) {
			if m.Method != mcp.MethodListTools && m.Kind == jsonrpc.Request {
				l.answer(m, `{}`)
			}
		}
		w := build(t, refuses, silent, listing(false, named("x")))
		n := w.legacy(`{}`)
		n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		n.wants(n.answerTo("1"), `"c__x"`)
		time.Sleep(2 * time.Minute)
		why := map[string]string{}
		for _, l := range w.host.(*gateway.Merged).Lists() {
			why[l.Server] = l.Failed
		}
		for server, want := range map[string]string{"a": `server "a" refused tools/list: "database is locked"`, "b": `server "b" did not answer`, "c": ""} {
			if got := why[server]; !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s: %s, want %s", server, got, want)
			}
		}
		for i, u := range w.upstreams {
			if s := u.Status(); s.State != upstream.Ready {
				t.Errorf("server %d is %s: %s", i, s.State, s.Reason)
			}
		}
	})
}
