//go:build unix

package browser

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// ownLink is a JavaScript expression with the link that the page has just made.
const ownLink = `document.getElementById("own-link").textContent`

// invite lets somebody in, in a browser of their own.
func (r *rig) invite(t *testing.T, h *serveRun, name string, roles ...string) *tab {
	t.Helper()
	args := []string{"people", "invite", name, "--listen", h.address()}
	for _, role := range roles {
		args = append(args, "--role", role)
	}
	p := r.chrome.newTab(t, "")
	p.accept(strings.TrimSpace(h.run(args...)), name)
	return p
}

// address returns where serve listens.
func (h *serveRun) address() string { return strings.TrimPrefix(h.origin, "http://") }

// accept opens an invitation and accepts it.
func (p *tab) accept(link, name string) {
	p.t.Helper()
	p.open(link)
	p.click(button("Sign in as " + name))
	p.wait("the console", `(location.protocol === "https:" || /^dragoman-[a-z2-7]+[.]localhost$/.test(location.hostname)) && location.pathname.startsWith("/console/") && document.querySelector("nav")`)
	p.origin = eval[string](p, `location.origin`)
}

// people has Ada, who is an admin, and Ben, who is a viewer, in the console at the same time (TA49), and looks at the
// page about each of them. Ben sees what Ada sees and can do none of it. Ada opens a second browser with a link of her
// own and ends its session; Ben loses his role. The pages of both say so within seconds.
func (r *rig) people(t *testing.T) {
	h := r.serve(t, "mcpServers:\n  missing: {command: /no/such/program}\n")
	local := r.enter(t, h)
	ada, ben := r.invite(t, h, "Ada", "caller", "admin"), r.invite(t, h, "Ben", "viewer")
	for name, p := range map[string]*tab{"You run this Dragoman": local, "Ada": ada, "Ben": ben} {
		p.open(p.origin + "/console/me")
		p.wait("the page about "+name, fmt.Sprintf(`document.querySelector("h1").textContent === %q`, name))
		(&visit{tab: p, t: t, axe: r.axe}).looks()
		p.size(1440, 900)
		p.clean("the page about " + name)
	}
	for _, page := range []string{"/console/servers", "/console/servers/missing", "/console/"} {
		ada.open(ada.origin + page)
		ben.open(ben.origin + page)
		for p, want := range map[*tab]bool{ada: true, ben: false} {
			if got := eval[int](p, `document.querySelectorAll('main form[method=post], main a[href*="/edit"], main a[href*="/add"]').length`) > 0; got != want {
				t.Errorf("%s: there are buttons: %t", page, got)
			}
		}
	}
	ben.open(ben.origin + "/console/servers/add")
	ben.wait("the refusal", `document.querySelector("nav") && document.querySelector("h1").textContent === "This page needs the role admin"`)
	if text := eval[string](ben, `document.querySelector("main").textContent`); !strings.Contains(text, "Ask Ada, who has it.") {
		t.Errorf("the refusal says %s", text)
	}
	(&visit{tab: ben, t: t, axe: r.axe}).looks()
	ben.clean("the refusal", "403 (Forbidden)")

	ada.open(ada.origin + "/console/me")
	ada.click(button("Make a link"))
	ada.wait("the link", `document.getElementById("own-link")`)
	(&visit{tab: ada, t: t, axe: r.axe}).looks()
	ada.size(1440, 900)
	link := eval[string](ada, ownLink)
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+/console/invitation\?token=`).MatchString(link) {
		t.Fatalf("the link is %s", link)
	}
	phone := r.chrome.newTab(t, "")
	phone.accept(link, "Ada")
	phone.open(phone.origin + "/console/me")
	phone.size(390, 844)
	phone.wait("live updates", `document.getElementById("live").textContent === "live"`)
	ada.open(ada.origin + "/console/me")
	ada.wait("the other browser", `document.querySelectorAll('main button[value="end"]').length === 1`)
	(&visit{tab: ada, t: t, axe: r.axe}).looks()
	ada.size(1440, 900)
	ada.click(`document.querySelector('main button[value="end"]')`)
	ada.wait("the end of the session", `document.querySelector("main").textContent.includes("signed in nowhere else")`)
	phone.wait("the end", `document.querySelector("h1").textContent === "Open the console with a link"`)

	ben.open(ben.origin + "/console/servers")
	ben.wait("live updates", `document.getElementById("live").textContent === "live"`)
	h.run("people", "role", "Ben", "none", "--listen", h.address())
	ben.wait("the refusal", `document.querySelector("h1").textContent === "This page needs the role viewer"`)
	if text := eval[string](ben, `document.body.textContent`); strings.Contains(text, "missing") || strings.Contains(text, "Ada") {
		t.Errorf("whoever has no role sees %s", text)
	}
	ada.open(ada.origin + "/console/servers")
	ada.wait("the server", `document.querySelector("main").textContent.includes("missing")`)
	ada.clean("Ada")
}
