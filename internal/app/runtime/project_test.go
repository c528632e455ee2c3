package runtime

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// street is a runtime with the projects default and shop, which have servers of the same names, behind
// one gate. Ann and bob may use both.
type street struct {
	*Runtime
	gate   *gate
	houses map[string]*house // by project
	sites  map[string]*site  // by person; the site names the person
	open   *site             // requests must name the person
	events *event.Publisher
	log    *logring.Ring
	held   chan struct{} // see house.held
}

// base returns the path above the endpoints of a project.
func base(project string) string {
	if project == event.DefaultProject {
		return ""
	}
	return "/p/" + project
}

// newStreet opens a street. more are settings of the projects, as YAML.
func newStreet(t *testing.T, more map[string]string) *street {
	s := &street{gate: &gate{about: func(c *policy.Call) string { return c.Project + " " + c.Who.Key() + " " }}, houses: map[string]*house{}, sites: map[string]*site{}, events: &event.Publisher{}, log: logring.New(), held: make(chan struct{})}
	for _, project := range []string{event.DefaultProject, "shop"} {
		s.houses[project] = &house{gate: s.gate, held: s.held}
	}
	first := s.houses[event.DefaultProject].configuration(t, more[event.DefaultProject])
	guard := httpdoor.NewGuard(nil, nil, nil)
	s.Runtime = New(Options{
		Principal: withKey, Reach: anybody, Config: first, Log: slog.New(logring.NewHandler(s.log, slog.DiscardHandler)), Events: s.events, Recent: s.log, Guard: guard, Budget: transport.NewBudget(64 << 20),
		Calls: calls.New(calls.Options{}), TaskKey: bytes.Repeat([]byte("k"), 32), Gate: Gate{Policy: policy.Chain{s.gate}, Audit: s.gate}, Drain: 300 * time.Millisecond,
	})
	s.Apply(event.DefaultProject, first)
	s.Apply("shop", s.houses["shop"].configuration(t, more["shop"]))
	mux := http.NewServeMux()
	s.Routes(mux)
	mux.Handle("/", guard.Usual(http.HandlerFunc(httpdoor.NotFound)))
	t.Cleanup(func() {
		s.Drain()
		s.Close(time.Second)
	})
	s.open = serveSite(t, mux)
	for _, name := range []string{"ann", "bob"} {
		s.sites[name] = serveSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("X-Who", name)
			mux.ServeHTTP(w, r)
		}))
	}
	for _, h := range s.houses {
		h.Runtime = s.Runtime
	}
	return s
}

// TestTwoProjectsAtEveryDoor checks a call that is let pass, one that is refused, one whose name leads
// nowhere and one about which the person is asked, of two people in two projects, with a strict client
// of every revision, over HTTP and on a pipe, at the endpoint of all servers and at those of single
// servers of both eras. Each ends as the policy says and is audited with its project and its person.
// Only the servers of its own project hear of it.
func TestTwoProjectsAtEveryDoor(t *testing.T) {
	s := newStreet(t, nil)
	for _, revision := range mcp.Revisions() {
		for project, h := range s.houses {
			for _, who := range []string{"ann", "bob", ""} { // on a pipe, nobody has a name
				for _, door := range []struct{ server, path, prefix string }{
					{"old", "", "old__"}, {"new", "", "new__"}, {"old", "/s/old", ""}, {"new", "/s/new", ""},
				} {
					t.Run(fmt.Sprintf("%s %s %q %s at %q", revision, project, who, door.server, door.path), func(t *testing.T) {
						var at fake.Where
						switch {
						case who == "":
							at = pipeTo(t, s.Project(project).mount(strings.TrimPrefix(door.path, "/s/")).clients)
						case revision.Can(mcp.StreamableHTTP):
							at.URL = s.sites[who].base + base(project) + door.path + "/mcp"
						default:
							at.URL = s.sites[who].base + base(project) + door.path + "/sse"
						}
						before := s.others(project)
						h.visit(t, visit{revision, at, door.server, door.prefix, "accept", project + " " + who + " "})
						if after := s.others(project); after != before {
							t.Errorf("the servers of the other project got %d calls", after-before)
						}
					})
				}
			}
		}
	}
	s.Drain()
	s.endpoints.Close()
	if s.gate.began == 0 || s.gate.began != s.gate.ended {
		t.Errorf("the auditor saw %d requests begin and %d end", s.gate.began, s.gate.ended)
	}
}

