//go:build unix

package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// town is a serve with the projects shop and team, whose clients need keys. Both have a legacy server pay
// and a modern one named tasks, and both use hub, a server of default.
type town struct {
	*fileDaemon
	pay, hub       *upstreamUnderTest // pay is that of the shop
	ann, bob, boss []string           // the headers with a key of shop, of team, and of an admin of team
}

func newTown(t *testing.T) *town {
	w := &town{pay: child(t, "pay", "legacy"), hub: child(t, "hub", "legacy")}
	project := func(pay *upstreamUnderTest) string {
		s, err := fake.NewServer(modernProfile, fake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s.Handler())
		t.Cleanup(func() {
			_ = s.Close()
			web.Close()
		})
		return fmt.Sprintf("use: [hub], mcpServers: {%s, tasks: {url: %q}}", entryOf(pay), web.URL+s.Path())
	}
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	text := strings.Replace(twoProjects(entryOf(w.hub), project(w.pay), project(child(t, "pay", "legacy"))), "  projects:", "  access: {loopback: keys}\n  projects:", 1)
	w.fileDaemon = serveFile(t, text, func(o *ServeOptions) { o.Database = database })
	desk := deskAt(t, database)
	w.boss, _ = makeKey(t, desk, access.Wish{Name: "boss", Project: "team", Role: identity.Admin})
	w.ann, _ = makeKey(t, desk, access.Wish{Name: "ann", Project: "shop", Role: identity.Caller})
	w.bob, _ = makeKey(t, desk, access.Wish{Name: "bob", Project: "team", Role: identity.Caller})
	soon(t, "the keys count", func() bool { return w.modern("/p/team/mcp", "1", "tools/list", "", "", w.bob...).status == 200 })
	return w
}

// as sends a request with a key, and returns the response without what differs each time.
func (w *town) as(who []string, method, path, body string, header ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience(5*time.Second)) // who gets in by mistake may get a stream
	defer cancel()
	a := w.do(ctx, method, path, strings.NewReader(body), append(header, who...)...)
	for _, name := range []string{"Date", "Content-Length", "Mcp-Session-Id", "Retry-After"} {
		a.header.Del(name)
	}
	return fmt.Sprint(a.status, " ", a.header, " ", a.body)
}

// made are names that tests make up for what doesn't exist, and those that exist.
var made = regexp.MustCompile(`nowhere|nothing|shop|pay|tasks|hub`)

// TestTA42_StrangersSeeOneRefusal asks without a key, and with a wrong one, for projects and servers that
// exist and that don't, in every way. There is one answer.
func TestTA42_StrangersSeeOneRefusal(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	for name, who := range map[string][]string{"no key": nil, "a wrong key": {"Authorization", "Bearer drgk_000000000000_0000000000000000000000000000000000000000000_000000"}} {
		answers := map[string][]string{}
		paths := []string{"/p/shop", "/p/nowhere", "/p/shop/", "/p/shop/s", "/p/shop/x", "/p/nowhere/x", "/s/hub", "/s/nothing"}
		for _, project := range []string{"", "/p/shop", "/p/team", "/p/default", "/p/nowhere", "/p/Shop", "/p/x-none"} {
			for _, server := range []string{"", "/s/pay", "/s/tasks", "/s/hub", "/s/nothing"} {
				for _, leaf := range []string{"/mcp", "/sse", "/messages", "/mcp/x"} {
					paths = append(paths, project+server+leaf)
				}
			}
		}
		for _, path := range paths {
			for _, method := range []string{"POST", "GET", "DELETE", "PUT", "OPTIONS"} {
				got := w.as(who, method, path, initializeBody("2025-11-25", "{}"))
				answers[got] = append(answers[got], method+" "+path)
			}
		}
		for got, requests := range answers { // after a few wrong keys, the address has to wait, and gets 429
			if !strings.HasPrefix(got, "401 ") && (who == nil || !strings.HasPrefix(got, "429 ")) || len(answers) > 1 && who == nil || len(answers) > 2 {
				t.Errorf("%s gets %s\nfor %s", name, got, requests[:min(len(requests), 5)])
			}
		}
	}
	if a := w.modern("/p/team/mcp", "1", "tools/list", "", "", w.bob...); a.status != 200 {
		t.Errorf("bob, at the same address: %d %s", a.status, a.body)
	}
}

