package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const sharedURICaps = `{"tools":{"listChanged":true},"prompts":{},"completions":{},"resources":{"subscribe":true,"listChanged":true},` +
	`"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}}}`

// uriServer is a server with a page, a skill and a template. Its texts say its name.
type uriServer struct {
	testServer
	name string

	mu      sync.Mutex
	page    string // the URI of the page
	listens map[*testSession]string
}

// newURIServer returns a server whose URIs have the given first segment. Servers with the same
// segment have the same URIs.
func newURIServer(name, segment string, modern bool) *uriServer {
	s := &uriServer{name: name, page: "ui://" + segment + "/page", listens: map[*testSession]string{}}
	s.modern, s.caps = modern, sharedURICaps
	s.on = func(l *testSession, m *jsonrpc.Message) {
		s.mu.Lock()
		if m.Method == mcp.MethodListen {
			s.listens[l] = string(m.ID)
		}
		page := s.page
		s.mu.Unlock()
		uri, _ := jsonrpc.Text(m.Raw, m.Param("uri"))
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodReadResource && strings.HasSuffix(uri, "none"):
			l.fail(m, -32002, fmt.Sprintf(`{"uri":%q}`, uri))
		case m.Kind == jsonrpc.Request:
			l.answer(m, s.result(m.Method, page, "skill://"+segment, uri))
		}
	}
	return s
}

