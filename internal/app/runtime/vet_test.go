package runtime

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// TestToolWithAnInvalidHeader checks that a tool of a modern HTTP server with an invalid x-mcp-header is
// left out at both endpoints, by the commands and by a trial, that no call of it reaches the server, and
// that the report gives the reason.
func TestToolWithAnInvalidHeader(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if m.Method == mcp.MethodCallTool {
			if name, _ := jsonrpc.Text(m.Raw, m.Param("name")); name != "good" {
				t.Errorf("the server is called: %s", m.Raw)
			}
		}
		result := `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}`
		if m.Method == mcp.MethodListTools {
			result = `"tools":[{"name":"good","inputSchema":{"type":"object"}},{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}]`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public",%s}}`, m.ID, result)
	}))
	defer web.Close()
	c, problems := config.Parse("dragoman.yaml", fmt.Appendf(nil, "mcpServers:\n  web: {url: %q}\n", web.URL), nil)
	if c == nil {
		t.Fatal(problems)
	}
	var mu sync.Mutex
	var lost []string
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		lost = append(lost, e.Server+" "+e.Name+" "+e.Detail)
	})
	r := New(Options{
		Principal: identity.Anyone, Events: events,
		Config: c, Log: slog.New(slog.DiscardHandler), Guard: httpdoor.NewGuard(nil, nil, nil), Budget: transport.NewBudget(64 << 20),
	})
	r.Apply(event.DefaultProject, c)
	mux := http.NewServeMux()
	r.Routes(mux)
	s := serveSite(t, mux)
	defer func() {
		r.Drain()
		r.Close(time.Second)
	}()
	body := strings.NewReplacer("tools/call", "tools/list", `"name":"star","arguments":{},`, "").Replace(modernBody)
	for _, path := range []string{"/mcp", "/s/web/mcp"} {
		for range 2 {
			_, _, got := s.ask("POST", path, body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
			if !strings.Contains(got, "good") || strings.Contains(got, "bad") {
				t.Errorf("%s lists %s", path, got)
			}
		}
	}
	for path, prefix := range map[string]string{"/mcp": "web__", "/s/web/mcp": ""} {
		for tool, want := range map[string]string{"good": `"result"`, "bad": `"code":-32602,"message":"Unknown tool: ` + prefix + `bad`} {
			_, _, got := s.ask("POST", path, strings.Replace(modernBody, `"star"`, `"`+prefix+tool+`"`, 1), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", prefix+tool)
			if !strings.Contains(got, want) {
				t.Errorf("%s: a call of %s gets %s", path, tool, got)
			}
		}
	}
	mu.Lock()
	if why := `web tools/list "bad" is left out: its x-mcp-header is invalid: x-mcp-header at "/properties/a" is on a property of type "object"`; len(lost) != 3 || slices.ContainsFunc(lost, func(x string) bool { return x != why }) {
		t.Errorf("the losses are %q, want one for the merged list and one for each page of the server's own list", lost)
	}
	mu.Unlock()
	lists := r.Default().Report().Lists
	if i := slices.IndexFunc(lists, func(x catalog.ListReport) bool { return x.Method == mcp.MethodListTools }); i < 0 || lists[i].Items != 1 || len(lists[i].Rejected) != 1 || lists[i].Rejected[0].Name != "bad" {
		t.Errorf("the report is %+v", lists)
	}
	own, _ := c.Server("web")
	x, err := Connect(t.Context(), ConnectOptions{Server: own, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	got, err := x.List(t.Context(), "tools")
	if err != nil || len(got.Items) != 1 || !strings.Contains(got.LeftOut["bad"], "x-mcp-header") {
		t.Errorf("the command gets %+v, %v", got, err)
	}
	if trial := r.Default().Try(t.Context(), own); trial.Counts[mcp.MethodListTools] != 1 {
		t.Errorf("the trial counts %v", trial.Counts)
	}
}

// TestVetJudgesOnlyWhereHeadersAreMirrored checks that a tool with an invalid x-mcp-header passes where
// no header is made of its arguments.
func TestVetJudgesOnlyWhereHeadersAreMirrored(t *testing.T) {
	vet := Vet(config.Server{Name: "web", URL: "https://example.com/mcp"}, config.Server{Name: "pipe", Command: "x"})
	const bad = `{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}`
	for _, x := range []struct {
		method, server string
		from           mcp.Revision
		hides          bool
	}{
		{mcp.MethodListTools, "web", mcp.R20260728, true},
		{mcp.MethodListTools, "web", mcp.R20251125, false},
		{mcp.MethodListTools, "pipe", mcp.R20260728, false},
		{mcp.MethodListPrompts, "web", mcp.R20260728, false},
	} {
		if item, hide := vet.Judge(x.method, x.server, x.from, []byte(bad)); (hide != "") != x.hides || string(item) != bad {
			t.Errorf("%v: %q, %s", x, hide, item)
		}
	}
}
