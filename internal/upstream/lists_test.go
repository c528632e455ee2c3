package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// TestToolWithAnInvalidHeaderIsToldOnce: it alone is left out, the report says why
// for as long as it is so, and reading the list again says nothing new.
func TestToolWithAnInvalidHeaderIsToldOnce(t *testing.T) {
	var mended atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case mcp.MethodDiscover:
			_, _ = w.Write(ok(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`))
		case mcp.MethodListTools:
			kind := `"object"`
			if mended.Load() {
				kind = `"string"`
			}
			_, _ = w.Write(ok(m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"good","inputSchema":{"type":"object"}},`+
				`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":`+kind+`,"x-mcp-header":"A"}}}}]}`))
		default:
			_, _ = w.Write(ok(m, `{"resultType":"complete","content":[]}`))
		}
	}))
	defer web.Close()
	var lost []string
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http"}, Options{Lost: func(_, what, why string) { lost = append(lost, what+": "+why) }})
	defer u.Close(t.Context())
	list := func(want int) {
		t.Helper()
		items, _, err := u.List(t.Context(), nil, mcp.MethodListTools)
		if err != nil || len(items) != want {
			t.Errorf("%d tools, %v", len(items), err)
		}
	}
	for range 3 {
		list(1)
	}
	if len(lost) != 1 || !strings.HasPrefix(lost[0], mcp.MethodListTools) {
		t.Errorf("lost: %q", lost)
	}
	if why := u.Report().LeftOut["bad"]; !strings.Contains(why, "object") {
		t.Errorf("the report: %q", u.Report().LeftOut)
	}
	mended.Store(true)
	list(2)
	if left := u.Report().LeftOut; len(left) != 0 {
		t.Errorf("mended, the report says %q", left)
	}
	mended.Store(false)
	list(1)
	if len(lost) != 2 {
		t.Errorf("broken again, lost: %q", lost)
	}
}
