package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// twoProjects returns a rig with the projects default and shop, which have a server notes each.
func twoProjects(t *testing.T) *rig {
	r := serving(t, demoServer(t, "notes", demo.Legacy))
	c := *config.Default()
	c.Servers = []config.Server{
		demoServer(t, "notes", demo.Modern, func(s *config.Server) { s.Expose.Tools = config.Filter{Deny: []string{"fore*"}} }),
		demoServer(t, "more", demo.Legacy, func(s *config.Server) { s.Lazy = true }),
	}
	r.runtime.Apply("shop", &c).Warm()
	r.ready("notes", "notes?project=shop")
	return r
}

// TestProjects checks that each answer of the API is about one of two projects.
func TestProjects(t *testing.T) {
	t.Parallel()
	r := twoProjects(t)
	var home, there Report
	r.get("/api/v1/status", &home)
	r.get("/api/v1/status?project=shop", &there)
	if home.Project != event.DefaultProject || there.Project != "shop" || !slices.Equal(home.Projects, []string{"default", "shop"}) || there.Projects != nil ||
		len(home.Servers) != 1 || len(there.Servers) != 2 || home.Servers[0].Era != "legacy" || there.Servers[0].Era != "modern" ||
		home.Endpoints[0].Path != "/mcp" || there.Endpoints[0].Path != "/p/shop/mcp" {
		t.Errorf("%+v\n%+v", home, there)
	}
	var tools Tools
	r.get("/api/v1/tools?project=shop&state=hidden", &tools)
	if len(tools.Tools) == 0 || tools.Tools[0].Hidden[0].Endpoint != "/p/shop/mcp" || tools.Tools[0].Hidden[1].Endpoint != "/p/shop/s/notes/mcp" {
		t.Errorf("%+v", tools)
	}
	r.get("/api/v1/tools?state=hidden", &tools)
	if len(tools.Tools) != 0 {
		t.Errorf("the default project hides %+v", tools)
	}
	if a := r.ask(http.MethodGet, "/api/v1/servers/more", ""); a.status != 404 {
		t.Errorf("a server of the other project: %d %s", a.status, a.body)
	}
	for _, x := range []struct{ method, path string }{
		{"GET", "/api/v1/status?project=a&project=b"}, {"POST", "/api/v1/drafts?project=shop"},
		{"GET", "/api/v1/openapi.json?project=default&project=shop"}, {"POST", "/api/v1/console/link?project=shop"},
	} {
		if a := r.do(x.method, x.path, "{}", "Content-Type", "application/json"); a.status != 400 {
			t.Errorf("%s %s: %d %s", x.method, x.path, a.status, a.body)
		}
	}
}

// TestRecordsOfProjects checks that the runs, the calls and the log of a project are not in another, and
// that an id or a number of one means nothing in the other.
func TestRecordsOfProjects(t *testing.T) {
	t.Parallel()
	r := twoProjects(t)
	var started Run
	a := r.do(http.MethodPost, "/api/v1/servers/notes/runs?project=shop", `{"tool":"add","arguments":{"a":1,"b":41}}`, "Content-Type", "application/json")
	a.into(t, &started)
	await(t, "the run has ended", func() bool {
		var x Run
		a := r.do(http.MethodGet, "/api/v1/runs/"+started.ID+"?project=shop", "")
		a.into(t, &x)
		return x.Ended != nil
	})
	if a := r.do(http.MethodGet, "/api/v1/runs/"+started.ID, ""); a.status != 404 || !strings.Contains(a.body, "no-such-run") {
		t.Errorf("the run in the other project: %d %s", a.status, a.body)
	}
	var calls Calls
	r.get("/api/v1/calls?project=shop&method=tools/call", &calls)
	if len(calls.Calls) != 1 || calls.Calls[0].Project != "shop" || calls.Calls[0].Server != "notes" {
		t.Fatalf("%+v", calls)
	}
	number := fmt.Sprint(calls.Calls[0].Number)
	if a, b := r.do(http.MethodGet, "/api/v1/calls/"+number+"?project=shop", ""), r.do(http.MethodGet, "/api/v1/calls/"+number, ""); a.status != 200 || b.status != 404 {
		t.Errorf("call %s: %d, in the other project %d", number, a.status, b.status)
	}
	r.get("/api/v1/calls?method=tools/call", &calls)
	if len(calls.Calls) != 0 {
		t.Errorf("the default project has %+v", calls)
	}
	var logs Logs
	r.get("/api/v1/logs", &logs)
	for _, x := range logs.Records {
		if x.Server == "more" || slices.Contains(x.Attributes, Attribute{"project", "shop"}) {
			t.Errorf("the log of default has %+v", x)
		}
	}
	r.get("/api/v1/logs?project=shop&server=notes", &logs)
	if len(logs.Records) == 0 {
		t.Error("the log of shop has nothing about its server")
	}
}

