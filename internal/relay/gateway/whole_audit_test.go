package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// recordingAuditor is an auditor that records the beginning and the end of every request. It refuses
// the requests with the method refuses.
type recordingAuditor struct {
	t       *testing.T
	refuses string

	mu      sync.Mutex
	open    map[*policy.Call]bool
	entries []string
}

func (l *recordingAuditor) Begin(_ context.Context, c *policy.Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Server != "" || c.Name != "" || !c.Args.Absent() || c.Resumed || l.open[c] {
		l.t.Errorf("the auditor was told %+v at the beginning", c)
	}
	method := c.Request.Msg.Method
	if method == l.refuses {
		l.entries = append(l.entries, "refused "+method)
		return &jsonrpc.Error{Code: -31998, Message: "the audit trail is full"}
	}
	if l.open == nil {
		l.open = map[*policy.Call]bool{}
	}
	l.open[c] = true
	return nil
}

func (l *recordingAuditor) End(_ context.Context, c *policy.Call, a *policy.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open[c] || (a.Err == nil) == (a.Reply == nil) {
		l.t.Errorf("the auditor was told of the end of %+v: %+v", c, a)
	}
	delete(l.open, c)
	entry := fmt.Sprintf("%s %s %q %q %s", c.Who.Key(), c.Request.Msg.Method, c.Server, c.Name, a.Outcome)
	if n, ok := c.Args.Get("n").Int(); ok {
		entry += fmt.Sprintf(" n=%d", n)
	}
	if c.Resumed {
		entry += " resumed"
	}
	l.entries = append(l.entries, entry)
}

// all returns the entries since the previous call of this method, and fails the test if a request
// has a beginning but no end.
func (l *recordingAuditor) all() string {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		l.t.Errorf("%s has no end", c.Request.Msg.Method)
	}
	got := strings.Join(l.entries, "\n")
	l.entries = nil
	return got
}

// setPolicy sets the policy and the auditor of the whole, whichever handler it has.
func (w *whole) setPolicy(chain policy.Chain, audit policy.Auditor) {
	switch h := w.host.(type) {
	case *gateway.Merged:
		h.Policy, h.Audit = chain, audit
	case *gateway.Single:
		h.Policy, h.Audit = chain, audit
	}
}

// TestAuditorHearsOfEveryRequest checks that the auditor hears of the beginning and the end of each
// request, also if the name is unknown or hidden, or a step refuses the request, at the endpoint of
// several servers and of one, in both eras.
func TestAuditorHearsOfEveryRequest(t *testing.T) {
	for _, joined := range []bool{true, false} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("joined %t, %s client", joined, eraOf(modern)), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					a := newListServer(modern, false)
					a.shows = func(name string) bool { return !strings.Contains(name, "hid") }
					all, prefix := []*testServer{a.testServer}, ""
					if joined {
						all, prefix = append(all, newListServer(modern, false).testServer), "a__"
					}
					w := build(t, all...)
					l := &recordingAuditor{t: t}
					w.setPolicy(policy.Chain{&recordingStep{t: t, refuses: "two"}}, l)
					c := w.callerAs("ada", modern, `{}`)
					c.ask(mcp.MethodListTools, "")
					c.ask(mcp.MethodCallTool, `"name":"`+prefix+`one","arguments":{"n":7}`)
					c.ask(mcp.MethodCallTool, `"name":"`+prefix+`two","arguments":{"n":8}`)
					c.ask(mcp.MethodCallTool, `"name":"`+prefix+`hid-one","arguments":{"n":9}`)
					c.ask(mcp.MethodCallTool, `"name":"nowhere__x","arguments":{}`)
					c.ask(mcp.MethodGetPrompt, `"name":"`+prefix+`hid-one"`)
					c.ask(mcp.MethodReadResource, `"uri":"x:hid-one"`)
					c.ask("vendor/thing", "")
					listed, server, unknown := `"a"`, `"a"`, `tools/call "a" "nowhere__x" failed`
					vendor := `vendor/thing "a" "" ok`
					if joined {
						listed, server, unknown = `""`, `""`, `tools/call "" "nowhere__x" refused`
						vendor = `vendor/thing "" "" refused`
					}
					want := fmt.Sprintf(`ada tools/list %[1]s "" ok
ada tools/call "a" "one" ok n=7
ada tools/call "a" "two" refused n=8
ada tools/call %[2]s "%[3]shid-one" refused n=9
ada %[4]s
ada prompts/get %[2]s "%[3]shid-one" refused
ada resources/read %[2]s "x:hid-one" refused
ada %[5]s`, listed, server, prefix, unknown, vendor)
					if got := l.all(); got != want {
						t.Errorf("got\n%s\nwant\n%s", got, want)
					}
				})
			})
		}
	}
}

// TestAuditorHearsOfTheRest checks the requests that are no calls of an item: subscriptions, log
// levels and tasks.
func TestAuditorHearsOfTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := newListServer(false, false), newListServer(false, false)
		w := build(t, a.testServer, b.testServer)
		l := &recordingAuditor{t: t}
		w.setPolicy(nil, l)
		c := w.callerAs("ada", false, `{}`)
		c.ask(mcp.MethodSubscribe, `"uri":"x:one"`)
		c.ask(mcp.MethodSetLevel, `"level":"info"`)
		c.ask(mcp.MethodSetLevel, `"level":7`)
		c.ask(mcp.MethodGetTask, `"taskId":"nothing"`)
		n := w.clientOf("bob")
		n.say(modernRequest("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`, `{}`))
		synctest.Wait()
		n.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(time.Second)
		want := `ada resources/subscribe "a" "x:one" ok
ada logging/setLevel "" "" ok
ada logging/setLevel "" "" refused
ada tasks/get "" "nothing" refused
bob subscriptions/listen "" "" cancelled`
		if got := l.all(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// TestAuditorHearsOfRetries checks that a parked call and its retry are two audited requests, and
// that a retry with a state of somebody else is audited too.
func TestAuditorHearsOfRetries(t *testing.T) {
	for _, serverIsModern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			w := build(t, newAskingServer(serverIsModern))
			l := &recordingAuditor{t: t}
			w.setPolicy(nil, l)
			ada, bob := w.clientOf("ada"), w.clientOf("bob")
			retry := ada.parked("1", tool)
			bob.say(modernRequest("1", "tools/call", tool+retry, canBeAsked))
			bob.answerTo("1")
			ada.say(modernRequest("2", "tools/call", tool+retry, canBeAsked))
			ada.answerTo("2")
			want := `ada tools/call "a" "t" parked
bob tools/call "a" "t" refused
ada tools/call "a" "t" ok resumed`
			if got := l.all(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestAuditorRefuses checks that a request whose beginning can't be recorded is refused, and that
// nothing is sent to the server for it. Other requests go on.
func TestAuditorRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newListServer(false, false)
		w := build(t, a.testServer)
		l := &recordingAuditor{t: t, refuses: mcp.MethodCallTool}
		w.setPolicy(policy.Chain{&recordingStep{t: t, refuses: "none"}}, l)
		c := w.callerAs("ada", false, `{}`)
		c.ask(mcp.MethodListTools, "")
		a.asks()
		c.wants(c.ask(mcp.MethodCallTool, `"name":"one","arguments":{}`), `the audit trail is full`)
		if n := a.asks(); n != 0 {
			t.Errorf("a refused request cost %d requests", n)
		}
		c.ask(mcp.MethodListTools, "")
		want := "ada tools/list \"a\" \"\" ok\nrefused tools/call\nada tools/list \"a\" \"\" ok"
		if got := l.all(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}
