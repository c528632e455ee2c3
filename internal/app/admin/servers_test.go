package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestServers checks the servers with their tools, resources and prompts. It also checks the
// items that the configuration hides, with the reasons.
func TestServers(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy, func(s *config.Server) {
		s.Expose.Tools = config.Filter{Deny: []string{"re*"}}
		s.Expose.Prompts = config.Filter{Allow: []string{"nothing"}}
	}), demoServer(t, "new", demo.Modern, func(s *config.Server) { s.Prefix = "neo" }), demoServer(t, "lazy", demo.Legacy, func(s *config.Server) { s.Lazy = true }))
	r.ready("old", "new")

	var all Servers
	r.get("/api/v1/servers?limit=2", &all)
	if all.Total != 3 || len(all.Servers) != 2 || all.Servers[0].Name != "old" || all.Servers[1].Prefix != "neo" || all.Next == "" {
		t.Fatalf("%+v", all)
	}
	if s := all.Servers[0]; s.Tools == nil || *s.Tools != 3 || s.Hidden < 2 || s.Tokens == 0 || s.Endpoint != "/s/old/mcp" || s.Transport != "stdio" || s.Sessions != 1 {
		t.Errorf("old: %+v", s)
	}
	next := all.Next
	all = Servers{}
	r.get("/api/v1/servers?limit=2&cursor="+url.QueryEscape(next), &all)
	if len(all.Servers) != 1 || all.Servers[0].Name != "lazy" || all.Servers[0].Tools != nil || !all.Servers[0].Lazy || all.Next != "" {
		t.Errorf("the second page: %+v", all)
	}

	var one ServerDetail
	r.get("/api/v1/servers/old", &one)
	if one.Name != "old" || one.Handshake == nil || len(one.Sessions) != 1 || one.Instructions == "" || !strings.Contains(string(one.Info), "demo-") || one.Cost.Tools == 0 || one.Cost.Hidden == 0 || one.Cost.Instructions == 0 {
		t.Errorf("%+v", one)
	}
	if text := r.ask(http.MethodGet, "/api/v1/servers/old", "").body; strings.Contains(text, "hunter2") || !strings.Contains(text, "API_TOKEN") {
		t.Errorf("the settings: %s", text)
	}

	var shake Handshakes
	r.do(http.MethodGet, "/api/v1/servers/old/handshake", "").into(t, &shake)
	if n := len(shake.Steps); shake.At == nil || n == 0 || !strings.Contains(shake.Steps[n-1].Sent+shake.Steps[0].Sent, "initialize") || !strings.Contains(shake.Steps[0].Answer+shake.Steps[n-1].Answer, "jsonrpc") && !strings.Contains(shake.Steps[0].Answer, "error") {
		t.Errorf("the handshake: %+v", shake)
	}
	var tools Tools
	r.get("/api/v1/servers/old/tools", &tools)
	states := map[string]Tool{}
	for _, x := range tools.Tools {
		states[x.Name] = x
	}
	if x := states["greet"]; tools.Total != 5 || x.State != shown || x.Offered != "old__greet" || x.Tokens == 0 || !strings.HasPrefix(x.Signature, "greet(name: string)") || len(x.Hidden) != 0 {
		t.Errorf("greet: %+v", x)
	}
	if x := states["recall"]; x.State != hidden || len(x.Hidden) != 2 || x.Hidden[0].Endpoint != "/mcp" || x.Hidden[1].Endpoint != "/s/old/mcp" || x.Hidden[0].Rule != "expose.tools.deny: re*" {
		t.Errorf("recall: %+v", x)
	}
	var greet ToolDetail
	r.get("/api/v1/servers/old/tools/greet", &greet)
	if len(greet.Arguments) != 1 || greet.Arguments[0].Name != "name" || !greet.Arguments[0].Required || !strings.Contains(string(greet.Definition), `"inputSchema"`) || greet.Returns != "content" {
		t.Errorf("%+v", greet)
	}

	var items Items
	list := func(path string) {
		t.Helper()
		await(t, path+" is read", func() bool {
			items = Items{}
			r.get(path, &items)
			return items.Read
		})
	}
	list("/api/v1/servers/old/prompts")
	if len(items.Items) != 1 || !items.Read || items.Items[0].Name != "haiku" || items.Items[0].Offered != "old__haiku" || len(items.Items[0].Arguments) != 1 || items.Items[0].State != hidden || items.Items[0].Hidden[0].Rule != "expose.prompts.allow" {
		t.Errorf("prompts: %+v", items)
	}
	list("/api/v1/servers/old/resources")
	if len(items.Items) == 0 || items.Items[0].URI != "demo://clock" || items.Items[0].MIMEType != "text/plain" || items.Items[0].State != shown {
		t.Errorf("resources: %+v", items)
	}
	list("/api/v1/servers/old/resource-templates")
	if len(items.Items) != 1 || !strings.Contains(items.Items[0].URITemplate, "{text}") {
		t.Errorf("templates: %+v", items)
	}
	items = Items{}
	r.get("/api/v1/servers/lazy/resources", &items)
	if items.Read || r.state("lazy") != "idle" {
		t.Errorf("reading a lazy server has started it, or has read its lists: %+v, %s", items, r.state("lazy"))
	}
	for path, want := range map[string]int{
		"/api/v1/servers/od": 404, "/api/v1/servers/od/tools": 404, "/api/v1/servers/old/tools/gret": 404, "/api/v1/servers/od/prompts": 404, "/api/v1/servers/od/log": 404,
		"/api/v1/servers?limit=0": 400, "/api/v1/servers?limit=501": 400, "/api/v1/servers?limit=x": 400, "/api/v1/servers?cursor=%21": 400, "/api/v1/tools?sort=x": 400,
		"/api/v1/tools?server=nobody": 404, "/api/v1/clients/7777": 404, "/api/v1/servers/old/nothing": 404, "/api/v1/": 404,
	} {
		a := r.ask(http.MethodGet, path, "")
		var p Problem
		if a.into(t, &p); a.status != want || a.header.Get("Content-Type") != "application/problem+json" || p.Status != want || !strings.HasPrefix(p.Type, problemURI) || p.Title == "" || p.Detail == "" || p.Instance == "" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := r.ask(http.MethodGet, "/api/v1/servers/od", ""); !strings.Contains(a.body, `Did you mean \"old\"?`) {
		t.Errorf("%s", a.body)
	}
	var log Logs
	r.get("/api/v1/servers/old/log", &log)
	for _, x := range log.Records {
		if x.Server != "old" {
			t.Errorf("%+v", x)
		}
	}
}