// TestStreamsOfProjects checks that the streams of a removed project end, and that from then on it looks
// as if it had never been there. The streams of another project go on.
func TestStreamsOfProjects(t *testing.T) {
	t.Parallel()
	r := twoProjects(t)
	stays, goes := r.events("/api/v1/calls/stream?limit=0"), r.events("/api/v1/calls/stream?limit=0&project=shop")
	r.runtime.Remove("shop")
	if e := goes(); e.Name != EventEnd {
		t.Errorf("the stream of the removed project sends %q", e.Name)
	}
	for _, path := range []string{"/api/v1/status?project=shop", "/api/v1/runs?project=shop", "/api/v1/status?project=nowhere"} {
		if a := r.do(http.MethodGet, path, ""); a.status != 404 || !strings.Contains(a.body, "no-such-project") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	r.do(http.MethodPost, "/api/v1/servers/notes/runs", `{"tool":"greet","arguments":{"name":"W"}}`, "Content-Type", "application/json")
	if e := stays(); e.Name != EventCall {
		t.Errorf("the stream of the innocent project sends %q", e.Name)
	}
}

// TestRolesInProjects checks that a role counts in its project alone, and that a project in which ann has
// no role looks to her like one that doesn't exist.
func TestRolesInProjects(t *testing.T) {
	t.Parallel()
	r := serving(t)
	for _, name := range []string{"shop", "lab"} {
		r.runtime.Apply(name, config.Default())
	}
	access := r.api.Access()
	access.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		if who.Subject == "ann" && project == "shop" {
			return []identity.Role{identity.Viewer}
		}
		return localRoles(who, project)
	})
	ann := []string{"Cookie", enter(access, access.LinkFor(identity.Named("ann"), "")), "Host", access.Name() + ":7300"}
	ask := func(method, path string) (int, string) {
		a := r.ask(method, "/api/v1"+path, "", ann...)
		return a.status, a.body
	}
	if status, body := ask("GET", "/runs?project=shop"); status != 200 {
		t.Errorf("her own project: %d %s", status, body)
	}
	for _, x := range []struct{ method, path string }{{"GET", "/runs"}, {"POST", "/servers/x/stop?project=shop"}, {"GET", "/status"}} {
		if status, body := ask(x.method, x.path); status != 403 || !strings.Contains(body, "/role") && !strings.Contains(body, `role`) {
			t.Errorf("%s %s: %d %s", x.method, x.path, status, body)
		}
	}
	for _, path := range []string{"/runs", "/status", "/servers/x", "/calls/1", "/servers"} {
		s1, b1 := ask("GET", path+"?project=lab")
		s2, b2 := ask("GET", path+"?project=nowhere")
		if s1 != 404 || s2 != 404 || strings.ReplaceAll(b1, "lab", "nowhere") != b2 {
			t.Errorf("%s: %d %s, where there is none %d %s", path, s1, b1, s2, b2)
		}
	}
	if a := r.do(http.MethodGet, "/api/v1/runs?project=lab", ""); a.status != 200 {
		t.Errorf("the local user: %d %s", a.status, a.body)
	}
}
