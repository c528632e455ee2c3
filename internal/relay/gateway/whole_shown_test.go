package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// The tests in this file record which parts of the lists of one or several servers clients see.

// listServer is a server of either era with tools, prompts, resources and templates. It answers
// requests for unknown items with an error, and answers list requests in pages.
type listServer struct {
	*testServer
	mu    sync.Mutex
	lists map[string][]string // names or URIs; the key is the method
	size  int                 // number of items of a page; 0 for all
	asked int                 // number of requests except the handshake and listens
}

func newListServer(modern, hides bool) *listServer {
	s := &listServer{
		testServer: &testServer{modern: modern, caps: `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{}}`},
		lists: map[string][]string{
			mcp.MethodListTools:     {"one", "hid-a", "two", "three", "hid-b", "four"},
			mcp.MethodListPrompts:   {"one", "hid-a"},
			mcp.MethodListResources: {"x:one", "x:hid-a"},
			mcp.MethodListTemplates: {"y:one/{v}", "y:hid-a/{v}"},
		},
	}
	if hides {
		s.shows = func(name string) bool { return !strings.Contains(name, "hid-") }
	}
	s.on = s.take
	return s
}

func (s *listServer) take(l *testSession, m *jsonrpc.Message) {
	if m.Method == mcp.MethodListen {
		l.acknowledge(m)
		return
	}
	if m.Kind != jsonrpc.Request {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if method := mcp.LookupMethod(m.Method); method != nil && method.ListKey != "" {
		s.page(l, m, method)
		return
	}
	var name, kind string
	switch m.Method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		name, _ = jsonrpc.Text(m.Raw, m.Param("name"))
		kind = map[string]string{mcp.MethodCallTool: mcp.MethodListTools, mcp.MethodGetPrompt: mcp.MethodListPrompts}[m.Method]
	case mcp.MethodReadResource, mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		name, _ = jsonrpc.Text(m.Raw, m.Param("uri"))
		kind = mcp.MethodListResources
	}
	if kind != "" && !slices.Contains(s.lists[kind], name) {
		l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32602,"message":"the server has no ` + name + `"}}`)
		return
	}
	l.answer(m, `{"resultType":"complete","content":[],"contents":[],"messages":[],"completion":{"values":[]},"ttlMs":60000,"cacheScope":"public"}`)
}

// page answers a list request. The cursor is an index into the list.
func (s *listServer) page(l *testSession, m *jsonrpc.Message, method *mcp.Method) {
	all := s.lists[m.Method]
	from := 0
	if text, ok := jsonrpc.Text(m.Raw, m.Param("cursor")); ok {
		_, _ = fmt.Sscanf(text, "at %d", &from)
	}
	rest := all[min(from, len(all)):]
	next := ""
	if s.size > 0 && len(rest) > s.size {
		rest = rest[:s.size]
		next = fmt.Sprintf(`,"nextCursor":"at %d"`, from+s.size)
	}
	var items []string
	for _, name := range rest {
		items = append(items, map[string]string{
			mcp.MethodListTools:     `{"name":"` + name + `","inputSchema":{}}`,
			mcp.MethodListPrompts:   `{"name":"` + name + `"}`,
			mcp.MethodListResources: `{"uri":"` + name + `","name":"n"}`,
			mcp.MethodListTemplates: `{"uriTemplate":"` + name + `","name":"n"}`,
		}[m.Method])
	}
	l.answer(m, `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","`+method.ListKey+`":[`+strings.Join(items, ",")+`]`+next+`}`)
}

// asks returns how many requests arrived since the previous call of asks.
func (s *listServer) asks() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked
	s.asked = 0
	return n
}

// change replaces the tools and notifies all sessions and listens.
func (s *listServer) change(t *testing.T, tools ...string) {
	s.mu.Lock()
	if tools != nil {
		s.lists[mcp.MethodListTools] = tools
	}
	s.mu.Unlock()
	s.tell(t, mcp.NoteToolsChanged)
}

// listViews are the ways in which the gateway presents servers to clients.
var listViews = []struct {
	name    string
	servers int
	hides   bool
}{{"single", 1, false}, {"filtered", 1, true}, {"merged", 2, false}, {"merged and filtered", 2, true}}

