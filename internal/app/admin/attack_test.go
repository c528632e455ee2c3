package admin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/server/demo"
)

// TestAttacksOnRoutes checks that every route refuses requests from a page of another site, requests
// for a foreign host, and requests through a proxy, even if they have the key. The API refuses or
// ignores unexpected ids, long queries and unexpected bodies. After each attack, a well-behaved
// client still gets an answer.
func TestAttacksOnRoutes(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	r.ready("old")
	ids := r.prepare()
	innocent := func(after string) {
		t.Helper()
		if a := r.ask(http.MethodPost, "/s/old/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"innocent"}}}`, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"); !strings.Contains(a.body, "innocent") {
			t.Errorf("an innocent client after %s: %d %s", after, a.status, a.body)
		}
	}
	before := r.state("old")
	for _, x := range routes() {
		path := apiRoot + x.path
		for _, m := range pathParameter().FindAllStringSubmatch(path, -1) {
			path = strings.Replace(path, m[0], ids(x.path, m[1]), 1)
		}
		for name, header := range map[string][]string{
			"another site": {"Sec-Fetch-Site", "cross-site"}, "an image": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Dest", "image"}, "a foreign host": {"Host", "evil.example:80"},
			"a proxy": {"Forwarded", "for=10.0.0.1"},
		} {
			if a := r.do(x.method, path, `{}`, append(header, "Content-Type", "application/json")...); a.status != http.StatusForbidden || a.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %s from %s: %d %s", x.method, path, name, a.status, a.body)
			}
		}
		if strings.Contains(x.path, "{") {
			for _, id := range []string{"%00", "%2e%2e", "%ff%fe", strings.Repeat("a", 100_000), "%22%3E%3Cscript%3E", "%1b%5b31m"} {
				at := apiRoot + pathParameter().ReplaceAllString(x.path, id)
				if a := r.do(x.method, at, `{"tool":"x"}`, "Content-Type", "application/json"); a.status < 400 || a.status >= 500 || strings.ContainsAny(a.body, "\x00\x1b") {
					t.Errorf("%s %.60s: %d %.200q", x.method, at, a.status, a.body)
				}
			}
		}
		if x.method == http.MethodGet && len(x.events) == 0 {
			long := "?q=" + strings.Repeat("a+", 50_000) + "&cursor=" + strings.Repeat("A", 100_000) + "&limit=" + strings.Repeat("9", 1000)
			if a := r.do(x.method, path+long, ""); a.status >= 500 {
				t.Errorf("%s with a long query: %d %.200s", path, a.status, a.body)
			}
		}
		innocent(x.method + " " + x.path)
	}
	if after := r.state("old"); after != before {
		t.Errorf("the server was %s and is %s", before, after)
	}
	if a := r.do(http.MethodPost, "/api/v1/servers/old/start", strings.Repeat("x", 1<<20)); a.status != http.StatusAccepted {
		t.Errorf("a body that nobody asked for: %d", a.status)
	}
}

// TestManyStreams opens a thousand streams that no client reads, without the key. The API accepts
// half of the permitted number of streams, because the other half is for clients of other addresses.
// It refuses the others, and still answers other requests and whoever sends the key.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	r.ready("old")
	refused := 0
	for range 1000 {
		resp := r.open(t.Context(), http.MethodGet, "/api/v1/logs/stream", "")
		if resp.StatusCode == http.StatusServiceUnavailable {
			refused++
			_ = resp.Body.Close()
			continue
		}
		defer resp.Body.Close()
	}
	if refused != 1000-mostLogStreams/2 {
		t.Errorf("%d of 1000 were refused", refused)
	}
	if resp := r.open(t.Context(), http.MethodGet, "/api/v1/logs/stream", "", "Authorization", "Bearer wrong"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a wrong key gets a stream: %d", resp.StatusCode)
	} else {
		_ = resp.Body.Close()
	}
	for range mostLogStreams {
		resp := r.open(t.Context(), http.MethodGet, "/api/v1/logs/stream", "", "Authorization", r.key())
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("the owner's stream: %d", resp.StatusCode)
		}
	}
	began := time.Now()
	x := r.run("old", `{"tool":"greet","arguments":{"name":"innocent"}}`)
	next := r.events("/api/v1/runs/" + x.ID + "/stream") // run streams have their own limit
	for e := next(); e.Name != EventEnd; e = next() {
	}
	if x = r.ended(x.ID); x.State != runSucceeded {
		t.Errorf("%+v", x)
	}
	t.Logf("an innocent run took %s", time.Since(began))
}
