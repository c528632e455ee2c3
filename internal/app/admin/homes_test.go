package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// testHomes brings the projects of the store into use without looking at what is in use. In package daemon
// is the real one.
type testHomes struct {
	runtime  *runtime.Runtime
	safe     *store.Safe
	inFile   []string
	problems []ProjectProblem // those of the file
}

func (h *testHomes) InFile() []string { return h.inFile }

func (h *testHomes) Parse(project, text string, secrets config.Secrets) (config.Project, config.Problems) {
	if secrets == nil {
		secrets = func(project, name string) (config.Secret, bool, error) {
			return h.safe.Secret(context.Background(), project, name)
		}
	}
	return config.ParseProject(project, []byte(text), h.runtime.Default().Current(), secrets)
}

func (h *testHomes) Use(context.Context) {
	now := h.safe.Store().Snapshot()
	for _, p := range h.runtime.Projects() {
		if _, there := now.Project(p.Name()); !there && !slices.Contains(h.inFile, p.Name()) {
			h.runtime.Remove(p.Name())
		}
	}
	for _, x := range now.Projects() {
		if p, _ := h.Parse(x.Name, x.Text, nil); p.Config != nil {
			h.runtime.Apply(x.Name, p.Config)
		}
	}
}

func (h *testHomes) Problems() (file, store []ProjectProblem) { return h.problems, nil }

func (r *rig) homes() *testHomes { return r.api.opts.Homes.(*testHomes) }

// put sends the text of a project.
func (r *rig) put(name, text string, header ...string) reply {
	r.t.Helper()
	return r.do(http.MethodPut, "/api/v1/projects/"+name, text, append([]string{"Content-Type", yamlType}, header...)...)
}

// TestProjectsOfTheStore adds, reads, changes and removes projects, while another one stays as it is.
func TestProjectsOfTheStore(t *testing.T) {
	t.Parallel()
	r := serving(t)
	const text = "# Ours.\ntitle: Shop\nmcpServers:\n  web: {url: \"http://127.0.0.1:1/mcp\", headers: {Authorization: \"Bearer ${secret:gh}\"}}\n"
	var kept KeptProject
	a := r.put("shop", text)
	a.into(t, &kept)
	if a.status != 201 || a.header.Get("ETag") != kept.ETag || kept.Name != "shop" || kept.Title != "Shop" || kept.Home != "store" || kept.Path != "/p/shop/mcp" || kept.Servers != 1 ||
		kept.By != "local" || kept.Changed == nil || time.Since(*kept.Changed).Abs() > time.Minute || len(kept.Warnings) != 1 || !strings.Contains(kept.Warnings[0], "dragoman secrets set gh --project shop") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := r.put("innocent", `{"title": "JSON is YAML"}`, "Content-Type", "application/json"); a.status != 201 {
		t.Errorf("%d %s", a.status, a.body)
	}
	read := r.do(http.MethodGet, "/api/v1/projects/shop", "")
	if read.status != 200 || read.body != text || read.header.Get("ETag") != kept.ETag || read.header.Get("Content-Type") != yamlType || read.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %q", read.status, read.header, read.body)
	}
	r.tell("POST", "/keys?project=shop", `{"name":"ci"}`, 201, &NewAPIKey{})
	r.tell("PUT", "/secrets/gh?project=shop", `{"value":"v"}`, 200, &KeptSecret{})
	r.tell("PUT", "/secrets/gh?project=innocent", `{"value":"v"}`, 200, &KeptSecret{})
	changed := r.put("shop", text+"# More.\n", "If-Match", kept.ETag)
	var next KeptProject
	changed.into(t, &next)
	if changed.status != 200 || next.ETag == kept.ETag || len(next.Warnings) != 0 || next.Keys != 1 || next.Secrets != 1 {
		t.Errorf("%d %s", changed.status, changed.body)
	}
	var first, list Projects
	r.tell("GET", "/projects?limit=1", "", 200, &first)
	r.tell("GET", "/projects?cursor="+first.Next, "", 200, &list)
	list.Projects = append(first.Projects, list.Projects...)
	var got []string
	for _, p := range list.Projects {
		got = append(got, fmt.Sprint(p.Name, " ", p.Home, " ", p.Path, " ", p.Servers, p.Keys, p.Secrets, " ", p.Problem))
	}
	if want := []string{"default file /mcp 0 0 0 ", "innocent store /p/innocent/mcp 0 0 1 ", "shop store /p/shop/mcp 1 1 1 "}; !slices.Equal(got, want) || list.Total != 3 {
		t.Errorf("%q", got)
	}
	var gone RemovedProject
	r.do(http.MethodDelete, "/api/v1/projects/shop", "", "If-Match", next.ETag).into(t, &gone)
	now := r.api.opts.Safe.Store().Snapshot()
	if gone.EndedKeys != 1 || gone.EndedSecrets != 1 || gone.ETag != next.ETag || len(now.Keys()) != 0 || len(now.Sealed("shop")) != 0 || len(now.Sealed("innocent")) != 1 {
		t.Errorf("%+v", gone)
	}
	if a := r.ask(http.MethodGet, "/api/v1/status?project=shop", ""); a.status != 404 {
		t.Errorf("the removed project: %d %s", a.status, a.body)
	}
	r.homes().inFile, r.homes().problems = []string{"innocent"}, []ProjectProblem{{"innocent", "Line 7 is wrong."}}
	r.tell("GET", "/projects", "", 200, &list)
	if p := list.Projects; len(p) != 3 || p[1].Home != "file" || p[1].Problem != "Line 7 is wrong." || p[2].Home != "store" || p[2].Problem != "" {
		t.Errorf("a project of the file with a problem, and one of the store with the same name: %+v", p)
	}
}

