package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/workbench/demo"
)

// TestInvoke checks that pages of the console get the same answers and problems as clients of
// the API.
func TestInvoke(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	r.ready("old")
	tools, bad := Invoke[Tools](t.Context(), r.api, http.MethodGet, "/servers/old/tools?q=greet", nil)
	if bad != nil || tools.Total != 2 || tools.Tools[0].Name != "greet" {
		t.Errorf("%+v %v", tools, bad)
	}
	if report, bad := Invoke[Report](t.Context(), r.api, http.MethodGet, "/status", nil); bad != nil || len(report.Servers) != 1 {
		t.Errorf("%+v %v", report, bad)
	}
	if log, bad := Invoke[Logs](t.Context(), r.api, http.MethodGet, "/servers/old/log?limit=1", nil); bad != nil || len(log.Records) > 1 {
		t.Errorf("%+v %v", log, bad)
	}
	x, bad := Invoke[Run](t.Context(), r.api, http.MethodPost, "/servers/old/runs", RunRequest{Tool: "greet", Arguments: []byte(`{"name":"x"}`)})
	if bad != nil || x.ID == "" {
		t.Errorf("%+v %v", x, bad)
	}
	r.ended(x.ID)
	for target, want := range map[string]int{"/servers/nobody": 404, "/servers/nobody/log": 404, "/tools?limit=0": 400, "/logs?limit=x": 400, "/nothing": 404, "/logs/stream": 404, "/\x00": 404} {
		if _, bad := Invoke[Tools](t.Context(), r.api, http.MethodGet, target, nil); bad == nil || bad.Status != want || bad.Title == "" {
			t.Errorf("%q: %+v", target, bad)
		}
	}
	if _, bad := Invoke[Servers](t.Context(), r.api, http.MethodGet, "/tools", nil); bad == nil || !strings.Contains(bad.Title, "unexpected type") {
		t.Errorf("%+v", bad)
	}
}
