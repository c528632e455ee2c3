//go:build unix

package daemon

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// TestKeysOfTwoProjects lets three keys use forty servers of both eras in two projects, with a client of each era over
// Streamable HTTP and one over HTTP+SSE. Each sees the tools that its key may use and no others, and gets -32602 for
// the rest. Then one key is revoked: its stream ends within five seconds, and the others go on.
func TestKeysOfTwoProjects(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	few := func(s *webServer) { s.tools = `{"name":"echo","inputSchema":{"type":"object"}}` }
	servers := func(project string) (names []string, text string) {
		for n := range 20 {
			name := fmt.Sprintf("%s%02d", project, n)
			names, text = append(names, name), text+fmt.Sprintf("%s: {url: %q}, ", name, newWeb(t, n%2 == 0, few).web.URL+"/mcp")
		}
		return names, text
	}
	inDefault, ofDefault := servers("d")
	inShop, ofShop := servers("s")
	c, problems := config.Parse("dragoman.yaml", []byte("mcpServers: {"+ofDefault+"}\ndragoman: {access: {loopback: keys}, limits: {initializePerSecond: 1000}, projects: {shop: {mcpServers: {"+ofShop+"}, limits: {initializePerSecond: 1000}}}}\n"), nil)
	if c == nil {
		t.Fatal(problems)
	}
	r := serve(t, c, func(o *ServeOptions) { o.Database = database })
	desk := deskAt(t, database)
	all := slices.Concat(inDefault, inShop)
	type client struct {
		path string
		who  []string
		may  []string
		id   string
	}
	clients := map[string]*client{"all": {path: "", may: inDefault}, "few": {path: "", may: inDefault[:10]}, "shop": {path: "/p/shop", may: inShop}}
	for name, w := range map[string]access.Wish{"all": {Project: "default"}, "few": {Project: "default", Servers: []string{"d0*"}}, "shop": {Project: "shop"}} {
		w.Name, w.Role = name, identity.Caller
		clients[name].who, clients[name].id = makeKey(t, desk, w)
	}
	sees := func(what, list string, may []string) {
		t.Helper()
		for _, name := range all {
			if strings.Contains(list, `"`+name+`__echo"`) != slices.Contains(may, name) {
				t.Errorf("%s: %s is wrong in the list", what, name)
			}
		}
	}
	streams := map[string]*stream{}
	for name, x := range clients {
		lists := func() answer { return r.modern(x.path+"/mcp", "1", "tools/list", "", "", x.who...) }
		soon(t, name+" sees all its servers", func() bool { return strings.Count(lists().body, `__echo"`) == len(x.may) })
		sees(name+", modern", lists().body, x.may)
		session := append([]string{"Mcp-Session-Id", r.post(x.path+"/mcp", initializeBody("2025-11-25", "{}"), x.who...).header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}, x.who...)
		r.post(x.path+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
		streams[name] = r.open(http.MethodGet, x.path+"/mcp", "", append([]string{"Accept", "text/event-stream"}, session...)...)
		sees(name+", legacy", r.post(x.path+"/mcp", `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, session...).body, x.may)
		sse := dialSSE(r, x.path+"/sse", x.who...)
		sse.send(initializeBody("2024-11-05", "{}"))
		sse.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		over := func(id, body string) string {
			sse.send(body)
			for {
				switch m := sse.events.event(); {
				case m == nil:
					t.Fatalf("%s: the stream has ended", name)
				case string(m.ID) == id:
					return string(m.Raw)
				}
			}
		}
		sees(name+", SSE", over("3", `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`), x.may)
		for n, server := range all {
			if n%7 > 1 { // some of each
				continue
			}
			id, want := fmt.Sprint(10+n), slices.Contains(x.may, server)
			call := toolCall(id, server+"__echo", "{}")
			for how, body := range map[string]string{
				"modern": r.modern(x.path+"/mcp", id, "tools/call", server+"__echo", `"name":"`+server+`__echo","arguments":{}`, x.who...).body,
				"legacy": r.post(x.path+"/mcp", call, session...).body, "SSE": over(id, call),
			} {
				if strings.Contains(body, `"content"`) != want || strings.Contains(body, `"code":-32602`) == want {
					t.Errorf("%s, %s: a call of %s: %s", name, how, server, body)
				}
			}
		}
		sse.events.stop()
	}
	for name, path := range map[string]string{"all": "/p/shop/mcp", "few": "/p/shop/mcp", "shop": "/mcp"} {
		if a := r.modern(path, "1", "tools/list", "", "", clients[name].who...); a.status != 404 {
			t.Errorf("%s at %s: %d %s", name, path, a.status, a.body)
		}
	}
	if err := desk.Revoke(t.Context(), "local", clients["few"].id); err != nil {
		t.Fatal(err)
	}
	ended(t, streams["few"])
	if !goesOn(streams["all"]) || !goesOn(streams["shop"]) {
		t.Error("another key's stream has ended, too")
	}
}