// TestBadProjects checks that what can't be has no effect, and gets a problem that says why and what to do.
func TestBadProjects(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.homes().inFile = []string{"filed"}
	r.api.projectAPI.file = "/etc/dragoman.yaml"
	const innocent = "title: Innocent\n"
	first := r.put("innocent", innocent)
	second := r.put("innocent", "title: Twice\n", "If-Match", first.header.Get("ETag"))
	third := r.put("innocent", innocent, "If-Match", "*")
	if first.status != 201 || second.status != 200 || third.status != 200 {
		t.Fatalf("%s %s %s", first.body, second.body, third.body)
	}
	old, now := first.header.Get("ETag"), third.header.Get("ETag")
	long := "title: " + strings.Repeat("x", config.MaxFile)
	for _, c := range []struct {
		method, name, text string
		header             []string
		status             int
		want               string
	}{
		{"PUT", "innocent", "title: Mine\n", nil, 428, `"current":"\"3\""`},
		{"PUT", "innocent", "title: Mine\n", nil, 428, "Send the ETag of the text that you have read as If-Match"},
		{"PUT", "innocent", "title: Mine\n", []string{"If-Match", old}, 412, `"current":"\"3\""`},
		{"PUT", "innocent", "title: Mine\n", []string{"If-Match", old}, 412, "Somebody has changed the project meanwhile"},
		{"PUT", "innocent", "title: Mine\n", []string{"If-Match", "W/" + now}, 412, "outdated"},
		{"PUT", "innocent", "title: Mine\n", []string{"If-Match", "3"}, 412, "outdated"},
		{"PUT", "innocent", "title: Mine\n", []string{"If-None-Match", "*"}, 412, "outdated"},
		{"PUT", "nobody", "title: Mine\n", []string{"If-Match", now}, 412, "It has been removed"},
		{"DELETE", "innocent", "", nil, 428, "If-Match"},
		{"DELETE", "innocent", "", []string{"If-Match", old}, 412, "outdated"},
		{"DELETE", "nobody", "", []string{"If-Match", "*"}, 404, "No project is named"},
		{"GET", "nobody", "", nil, 404, "No project is named"},
		{"PUT", "api", "", nil, 422, "part of Dragoman's own URLs"},
		{"PUT", "S", "", nil, 422, "part of Dragoman's own URLs"},
		{"PUT", "p", "", nil, 422, "Choose another name"},
		{"PUT", "console", "", nil, 422, "part of Dragoman's own URLs"},
		{"PUT", "a%20b", "", nil, 422, "a character that is not allowed"},
		{"PUT", "a%2Fb", "", nil, 422, "a character that is not allowed"},
		{"PUT", strings.Repeat("x", 65), "", nil, 422, "longer than 64 characters"},
		{"PUT", "default", "", nil, 409, "lives in /etc/dragoman.yaml; edit it there"},
		{"GET", "default", "", nil, 409, "lives in /etc/dragoman.yaml; edit it there"},
		{"DELETE", "filed", "", []string{"If-Match", "*"}, 409, "lives in /etc/dragoman.yaml; edit it there"},
		{"PUT", "filed", "", nil, 409, "lives in /etc/dragoman.yaml; edit it there"},
		{"PUT", "new", long, nil, 413, "1048576 bytes at most"},
		{"PUT", "new", "title: a\nuse: [", nil, 422, "Line 2: syntax error: this [ is not closed"},
		{"PUT", "new", "- a", nil, 422, "Line 1: must be a mapping"},
		{"PUT", "new", "server: {instructions: {command: [id]}}\n", nil, 422, "works only in the configuration file"},
		{"PUT", "new", "server: {instructions: {file: /etc/passwd}}\n", nil, 422, "works only in the configuration file"},
		{"PUT", "new", "title: a\n---\ntitle: b\n", nil, 422, "second document"},
		{"PUT", "new", "listen: 0.0.0.0:1\n", nil, 422, "Line 1: listen: unknown key; valid keys: title"},
		{"PUT", "new", "mcpServers: {a: {comand: x}}\n", nil, 422, "did you mean command?"},
		{"PUT", "new", "title: caf\xe9\n", nil, 400, "UTF-8"},
		{"PUT", "new", "title: a\x00\n", nil, 400, "NUL"},
		{"PUT", "new", "title: a\n", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type: application/yaml"},
		{"PUT", "new", "mcpServers: {a: {url: \"http://127.0.0.1:1/${HOME}\"}}\n", nil, 422, "is a variable of the machine"},
		{"PUT", "new", "mcpServers: {a: {url: \"http://127.0.0.1:1/${HOME:-x}\"}}\n", nil, 422, "is a variable of the machine"},
		{"PUT", "new", "mcpServers: {a: {command: x, env: {A: \"${env:HOME}\"}}}\n", nil, 422, "is a variable of the machine"},
	} {
		a := r.do(c.method, "/api/v1/projects/"+c.name, c.text, append([]string{"Content-Type", yamlType}, c.header...)...)
		if a.status != c.status || !strings.Contains(a.body, c.want) || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.30s %.60q %v: %d %.600s", c.method, c.name, c.text, c.header, a.status, a.body)
		}
	}
	all := r.api.opts.Safe.Store().Snapshot().Projects()
	if len(all) != 1 || all[0].Text != innocent || tagOf(all[0].Version) != now {
		t.Errorf("the projects are %+v", all)
	}
}

