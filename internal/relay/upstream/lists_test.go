package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestToolWithAnInvalidHeaderIsLoggedOnce checks that only the tool with the invalid header is
// left out of the list. The report gives the reason until the server corrects the tool. Reading
// the list again logs nothing new.
func TestToolWithAnInvalidHeaderIsLoggedOnce(t *testing.T) {
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
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(e event.Event) { lost = append(lost, e.Name+": "+e.Detail) })
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http"}, Options{Events: events})
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
		t.Errorf("the losses are %q", lost)
	}
	if why := u.Report().LeftOut["tools/list"]["bad"]; !strings.Contains(why, "object") {
		t.Errorf("the report contains %q", u.Report().LeftOut)
	}
	mended.Store(true)
	list(2)
	if left := u.Report().LeftOut["tools/list"]; len(left) != 0 {
		t.Errorf("after the repair, the report contains %q", left)
	}
	mended.Store(false)
	list(1)
	if len(lost) != 2 {
		t.Errorf("after the error came back, the losses are %q", lost)
	}
}

// TestParamsOfToolsForSomeClients checks a tool that a server lists only for clients with certain
// capabilities. For clients of both eras, Dragoman mirrors the arguments of this tool in headers.
// Reading the list for these clients does not change which tools are left out of the common list.
func TestParamsOfToolsForSomeClients(t *testing.T) {
	const mirrored = `"inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`
	var lists atomic.Int32
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
			lists.Add(1)
			tools := `{"name":"plain",` + mirrored + `,{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}`
			caps := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyClientCaps)
			if !jsonrpc.Find(m.Raw, caps, "elicitation").IsZero() {
				tools = `{"name":"plain",` + mirrored + `,{"name":"form",` + mirrored
			}
			_, _ = w.Write(ok(m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`+tools+`]}`))
		case mcp.MethodCallTool:
			if r.Header.Get("Mcp-Param-A") != "eu" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "no Mcp-Param-A"}))
				return
			}
			_, _ = w.Write(ok(m, `{"resultType":"complete","content":[]}`))
		default:
			_, _ = w.Write(ok(m, `{"resultType":"complete"}`))
		}
	}))
	defer web.Close()
	var lost atomic.Int32
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(event.Event) { lost.Add(1) })
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http"}, Options{Events: events})
	defer u.Close(t.Context())
	for i := range 3 {
		for _, rev := range []mcp.Revision{mcp.R20251125, mcp.R20260728} {
			for _, caps := range []string{`{"elicitation":{}}`, `{}`} {
				f := &mcp.ClientInfo{Revision: rev, Capabilities: []byte(caps), Conversation: 1}
				for _, tool := range []string{"form", "plain"} {
					m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"a":"eu"},"_meta":{"`+mcp.KeyVersion+`":"2026-07-28","`+mcp.KeyClientCaps+`":`+caps+`}}}`), jsonrpc.Limits{})
					if err != nil {
						t.Fatal(err)
					}
					_, known := u.ToolParams(t.Context(), f, tool)
					if want := tool == "plain" || caps != "{}"; known != want {
						t.Errorf("%d: the tool %s of %v with %s is known: %t", i, tool, rev, caps, known)
					}
					if !known {
						continue
					}
					reply, err := u.Call(t.Context(), mcp.NewCall(m, m.Param(mcp.KeyMeta), f), mcp.NoCaller{})
					if err != nil || reply.Code() != 0 {
						t.Errorf("%d: the parameters of %s of %v with %s: %v, %v", i, tool, rev, caps, reply, err)
					}
				}
			}
		}
	}
	if n := lists.Load(); n != 2 {
		t.Errorf("the tools were listed %d times, want once for each set of capabilities", n)
	}
	if n := lost.Load(); n != 1 || u.Report().LeftOut["tools/list"]["bad"] == "" {
		t.Errorf("there are %d losses, and the tools left out are %v", n, u.Report().LeftOut)
	}
}
