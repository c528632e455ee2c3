//go:build unix

package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// adding adds a server on a page of the console, as a new user does: with one paste, and one click
// for each step. The page must have no serious accessibility fault in any step.
func (r *rig) adding(t *testing.T) {
	h := r.serve(t, "# written by hand\nmcpServers: {}\n")
	p := r.enter(t, h)
	p.click(`[...document.querySelectorAll("main a")].find((a) => a.textContent === "Add a server")`)
	p.wait("the page", `location.pathname === "/console/servers/add" && document.activeElement?.id === "snip"`)
	look := func() {
		t.Helper()
		v := &visit{tab: p, t: t, axe: r.axe}
		v.looks()
	}
	look()
	snippet := fmt.Sprintf(`{"mcpServers": {"every thing": {"command": %q, "args": ["fake", "strict-2025-06-18"], "env": {"API_TOKEN": "hunter2-token"}}, "typo": {"command": "no-such-program-at-all"}}}`, r.dragoman)
	if err := p.try(fmt.Sprintf(`(() => {
		const t = document.getElementById("snip"), data = new DataTransfer();
		data.setData("text/plain", %q);
		t.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
		t.value = %q;
	})()`, snippet, snippet), nil); err != nil {
		t.Fatal(err)
	}
	p.wait("what will be started", `location.search.includes("draft=") && document.querySelector("main").textContent.includes("starts this program on this machine")`)
	look()
	p.click(button("Start and test"))
	p.wait("the results", `document.querySelector("main").textContent.includes("1 connected, 1 failed") && document.querySelector(".trace")?.textContent.includes("initialize") && [...document.querySelectorAll("button")].some((b) => b.textContent === "Save 1 server")`)
	look()
	if text := eval[string](p, `document.documentElement.outerHTML`); strings.Contains(text, "hunter2") || !strings.Contains(text, "API_TOKEN") {
		t.Error("the page shows a secret, or not its name")
	}
	p.click(button("Save 1 server"))
	p.wait("the page of the server", `location.pathname === "/console/servers/every-thing" && document.querySelector(".trace")?.textContent.includes("initialize")`)
	b, err := os.ReadFile(h.config)
	if err != nil || !strings.HasPrefix(string(b), "# written by hand\n") || !strings.Contains(string(b), "  every-thing:\n") || strings.Contains(string(b), "hunter2") || strings.Contains(string(b), "typo") {
		t.Errorf("%v\n%s", err, b)
	}
	p.clean("adding a server")
	r.changing(t, h, p)
}

// changing goes on with the server that adding has added: it hides one of its tools, edits it, disables it
// and enables it again.
func (r *rig) changing(t *testing.T, h *serveRun, p *tab) {
	look := func() {
		t.Helper()
		v := &visit{tab: p, t: t, axe: r.axe}
		v.looks()
	}
	path := "/console/servers/every-thing"
	p.wait("its tools", `document.querySelector("[role=switch]")`)
	look()
	hidden := eval[string](p, `document.querySelector("[role=switch]").value`)
	p.click(`document.querySelector("[role=switch]")`)
	p.click(button("Show the change"))
	edit := func(wait string) {
		t.Helper()
		p.wait("the change", `location.pathname === "`+path+`/edit" && [...document.querySelectorAll(".wire .add")].some((e) => e.textContent.includes("`+wait+`"))`)
		look()
	}
	saved := func(where, want string) {
		t.Helper()
		p.wait("the page after saving", `location.pathname === "`+where+`" && document.querySelector(".note.ok")?.textContent.includes("dragoman-backup")`)
		if b, err := os.ReadFile(h.config); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%v\n%s", err, b)
		}
	}
	edit("deny: [" + hidden + "]")
	p.click(button("Save"))
	saved(path, "tools:\n          deny: ["+hidden+"]\n")
	p.wait("the tool is disabled", `document.getElementById("tools-box").textContent.includes("expose.tools.deny: `+hidden+`")`)
	p.click(link("Edit"))
	p.wait("the entry", `location.pathname === "`+path+`/edit" && document.getElementById("e-entry")`)
	look()
	if err := p.try(`document.getElementById("e-set").value += "callTimeout: 3m"`, nil); err != nil {
		t.Fatal(err)
	}
	p.click(button("Show the change"))
	edit("callTimeout: 3m")
	p.click(button("Save"))
	saved(path, "callTimeout: 3m\n")
	p.click(link("Disable"))
	edit("disabled: true")
	p.click(button("Disable server every-thing"))
	saved("/console/servers", "disabled: true\n")
	p.click(link("every-thing"))
	p.click(link("Enable"))
	p.wait("the change", `document.querySelector("h1").textContent === "Enable server every-thing"`)
	p.click(button("Enable server every-thing"))
	saved(path, "callTimeout: 3m\n")
	p.clean("changing a server")
}

// link returns a JavaScript expression that finds the link with this text in the main part of a page.
func link(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("main a")].find((a) => a.textContent === %q)`, text)
}
