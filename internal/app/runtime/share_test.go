package runtime

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// shared returns a street on which the shop uses both servers of default, and the snapshot that both
// projects are from, made anew with other servers or settings of default.
func shared(t *testing.T, of func(default_ string) string) (*street, func(of func(string) string)) {
	s := newStreet(t, nil)
	servers := s.houses[event.DefaultProject].servers(t, "strict-2025-06-18")
	apply := func(of func(string) string) {
		all := snapshotOf(t, of(servers)+`dragoman:
  servers: {old: {expose: {tools: {deny: [add]}}}}
  projects: {shop: {use: [old, new], servers: {new: {prefix: fresh, expose: {tools: {allow: [echo, add]}}}}, expose: {tools: {deny: [wait]}}}}
`)
		s.Apply(event.DefaultProject, all)
		s.Apply("shop", all.Projects[0].Config)
	}
	apply(of)
	return s, apply
}

func same(text string) string { return text }

// TestAProjectUsesServersOfDefault calls the servers that a project shares with default, in both eras: they
// are the same servers, seen through the project's own filter, and the calls are the project's.
func TestAProjectUsesServersOfDefault(t *testing.T) {
	s, _ := shared(t, same)
	ann, shop := s.sites["ann"], s.Project("shop")
	for _, x := range shop.order {
		if x != s.Default().server(x.Name()) {
			t.Errorf("%s is a server of its own", x.Name())
		}
	}
	var published []string
	stop := s.events.Tap(event.Of(event.Call), func(e event.Event) { published = append(published, e.Project+" "+e.Server+" "+e.Name) })
	before := s.houses["shop"].executions("yes")
	ann.wants(200, `"text":"yes"`, "POST", "/p/shop/s/old/mcp", echoBody("yes", ""), echoHeader()...)
	ann.wants(200, `"text":"yes"`, "POST", "/p/shop/mcp", strings.Replace(echoBody("yes", ""), `"echo"`, `"fresh__echo"`, 1), append(echoHeader()[:5], "fresh__echo")...)
	id := ann.wants(200, `"result"`, "POST", "/p/shop/mcp", helloBody).Get("Mcp-Session-Id")
	session := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	ann.wants(200, `"text":"yes"`, "POST", "/p/shop/mcp", `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"old__echo","arguments":{"text":"yes"}}}`, session...)
	stop()
	if n := s.houses[event.DefaultProject].executions("yes"); n != 3 || s.houses["shop"].executions("yes") != before {
		t.Errorf("the servers of default got %d calls", n)
	}
	if got := fmt.Sprint(published); got != "[shop old echo shop new echo shop old echo]" {
		t.Errorf("published %s", got)
	}
	if d, p := len(s.Default().Calls().All()), len(shop.Calls().All()); d != 0 || p != 3 {
		t.Errorf("default has %d calls, and the shop %d", d, p)
	}
	list := strings.Replace(strings.Replace(modernBody, "tools/call", "tools/list", 1), `"name":"star","arguments":{},`, "", 1)
	listHeader := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}
	for path, want := range map[string]map[string]bool{
		"/p/shop/mcp": {"old__echo": true, "old__add": false, "old__wait": false, "fresh__echo": true, "fresh__add": true, "fresh__wait": false, "new__echo": false},
		"/mcp":        {"old__echo": true, "old__add": false, "old__wait": true, "new__add": true, "new__wait": true, "fresh__echo": false},
	} {
		_, _, all := ann.ask("POST", path, list, listHeader...)
		for name, shown := range want {
			if strings.Contains(all, `"`+name+`"`) != shown {
				t.Errorf("%s shows %s: %t", path, name, !shown)
			}
		}
	}
	ann.wants(200, "-32602", "POST", "/p/shop/s/old/mcp", strings.Replace(echoBody("no", ""), `"echo"`, `"wait"`, 1), append(echoHeader()[:5], "wait")...)
	h := s.houses[event.DefaultProject]
	lists := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return strings.Count(h.got.String(), `"method":"tools/list"`)
	}
	read := lists()
	ann.wants(200, `"old__echo"`, "POST", "/p/shop/mcp", list, listHeader...)
	if n := lists(); n != read {
		t.Fatalf("the server was asked for a list that is known, %d times", n-read)
	}
	s.Default().changed("old", "tools")
	for begun := time.Now(); lists() == read && time.Since(begun) < 10*time.Second; time.Sleep(time.Millisecond) {
		ann.wants(200, `"old__echo"`, "POST", "/p/shop/mcp", list, listHeader...)
	}
	if lists() == read {
		t.Error("the shop still shows the list before the change")
	}
	for _, op := range []Operation{OpStart, OpStop, OpRestart, OpProbe} {
		if err := shop.Operate("old", op, "in a test"); err != ErrShared {
			t.Errorf("%s in the shop: %v", op, err)
		}
	}
	s.bobGoesOn()
}