// forListViews runs f for each element of listViews, and for each combination of client era and
// server era. f gets the first server.
func forListViews(t *testing.T, out *strings.Builder, f func(s *listServer, c *caller, prefix string)) {
	for _, serverIsModern := range []bool{false, true} {
		for _, clientIsModern := range []bool{false, true} {
			for _, x := range listViews {
				inBubble(t, func(t *testing.T) {
					title := fmt.Sprintf("# %s: %s server, %s client\n", x.name, eraOf(serverIsModern), eraOf(clientIsModern))
					out.WriteString(title)
					begun := out.Len()
					s := newListServer(serverIsModern, x.hides)
					all, prefix := []*testServer{s.testServer}, ""
					if x.servers > 1 {
						other := newListServer(serverIsModern, x.hides)
						other.lists = map[string][]string{mcp.MethodListTools: {"other"}}
						all, prefix = append(all, other.testServer), "a__"
					}
					w := build(t, all...)
					f(s, w.callerAs("nobody", clientIsModern, `{}`), prefix)
					if out.Len() == begun {
						text := strings.TrimSuffix(out.String(), title)
						out.Reset()
						out.WriteString(text)
					}
				})
			}
		}
	}
}

// TestHiddenLooksUnknown records the answers for hidden items and for items that do not exist,
// and how many requests the server gets. If these answers differed, a client could find out which
// items are hidden.
func TestHiddenLooksUnknown(t *testing.T) {
	var out strings.Builder
	forListViews(t, &out, func(s *listServer, c *caller, prefix string) {
		if s.shows == nil {
			return
		}
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates} {
			c.ask(method, "")
		}
		c.rest()
		s.asks()
		for _, r := range []struct{ method, params string }{
			{mcp.MethodCallTool, `"name":"%sNAME","arguments":{}`},
			{mcp.MethodGetPrompt, `"name":"%sNAME"`},
			{mcp.MethodReadResource, `"uri":"x:NAME"`},
			{mcp.MethodReadResource, `"uri":"y:NAME/1"`},
			{mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"%sNAME"},"argument":{"name":"a","value":""}`},
			{mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"y:NAME/{v}"},"argument":{"name":"v","value":""}`},
			{mcp.MethodSubscribe, `"uri":"x:NAME"`},
			{mcp.MethodUnsubscribe, `"uri":"x:NAME"`},
			{mcp.MethodListen, `"notifications":{"resourceSubscriptions":["x:NAME"]}`},
		} {
			var answers []string
			for _, name := range []string{"hid-a", "unk-a"} {
				params := strings.ReplaceAll(strings.ReplaceAll(r.params, "%s", prefix), "NAME", name)
				id := c.start(r.method, params)
				time.Sleep(time.Second)
				synctest.Wait()
				var m *jsonrpc.Message
				for len(c.in) > 0 {
					if x := <-c.in; string(x.ID) == id || x.Method == mcp.NoteAcknowledged {
						m = x
					}
				}
				answer := "nothing"
				switch {
				case m == nil:
				case m.Method != "":
					answer = string(m.Param("notifications").Of(m.Raw))
				case m.Kind == jsonrpc.Failure:
					answer = string(m.Error.Of(m.Raw))
				default:
					answer = "result"
				}
				answers = append(answers, fmt.Sprintf("%s, %d requests", strings.ReplaceAll(answer, name, "NAME"), s.asks()))
			}
			if answers[0] == answers[1] {
				fmt.Fprintf(&out, "%s %s: both %s\n", r.method, r.params, answers[0])
			} else {
				fmt.Fprintf(&out, "%s %s:\n  hidden  %s\n  unknown %s\n", r.method, r.params, answers[0], answers[1])
			}
		}
	})
	golden(t, "hidden.txt", out.String())
}

// pages reads all pages of a list and describes each page.
func (c *caller) pages(method string) string {
	c.t.Helper()
	var all []string
	for params := ""; ; {
		m := c.ask(method, params)
		all = append(all, pageOf(m, method))
		next := m.ResultMember("nextCursor")
		if next.IsZero() || len(all) > 20 {
			return strings.Join(all, " | ")
		}
		params = `"cursor":` + string(next.Of(m.Raw))
	}
}

// pageOf describes a page of a list: its items, or only the first and the last of many items, and
// its caching members.
func pageOf(m *jsonrpc.Message, method string) string {
	if m.Kind == jsonrpc.Failure {
		return string(m.Error.Of(m.Raw))
	}
	key := map[string]string{mcp.MethodListResources: "uri", mcp.MethodListTemplates: "uriTemplate"}[method]
	if key == "" {
		key = "name"
	}
	var names []string
	for item := range jsonrpc.Elements(m.Raw, m.ResultMember(mcp.LookupMethod(method).ListKey)) {
		name, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, item, key))
		names = append(names, name)
	}
	out := strings.Join(names, " ")
	if len(names) > 10 {
		out = fmt.Sprintf("%d from %s to %s", len(names), names[0], names[len(names)-1])
	}
	for _, k := range []string{"cacheScope", "ttlMs"} {
		if at := m.ResultMember(k); !at.IsZero() {
			out += fmt.Sprintf(" %s=%s", k, at.Of(m.Raw))
		}
	}
	return out
}