// TestTA53_AKeyOfAnotherProject has all that ann has open in the shop, and lets bob, whose key is for team,
// try it: each route, session, state, task, request, subscription, stream and call number. He gets what he gets for
// one that doesn't exist, and ann notices nothing.
func TestTA53_AKeyOfAnotherProject(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	session := func(who []string, path string) []string {
		a := w.post(path, initializeBody("2025-11-25", "{}"), who...)
		if a.status != 200 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		id := a.header.Get("Mcp-Session-Id")
		if n := w.post(path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, append(who, "Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25")...); n.status != 202 {
			t.Fatalf("initialized: %d %s", n.status, n.body)
		}
		return []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
	}
	theirs, paying := session(w.ann, "/p/shop/mcp"), session(w.ann, "/p/shop/s/pay/mcp")
	stream := w.open(http.MethodGet, "/p/shop/mcp", "", append(theirs, w.ann...)...)
	sse := w.open(http.MethodGet, "/p/shop/sse", "", w.ann...)
	working := w.open("POST", "/p/shop/s/pay/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"work","arguments":{},"_meta":{"progressToken":"p7"}}}`, append(paying, w.ann...)...)
	if m := working.event(); m == nil || m.Method != mcp.NoteProgress {
		t.Fatalf("ann's call doesn't run: %v", m)
	}

	// Every route: the shop is for bob like nowhere, and a server of his project that isn't there like any
	// other.
	same := func(what, got, other string) {
		t.Helper()
		if a, b := made.ReplaceAllString(got, "NAME"), made.ReplaceAllString(other, "NAME"); a != b {
			t.Errorf("%s: bob gets %s\nand for one that doesn't exist %s", what, got, other)
		}
	}
	for _, leaf := range []string{"/mcp", "/sse", "/messages", "/s/pay/mcp", "/s/pay/sse", "/s/hub/mcp", "/", "/s", "/x"} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			for _, header := range [][]string{nil, theirs, modernHeader("tools/list", "")} {
				body := modernBody("1", "tools/list", "")
				same(method+" "+leaf, w.as(w.bob, method, "/p/shop"+leaf, body, header...), w.as(w.bob, method, "/p/nowhere"+leaf, body, header...))
			}
		}
	}
	for _, path := range []string{"/api/v1/status", "/api/v1/calls", "/api/v1/calls/1", "/api/v1/calls/stream", "/api/v1/logs", "/api/v1/logs/stream", "/api/v1/servers/pay", "/api/v1/keys", "/api/v1/secrets", "/api/v1/runs"} {
		for _, who := range [][]string{w.bob, w.boss} {
			same(path, w.as(who, "GET", path+"?project=shop", ""), w.as(who, "GET", path+"?project=nowhere", ""))
		}
	}
	for n := range 20 { // numbers are a project's own, so the one of ann's call may be one of bob's, too
		got := w.as(w.boss, "GET", fmt.Sprintf("/api/v1/calls/%d?project=team", n+1), "")
		if !strings.HasPrefix(got, "404 ") && !(strings.HasPrefix(got, "200 ") && strings.Contains(got, `"project": "team"`)) || strings.Contains(got, `"work"`) {
			t.Errorf("the admin of team gets call %d: %s", n+1, got)
		}
	}

	// What ann has, at bob's own endpoints.
	unknown := append([]string{"Mcp-Session-Id", strings.Repeat("0", len(theirs[1]))}, theirs[2:]...)
	for _, path := range []string{"/p/team/mcp", "/p/team/s/hub/mcp", "/p/team/s/pay/mcp"} {
		for _, x := range [][2]string{
			{"POST", `{"jsonrpc":"2.0","id":5,"method":"ping"}`}, {"GET", ""}, {"DELETE", ""},
			{"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`},
			{"POST", `{"jsonrpc":"2.0","id":7,"result":{}}`},
		} {
			for _, s := range [][]string{theirs, paying} {
				same(x[0]+" "+path+" "+x[1], w.as(w.bob, x[0], path, x[1], s...), w.as(w.bob, x[0], path, x[1], unknown...))
			}
		}
	}
	own := session(w.bob, "/p/team/mcp")
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p7","progress":1}}`,
		`{"jsonrpc":"2.0","id":7,"result":{}}`,
	} {
		w.as(w.bob, "POST", "/p/team/mcp", body, own...)
	}
	same("a stream after an event", w.as(w.bob, "GET", "/p/team/mcp", "", append(theirs, "Last-Event-ID", "1")...), w.as(w.bob, "GET", "/p/team/mcp", "", append(unknown, "Last-Event-ID", "1")...))

	ask := func(who []string, path, method, name, params string) answer {
		return w.post(path, canElicit(modernBody("1", method, params)), append(modernHeader(method, name), who...)...)
	}
	const call = `"name":"ask","arguments":{}`
	asked := ask(w.ann, "/p/shop/s/pay/mcp", "tools/call", "ask", call)
	state, key := inputRequestOf(t, asked.message(t))
	forged := state[:len(state)-6] + "AAAA" + state[len(state)-2:]
	for _, server := range []string{"pay", "hub"} {
		path := "/p/team/s/" + server + "/mcp"
		got := ask(w.bob, path, "tools/call", "ask", retryOf(call, state, key, `{"a":1}`))
		other := ask(w.bob, path, "tools/call", "ask", retryOf(call, forged, key, `{"a":1}`))
		if got.code(t) == 0 {
			t.Errorf("bob uses ann's state: %s", got.body)
		}
		same("a state at "+path, got.body, other.body)
	}
	if n := w.pay.count("call ask"); n != 1 {
		t.Errorf("the shop's server got %d calls", n)
	}
	if a := ask(w.ann, "/p/shop/s/pay/mcp", "tools/call", "ask", retryOf(call, state, key, `{"a":1}`)); a.status != 200 || a.code(t) != 0 {
		t.Errorf("ann's retry: %d %s", a.status, a.body)
	}

	withTasks := func(who []string, path, method, name, params string) answer {
		body := strings.Replace(modernBody("1", method, params), `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		return w.post(path, body, append(modernHeader(method, name), who...)...)
	}
	task := withTasks(w.ann, "/p/shop/s/tasks/mcp", "tools/call", "task", `"name":"task","arguments":{}`).message(t)
	id := memberOf(task.Raw[:], "result", "taskId")
	if id == "" {
		t.Fatalf("no task: %s", task.Raw)
	}
	for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask, mcp.MethodUpdateTask} {
		for _, path := range []string{"/p/team/mcp", "/p/team/s/tasks/mcp", "/p/team/s/hub/mcp"} {
			got, other := withTasks(w.bob, path, method, id, `"taskId":"`+id+`"`), withTasks(w.bob, path, method, "made-up", `"taskId":"made-up"`)
			if got.code(t) == 0 {
				t.Errorf("%s at %s: bob has ann's task: %s", method, path, got.body)
			}
			same(method+" at "+path, strings.ReplaceAll(got.body, id, "made-up"), other.body)
		}
	}
	if a := withTasks(w.ann, "/p/shop/s/tasks/mcp", mcp.MethodGetTask, id, `"taskId":"`+id+`"`); a.code(t) != 0 {
		t.Errorf("ann's task: %s", a.body)
	}

	// Ann's call still runs, and her streams are open.
	if n := w.pay.count("cancelled"); n != 0 {
		t.Errorf("ann's call was cancelled %d times", n)
	}
	if !goesOn(stream) || !goesOn(sse) || !goesOn(working) {
		t.Error("a stream of ann has ended")
	}
	if a := w.post("/p/shop/mcp", `{"jsonrpc":"2.0","id":8,"method":"ping"}`, append(theirs, w.ann...)...); a.status != 200 {
		t.Errorf("ann's session: %d %s", a.status, a.body)
	}
	w.post("/p/shop/s/pay/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, append(paying, w.ann...)...)
	await(t, "ann cancels her call herself", 10*time.Second, func() bool { return w.pay.count("cancelled") == 1 })
}
