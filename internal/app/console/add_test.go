package console

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// adder is an Adder with fixed answers. It records the requests that it gets.
type adder struct {
	draft  admin.Draft
	files  admin.ClientFiles
	kept   admin.Kept
	bad    *admin.Problem // the problem that each changing operation returns
	asked  []string
	choice admin.Choice
	hash   string
	text   string
	server admin.ServerText
	edit   admin.ServerEdit // the last change that was previewed or kept
}

func (a *adder) note(what string) { a.asked = append(a.asked, what) }

func (a *adder) ClientFiles() admin.ClientFiles { return a.files }
func (a *adder) NewDraft(q admin.DraftRequest) (admin.Draft, *admin.Problem) {
	a.note("new " + q.Client + q.File)
	a.text = q.Text
	if a.bad != nil {
		return admin.Draft{}, a.bad
	}
	return a.draft, nil
}

func (a *adder) Draft(id string) (admin.Draft, *admin.Problem) {
	if id != a.draft.ID {
		return admin.Draft{}, &admin.Problem{Status: 404, Detail: "A draft ends."}
	}
	return a.draft, nil
}

func (a *adder) DropDraft(string) (admin.Draft, *admin.Problem) { a.note("drop"); return a.draft, nil }
func (a *adder) ChangeDraft(_ string, q admin.DraftChange) (admin.Draft, *admin.Problem) {
	a.note(q.Do)
	a.choice = q.Choice
	return a.draft, a.bad
}

func (a *adder) KeepDraft(_ *http.Request, _ string, q admin.KeepRequest) (admin.Kept, *admin.Problem) {
	a.note("keep")
	a.choice, a.hash = q.Choice, q.Hash
	return a.kept, a.bad
}

func (a *adder) ServerText(string) (admin.ServerText, *admin.Problem) { return a.server, nil }
func (a *adder) PreviewEdit(_ string, e admin.ServerEdit) (admin.Preview, *admin.Problem) {
	a.edit = e
	return a.draft.Preview, a.bad
}

func (a *adder) KeepEdit(_ context.Context, _ string, e admin.ServerEdit) (admin.Kept, *admin.Problem) {
	a.note("keep " + e.Do)
	a.edit = e
	return a.kept, a.bad
}

// triedDraft returns an Adder whose draft has servers in all states. name and text come from a peer.
func triedDraft(name, text string) *adder {
	n, ended := 13, time.Now()
	a := &adder{draft: admin.Draft{ID: "d1", Form: "JSON", Notes: []string{text}, Secrets: "envFile"}}
	steps := []admin.HandshakeStep{{AtMS: 38, Sent: "server/discover (2026-07-28)", Got: "error -32601", Reason: text, Params: `{"_meta":{}}`, ParamsBytes: 12, Answer: text, AnswerBytes: 9000}, {AtMS: 74, Sent: "initialize (2025-11-25)", Got: "a result", Reason: "it speaks 2025-06-18"}}
	a.draft.Servers = []admin.DraftServer{
		{Key: "s1", Name: "everything", Original: "everything", Status: "new", Use: true, Command: []string{"npx", "-y", text}, Folder: text, Sets: []string{"A_TOKEN"}, Secrets: []admin.DraftSecret{{Variable: "A_TOKEN", Place: "env.A_TOKEN"}},
			Needs: []admin.DraftVariable{{Name: "A_TOKEN", From: "draft"}}, Trial: &admin.Trial{State: "connected", Ended: &ended, Revision: "2025-06-18", Era: "legacy", Transport: "stdio", Server: name, Tools: &n, Prompts: &n, Steps: steps}},
		{Key: "s2", Name: "other-2", Original: name, Status: "different", URL: "https://h.example/" + name, Sets: []string{"Authorization"}, Notes: []string{text}},
		{Key: "s3", Name: "broken", Original: "broken", Status: "new", Use: true, Command: []string{"uvx", "x"}, Needs: []admin.DraftVariable{{Name: "B_KEY", About: text, From: "missing"}},
			Trial: &admin.Trial{State: "failed", Ended: &ended, Failure: &failure.Failure{Class: "exited", Sentence: "server " + name + " exited", Evidence: []string{text}, EvidenceFrom: failure.Stderr, Action: text}}},
		{Key: "s4", Name: "self", Original: "self", Status: "skipped", Why: "the entry is Dragoman itself"},
		{Key: "s5", Name: "same", Original: "same", Status: "same", Command: []string{"x"}},
	}
	a.draft.Preview = admin.Preview{
		File: "/home/me/dragoman.yaml", Exists: true, Writable: true, YAML: "mcpServers:\n  everything:\n    command: npx\n", EnvFile: "/home/me/dragoman.env", Hash: "h1", Note: text,
		Diff: "--- a\n+++ b\n@@ -1 +1,2 @@\n x\n-" + text + "\n+  everything:\n",
	}
	a.files.Files = []admin.ClientFile{
		{Client: "cursor", Title: "Cursor", File: "/home/me/" + name, Exists: true, Servers: []admin.ClientFileServer{{Name: name, Status: "new"}, {Name: "b", Status: "same"}}, Others: 2},
		{Client: "claude-code", Title: "Claude Code", File: "/home/me/.claude.json", Exists: true, Problem: text},
		{Client: "codex", Title: "Codex", File: "x"},
	}
	return a
}

