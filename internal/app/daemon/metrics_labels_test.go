//go:build unix

package daemon

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestPeersMakeNoLabels sends, and lets a server send, whatever names it likes. None of them becomes the
// value of a label, except for the first 64 names of clients.
func TestPeersMakeNoLabels(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "a", "noisy")))
	const evil = "evil"
	for i := range 100 {
		name := fmt.Sprint(evil, i)
		r.modern("/mcp", "1", "tools/call", name, `"name":"`+name+`","arguments":{}`)
		r.modern("/mcp", "2", "resources/read", name+":x", `"uri":"`+name+`:x"`)
		r.modern("/mcp", "3", "tasks/get", name, `"taskId":"`+name+`"`)
		r.post("/mcp", `{"jsonrpc":"2.0","id":4,"method":"`+name+`/x"}`, "Mcp-Method", name+"/x")
		r.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/`+name+`"}`)
		r.post("/mcp", `{"jsonrpc":"`+name+`","id":5,"method":"x"}`)
		r.post("/s/a/mcp", toolCall("6", name, `{}`), "Mcp-Session-Id", name, "Mcp-Protocol-Version", name)
		r.do(t.Context(), http.MethodGet, "/s/"+name+"/mcp", nil)
		r.do(t.Context(), http.MethodGet, "/p/"+name+"/mcp", nil)
		r.post("/mcp", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"`+name+`","capabilities":{},"clientInfo":{"name":"`+name+`","version":"`+name+`"}}}`)
	}
	clients := 0
	for line := range strings.Lines(r.do(t.Context(), "GET", "/metrics", nil).body) {
		switch {
		case !strings.Contains(line, evil):
		case regexp.MustCompile(`^dragoman_handshakes_total\{client="evil\d+",outcome="\w+",requested="\w+"\} 1\n`).MatchString(line):
			clients++
		default:
			t.Errorf("a peer chose a label: %s", line)
		}
	}
	if clients != 64 {
		t.Errorf("%d names of clients", clients)
	}
}
