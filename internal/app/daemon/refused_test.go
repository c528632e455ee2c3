//go:build unix

package daemon

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// TestBadAnswerOverHTTP checks a client that answers a server request with invalid JSON. The client
// gets an error, and the server request fails at once. A server request to another client is not
// affected.
func TestBadAnswerOverHTTP(t *testing.T) {
	t.Parallel()
	r := run(t, child(t, "child", "legacy"))
	other := []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-06-18", `{"elicitation":{}}`)}
	otherStream := r.open("POST", "/mcp", toolCall("1", "ask", `{"v":2}`), other...)
	otherQuestion := otherStream.event()
	bad := func(q *jsonrpc.Message) string {
		return `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{"x":NaN}}}`
	}
	wants := func(m *jsonrpc.Message, part string) {
		t.Helper()
		if m == nil || !strings.Contains(string(m.Raw), part) {
			t.Errorf("got %v, want %s in it", m, part)
		}
	}

	session := []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-06-18", `{"elicitation":{}}`)}
	s := r.open("POST", "/mcp", toolCall("1", "ask", `{"v":1}`), session...)
	if a := r.post("/mcp", bad(s.event()), session...); a.status != 400 || strings.Contains(a.body, `"id":1`) {
		t.Errorf("the client gets %d %s", a.status, a.body)
	}
	wants(s.event(), "is not valid")

	c := dialSSE(r, "/sse")
	c.send(initializeBody("2024-11-05", `{"elicitation":{}}`))
	c.answerTo("1")
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.send(toolCall("7", "ask", `{"v":3}`))
	q := c.events.event()
	if a := r.post(c.post, bad(q)); a.status != 400 {
		t.Errorf("the client gets %d %s", a.status, a.body)
	}
	wants(c.answerTo("7"), "is not valid")

	r.post("/mcp", `{"jsonrpc":"2.0","id":`+string(otherQuestion.ID)+`,"result":{"action":"accept","content":{"y":1}}}`, other...)
	wants(otherStream.event(), `y`)
}
