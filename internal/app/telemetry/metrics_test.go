package telemetry

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// scrape returns the body of /metrics.
func scrape(m *Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// TestMetrics checks the counts of events, and the bound on labels that clients choose.
func TestMetrics(t *testing.T) {
	m, p := NewMetrics(), &event.Publisher{}
	stop := m.Subscribe(p)
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, To: mcp.R20260728})
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, Code: -32602})
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, Outcome: event.Cancelled})
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, To: mcp.R20251125, Outcome: event.ToolError})
	p.Publish(event.Event{Kind: event.Loss, Server: "s", Name: "tools/list"})
	p.Publish(event.Event{Kind: event.Loss, Server: "s", Name: "made/up"})
	p.Publish(event.Event{Kind: event.Loss, Name: "content.audio"})
	p.Publish(event.Event{Kind: event.Loss, Name: "content.audio"})
	p.Publish(event.Event{Kind: event.Handshake, Server: "s", Detail: "a server's"})
	for i := range maxClientNames + 10 {
		p.Publish(event.Event{Kind: event.Handshake, Name: fmt.Sprint("c", i), From: mcp.R20251125, Took: time.Millisecond, Outcome: event.OK, Opening: &event.Opening{Requested: "2025-11-25"}})
	}
	p.Publish(event.Event{Kind: event.Handshake, Name: "c0", From: mcp.R20251125, Outcome: mcp.Failed, Opening: &event.Opening{}})
	p.Publish(event.Event{Kind: event.Handshake, Name: "c0", Outcome: event.UnsupportedVersion, Opening: &event.Opening{Requested: "1.0"}})
	stop()
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, To: mcp.R20260728})
	text := scrape(m)
	for _, want := range []string{
		`dragoman_calls_total{client_era="legacy",outcome="ok",server="s",server_era="modern"} 1`,
		`dragoman_calls_total{client_era="legacy",outcome="error",server="s",server_era="unknown"} 1`,
		`dragoman_calls_total{client_era="legacy",outcome="cancelled",server="s",server_era="unknown"} 1`,
		`dragoman_calls_total{client_era="legacy",outcome="tool_error",server="s",server_era="legacy"} 1`,
		`dragoman_losses_total{server="s",what="tools/list"} 1`,
		`dragoman_losses_total{server="s",what="other"} 1`,
		`dragoman_handshakes_total{client="other",outcome="ok",requested="2025-11-25"} 10`,
		`dragoman_handshakes_total{client="c0",outcome="failed",requested="none"} 1`,
		`dragoman_handshakes_total{client="c0",outcome="unsupported_version",requested="other"} 1`,
		`dragoman_handshake_seconds_count{revision="2025-11-25"} 75`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	want := []admin.Loss{{Server: "", What: "content.audio", Count: 2}, {Server: "s", What: "other", Count: 1}, {Server: "s", What: "tools/list", Count: 1}}
	if got := m.Losses(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("losses: %v", got)
	}
}
