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

// taped are the files in which tee records what goes to a server and comes from it.
type taped struct{ to, from string }

// playground runs a tool of each demo server as a client of each revision, and answers on the page what the server asks
// meanwhile. Both wires on the page of the call are what others have recorded: the client of the run what it has sent and
// got, and tee what the server has. Kept runs make the same calls after a restart.
func (r *rig) playground(t *testing.T) {
	folder, tapes := t.TempDir(), map[string]taped{}
	config := "dragoman: {questions: console}\nmcpServers:\n"
	for _, server := range []string{"legacy", "modern"} {
		x := taped{filepath.Join(folder, server+"-to"), filepath.Join(folder, server+"-from")}
		config += fmt.Sprintf("  %s: {command: sh, args: [-c, %q]}\n", server, fmt.Sprintf("tee -a '%s' | '%s' demo-server %s | tee -a '%s'", x.to, r.dragoman, server, x.from))
		tapes[server] = x
	}
	h := r.serve(t, config)
	enter := func() *tab {
		p := r.enter(t, h)
		p.wait("both servers", `Promise.all(["legacy/tools/greet", "modern/tools/add"].map((x) => fetch("/console/servers/" + x))).then((all) => all.every((a) => a.ok))`)
		return p
	}
	p := enter()
	for _, revision := range mcp.Dates(mcp.Revisions()) {
		p.plays("legacy", "ask_name", revision)
		p.answers("Grace", "you, Grace")
		p.wires(tapes["legacy"])
		p.plays("modern", "confirm", revision, "action", "paint")
		p.answers("", "Confirmed: paint")
		p.wires(tapes["modern"])
	}

	type kept struct {
		page string
		tape taped
		call string // what the server got
	}
	var examples []kept
	for _, x := range []struct {
		server, tool, revision string
		fields                 []string
	}{
		{"legacy", "greet", mcp.Latest.String(), []string{"name", "Ada"}},
		{"modern", "add", mcp.R20241105.String(), []string{"a", "1", "b", "41"}},
	} {
		p.plays(x.server, x.tool, x.revision, x.fields...)
		p.click(button("Keep as an example"))
		p.wait("the example", `location.pathname.startsWith("/console/playground/")`)
		examples = append(examples, kept{eval[string](p, `location.pathname`), tapes[x.server], callOf(t, tapes[x.server])})
	}
	p.clean("the playground", "404 (Not Found)")

	h.stop()
	h.start("--listen", "127.0.0.1:0")
	p = enter()
	for _, x := range examples {
		p.open(p.origin + x.page)
		p.click(button("Run again"))
		p.wait("the same result", `document.querySelector("main").textContent.includes("Both results are the same.")`)
		if again := callOf(t, x.tape); again != x.call {
			t.Errorf("the server got %s, and %s before the restart", again, x.call)
		}
	}
	p.clean("the examples", "404 (Not Found)")
}

// answers answers the question of the run that the page shows: there, or on the page of the question, if the run's client
// can't show it. Then it waits for the result. text is for a form with a field of text; the other ones are confirmed.
func (p *tab) answers(text, result string) {
	p.t.Helper()
	const field = `document.querySelector("main form :is(textarea, input[type=radio][value=true])[name^='v/']")`
	const link = `[...document.querySelectorAll("main a")].find((a) => a.textContent === "Answer it")`
	run := eval[string](p, `location.href`)
	p.wait("the question", field+" || "+link)
	if eval[bool](p, "!"+field) {
		p.click(link)
	}
	p.click(field)
	p.write(text)
	p.click(button("Send answer"))
	p.wait("the answer was sent", `document.getElementById("toast")?.textContent.includes("The answer was sent.")`)
	p.open(run)
	p.wait("the result", fmt.Sprintf(`document.getElementById("result-box").textContent.includes(%q)`, result))
}

// wires compares both wires on the page of a run's call with what was recorded elsewhere.
func (p *tab) wires(tape taped) {
	t := p.t
	t.Helper()
	heard := eval[[]string](p, `fetch(location.pathname.replace("/console", "/api/v1")).then((a) => a.json()).then((run) => run.messages.map((m) => m.text))`)
	var lines []string
	for _, file := range []string{tape.to, tape.from} {
		each(t, file, func(line string, _ message) { lines = append(lines, line) })
	}
	p.open(await[string](p, "the call", `document.querySelector("a.push")?.href ?? null`) + "?view=raw")
	var left, right []string
	for _, leg := range eval[[]leg](p, legs) {
		if left = append(left, leg.Left); leg.Left != "" && !slices.Contains(heard, leg.Left) {
			t.Errorf("on the wire of the client is shown\n%s\nand it has recorded\n%s", leg.Left, strings.Join(heard, "\n"))
		}
		if right = append(right, leg.Right); leg.Right != "" && !slices.Contains(lines, leg.Right) {
			t.Errorf("on the wire of the server is shown\n%s\nwhich it has neither got nor sent", leg.Right)
		}
	}
	request, answer := exchange(t, tape.to, tape.from, mcp.MethodCallTool)
	if !slices.Contains(left, heard[len(heard)-1]) || !slices.Contains(right, request) || !slices.Contains(right, answer) {
		t.Errorf("the call isn't shown on both wires: %q and %q", left, right)
	}
}

// callOf returns the last call that a server has got, without what differs from one to the next.
func callOf(t *testing.T, tape taped) string {
	t.Helper()
	request, _ := exchange(t, tape.to, tape.from, mcp.MethodCallTool)
	var m struct{ Params map[string]any }
	if err := json.Unmarshal([]byte(request), &m); err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	delete(m.Params, "_meta")
	return fmt.Sprint(m.Params)
}
