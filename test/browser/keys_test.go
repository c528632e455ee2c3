//go:build unix

package browser

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// keysAndPeople invites Ada on the page People. She makes a key, which is shown once, also if she goes back to the page
// or loads it again, and a client opens a stream with it. When she revokes the key, the page says what ends, and the
// stream ends. Then the admin ends her session, and her page says so.
func (r *rig) keysAndPeople(t *testing.T) {
	h := r.serve(t, "dragoman: {access: {loopback: keys}}\nmcpServers:\n  missing: {command: /no/such/program}\n")
	local := r.enter(t, h)
	looks := func(p *tab) {
		(&visit{tab: p, t: t, axe: r.axe}).looks()
		p.size(1440, 900)
	}
	local.open(local.origin + "/console/people")
	looks(local)
	local.fill("Name", "Ada")
	local.click(button("Invite"))
	local.wait("the link", `document.getElementById("own-link")`)
	looks(local)
	link := eval[string](local, ownLink)
	local.open(local.origin + "/console/people")
	local.wait("Ada without her link", `document.querySelector("main tbody").textContent.includes("Ada") && !document.body.textContent.includes("token=")`)
	ada := r.chrome.newTab(t, "")
	ada.accept(link, "Ada")

	ada.open(ada.origin + "/console/keys/new")
	looks(ada)
	ada.click(button("Make the key"))
	ada.wait("what is missing", `document.activeElement.id === "k-errors" && document.getElementById("k-name").getAttribute("aria-invalid") === "true"`)
	looks(ada)
	ada.fill("Name", "laptop")
	ada.clean("a form without a name", "422 (Unprocessable")
	ada.click(button("Make the key"))
	ada.wait("the key", `document.getElementById("own-key")`)
	looks(ada)
	key := eval[string](ada, `document.getElementById("own-key").textContent`)
	if !strings.HasPrefix(key, "drgk_") || strings.Contains(eval[string](ada, `location.href + document.cookie + document.title + JSON.stringify(history.state)`), key) {
		t.Fatalf("the key is %q", key)
	}
	ada.click(`document.getElementById("own-key-kept")`)
	ada.wait("the key to hide", `!document.getElementById("own-key").checkVisibility()`)
	ada.click(button("Show the key's page"))
	ada.wait("the key's page", `document.querySelector("h1").textContent === "laptop"`)
	looks(ada)
	page := eval[string](ada, `location.href`)
	for _, step := range []string{`history.back()`, `history.back()`, `location.reload()`} {
		if err := ada.try(`globalThis.here = true; setTimeout(() => `+step+`, 0)`, nil); err != nil {
			t.Fatal(err)
		}
		ada.wait("another page", `!globalThis.here && document.readyState === "complete"`)
		if strings.Contains(eval[string](ada, `document.documentElement.outerHTML`), key) {
			t.Errorf("%s shows the key again", step)
		}
	}
	ada.open(page)
	ada.clean("going back", "ERR_CACHE_MISS", "403 (Forbidden)", "409 (Conflict)", "422 (Unprocessable") // a reload by a script of the error page comes from nowhere

	local.open(local.origin + strings.TrimPrefix(page, ada.origin) + "/look")
	looks(local)
	local.click(button("Look"))
	local.wait("what the key gets", `document.getElementById("got")`)
	looks(local)

	stream := h.streams(t, key)
	ada.wait("the client's session", `document.getElementById("ends").textContent.startsWith("1 session,")`)
	ada.click(button("Revoke the key"))
	ada.wait("what ends", `document.getElementById("toast")?.textContent.includes("1 session, 0 open streams and 0 running calls")`)
	select {
	case <-stream:
	case <-time.After(5 * time.Second):
		t.Error("the client's stream goes on")
	}
	looks(ada)

	local.open(local.origin + "/console/people")
	local.click(`[...document.querySelectorAll("main .lead a")].find((a) => a.textContent === "Ada")`)
	local.wait("the page about Ada", `document.querySelector("h1").textContent === "Ada"`)
	looks(local)
	ada.open(ada.origin + "/console/servers")
	ada.wait("live updates", `document.getElementById("live").textContent === "live"`)
	local.click(`document.querySelector('main button[value="end"]')`)
	ada.wait("the end", `document.querySelector("h1").textContent === "Open the console with a link"`)
	local.wait("no session", `document.querySelector("main").textContent.includes("No session")`)
	local.clean("the admin")
}

// streams opens a session with a key, and its stream. The channel is closed when the stream has ended.
func (h *serveRun) streams(t *testing.T, key string) <-chan struct{} {
	t.Helper()
	ask := func(method, body, session string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, h.origin+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		if method == http.MethodGet {
			req.Header.Set("Accept", "text/event-stream")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode >= 300 {
			t.Fatalf("%s %s: %s", method, body, resp.Status)
		}
		return resp
	}
	first := ask(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"laptop","version":"1"}}}`, "")
	session := first.Header.Get("Mcp-Session-Id")
	_, _ = io.Copy(io.Discard, first.Body)
	_ = first.Body.Close()
	_ = ask(http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session).Body.Close()
	resp := ask(http.MethodGet, "", session)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}()
	return ended
}
