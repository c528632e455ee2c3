//go:build unix

package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// setProject makes the text of a project what it should be, as another process would.
func setProject(t *testing.T, s *store.Safe, name, text string) {
	t.Helper()
	sum, err := access.NewDesk(s).SignProject(t.Context(), "local", name, text)
	if err != nil {
		t.Fatal(err)
	}
	writeProject(t, s, name, text, sum)
}

func writeProject(t *testing.T, s *store.Safe, name, text string, sum []byte) {
	t.Helper()
	err := s.Store().Write(t.Context(), "local", func(t *store.Tx) error {
		version, err := t.AddProject(name, text, sum, store.Settings{})
		if err == nil && version == 0 {
			x, _ := s.Store().Snapshot().Project(name)
			if version, err = t.ChangeProject(name, text, sum, x.Version, store.Settings{}); err == nil && version == 0 {
				err = errors.New("another version")
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func removeProject(t *testing.T, s *store.Safe, name string) {
	t.Helper()
	x, _ := s.Store().Snapshot().Project(name)
	err := s.Store().Write(t.Context(), "local", func(t *store.Tx) error {
		_, _, err := t.RemoveProject(name, x.Version, false, store.Settings{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tools returns what a client sees at a path, or the status.
func (s *sealed) tools(path string) string {
	a := s.modern(path, "1", "tools/list", "", "")
	if a.status != 200 {
		return fmt.Sprint(a.status)
	}
	return a.body
}

// problems returns what the status says of the projects that can't be used.
func (s *sealed) problems() string {
	report, _ := s.status()
	text, _ := json.Marshal(report.ProjectProblems)
	return string(text)
}

// api sends a request with the key of the process.
func (s *sealed) api(method, path, body string, header ...string) answer {
	s.t.Helper()
	return s.do(s.t.Context(), method, "/api/v1"+path, strings.NewReader(body), append([]string{"Authorization", "Bearer " + s.key, "Content-Type", "application/yaml"}, header...)...)
}

// TestProjectsOfAnotherProcess adds, changes and removes a project in another process while serve runs: its
// endpoints appear and vanish, and its sessions, streams and keys end with it. A text that can't be used
// leaves the one before in use, and the status says why. A client of default notices nothing.
func TestProjectsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	one, two := newWeb(t, false), newWeb(t, true)
	s := serveSealed(t, database, "  home: {url: \""+newWeb(t, false).web.URL+"/mcp\"}\n")
	innocent := s.initialize("/mcp", "2025-11-25", "{}")
	calm := func() {
		t.Helper()
		if a := s.post("/mcp", toolCall("7", "home__echo", "{}"), "Mcp-Session-Id", innocent, "MCP-Protocol-Version", "2025-11-25"); a.status != 200 || a.code(t) != 0 {
			t.Errorf("the innocent client gets %d %s", a.status, a.body)
		}
	}
	calm()
	if a := s.tools("/p/shop/mcp"); a != "404" {
		t.Fatalf("no project yet: %s", a)
	}
	other := safeAt(t, database)
	text := func(name, url string) string {
		return fmt.Sprintf("title: Shop\nmcpServers:\n  %s: {url: %q}\n", name, url+"/mcp")
	}
	setProject(t, other, "shop", text("one", one.web.URL))
	if took := soon(t, "the project appears", func() bool { return strings.Contains(s.tools("/p/shop/mcp"), `"one__echo"`) }); took > time.Second {
		t.Logf("after %v", took)
	}
	if !strings.Contains(s.tools("/p/shop/s/one/mcp"), `"echo"`) || strings.Contains(s.tools("/mcp"), "one__") {
		t.Error("the endpoint of the server is missing, or default has the server")
	}
	session := s.initialize("/p/shop/mcp", "2025-11-25", "{}")
	stream := s.open(http.MethodGet, "/p/shop/mcp", "", "Accept", "text/event-stream", "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25")

	setProject(t, other, "shop", "title: [\n")
	soon(t, "the bad text is reported", func() bool { return strings.Contains(s.problems(), `"project":"shop"`) })
	if got := s.problems(); !strings.Contains(got, "line 1: syntax error: this [ is not closed") || s.log.count(`msg="a project of the store cannot be used" project=shop`) != 1 {
		t.Errorf("the trouble is %s", got)
	}
	if !strings.Contains(s.tools("/p/shop/mcp"), `"one__echo"`) {
		t.Error("the text before isn't in use any more")
	}
	setProject(t, other, "shop", text("two", two.web.URL))
	soon(t, "the project changes", func() bool { return strings.Contains(s.tools("/p/shop/mcp"), `"two__echo"`) })
	if a := s.post("/p/shop/mcp", toolCall("7", "two__echo", "{}"), "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25"); a.status != 200 || a.code(t) != 0 || s.problems() != "null" {
		t.Errorf("a session from before: %d %s, %s", a.status, a.body, s.problems())
	}
	calm()
	removeProject(t, other, "shop")
	soon(t, "the project vanishes", func() bool { return s.tools("/p/shop/mcp") == "404" && s.tools("/p/shop/s/two/mcp") == "404" })
	ended(t, stream)
	calm()
	if s.log.count(`msg="project added" project=shop`) != 1 || s.log.count(`msg="project changed" project=shop`) != 1 || s.log.count(`msg="project removed" project=shop`) != 1 {
		t.Error("the log misses a change")
	}
}

// TestForgedProjects writes texts into the database that dragoman hasn't signed: another text, another project's
// text with its signature, and a new project. None of their commands is started, what was in use stays, and an
// operator who saves the text doesn't make it ours.
func TestForgedProjects(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	web := newWeb(t, false)
	s := serveSealed(t, database, "  {}\n")
	other := safeAt(t, database)
	text := func(name string) string {
		return fmt.Sprintf("mcpServers: {%s: {url: %q}}\n", name, web.web.URL+"/mcp")
	}
	mark := filepath.Join(t.TempDir(), "started")
	evil := fmt.Sprintf("mcpServers: {evil: {command: /bin/sh, args: [-c, %q]}}\n", "touch '"+mark+"'")
	setProject(t, other, "shop", text("one"))
	setProject(t, other, "innocent", text("two"))
	soon(t, "both are in use", func() bool {
		return strings.Contains(s.tools("/p/shop/mcp"), `"one__echo"`) && strings.Contains(s.tools("/p/innocent/mcp"), `"two__echo"`)
	})
	theirs, _ := other.Store().Snapshot().Project("innocent")
	for _, c := range []struct {
		name, text string
		sum        []byte
	}{
		{"shop", evil, []byte{}},
		{"shop", theirs.Text, theirs.Sum},
		{"new", theirs.Text, theirs.Sum},
		{"shop", evil, theirs.Sum},
		{"new", evil, make([]byte, 32)},
	} {
		writeProject(t, other, c.name, c.text, c.sum)
		x, _ := other.Store().Snapshot().Project(c.name)
		soon(t, "the text has been read", func() bool {
			return strings.Contains(s.api(http.MethodGet, "/projects", "").body, fmt.Sprintf(`"etag": "\"%d\""`, x.Version)) && strings.Contains(s.problems(), `"project":"`+c.name+`"`)
		})
		if got := s.tools("/p/shop/mcp"); !strings.Contains(got, `"one__echo"`) || strings.Contains(got, "two__") {
			t.Errorf("%s: shop has %s", c.text, got)
		}
		if got := s.tools("/p/new/mcp"); strings.Contains(got, "__") {
			t.Errorf("%s: new has %s", c.text, got)
		}
	}
	key, _, err := access.NewDesk(other).Make(t.Context(), "local", access.Wish{Name: "op", Project: "new", Role: identity.Operator})
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "the key works", func() bool {
		return s.do(t.Context(), http.MethodGet, "/api/v1/status?project=new", nil, "X-API-Key", key).status == 200
	})
	if a := s.do(t.Context(), http.MethodPut, "/api/v1/projects/new", strings.NewReader(evil), "X-API-Key", key, "Content-Type", "application/yaml", "If-Match", "*"); a.status != 403 {
		t.Errorf("an operator saves the text: %d %s", a.status, a.body)
	}
	if !strings.Contains(s.tools("/p/innocent/mcp"), `"two__echo"`) {
		t.Error("the innocent project has changed")
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a command was started that somebody has written into the database")
	}
}

// TestProjectsOfTwoServes changes projects through one serve, and uses them at another one with the same
// database, and at the next one after both have ended.
func TestProjectsOfTwoServes(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	a, b := serveSealed(t, database, "  {}\n"), serveSealed(t, database, "  {}\n")
	web := newWeb(t, false)
	text := fmt.Sprintf("mcpServers: {one: {url: %q}}\n", web.web.URL+"/mcp")
	made := a.api(http.MethodPut, "/projects/shop", text)
	if made.status != 201 || !strings.Contains(a.tools("/p/shop/mcp"), `"one__echo"`) {
		t.Fatalf("%d %s, and then %s", made.status, made.body, a.tools("/p/shop/mcp"))
	}
	soon(t, "the other serve has the project", func() bool { return strings.Contains(b.tools("/p/shop/mcp"), `"one__echo"`) })
	// Who has read a version at one serve can change it at the other at once.
	changed := a.api(http.MethodPut, "/projects/shop", "# 1\n"+text, "If-Match", made.header.Get("ETag"))
	again := b.api(http.MethodPut, "/projects/shop", "# 2\n"+text, "If-Match", changed.header.Get("ETag"))
	if changed.status != 200 || again.status != 200 {
		t.Errorf("%d %s, %d %s", changed.status, changed.body, again.status, again.body)
	}
	if late := a.api(http.MethodPut, "/projects/shop", text, "If-Match", changed.header.Get("ETag")); late.status != 412 || !strings.Contains(late.body, `"current":`+fmt.Sprintf("%q", again.header.Get("ETag"))) {
		t.Errorf("%d %s", late.status, late.body)
	}
	if gone := b.api(http.MethodDelete, "/projects/shop", "", "If-Match", again.header.Get("ETag")); gone.status != 200 || b.tools("/p/shop/mcp") != "404" {
		t.Errorf("%d %s", gone.status, gone.body)
	}
	soon(t, "the first serve has removed the project", func() bool { return a.tools("/p/shop/mcp") == "404" })
	if made := b.api(http.MethodPut, "/projects/last", text); made.status != 201 {
		t.Fatal(made.body)
	}
	if err := errors.Join(a.stop(), b.stop()); err != nil {
		t.Fatal(err)
	}
	if next := serveSealed(t, database, "  {}\n"); !strings.Contains(next.tools("/p/last/mcp"), `"one__echo"`) {
		t.Error("the next serve doesn't have the project from the start")
	}
}

// TestFileComesFirst gives a project of the file the name of one in the store. The file's is in use, at once and
// as long as it's there, and the store's can be read and removed; what belongs to the name stays.
func TestFileComesFirst(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	other, one, two := safeAt(t, database), newWeb(t, false), newWeb(t, false)
	text := func(name string, w *webServer) string {
		return fmt.Sprintf("mcpServers: {%s: {url: %q}}", name, w.web.URL+"/mcp")
	}
	setProject(t, other, "shop", text("one", one))
	put(t, other, "shop", "gh", "x")
	s := serveSealed(t, database, "  {}\n", func(o *ServeOptions) { o.secondLook = time.Millisecond })
	sees := func(what, want string) {
		t.Helper()
		soon(t, what, func() bool { return strings.Contains(s.tools("/p/shop/mcp"), `"`+want+`__echo"`) })
		if got := s.tools("/p/shop/mcp"); strings.Count(got, "__echo") != 1 {
			t.Errorf("%s: %s", what, got)
		}
	}
	file := "dragoman:\n  limits: {initializePerSecond: 1000}\n  projects:\n    shop: {" + text("two", two) + "}\nmcpServers: {}\n"
	sees("the store's", "one")
	session := s.initialize("/p/shop/mcp", "2025-11-25", "{}")
	s.write(t, file)
	sees("the file's", "two")
	if a := s.post("/p/shop/mcp", toolCall("7", "two__echo", "{}"), "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25"); a.status != 200 || a.code(t) != 0 {
		t.Errorf("a session from before: %d %s", a.status, a.body)
	}
	if report, _ := s.status(); len(report.ProjectProblems) != 1 || !strings.Contains(report.ProjectProblems[0].Problem, "the file comes first") {
		t.Errorf("%+v", report.ProjectProblems)
	}
	var list admin.Projects
	if err := json.Unmarshal([]byte(s.api(http.MethodGet, "/projects", "").body), &list); err != nil || list.Total != 3 || list.Projects[1].Home != "file" || list.Projects[2].Home != "store" || list.Projects[2].Problem == "" {
		t.Errorf("%v %+v", err, list)
	}
	read := s.api(http.MethodGet, "/projects/shop", "")
	if a := s.api(http.MethodPut, "/projects/shop", "", "If-Match", "*"); read.body != text("one", one) || a.status != 409 || !strings.Contains(a.body, "edit it there") {
		t.Errorf("%d %s, %d %s", read.status, read.body, a.status, a.body)
	}
	if a := s.api(http.MethodDelete, "/projects/shop", "", "If-Match", read.header.Get("ETag")); a.status != 200 || !strings.Contains(a.body, `"endedSecrets": 0`) || len(other.Store().Snapshot().Sealed("shop")) != 1 {
		t.Errorf("%d %s", a.status, a.body)
	}
	sees("still the file's", "two")
	setProject(t, other, "shop", text("one", one))
	soon(t, "the store's is back", func() bool { report, _ := s.status(); return len(report.ProjectProblems) == 1 })
	sees("still the file's", "two")
	s.write(t, "dragoman:\n  limits: {initializePerSecond: 1000}\nmcpServers: {}\n")
	sees("the store's again", "one")
	removeProject(t, other, "shop")
	soon(t, "none is left", func() bool { return s.tools("/p/shop/mcp") == "404" })
	if report, _ := s.status(); len(report.ProjectProblems) != 0 {
		t.Errorf("%+v", report.ProjectProblems)
	}
}

// TestProjectThatCannotBeUsed starts serve with a project that can't be used, first because of a secret and then
// because of its text. It's there without servers, so that people can set the secret.
func TestProjectThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	other, web := safeAt(t, database), newWeb(t, false)
	put(t, other, "shop", "gh", "two\nlines")
	setProject(t, other, "shop", fmt.Sprintf("mcpServers: {one: {url: %q, headers: {X-Key: \"${secret:gh}\"}}}\n", web.web.URL+"/mcp"))
	setProject(t, other, "bad", "title: [")
	s := serveSealed(t, database, "  {}\n")
	for _, path := range []string{"/p/shop/mcp", "/p/bad/mcp"} {
		if got := s.tools(path); !strings.Contains(got, `"tools":[]`) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if report, _ := s.status(); len(report.ProjectProblems) != 2 || !strings.Contains(report.ProjectProblems[1].Problem, "must be one line without control characters") || strings.Contains(report.ProjectProblems[1].Problem, "lines\n") {
		t.Errorf("%+v", report.ProjectProblems)
	}
	if a := s.do(t.Context(), http.MethodPut, "/api/v1/secrets/gh?project=shop", strings.NewReader(`{"value":"one line"}`), "Authorization", "Bearer "+s.key, "Content-Type", "application/json"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	soon(t, "the project is in use", func() bool { return strings.Contains(s.tools("/p/shop/mcp"), `"one__echo"`) })
	if report, _ := s.status(); len(report.ProjectProblems) != 1 || report.ProjectProblems[0].Project != "bad" {
		t.Errorf("%+v", report.ProjectProblems)
	}
}

// TestTA41_SecretsOfOtherProjects lets a project of the store name secrets of other projects and variables of
// the machine, in a command and in a header. It gets none of them, and nothing is sent; its own secret works.
func TestTA41_SecretsOfOtherProjects(t *testing.T) {
	t.Setenv("CANARY_VARIABLE", "canary-variable")
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	other := safeAt(t, database)
	put(t, other, "default", "gh", "canary-default")
	put(t, other, "lab", "gh", "canary-lab")
	put(t, other, "lab", "theirs", "canary-theirs")
	s := serveSealed(t, database, shouting(t, "home", "", `, GH: "${secret:gh}"`))
	web := newWeb(t, false)
	text := "mcpServers:\n" + shouting(t, "thief", "", `, K: "${secret:gh}"`) + shouting(t, "inner", "", `, K: "${secret:lab/theirs}"`) +
		fmt.Sprintf("  web: {url: %q, headers: {X-Key: \"${secret:theirs}\"}}\n", web.web.URL+"/mcp") + shouting(t, "own", "", `, K: "${secret:own}"`)
	if a := s.api(http.MethodPut, "/projects/shop", text); a.status != 422 || !strings.Contains(a.body, "not a valid reference to a secret") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var kept admin.KeptProject
	a := s.api(http.MethodPut, "/projects/shop", strings.ReplaceAll(text, "lab/theirs", "theirs"))
	if err := json.Unmarshal([]byte(a.body), &kept); err != nil || a.status != 201 || len(kept.Warnings) != 4 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	put(t, other, "shop", "own", "canary-own")
	env := func(project, server string) string {
		a := s.call(project+"/s/"+server+"/mcp", "env", "{}")
		if a.status != 200 || a.code(t) != 0 {
			return a.body
		}
		return toolText(a.message(t))
	}
	soon(t, "the project's own secret is there", func() bool { return strings.Contains(env("/p/shop", "own"), "K=canary-own\n") })
	for _, server := range []string{"thief", "inner", "web"} {
		if got := env("/p/shop", server); !strings.Contains(got, "of the project shop") || strings.Contains(got, "canary") {
			t.Errorf("%s: %s", server, got)
		}
	}
	if n := len(web.of("initialize")); n != 0 {
		t.Errorf("the web server got %d requests", n)
	}
	if got := env("", "home"); !strings.Contains(got, "GH=canary-default\n") {
		t.Errorf("default: %s", got)
	}
	for _, text := range []string{
		`mcpServers: {a: {command: x, env: {A: "${CANARY_VARIABLE}"}}}`, `mcpServers: {a: {url: "http://127.0.0.1:1/${env:CANARY_VARIABLE}"}}`,
		`mcpServers: {a: {command: x, args: ["${CANARY_VARIABLE:-x}"]}}`, `title: "${CANARY_VARIABLE}"`, `server: {instructions: {text: "${CANARY_VARIABLE}"}}`,
	} {
		if a := s.api(http.MethodPut, "/projects/spy", text); a.status != 422 || !strings.Contains(a.body, "is a variable of the machine") || strings.Contains(a.body, "canary-") {
			t.Errorf("%s: %d %s", text, a.status, a.body)
		}
	}
	// The commands don't inherit it either.
	if got := env("/p/shop", "own"); strings.Contains(got, "canary-variable") {
		t.Error("the command inherits a variable of the machine")
	}
	if a := s.api(http.MethodGet, "/projects/shop", ""); strings.Contains(a.body, "canary") || !strings.Contains(a.body, "${secret:own}") {
		t.Errorf("the text has a value: %s", a.body)
	}
	if n := s.log.count(`msg="a server is not started" project=shop server=`); n != 4 {
		t.Errorf("the log says %d times that a server of the project is not started", n)
	}
	if strings.Contains(s.log.String(), "canary-own") || os.Getenv("CANARY_VARIABLE") == "" {
		t.Error("the log has a secret")
	}
}

// TestTA53_KeysOfStoreProjects lets the key of one project of the store try another one, as if it did not
// exist. When a project is removed, its key ends, and doesn't come back with a new project of the same name.
func TestTA53_KeysOfStoreProjects(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	s := serveSealed(t, database, "  {}\n", func(o *ServeOptions) {
		c := *o.Config
		c.Access.LoopbackKeys = true
		o.Config = &c
	})
	other, web := safeAt(t, database), newWeb(t, false)
	text := fmt.Sprintf("mcpServers: {one: {url: %q}}\n", web.web.URL+"/mcp")
	setProject(t, other, "shop", text)
	setProject(t, other, "lab", text)
	desk := access.NewDesk(other)
	shop, _ := makeKey(t, desk, access.Wish{Name: "shop", Project: "shop", Role: identity.Caller})
	lab, _ := makeKey(t, desk, access.Wish{Name: "lab", Project: "lab", Role: identity.Caller})
	lists := func(project string, who []string) answer {
		return s.modern("/p/"+project+"/mcp", "1", "tools/list", "", "", who...)
	}
	soon(t, "the keys count", func() bool { return lists("shop", shop).status == 200 && lists("lab", lab).status == 200 })
	first := s.post("/p/lab/mcp", initializeBody("2025-11-25", "{}"), lab...)
	session := []string{"Mcp-Session-Id", first.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
	none := lists("none", shop)
	for name, a := range map[string]answer{
		"a list": lists("lab", shop), "a server": s.modern("/p/lab/s/one/mcp", "1", "tools/list", "", "", shop...), "default": s.modern("/mcp", "1", "tools/list", "", "", shop...),
		"a new session": s.post("/p/lab/mcp", initializeBody("2025-11-25", "{}"), shop...), "a session": s.post("/p/lab/mcp", toolCall("7", "one__echo", "{}"), append(session, shop...)...),
		"a stream": s.do(t.Context(), http.MethodGet, "/p/lab/mcp", nil, append([]string{"Accept", "text/event-stream"}, append(session, shop...)...)...), "SSE": s.do(t.Context(), http.MethodGet, "/p/lab/sse", nil, shop...),
		"an end": s.do(t.Context(), http.MethodDelete, "/p/lab/mcp", nil, append(session, shop...)...),
	} {
		if a.status != none.status || a.status != 404 || strings.Contains(a.body, web.web.URL) || !strings.HasPrefix(a.body, none.body[:16]) {
			t.Errorf("%s: %d %s, and no project: %d %s", name, a.status, a.body, none.status, none.body)
		}
	}
	if a := s.post("/p/shop/mcp", toolCall("7", "one__echo", "{}"), append(session, shop...)...); a.status != 404 || strings.Contains(a.body, "lab") {
		t.Errorf("a session of the other project in its own: %d %s", a.status, a.body)
	}
	calm := func() {
		t.Helper()
		if a := s.post("/p/lab/mcp", toolCall("8", "one__echo", "{}"), append(session, lab...)...); a.status != 200 || a.code(t) != 0 {
			t.Errorf("the innocent client gets %d %s", a.status, a.body)
		}
	}
	calm()
	removeProject(t, other, "shop")
	soon(t, "the key ends with its project", func() bool { return refused(lists("shop", shop)) })
	setProject(t, other, "shop", text)
	again, _ := makeKey(t, desk, access.Wish{Name: "shop", Project: "shop", Role: identity.Caller})
	soon(t, "there is a project of the same name", func() bool { return lists("shop", again).status == 200 })
	if a := lists("shop", shop); !refused(a) {
		t.Errorf("the key of the removed project gets %d %s", a.status, a.body)
	}
	calm()
}

// TestCallsOfARemovedProject removes a project of the store, and with it the key of its client, while the client's
// calls run: they get their answers, and new ones are refused. In a project of the file with the same text, whose
// key is revoked, they end at once. A client of a third project notices nothing.
func TestCallsOfARemovedProject(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	finish := make(chan struct{})
	web := newWeb(t, false, func(s *webServer) { s.finish = finish })
	text := fmt.Sprintf("mcpServers: {one: {url: %q}}", web.web.URL+"/mcp")
	s := serveSealed(t, database, "  {}\n", func(o *ServeOptions) {
		if err := os.WriteFile(o.ConfigPath, fmt.Appendf(nil, "dragoman: {access: {loopback: keys}, projects: {desk: {%s}}}\n", text), 0o600); err != nil {
			t.Error(err)
		}
		if o.Config, o.Problems = config.Load(o.ConfigPath); o.Config == nil {
			t.Error(o.Problems)
		}
	})
	other := safeAt(t, database)
	desk := access.NewDesk(other)
	keys, ids, answers := map[string][]string{}, map[string]string{}, map[string]chan string{}
	for _, project := range []string{"shop", "lab", "desk"} {
		if project != "desk" {
			setProject(t, other, project, text)
		}
		keys[project], ids[project] = makeKey(t, desk, access.Wish{Name: project, Project: project, Role: identity.Caller})
	}
	call := func(project, tool string) string {
		text, _ := s.postQuietly("/p/"+project+"/mcp", modernBody("9", "tools/call", `"name":"one__`+tool+`","arguments":{}`), append(modernHeader("tools/call", "one__"+tool), keys[project]...)...)
		return text
	}
	for n, project := range []string{"shop", "lab", "desk"} {
		soon(t, "the key counts in "+project, func() bool { return strings.Contains(call(project, "echo"), "content") })
		answers[project] = make(chan string, 1)
		go func() { answers[project] <- call(project, "hang") }()
		soon(t, "the call runs in "+project, func() bool { return web.count("call hang") == n+1 })
	}
	if err := desk.Revoke(t.Context(), "local", ids["desk"]); err != nil {
		t.Fatal(err)
	}
	removeProject(t, other, "shop")
	if a := <-answers["desk"]; !strings.Contains(a, "was revoked") {
		t.Errorf("the call with the revoked key ends with %s", a)
	}
	soon(t, "the project vanishes", func() bool { return s.log.count(`msg="project removed" project=shop`) == 1 })
	if a := call("shop", "echo"); !strings.Contains(a, `"code":-32600`) {
		t.Errorf("a new call in the removed project gets %s", a)
	}
	if a := call("lab", "echo"); !strings.Contains(a, "content") {
		t.Errorf("the innocent client gets %s", a)
	}
	close(finish)
	for _, project := range []string{"shop", "lab"} {
		if a := <-answers[project]; !strings.Contains(a, "finished") {
			t.Errorf("the running call in %s ends with %s", project, a)
		}
	}
}
