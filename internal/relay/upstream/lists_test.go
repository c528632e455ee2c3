package upstream

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestParamsOfToolsForSomeClients checks a tool that a server lists only for clients with certain
// capabilities. For clients of both eras, Dragoman mirrors the arguments of this tool in headers.
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
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http"}, Options{})
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
					_, known, _ := u.lister.toolParams(t.Context(), f, tool)
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
}

// TestNoList checks answers to list requests that contain no list. Only those that some SDKs send for an
// empty list may count as one.
func TestNoList(t *testing.T) {
	for _, tt := range []struct {
		result string
		fails  bool
	}{
		{`{"tools":[]}`, false}, {`{"tools":null}`, false}, {`{}`, false},
		{`{"tools":{"a":1}}`, true}, {`{"tools":"x"}`, true}, {`{"tools":7}`, true}, {`{"tools":false}`, true}, {`null`, true}, {`[]`, true},
	} {
		t.Run(tt.result, func(t *testing.T) {
			h := &program{legacy: true, on: func(_ *process, m *jsonrpc.Message) []byte {
				if m.Method == mcp.MethodListTools {
					return ok(m, tt.result)
				}
				return nil
			}}
			u := h.open(Spec{})
			defer u.Close(t.Context())
			items, complete, err := u.List(t.Context(), nil, mcp.MethodListTools)
			if (err != nil) != tt.fails || len(items) > 0 || complete == tt.fails {
				t.Errorf("got %d items, %v, %v", len(items), complete, err)
			}
		})
	}
}

// TestListServesCalls checks that a call after a list doesn't read the list again to know which headers it needs, and that
// it does after the tools have changed.
func TestListServesCalls(t *testing.T) {
	var lists atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Request {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{"resultType":"complete","content":[]}`
		switch m.Method {
		case mcp.MethodDiscover:
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
		case mcp.MethodListTools:
			lists.Add(1)
			result = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]}`
		case mcp.MethodCallTool:
			if r.Header.Get("Mcp-Param-A") != "b" {
				t.Errorf("the call has no header: %v", r.Header)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
	}))
	defer web.Close()
	u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{})
	defer u.Close(t.Context())
	if _, _, err := u.List(t.Context(), modernClient, mcp.MethodListTools); err != nil {
		t.Fatal(err)
	}
	for want := int32(1); want <= 2; want++ {
		for range 2 {
			if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t","arguments":{"a":"b"}}`); err != nil {
				t.Fatal(err)
			}
		}
		if n := lists.Load(); n != want {
			t.Errorf("%d lists, want %d", n, want)
		}
		u.lister.forgetTools("")
	}
}

// TestListOverALimit checks that a list which the limit of another Dragoman refuses is no fault of the server: the failure
// says so, and when to try again.
func TestListOverALimit(t *testing.T) {
	h := &program{legacy: true, on: func(_ *process, m *jsonrpc.Message) []byte {
		if m.Method == mcp.MethodListTools {
			e := mcp.Wire(&mcp.Error{Origin: mcp.FromGateway, Cause: "limit", Outcome: mcp.NotSent, Retryable: true, RetryAfter: 5 * time.Second, Message: "the project \"x\" gets at most 2 calls"})
			return jsonrpc.NewFailure(m.ID, e).Raw
		}
		return nil
	}}
	u := h.open(Spec{})
	defer u.Close(t.Context())
	_, _, err := u.List(t.Context(), nil, mcp.MethodListTools)
	var e *mcp.Error
	if !errors.As(err, &e) || e.Cause != "limit" || e.Outcome != mcp.NotSent || e.RetryAfter != 5*time.Second || e.Failure == nil {
		t.Fatalf("%+v", err)
	}
	if f := e.Failure; f.Class != failure.Overloaded || !strings.Contains(f.Sentence, "a limit of the Dragoman") || !strings.Contains(f.Sentence, "gets at most 2 calls") || f.Action != "try again in 5s" || len(f.Evidence) > 0 {
		t.Errorf("%+v", f)
	}
}
