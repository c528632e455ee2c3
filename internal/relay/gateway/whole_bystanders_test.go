package gateway_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// serving returns a server that s implements.
func serving(t *testing.T, s *httpServer) *testServer {
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return &testServer{url: web.URL}
}

// TestOneFailureOverHTTPLeavesOtherCallsAlone lets one client's request fail in many ways at an HTTP
// server, while calls of two other clients run in the same session. These must get their answers,
// which the server gives only afterwards, and it must get each of their calls once.
func TestOneFailureOverHTTPLeavesOtherCallsAlone(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		for _, prefix := range []string{"", "a__"} {
			for _, fault := range webFaults {
				for _, r := range retryRequests[:3] {
					t.Run(strings.Join([]string{eraOf(modern), prefix, fault.name, r.method}, "/"), func(t *testing.T) {
						t.Parallel()
						s := &httpServer{modern: modern, method: r.method, fault: fault.fault, running: make(chan struct{}, 9), release: make(chan struct{})}
						servers := []*testServer{serving(t, s)}
						if prefix != "" {
							servers = append(servers, serving(t, &httpServer{modern: modern}))
						}
						w := build(t, servers...)
						attacker, bystanders := w.callerAs("nobody", true, `{}`), []*caller{w.callerAs("nobody", true, `{}`), {testClient: w.clientOf("")}}
						bystanders[1].say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`)
						bystanders[1].answerTo(`"init"`)
						attacker.ask(mcp.MethodGetPrompt, `"name":"`+prefix+`p"`)
						var ids []string
						for _, c := range bystanders {
							ids = append(ids, c.start(mcp.MethodCallTool, `"name":"`+prefix+`slow"`))
							<-s.running
						}
						for range 4 { // a server may take several refusals in a row for a lost session
							s.mu.Lock()
							s.left = 1
							s.mu.Unlock()
							attacker.ask(r.method, strings.Replace(r.params, `"name":"`, `"name":"`+prefix, 1))
						}
						s.mu.Lock()
						s.left = 0
						s.mu.Unlock()
						close(s.release)
						for i, c := range bystanders {
							c.wants(c.answerTo(ids[i]), `"slow":true`)
						}
						if n := len(s.running); n != 0 {
							t.Errorf("the server got %d of the calls once more", n)
						}
					})
				}
			}
		}
	}
}
