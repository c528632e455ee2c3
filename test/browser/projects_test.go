//go:build unix

package browser

import (
	"net/http"
	"strings"
	"testing"
)

// projects goes from project to project with the list in the navigation, finds servers of the project in the palette
// and follows live values there. It adds, changes and removes a project, whose viewer sees nothing of the others and
// is sent away when it ends (TA49).
func (r *rig) projects(t *testing.T) {
	h := r.serve(t, "mcpServers:\n  house: {command: /no/such/program}\ndragoman:\n  projects:\n    shop:\n      title: The shop\n      mcpServers:\n        till: {command: /no/such/program}\n")
	p := r.enter(t, h)
	look := func(p *tab, path string) {
		t.Helper()
		p.open(p.origin + path)
		p.wait("live updates", `/^(live|waiting)/.test(document.getElementById("live").textContent)`)
		(&visit{tab: p, t: t, axe: r.axe}).looks()
		p.size(1440, 900)
	}
	p.open(p.origin + "/console/servers")
	p.click(`document.querySelector("nav details summary")`)
	p.click(`[...document.querySelectorAll("nav details a")].find((a) => a.textContent === "shop")`)
	p.wait("the other project", `location.pathname === "/console/p/shop/servers" && document.querySelector("main").textContent.includes("till")`)
	look(p, "/console/p/shop/servers")
	look(p, "/console/p/shop/")
	p.press("Ctrl+k")
	p.write("till")
	p.wait("the server in the palette", `document.querySelector("#found [role=option]")?.textContent.includes("till")`)
	p.press("Enter")
	p.wait("the server's page", `location.pathname === "/console/p/shop/servers/till"`)
	p.clean("the project shop")

	look(p, "/console/projects")
	p.fill("Name", "lab")
	p.fill("Settings, as YAML", "title: Lab\nmcpServers:\n  bench: {command: /no/such/program}\n")
	p.click(button("Add the project"))
	p.wait("the new project", `location.pathname === "/console/projects/lab"`)
	p.fill("Settings, as YAML", "title: Laboratory\nmcpServers:\n  bench: {command: /no/such/program}\n")
	p.click(button("Preview"))
	p.wait("what changes", `document.querySelector("main ins")?.textContent.includes("Laboratory")`)
	(&visit{tab: p, t: t, axe: r.axe}).looks()
	p.size(1440, 900)
	p.click(button("Save"))
	p.wait("the new title", `document.querySelector(".head p").textContent.includes("Laboratory")`)

	ben := r.chrome.newTab(t, "")
	ben.accept(strings.TrimSpace(h.run("people", "invite", "Ben", "--role", "viewer", "--project", "lab", "--listen", h.address())), "Ben")
	ben.wait("the first page of Ben", `location.pathname === "/console/p/lab/"`)
	look(ben, "/console/p/lab/servers")
	if text := eval[string](ben, `document.body.textContent`); !strings.Contains(text, "bench") || strings.Contains(text, "house") || strings.Contains(text, "shop") || strings.Contains(text, "default") {
		t.Errorf("Ben sees %s", text)
	}
	if got := eval[int](ben, `fetch("/console/p/shop/servers").then((a) => a.status)`); got != http.StatusNotFound {
		t.Errorf("Ben gets %d from the project shop", got)
	}
	p.open(p.origin + "/console/projects/lab")
	p.fill("lab", "lab")
	p.click(button("Remove the project"))
	p.wait("the list", `location.pathname === "/console/projects" && !document.querySelector("main a[href$='/lab']")`)
	ben.wait("the end of the project", `document.querySelector("h1").textContent.includes("No project has the name")`)
	p.clean("the projects")
}
