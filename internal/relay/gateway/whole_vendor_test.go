package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestNotificationsOfAVendorsClient sends notifications of a vendor's extension, which only the server that
// declares the extension may get. Two clients send them; notifications of MCP itself reach all servers.
func TestNotificationsOfAVendorsClient(t *testing.T) {
	const declares = `{"tools":{},"extensions":{"com.victim/notes":{}}}`
	for name, tt := range map[string]struct {
		caps [3]string
		want string // the servers that get the notification
		lost string // part of the loss; "" if there is none
	}{
		"one server":  {[3]string{declares, `{"tools":{}}`, `{"tools":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`}, "a", ""},
		"two servers": {[3]string{declares, `{"tools":{},"extensions":{"com.evil/x":{}}}`, `{"tools":{}}`}, "", "a, b"},
		"no server":   {[3]string{`{"tools":{}}`, `{"tools":{}}`, `{"tools":{}}`}, "", "no server declares"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var all []*testServer
				for _, caps := range tt.caps {
					s := &testServer{caps: caps, on: func(l *testSession, m *jsonrpc.Message) {
						if m.Method == mcp.MethodListTools {
							l.answer(m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
						} else if m.Kind == jsonrpc.Request {
							l.answer(m, `{"content":[]}`)
						}
					}}
					all = append(all, s)
				}
				w := build(t, all...)
				clients := []*testClient{w.legacyOf("anna", `{}`), w.legacyOf("ben", `{"elicitation":{}}`)}
				for _, n := range clients {
					for i, u := range w.upstreams { // so that each client has a session with each server
						n.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s__t"}}`, i, u.Name()))
						n.answerTo(fmt.Sprint(i))
					}
				}
				_ = w.lostSoFar()
				for i, n := range clients {
					n.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"com.victim/note","params":{"secret":%d}}`, i))
					n.say(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
				}
				synctest.Wait()
				for i, s := range all {
					count := func(method string) (n int) {
						for k := range s.opened() {
							n += len(s.link(t, k).got(method))
						}
						return n
					}
					name, want := w.upstreams[i].Name(), 0
					if name == tt.want {
						want = len(clients)
					}
					if got := count("com.victim/note"); got != want {
						t.Errorf("server %s got %d notifications, want %d", name, got, want)
					}
					if got := count("notifications/roots/list_changed"); got != len(clients) {
						t.Errorf("server %s got %d notifications about roots", name, got)
					}
				}
				lost := w.lostSoFar()
				for _, x := range lost {
					if tt.lost == "" || !strings.Contains(x, tt.lost) || !strings.Contains(x, "com.victim/note") {
						t.Errorf("lost: %s", x)
					}
				}
				if tt.lost != "" && len(lost) != len(clients) {
					t.Errorf("%d losses", len(lost))
				}
			})
		})
	}
}
