package httpdoor

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRefusalNamesTheHostAndTheFix checks that the answer names the host and the fix. The log also
// names both, once for each host.
func TestRefusalNamesTheHostAndTheFix(t *testing.T) {
	var log bytes.Buffer
	g := NewGuard(nil, nil, nil)
	g.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
	ask := func(host, origin string) string {
		r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
		r.Host = host
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		if g.Admit(w, r) || w.Code != http.StatusForbidden {
			t.Errorf("%q, %q: status %d", host, origin, w.Code)
		}
		return w.Body.String()
	}
	for range 3 {
		got := ask("gateway.lan:7300", "")
		for _, want := range []string{`\"gateway.lan:7300\"`, "allowedHosts", "--allow-host gateway.lan"} {
			if !strings.Contains(got, want) {
				t.Errorf("the answer has no %s: %s", want, got)
			}
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "gateway.lan:7300") || !strings.Contains(text, "--allow-host gateway.lan") {
		t.Errorf("the log is %s", text)
	}
	log.Reset()
	if got := ask("localhost", "https://page.example"); !strings.Contains(got, "allowedOrigins") || !strings.Contains(got, "page.example") {
		t.Errorf("the answer for an origin is %s", got)
	}
	if got := ask("", ""); !strings.Contains(got, "missing") {
		t.Errorf("the answer without a host is %s", got)
	}
	// A command that a user might copy must not contain text from an unknown client.
	if got := ask("a$(reboot).example", ""); !strings.Contains(got, "--allow-host HOST") {
		t.Errorf("the answer for a host that a shell would execute is %s", got)
	}
	if got := ask(strings.Repeat("a", 10_000)+".example", ""); len(got) > 1000 {
		t.Errorf("the answer for a long host has %d bytes", len(got))
	}
	log.Reset()
	for i := range 10 * maxForeign {
		ask(fmt.Sprintf("h%d.example", i), "")
	}
	if n := strings.Count(log.String(), "\n"); n > maxForeign+1 || !strings.Contains(log.String(), "are not logged") {
		t.Errorf("there are %d log lines for many hosts", n)
	}
	if n := len(g.told.told); n > maxForeign {
		t.Errorf("%d hosts are kept", n)
	}
	var none *Guard
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
	r.Host = "other.example"
	if none.Admit(w, r) || !strings.Contains(w.Body.String(), "other.example") {
		t.Errorf("a nil guard answers %s", w.Body)
	}
}
