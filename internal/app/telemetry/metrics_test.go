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
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
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
	m.WatchEndpoints(func() []Endpoint {
		return []Endpoint{{Path: "/mcp", HTTP: streamhttp.Counts{Refused: 1}}, {Path: "/mcp/unused"}}
	}, httpdoor.NewGuard(nil, nil, nil))
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, To: mcp.R20260728, Outcome: event.OK, Took: 2 * time.Second, Waited: time.Second})
	p.Publish(event.Event{Kind: event.Call, Server: "s", Method: mcp.MethodListen, From: mcp.R20251125, To: mcp.R20260728, Outcome: event.OK, Took: time.Hour})
	p.Publish(event.Event{Kind: event.Call, From: mcp.R20251125, Outcome: event.Refused})
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, Code: -32602, Outcome: mcp.Failed})
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, Outcome: event.Cancelled})
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, To: mcp.R20251125, Outcome: event.ToolError})
	p.Publish(event.Event{Kind: event.Loss, Server: "s", Name: "tools/list"})
	p.Publish(event.Event{Kind: event.Loss, Server: "s", Name: "made/up"})
	p.Publish(event.Event{Kind: event.Loss, Name: "content.audio"})
	p.Publish(event.Event{Kind: event.Loss, Name: "content.audio"})
	p.Publish(event.Event{Kind: event.Handshake, Server: "s", Outcome: mcp.Failed, Detail: "a server's"})
	for i := range maxClientNames + 10 {
		p.Publish(event.Event{Kind: event.Handshake, Name: fmt.Sprint("c", i), From: mcp.R20251125, Took: time.Millisecond, Outcome: event.OK, Opening: &event.Opening{Requested: "2025-11-25"}})
	}
	p.Publish(event.Event{Kind: event.Handshake, Name: "c0", From: mcp.R20251125, Outcome: mcp.Failed, Opening: &event.Opening{}})
	p.Publish(event.Event{Kind: event.Handshake, Name: "c0", Outcome: event.UnsupportedVersion, Opening: &event.Opening{Requested: "1.0"}})
	stop()
	p.Publish(event.Event{Kind: event.Call, Server: "s", From: mcp.R20251125, To: mcp.R20260728})
	text := scrape(m)
	for _, want := range []string{
		`dragoman_calls_total{client_era="legacy",outcome="ok",project="default",server="s",server_era="modern"} 2`,
		`dragoman_calls_total{client_era="legacy",outcome="refused",project="default",server="",server_era="unknown"} 1`,
		`dragoman_call_seconds_bucket{outcome="ok",project="default",server="s",le="0.5"} 0`,
		`dragoman_call_seconds_bucket{outcome="ok",project="default",server="s",le="2.5"} 1`,
		`dragoman_call_seconds_count{outcome="ok",project="default",server="s"} 1`,
		`dragoman_call_queue_seconds_sum{outcome="ok",project="default",server="s"} 1`,
		`dragoman_server_handshakes_total{outcome="failed",project="default",server="s"} 1`,
		`dragoman_calls_total{client_era="legacy",outcome="failed",project="default",server="s",server_era="unknown"} 1`,
		`dragoman_calls_total{client_era="legacy",outcome="cancelled",project="default",server="s",server_era="unknown"} 1`,
		`dragoman_calls_total{client_era="legacy",outcome="tool_error",project="default",server="s",server_era="legacy"} 1`,
		`dragoman_losses_total{project="default",server="s",what="tools/list"} 1`,
		`dragoman_losses_total{project="default",server="s",what="other"} 1`,
		`dragoman_handshakes_total{client="other",outcome="ok",requested="2025-11-25"} 10`,
		`dragoman_handshakes_total{client="c0",outcome="failed",requested="none"} 1`,
		`dragoman_handshakes_total{client="c0",outcome="unsupported_version",requested="other"} 1`,
		`dragoman_handshake_seconds_count{revision="2025-11-25"} 75`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\ndragoman_call_queue_seconds_count"); n != 1 {
		t.Errorf("%d histograms of queues, but only one call waited", n)
	}
	if n := strings.Count(text, "\ndragoman_door_events_total{"); n != 1 || strings.Contains(text, "/mcp/unused") {
		t.Errorf("%d series of events, but only one happened:\n%s", n, text)
	}
	want := []admin.Loss{{Server: "", What: "content.audio", Count: 2}, {Server: "s", What: "other", Count: 1}, {Server: "s", What: "tools/list", Count: 1}}
	if got := m.Losses(event.DefaultProject); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("losses: %v", got)
	}
}

// TestMetricsOfProjects checks that servers of the same name in two projects have series of their own,
// and that each project has its own losses.
func TestMetricsOfProjects(t *testing.T) {
	m, p := NewMetrics(), &event.Publisher{}
	defer m.Subscribe(p)()
	m.WatchServers(func() map[string][]upstream.Status {
		return map[string][]upstream.Status{event.DefaultProject: {{Name: "gh", State: upstream.Ready}}, "shop": {{Name: "gh", State: upstream.Broken}}}
	})
	for _, at := range []*event.Publisher{p, p.For("shop"), p.For("shop")} {
		at.Publish(event.Event{Kind: event.Call, Server: "gh", From: mcp.R20251125, To: mcp.R20251125, Outcome: event.OK})
		at.Publish(event.Event{Kind: event.Loss, Server: "gh", Name: mcp.NoteProgress})
	}
	text := scrape(m)
	for _, want := range []string{
		`dragoman_calls_total{client_era="legacy",outcome="ok",project="default",server="gh",server_era="legacy"} 1`,
		`dragoman_calls_total{client_era="legacy",outcome="ok",project="shop",server="gh",server_era="legacy"} 2`,
		`dragoman_server_up{project="default",revision="unknown",server="gh",state="ready"} 1`,
		`dragoman_server_up{project="shop",revision="unknown",server="gh",state="failed"} 0`,
		`dragoman_losses_total{project="shop",server="gh",what="notifications/progress"} 2`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if a, b := m.Losses(event.DefaultProject), m.Losses("shop"); len(a) != 1 || a[0].Count != 1 || len(b) != 1 || b[0].Count != 2 {
		t.Errorf("%v, %v", a, b)
	}
}