// TestSharedServersComeAndGo changes, removes and adds a server of default that a project uses, while the
// other goes on, and then removes the project.
func TestSharedServersComeAndGo(t *testing.T) {
	s, apply := shared(t, same)
	bob, shop := s.sites["bob"], s.Project("shop")
	works := func(server string) {
		t.Helper()
		bob.wants(200, `"text":"yes"`, "POST", "/p/shop/s/"+server+"/mcp", echoBody("yes", ""), echoHeader()...)
	}
	works("old")
	works("new")
	stays, generation := shop.server("new"), shop.merged()

	s.Apply(event.DefaultProject, s.Default().Current()) // nothing that the shop uses has changed
	if shop.merged() != generation {
		t.Error("the shop has a new gateway, although nothing has changed for it")
	}
	goes := shop.server("old")
	now := *s.Default().Current()
	now.Servers = nil
	for _, c := range s.Default().Current().Servers {
		if c.Name == "new" {
			now.Servers = append(now.Servers, c)
		}
	}
	s.Apply(event.DefaultProject, &now) // the shop isn't applied again, as if its part of the file were bad
	select {
	case <-goes.idle:
	case <-time.After(10 * time.Second):
		t.Error("the removed server is still in use")
	}
	if x := shop.server("old"); x == goes || shop.server("new") != stays || x.Status().State == stays.Status().State {
		t.Errorf("the shop has %+v", x.Status())
	}
	bob.wants(200, "the project default has no server old any more", "POST", "/p/shop/s/old/mcp", echoBody("yes", ""), echoHeader()...)
	works("new")
	apply(same)
	works("old")
	if shop.server("old") != s.Default().server("old") || shop.server("new") != stays {
		t.Error("the servers are not shared again")
	}
	apply(func(text string) string { return text + "  own: {command: /nothing/here}\n" })
	if s.Default().Shares("own") || !shop.Shares("old") || shop.server("own") != nil {
		t.Error("a server of default that the shop doesn't use is in the shop")
	}

	if !s.Remove("shop") {
		t.Fatal("there is no shop")
	}
	<-shop.Gone()
	for _, server := range []string{"old", "new"} {
		bob.wants(200, `"text":"yes"`, "POST", "/s/"+server+"/mcp", echoBody("yes", ""), echoHeader()...)
	}
	if s.Default().server("new") != stays {
		t.Error("the server has been replaced")
	}
}

// TestASharedServerBecomesTheProjectsOwn moves a server with the same settings from use to mcpServers, and
// back.
func TestASharedServerBecomesTheProjectsOwn(t *testing.T) {
	all := snapshotOf(t, `
mcpServers: {gh: {command: /nothing/here}}
dragoman: {projects: {a: {use: [gh]}, b: {mcpServers: {gh: {command: /nothing/here}}}}}
`)
	s := newStreet(t, nil)
	s.Apply(event.DefaultProject, all)
	for i, want := range []bool{false, true, false} {
		c := [...]*config.Snapshot{all.Projects[0].Config, all.Projects[1].Config, all.Projects[0].Config}[i]
		if p := s.Apply("shop", c); p.Shares("gh") == want || (p.server("gh") == s.Default().server("gh")) == want {
			t.Errorf("%d: the server is the wrong one", i)
		}
	}
	gh := s.Default().server("gh")
	s.Remove("shop")
	s.Apply(event.DefaultProject, config.Default())
	select {
	case <-gh.idle:
	case <-time.After(10 * time.Second):
		t.Errorf("nobody has the server any more, but it counts %d users", gh.users.Load())
	}
}
