//go:build unix

package browser

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// calls lets a client that can't show anything call a tool, and returns what it gets in the end.
func (h *serveRun) calls(t *testing.T, server, tool, arguments string) (ended func() string) {
	t.Helper()
	post := func(session, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.origin+"/s/"+server+"/mcp", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		return http.DefaultClient.Do(req)
	}
	resp, err := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"Batch job","version":"3"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	session := resp.Header.Get("Mcp-Session-Id")
	var running sync.WaitGroup
	got := ""
	running.Go(func() {
		resp, err := post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments))
		if err != nil {
			got = err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		got = string(b)
	})
	t.Cleanup(running.Wait)
	return func() string {
		running.Wait()
		return got
	}
}

// first is a JavaScript expression with the first question of the list.
const first = `document.querySelector("main tbody .lead a")`

// questions has a hostile server and a rule ask a person. Ada, who is an admin, and the local user have the question
// open at the same time (TA54): the answer of one counts, and the other reads who was first. Ben, who is a viewer and
// whose calls they are not, sees none of it (TA49).
func (r *rig) questions(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := r.serve(t, fmt.Sprintf("mcpServers:\n  evil: {command: %q, env: {BROWSER_TEST_SERVER: hostile}}\ndragoman:\n  questions: console\n  policy:\n    - {match: evil/evil, do: confirm}\n", self))
	local := r.enter(t, h)
	ada, ben := r.invite(t, h, "Ada", "admin"), r.invite(t, h, "Ben", "viewer")
	count := `document.querySelector('.nav a[href="/console/questions"] .n').textContent`
	looks := func(p *tab, where string, allowed ...string) {
		t.Helper()
		p.pause()
		(&visit{tab: p, t: t, axe: r.axe}).looks()
		p.size(1440, 900)
		for _, f := range eval[[]string](p, active) {
			t.Errorf("%s: a text became %s", where, f)
		}
		(&visit{tab: p, t: t}).tabs()
		p.clean(where, allowed...)
	}
	local.open(local.origin + "/console/questions")
	looks(local, "no questions")
	local.open(local.origin + "/console/questions")
	local.wait("live updates", `document.getElementById("live").textContent === "live"`)

	form := h.calls(t, "evil", "asks", "{}")
	local.wait("the question", first)
	local.wait("the number", count+` === "1"`)
	local.open(local.origin + "/console/questions")
	looks(local, "the list")
	for _, path := range []string{"/console/questions", "/console/servers"} {
		ben.open(ben.origin + path)
		if text := eval[string](ben, `document.body.textContent`); strings.Contains(text, "Batch job") || eval[string](ben, count) != "" {
			t.Errorf("Ben sees %s", text)
		}
	}
	local.open(local.origin + "/console/questions")
	page := eval[string](local, first+`.pathname`)
	local.click(first)
	local.wait("the form", `document.getElementById("q-0") || document.querySelector("main form")`)
	looks(local, "a form")
	ben.open(ben.origin + page)
	ben.wait("nothing", `document.querySelector("h1").textContent === "No such question"`)
	ben.clean("the question of somebody else", "404 (Not Found)")

	ada.open(ada.origin + page)
	ada.wait("live updates", `document.getElementById("live").textContent === "live"`)
	local.open(local.origin + page)
	local.fill("age", "x")
	local.click(button("Send answer"))
	local.wait("what is wrong", `document.querySelector(".errs")`)
	looks(local, "a wrong answer", "422 (Unprocessable Entity)")
	local.fill("age", "36")
	local.click(button("Send answer"))
	local.wait("the answer", `location.pathname === "/console/questions" && document.querySelector("main").textContent.includes("Nothing waits for you")`)
	if got := form(); !strings.Contains(got, `\"age\":36`) {
		t.Errorf("the call got %s", got)
	}
	ada.wait("who was first", `document.getElementById("left").textContent.startsWith("It was answered by local at")`)
	ada.wait("no form", `!document.querySelector("main form")`)
	looks(ada, "answered")

	confirm := h.calls(t, "evil", "evil", `{"plain":"of /srv/data"}`)
	local.wait("the confirmation", first)
	local.open(local.origin + eval[string](local, first+`.pathname`))
	looks(local, "a confirmation")
	local.click(button("Decline"))
	local.wait("the answer", `location.pathname === "/console/questions"`)
	if got := confirm(); !strings.Contains(got, "declined") {
		t.Errorf("the call got %s", got)
	}
	local.clean("the end")
}
