//go:build unix

package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// httpServer is a modern server over HTTP that answers every call with text.
func httpServer(t testing.TB, text string) *upstreamUnderTest {
	t.Helper()
	const discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	const tools = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		m, err := jsonrpc.Scan(b, jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Request {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		result := `{"resultType":"complete","content":[{"type":"text","text":"` + text + `"}]}`
		switch m.Method {
		case "server/discover":
			result = discovered
		case "tools/list":
			result = tools
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
	}))
	t.Cleanup(s.Close)
	c, problem := config.Complete(config.Server{Name: "s", URL: s.URL + "/mcp"})
	if problem != nil {
		t.Fatal(problem)
	}
	return &upstreamUnderTest{Server: c}
}

// BenchmarkRelay makes one call after another, over HTTP on both hops. It measures the time from
// the client's request to the end of the response. This time includes the client and the server,
// which use net/http, and four transfers over the loopback.
func BenchmarkRelay(b *testing.B) {
	b.Run("http", func(b *testing.B) {
		text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20)
		u := httpServer(b, text)
		// Do not log, because the benchmark does not measure logging.
		r := launch(b, func(ctx context.Context, _ *slog.Logger, ready func(string)) error {
			return Run(ctx, RunOptions{Server: u.Server, Listen: "127.0.0.1:0", Ready: ready, Version: "test"})
		})
		body := modernBody("7", "tools/call", `"name":"t","arguments":{"body":"`+text+`"}`)
		header := modernHeader("tools/call", "t")
		r.post("/mcp", body, header...).wantText(b, text)
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if a := r.post("/mcp", body, header...); a.status != http.StatusOK || !strings.Contains(a.body, `"id":7,"result":{"resultType":"complete","content":[`) {
				b.Fatalf("status %d: %s", a.status, a.body)
			}
		}
	})
}
