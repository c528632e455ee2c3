package streamhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// FuzzPost sends arbitrary requests. The Server must answer with a known HTTP status. An
// application/json body must be JSON-RPC. A valid call after the request must work.
func FuzzPost(f *testing.F) {
	good, lines := modernCall("7")
	f.Add("POST", good, strings.Join(lines, "\n"))
	f.Add("POST", call("1"), "")
	f.Add("POST", `[`+call("1")+`,{"jsonrpc":"2.0","id":2,"result":{}}]`, "MCP-Protocol-Version: 2025-03-26")
	f.Add("POST", strings.ReplaceAll(initializeBody, "%s", "2025-11-25"), "Mcp-Session-Id: x")
	f.Add("POST", `{"jsonrpc":"2.0","method":"notifications/foo"}`, "Mcp-Session-Id: SESSION")
	f.Add("POST", call("1"), "Mcp-Session-Id: SESSION\nMCP-Protocol-Version: 2025-11-25")
	f.Add("GET", "", "Mcp-Session-Id: SESSION\nLast-Event-ID: 00-1-0")
	f.Add("DELETE", "", "Origin: null")
	f.Add("POST", "{", "Content-Type: application/json; charset=\"\nAccept: */*;q=0.0")
	s := NewServer(Options{Acceptor: &hall{}, Principal: identity.Anyone, MaxBody: func() int64 { return 64 << 10 }})
	serve := func(method, body string, headers []string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://localhost/mcp", strings.NewReader(body))
		r.Method = method
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for _, l := range headers {
			name, value, _ := strings.Cut(l, ":")
			r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)][:0:0], strings.TrimSpace(value))
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	f.Cleanup(func() { _ = s.Close() })
	session := serve("POST", strings.ReplaceAll(initializeBody, "%s", "2025-11-25"), nil).Header().Get("Mcp-Session-Id")
	f.Fuzz(func(t *testing.T, method, body, headers string) {
		headers = strings.ReplaceAll(headers, "SESSION", session)
		if method == "GET" && strings.Contains(headers, session) {
			method = "DELETE" // because the stream of a GET would not end
		}
		w := serve(method, body, strings.Split(headers, "\n"))
		if w.Code < 200 || w.Code > 599 || http.StatusText(w.Code) == "" {
			t.Errorf("the status is %d", w.Code)
		}
		if b := w.Body.Bytes(); len(b) > 0 && w.Header().Get("Content-Type") == "application/json" && !jsonrpc.IsBatch(b) {
			if _, err := jsonrpc.Scan(b, jsonrpc.Limits{Tolerant: true}); err != nil {
				t.Errorf("%d %s: %v", w.Code, b, err)
			}
		}
		if s.counts.panics.Load() != 0 {
			t.Error("the server panicked")
		}
		if w := serve("POST", good, lines); w.Code != 200 {
			t.Errorf("a valid call got %d %s", w.Code, w.Body)
		}
	})
}
