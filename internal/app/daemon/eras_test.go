//go:build unix

package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// bothEras returns servers of both eras on both transports, and the names of all their tools in the
// merged list.
func bothEras(t *testing.T) (all []*upstreamUnderTest, names []string) {
	t.Helper()
	const tools = `{"name":"echo","inputSchema":{"type":"object"}},{"name":"count","inputSchema":{"type":"object"}}`
	few := func(s *webServer) { s.tools = tools }
	all = []*upstreamUnderTest{
		child(t, "oldpipe", "legacy:5"), child(t, "newpipe", "modern:5"),
		newWeb(t, false, few).as(t, "oldweb"), newWeb(t, true, few).as(t, "newweb"),
	}
	for _, server := range []string{"oldpipe", "newpipe"} {
		for i := range 5 {
			names = append(names, fmt.Sprintf("%s__t%04d", server, i))
		}
	}
	for _, server := range []string{"oldweb", "newweb"} {
		names = append(names, server+"__echo", server+"__count")
	}
	return all, names
}

// walk reads all pages of tools/list and returns the names of the tools.
func walk(t testing.TB, page func(params string) *jsonrpc.Message) (names []string) {
	t.Helper()
	params := ""
	for range 100 {
		m := page(params)
		if m.Kind != jsonrpc.Result {
			t.Fatalf("tools/list: %s", m.Raw)
		}
		names = append(names, namesOf(m)...)
		next := m.ResultMember("nextCursor")
		if next.IsZero() {
			return names
		}
		params = `"cursor":` + string(next.Of(m.Raw))
	}
	t.Fatal("the list does not end")
	return nil
}

func namesOf(m *jsonrpc.Message) (names []string) {
	for e := range jsonrpc.Elements(m.Raw, m.ResultMember("tools")) {
		name, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, e, "name"))
		names = append(names, name)
	}
	return names
}

func sameNames(t testing.TB, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		t.Errorf("the list has %q, want %q", got, want)
	}
}

// joined waits until no server is missing from the merged list. The first list waits only a limited
// time for servers, and on a busy machine a server may start later.
func (r *rig) joined() {
	r.t.Helper()
	await(r.t, "all servers are in the list", 20*time.Second, func() bool {
		return !strings.Contains(r.modern("/mcp", "1", "tools/list", "", "").body, mcp.KeyMissing)
	})
}

// answers fails the test unless m is the expected result of the tool. The tools of bothEras have
// different results.
func answers(t testing.TB, tool string, m *jsonrpc.Message) {
	t.Helper()
	_, own, _ := strings.Cut(tool, "__")
	text := toolText(m)
	if m.Kind != jsonrpc.Result || text == "" || own[0] == 't' && text != own || own == "echo" && text != `{"v":1}` {
		t.Errorf("%s: %s", tool, m.Raw)
	}
}

// TestT1_ModernClient checks that a client that knows only 2026-07-28 can list and call all tools
// of servers of both eras through one endpoint. Every answer has the form of 2026-07-28.
func TestT1_ModernClient(t *testing.T) {
	t.Parallel()
	all, names := bothEras(t)
	r := serve(t, snapshot(all...))
	modern := func(m *jsonrpc.Message) {
		t.Helper()
		if kind, _ := jsonrpc.Text(m.Raw, m.ResultMember("resultType")); kind != "complete" {
			t.Errorf("not a modern result: %.300s", m.Raw)
		}
	}
	modern(r.modern("/mcp", "1", "server/discover", "", "").message(t))
	r.joined()
	sameNames(t, walk(t, func(params string) *jsonrpc.Message {
		m := r.modern("/mcp", "1", "tools/list", "", params).message(t)
		if modern(m); m.ResultMember("ttlMs").IsZero() || m.ResultMember("cacheScope").IsZero() {
			t.Errorf("a list without the required members: %.200s", m.Raw)
		}
		return m
	}), names)
	for _, tool := range names {
		a := r.call("/mcp", tool, `{"v":1}`)
		m := a.message(t)
		modern(m)
		answers(t, tool, m)
		if a.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: a modern client got a session", tool)
		}
	}
}

