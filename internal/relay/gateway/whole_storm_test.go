package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// changing is a server of either era that can announce that its lists have changed.
func changing(modern bool) *testServer {
	s := &testServer{modern: modern, caps: `{"tools":{"listChanged":true},"prompts":{"listChanged":true}}`}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[],"prompts":[],"content":[]}`)
		}
	}
	return s
}

// tell announces a changed list on every session of the server.
func (s *testServer) tell(t *testing.T, method string) {
	t.Helper()
	for i := range s.opened() {
		l, meta := s.link(t, i), ""
		if s.modern {
			listens := l.got(mcp.MethodListen)
			if len(listens) == 0 {
				continue
			}
			meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(listens[len(listens)-1].ID) + `}`
		}
		l.say(`{"jsonrpc":"2.0","method":"` + method + `","params":{` + meta + `}}`)
	}
}

// TestListChangedOncePerSecond checks a storm of list changes. For each list, each client gets at
// most one notification per second. The first change is announced at once, and the last change
// later. Calls are not delayed. The test covers both eras of servers and clients. It runs one
// server, and then two servers that send changes together.
func TestListChangedOncePerSecond(t *testing.T) {
	for _, modernServer := range []bool{false, true} {
		for _, modernClient := range []bool{false, true} {
			for n := 1; n <= 2; n++ {
				t.Run(fmt.Sprintf("server_modern_%t_client_modern_%t_servers_%d", modernServer, modernClient, n), func(t *testing.T) {
					inBubble(t, func(t *testing.T) { listStorm(t, modernServer, modernClient, n) })
				})
			}
		}
	}
}

func listStorm(t *testing.T, modernServer, modernClient bool, servers int) {
	var all []*testServer
	for range servers {
		all = append(all, changing(modernServer))
	}
	w := build(t, all...)
	innocent := w.legacy(`{}`)
	var c *testClient
	if modernClient {
		c = w.client()
		c.say(modernRequest(`"l"`, mcp.MethodListen, `"notifications":{"toolsListChanged":true,"promptsListChanged":true}`, `{}`))
	} else {
		c = w.legacy(`{}`)
	}
	c.say(map[bool]string{
		true:  modernRequest("1", "tools/list", "", `{}`),
		false: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
	}[modernClient])
	c.answerTo("1")
	c.rest()
	heard := func(got []string, method string) (n int) {
		for _, x := range got {
			if strings.Contains(x, method) {
				n++
			}
		}
		return n
	}
	all[0].tell(t, mcp.NoteToolsChanged)
	synctest.Wait()
	if m := c.next(); m.Method != mcp.NoteToolsChanged {
		t.Fatalf("the first notification is %s", m.Raw)
	}
	time.Sleep(2 * time.Second)
	for i := range 1000 {
		for _, s := range all {
			s.tell(t, mcp.NoteToolsChanged)
			s.tell(t, mcp.NotePromptsChanged)
		}
		if i%100 == 50 {
			id, start := fmt.Sprintf("%d", 100+i), time.Now()
			innocent.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}`)
			innocent.answerTo(id)
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("another client's call took %v", took)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	got := c.rest() // rest waits a second, so got includes the notifications that the gateway delayed
	for _, method := range []string{mcp.NoteToolsChanged, mcp.NotePromptsChanged} {
		if n := heard(got, method); n < 10 || n > 12 {
			t.Errorf("in ten seconds the client got %s %d times", method, n)
		}
	}
	time.Sleep(5 * time.Second)
	c.rest()
	// The last change of a burst is announced, even if it follows the previous change at once.
	all[0].tell(t, mcp.NoteToolsChanged)
	synctest.Wait()
	if n := heard(c.rest(), mcp.NoteToolsChanged); n != 1 {
		t.Fatalf("one change was announced %d times", n)
	}
	for range 3 {
		all[servers-1].tell(t, mcp.NoteToolsChanged)
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	if n := heard(c.rest(), mcp.NoteToolsChanged); n < 1 || n > 2 {
		t.Errorf("three changes within 3 ms were announced %d times", n)
	}
}