// others returns how many calls the servers of all projects but one have got.
func (s *street) others(project string) (n int) {
	for name, h := range s.houses {
		if name != project {
			n += h.executions("yes") + h.executions("no") + h.executions("ask") + h.executions("x")
		}
	}
	return n
}

// TestStrangersOnTheStreet checks that who is not known gets one answer for a project that exists and
// for one that doesn't, and that who is known gets the usual 404 for the latter.
func TestStrangersOnTheStreet(t *testing.T) {
	s := newStreet(t, nil)
	want := s.open.answered("POST", "/p/shop/mcp")
	if !strings.HasPrefix(want, "401 ") {
		t.Fatal(want)
	}
	for _, path := range []string{"/p/nowhere/mcp", "/p/shop/s/old/mcp", "/p/shop/s/nothing/mcp", "/p/nowhere/s/old/mcp", "/p/shop", "/p/shop/", "/p/nowhere/x"} {
		if got := s.open.answered("POST", path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	s.sites["ann"].wants(404, "there is nothing at", "POST", "/p/nowhere/mcp", helloBody)
	s.sites["ann"].wants(404, `no server "nothing" is configured`, "POST", "/p/shop/s/nothing/mcp", helloBody)
}

// echoBody returns a modern call of the tool echo.
func echoBody(text string, more string) string {
	body := strings.Replace(modernBody, `"name":"star","arguments":{}`, `"name":"echo","arguments":{"text":"`+text+`"}`+more, 1)
	return strings.Replace(body, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
}

func echoHeader() []string {
	return []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo"}
}

// bobGoesOn checks that bob can call a tool in both projects.
func (s *street) bobGoesOn() {
	s.open.t.Helper()
	for _, project := range []string{"default", "shop"} {
		s.sites["bob"].wants(200, `"text":"yes"`, "POST", base(project)+"/s/old/mcp", echoBody("yes", ""), echoHeader()...)
	}
}

// TestCallsOfProjects checks that the events, the records and the endpoints of each project are its own.
func TestCallsOfProjects(t *testing.T) {
	s := newStreet(t, nil)
	var published []string
	stop := s.events.Tap(event.Of(event.Call), func(e event.Event) { published = append(published, e.Project+" "+e.Who.Key()+" "+e.Server) })
	s.bobGoesOn()
	stop()
	if want := []string{"default bob old", "shop bob old"}; !slices.Equal(published, want) {
		t.Errorf("published %q, want %q", published, want)
	}
	for project, number := range map[string]uint64{"default": 1, "shop": 2} {
		p := s.Project(project)
		if all := p.Calls().All(); len(all) != 1 || all[0].Number != number {
			t.Errorf("%s has the calls %+v", project, all)
		}
		for _, e := range p.Report().Endpoints {
			if e.Server == "old" && e.Path != base(project)+"/s/old/mcp" {
				t.Errorf("an endpoint of %s is at %s", project, e.Path)
			}
		}
		for _, c := range p.ClientReports() {
			if strings.HasPrefix(c.Path, "/p/shop/") != (project == "shop") {
				t.Errorf("%s has a client at %s", project, c.Path)
			}
		}
	}
}

// TestIDsOfProjects takes what ann has in one project to the other: a session, a stream and a state mean
// nothing there, and still do where they are from.
func TestIDsOfProjects(t *testing.T) {
	s := newStreet(t, nil)
	ann := s.sites["ann"]
	session := func(project string) []string {
		id := ann.wants(200, `"result"`, "POST", base(project)+"/s/old/mcp", helloBody).Get("Mcp-Session-Id")
		return []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	}
	home, shop := session("default"), session("shop")
	ping := `{"jsonrpc":"2.0","id":5,"method":"ping"}`
	ann.wants(200, `"result"`, "POST", "/s/old/mcp", ping, home...)
	ann.wants(200, `"result"`, "POST", "/p/shop/s/old/mcp", ping, shop...)
	ann.wants(404, "session not found", "POST", "/p/shop/s/old/mcp", ping, home...)
	ann.wants(404, "session not found", "DELETE", "/s/old/mcp", "", shop...)
	st := ann.stream("/s/old/sse")
	defer st.body.Close()
	ann.wants(404, "session not found", "POST", "/p/shop"+st.post, ping)

	_, _, asked := ann.ask("POST", "/s/old/mcp", echoBody("ask", ""), echoHeader()...)
	m, err := jsonrpc.Scan([]byte(asked), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(asked)
	}
	var key string
	for x := range jsonrpc.Members(m.Raw, m.ResultMember("inputRequests")) {
		key, _ = jsonrpc.Text(m.Raw, x.Key)
	}
	state := string(m.ResultMember("requestState").Of(m.Raw))
	retry := echoBody("ask", `,"requestState":`+state+`,"inputResponses":{"`+key+`":{"action":"accept","content":{}}}`)
	ann.wants(200, "by a process with other keys", "POST", "/p/shop/s/old/mcp", retry, echoHeader()...)
	ann.wants(200, `"text":"ask"`, "POST", "/s/old/mcp", retry, echoHeader()...)
	ann.wants(200, `"result"`, "POST", "/p/shop/s/old/mcp", ping, shop...)
	s.bobGoesOn()
}

// TestSettingsOfProjects checks that limits, revisions, names and hidden tools of one project leave the
// other as it is.
func TestSettingsOfProjects(t *testing.T) {
	s := newStreet(t, map[string]string{
		"default": "dragoman: {server: {title: Home}, servers: {old: {expose: {tools: {deny: [add]}}}}}\n",
		"shop":    "dragoman: {server: {title: Shop}, limits: {body: 1KiB, inFlight: 1MiB, initializePerSecond: 100}, revisions: {accept: [\"2026-07-28\", \"2025-11-25\"], otherwise: refuse}}\n",
	})
	ann := s.sites["ann"]
	long := echoBody(strings.Repeat("y", 2000), "")
	ann.wants(200, "yyy", "POST", "/s/old/mcp", long, echoHeader()...)
	ann.wants(413, "", "POST", "/p/shop/s/old/mcp", long, echoHeader()...)
	older := strings.Replace(helloBody, "2025-11-25", "2025-06-18", 1)
	ann.wants(200, "2025-06-18", "POST", "/mcp", older)
	ann.wants(200, "Unsupported protocol version", "POST", "/p/shop/mcp", older)
	ann.wants(200, `"title":"Home"`, "POST", "/mcp", helloBody)
	ann.wants(200, `"title":"Shop"`, "POST", "/p/shop/mcp", helloBody)
	if b := s.Project("shop").Budget().State(); b.Limit != 1<<20 || s.Default().Budget().State().Limit != 64<<20 {
		t.Errorf("the budget of the shop is %+v", b)
	}
	list := strings.Replace(strings.Replace(modernBody, "tools/call", "tools/list", 1), `"name":"star","arguments":{},`, "", 1)
	listHeader := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}
	if _, _, all := ann.ask("POST", "/s/old/mcp", list, listHeader...); strings.Contains(all, `"add"`) {
		t.Error("default shows a tool that it hides")
	}
	ann.wants(200, `"add"`, "POST", "/p/shop/s/old/mcp", list, listHeader...)
	s.bobGoesOn()
}

// TestSecretsOfProjects checks that a project masks its own secrets, and that servers of the same name
// and settings in two projects keep their lists apart.
func TestSecretsOfProjects(t *testing.T) {
	of := func(secret string) *config.Snapshot {
		c, problems := config.Parse("dragoman.yaml", []byte("mcpServers: {gh: {command: /nothing/here, env: {TOKEN: "+secret+"}}}"), nil)
		if c == nil {
			t.Fatal(problems)
		}
		return c
	}
	first := of("secret-of-home-1234")
	r := New(Options{Principal: withKey, Reach: anybody, Config: first, Log: slog.New(slog.DiscardHandler), Guard: httpdoor.NewGuard(nil, nil, nil), Budget: transport.NewBudget(1 << 20), ListFolder: t.TempDir()})
	defer r.Close(0)
	r.Apply("default", first)
	shop := r.Apply("shop", of("secret-of-shop-1234"))
	const said = "secret-of-home-1234 secret-of-shop-1234"
	for _, server := range []string{"gh", ""} {
		if a, b := r.Default().Clean(server)(said), shop.Clean(server)(said); a != "*** secret-of-shop-1234" || b != "secret-of-home-1234 ***" {
			t.Errorf("%q, %q", a, b)
		}
	}
	if got := shop.Secrets(); len(got) != 1 || got[0] != "secret-of-shop-1234" {
		t.Errorf("the shop has the secrets %q", got)
	}
	c, _ := first.Server("gh")
	if r.lists.shelf("default", c).path("tools/list") == r.lists.shelf("shop", c).path("tools/list") {
		t.Error("both projects keep their lists in one file")
	}
	if r.Remove("default") || r.Remove("nowhere") || !r.Remove("shop") || r.Project("shop") != nil || r.Remove("shop") {
		t.Error("the wrong projects are removed")
	}
	<-shop.Gone()
}

// live opens at a project what can last: a session with a stream and a running call, a listen, a modern
// call and a stream of HTTP+SSE.
func (b *busy) live(prefix string) {
	s := b.site
	id := s.wants(200, `"result"`, "POST", prefix+"/mcp", helloBody, b.who...).Get("Mcp-Session-Id")
	session := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	listen := strings.Replace(strings.Replace(modernBody, "tools/call", mcp.MethodListen, 1), `"name":"star","arguments":{}`, `"notifications":{"toolsListChanged":true}`, 1)
	b.run("listen", "POST", prefix+"/mcp", listen, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", mcp.MethodListen)
	b.run("stream", "GET", prefix+"/mcp", "", session...)
	b.run("call", "POST", prefix+"/mcp", `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"old__wait","arguments":{"steps":1,"ms":0}}}`, session...)
	wait := strings.Replace(modernBody, `"name":"star","arguments":{}`, `"name":"wait","arguments":{"steps":1,"ms":0}`, 1)
	b.run("modern call", "POST", prefix+"/s/new/mcp", wait, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "wait")
	st := s.stream(prefix+"/sse", b.who...)
	b.running.Go(func() {
		defer st.body.Close()
		for {
			if _, err := st.events.Next(); err != nil {
				b.note("sse", err.Error())
				return
			}
		}
	})
}

// awaitRunning waits until two calls of tools are running in each project, and the servers have them. A list that is being
// read runs there, too, so the servers alone don't say it.
func (s *street) awaitRunning() {
	running := func(project string) (tools, atServers int) {
		for _, c := range s.Project(project).Calls().All() {
			if c.Running() && c.Method == mcp.MethodCallTool {
				tools++
			}
		}
		for _, st := range s.Project(project).Report().Servers {
			atServers += st.Running
		}
		return tools, atServers
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		a, x := running("default")
		b, y := running("shop")
		if a == 2 && x == 2 && b == 2 && y == 2 {
			return
		}
		if time.Since(begun) > 30*time.Second {
			s.open.t.Fatalf("%d and %d calls are running, and %d and %d requests", a, b, x, y)
		}
	}
}

// TestProjectsComeAndGo adds, changes and removes projects while clients of another have everything open:
// a session with a stream, a listen, a stream of HTTP+SSE and running calls. They notice nothing. The
// clients of the removed project get the end of their streams, and for their running calls a sentence.
func TestProjectsComeAndGo(t *testing.T) {
	s := newStreet(t, nil)
	goes, stays := &busy{site: s.open, who: []string{"X-Who", "ann"}}, &busy{site: s.open, who: []string{"X-Who", "bob"}}
	stays.live("")
	goes.live("/p/shop")
	s.awaitRunning()

	s.Apply("third", config.Default())
	s.open.wants(200, `"result"`, "POST", "/p/third/mcp", helloBody, stays.who...)
	s.Apply("shop", s.Project("shop").Current()) // a change that keeps the servers; it ends what listens to the old gateway
	if ended := goes.ends(); len(ended) > 1 || ended["listen"] == "" && len(ended) == 1 {
		t.Errorf("after a change, these have ended: %v", ended)
	}
	gone := s.Project("shop")
	if !s.Remove("shop") {
		t.Fatal("there is no project to remove")
	}
	<-gone.Gone()
	for _, path := range []string{"/p/shop/mcp", "/p/shop/s/old/mcp", "/p/shop/sse"} {
		s.open.wants(404, "there is nothing at", "POST", path, helloBody, goes.who...)
	}
	goes.running.Wait()
	ended := goes.ends()
	if len(ended) != 5 || !strings.Contains(ended["call"], "was removed") || !strings.Contains(ended["modern call"], "was removed") || ended["sse"] != io.EOF.Error() {
		t.Errorf("the removed project ended so: %v", ended)
	}
	again := s.Apply("shop", gone.Current())
	s.open.wants(200, `"result"`, "POST", "/p/shop/mcp", helloBody, goes.who...)
	if again == gone || len(again.Calls().All()) != 0 {
		t.Error("the new project has something of the old one")
	}
	if ended := stays.ends(); len(ended) != 0 {
		t.Errorf("of the innocent project this has ended: %v", ended)
	}
	close(s.held)
	s.Drain()
	s.endpoints.Drain()
	stays.running.Wait()
	if ended := stays.ends(); !strings.Contains(ended["call"], `"content"`) || !strings.Contains(ended["modern call"], `"content"`) {
		t.Errorf("the innocent project ended so: %v", ended)
	}
}
