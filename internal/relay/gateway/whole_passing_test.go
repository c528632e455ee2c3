package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// censor is a policy step that keeps messages with the word secret from everybody but root.
type censor struct {
	mu   sync.Mutex
	seen []string
}

func (s *censor) Before(context.Context, *policy.Call) policy.Verdict { return policy.Verdict{} }
func (s *censor) After(context.Context, *policy.Call, *policy.Answer) {}

func (s *censor) Passes(_ context.Context, c *policy.Call, m *jsonrpc.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %s", c.Who.Key(), c.Name, m.Method))
	if c.Who.Key() != "root" && bytes.Contains(m.Raw, []byte("secret")) {
		return &jsonrpc.Error{Code: -31996, Message: "this is kept from " + c.Who.Key()}
	}
	return nil
}

func (s *censor) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := strings.Join(s.seen, "\n")
	s.seen = nil
	return got
}

// newTalkingServer returns a server whose tool sends two progress notifications, one of them secret,
// and then asks. word is in the question.
func newTalkingServer(modern bool, word string) *testServer {
	s := newAskingServer(modern)
	ask := s.on
	s.on = func(l *testSession, m *jsonrpc.Message) {
		if m.Method == mcp.MethodCallTool && m.Param("inputResponses").IsZero() {
			token := m.At(m.Param(mcp.KeyMeta)).Get("progressToken").Raw()
			for i, text := range []string{"secret", "open"} {
				l.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":"%s"}}`, token, i+1, text))
			}
			if modern {
				l.answer(m, `{"resultType":"input_required","inputRequests":{"k":{`+strings.Replace(elicit, "?", word, 1)+`}},"requestState":"theirs"}`)
			} else {
				l.say(`{"jsonrpc":"2.0","id":"q",` + strings.Replace(elicit, "?", word, 1) + `}`)
			}
			return
		}
		ask(l, m)
	}
	return s
}

// talk calls the tool of a talkingServer and answers its question. It returns everything that the
// client gets.
func (n *testClient) talk(modern bool, prefix string) (got string) {
	n.t.Helper()
	meta := `"progressToken":"p"`
	if modern {
		meta += `,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + canBeAsked
	} else {
		n.open(canBeAsked)
	}
	params := `"name":"` + prefix + `t","arguments":{},"_meta":{` + meta + `}`
	for id := 1; ; id++ {
		n.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s}}`, id, params))
		for {
			m := n.next()
			got += string(m.Raw) + "\n"
			if m.Kind == jsonrpc.Request {
				n.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept"}}`)
			}
			if m.Kind == jsonrpc.Failure || m.Kind == jsonrpc.Result && !strings.Contains(string(m.Raw), "input_required") {
				return got
			}
			if m.Kind == jsonrpc.Result {
				params += retryOf(n.t, m)
				break
			}
		}
	}
}

// TestPassing checks that a step can keep the notifications and the questions of a server from a
// client, for all combinations of eras, at one server and at two. Another client gets them.
func TestPassing(t *testing.T) {
	for _, joined := range []bool{false, true} {
		for _, serverIsModern := range []bool{false, true} {
			for _, clientIsModern := range []bool{false, true} {
				t.Run(fmt.Sprintf("joined %t, %s server, %s client", joined, eraOf(serverIsModern), eraOf(clientIsModern)), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						s := newTalkingServer(serverIsModern, "secret?")
						all, prefix := []*testServer{s}, ""
						if joined {
							all, prefix = append(all, quiet(serverIsModern)), "a__"
						}
						plain := s.on
						s.on = func(l *testSession, m *jsonrpc.Message) {
							if m.Method == mcp.MethodListTools {
								l.answer(m, `{"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":60000,"cacheScope":"public"}`)
								return
							}
							plain(l, m)
						}
						w, step := build(t, all...), &censor{}
						w.setPolicy(policy.Chain{step}, nil)
						got := w.clientOf("ada").talk(clientIsModern, prefix)
						if strings.Contains(got, "secret") || !strings.Contains(got, `"message":"open"`) {
							t.Errorf("ada got\n%s", got)
						}
						want := `"done":true` // a legacy server is told that nobody can be asked, and goes on
						if serverIsModern {
							want = "this is kept from ada"
						}
						if !strings.Contains(got, want) {
							t.Errorf("ada got\n%s", got)
						}
						if seen := step.all(); seen != "ada t notifications/progress\nada t notifications/progress\nada t elicitation/create" {
							t.Errorf("the step saw\n%s", seen)
						}
						got = w.clientOf("root").talk(clientIsModern, prefix)
						for _, want := range []string{`"message":"secret"`, `secret?`, `"message":"open"`, `"done":true`} {
							if !strings.Contains(got, want) {
								t.Errorf("root got\n%s", got)
							}
						}
						if n := w.relay.Parked(); n != 0 {
							t.Errorf("%d calls are parked", n)
						}
					})
				})
			}
		}
	}
}
