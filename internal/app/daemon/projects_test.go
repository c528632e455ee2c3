//go:build unix

package daemon

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestTwoProjectsInOneProcess serves two projects with a server of the same name each, and looks at what
// the process says about them: metrics, log, status and the API tell them apart, and what is said about
// default is as if it were alone.
func TestTwoProjectsInOneProcess(t *testing.T) {
	t.Parallel()
	home, shop := child(t, "gh", "legacy"), child(t, "gh", "modern")
	said := &journal{}
	recent := logring.New()
	o := ServeOptions{Config: snapshot(home), Version: "test", Log: slog.New(logring.NewHandler(recent, said.logger().Handler())), recent: recent}
	d := openDaemon(o, true)
	d.calls = telemetry.NewCallLog(d.events, o.Log, slog.LevelInfo, d.clean)
	closed := sync.OnceFunc(d.close)
	defer closed()
	d.runtime.Apply(event.DefaultProject, o.Config)
	d.runtime.Apply("shop", snapshot(shop)).Warm()
	d.project.Warm()
	web := httptest.NewServer(d.handler())
	defer web.Close()
	r := &rig{t: t, base: web.URL, http: web.Client(), log: said}
	r.call("/mcp", "gh__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	r.call("/p/shop/mcp", "gh__echo", `{"v":2}`).wantText(t, `{"v":2}`)
	r.call("/p/shop/s/gh/mcp", "echo", `{"v":3}`).wantText(t, `{"v":3}`)
	r.initialize("/p/shop/mcp", "2025-11-25", "{}")
	if home.count("call echo") != 1 || shop.count("call echo") != 2 {
		t.Errorf("the servers got %d and %d calls", home.count("call echo"), shop.count("call echo"))
	}

	metrics := r.do(t.Context(), "GET", "/metrics", nil).body
	for _, want := range []string{
		`dragoman_calls_total{client_era="modern",outcome="ok",project="default",server="gh",server_era="legacy"} 1`,
		`dragoman_calls_total{client_era="modern",outcome="ok",project="shop",server="gh",server_era="modern"} 2`,
		`dragoman_server_up{project="default",revision="2025-11-25",server="gh",state="ready"} 1`,
		`dragoman_server_up{project="shop",revision="2026-07-28",server="gh",state="ready"} 1`,
		`dragoman_door_events_total{endpoint="/mcp",event="modern_requests",transport="http"} 1`,
		`dragoman_door_events_total{endpoint="/p/shop/mcp",event="modern_requests",transport="http"} 1`,
		`dragoman_door_events_total{endpoint="/p/shop/s/gh/mcp",event="modern_requests",transport="http"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("%s is missing", want)
		}
	}
	report, text := r.status()
	if len(report.Servers) != 1 || report.Servers[0].Era != "legacy" || report.Servers[0].Calls != 1 || report.Project != "default" || strings.Contains(text, "/p/shop") {
		t.Errorf("the status of default has %s", text)
	}
	other := r.do(t.Context(), "GET", "/api/v1/status?project=shop", nil).body
	if !strings.Contains(other, `"project": "shop"`) || !strings.Contains(other, `"/p/shop/s/gh/mcp"`) || !strings.Contains(other, `"calls": 2`) {
		t.Errorf("the status of shop is %s", other)
	}
	await(t, "the calls are logged", 10*time.Second, func() bool { return said.count("msg=call ") == 3 && said.count("remote=127.0.0.1 project=shop") > 0 })
	log := said.String()
	for want, times := range map[string]int{
		"msg=call project=shop server=gh tool=echo": 2, "msg=call server=gh tool=echo": 1, `msg="server ready" project=shop server=gh`: 1, "remote=127.0.0.1 project=shop": 1,
	} {
		if n := strings.Count(log, want); n != times {
			t.Errorf("the log has %q %d times, want %d", want, n, times)
		}
	}
	if a := r.do(t.Context(), "GET", "/readyz", nil).body; strings.Count(a, `"name"`) != 1 {
		t.Errorf("/readyz names the servers of another project: %s", a)
	}
	d.runtime.Remove("shop")
	await(t, "the server of the removed project has ended", 30*time.Second, func() bool { return !strings.Contains(r.do(t.Context(), "GET", "/metrics", nil).body, `/p/shop/`) })
	r.call("/mcp", "gh__echo", `{"v":4}`).wantText(t, `{"v":4}`)
	if metrics := r.do(t.Context(), "GET", "/metrics", nil).body; strings.Contains(metrics, `dragoman_server_up{project="shop"`) {
		t.Error("the metrics still have a server of the removed project")
	}
	closed()
	home.wantGone(t)
	shop.wantGone(t)
}
