package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/console"
)

// act is something that somebody does with a form of a page, with the route and the command that do the same.
type act struct {
	page  string // the path of the form's target
	do    string // the values of the form's field "do", separated by spaces; "" for a form without one
	route string // "" for what isn't an act
	line  string // the command, without what it's about; why there is none if there is no route
}

// acts are all acts of all pages.
var acts = []act{
	{"/console/audit", "", "GET /audit/lines", "audit show"},
	{"/console/connect", "", "POST /keys", "keys add"},
	{"/console/connections", "in", "POST /signins/{server}", "login"},
	{"/console/connections", "out", "DELETE /signins/{server}", "logout"},
	{"/console/keys/new", "", "POST /keys", "keys add"},
	{"/console/keys/{id}", "rotate", "POST /keys/{id}/rotate", "keys rotate"},
	{"/console/keys/{id}", "revoke", "DELETE /keys/{id}", "keys revoke"},
	{"/console/keys/{id}/look", "", "POST /keys/{id}/look", "keys look"},
	{"/console/me", "end", "DELETE /people/{name}/sessions/{session}", "people sign-out"},
	{"/console/me", "link", "POST /console/link", "console"},
	{"/console/people", "", "POST /people", "people invite"},
	{"/console/people/{id}", "link", "POST /people/{name}/invitation", "people link"},
	{"/console/people/{id}", "roles", "PUT /people/{name}/roles", "people role"},
	{"/console/people/{id}", "end", "DELETE /people/{name}/sessions/{session}", "people sign-out"},
	{"/console/people/{id}", "sign-out", "POST /people/{name}/sign-out", "people sign-out"},
	{"/console/people/{id}", "remove", "DELETE /people/{name}", "people remove"},
	{"/console/playground", "run", "POST /runs", "call"},
	{"/console/playground", "run", "POST /servers/{name}/runs", "call"},
	{"/console/playground", "form json", "", "shows the same arguments in another way"},
	{"/console/playground/{id}", "run", "POST /examples/{id}/runs", "examples run"},
	{"/console/playground/{id}", "remove", "DELETE /examples/{id}", "examples remove"},
	{"/console/projects", "", "PUT /projects/{name}", "projects add"},
	{"/console/projects/{name}", "preview", "POST /projects/{name}/preview", "projects edit"},
	{"/console/projects/{name}", "save", "PUT /projects/{name}", "projects edit"},
	{"/console/projects/{name}", "remove", "DELETE /projects/{name}", "projects remove"},
	{"/console/prompts/_new", "save", "POST /prompts", "prompts add"},
	{"/console/prompts/_new", "preview", "", "shows what was typed"},
	{"/console/prompts/{name}", "publish", "POST /prompts/{name}/publish", "prompts publish"},
	{"/console/prompts/{name}", "off", "POST /prompts/{name}/off", "prompts off"},
	{"/console/prompts/{name}/edit", "save", "POST /prompts", "prompts add"},
	{"/console/prompts/{name}/instructions", "", "POST /prompts/{name}/activate", "prompts activate"},
	{"/console/questions/{id}", "accept", "POST /questions/{id}/answer", "questions answer"},
	{"/console/questions/{id}", "decline cancel", "POST /questions/{id}/answer", "questions decline"},
	{"/console/rules", "", "PUT /rules", "rules edit"},
	{"/console/rules/edit", "", "PUT /rules", "rules edit"},
	{"/console/runs/{id}", "accept decline cancel", "POST /runs/{id}/answers", "call"},
	{"/console/runs/{id}", "stop", "DELETE /runs/{id}", "call"},
	{"/console/runs/{id}/keep", "", "POST /examples", "examples keep"},
	{"/console/secrets", "", "PUT /secrets/{name}", "secrets set"},
	{"/console/secrets/{name}", "set", "PUT /secrets/{name}", "secrets set"},
	{"/console/secrets/{name}", "remove", "DELETE /secrets/{name}", "secrets remove"},
	{"/console/servers/add", "read hand", "POST /drafts", "add"},
	{"/console/servers/add", "import", "POST /drafts", "import"},
	{"/console/servers/add", "choose try cancel", "POST /drafts/{id}", "add"},
	{"/console/servers/add", "drop", "DELETE /drafts/{id}", "add"},
	{"/console/servers/add", "keep", "POST /drafts/{id}/keep", "add"},
	{"/console/servers/{name}/edit", "disable", "POST /servers/{name}/edits/keep", "disable"},
	{"/console/servers/{name}/edit", "enable", "POST /servers/{name}/edits/keep", "enable"},
	{"/console/servers/{name}/edit", "remove", "POST /servers/{name}/edits/keep", "remove"},
	{"/console/servers/{name}/edit", "entry", "POST /servers/{name}/edits/keep", "reload"},
	{"/console/servers/{name}/edit", "tools", "POST /servers/{name}/edits/keep", "disable"},
	{"/console/servers/{name}/findings", "start", "POST /servers/{name}/doctor", "doctor"},
	{"/console/servers/{name}/findings", "cancel", "DELETE /servers/{name}/doctor", "doctor"},
	{"/console/servers/{name}/prompts", "", "POST /servers/{name}/runs", "prompt"},
	{"/console/servers/{name}/resources", "", "POST /servers/{name}/runs", "read"},
	{"/console/servers/{name}/{operation}", "", "POST /servers/{name}/restart", "restart"},
	{"/console/servers/{name}/{operation}", "", "POST /servers/{name}/stop", "stop"},
	{"/console/servers/{name}/{operation}", "", "POST /servers/{name}/start", "restart"},
	{"/console/servers/{name}/{operation}", "", "POST /servers/{name}/probe", "doctor"},
	{"/console/tools/held", "", "GET /pins", "tools review"},
	{"/console/tools/held/{id}", "approve", "POST /pins/approve", "tools approve"},
	{"/console/tools/held/{id}", "reject", "POST /pins/reject", "tools reject"},
	{"/console/signout", "", "", "ends the session of the browser that asks"},
	{"/console/theme", "", "", "is kept in the browser"},
}

