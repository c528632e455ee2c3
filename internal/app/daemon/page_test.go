//go:build unix

package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestPage checks the page at / for a browser, for a terminal, and for a client with a URL
// that lacks /mcp.
func TestPage(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "quill", "legacy"), leakingServer(t)))
	want := func(what string, a answer, status int, parts ...string) {
		t.Helper()
		if a.status != status {
			t.Errorf("%s: status %d, want %d", what, a.status, status)
		}
		for _, p := range parts {
			if p, absent := strings.CutPrefix(p, "!"); absent == strings.Contains(a.body, p) {
				t.Errorf("%s: %q: want it to be absent: %t\n%s", what, p, absent, a.body)
			}
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(a.body, canary) {
			t.Errorf("%s: %v\n%s", what, a.header, a.body)
		}
	}
	browser := []string{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8"}
	html := r.do(t.Context(), "GET", "/", nil, browser...)
	want("HTML", html, 200, "<!doctype html>", r.base+"/mcp</pre>", "/s/quill/mcp", "leaky", "api/v1/status", "!<script", "!http://www", "user-select")
	if csp := html.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") ||
		html.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(html.header.Get("Content-Type"), "text/html") {
		t.Errorf("%v", html.header)
	}
	text := r.do(t.Context(), "GET", "/", nil, "Accept", "*/*")
	want("text", text, 200, "!<", "\n  "+r.base+"/mcp\n", `{"mcpServers":{"dragoman":{"type":"http","url":"`+r.base+`/mcp"}}}`, "  quill: ", "/api/v1/status")
	want("through a proxy", r.do(t.Context(), "GET", "/", nil, "Accept", "*/*", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https"), 200,
		"https://"+strings.TrimPrefix(r.base, "http://")+"/mcp", "!quill", "!leaky", "!/api/v1/status")
	want("HEAD", r.do(t.Context(), "HEAD", "/", nil, browser...), 200)
	want("a stream", r.do(t.Context(), "GET", "/", nil, "Accept", "text/event-stream"), 404, `nothing at "/": MCP clients connect to /mcp`)
	want("a message", r.post("/", initializeBody("2025-11-25", "{}")), 404, `nothing at "/": MCP clients connect to /mcp`)
	want("an unknown path", r.do(t.Context(), "GET", "/nope%0adragoman:", nil, browser...), 404, `nothing at "/nope dragoman:": MCP clients connect to /mcp`)
	want("an unknown project", r.post("/p/nope/mcp", initializeBody("2025-11-25", "{}")), 404, `nothing at "/p/nope/mcp"`)
	if a := r.do(t.Context(), "GET", "/", nil, "Host", "rebound.example"); a.status != 403 {
		t.Errorf("a foreign Host: %d %s", a.status, a.body)
	}
}

// TestPageOnTheNetwork checks that the page names no server if other machines can reach Dragoman.
func TestPageOnTheNetwork(t *testing.T) {
	t.Parallel()
	s := snapshot(child(t, "quill", "legacy"))
	d := openDaemon(ServeOptions{Config: s, Version: "test"}, false)
	defer d.close()
	d.runtime.Apply(event.DefaultProject, s)
	for _, accept := range []string{"*/*", "text/html"} {
		a := recorded(d.handler(), accept)
		if a.status != 200 || strings.Contains(a.body, "quill") || strings.Contains(a.body, "api/v1") || !strings.Contains(a.body, "http://localhost:7300/mcp") {
			t.Errorf("%s: %d %s", accept, a.status, a.body)
		}
	}
}

// TestGuardBeforeEveryRoute checks that each route of serve is behind the guard, which counts a
// foreign request once, and that each refuses the methods that it does not have.
func TestGuardBeforeEveryRoute(t *testing.T) {
	t.Parallel()
	s := snapshot(child(t, "quill", "legacy"))
	d := openDaemon(ServeOptions{Config: s, Version: "test"}, true)
	defer d.close()
	d.runtime.Apply(event.DefaultProject, s)
	h := d.handler()
	ask := func(method, path string, change func(*http.Request)) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, "http://localhost:7300"+path, nil)
		change(r)
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, path := range []string{"/", "/mcp", "/sse", "/s/quill/mcp", "/s/nobody/mcp", "/s/quill", "/p/default/mcp", "/healthz", "/readyz", "/metrics", "/api/v1/status", "/console/", "/console/static/x", "/nowhere", "//mcp"} {
		for name, change := range map[string]func(*http.Request){
			"host":   func(r *http.Request) { r.Host = "evil.example" },
			"origin": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		} {
			for _, method := range []string{"GET", "OPTIONS"} {
				before := d.guard.Refused()
				if status := ask(method, path, change); status != 403 || d.guard.Refused() != before+1 {
					t.Errorf("%s %s with a foreign %s: %d, refused %d times", method, path, name, status, d.guard.Refused()-before)
				}
			}
		}
		if status := ask("OPTIONS", path, func(*http.Request) {}); status != 405 && path != "//mcp" { // which is redirected
			t.Errorf("OPTIONS %s: %d", path, status)
		}
	}
}

func recorded(h http.Handler, accept string) answer {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "localhost:7300"
	r.Header.Set("Accept", accept)
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}
