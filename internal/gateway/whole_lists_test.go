package gateway_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// listing is a server with one tool whose name the test may change.
func listing(modern bool, name *atomic.Value) *farServer {
	s := &farServer{modern: modern}
	s.on = func(l *farLink, m *jsonrpc.Message) {
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

// TestListsThatAreOldAreAnnounced: who has an older list of a server that tells
// nobody hears when another client finds a newer one.
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
			t.Errorf("heard %q", got)
		}
		time.Sleep(time.Minute)
		o.say(modernRequest("2", "tools/list", "", `{}`))
		o.answerTo("2")
		if got := n.rest(); len(got) != 0 {
			t.Errorf("heard %q without a change", got)
		}
	})
}

// TestU28_ListsOfARestartedServerAreAnnounced: after a restart clients hear that
// the lists are others.
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
			t.Errorf("heard %s", got)
		}
	})
}
