//go:build unix

package daemon

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestRawBytes sends bytes that no correct HTTP client sends. Dragoman refuses each request, and
// then serves the next client.
func TestRawBytes(t *testing.T) {
	t.Parallel()
	r := serve(t, config.Default())
	for name, x := range map[string]struct{ text, want string }{
		"TLS to a plain HTTP port": {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400"},
		"foreign host":             {"GET /mcp HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "HTTP/1.1 403"},
		"no host":                  {"GET /mcp HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 400"},
		"two lengths":              {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}  ", "HTTP/1.1 400"},
		"chunk without a number":   {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: */*\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 400"},
		"a length and chunks":      {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{}", "HTTP/1.1 501"},
		"a line end in the path":   {"GET /mcp\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400"},
		"a name with a space":      {"GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Name : x\r\n\r\n", "HTTP/1.1 400"},
		"an undefined method":      {"FROB /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1 405"},
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

// TestLengthAndChunks sends Content-Length together with Transfer-Encoding to each endpoint.
// Dragoman closes the connection after its response (RFC 9112 §6.1) and ignores the bytes after the
// request. The connection of a second client stays open.
func TestLengthAndChunks(t *testing.T) {
	t.Parallel()
	u := child(t, "one", "modern")
	r := serve(t, snapshot(u))
	session := r.initialize("/mcp", "2025-11-25", "{}")
	innocent, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer innocent.Close()
	_ = innocent.SetDeadline(time.Now().Add(30 * time.Second))
	rd := bufio.NewReader(innocent)
	for name, x := range map[string]struct{ path, body, want string }{
		"streamable HTTP":    {"/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "HTTP/1.1 200"},
		"one server's":       {"/s/one/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "HTTP/1.1 404"}, // the session belongs to the endpoint /mcp
		"not JSON":           {"/mcp", "{", "HTTP/1.1 400"},
		"HTTP+SSE":           {"/messages?sessionId=x", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "HTTP/1.1 404"},
		"HTTP+SSE, a server": {"/s/one/messages", `{}`, "HTTP/1.1 400"},
		"health":             {"/healthz", "{}", "HTTP/1.1 200"},
		"nothing":            {"/nothing", "{}", "HTTP/1.1 404"},
	} {
		t.Run(name, func(t *testing.T) {
			head := "POST " + x.path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: " + session + "\r\n"
			smuggled := "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
			got := r.raw(head+"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"+fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(x.body), x.body)+smuggled, 10*time.Second)
			if !strings.HasPrefix(got, x.want) || !strings.Contains(got, "\r\nConnection: close\r\n") || strings.Count(got, "HTTP/1.1 ") != 1 {
				t.Errorf("got %.400q, want one %s and the end of the connection", got, x.want)
			}
			_, _ = io.WriteString(innocent, smuggled)
			resp, err := http.ReadResponse(rd, nil)
			if err != nil || resp.StatusCode != http.StatusOK || resp.Close {
				t.Fatalf("the second client: %v %v", resp, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		})
	}
}
