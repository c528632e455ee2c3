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
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// recordingStep is a policy step that records every call and refuses calls of one tool.
type recordingStep struct {
	t       *testing.T
	refuses string

	mu      sync.Mutex
	entries []string
	before  []string
}

func (l *recordingStep) Before(_ context.Context, c *policy.Call) policy.Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := fmt.Sprintf("%s %s %q %q", c.Who.Key(), c.Request.Msg.Method, c.Server, c.Name)
	if n, ok := c.Args.Get("n").Int(); ok {
		entry += fmt.Sprintf(" n=%d", n)
	}
	l.before = append(l.before, entry)
	if c.Name == l.refuses {
		return policy.Verdict{Refuse: &jsonrpc.Error{Code: -31999, Message: "not for " + c.Who.Key()}}
	}
	return policy.Verdict{}
}

func (l *recordingStep) After(_ context.Context, c *policy.Call, a *policy.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (a.Err == nil) == (a.Reply == nil) || len(c.Request.Msg.Raw) == 0 || (a.Size == 0) != (a.Err != nil) || a.Took < 0 || c.Project != event.DefaultProject {
		l.t.Errorf("%+v, %+v", c, a)
	}
	entry := fmt.Sprintf("%s %s %s %q %q %s>%s %s %d", c.Who.Key(), c.Project, c.Request.Msg.Method, c.Server, c.Name, c.Request.Client.Revision, a.To, a.Outcome, a.Code)
	if c.Resumed {
		entry += " resumed"
	}
	if a.Took >= time.Second {
		entry += " " + a.Took.Truncate(time.Second).String()
	}
	l.entries = append(l.entries, entry)
}

// all returns the records since the previous call of this method.
func (l *recordingStep) all() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	got := strings.Join(l.entries, "\n")
	l.entries = nil
	return got
}

// TestPolicySeesEachCall checks that a policy step gets the principal, the item, the server and the
// outcome of each call, for all combinations of client era and server era. The test covers answers
// of one server, merged answers, and answers of Dragoman itself.
func TestPolicySeesEachCall(t *testing.T) {
	for _, serverIsModern := range []bool{false, true} {
		for _, clientIsModern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s server, %s client", eraOf(serverIsModern), eraOf(clientIsModern)), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					a, b := newListServer(serverIsModern, false), newListServer(serverIsModern, false)
					b.lists = map[string][]string{mcp.MethodListTools: {"other"}}
					w := build(t, a.testServer, b.testServer)
					l := &recordingStep{t: t, refuses: "two"}
					w.host.(*gateway.Merged).Policy = policy.Chain{l}
					c := w.callerAs("ada", clientIsModern, `{}`)
					c.ask(mcp.MethodListTools, "")
					c.ask(mcp.MethodListPrompts, "")
					c.ask(mcp.MethodCallTool, `"name":"a__one","arguments":{"n":7}`)
					c.ask(mcp.MethodGetPrompt, `"name":"a__one"`)
					c.ask(mcp.MethodReadResource, `"uri":"x:one"`)
					c.ask(mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"a__one"},"argument":{"name":"a","value":""}`)
					time.Sleep(time.Second) // wait until the handshakes are complete
					a.asks()
					m := c.ask(mcp.MethodCallTool, `"name":"a__two","arguments":{"n":8}`)
					if !strings.Contains(string(m.Raw), `-31999`) || !strings.Contains(string(m.Raw), "not for ada") {
						t.Errorf("the call was refused with %s", m.Raw)
					}
					if n := a.asks(); n != 0 {
						t.Errorf("a refused call cost %d requests", n)
					}
					from, to := mcp.R20251125, mcp.R20251125
					if clientIsModern {
						from = mcp.R20260728
					}
					if serverIsModern {
						to = mcp.R20260728
					}
					want := fmt.Sprintf(`ada default tools/list "" "" %[1]s>unknown ok 0
ada default prompts/list "" "" %[1]s>unknown ok 0
ada default tools/call "a" "one" %[1]s>%[2]s ok 0
ada default prompts/get "a" "one" %[1]s>%[2]s ok 0
ada default resources/read "a" "x:one" %[1]s>%[2]s ok 0
ada default completion/complete "a" "one" %[1]s>%[2]s ok 0`, from, to)
					if got := l.all(); got != want {
						t.Errorf("got\n%s\nwant\n%s", got, want)
					}
					if got := l.before[2]; got != `ada tools/call "a" "one" n=7` {
						t.Errorf("the policy step recorded %s", got)
					}
				})
			})
		}
	}
}

const tool = `"name":"t","arguments":{}`

// TestPolicySeesRetries checks that the policy decides about a parked call and about the retry
// that resumes it. In the second decision, Resumed says that the call was allowed before.
func TestPolicySeesRetries(t *testing.T) {
	for _, serverIsModern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			w := build(t, newAskingServer(serverIsModern))
			l := &recordingStep{t: t}
			w.host.(*gateway.Single).Policy = policy.Chain{l}
			n := w.clientOf("ada")
			retry := n.parked("1", tool)
			time.Sleep(3 * time.Second)
			n.say(modernRequest("2", "tools/call", tool+retry, canBeAsked))
			if m := n.answerTo("2"); !strings.Contains(string(m.Raw), `"done":true`) {
				t.Errorf("got %s", m.Raw)
			}
			to := mcp.R20251125
			if serverIsModern {
				to = mcp.R20260728
			}
			want := fmt.Sprintf(`ada default tools/call "a" "t" 2026-07-28>%[1]s parked 0
ada default tools/call "a" "t" 2026-07-28>%[1]s ok 0 resumed`, to)
			if got := l.all(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestPolicyRefusesARetry checks that the call stays parked if a policy step refuses a retry. A
// later retry then gets the answer.
func TestPolicyRefusesARetry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAskingServer(false)
		w := build(t, s)
		l := &recordingStep{t: t}
		w.host.(*gateway.Single).Policy = policy.Chain{l}
		n := w.clientOf("ada")
		retry := n.parked("1", tool)
		l.mu.Lock()
		l.refuses = "t"
		l.mu.Unlock()
		n.say(modernRequest("2", "tools/call", tool+retry, canBeAsked))
		n.wants(n.answerTo("2"), "not for ada")
		l.mu.Lock()
		l.refuses = ""
		l.mu.Unlock()
		n.say(modernRequest("3", "tools/call", tool+retry, canBeAsked))
		n.wants(n.answerTo("3"), `"done":true`)
		if calls := s.calls(t); calls != 1 {
			t.Errorf("the server was called %d times", calls)
		}
	})
}