func init() {
	scenes["add"], scenes["add-hostile"], scenes["add-running"], scenes["add-copy"] = scenes["waiting"], scenes["waiting"], scenes["waiting"], scenes["waiting"]
	pagesOf["add"] = []string{"/servers/add", "/servers/add?way=import", "/servers/add?way=hand", "/servers/add?draft=d1", "/servers/add?draft=gone"}
	pagesOf["add-hostile"] = []string{"/servers/add?way=import", "/servers/add?draft=d1"}
	pagesOf["add-running"], pagesOf["add-copy"] = []string{"/servers/add?draft=d1"}, []string{"/servers/add?draft=d1"}
	adders["add"] = func() *adder { return triedDraft("everything 1.0", "The package.") }
	adders["add-hostile"] = func() *adder { return triedDraft(hostile, hostile) }
	adders["add-running"] = func() *adder {
		a := triedDraft("everything", "x")
		a.draft.Servers[0].Trial = &admin.Trial{State: "running"}
		a.draft.Servers[2].Trial = &admin.Trial{State: "waiting"}
		a.draft.Preview.Untested = []string{"everything", "broken"}
		return a
	}
	adders["add-copy"] = func() *adder {
		a := triedDraft("everything", "x")
		a.draft.Preview.Places = []admin.Place{{File: "/home/me/dragoman.yaml", After: 12, Under: "mcpServers", Text: "  everything:\n    command: npx\n"}, {File: "/home/me/dragoman.yaml", After: 20, Last: true, Text: "dragoman:\n  envFile: dragoman.env\n"}}
		a.draft.Preview.Writable, a.draft.Preview.Diff, a.draft.Preview.Why, a.draft.Preview.Hash = false, "", "The configuration file is read-only.", ""
		return a
	}
}

// adders are the Adders of scenes. A scene without an Adder has a console that cannot add servers.
var adders = map[string]func() *adder{}

// adding returns a console that can add servers.
func adding(t testing.TB, a *adder) *testConsole {
	t.Helper()
	return open(t, &admin.Report{}, func(o *Options) { o.Add = a })
}

// sendForm sends a form of the page. header alternates names and values.
func (h *testConsole) sendForm(form url.Values, header ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	r := h.request(http.MethodPost, "/console/servers/add", header...)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Body = io.NopCloser(strings.NewReader(form.Encode()))
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w
}

// sendAdd sends a form of the page as the user of the console. pairs alternates names and values of
// fields.
func (h *testConsole) sendAdd(pairs ...string) (status int, location, body string) {
	h.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	w := h.sendForm(form, "Cookie", h.cookie)
	return w.Code, w.Header().Get("Location"), w.Body.String()
}