// TestToolSearch checks the list of all tools: the search by words, by effect and by state,
// the order, and the pages.
func TestToolSearch(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "a", demo.Legacy), demoServer(t, "b", demo.Legacy, func(s *config.Server) {
		s.Prefix = "a" // the tools of this server get the same names as those of a, so clients see those that were read first
	}), demoServer(t, "c", demo.Modern))
	r.ready("a", "b", "c")
	find := func(query string) (names string, out Tools) {
		r.get("/api/v1/tools?"+query, &out)
		for _, x := range out.Tools {
			names += " " + x.Server + ":" + x.Name
		}
		return strings.TrimSpace(names), out
	}
	if names, out := find("server=a&sort=name"); names != "a:ask_name a:count a:greet a:recall a:remember" || out.Total != 5 {
		t.Errorf("of a: %s", names)
	}
	if names, _ := find("q=GREET&server=a"); names != "a:greet a:ask_name" {
		t.Errorf("greet: %s", names)
	}
	if names, _ := find("q=gree&server=a"); names != "a:greet" {
		t.Errorf("the beginning of a name: %s", names)
	}
	if names, _ := find("q=count+cancel&server=a"); !strings.HasPrefix(names, "a:count") {
		t.Errorf("two words: %s", names)
	}
	if names, out := find("q=nosuchword"); names != "" || out.Tools == nil {
		t.Errorf("nothing: %q", names)
	}
	first, second := "a", "b"
	if _, out := find("server=a"); out.Tools[0].State == hidden {
		first, second = "b", "a"
	}
	if _, out := find("server=" + first); out.Tools[0].State != shown || out.Tokens == 0 {
		t.Errorf("first: %+v", out)
	}
	if _, out := find("server=" + second); out.Tools[0].State != hidden || len(out.Tools[0].Hidden) != 1 || out.Tools[0].Hidden[0].Endpoint != "/mcp" || !strings.Contains(out.Tools[0].Hidden[0].Why, strconv.Quote(first)) || out.Tokens != 0 {
		t.Errorf("shadowed: %+v", out)
	}
	if _, out := find("state=hidden"); out.Total != 5 {
		t.Errorf("hidden: %d", out.Total)
	}
	if _, out := find("sort=tokens"); out.Tools[0].Tokens < out.Tools[len(out.Tools)-1].Tokens {
		t.Error("not sorted by tokens")
	}
	seen, cursor := map[string]bool{}, ""
	for range 20 {
		_, out := find("limit=3&cursor=" + url.QueryEscape(cursor))
		for _, x := range out.Tools {
			if seen[x.Server+x.Name] {
				t.Errorf("%s is in the list twice", x.Name)
			}
			seen[x.Server+x.Name] = true
		}
		if cursor = out.Next; cursor == "" {
			if len(seen) != out.Total {
				t.Errorf("%d of %d", len(seen), out.Total)
			}
			break
		}
	}
	before := slices.Collect(r.api.project.tools())
	if after := slices.Collect(r.api.project.tools()); len(after) == 0 || after[0] != before[0] {
		t.Error("the index was made again although nothing has changed")
	}
}

