//go:build unix

package browser

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pictures is the folder of the screenshots.
var pictures = filepath.Join("..", "..", "docs", "pictures", "console")

// mostOfOne and mostOfAll are the maximum sizes, in bytes, of one screenshot and of all
// screenshots together.
const (
	mostOfOne = 120_000
	mostOfAll = 2_000_000
)

// screenshots takes screenshots of a fixed scene: the demo, with one more server that fails.
func (r *rig) screenshots(t *testing.T) {
	h := r.serve(t, "mcpServers:\n  tickets: {command: sh, args: [-c, \"echo 'TICKETS_TOKEN is not set' >&2; exit 1\"]}\ndragoman:\n  audit: {calls: names}\n",
		"--demo", "--listen", "127.0.0.1:7300") // the pages show the address, so use the usual address
	p := r.enter(t, h)
	if err := os.RemoveAll(pictures); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}

	// Wait for the first rounds of the demo, which contain calls of every kind.
	p.open(p.origin + "/console/calls")
	p.wait("25 calls", `fetch(location.href).then((a) => a.text()).then((text) => new DOMParser().parseFromString(text, "text/html").querySelectorAll("main tbody tr").length >= 25)`)
	picture := func(both bool, name, path string, height int, before func()) {
		t.Helper()
		for _, s := range []struct {
			kind, theme   string
			width, height int
			scale         float64
		}{{"light", "light", 1440, height, 1}, {"dark", "dark", 1440, height, 1}, {"phone", "light", 390, 844, 2}} {
			if s.kind == "phone" && name != "overview" && name != "call" || s.kind == "dark" && !both {
				continue
			}
			p.media("prefers-color-scheme=" + s.theme)
			p.do("Emulation.setDeviceMetricsOverride", object{"width": s.width, "height": s.height, "deviceScaleFactor": s.scale, "mobile": false}, nil)
			if path != "" {
				p.open(p.origin + path)
				p.wait("live updates", `["live", "waiting for a client"].includes(document.getElementById("live").textContent)`)
			}
			if before != nil {
				before()
			}
			p.save(name + "-" + s.kind)
		}
	}
	shot := func(name, path string, height int, before func()) {
		t.Helper()
		picture(true, name, path, height, before)
	}

	shot("overview", "/console/", 940, nil)
	shot("tools", "/console/tools", 760, nil)
	shot("server", "/console/servers/legacy", 1000, nil)
	shot("failed", "/console/servers/tickets", 760, nil)

	// Show the page about oneself, with a second browser.
	r.enter(t, h)
	shot("me", "/console/me", 700, nil)

	// Show a new server after its test.
	p.open(p.origin + "/console/servers/add")
	p.paste(fmt.Sprintf("%s fake strict-2025-11-25", filepath.Base(r.dragoman)))
	p.click(button("Start and test"))
	p.wait("the handshake", `document.querySelector(".trace .end")`)
	shot("add", eval[string](p, `location.pathname + location.search`), 900, nil)

	// Show a translated call with a loss.
	p.open(p.origin + "/console/calls?q=forecast")
	p.wait("the calls", `document.querySelectorAll("main tbody tr").length > 0`)
	call := eval[string](p, `([...document.querySelectorAll("main tbody tr")].find((row) => row.textContent.includes("lost")) ?? document.querySelector("main tbody tr")).querySelector(".lead a").pathname`)
	shot("call", call, 1180, nil)

	// Show a run that waits for the answer to a question.
	p.open(p.origin + "/console/servers/legacy/tools/ask_name")
	p.click(button("Run ask_name"))
	p.wait("the question", `document.getElementById("questions")?.textContent.includes("What is your name?")`)
	p.fill("Name", "Ada")
	shot("run", eval[string](p, `location.pathname`), 900, func() { p.fill("Name", "Ada") })

	// Show the audit with some acts.
	h.run("people", "invite", "Grace", "--role", "viewer", "--listen", h.address())
	h.run("people", "role", "Grace", "caller", "operator", "--listen", h.address())
	p.open(p.origin + "/console/audit")
	p.wait("the last look at the chains", `document.querySelector("#chain .st").textContent.startsWith("verified to ")`)
	shot("audit", "/console/audit", 760, nil)
	shot("act", eval[string](p, `[...document.querySelectorAll("main .lead a")].find((a) => a.textContent.includes("set roles")).pathname`), 420, nil)
	p.clean("screenshots")

	// Show a changed definition.
	p = r.enter(t, r.serve(t, "dragoman: {pins: hold}\nmcpServers:\n"+changing(t, "mildly")))
	p.held("/console")
	shot("review", eval[string](p, `document.querySelector("main tbody .lead a").pathname`), 700, nil)
	p.clean("the review")

	// Show the pages of a team, in one theme, since there are many.
	h, example := r.house(t)
	p = r.enter(t, h)
	question := await[string](p, "the question", `fetch("/console/questions").then((a) => a.text()).then((text) => new DOMParser().parseFromString(text, "text/html").querySelector("main tbody .lead a")?.getAttribute("href") ?? null)`)
	for _, x := range []struct {
		name, path string
		height     int
	}{
		{"projects", "/console/projects", 700}, {"keys", "/console/keys", 560}, {"people", "/console/people", 700}, {"rule", "/console/rules/edit?match=tickets%2F*&what=deny", 900},
		{"question", question, 560}, {"prompt", "/console/prompts/style", 620}, {"playground", example, 900}, {"secrets", "/console/secrets", 560}, {"connections", "/console/connections", 480},
	} {
		picture(false, x.name, x.path, x.height, nil)
	}
	p.clean("the pages of a team")
}

