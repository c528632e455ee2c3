package gateway_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// TestCallWhileOtherServersHang calls a tool of the last of several servers, all others of which hang when
// they start. The call waits only as long as a request for lists does, and not until the starts of the
// others count no more.
func TestCallWhileOtherServersHang(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, hanging int
		isolation      upstream.Isolation
		list, newcomer bool // the client reads the list first; it has capabilities that no earlier client had
		bare           bool // no server has a prefix, so each may have the tool
	}{
		"one at a time, with a list":     {limit: 1, hanging: 5, list: true},
		"one at a time, without a list":  {limit: 1, hanging: 5},
		"four at a time, and a newcomer": {limit: 4, hanging: 16, list: true, newcomer: true},
		"four at a time, without a list": {limit: 4, hanging: 16, newcomer: true},
		"no prefixes":                    {limit: 4, hanging: 16, bare: true},
		"a session for each call":        {limit: 1, hanging: 5, isolation: upstream.PerCall, list: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				starts := upstream.NewStarts(tt.limit)
				var all []*testServer
				for range tt.hanging {
					all = append(all, &testServer{slow: time.Hour, starts: starts})
				}
				var slow time.Duration
				most := 3500 * time.Millisecond
				if tt.bare {
					// The list isn't there when the client has waited for all lists. The call then hurries
					// the others too, since each of them may have the tool, but must not wait for them.
					slow, most = 2*time.Second, 20*time.Second
				}
				all = append(all, &testServer{slow: slow, starts: starts, isolation: tt.isolation, on: func(l *testSession, m *jsonrpc.Message) {
					switch m.Method {
					case mcp.MethodListTools:
						l.answer(m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
					case mcp.MethodCallTool:
						l.answer(m, `{"content":[]}`)
					}
				}})
				w := build(t, all...)
				if tt.bare {
					w.host.(*gateway.Merged).Prefixes = make(map[string]string)
				}
				for _, u := range w.upstreams {
					u.KeepOpen(true)
					if tt.bare {
						w.host.(*gateway.Merged).Prefixes[u.Name()] = ""
					}
				}
				if tt.newcomer {
					w.legacyOf("first", `{}`)
				}
				n := w.legacyOf("second", `{"elicitation":{},"sampling":{}}`)
				if tt.list {
					n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
					n.answerTo("1")
				}
				tool := w.upstreams[tt.hanging].Name() + "__t"
				if tt.bare {
					tool = "t"
				}
				for range 3 { // the second and the third call fall among retries in the background
					began := time.Now()
					n.say(strings.Replace(callOf(2, "n", ""), `"name":"t"`, `"name":"`+tool+`"`, 1))
					if m := n.answerTo("2"); m.Kind != jsonrpc.Result || time.Since(began) > most {
						t.Errorf("after %v: %s", time.Since(began), m.Raw)
					}
					time.Sleep(47 * time.Second)
				}
			})
		})
	}
}

// TestOneClientsStartsDoNotHoldUpAnothers has one client call many servers that hang when they start. The
// first call of another client waits for about one of these starts, and not for all of them. A call that
// its client has cancelled holds up nobody.
func TestOneClientsStartsDoNotHoldUpAnothers(t *testing.T) {
	// Hundreds of goroutines see their timers expire at the same moment of the bubble. With Go 1.26.8
	// on two processors, the race detector crashes on that about once in 300 runs: each goroutine
	// fires its own timer, and all of them share the bubble's race context.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const hanging = 20
	for name, tt := range map[string]struct {
		first, second string // the principals; "" is a client without one
		cancels       bool   // the second client makes all calls, and cancels those of the servers that hang
		most          time.Duration
	}{
		"two principals":    {first: "a", second: "b", most: 4 * time.Second}, // the second one has a process of its own, after that for lists
		"two local clients": {most: 2 * time.Second},
		"one that cancels":  {first: "a", second: "a", cancels: true, most: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				starts := upstream.NewStarts(1)
				var all []*testServer
				for range hanging {
					all = append(all, &testServer{slow: time.Hour, starts: starts})
				}
				all = append(all, &testServer{starts: starts, on: func(l *testSession, m *jsonrpc.Message) {
					switch m.Method {
					case mcp.MethodListTools:
						l.answer(m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
					case mcp.MethodCallTool:
						l.answer(m, `{"content":[]}`)
					}
				}})
				w := build(t, all...)
				join := func(who string) *testClient {
					if who == "" {
						return w.legacy(`{}`)
					}
					return w.legacyOf(who, `{}`)
				}
				call := func(n *testClient, id, server int) {
					n.say(strings.Replace(callOf(id, "n", ""), `"name":"t"`, `"name":"`+w.upstreams[server].Name()+`__t"`, 1))
				}
				first, second := join(tt.first), join(tt.second)
				for i := range hanging {
					call(first, 100+i, i)
				}
				synctest.Wait()
				time.Sleep(2 * time.Second) // the calls no longer wait for lists, but for the starts
				if tt.cancels {
					for i := range hanging {
						first.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, 100+i))
					}
					synctest.Wait()
				}
				began := time.Now()
				call(second, 2, hanging)
				if m := second.answerTo("2"); m.Kind != jsonrpc.Result || time.Since(began) > tt.most {
					t.Errorf("after %v: %s", time.Since(began), m.Raw)
				}
			})
		})
	}
}
