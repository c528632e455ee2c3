//go:build unix

package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// access checks the protection of the console: a link works once; no other page can frame it, post
// to it or read it; no program on another port gets the cookie; a foreign name of the host is
// refused; and the cookie gives no access to an MCP endpoint.
func (r *rig) access(t *testing.T) {
	h := r.serve(t, "", "--demo", "--quiet-demo")
	link := h.link()
	p := r.chrome.newTab(t, "")
	p.follow(link)
	console := p.origin
	if n := eval[int](p, `history.length`); n > 2 {
		t.Errorf("the history has %d entries", n) // the history must not contain the link
	}
	if c := eval[string](p, `document.cookie`); strings.Contains(c, "session") {
		t.Errorf("a script can read the cookie %s", c)
	}
	p.clean("the Overview")

	// Use the link a second time, in this browser and in another.
	p.origin = h.origin
	p.open(link)
	p.wait("a refusal", `document.querySelector("h1").textContent === "This link does not work any more"`)
	p.clean("the second use", "403 (Forbidden)")
	other := r.chrome.newTab(t, h.origin)
	other.open(link)
	other.wait("a refusal", `document.querySelector("h1").textContent === "This link does not work any more"`)
	other.open(h.origin + "/console/calls")
	other.wait("no session", `document.querySelector("h1").textContent === "Open the console with a link"`)
	other.clean("another browser", "403 (Forbidden)", "401 (Unauthorized)")

	// The page comes from another program on this machine. Cookies do not depend on the port, but on
	// the name of the host.
	target := h.origin
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "" || strings.Contains(req.Header.Get("Cookie"), "dragoman_console") || strings.Contains(req.Referer(), "dragoman-") {
			t.Errorf("another port of %s gets %v", req.Host, req.Header)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>foreign</title><iframe src="%[1]s/console/"></iframe>
			<form id="f" method="post" action="%[1]s/console/servers/legacy/stop"></form>`, target)
	}))
	defer foreign.Close()
	for _, x := range [][2]string{
		{foreign.URL, h.origin}, {strings.Replace(foreign.URL, "127.0.0.1", "localhost", 1), h.origin}, {strings.Replace(foreign.URL, "127.0.0.1", "evil.localhost", 1), h.origin},
		{foreign.URL, console}, {strings.Replace(foreign.URL, "127.0.0.1", "evil.localhost", 1), console}, // even if the name were known
	} {
		origin := x[0]
		p.origin, target = "", x[1]
		p.open(origin)
		p.wait("the frame to be refused", `document.querySelector("iframe").contentDocument === null`)
		for what, js := range map[string]string{
			"read the console":      `fetch("%s/console/", { credentials: "include" }).then((a) => a.text())`,
			"read the API":          `fetch("%s/api/v1/calls", { credentials: "include" }).then((a) => a.text())`,
			"call a tool":           `fetch("%s/mcp", { method: "POST", credentials: "include", headers: { "Content-Type": "application/json", Accept: "application/json, text/event-stream" }, body: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}' }).then((a) => a.text())`,
			"listen to live values": `new Promise((yes, no) => { const s = new EventSource("%s/console/events?page=/console/", { withCredentials: true }); s.onopen = () => { s.close(); yes("open"); }; s.onerror = () => { s.close(); no(new Error("refused")); }; })`,
		} {
			var text string
			if err := p.try(fmt.Sprintf(js, target), &text); err == nil {
				t.Errorf("a page of %s can %s: %.200s", origin, what, text)
			}
		}
		// The browser sends a simple request without a CORS preflight, so the server must refuse
		// it.
		p.loaded()
		if err := p.try(fmt.Sprintf(`fetch(%q, { method: "POST", mode: "no-cors", credentials: "include", headers: { "Content-Type": "text/plain" }, body: '{"jsonrpc":"2.0","id":1,"method":"ping"}' }).then(() => true)`, target+"/mcp"), nil); err != nil {
			t.Error(err)
		}
		p.wait("the answer", `true`)
		for _, l := range p.loaded() {
			if l.Status != http.StatusForbidden {
				t.Errorf("a post of %s to %s has the status %d", origin, l.URL, l.Status)
			}
		}
		if err := p.try(`document.getElementById("f").submit()`, nil); err != nil {
			t.Error(err)
		}
		p.wait("the form to be refused", `location.pathname.endsWith("/stop") && document.body.innerText.includes("is not an allowed origin")`)
		for _, l := range p.loaded() {
			if l.Kind == "Document" && l.Status != http.StatusForbidden {
				t.Errorf("a form of %s has the status %d", origin, l.Status)
			}
		}
	}
	p.clean("a foreign page", "ERR_FAILED", "ERR_BLOCKED_BY_RESPONSE", "403 (Forbidden)", "blocked by CORS policy", "frame-ancestors", "status of 403 ()", "a request to another origin", "MIME type")

	// The server still runs, and the session still works.
	p.origin = console
	p.open(console + "/console/servers/legacy")
	p.wait("the server to be ready", `document.querySelector("main").textContent.includes("ready")`)
	p.clean("the server")

	// This name resolves to this machine, because startChrome sets an option of Chromium for it.
	name := strings.Replace(h.origin, "127.0.0.1", "rebound.example", 1)
	p.origin = name
	p.open(name + "/console/")
	p.wait("the host to be refused", `!document.querySelector("nav") && document.body.innerText.includes("rebound.example")`)
	p.clean("a foreign host", "403 (Forbidden)")

	// Signing out ends the session.
	p.origin = console
	p.open(console + "/console/me")
	p.click(button("Sign out"))
	p.wait("the end of the session", `document.querySelector("h1").textContent === "The session has ended"`)
	p.open(console + "/console/calls")
	p.wait("no session", `document.querySelector("h1").textContent === "Open the console with a link"`)
	p.clean("signing out", "401 (Unauthorized)")
	r.password(t, h, foreign.URL)
	r.invitation(t, h)
}