var doValue = regexp.MustCompile(`name="do" value="([^"{]+)"`)

// TestEachActHasARouteAndACommand compares what people can do on the pages of the console with the routes of the API and
// the commands: each act has one of each.
func TestEachActHasARouteAndACommand(t *testing.T) {
	api := admin.New(admin.Options{Local: true})
	t.Cleanup(api.Close)
	pages := console.New(console.Options{Access: api.Access(), Source: api, Add: api})
	t.Cleanup(pages.Close)
	mux := http.NewServeMux()
	api.Routes(mux)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/openapi.json", nil)
	r.Host = "127.0.0.1:7300"
	mux.ServeHTTP(w, r)
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
		t.Fatalf("%d %v", w.Code, err)
	}
	root := (&app{}).root()
	posts := map[string]bool{}
	for _, x := range pages.Table() {
		if x.Method == http.MethodPost {
			posts[x.Path] = false
		}
	}
	did := map[string]bool{}
	for _, a := range acts {
		if _, there := posts[a.page]; !there {
			t.Errorf("no form goes to %s", a.page)
		}
		posts[a.page] = true
		for _, do := range strings.Fields(a.do) {
			did[do] = true
		}
		if a.route == "" {
			continue
		}
		method, path, _ := strings.Cut(a.route, " ")
		if _, there := document.Paths["/api/v1"+path][strings.ToLower(method)]; !there {
			t.Errorf("%s %s: there is no route %s", a.page, a.do, a.route)
		}
		if cmd, rest, err := root.Find(strings.Fields(a.line)); err != nil || len(rest) > 0 || cmd == root {
			t.Errorf("%s %s: there is no command %q", a.page, a.do, a.line)
		}
	}
	for page, known := range posts {
		if !known {
			t.Errorf("a form goes to %s, which has no row among the acts: add its route and its command", page)
		}
	}
	templates, err := filepath.Glob("../console/templates/*.html")
	if err != nil || len(templates) == 0 {
		t.Fatal("no templates", err)
	}
	for _, file := range templates {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range doValue.FindAllSubmatch(text, -1) {
			if !did[string(m[1])] {
				t.Errorf("%s has a button %q, which is in no row of the acts", filepath.Base(file), m[1])
			}
		}
	}
}