// house starts serve for a team that has used everything: keys, people, projects, rules, prompts, secrets, sign-ins, and a
// question that waits. It returns the path of a kept example, too.
func (r *rig) house(t *testing.T) (h *serveRun, example string) {
	t.Helper()
	h = r.serve(t, fmt.Sprintf(`mcpServers:
  orders: {command: %[1]q, args: [demo-server, legacy]}
  tickets: {command: %[1]q, args: [demo-server, modern]}
  github: {url: %[2]q, headers: {X-Team: "${secret:team}"}}
  linear: {url: %[3]q}
dragoman:
  questions: console
  policy:
    - {match: orders/count, do: confirm}
  projects:
    shop: {title: The shop, use: [orders], mcpServers: {tickets: {command: %[1]q, args: [demo-server, modern]}}}
`, r.dragoman, issuer(t, "ok", "page"), issuer(t, "ok", "none")))
	run := func(args ...string) { h.run(append(args, "--listen", h.address())...) }
	with := func(text string, args ...string) { h.runWith(text, append(args, "--listen", h.address())...) }
	with("canary", "secrets", "set", "team")
	with("canary", "secrets", "set", "stripe")
	for _, x := range [][2]string{{"Ada", "operator"}, {"Ben", "viewer"}, {"Grace", "admin"}} {
		run("people", "invite", x[0], "--role", "caller", "--role", x[1])
		run("keys", "add", strings.ToLower(x[0])+"-laptop", "--owner", x[0])
	}
	run("keys", "add", "nightly", "--server", "tickets", "--expires", "never")
	with("title: Laboratory\nmcpServers:\n  bench: {url: http://127.0.0.1:1/mcp}\n", "projects", "add", "lab", "--file", "-")
	with("Prices are in cents.", "prompts", "add", "style", "--description", "How we write about prices")
	with("Prices are in cents, without a sign.\nDates have four digits for the year.", "prompts", "add", "style")
	run("prompts", "publish", "style")

	h.listTools(t) // the secrets were a change of the configuration, after which lists are read when a client asks
	p := r.enter(t, h)
	p.wait("the servers", `Promise.all(["orders/tools/greet", "tickets/tools/add"].map((x) => fetch("/console/servers/" + x))).then((all) => all.every((a) => a.ok))`)
	p.plays("tickets", "add", "2025-06-18", "a", "1", "b", "41")
	p.wait("the form", `document.querySelector("form[action$='/keep']")`)
	p.click(button("Keep as an example"))
	p.wait("the example", `location.pathname.startsWith("/console/playground/")`)
	example = eval[string](p, `location.pathname`)
	p.open(p.origin + "/console/connections")
	p.wait("both servers", `fetch(location.href).then((a) => a.text()).then((text) => text.includes("Sign in: github") && text.includes("Sign in: linear"))`)
	p.open(p.origin + "/console/connections")
	p.click(`document.querySelector('main button[aria-label="Sign in: linear"]')`)
	p.wait("the way back", `location.search.includes("done=linear")`)
	h.calls(t, "orders", "ask_name", "{}")
	return h, example
}

