//go:build unix

package browser

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// playground runs tools of both demo servers as a client of each revision, and answers a question of each on the page.
// Both wires that the page of the call shows are what others have recorded: the run's client what it has sent and got,
// and tee what has gone to the server and come from it. Kept runs give the same call after a restart of serve.
func (r *rig) playground(t *testing.T) {
	folder := t.TempDir()
	at := func(server, way string) string { return filepath.Join(folder, server+way) }
	text := "dragoman: {questions: console}\nmcpServers:\n"
	for _, server := range []string{"legacy", "modern"} {
		text += fmt.Sprintf("  %s: {command: sh, args: [-c, %q]}\n", server, fmt.Sprintf("tee -a '%s' | '%s' demo-server %s | tee -a '%s'", at(server, "-to"), r.dragoman, server, at(server, "-from")))
	}
	h := r.serve(t, text)
	p := r.enter(t, h)
	p.wait("both servers", `Promise.all(["legacy/tools/greet", "modern/tools/add"].map((x) => fetch("/console/servers/" + x))).then((all) => all.every((a) => a.ok))`)

	type kept struct{ page, server, tool, sent string }
	var examples []kept
	for server, x := range map[string]struct {
		tool, ask string
		fields    []string
		heard     string
	}{
		"legacy": {"greet", "ask_name", []string{"name", "Ada"}, "Hello, Ada!"},
		"modern": {"add", "confirm", []string{"a", "1", "b", "41"}, "42"},
	} {
		for _, revision := range mcp.Dates(mcp.Revisions()) {
			p.plays(server, x.tool, revision, x.fields...)
			p.wait("the result", fmt.Sprintf(`document.getElementById("result-box").textContent.includes(%q)`, x.heard))
			sent := callOf(t, at(server, "-to"), at(server, "-from"))
			run := eval[string](p, `location.pathname`)
			p.wires(t, at(server, "-to"), at(server, "-from"))
			p.open(p.origin + run)
			p.click(button("Keep as an example"))
			p.wait("the example", `location.pathname.startsWith("/console/playground/")`)
			examples = append(examples, kept{eval[string](p, `location.pathname`), server, x.tool, sent})

			p.plays(server, x.ask, revision, "action", "paint")
			run = eval[string](p, `location.pathname`)
			const form = `main form :is(textarea[name^="v/"], input[type=radio][value=true][name^="v/"])`
			asked := `(page) => page.querySelector('` + form + `') || [...page.querySelectorAll("main a")].find((a) => a.textContent === "Answer it")`
			p.wait("the question", `fetch(location.href).then((a) => a.text()).then((text) => (`+asked+`)(new DOMParser().parseFromString(text, "text/html")))`)
			p.open(p.origin + run)
			if !eval[bool](p, `!!document.querySelector('`+form+`')`) { // a client of an old revision can't show it
				p.click(`[...document.querySelectorAll("main a")].find((a) => a.textContent === "Answer it")`)
			}
			p.click(`document.querySelector('` + form + `')`)
			if eval[bool](p, `document.activeElement.tagName === "TEXTAREA"`) {
				p.write("Grace")
			}
			p.click(button("Send answer"))
			p.wait("the answer was sent", `!document.querySelector("main form button[value=accept]")`)
			p.open(p.origin + run)
			p.wait("the result", fmt.Sprintf(`/%s/.test(document.getElementById("result-box").textContent)`, map[string]string{"legacy": "Grace", "modern": "[Cc]onfirmed"}[server]))
			p.wires(t, at(server, "-to"), at(server, "-from"))
		}
	}
	p.clean("the playground", "404 (Not Found)")

	h.stop()
	h.start("--listen", "127.0.0.1:0")
	p = r.enter(t, h)
	p.wait("both servers", `Promise.all(["legacy/tools/greet", "modern/tools/add"].map((x) => fetch("/console/servers/" + x))).then((all) => all.every((a) => a.ok))`)
	for _, x := range examples {
		p.open(p.origin + x.page)
		p.click(button("Run again"))
		p.wait("the same result", `document.getElementById("compared")?.textContent.includes("Both results are the same.") || [...document.querySelectorAll("main p")].some((e) => e.textContent === "Both results are the same.")`)
		if sent := callOf(t, at(x.server, "-to"), at(x.server, "-from")); sent != x.sent {
			t.Errorf("%s of %s: the server got %s, and %s before the restart", x.tool, x.server, sent, x.sent)
		}
	}
	p.clean("the examples", "404 (Not Found)")
}

// wires opens the call of the run that the page shows. On its left is what the run's client has recorded, and on its right
// lines of the files with what the server got and sent, all byte for byte.
func (p *tab) wires(t *testing.T, to, from string) {
	t.Helper()
	p.wait("the end of the run", `document.querySelector("details.data .wire > div") && document.querySelector("a.push")`)
	heard := eval[[]string](p, `[...document.querySelectorAll("details.data [aria-label='What the client sent and got'] > div")].map((e) => e.textContent)`)
	p.open(p.origin + eval[string](p, `document.querySelector("a.push").pathname`) + "?view=raw")
	var lines []string
	for _, file := range []string{to, from} {
		each(t, file, func(line string, _ message) { lines = append(lines, line) })
	}
	calls := 0
	for _, leg := range eval[[]leg](p, legs) {
		if leg.Left != "" && !slices.Contains(heard, leg.Left) {
			t.Errorf("on the client's wire is shown\n%s\nand recorded\n%s", leg.Left, strings.Join(heard, "\n"))
		}
		if leg.Right != "" && !slices.Contains(lines, leg.Right) {
			t.Errorf("on the server's wire is shown\n%s\nwhich it has neither got nor sent", leg.Right)
		}
		if strings.Contains(leg.Left, `"tools/call"`) && strings.Contains(leg.Right, `"tools/call"`) {
			calls++
		}
	}
	if calls == 0 {
		t.Error("the call isn't shown on both wires")
	}
}

// callOf returns the parameters of the last tools/call that a server has got, without what differs from call to call.
func callOf(t *testing.T, to, from string) string {
	t.Helper()
	sent, _ := exchange(t, to, from, "tools/call")
	var m struct{ Params map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(sent), &m); err != nil {
		t.Fatalf("%s: %v", sent, err)
	}
	delete(m.Params, "_meta")
	b, err := json.Marshal(m.Params)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
