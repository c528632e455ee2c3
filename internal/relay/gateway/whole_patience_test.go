package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestT10_ServerThatPutsOffForEver runs a modern server that answers a legacy client's call with an
// empty set of input requests, again and again. Dragoman retries with pauses that grow. The client
// gets one error at the end, and no message before that error. The client may cancel the call
// earlier.
func TestT10_ServerThatPutsOffForEver(t *testing.T) {
	for name, asks := range map[string]string{"empty": `"inputRequests":{},`, "absent": ""} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var mu sync.Mutex
				var at []time.Time
				s := &testServer{modern: true}
				s.on = func(l *testSession, m *jsonrpc.Message) {
					switch {
					case m.Method == mcp.MethodListen:
						l.acknowledge(m)
					case m.Method == mcp.MethodCallTool:
						mu.Lock()
						at = append(at, time.Now())
						mu.Unlock()
						l.answer(m, `{"resultType":"input_required",`+asks+`"requestState":"busy"}`)
					case m.Kind == jsonrpc.Request:
						l.answer(m, `{"resultType":"complete"}`)
					}
				}
				tries := func() []time.Time {
					mu.Lock()
					defer mu.Unlock()
					got := at
					at = nil
					return got
				}
				n := build(t, s).legacy(canBeAsked)
				n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
				m := n.next()
				if m.Kind != jsonrpc.Failure || m.ID != "1" || !strings.Contains(string(m.Raw), `"code":-32603`) {
					t.Errorf("got %s", m.Raw)
				}
				all := tries()
				if len(all) != 11 {
					t.Errorf("the server got %d calls, want one and ten retries", len(all))
				}
				for i := 1; i < len(all); i++ {
					want := min(100*time.Millisecond<<(i-1), 5*time.Second)
					if gap := all[i].Sub(all[i-1]); gap != want {
						t.Errorf("pause %d was %v, want %v", i, gap, want)
					}
				}
				n.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
				time.Sleep(time.Second)
				n.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
				time.Sleep(time.Minute)
				if got := len(tries()); got != 4 { // after 0, 0.1, 0.3 and 0.7 s
					t.Errorf("the server got %d calls before the client gave up", got)
				}
			})
		})
	}
}

// TestT17_OthersLatencyIsUnchanged runs three servers: one takes 30 s for everything, one has
// failed, and one is fast. A call to the fast server takes the same time as without the others.
// Time is simulated, so the test is exact. Only the first merged answers take time, because each of
// them waits once for the slow servers.
func TestT17_OthersLatencyIsUnchanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow, dead, good := &testServer{slow: 30 * time.Second}, &testServer{refuse: errors.New("dead")}, &testServer{}
		good.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodListTools:
				l.answer(m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{"content":[]}`)
			}
		}
		w := build(t, slow, dead, good)
		n := w.client()
		took := func(what string, most time.Duration, f func()) {
			t.Helper()
			start := time.Now()
			if f(); time.Since(start) > most {
				t.Errorf("%s took %v, want at most %v", what, time.Since(start), most)
			}
		}
		const grace = 1500 * time.Millisecond
		ask := func(id, method, params string) *jsonrpc.Message {
			n.say(modernRequest(id, method, params, `{}`))
			return n.answerTo(id)
		}
		took("the first discover", grace, func() { ask(`"d"`, "server/discover", "") })
		took("the first list", grace, func() { n.wants(ask(`"l"`, "tools/list", ""), `"c__t"`) })
		// The loop covers ten minutes. In this time, Dragoman tries several times to open the
		// failed server, and another client calls the slow server and the failed server.
		idle := w.client()
		for i := range 600 {
			if i%60 == 0 {
				for _, server := range []string{"a", "b"} {
					idle.say(modernRequest(fmt.Sprintf(`"%s%d"`, server, i), "tools/call", `"name":"`+server+`__t","arguments":{}`, `{}`))
				}
			}
			took("a call", 0, func() {
				if m := ask("1", "tools/call", `"name":"c__t","arguments":{}`); m.Kind != jsonrpc.Result {
					t.Errorf("got %s", m.Raw)
				}
			})
			took("a list", 0, func() { n.wants(ask("2", "tools/list", ""), `"c__t"`) })
			took("discover", 0, func() { ask("3", "server/discover", "") })
			time.Sleep(time.Second)
		}
		took("a legacy client's opening", 0, func() {
			o := w.legacy(`{}`)
			o.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"c__t","arguments":{}}}`)
			if m := o.answerTo("1"); m.Kind != jsonrpc.Result {
				t.Errorf("got %s", m.Raw)
			}
		})
		if slow.opened() == 0 {
			t.Error("the slow server was never tried, so this test does not prove anything")
		}
	})
}