func (s *uriServer) result(method, page, root, uri string) string {
	entry := fmt.Sprintf(`{"uri":"%s/SKILL.md","frontmatter":{"name":"s"},"resources":[{"uri":"%[1]s/SKILL.md","digest":"sha256:00"},{"uri":"%[1]s/a.md","digest":"sha256:01"}]}`, root)
	content := fmt.Sprintf(`{"type":"resource_link","name":"n","uri":%q},{"type":"resource","resource":{"uri":"%s/a.md","text":%[1]q}}`, page, root)
	switch method {
	case mcp.MethodListTools:
		return fmt.Sprintf(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"],"resourceUri":%q},"ui/resourceUri":%[1]q,"openai/outputTemplate":%[1]q}}]}`, page)
	case mcp.MethodListResources:
		return fmt.Sprintf(`{"resources":[{"uri":%q,"name":"p"},{"uri":"%s/a.md","name":"f"},{"uri":"x://every","name":"x"}]}`, page, root)
	case mcp.MethodListTemplates:
		return fmt.Sprintf(`{"resourceTemplates":[{"uriTemplate":"%s/{part}","name":"t"},{"uriTemplate":"x://every/{x}","name":"x"}]}`, page)
	case mcp.MethodListPrompts:
		return `{"prompts":[{"name":"p"}]}`
	case mcp.MethodListSkills:
		return `{"skills":[` + entry + `]}`
	case mcp.MethodGetSkill:
		return `{"skill":` + entry + `}`
	case mcp.MethodReadDirectory:
		return fmt.Sprintf(`{"resources":[{"uri":"%s/a.md","name":"a.md"}]}`, root)
	case mcp.MethodReadResource:
		return fmt.Sprintf(`{"contents":[{"uri":%q,"text":"I am %s"}]}`, uri, s.name)
	case mcp.MethodCallTool:
		return `{"content":[{"type":"text","text":"I am ` + s.name + `"},` + content + `]}`
	case mcp.MethodGetPrompt:
		one, two, _ := strings.Cut(content, ",{")
		return `{"messages":[{"role":"user","content":` + one + `},{"role":"user","content":{` + two + `}]}`
	case mcp.MethodComplete:
		return `{"completion":{"values":["I am ` + s.name + `"]}}`
	}
	return `{}`
}

// update says in each session that a resource has changed.
func (s *uriServer) update(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.modern {
		for i := range s.opened() {
			s.links[i].say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri))
		}
	}
	for l, id := range s.listens {
		l.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"uri":%q}}`, id, uri))
	}
}

// uriClient sends requests in the form of one era.
type uriClient struct {
	*testClient
	modern bool
	last   int
}

func (w *whole) uriClient(modern bool) *uriClient {
	if modern {
		return &uriClient{testClient: w.client(), modern: true}
	}
	return &uriClient{testClient: w.legacy(`{}`)}
}

func (n *uriClient) ask(method, params string) string {
	n.t.Helper()
	n.last++
	id := fmt.Sprint(n.last)
	if n.modern {
		n.say(modernRequest(id, method, params, `{}`))
	} else {
		n.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
	}
	m := n.answerTo(id)
	return string(m.Raw)
}

// expect checks that an answer has some parts.
func (n *uriClient) expect(method, params string, parts ...string) {
	n.t.Helper()
	got := n.ask(method, params)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			n.t.Errorf("%s {%s}: got %s, want %s", method, params, got, part)
		}
	}
}

// inEachPair runs a test for clients and servers of both eras.
func inEachPair(t *testing.T, f func(t *testing.T, client, server bool)) {
	for _, client := range []bool{false, true} {
		for _, server := range []bool{false, true} {
			t.Run(fmt.Sprintf("client modern %t, server modern %t", client, server), func(t *testing.T) {
				inBubble(t, func(t *testing.T) { f(t, client, server) })
			})
		}
	}
}

// TestSharedURIs has two servers with the same URIs, and a third one with others. Each gets the
// requests for its own, and clients can tell them apart in all that they see.
func TestSharedURIs(t *testing.T) {
	inEachPair(t, func(t *testing.T, client, server bool) {
		a, b, c := newURIServer("a", "same", server), newURIServer("b", "same", server), newURIServer("c", "mine", server)
		n := build(t, &a.testServer, &b.testServer, &c.testServer).uriClient(client)
		// Lists: nothing changes but the URIs of the second server.
		n.expect("tools/list", "", strings.Replace(strings.Trim(a.result("tools/list", "ui://same/page", "", "")[len(`{"tools":[`):], "]}"), `"t"`, `"a__t"`, 1),
			`"_meta":{"ui":{"visibility":["app"],"resourceUri":"ui://dragoman-b/same/page"},"ui/resourceUri":"ui://dragoman-b/same/page","openai/outputTemplate":"ui://dragoman-b/same/page"}`,
			`"resourceUri":"ui://mine/page"`)
		n.expect("resources/list", "", `[{"uri":"ui://same/page","name":"p"},{"uri":"skill://same/a.md","name":"f"},{"uri":"x://every","name":"x"},`+
			`{"uri":"ui://dragoman-b/same/page","name":"p"},{"uri":"skill://dragoman-b/same/a.md","name":"f"},`+
			`{"uri":"ui://mine/page","name":"p"},{"uri":"skill://mine/a.md","name":"f"}]`)
		n.expect("resources/templates/list", "", `[{"uriTemplate":"ui://same/page/{part}","name":"t"},{"uriTemplate":"x://every/{x}","name":"x"},`+
			`{"uriTemplate":"ui://dragoman-b/same/page/{part}","name":"t"},{"uriTemplate":"ui://mine/page/{part}","name":"t"}]`)
		n.expect("skills/list", "", `"skills":[{"uri":"skill://same/SKILL.md",`, `[{"uri":"skill://mine/SKILL.md","digest"`,
			`{"uri":"skill://dragoman-b/same/SKILL.md","frontmatter":{"name":"s"},"resources":[{"uri":"skill://dragoman-b/same/SKILL.md","digest":"sha256:00"},{"uri":"skill://dragoman-b/same/a.md","digest":"sha256:01"}]}`)
		// Requests and their answers.
		for server, at := range map[string]string{"a": "same", "b": "dragoman-b/same", "c": "mine"} {
			for _, uri := range []string{"ui://" + at + "/page", "ui://" + at + "/page/unlisted", "skill://" + at + "/a.md", "skill://" + at + "/b/unlisted.md"} {
				n.expect("resources/read", `"uri":"`+uri+`"`, "I am "+server, `"uri":"`+uri+`"`)
			}
			n.expect("resources/read", `"uri":"ui://`+at+`/page/none"`, `{"uri":"ui://`+at+`/page/none"}`, `"error"`)
			n.expect("skills/get", `"uri":"skill://`+at+`/SKILL.md"`, `{"uri":"skill://`+at+`/SKILL.md","frontmatter"`, `{"uri":"skill://`+at+`/a.md","digest":"sha256:01"}`)
			n.expect("resources/directory/read", `"uri":"skill://`+at+`"`, `{"uri":"skill://`+at+`/a.md","name":"a.md"}`)
			n.expect("tools/call", `"name":"`+server+`__t"`, "I am "+server, `"uri":"ui://`+at+`/page"`, `"uri":"skill://`+at+`/a.md"`)
			n.expect("prompts/get", `"name":"`+server+`__p"`, `"uri":"ui://`+at+`/page"`, `"uri":"skill://`+at+`/a.md"`)
			n.expect("completion/complete", `"ref":{"type":"ref/resource","uri":"ui://`+at+`/page/{part}"},"argument":{"name":"part","value":""}`, "I am "+server)
		}
		// The servers see their own URIs only.
		for _, s := range []*uriServer{a, b, c} {
			for i := range s.opened() {
				l := s.link(t, i)
				l.mu.Lock()
				for _, m := range l.seen {
					if strings.Contains(string(m.Raw), "dragoman-b") {
						t.Errorf("server %s got %s", s.name, m.Raw)
					}
				}
				l.mu.Unlock()
			}
		}
	})
}

// TestSharedURIsOfALaterServer lets a server offer the URI of another one while clients use it. The
// clients' URIs keep their meaning.
func TestSharedURIsOfALaterServer(t *testing.T) {
	inEachPair(t, func(t *testing.T, client, server bool) {
		a, b := newURIServer("a", "late", server), newURIServer("b", "early", server)
		w := build(t, &a.testServer, &b.testServer)
		n, innocent := w.uriClient(client), w.uriClient(!client)
		n.expect("tools/list", "", `"resourceUri":"ui://late/page"`, `"resourceUri":"ui://early/page"`)
		// Server a comes first in the configuration, but b has the URI already.
		a.mu.Lock()
		a.page = "ui://early/page"
		a.mu.Unlock()
		for _, kind := range []string{"tools", "resources"} {
			if a.modern {
				a.mu.Lock()
				for l, id := range a.listens {
					l.say(`{"jsonrpc":"2.0","method":"notifications/` + kind + `/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`)
				}
				a.mu.Unlock()
			} else {
				a.link(t, 0).say(`{"jsonrpc":"2.0","method":"notifications/` + kind + `/list_changed"}`)
			}
			n.rest()
		}
		w.host.(interface{ Changed(server, kind string) }).Changed("a", "tools")
		for _, c := range []*uriClient{n, innocent} {
			c.expect("tools/list", "", `"resourceUri":"ui://dragoman-a/early/page"`, `"resourceUri":"ui://early/page"`)
			c.expect("resources/read", `"uri":"ui://early/page"`, "I am b")
			c.expect("resources/read", `"uri":"ui://dragoman-a/early/page"`, "I am a")
			c.expect("tools/call", `"name":"a__t"`, `"uri":"ui://dragoman-a/early/page"`)
			c.expect("tools/call", `"name":"b__t"`, `"uri":"ui://early/page"`)
			// The old URI still leads to its server, and nobody else gets it.
			c.expect("resources/read", `"uri":"ui://late/page"`, "I am a")
		}
	})
}

// TestUpdatesOfSharedURIs subscribes to a resource that two servers have.
func TestUpdatesOfSharedURIs(t *testing.T) {
	inEachPair(t, func(t *testing.T, client, server bool) {
		a, b, c := newURIServer("a", "same", server), newURIServer("b", "same", server), newURIServer("c", "mine", server)
		w := build(t, &a.testServer, &b.testServer, &c.testServer)
		uris := []string{"ui://same/page", "ui://dragoman-b/same/page"}
		subscribe := func(all ...string) *uriClient {
			n := w.uriClient(client)
			n.ask("tools/list", "")
			if !client {
				for _, uri := range all {
					n.expect("resources/subscribe", `"uri":"`+uri+`"`, `"result"`)
				}
				n.rest()
				return n
			}
			n.say(modernRequest("99", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+strings.Join(all, `","`)+`"]}`, `{}`))
			ack := n.rest()
			for _, uri := range all {
				if len(ack) != 1 || !strings.Contains(ack[0], `"`+uri+`"`) {
					t.Errorf("the acknowledgement is %s", ack)
				}
			}
			return n
		}
		both, first, second := subscribe(uris...), subscribe(uris[0]), subscribe(uris[1])
		hears := func(who string, n *uriClient, want ...string) {
			t.Helper()
			got := n.rest()
			if len(got) != len(want) {
				t.Errorf("%s got %q, want %q", who, got, want)
				return
			}
			for i, uri := range want {
				if !strings.Contains(got[i], `"uri":"`+uri+`"`) {
					t.Errorf("%s got %s, want %s", who, got[i], uri)
				}
			}
		}
		b.update("ui://same/page")
		hears("both", both, uris[1])
		hears("first", first)
		hears("second", second, uris[1])
		a.update("ui://same/page")
		hears("both", both, uris[0])
		hears("first", first, uris[0])
		hears("second", second)
		if client {
			return
		}
		both.expect("resources/unsubscribe", `"uri":"`+uris[1]+`"`, `"result"`)
		b.update("ui://same/page")
		a.update("ui://same/page")
		hears("both", both, uris[0])
		hears("second", second, uris[1])
	})
}

// TestSharedURIInAText calls a tool for a client whose revision has no links, so that the link
// becomes a text.
func TestSharedURIInAText(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := newURIServer("a", "same", true), newURIServer("b", "same", true)
		n := &uriClient{testClient: build(t, &a.testServer, &b.testServer).client()}
		n.say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`)
		n.answerTo(`"init"`)
		n.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		n.ask("tools/list", "")
		n.expect("tools/call", `"name":"b__t"`, `"text":"n: ui://dragoman-b/same/page"`)
		n.expect("tools/call", `"name":"a__t"`, `"text":"n: ui://same/page"`)
	})
}
