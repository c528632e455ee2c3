package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

func init() {
	scenes["edit-hostile"] = scenes["waiting"]
	pagesOf["edit-hostile"] = []string{"/servers/" + url.PathEscape(hostile) + "/edit", "/servers/" + url.PathEscape(hostile) + "/edit?do=remove", "/servers/" + url.PathEscape(hostile) + "/edit?do=tools"}
	adders["edit-hostile"] = func() *adder {
		a := triedDraft(hostile, hostile)
		a.draft.Preview.Why = hostile
		a.server = admin.ServerText{File: "/f.yaml", Entry: "command: x </textarea><script>", Why: hostile}
		return a
	}
}

// editing returns a console with a configuration file of three servers, of which one is disabled, and with
// the tools of one. The role of its user is *role.
func editing(t *testing.T, role *identity.Role) (*testConsole, *adder) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	text := "mcpServers:\n  files: {command: x}\n  off: {command: y, disabled: true}\ndragoman:\n  servers:\n    files: {expose: {tools: {deny: [rm, \"delete_*\"]}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	snapshot, problems := config.Load(file)
	if snapshot == nil {
		t.Fatal(problems)
	}
	a := &adder{server: admin.ServerText{File: file, Entry: "command: x\n"}}
	a.draft.Preview = admin.Preview{File: file, Exists: true, Writable: true, Diff: "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", Hash: "h1"}
	s := &source{report: &admin.Report{Servers: []admin.Server{server("files", mcp.R20250618, 4), server("mine", mcp.R20250618, 1)}}, read: map[string]bool{}}
	for _, name := range []string{"ls", "rm", "delete_all", "a*b"} {
		x := admin.Tool{Server: "files", Name: name, Offered: "files__" + name, State: "shown", Tokens: 10, Description: "Does it."}
		if c, _ := snapshot.Server("files"); true {
			if _, hidden := c.Expose.Tools.Hides(name); hidden {
				x.State, x.Hidden = "hidden", []admin.Hidden{{Endpoint: "/mcp", Rule: "expose.tools.deny: x"}}
			}
		}
		s.tools = append(s.tools, admin.ToolDetail{Tool: x})
	}
	h := open(t, s.report, func(o *Options) {
		o.Source, o.Add, o.Config = s, a, func() *config.Snapshot { return snapshot }
		o.Operate = func(string, runtime.Operation, string) error { return nil }
	})
	if role != nil {
		h.access.RolesFrom(func(*identity.Principal, string) []identity.Role { return []identity.Role{*role} })
	}
	return h, a
}

// TestServerPageByRole checks what the page of a server offers to whom.
func TestServerPageByRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var role identity.Role
		h, _ := editing(t, &role)
		for _, c := range []struct {
			role         identity.Role
			restart, may bool
		}{{identity.Viewer, false, false}, {identity.Operator, true, false}, {identity.Admin, true, true}} {
			role = c.role
			_, page := h.ask("GET", "/console/servers/files")
			_, mine := h.ask("GET", "/console/servers/mine")
			if strings.Contains(page, "files/restart") != c.restart {
				t.Errorf("as %s: %s", role, page)
			}
			if strings.Contains(page, "files/edit?do=disable") != c.may || strings.Contains(page, `role="switch"`) != c.may {
				t.Errorf("as %s, the page offers the wrong changes:\n%s", role, page)
			}
			if strings.Contains(mine, "do=disable") || strings.Contains(mine, `role="switch"`) {
				t.Error("a server that is not in the file can be changed")
			}
			for name, want := range map[string]string{"ls": "checked ", "rm": "", "delete_all": "-", "a*b": "-"} {
				_, at, found := strings.Cut(page, `name="on" value="`+name+`"`)
				if state, _, _ := strings.Cut(at, "aria-label"); c.may && (found == (want == "-") || found && strings.TrimSpace(state) != strings.TrimSpace(want)) {
					t.Errorf("the switch of %s: %q %t", name, state, found)
				}
			}
			resp, off := h.ask("GET", "/console/servers/off")
			if resp.StatusCode != 404 || !strings.Contains(off, "off is disabled") || strings.Contains(off, "/console/servers/off/edit?do=enable") != c.may {
				t.Errorf("as %s: %d %s", role, resp.StatusCode, off)
			}
			if _, list := h.ask("GET", "/console/servers?state=disabled"); !strings.Contains(list, `<bdi>off</bdi>`) || strings.Contains(list, `href="/console/servers/off/edit"`) != c.may {
				t.Errorf("as %s: %s", role, list)
			}
		}
	})
}