// TestClientList checks that the list has a client of each kind.
func TestClientList(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "a", demo.Legacy))
	r.ready("a")
	mcpAt := func(path, body string, header ...string) reply {
		return r.ask(http.MethodPost, path, body, append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, header...)...)
	}
	mcpAt("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{},"elicitation":{}},"clientInfo":{"name":"editor\u001b[31m","version":"1.2"}}}`)
	mcpAt("/s/a/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"modern","version":"2"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
	var all Clients
	r.get("/api/v1/clients", &all)
	if all.Total != 2 {
		t.Fatalf("%+v", all)
	}
	if c := all.Clients[0]; !c.Conversation || !strings.HasPrefix(c.Name, "editor") || strings.Contains(c.Name, "\x1b") || c.Version != "1.2" || c.Revision != "2025-06-18" || c.Era != "legacy" || c.Endpoint != "/mcp" || strings.Join(c.Capabilities, " ") != "elicitation roots" || c.Transport != "http" {
		t.Errorf("%+v", c)
	}
	if c := all.Clients[1]; c.Conversation || c.Name != "modern" || c.Revision != "2026-07-28" || c.Era != "modern" || c.Endpoint != "/s/a/mcp" || c.Server != "a" || c.Requests != 1 {
		t.Errorf("%+v", c)
	}
	var one Client
	r.get("/api/v1/clients/"+all.Clients[1].ID, &one)
	if one.Name != "modern" {
		t.Errorf("%+v", one)
	}
}

// TestOperations checks that an operation needs the key and changes only one server.
func TestOperations(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "a", demo.Legacy), demoServer(t, "b", demo.Modern))
	r.ready("a", "b")
	for name, header := range map[string][]string{
		"no key": {}, "a wrong key": {"Authorization", "Bearer x"}, "another site": {"Authorization", r.key(), "Sec-Fetch-Site", "cross-site"},
		"a proxy": {"Authorization", r.key(), "X-Forwarded-For", "10.0.0.1"}, "another host": {"Authorization", r.key(), "Host", "evil.example"},
		"another origin": {"Authorization", r.key(), "Origin", "http://evil.example"},
	} {
		if a := r.ask(http.MethodPost, "/api/v1/servers/a/stop", "", header...); a.status != 401 && a.status != 403 || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := r.ask(http.MethodGet, "/api/v1/servers/a/stop", "", "Authorization", r.key()); a.status != 405 || a.header.Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", a.status, a.header)
	}
	if s := r.state("a"); s != "ready" {
		t.Fatalf("a is %s", s)
	}
	operate := func(path, state string) {
		t.Helper()
		var out Operated
		a := r.do(http.MethodPost, "/api/v1/servers/"+path, "")
		if a.into(t, &out); a.status != http.StatusAccepted || out.State != state && state != "" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	var before, after ServerDetail
	r.get("/api/v1/servers/b", &before)
	operate("a/stop", "stopped")
	r.runtime.Apply(event.DefaultProject, r.runtime.Default().Current()) // a reload without changes
	r.runtime.Default().Warm()
	var stopped ServerDetail
	r.get("/api/v1/servers/a", &stopped)
	if f := stopped.Failure; stopped.State != "stopped" || f == nil || f.Class != "stopped" || f.Sentence != "server \"a\" was stopped by an operator with `dragoman stop` or the admin API" || f.Action == "" {
		t.Errorf("%+v", stopped.Server)
	}
	if a := r.ask(http.MethodPost, "/s/a/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"x"}}}`, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"); !strings.Contains(a.body, `was stopped by an operator`) {
		t.Errorf("a call of a stopped server: %s", a.body)
	}
	if a := r.ask(http.MethodGet, "/readyz", ""); a.status != 200 || !strings.Contains(a.body, "some servers were stopped by an operator") {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	operate("a/start", "")
	await(t, "a is ready", func() bool { return r.state("a") == "ready" })
	operate("a/restart", "")
	await(t, "a is ready again", func() bool { return r.state("a") == "ready" })
	operate("a/probe", "")
	await(t, "a is ready after the probe", func() bool { return r.state("a") == "ready" })
	r.get("/api/v1/servers/b", &after)
	if len(after.Sessions) != 1 || !after.Since.Equal(before.Since) || after.Sessions[0].PID != before.Sessions[0].PID {
		t.Errorf("the operation changed the server b: %+v, before %+v", after.Server, before.Server)
	}
	if a := r.do(http.MethodPost, "/api/v1/servers/nobody/stop", ""); a.status != 404 {
		t.Errorf("nobody: %d", a.status)
	}
}