// TestT2_LegacyClient checks each legacy revision with a client that knows only this revision and
// uses its transport. The client can list and call all tools of servers of both eras.
func TestT2_LegacyClient(t *testing.T) {
	t.Parallel()
	all, names := bothEras(t)
	r := serve(t, snapshot(all...))
	r.joined()
	check := func(t *testing.T, call func(id int, method, params string) *jsonrpc.Message) {
		t.Helper()
		id := 1
		sameNames(t, walk(t, func(params string) *jsonrpc.Message {
			id++
			return call(id, "tools/list", params)
		}), names)
		for _, tool := range names {
			id++
			answers(t, tool, call(id, "tools/call", `"name":"`+tool+`","arguments":{"v":1}`))
		}
	}
	request := func(id int, method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s}}`, id, method, params)
	}
	for _, rev := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(rev, func(t *testing.T) {
			session := []string{"Mcp-Session-Id", r.initialize("/mcp", rev, "{}")}
			if rev != "2025-03-26" { // 2025-06-18 §Transports, "Protocol Version Header"
				session = append(session, "MCP-Protocol-Version", rev)
			}
			check(t, func(id int, method, params string) *jsonrpc.Message {
				return r.post("/mcp", request(id, method, params), session...).message(t)
			})
		})
	}
	t.Run("2024-11-05", func(t *testing.T) {
		c := dialSSE(r, "/sse")
		c.open()
		check(t, func(id int, method, params string) *jsonrpc.Message {
			c.send(request(id, method, params))
			return c.answerTo(fmt.Sprint(id))
		})
	})
}

// open performs the handshake of 2024-11-05.
func (c *sseClient) open() {
	c.r.t.Helper()
	c.send(initializeBody("2024-11-05", "{}"))
	if m := c.answerTo("1"); !strings.Contains(string(m.Raw), `"protocolVersion":"2024-11-05"`) {
		c.r.t.Fatalf("initialize: %s", m.Raw)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// answerTo returns the answer with the id and drops all messages before that answer.
func (c *sseClient) answerTo(id string) *jsonrpc.Message {
	c.r.t.Helper()
	for {
		m := c.events.event()
		if m == nil {
			c.r.t.Fatal("the stream has ended")
		}
		if string(m.ID) == id && m.Kind != jsonrpc.Request {
			return m
		}
	}
}

// oldWeb is a server that supports only HTTP+SSE (2024-11-05 §Transports). The first event of its
// stream has the URL for POST. oldWeb refuses all other requests.
type oldWeb struct {
	mu      sync.Mutex
	streams map[string]chan []byte
	asking  *jsonrpc.Message // the call that waits for the client's answer to a server request
}

func (s *oldWeb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/sse":
		s.stream(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/messages":
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
		s.mu.Lock()
		out := s.streams[r.URL.Query().Get("of")]
		s.mu.Unlock()
		if err != nil || out == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		s.take(out, m)
	case r.URL.Path == "/sse":
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *oldWeb) stream(w http.ResponseWriter, r *http.Request) {
	out := make(chan []byte, 64)
	s.mu.Lock()
	name := fmt.Sprint(len(s.streams))
	s.streams[name] = out
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "event: endpoint\ndata: /messages?of="+name+"\n\n")
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case b := <-out:
			_, _ = fmt.Fprintf(w, "event: message\r\ndata: %s\r\n\r\n", b)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *oldWeb) take(out chan []byte, m *jsonrpc.Message) {
	result := func(m *jsonrpc.Message, text string) { out <- jsonrpc.AppendResult(nil, m.ID, []byte(text)) }
	answer := func(m *jsonrpc.Message, text []byte) {
		result(m, `{"content":[{"type":"text","text":`+string(jsonrpc.AppendQuote(nil, string(text)))+`}]}`)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure:
		answer(s.asking, m.ResultMember("model").Of(m.Raw))
	case m.Method == mcp.MethodInitialize:
		result(m, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`)
	case m.Method == mcp.MethodListTools:
		result(m, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"sample","inputSchema":{"type":"object"}}]}`)
	case m.Method == mcp.MethodCallTool:
		name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
		if token := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken); !token.IsZero() {
			out <- jsonrpc.AppendNotification(nil, mcp.NoteProgress, []byte(`{"progressToken":`+string(token.Of(m.Raw))+`,"progress":1}`))
		}
		if name == "sample" {
			s.asking = m
			out <- []byte(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
			return
		}
		answer(m, m.Param("arguments").Of(m.Raw))
	case m.Kind == jsonrpc.Request:
		out <- jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})
	}
}

// TestT27_ModernClientOldServer connects a client of 2026-07-28 with a server that supports only
// HTTP+SSE. In one run, Dragoman detects the transport; in the other, the configuration sets it.
// The client lists and calls tools, gets progress, and answers the server's requests.
func TestT27_ModernClientOldServer(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]config.Kind{"found out": 0, "configured": config.KindSSE} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := &oldWeb{streams: map[string]chan []byte{}}
			web := httptest.NewServer(s)
			defer web.Close()
			c, problem := config.Complete(config.Server{Name: "old", URL: web.URL + "/sse", Kind: kind})
			if problem != nil {
				t.Fatal(problem)
			}
			r := serve(t, snapshot(&upstreamUnderTest{Server: c}, child(t, "other", "modern")))
			defer func() { _ = r.stop() }() // stop Dragoman before web, because web.Close waits until Dragoman's streams end
			list := r.modern("/s/old/mcp", "1", "tools/list", "", "").message(t)
			sameNames(t, namesOf(list), []string{"echo", "sample"})
			r.call("/mcp", "old__echo", `{"v":1}`).wantText(t, `{"v":1}`)
			withToken := strings.Replace(modernBody("7", "tools/call", `"name":"old__echo","arguments":{}`), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
			a := r.post("/mcp", withToken, modernHeader("tools/call", "old__echo")...)
			if !strings.Contains(a.body, `"progressToken":"p"`) || toolText(a.message(t)) != "{}" {
				t.Errorf("progress: %s", a.body)
			}
			can := func(body string) string {
				return strings.Replace(body, `Capabilities":{}`, `Capabilities":{"sampling":{}}`, 1)
			}
			const call = `"name":"old__sample","arguments":{}`
			asked := r.post("/mcp", can(modernBody("8", "tools/call", call)), modernHeader("tools/call", "old__sample")...).message(t)
			state := string(asked.ResultMember("requestState").Of(asked.Raw))
			var key string
			for q := range jsonrpc.Members(asked.Raw, asked.ResultMember("inputRequests")) {
				key = string(q.Key.Of(asked.Raw))
			}
			if state == "" || key == "" {
				t.Fatalf("not asked: %s", asked.Raw)
			}
			retry := call + `,"requestState":` + state + `,"inputResponses":{` + key + `:{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}}`
			r.post("/mcp", can(modernBody("9", "tools/call", retry)), modernHeader("tools/call", "old__sample")...).wantText(t, `"m"`)
		})
	}
}

// TestT27_OldClientModernServer checks that a client of 2024-11-05 on HTTP+SSE can use modern
// servers on a pipe and over HTTP.
func TestT27_OldClientModernServer(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "pipe", "modern"), newWeb(t, true).as(t, "web")))
	for path, tools := range map[string][]string{"/sse": {"pipe__echo", "web__echo"}, "/s/pipe/sse": {"echo"}, "/s/web/sse": {"echo"}} {
		c := dialSSE(r, path)
		c.open()
		lists := 100
		await(t, path+": the list with "+tools[0], 30*time.Second, func() bool { // at first, the list may lack the tools of a server that is still starting
			lists++
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, lists))
			return slices.Contains(namesOf(c.answerTo(fmt.Sprint(lists))), tools[0])
		})
		for _, tool := range tools {
			c.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"v":1}}}`)
			if m := c.answerTo("3"); toolText(m) != `{"v":1}` {
				t.Errorf("%s %s: %s", path, tool, m.Raw)
			}
			c.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
			if m := c.answerTo("4"); !bytes.Contains(m.Raw, []byte(`"result"`)) {
				t.Errorf("%s: ping: %s", path, m.Raw)
			}
		}
		c.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"nothing","arguments":{}}}`)
		if m := c.answerTo("5"); errorCode(m) != -32602 {
			t.Errorf("%s: unknown tool: %s", path, m.Raw)
		}
		c.events.stop()
	}
}