// invitation opens the console as somebody who was invited, who sees the pages, and no button that changes something.
func (r *rig) invitation(t *testing.T, h *serveRun) {
	link := strings.TrimSpace(h.run("-q", "people", "invite", "<b>Ada</b>", "--listen", strings.TrimPrefix(h.origin, "http://")))
	p := r.chrome.newTab(t, "")
	p.open(link)
	p.wait("the invitation", `document.querySelector("h1").textContent === "You are invited"`)
	p.click(button("Sign in as <b>Ada</b>"))
	p.wait("the Overview", `/^dragoman-[a-z2-7]+[.]localhost$/.test(location.hostname) && location.pathname === "/console/" && document.querySelector("nav")`)
	p.origin = eval[string](p, `location.origin`)
	for _, page := range []string{"/console/", "/console/servers/legacy", "/console/settings", "/console/me"} {
		p.open(p.origin + page)
		p.wait("the page", `document.querySelector("main h1")`)
		if n := eval[int](p, `document.querySelectorAll('main form[method="post"]:not([action="/console/signout"], [action="/console/me"])').length`); n > 0 {
			t.Errorf("%s has %d forms for a viewer", page, n)
		}
	}
	p.wait("the name", `document.querySelector("main").textContent.includes("<b>Ada</b>")`)
	p.click(button("Sign out"))
	p.wait("the end of the session", `document.querySelector("h1").textContent === "The session has ended"`)
	p.open(p.origin + "/console/calls")
	p.wait("no session", `document.querySelector("h1").textContent === "Open the console with a link"`)
	p.origin = h.origin
	p.open(link)
	p.wait("a refusal", `document.querySelector("h1").textContent === "This invitation does not work any more"`)
	p.clean("an invitation", "401 (Unauthorized)", "403 (Forbidden)")
}

// password opens the console in a browser that says it is Safari, which asks DNS for the console's
// name. Such a browser gets a password, which it sends to no other port. foreign is the URL of a
// program that fails the test if it gets the password.
func (r *rig) password(t *testing.T, h *serveRun, foreign string) {
	p := r.chrome.newTab(t, h.origin)
	p.do("Network.setUserAgentOverride", object{"userAgent": "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15"}, nil)
	p.open(h.link())
	p.click(`[...document.querySelectorAll("button")].find((b) => b.textContent === "Make a password")`)
	p.wait("the password", `document.querySelectorAll("dd code").length === 2 && document.querySelector("a.btn").href === location.origin + "/console/signin"`)
	p.login = eval[[]string](p, `[...document.querySelectorAll("dd code")].map((e) => e.textContent)`)
	p.do("Fetch.enable", object{"handleAuthRequests": true}, nil)
	p.click(button("Open the console"))
	p.wait("the Overview", `location.pathname === "/console/" && document.querySelector("nav")`)
	p.do("Fetch.disable", nil, nil)
	p.open(h.origin + "/console/servers/legacy")
	p.wait("live values", `document.getElementById("live").textContent === "live"`)
	p.clean("with the password")
	p.origin = ""
	p.open(foreign)
	p.open(strings.Replace(foreign, "127.0.0.1", "localhost", 1))
	p.clean("another port", "ERR_FAILED", "ERR_BLOCKED_BY_RESPONSE", "403 (Forbidden)", "frame-ancestors")
	p.origin = h.origin
	p.open(h.origin + "/console/me")
	p.click(button("Sign out"))
	p.wait("the end of the session", `document.querySelector("h1").textContent === "The session has ended"`)
	p.open(h.origin + "/console/calls")
	p.wait("no session", `document.querySelector("h1").textContent === "Open the console with a link"`)
	p.clean("signing out", "401 (Unauthorized)")
}
