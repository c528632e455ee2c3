//go:build unix

package browser

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// keyboard uses the parts of every page without a mouse: the skip link, the menu for phones, the
// palette, the shortcuts and the theme switch. Some parts must also work without JavaScript.
func (r *rig) keyboard(t *testing.T) {
	h := r.serve(t, "", "--demo", "--quiet-demo")
	p := r.enter(t, h)
	v := &visit{tab: p, t: t, axe: r.axe}
	here := func(path string) string { return fmt.Sprintf("location.pathname === %q", path) }
	focused := func(selector string) string { return fmt.Sprintf("document.activeElement.matches(%q)", selector) }
	axe := func(where string) {
		t.Helper()
		if err := p.try("axe.version", nil); err != nil {
			if err := p.try(r.axe, nil); err != nil {
				t.Fatal(err)
			}
		}
		for _, theme := range []string{"light", "dark"} {
			p.media("prefers-color-scheme=" + theme)
			v.examine(where+", "+theme, "")
		}
		p.media()
	}

	// The first Tab moves the focus to the skip link.
	p.press("Tab")
	p.wait("the skip link", focused(".skip"))
	p.press("Enter")
	p.wait("the focus in main", focused("main"))

	// Ctrl+K opens the palette.
	p.press("Ctrl+k")
	p.wait("the palette", focused("#q")+` && document.querySelectorAll("#found [role=option]").length > 5`)
	axe("palette")
	p.write("ser")
	p.wait("fewer results", `document.querySelector("#found [aria-selected=true]")?.textContent.includes("er")`)
	p.press("ArrowDown")
	p.wait("the second result", `document.querySelectorAll("#found [role=option]")[1].ariaSelected === "true" && document.getElementById("q").getAttribute("aria-activedescendant") === "f1"`)
	p.press("Escape")
	p.wait("no palette", `!document.querySelector("#palette:popover-open") && `+focused("main"))
	p.press("/")
	p.wait("the palette", focused("#q"))
	p.write("legacy count")
	p.wait("one tool", `document.querySelector("#found [aria-selected=true]")?.textContent.includes("count")`)
	p.press("Enter")
	p.wait("the tool", here("/console/servers/legacy/tools/count"))
	p.settle()

	// G and a letter open each page of the navigation.
	pages := eval[[]struct{ Key, Path string }](p, `[...document.querySelectorAll(".nav [data-key]")].map((a) => ({ key: a.dataset.key.toLowerCase(), path: a.pathname }))`)
	for _, to := range pages {
		p.press("g", to.Key)
		p.wait("G and "+to.Key, here(to.Path))
		p.settle()
	}

	// The list of shortcuts contains every key.
	p.press("?")
	p.wait("the shortcuts", `document.querySelector("#keys:popover-open")`)
	axe("shortcuts")
	text := strings.ToLower(eval[string](p, `document.getElementById("keys").innerText`))
	for _, to := range pages {
		if !strings.Contains(text, to.Key) {
			t.Errorf("the list of shortcuts does not have %q:\n%s", to.Key, text)
		}
	}
	p.press("Escape")
	p.wait("no shortcuts", `!document.querySelector("#keys:popover-open")`)

	// J and K select a row, and Enter opens it.
	p.open(p.origin + "/console/servers")
	p.press("j")
	p.wait("the first row", `document.activeElement === document.querySelector("main tbody .lead a")`)
	first := eval[string](p, `document.activeElement.pathname`)
	p.press("j", "k", "Enter")
	p.wait("the server", here(first))
	p.settle()

	// P pauses and resumes the live updates.
	for _, want := range []string{"as of", "live", "as of", "live"} {
		if want == "as of" {
			p.wait("live updates", `document.getElementById("live").textContent === "live"`)
		}
		p.press("p")
		p.wait(want, fmt.Sprintf(`document.getElementById("live").textContent.startsWith(%q)`, want))
	}

	// A paused list counts the new calls, and shows them when it resumes.
	p.open(p.origin + "/console/calls")
	p.wait("live updates", `document.getElementById("live").textContent === "live"`)
	p.press("p")
	p.wait("the pause", `document.getElementById("live").textContent.startsWith("as of")`)
	h.listTools(t)
	p.wait("the count of new calls", `/^as of .* · [1-9]\d* new$/.test(document.getElementById("live").textContent) && !document.getElementById("new").hidden`)
	p.press("p")
	p.wait("live updates", `document.getElementById("live").textContent === "live"`)

	// The shortcuts do nothing when they are disabled, and in a text field.
	p.open(p.origin + "/console/tools")
	p.press("?")
	p.wait("the shortcuts", `document.querySelector("#keys:popover-open")`)
	p.click(`document.getElementById("keys-off")`)
	p.press("Escape", "?", "/", "p")
	p.open(p.origin + "/console/tools")
	p.press("?", "/", "g", "s")
	if !eval[bool](p, here("/console/tools")+` && !document.querySelector(":popover-open")`) {
		t.Error("a disabled shortcut did something")
	}
	p.press("Ctrl+k")
	p.wait("the palette, whose key has two parts", focused("#q"))
	p.press("Escape")
	if err := p.try(`localStorage.clear()`, nil); err != nil {
		t.Fatal(err)
	}
	p.open(p.origin + "/console/tools")
	p.click(`document.querySelector("main input[type=search], main input:not([type])")`)
	p.press("g", "s", "p", "/", "?")
	if got := eval[string](p, `document.activeElement.value`); got != "gsp/?" || eval[bool](p, `!!document.querySelector(":popover-open")`) {
		t.Errorf("the field has %q", got)
	}

	// The theme switch changes the theme. The server sends the next page with the new theme, so
	// that the page does not flash in another theme first.
	theme := func() string { return eval[string](p, `document.documentElement.dataset.theme ?? "auto"`) }
	for _, want := range []string{"light", "dark", "auto"} {
		if err := p.try(`document.querySelector("[data-theme-switch]").focus()`, nil); err != nil {
			t.Fatal(err)
		}
		p.press("Space")
		p.wait("the theme "+want, fmt.Sprintf(`(document.documentElement.dataset.theme ?? "auto") === %q`, want))
		if eval[string](p, `fetch(location.href).then((a) => a.text()).then((t) => /<html[^>]*data-theme="(\w+)"/.exec(t)?.[1] ?? "auto")`) != want {
			t.Errorf("the server does not know the theme %s", want)
		}
	}

	// At the width of a phone, a button opens the menu.
	p.size(390, 800)
	p.open(p.origin + "/console/")
	p.press("Tab", "Tab")
	p.wait("the menu button", focused(".menu"))
	p.press("Enter")
	p.wait("the menu", `document.querySelector("#nav:popover-open")?.checkVisibility()`)
	axe("menu at 390 px")
	p.press("Tab")
	p.wait("the first page of the menu", focused("#nav a"))
	p.press("Escape")
	p.wait("no menu", `!document.querySelector("#nav:popover-open")`)
	p.size(1440, 900)
	p.clean("keyboard")

	// Without JavaScript, the theme switch is a form, and submitting it leads back to the same
	// page.
	p.do("Emulation.setScriptExecutionDisabled", object{"value": true}, nil)
	p.do("Page.navigate", object{"url": p.origin + "/console/servers?sort=name"}, nil)
	p.wait("the page", `document.readyState === "complete" && document.querySelector("main h1")`)
	if err := p.try(`document.querySelector("[data-theme-switch]").focus()`, nil); err != nil {
		t.Fatal(err)
	}
	p.press("Enter")
	p.wait("the light theme", `document.readyState === "complete" && document.documentElement.dataset.theme === "light" && location.href.endsWith("/console/servers?sort=name")`)
	if got := theme(); got != "light" {
		t.Errorf("the theme is %s", got)
	}
	p.clean("without scripts")
}

// listTools sends tools/list as a client of 2026-07-28 does, without a session, and returns the answer.
func (h *serveRun) listTools(t *testing.T) string {
	t.Helper()
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.origin+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
	} {
		req.Header.Set(key, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("tools/list answers %d", resp.StatusCode)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