// plays runs a tool from the playground, as a client of a revision. fields are names of arguments and what is written
// into them; what the tool hasn't is left out.
func (p *tab) plays(server, tool, revision string, fields ...string) {
	p.t.Helper()
	p.open(p.origin + "/console/playground?server=" + server + "&tool=" + tool)
	if err := p.try(fmt.Sprintf(`document.querySelector("main select[name=revision]").value = %q`, revision), nil); err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if field := fmt.Sprintf(`document.querySelector('main [name="v/%s"]')`, fields[i]); eval[bool](p, "!!"+field) {
			p.click(field)
			p.write(fields[i+1])
		}
	}
	p.click(`document.querySelector("main button[value=run]")`)
	p.wait("the run of a client of "+revision, fmt.Sprintf(`location.pathname.startsWith("/console/runs/") && document.readyState === "complete" && document.querySelector(".head p").textContent.includes(%q)`, revision))
}

// save writes a screenshot of what the page shows without scrolling.
func (p *tab) save(name string) {
	p.t.Helper()
	if err := p.try(`scrollTo(0, 0); document.activeElement?.blur(); document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))))`, nil); err != nil {
		p.t.Fatal(err)
	}
	for _, quality := range []int{90, 80, 70, 60} {
		var got struct{ Data string }
		p.do("Page.captureScreenshot", object{"format": "webp", "quality": quality}, &got)
		b, err := base64.StdEncoding.DecodeString(got.Data)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(b) > mostOfOne {
			continue
		}
		if err := os.WriteFile(filepath.Join(pictures, name+".webp"), b, 0o644); err != nil {
			p.t.Fatal(err)
		}
		p.t.Logf("%-16s %6d bytes, quality %d", name, len(b), quality)
		return
	}
	p.t.Errorf("%s has more than %d bytes", name, mostOfOne)
}

// TestScreenshots checks that docs/console.md shows each screenshot, that each screenshot on that
// page exists, and that all of them are small. It does not look at the pixels.
func TestScreenshots(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "console.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`pictures/console/([\w.-]+)`).FindAllStringSubmatch(string(page), -1) {
		shown[m[1]] = true
	}
	files, err := os.ReadDir(pictures)
	if err != nil {
		t.Fatal(err)
	}
	all := int64(0)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		all += info.Size()
		if !strings.HasSuffix(f.Name(), ".webp") || info.Size() > mostOfOne {
			t.Errorf("%s has %d bytes, want a WebP of at most %d", f.Name(), info.Size(), mostOfOne)
		}
		if !shown[f.Name()] {
			t.Errorf("docs/console.md does not show %s", f.Name())
		}
		delete(shown, f.Name())
	}
	for name := range shown {
		t.Errorf("docs/console.md shows %s, which does not exist: make screenshots", name)
	}
	if all > mostOfAll {
		t.Errorf("all screenshots together have %d bytes, want at most %d", all, mostOfAll)
	}
}
