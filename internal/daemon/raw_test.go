//go:build unix

package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
)

// TestRawBytes sends what no HTTP client would. Each time the door closes that
// connection or says no, and serves the next client.
func TestRawBytes(t *testing.T) {
	r := serve(t, config.Default())
	for name, x := range map[string]struct{ text, want string }{
		"TLS at a plain door":     {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400"},
		"foreign host":            {"GET /mcp HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "HTTP/1.1 403"},
		"no host":                 {"GET /mcp HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 400"},
		"two lengths":             {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ", "HTTP/1.1 400"},
		"chunk without a number":  {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: */*\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 400"},
		"a length and chunks":     {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{}", "HTTP/1.1 501"},
		"a line end in the path":  {"GET /mcp\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400"},
		"a name with a space":     {"GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Name : x\r\n\r\n", "HTTP/1.1 400"},
		"a method nobody defined": {"FROB /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 405"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.raw(x.text, 10*time.Second); !strings.HasPrefix(got, x.want) {
				t.Errorf("got %.120q, want %s", got, x.want)
			}
			if got := r.raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 10*time.Second); !strings.HasPrefix(got, "HTTP/1.1 200") {
				t.Errorf("afterwards: %.120q", got)
			}
		})
	}
}
