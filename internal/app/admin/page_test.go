package admin

import (
	"crypto/tls"
	"net/http"
	"testing"
)

// TestBase makes the URLs on the pages those that the browser can use.
func TestBase(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1:7300": "http://127.0.0.1:7300", "localhost:7300": "http://localhost:7300", "[::1]:7300": "http://[::1]:7300",
		"mcp.example.com": "https://mcp.example.com", "10.0.0.5:7300": "https://10.0.0.5:7300",
	} {
		r := &http.Request{Host: host}
		if got := Base(r); got != want {
			t.Errorf("%s: %s", host, got)
		}
		r.TLS = &tls.ConnectionState{}
		if got := Base(r); got != "https://"+host {
			t.Errorf("%s over TLS: %s", host, got)
		}
	}
}