// TestTwoPeopleChangeOneProject lets many change a project of which they have read the same version. One of
// them wins, and the others are told what the version is now.
func TestTwoPeopleChangeOneProject(t *testing.T) {
	t.Parallel()
	r := serving(t)
	tag := r.put("shop", "").header.Get("ETag")
	answers := make(chan reply)
	const people = 8
	for i := range people {
		go func() { answers <- r.put("shop", fmt.Sprintf("title: \"%d\"\n", i), "If-Match", tag) }()
	}
	won, current := "", map[string]int{}
	for range people {
		switch a := <-answers; a.status {
		case 200:
			won += a.header.Get("ETag")
		case 412:
			var p Problem
			a.into(t, &p)
			current[p.Current]++
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if current[won] != people-1 || len(r.api.opts.Safe.Store().Snapshot().Projects()) != 1 {
		t.Errorf("%s won, and the others were told %v", won, current)
	}
}

// TestTM16_WhoMayChangeProjects checks what who may do with which project. Nobody learns of a project in which they
// have no role, and only an admin decides what runs on this machine, and what serve connects to.
func TestTM16_WhoMayChangeProjects(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "notes", "legacy"))
	access := r.api.Access()
	access.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		name, of, _ := strings.Cut(who.Subject, "@")
		if role, ok := identity.RoleOf(name); ok && of == project {
			return []identity.Role{role}
		}
		return localRoles(who, project)
	})
	const remote, more = "mcpServers: {web: {url: \"http://127.0.0.1:1/mcp\"}}\n", "title: T\n"
	const command = "mcpServers: {a: {command: /bin/true, args: [\"${secret:one}\"]}}\n"
	// A secret in the host or the port of a URL makes a text that is valid or not depending on the secret.
	const sent = "mcpServers: {web: {url: \"http://127.0.0.1:1/mcp\", headers: {A: \"${secret:one}\"}}}\n"
	hidden := func(more string) string {
		return "mcpServers: {web: {url: \"http://${secret:none}/mcp\"}" + more + "}\n"
	}
	port := func(more string) string {
		return "mcpServers: {web: {url: \"http://127.0.0.1:${secret:none}/mcp\"}" + more + "}\n"
	}
	const started = ", a: {command: /bin/true}"
	reset := func(text string) {
		r.do(http.MethodDelete, "/api/v1/projects/shop", "", "If-Match", "*")
		if a := r.put("shop", text); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if a := r.put("other", ""); a.status != 201 {
		t.Fatal(a.body)
	}
	at := access.Name() + ":7300"
	const put, get, del = http.MethodPut, http.MethodGet, http.MethodDelete
	for i, c := range []struct {
		who, method, name, before, after string
		status                           int
		want                             string
	}{
		{"operator@shop", put, "shop", remote, remote + more, 200, ""},
		{"operator@shop", put, "shop", command, command + more, 200, ""},
		{"operator@shop", put, "shop", command, more, 200, ""},
		{"operator@shop", put, "shop", command, remote, 403, "its URL and headers"},
		{"operator@shop", put, "shop", remote, strings.ReplaceAll(remote, ":1/", ":2/"), 403, "its URL and headers"},
		{"operator@shop", get, "shop", command, "", 200, ""},
		{"operator@shop", put, "shop", remote, command, 403, "Only an admin of the project may add a server, or change its command"},
		{"operator@shop", put, "shop", command, strings.ReplaceAll(command, "true", "false"), 403, "Only an admin of the project"},
		{"operator@shop", put, "shop", command, strings.ReplaceAll(command, "one", "two"), 403, "Only an admin of the project"},
		{"operator@shop", put, "shop", command, strings.ReplaceAll(command, "args", "env: {A: b}, args"), 403, "Only an admin of the project"},
		{"operator@shop", put, "shop", remote, remote + "servers: {web: {caFile: /etc/passwd}}\n", 403, "Only an admin of the project"},
		{"operator@shop", put, "shop", remote, hidden(started), 403, "Only an admin of the project may add a server, or change its command"},
		{"operator@shop", put, "shop", hidden(""), hidden(started), 403, "Only an admin of the project may add a server, or change its command"},
		{"operator@shop", put, "shop", remote, port(started), 403, "Only an admin of the project may add a server, or change its command"},
		{"operator@shop", put, "shop", remote, hidden("") + "use: [notes]\n", 403, "Only an admin of the project default"},
		{"operator@shop", put, "shop", remote, hidden(""), 403, "its URL and headers"},
		{"operator@shop", put, "shop", sent, sent + more, 200, ""},
		{"operator@shop", put, "shop", hidden(""), hidden("") + more, 200, ""},
		{"operator@shop", put, "shop", remote, sent, 403, "its URL and headers"},
		{"operator@shop", put, "shop", sent, strings.ReplaceAll(sent, "127.0.0.1", "127.0.0.2"), 403, "its URL and headers"},
		{"operator@shop", put, "shop", sent, strings.ReplaceAll(sent, "one", "two"), 403, "its URL and headers"},
		{"operator@shop", put, "shop", strings.ReplaceAll(sent, "$", "$$"), sent, 403, "its URL and headers"},
		{"operator@shop", put, "shop", strings.ReplaceAll(command, "$", "$$"), command, 403, "Only an admin of the project may add a server, or change its command"},
		{"admin@shop", put, "shop", remote, hidden("") + more, 200, ""},
		{"admin@shop", put, "shop", remote, sent, 200, ""},
		{"admin@shop", put, "shop", remote, port("") + "use: [notes]\n", 403, "Only an admin of the project default may let a project use its servers"},
		{"operator@shop", put, "shop", remote, "use: [notes]\n", 403, "Only an admin of the project default may let a project use its servers"},
		{"operator@shop", del, "shop", remote, "", 403, "needs the role admin"},
		{"viewer@shop", put, "shop", remote, more, 403, "needs the role operator"},
		{"viewer@shop", get, "shop", remote, "", 403, "needs the role operator"},
		{"caller@shop", get, "shop", remote, "", 403, "needs the role operator"},
		{"admin@shop", put, "shop", remote, command, 200, ""},
		{"admin@shop", put, "shop", remote, "use: [notes]\n", 403, "Only an admin of the project default"},
		{"admin@shop", del, "shop", remote, "", 200, ""},
		{"admin@new", put, "new", remote, more, 403, "Only an admin of the project default may add projects"},
		{"operator@default", put, "shop", remote, more, 404, "Only an admin of the project default may add projects."},
		{"admin@default", put, "shop", remote, command + "use: [notes]\n", 200, ""},
		{"admin@default", put, "new", remote, command, 201, ""},
		{"admin@shop", get, "other", remote, "", 404, "no-such-project"},
		{"admin@shop", put, "other", remote, more, 404, "no-such-project"},
		{"admin@shop", del, "other", remote, "", 404, "no-such-project"},
		{"admin@shop", get, "none", remote, "", 404, "no-such-project"},
		{"admin@other", get, "shop", remote, "", 404, "no-such-project"},
	} {
		reset(c.before)
		cookie := enter(access, access.LinkFor(identity.Named(c.who), ""))
		header := []string{"Content-Type", yamlType, "Cookie", cookie, "Host", at}
		if c.name != "new" {
			header = append(header, "If-Match", "*")
		}
		a := r.ask(c.method, "/api/v1/projects/"+c.name, c.after, header...)
		if a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%d: %s %s %s: %d %s", i, c.who, c.method, c.name, a.status, a.body)
		}
		if x, _ := r.api.opts.Safe.Store().Snapshot().Project("shop"); a.status >= 400 && x.Text != c.before {
			t.Errorf("%d: a refused request has changed the project to %q", i, x.Text)
		}
	}
	for who, want := range map[string][]string{
		"admin@default": {"default", "new", "other", "shop"}, "viewer@shop": {"shop"}, "operator@default": {"default"}, "admin@other": {"other"},
	} {
		cookie := enter(access, access.LinkFor(identity.Named(who), ""))
		var got []string
		var list Projects
		r.ask(get, "/api/v1/projects", "", "Cookie", cookie, "Host", at).into(t, &list)
		for _, p := range list.Projects {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) || list.Total != len(want) {
			t.Errorf("%s sees %v, want %v", who, got, want)
		}
	}
}

