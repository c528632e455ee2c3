package upstream

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
)

// deepServer answers every request with a result that has a list of tools. The second tool is nested
// too deep.
type deepServer struct{}

var deepTools = `{"tools":[{"name":"one","inputSchema":{"type":"object"}},{"name":"deep","inputSchema":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200) + `}],"content":[]}`

func (deepServer) Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	return &mcp.ServerInfo{Info: []byte(`{"name":"s","version":"1"}`), Capabilities: []byte(`{"tools":{}}`)}, nil
}

func (deepServer) Call(context.Context, *mcp.Call, mcp.Caller) (*mcp.Reply, error) {
	return mcp.Answer([]byte(deepTools)), nil
}

func (deepServer) Notify(context.Context, *mcp.ClientInfo, *jsonrpc.Message) {}

func (deepServer) Resubscribe(context.Context, *mcp.ClientInfo, []string) {}

func (deepServer) Subscribe(*mcp.ClientInfo, mcp.Subscriber) func() { return func() {} }

// TestDeepToolOverHTTP checks that a tool that is nested too deep hides only itself over HTTP+SSE and
// in an event stream, and that a result is refused as a whole if it is not the list that Dragoman
// asked for: nothing may be left out of the result of a tool.
func TestDeepToolOverHTTP(t *testing.T) {
	legacy := sse.NewServer(sse.Options{Acceptor: &downstream.Endpoint{Handler: deepServer{}}, Principal: identity.Anyone, Messages: "/messages"})
	defer func() { _ = legacy.Close() }()
	modern := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		result := `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + deepTools[1:]
		if m.Method == mcp.MethodDiscover {
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+string(ok(m, result))+"\n\n")
	})
	for kind, h := range map[string]http.Handler{"sse": legacy, "http": modern} {
		t.Run(kind, func(t *testing.T) {
			web := httptest.NewServer(h)
			defer web.Close()
			u := New(Spec{Name: "web", URL: web.URL, Kind: kind}, Options{})
			defer u.Close(t.Context())
			for range 2 {
				items, complete, err := u.List(t.Context(), nil, mcp.MethodListTools)
				if err != nil || !complete || len(items) != 1 || !strings.Contains(string(items[0]), "one") {
					t.Errorf("the list is %q, %v", items, err)
				}
			}
			if why := u.Report().LeftOut[mcp.MethodListTools]["deep"]; !strings.Contains(why, "125 levels") {
				t.Errorf("the report says %q", why)
			}
			lease, err := u.Acquire(t.Context(), nil, mcp.Need{Method: mcp.MethodCallTool})
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
			call := func(method, params string) error {
				m := jsonrpc.NewRequest("1", method, []byte(params))
				_, err := lease.Call(t.Context(), mcp.NewAttempt(mcp.NewCall(m, jsonrpc.Span{}, &mcp.ClientInfo{Revision: mcp.R20250618})), mcp.NoCaller{})
				return err
			}
			if err := call(mcp.MethodCallTool, `{"name":"one"}`); err == nil || !strings.Contains(err.Error(), "nested deeper") {
				t.Errorf("the result of a tool: %v", err)
			}
			if err := call(mcp.MethodListTools, `{}`); err != nil {
				t.Errorf("a page of the list: %v", err)
			}
		})
	}
}
