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

// TestRefusalNamesTheHostAndTheFix: in the answer, and once for each host in the log.
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
		t.Errorf("the log: %s", text)
	}
	log.Reset()
	if got := ask("localhost", "https://page.example"); !strings.Contains(got, "allowedOrigins") || !strings.Contains(got, "page.example") {
		t.Errorf("an origin: %s", got)
	}
	if got := ask("", ""); !strings.Contains(got, "missing") {
		t.Errorf("no host: %s", got)
	}
	// What a stranger wrote is not part of a command that somebody might copy.
	if got := ask("a$(reboot).example", ""); !strings.Contains(got, "--allow-host HOST") {
		t.Errorf("a host that a shell would run: %s", got)
	}
	if got := ask(strings.Repeat("a", 10_000)+".example", ""); len(got) > 1000 {
		t.Errorf("a long host: %d bytes", len(got))
	}
	log.Reset()
	for i := range 10 * maxForeign {
		ask(fmt.Sprintf("h%d.example", i), "")
	}
	if n := strings.Count(log.String(), "\n"); n > maxForeign+1 || !strings.Contains(log.String(), "are not logged") {
		t.Errorf("%d lines for many hosts", n)
	}
	if n := len(g.told.told); n > maxForeign {
		t.Errorf("%d hosts are kept", n)
	}
	var none *Guard
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
	r.Host = "other.example"
	if none.Admit(w, r) || !strings.Contains(w.Body.String(), "other.example") {
		t.Errorf("a nil guard: %s", w.Body)
	}
}