// TestAddForms checks what each button of the page does, and where it leads.
func TestAddForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := triedDraft("everything", "x")
		h := adding(t, a)
		a.kept = admin.Kept{File: "/f.yaml", Servers: []string{"everything"}, Applied: true}
		selection := []string{"draft", "d1", "use", "s1", "use", "s2", "name-s1", " one ", "name-s2", "two", "name-s3", "three", "value-A_TOKEN", "hunter2", "value-B", "", "secrets", "shown", "hash", "h9"}
		for _, c := range []struct {
			do, asked, location string
			more                []string
		}{
			{"", "new ", "/console/servers/add?draft=d1", []string{"text", "npx x"}},
			{"read", "new ", "/console/servers/add?draft=d1", []string{"text", "npx x"}},
			{"import", "new cursor/f", "/console/servers/add?draft=d1", []string{"client", "cursor", "file", "/f"}},
			{"try", "try", "/console/servers/add?draft=d1", selection},
			{"cancel", "cancel", "/console/servers/add?draft=d1", selection},
			{"choose", "choose", "/console/servers/add?draft=d1", selection},
			{"drop", "drop", "/console/servers/add", selection},
			{"keep", "keep", "/console/servers/everything", selection},
		} {
			a.asked, a.choice, a.hash = nil, admin.Choice{}, ""
			status, location, _ := h.sendAdd(append([]string{"do", c.do}, c.more...)...)
			if status != http.StatusSeeOther || location != c.location || strings.Join(a.asked, " ") != c.asked {
				t.Errorf("%s: %d %s, %q", c.do, status, location, a.asked)
			}
			if c.do == "try" || c.do == "choose" || c.do == "keep" {
				if q := a.choice; len(q.Servers) != 2 || q.Servers[0] != (admin.ChosenServer{Key: "s1", Name: "one"}) || q.Servers[1].Name != "two" || q.Secrets != "shown" || len(q.Values) != 1 || q.Values["A_TOKEN"] != "hunter2" {
					t.Errorf("%s: %+v", c.do, q)
				}
			}
		}
		if a.hash != "h9" {
			t.Errorf("hash %q", a.hash)
		}
		h.sendAdd("do", "hand", "name", "n", "command", "npx x", "env", "A=it's\nB=2\n# c\n")
		if a.text != "export A='it'\\''s'\nexport B='2'\nnpx x" || a.choice.Servers[0].Name != "n" {
			t.Errorf("%q %+v", a.text, a.choice)
		}
		h.sendAdd("do", "hand", "command", "https://h/x", "env", "Authorization: Bearer x")
		if a.text != `{"headers":{"Authorization":"Bearer x"},"url":"https://h/x"}` {
			t.Errorf("%q", a.text)
		}
		// The page shows the lines and the problem, and says that it shows the lines only once.
		a.kept.Lines, a.kept.Applied, a.kept.Problem = []string{"A_TOKEN=hunter2"}, false, "Start it."
		if status, _, body := h.sendAdd(append([]string{"do", "keep"}, selection...)...); status != 200 || !strings.Contains(body, "A_TOKEN=hunter2") || !strings.Contains(body, "only once") || !strings.Contains(body, "Start it.") {
			t.Errorf("%d %s", status, body)
		}
		// If an action is refused, the same page shows the reason.
		a.bad = &admin.Problem{Status: 409, Detail: "The change differs from the preview."}
		for _, do := range []string{"try", "keep", "choose", "read"} {
			if status, _, body := h.sendAdd("do", do, "draft", "d1", "text", "a | b <script>"); status != 409 || !strings.Contains(body, "differs from the preview") || strings.Contains(body, "<script>") || do == "read" && !strings.Contains(body, "a | b &lt;script&gt;") {
				t.Errorf("%s: %d %s", do, status, body)
			}
		}
		a.bad = nil
		a.asked = nil
		if status, _, body := h.sendAdd("do", "read", "text", strings.Repeat("x", 10<<20)); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "larger than 1 MiB") || len(a.asked) > 0 {
			t.Errorf("10 MiB: %d", status)
		}
	})
}

// TestCommandsInFull checks that the page shows a command to its end.
func TestCommandsInFull(t *testing.T) {
	a := triedDraft("everything", "x")
	a.draft.Servers[0].Command = []string{"bash", "-c", "nice-server" + strings.Repeat(" ", 100_000) + "; touch /evil"}
	h := adding(t, a)
	if _, body := h.ask("GET", "/console/servers/add?draft=d1"); !strings.Contains(body, "; touch /evil&#39;") {
		t.Error("the page does not show the end of the command")
	}
}

// TestAddNeedsAccess checks that nothing is read, tried or written without a session, or for a
// page of another site.
func TestAddNeedsAccess(t *testing.T) {
	a := triedDraft("everything", "x")
	h := adding(t, a)
	for _, header := range [][]string{{"Cookie", "x=y"}, {"Sec-Fetch-Site", "cross-site", "Cookie", h.cookie}, {"Origin", "http://evil.example", "Sec-Fetch-Site", "same-site", "Cookie", h.cookie}, {"X-Forwarded-For", "10.0.0.1", "Cookie", h.cookie}, {"Host", "evil.example", "Cookie", h.cookie}} {
		for _, do := range []string{"read", "try", "keep", "import"} {
			w := h.sendForm(url.Values{"do": {do}, "draft": {"d1"}, "text": {"npx x"}, "client": {"cursor"}}, header...)
			if w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden || len(a.asked) > 0 {
				t.Errorf("%s %v: %d %v", do, header, w.Code, a.asked)
			}
		}
	}
	without := open(t, &admin.Report{})
	if resp, body := without.ask("GET", "/console/servers/add"); resp.StatusCode != http.StatusNotFound || strings.Contains(body, "textarea") {
		t.Errorf("without an Adder: %d", resp.StatusCode)
	}
}

// TestSaveAfterFailedTests checks that the main button of the page does not save a server whose test
// failed.
func TestSaveAfterFailedTests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := triedDraft("everything", "x")
		main := func() string {
			_, body := adding(t, a).ask("GET", "/console/servers/add?draft=d1")
			return textOf(regexp.MustCompile(`<button class="btn main"[^>]*>[^<]*`).FindString(body))
		}
		if got := main(); got != "Test again" {
			t.Errorf("%q is the main button after a failed test", got)
		}
		a.draft.Servers[2].Use = false
		if got := main(); got != "Save 1 server" {
			t.Errorf("%q is the main button after a test that connected", got)
		}
	})
}
