//go:build unix

package daemon

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// entryOf returns the entry of a server for a file, in one line.
func entryOf(u *upstreamUnderTest) string {
	return strings.TrimSpace(strings.TrimPrefix(text(u), text()))
}

// twoProjects returns a file with the servers of default, and with the projects shop and team as given; ""
// leaves one out.
func twoProjects(servers, shop, team string) string {
	out := "mcpServers: {" + servers + "}\ndragoman:\n  limits: {initializePerSecond: 1000}\n  projects:\n    x-none: {}\n"
	for _, p := range []struct{ name, body string }{{"shop", shop}, {"team", team}} {
		if p.body != "" {
			out += "    " + p.name + ": {" + p.body + "}\n"
		}
	}
	return out
}

// TestProjectsOfTheFile adds, changes and removes projects in the file while serve runs. Each of these
// disturbs no other project: a session and a stream of default go on. A project with an error stays as it
// was, and what default and the other projects change counts all the same.
func TestProjectsOfTheFile(t *testing.T) {
	t.Parallel()
	gh, pay, other := child(t, "gh", "legacy"), child(t, "pay", "modern"), child(t, "pay", "legacy")
	shop := "title: Shop, use: [gh], mcpServers: {" + entryOf(pay) + "}, servers: {gh: {expose: {tools: {deny: [pid]}}}}"
	team := "mcpServers: {" + entryOf(other) + "}"
	folder := t.TempDir()
	w := serveFile(t, twoProjects(entryOf(gh), shop, ""), func(o *ServeOptions) { o.KeyFolders = []string{folder} })
	keys, err := admin.ReadKeys([]string{folder}, strings.TrimPrefix(w.base, "http://"))
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	w.call("/p/shop/mcp", "pay__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	w.call("/p/shop/mcp", "gh__echo", `{"v":2}`).wantText(t, `{"v":2}`)
	w.call("/p/shop/s/gh/mcp", "echo", `{"v":3}`).wantText(t, `{"v":3}`)
	w.call("/mcp", "gh__echo", `{"v":4}`).wantText(t, `{"v":4}`)
	for path, tool := range map[string]string{"/p/shop/mcp": "gh__pid", "/p/shop/s/gh/mcp": "pid", "/mcp": "pay__echo"} {
		if a := w.call(path, tool, "{}"); a.code(t) != -32602 {
			t.Errorf("%s at %s: %s", tool, path, a.body)
		}
	}
	if n := len(gh.pids(t)); n != 1 || gh.count("call echo") != 3 {
		t.Errorf("the shared server has %d processes and got %d calls", n, gh.count("call echo"))
	}
	for path, want := range map[string]string{
		"/servers/gh": `"shared": true`, "/servers/pay/settings": `"path": "dragoman.projects.shop.mcpServers.pay.command"`, "/servers/gh/settings": `"path": "dragoman.projects.shop.servers.gh.expose.tools.deny"`,
	} {
		a := w.do(t.Context(), "GET", "/api/v1"+path+"?project=shop", nil, "Authorization", "Bearer "+keys[0])
		if a.status != 200 || !strings.Contains(a.body, want) || strings.Contains(path, "settings") && (!strings.Contains(a.body, `"known": true`) || !strings.Contains(a.body, `"line": 6`)) || strings.Contains(path, "gh") && strings.Contains(a.body, filepath.Base(gh.Command)) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	session := w.initialize("/mcp", "2025-11-25", "{}")
	theirs := w.initialize("/p/shop/mcp", "2025-11-25", "{}")
	pid := toolText(w.call("/s/gh/mcp", "pid", "{}").message(t))
	times := 0
	change := func(text string) {
		t.Helper()
		w.write(t, text)
		times++
		w.waitLog(t, "msg=\"configuration applied\" code=config_applied added=", times)
		w.post("/mcp", toolCall("5", "gh__echo", `{"v":5}`), "Mcp-Session-Id", session).wantText(t, `{"v":5}`)
		if now := toolText(w.call("/s/gh/mcp", "pid", "{}").message(t)); now != pid {
			t.Errorf("the server of default was started again")
		}
	}
	says := func(want string) {
		t.Helper()
		await(t, want, 10*time.Second, func() bool { return w.log.count(want) > 0 })
	}

	change(twoProjects(entryOf(gh), shop, team))
	says(`msg="project added" code=project_added project=team servers=1`)
	w.call("/p/team/mcp", "pay__echo", `{"v":6}`).wantText(t, `{"v":6}`)
	w.post("/p/shop/mcp", toolCall("5", "gh__echo", `{"v":7}`), "Mcp-Session-Id", theirs).wantText(t, `{"v":7}`)
	if other.count("call echo") != 1 {
		t.Error("the call of team went elsewhere")
	}

	// Both projects change, but one has an error: it stays as it was.
	change(twoProjects(entryOf(gh), strings.Replace(shop, "title", "tittle", 1), team+", servers: {pay: {prefix: p2}}"))
	says("level=ERROR msg=\"a project of the file cannot be used\" project=shop at=\"" + w.path + ":6:12: dragoman.projects.shop.tittle: unknown key; did you mean title?")
	w.call("/p/team/mcp", "p2__echo", `{"v":8}`).wantText(t, `{"v":8}`)
	w.post("/p/shop/mcp", toolCall("5", "pay__echo", `{"v":9}`), "Mcp-Session-Id", theirs).wantText(t, `{"v":9}`)
	var report admin.Report
	status := w.do(t.Context(), "GET", "/api/v1/status", nil).body
	if err := json.Unmarshal([]byte(status), &report); err != nil || fmt.Sprint(report.Projects) != "[default shop team x-none]" || len(report.ProjectProblems) != 1 || report.ProjectProblems[0].Project != "shop" || !strings.Contains(report.ProjectProblems[0].Problem, "did you mean title? It stays as it was.") {
		t.Errorf("the status has %v %+v: %v", report.Projects, report.ProjectProblems, err)
	}

	// An error of a new project keeps it away, and a removed one is gone.
	change(twoProjects(entryOf(gh), shop, ""))
	says(`msg="project removed" code=project_removed project=team`)
	if a := w.call("/p/team/mcp", "p2__echo", "{}"); a.status != 404 {
		t.Errorf("a removed project: %d", a.status)
	}
	other.wantGone(t)
	if a := w.call("/p/x-none/mcp", "x", "{}"); a.code(t) != -32602 {
		t.Errorf("a project without servers: %d %s", a.status, a.body)
	}

	// The server in use is renamed: that is the problem of this server alone.
	renamed := *gh
	renamed.Name = "hub"
	w.write(t, twoProjects(entryOf(&renamed), shop, ""))
	w.waitLog(t, "msg=\"configuration applied\" code=config_applied added=1 removed=1", 1)
	says(`msg="a server is not started" project=shop server=gh`)
	if a := w.call("/p/shop/s/gh/mcp", "echo", "{}"); !strings.Contains(a.body, `the project default has no server`) {
		t.Errorf("a server that default has no more: %s", a.body)
	}
	w.call("/p/shop/mcp", "pay__echo", `{"v":10}`).wantText(t, `{"v":10}`)
	if n := len(pay.pids(t)); n != 1 {
		t.Errorf("the server of the shop was started %d times", n)
	}
	w.write(t, twoProjects(entryOf(gh), shop, ""))
	w.waitLog(t, "msg=\"configuration applied\" code=config_applied added=1 removed=1", 2)
	w.call("/p/shop/s/gh/mcp", "echo", `{"v":11}`).wantText(t, `{"v":11}`)
	w.post("/p/shop/mcp", toolCall("5", "gh__echo", `{"v":12}`), "Mcp-Session-Id", theirs).wantText(t, `{"v":12}`)
}

// TestTA41_SecretsOfProjects lets a project name a secret of its own, one of default, and none. Each gets its
// own or nothing, and when its secret changes, its servers are restarted and no others.
func TestTA41_SecretsOfProjects(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	other := safeAt(t, database)
	put(t, other, "default", "gh", "canary-home-1")
	put(t, other, "shop", "gh", "canary-shop-1")
	put(t, other, "default", "home", "canary-home-2")
	web := newWeb(t, false)
	project := "dragoman:\n  projects:\n    shop:\n      mcpServers:\n" +
		indented(shouting(t, "a", "", `, GH: "${secret:gh}"`)+shouting(t, "theirs", "", `, GH: "${secret:home}"`)) +
		fmt.Sprintf("        web: {url: %q, headers: {X-Key: \"${secret:home}\"}}\n", web.web.URL)
	s := &sealed{t: t, database: database}
	s.fileDaemon = serveFile(t, "mcpServers:\n"+shouting(t, "a", "", `, GH: "${secret:gh}"`)+project, func(o *ServeOptions) { o.Database = database })
	env := func(path string) string {
		a := s.call(path, "env", "{}")
		if a.status != 200 || a.code(t) != 0 {
			return a.body
		}
		return toolText(a.message(t))
	}
	if home, shop := env("/s/a/mcp"), env("/p/shop/s/a/mcp"); !strings.Contains(home, "GH=canary-home-1\n") || !strings.Contains(shop, "GH=canary-shop-1\n") {
		t.Errorf("default has %s\nthe shop has %s", home, shop)
	}
	for _, name := range []string{"theirs", "web"} {
		if got := env("/p/shop/s/" + name + "/mcp"); !strings.Contains(got, "there is no secret home of the project shop, so server") || strings.Contains(got, "canary") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if web.mu.Lock(); len(web.requests) > 0 {
		t.Errorf("the server got %d requests, although its secret is not the project's", len(web.requests))
	}
	web.mu.Unlock()
	pid := func(path string) string { return toolText(s.call(path, "pid", "{}").message(t)) }
	before := pid("/s/a/mcp")
	put(t, other, "shop", "gh", "canary-shop-2")
	soon(t, "the new secret is in use", func() bool { return strings.Contains(env("/p/shop/s/a/mcp"), "GH=canary-shop-2\n") })
	if pid("/s/a/mcp") != before {
		t.Error("the server of default was started again")
	}
	put(t, other, "shop", "home", "canary-shop-3")
	soon(t, "a new secret starts its servers", func() bool { return strings.Contains(env("/p/shop/s/theirs/mcp"), "GH=canary-shop-3\n") })
	if log := s.log.String(); strings.Contains(log, "canary-") {
		t.Error("the log has a secret")
	}
}

// indented moves the entries of servers to their place in a project.
func indented(entries string) string {
	return "      " + strings.ReplaceAll(strings.TrimSuffix(entries, "\n"), "\n", "\n      ") + "\n"
}
