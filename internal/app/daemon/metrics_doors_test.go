//go:build unix

package daemon

import (
	"strings"
	"testing"
)

// TestDoorMetrics checks that /metrics has the counters of each endpoint, of refused requests, and
// of unexpected messages from servers.
func TestDoorMetrics(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "a", "noisy")))
	r.call("/mcp", "a__echo", "{}").wantText(t, "{}")
	session := r.initialize("/s/a/mcp", "2025-11-25", "{}")
	r.post("/s/a/mcp", toolCall("2", "echo", `{}`), "Mcp-Session-Id", session).wantText(t, "{}")
	r.post("/mcp", "{")
	r.do(t.Context(), "GET", "/mcp", nil, "Host", "evil.example")
	dialSSE(r, "/sse").open()
	wants := []string{
		`dragoman_door_events_total{endpoint="/mcp",event="modern_requests",transport="http"} 1`,
		`dragoman_door_events_total{endpoint="/mcp",event="refused",transport="http"} 1`,
		`dragoman_door_events_total{endpoint="/mcp",event="opened",transport="sse"} 1`,
		`dragoman_door_events_total{endpoint="/s/a/mcp",event="sessions_opened",transport="http"} 1`,
		`dragoman_door_open{endpoint="/s/a/mcp",transport="http",what="sessions"} 1`,
		`dragoman_door_open{endpoint="/mcp",transport="sse",what="streams"} 1`,
		`dragoman_guard_refusals_total 1`,
		`dragoman_call_seconds_count{outcome="ok",project="default",server="a"} 2`,
		`dragoman_call_queue_seconds_count{outcome="ok",project="default",server="a"} 2`,
	}
	metrics := r.do(t.Context(), "GET", "/metrics", nil)
	for _, want := range wants {
		if !strings.Contains(metrics.body, want+"\n") {
			t.Errorf("%s is not in %s", want, metrics.body)
		}
	}
	if strings.Contains(metrics.body, `dragoman_odd_messages_total{project="default",server="a"} 0`) || !strings.Contains(metrics.body, `dragoman_odd_messages_total{project="default",server="a"} `) {
		t.Errorf("odd messages are not counted: %s", metrics.body)
	}
	if s, _ := r.status(); serverIn(t, s, "a").Odd == 0 || serverIn(t, s, "a").Unasked == 0 {
		t.Errorf("%+v", s.Servers)
	}
}