// TestFirstOfAProject lets an admin of default make the first key, secret and invitation of another project, and the
// project's own admin everything there. Nobody else gets further than to a project that doesn't exist, and an admin
// of default reads nothing else of it.
func TestFirstOfAProject(t *testing.T) {
	t.Parallel()
	r := serving(t)
	admitting := r.api.Access()
	admitting.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		name, of, _ := strings.Cut(who.Subject, "@")
		if role, ok := identity.RoleOf(name); ok && of == project {
			return []identity.Role{role}
		}
		return localRoles(who, project)
	})
	for _, name := range []string{"shop", "lab"} {
		if a := r.put(name, ""); a.status != 201 {
			t.Fatal(a.body)
		}
	}
	at := admitting.Name() + ":7300"
	ask := func(who, method, path, body string) reply {
		cookie := enter(admitting, admitting.LinkFor(identity.Named(who), ""))
		return r.ask(method, "/api/v1"+path, body, "Content-Type", "application/json", "Cookie", cookie, "Host", at)
	}
	for path, c := range map[string]struct {
		method, body string
		status       int
	}{
		"/keys":       {http.MethodPost, `{"name":"ci"}`, 201},
		"/secrets/gh": {http.MethodPut, `{"value":"x"}`, 200},
		"/people":     {http.MethodPost, `{"name":"NAME"}`, 201},
	} {
		for _, who := range []string{"admin@default", "admin@shop"} {
			if a := ask(who, c.method, path+"?project=shop", strings.ReplaceAll(c.body, "NAME", strings.ReplaceAll(who, "@", " of "))); a.status != c.status || !strings.Contains(a.body, `"project": "shop"`) {
				t.Errorf("%s: %s %s: %d %s", who, c.method, path, a.status, a.body)
			}
		}
		none := ask("admin@lab", c.method, path+"?project=none", c.body)
		if none.status != 404 {
			t.Errorf("no project: %d %s", none.status, none.body)
		}
		for _, who := range []string{"operator@default", "viewer@default", "caller@default", "admin@lab", "nobody@shop"} {
			if a := ask(who, c.method, path+"?project=shop", c.body); a.status != 404 || strings.ReplaceAll(a.body, "shop", "none") != none.body {
				t.Errorf("%s: %s %s: %d %s", who, c.method, path, a.status, a.body)
			}
		}
		if a := ask("operator@shop", c.method, path+"?project=shop", c.body); a.status != 403 {
			t.Errorf("an operator of the project: %s %s: %d %s", c.method, path, a.status, a.body)
		}
		for query, want := range map[string]int{"?project=none": 404, "?project=shop&project=lab": 400, "?project=lab&project=default": 400} {
			if a := ask("admin@default", c.method, path+query, c.body); a.status != want {
				t.Errorf("%s: %d %s", path+query, a.status, a.body)
			}
		}
	}
	for _, path := range []string{"/status", "/servers", "/calls", "/logs"} {
		if a := ask("admin@default", http.MethodGet, path+"?project=shop", ""); a.status != 404 {
			t.Errorf("an admin of default reads %s of shop: %d %s", path, a.status, a.body)
		}
	}
	if s := r.api.opts.Safe.Store().Snapshot(); slices.ContainsFunc(s.Keys(), func(k store.Key) bool { return k.Project != "shop" }) || len(s.Keys()) != 2 || len(s.Sealed("lab"))+len(s.Sealed("default")) > 0 {
		t.Errorf("something else was made: %+v", s.Keys())
	}
}