func (h *testConsole) sendEdit(server string, form url.Values) *httptest.ResponseRecorder {
	r := h.request(http.MethodPost, "/console/servers/"+server+"/edit", "Cookie", h.cookie)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Body = http.NoBody
	r.PostForm = form
	r.Form = form
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w
}

// TestEditForms checks that each change is shown first, and saved only as it was shown.
func TestEditForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := editing(t, nil)
		a.kept = admin.Kept{Backup: "/f.yaml.dragoman-backup-1", Applied: true}
		tools := url.Values{"do": {"tools"}, "tool": {"ls", "rm", "a%0Ab"}, "on": {"rm"}}
		for _, c := range []struct {
			name  string
			form  url.Values
			edit  admin.ServerEdit
			saved string // where saving leads
		}{
			{"tools", tools, admin.ServerEdit{Do: "tools", Tools: map[string]bool{"ls": false, "rm": true, "a\nb": false}}, "/console/servers/files"},
			{"tools again", url.Values{"do": {"tools"}, "hide": {"ls"}, "show": {"rm"}}, admin.ServerEdit{Do: "tools", Tools: map[string]bool{"ls": false, "rm": true}}, "/console/servers/files"},
			{"entry", url.Values{"do": {"entry"}, "entry": {"command: z"}, "settings": {"lazy: true"}}, admin.ServerEdit{Do: "entry", Entry: "command: z", Settings: "lazy: true"}, "/console/servers/files"},
			{"disable", url.Values{"do": {"disable"}}, admin.ServerEdit{Do: "disable"}, "/console/servers"},
			{"remove", url.Values{"do": {"remove"}}, admin.ServerEdit{Do: "remove"}, "/console/servers"},
		} {
			if c.edit.Tools == nil {
				c.edit.Tools = map[string]bool{}
			}
			a.asked = nil
			w := h.sendEdit("files", c.form)
			if body := w.Body.String(); w.Code != 200 || a.asked != nil || !reflect.DeepEqual(a.edit, c.edit) || !strings.Contains(body, `name="hash" value="h1"`) || !strings.Contains(body, `name="save"`) {
				t.Errorf("%s: %d %+v\n%s", c.name, w.Code, a.edit, body)
			}
			c.form.Set("save", "1")
			c.form.Set("hash", "h1")
			c.edit.Hash = "h1"
			if w = h.sendEdit("files", c.form); w.Code != 303 || w.Header().Get("Location") != c.saved || !reflect.DeepEqual(a.edit, c.edit) || strings.Join(a.asked, "") != "keep "+c.edit.Do {
				t.Errorf("%s: %d %s %+v %q", c.name, w.Code, w.Header().Get("Location"), a.edit, a.asked)
			}
			if _, body := h.ask("GET", c.saved, "Cookie", h.cookie+"; "+strings.Split(w.Header().Get("Set-Cookie"), ";")[0]); !strings.Contains(body, `class="note ok"`) || !strings.Contains(body, a.kept.Backup) {
				t.Errorf("%s: the page does not name the backup: %s", c.name, body)
			}
		}
		if w := h.sendEdit("files", url.Values{"do": {"tools"}, "tool": {"ls", "rm"}, "on": {"ls"}}); w.Code != 303 {
			t.Errorf("no tool changes: %d", w.Code)
		}
		a.bad = &admin.Problem{Status: 409, Detail: "The file has changed."}
		if w := h.sendEdit("files", url.Values{"do": {"remove"}, "save": {"1"}, "hash": {"old"}}); w.Code == 303 {
			t.Error("a change that failed leads on")
		}
	})
}

// TestEditOfAReadOnlyFile checks that the page shows the reason and the text to add, and no button.
func TestEditOfAReadOnlyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, a := editing(t, nil)
		a.draft.Preview = admin.Preview{File: "/f.yaml", Exists: true, Why: "The configuration file is read-only.", Diff: "+    disabled: true\n", Places: []admin.Place{{File: "/f.yaml", After: 3, Under: "files", Text: "    disabled: true\n"}}}
		_, body := h.ask("GET", "/console/servers/files/edit?do=disable")
		if strings.Contains(body, `name="save"`) || !strings.Contains(body, a.draft.Preview.Why) || !strings.Contains(body, "after line 3") || !strings.Contains(body, `id="place-0"`) {
			t.Error(body)
		}
	})
}
