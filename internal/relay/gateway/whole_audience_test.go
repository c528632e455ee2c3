package gateway_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// capabilityServer returns a server whose tools depend on the client's capabilities: "plain" for
// all clients, and "form" for clients that can show forms. If more holds a name, clients that can
// show forms also get a tool with this name.
func capabilityServer(modern bool, more *atomic.Value) *testServer {
	s := &testServer{modern: modern, caps: `{"tools":{"listChanged":true}}`}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodListTools:
			caps := string(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyClientCaps).Of(m.Raw))
			if !modern {
				opened := l.got(mcp.MethodInitialize)[0]
				caps = string(opened.Param("capabilities").Of(opened.Raw))
			}
			tools := `{"name":"plain","inputSchema":{"type":"object"}}`
			if strings.Contains(caps, "elicitation") {
				tools += `,{"name":"form","inputSchema":{"type":"object"}}`
				if more != nil && more.Load() != nil {
					tools += `,{"name":"` + more.Load().(string) + `","inputSchema":{"type":"object"}}`
				}
			}
			l.answer(m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`+tools+`]}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{"resultType":"complete","content":[]}`)
		}
	}
	return s
}

// caller is a client of either era.
type caller struct {
	*testClient
	modern bool
	caps   string
	id     int
}

func (w *whole) caller(modern bool, caps string) *caller {
	if modern {
		return &caller{testClient: w.client(), modern: true, caps: caps}
	}
	return &caller{testClient: w.legacy(caps), caps: caps}
}

func (c *caller) ask(method, params string) *jsonrpc.Message {
	c.t.Helper()
	c.id++
	id := fmt.Sprint(c.id)
	if c.modern {
		c.say(modernRequest(id, method, params, c.caps))
	} else {
		c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
	}
	return c.answerTo(id)
}

func (c *caller) tools() string {
	c.t.Helper()
	m := c.ask("tools/list", "")
	var names []string
	for tool := range jsonrpc.Elements(m.Raw, m.ResultMember("tools")) {
		name, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, tool, "name"))
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

const shownForms, hiddenForms = "a__plain a__form b__plain b__form", "a__plain b__plain"

// TestListsOfAnAudience checks that, behind a merged endpoint, a client sees the tools that a
// server lists for the client's capabilities. The client can call them, and is notified when they
// change. A client with other capabilities sees its own tools. The test covers both eras of clients
// and servers, either order of the two clients, and a client that calls before it lists.
func TestListsOfAnAudience(t *testing.T) {
	for _, serverIsModern := range []bool{false, true} {
		for _, clientIsModern := range []bool{false, true} {
			for _, first := range []string{"forms", "plain", "call"} {
				t.Run(fmt.Sprintf("server_modern_%t_client_modern_%t_first_%s", serverIsModern, clientIsModern, first), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						var more atomic.Value
						a := capabilityServer(serverIsModern, &more)
						w := build(t, a, capabilityServer(serverIsModern, nil))
						forms, plain := w.caller(clientIsModern, `{"elicitation":{}}`), w.caller(clientIsModern, `{}`)
						call := func(c *caller, tool string) *jsonrpc.Message {
							return c.ask("tools/call", `"name":"`+tool+`","arguments":{}`)
						}
						switch first {
						case "plain":
							if got := plain.tools(); got != hiddenForms {
								t.Errorf("a client without capabilities sees %s", got)
							}
						case "call":
							if m := call(forms, "a__form"); m.Kind != jsonrpc.Result {
								t.Errorf("a call before any list got %s", m.Raw)
							}
						}
						for range 2 {
							if got := forms.tools(); got != shownForms {
								t.Errorf("a client that shows forms sees %s", got)
							}
							if got := plain.tools(); got != hiddenForms {
								t.Errorf("a client without capabilities sees %s", got)
							}
						}
						if m := call(forms, "b__form"); m.Kind != jsonrpc.Result {
							t.Errorf("the call of the client that shows forms got %s", m.Raw)
						}
						if m := call(plain, "b__form"); m.Kind != jsonrpc.Failure || !strings.Contains(string(m.Raw), "Unknown tool") {
							t.Errorf("the other client's call of the tool got %s", m.Raw)
						}
						if m := call(plain, "b__plain"); m.Kind != jsonrpc.Result {
							t.Errorf("the other client's call of its own tool got %s", m.Raw)
						}
						if clientIsModern {
							forms.say(modernRequest(`"l"`, mcp.MethodListen, `"notifications":{"toolsListChanged":true}`, forms.caps))
						}
						forms.rest()
						more.Store("later")
						a.tell(t, mcp.NoteToolsChanged)
						if got := strings.Join(forms.rest(), "\n"); !strings.Contains(got, mcp.NoteToolsChanged) {
							t.Errorf("after the change the client got %q", got)
						}
						if got := forms.tools(); got != "a__plain a__form a__later b__plain b__form" {
							t.Errorf("after the change the client sees %s", got)
						}
						if got := plain.tools(); got != hiddenForms {
							t.Errorf("after the change the other client sees %s", got)
						}
					})
				})
			}
		}
	}
}

// TestAudiencesAreBounded checks that different spellings of the same capabilities are one
// audience. A client that tries many sets of capabilities makes Dragoman start only a few server
// processes. The client then sees the default list. An earlier client keeps its own lists.
func TestAudiencesAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := capabilityServer(false, nil)
		w := build(t, a, capabilityServer(false, nil))
		innocent := w.caller(true, `{"elicitation":{},"roots":{}}`)
		if got := innocent.tools(); got != shownForms {
			t.Errorf("the client sees %s", got)
		}
		greedy := w.caller(true, "")
		for i := range 40 {
			greedy.caps = fmt.Sprintf(`{"elicitation":{"x%d":{}},"z":%d}`, i, i)
			if got := greedy.tools(); got != shownForms {
				t.Errorf("spelling %d sees %s", i, got)
			}
		}
		if n := a.opened(); n > 3 {
			t.Errorf("40 spellings have opened %d sessions", n)
		}
		parts := []string{`"sampling":{}`, `"sampling":{"tools":{}}`, `"sampling":{"context":{}}`, `"sampling":{"context":{},"tools":{}}`}
		for i := range 40 {
			greedy.caps = `{"elicitation":{` + []string{`"form":{}`, `"url":{}`, `"form":{},"url":{}`}[i%3] + `},` + parts[i%4] + `,"tasks":{` + []string{``, `"list":{}`, `"cancel":{}`, `"list":{},"cancel":{}`}[i/12] + `}}`
			if got := greedy.tools(); !strings.Contains(got, "a__plain") {
				t.Errorf("set %d sees %s", i, got)
			}
		}
		if n := a.opened(); n > 8 {
			t.Errorf("40 sets have opened %d sessions", n)
		}
		before := a.opened()
		if got := innocent.tools(); got != shownForms {
			t.Errorf("the other client sees %s", got)
		}
		if n := a.opened(); n != before {
			t.Errorf("the other client needed %d more sessions", n-before)
		}
		// An audience that was not used for a while is replaced by a new audience.
		time.Sleep(5 * time.Minute)
		greedy.caps = `{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`
		if got := greedy.tools(); got != shownForms {
			t.Errorf("later the client sees %s", got)
		}
	})
}

// TestListOfAServerThatStartsOnce checks a server that cannot start again for another set of
// capabilities. A client with this set sees the server's default list. From the other servers, it
// sees the lists for its own capabilities.
func TestListOfAServerThatStartsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := capabilityServer(false, nil)
		w := build(t, a, capabilityServer(false, nil))
		plain := w.caller(true, `{}`)
		if got := plain.tools(); got != hiddenForms {
			t.Errorf("the client sees %s", got)
		}
		a.refuseOpens(errors.New("its port is in use"))
		forms := w.caller(true, `{"elicitation":{}}`)
		if got := forms.tools(); got != "a__plain b__plain b__form" {
			t.Errorf("the client sees %s", got)
		}
		if got := plain.tools(); got != hiddenForms {
			t.Errorf("the other client sees %s", got)
		}
		a.refuseOpens(nil)
		time.Sleep(2 * time.Minute)
		forms.tools() // the client does not wait for the unavailable server, and Dragoman tries to open that server again
		time.Sleep(time.Second)
		if got := forms.tools(); got != shownForms {
			t.Errorf("when the server starts again the client sees %s", got)
		}
	})
}

// TestHelloOfAnAudience checks the result of initialize for a legacy client, and of server/discover
// for a modern client. This result contains the capabilities that the servers have for that client.
func TestHelloOfAnAudience(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		opened := func() *testServer {
			s := &testServer{}
			s.on = func(l *testSession, m *jsonrpc.Message) { l.answer(m, `{"tools":[],"prompts":[]}`) }
			s.choose = func(m *jsonrpc.Message) string {
				if !jsonrpc.Find(m.Raw, m.Param("capabilities"), "elicitation").IsZero() {
					return `{"tools":{},"prompts":{}}`
				}
				return `{"tools":{}}`
			}
			return s
		}
		w := build(t, opened(), opened())
		for caps, want := range map[string]bool{`{}`: false, `{"elicitation":{}}`: true, `{"roots":{}}`: false} {
			n := w.client()
			n.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + caps + `,"clientInfo":{"name":"n","version":"1"}}}`)
			legacy := n.answerTo("1")
			m := w.client()
			m.say(modernRequest("1", mcp.MethodDiscover, "", caps))
			modern := m.answerTo("1")
			for _, x := range []*jsonrpc.Message{legacy, modern} {
				if got := strings.Contains(string(x.ResultMember("capabilities").Of(x.Raw)), "prompts"); got != want {
					t.Errorf("with the capabilities %s: %s", caps, x.Raw)
				}
			}
		}
		synctest.Wait()
	})
}