// TestListsAsShown records each list, page by page, with its caching members and the number of
// requests to the server.
func TestListsAsShown(t *testing.T) {
	var out strings.Builder
	forListViews(t, &out, func(s *listServer, c *caller, _ string) {
		s.size = 2
		c.rest()
		s.asks()
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates} {
			first := c.pages(method)
			n := s.asks()
			again := c.pages(method)
			fmt.Fprintf(&out, "%s: %s\n  the server is asked %d times, and %d times more for the same again\n", method, first, n, s.asks())
			if again != first {
				fmt.Fprintf(&out, "  then %s\n", again)
			}
		}
	})
	golden(t, "lists.txt", out.String())
}

// TestChangesOfListsAsShown records what a client gets when visible tools, hidden tools, or no
// tools of a server change. It also records how often Dragoman reads the tools from the server.
func TestChangesOfListsAsShown(t *testing.T) {
	var out strings.Builder
	forListViews(t, &out, func(s *listServer, c *caller, _ string) {
		if c.modern {
			c.start(mcp.MethodListen, `"notifications":{"toolsListChanged":true}`)
		}
		c.pages(mcp.MethodListTools)
		c.rest()
		for _, change := range []struct {
			what  string
			tools []string
		}{
			{"a tool that is seen comes", []string{"one", "hid-a", "two", "new"}},
			{"a hidden tool comes", []string{"one", "hid-a", "two", "new", "hid-c"}},
			{"nothing has changed", nil},
			{"the order changes", []string{"new", "two", "one", "hid-a"}},
		} {
			time.Sleep(time.Minute)
			s.asks()
			s.change(c.t, change.tools...)
			time.Sleep(10 * time.Second)
			var heard []string
			for _, raw := range c.rest() {
				m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
				if err != nil {
					c.t.Fatal(err)
				}
				heard = append(heard, m.Method)
			}
			asked := s.asks()
			tools := c.pages(mcp.MethodListTools)
			fmt.Fprintf(&out, "%s: hears %v; the server is asked %d times, and %d times for %s\n", change.what, heard, asked, s.asks(), tools)
		}
	})
	golden(t, "lists_changed.txt", out.String())
}

// TestCursorsAcrossAChange records what a client gets for a cursor after the list has changed.
// The client must get every item after the cursor, and no item twice.
func TestCursorsAcrossAChange(t *testing.T) {
	const n = 1100
	tools := func(from int, more ...string) (all []string) {
		for i := from; i < n; i++ {
			kind := "t"
			if i%4 == 3 {
				kind = "hid-"
			}
			all = append(all, fmt.Sprintf("%s%04d", kind, i))
		}
		return append(more, all...)
	}
	var out strings.Builder
	for _, change := range []struct {
		what  string
		tools []string
	}{
		{"nothing", tools(0)},
		{"ten tools come before all", tools(0, "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9")},
		{"ten hidden tools come before all", tools(0, "hid-a0", "hid-a1", "hid-a2", "hid-a3", "hid-a4", "hid-a5", "hid-a6", "hid-a7", "hid-a8", "hid-a9")},
		{"the first ten go", tools(10)},
		{"the whole first page goes", tools(900)},
		{"all go", []string{"last"}},
	} {
		fmt.Fprintf(&out, "\n%s\n", change.what)
		forListViews(t, &out, func(s *listServer, c *caller, _ string) {
			if s.modern != c.modern {
				return // the results do not depend on the eras
			}
			s.size = 500
			s.lists[mcp.MethodListTools] = tools(0)
			first := c.ask(mcp.MethodListTools, "")
			c.rest()
			s.change(c.t, change.tools...)
			time.Sleep(time.Minute)
			second := c.ask(mcp.MethodListTools, `"cursor":`+string(first.ResultMember("nextCursor").Of(first.Raw)))
			fmt.Fprintf(&out, "%s | %s\n", pageOf(first, mcp.MethodListTools), pageOf(second, mcp.MethodListTools))
		})
	}
	golden(t, "cursors.txt", out.String())
}
