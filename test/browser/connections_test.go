//go:build unix

package browser

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// issuer starts a server that wants a sign-in, and its issuer, and returns the server's address. consent is "page" if a
// person has to press a button at the issuer, or "none".
func issuer(t *testing.T, profile, consent string) string {
	t.Helper()
	a, err := fake.NewOAuth(profile, fake.Options{Set: map[string]string{"revision": "2025-11-25", "consent": consent}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a.Handler())
	t.Cleanup(func() {
		_ = a.Close()
		web.Close()
	})
	return web.URL + a.Path()
}

// connections signs in to one server after the other. The browser comes back from each issuer to the list, where the next
// button has the focus. What has failed is shown step by step. A key is made where a client is connected, and is in no
// snippet.
func (r *rig) connections(t *testing.T) {
	h := r.serve(t, fmt.Sprintf("mcpServers:\n  one: {url: %q}\n  two: {url: %q}\n  wrong: {url: %q}\n", issuer(t, "ok", "none"), issuer(t, "ok", "none"), issuer(t, "no-registration", "none")))
	p := r.enter(t, h)
	looks := func(where string, allowed ...string) {
		t.Helper()
		(&visit{tab: p, t: t, axe: r.axe}).looks()
		p.size(1440, 900)
		p.clean(where, allowed...)
	}
	for end := time.Now().Add(patience); ; {
		p.open(p.origin + "/console/connections")
		if eval[int](p, `document.querySelectorAll("main tbody tr").length`) == 3 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("not all servers have asked for a sign-in")
		}
	}
	looks("the list")
	focused := `document.activeElement.getAttribute("aria-label")`
	p.click(`document.querySelector('main button[aria-label="Sign in: one"]')`)
	p.wait("the way back", `location.pathname === "/console/connections" && location.search.includes("done=one")`)
	p.wait("the next one", focused+` === "Sign in: two"`)
	if text := eval[string](p, `[...document.querySelectorAll("[role=status]")].map((e) => e.textContent).join(" ")`); !strings.Contains(text, "You are signed in to one.") {
		t.Errorf("the page says %s", text)
	}
	p.press("Enter")
	p.wait("the way back", `location.search.includes("done=two")`)
	p.wait("the next one", focused+` === "Sign in: wrong"`)
	p.press("Enter")
	p.wait("the steps", `document.querySelector(".trace li.bad")`)
	looks("a sign-in that has failed", "502 (Bad Gateway)", "a request to another origin")
	p.click(`document.querySelector('main button[aria-label="Sign out: two"]')`)
	p.wait("the end of a sign-in", `document.querySelector('main button[aria-label="Sign in: two"]')`)

	h = r.serve(t, "mcpServers: {}\ndragoman: {access: {loopback: keys}}\n")
	p = r.enter(t, h)
	p.open(p.origin + "/console/connect?client=cursor")
	looks("a snippet with a key")
	p.click(button("Make a key"))
	p.wait("the key", `document.getElementById("own-key")`)
	key := eval[string](p, `document.getElementById("own-key").textContent`)
	if text := eval[string](p, `document.querySelector("main").textContent`); !strings.HasPrefix(key, "drg") || strings.Count(text, key) != 1 {
		t.Errorf("the key %q is in %s", key, text)
	}
	looks("a new key")
}
