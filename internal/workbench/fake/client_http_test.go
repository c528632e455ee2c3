package fake

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// surveyed connects a strict client to the server h. The client lists the tools and disconnects.
// surveyed returns the violations that the client has recorded.
func surveyed(t *testing.T, date string, h http.HandlerFunc) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	s := httptest.NewServer(h)
	defer s.Close()
	c, err := OpenClient(ctx, "strict-"+date, Where{URL: s.URL}, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Call(ctx, mcp.MethodListTools, nil, CallOptions{})
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return strings.Join(c.Violations(), "\n")
}

// TestHTTPClientSeesViolations checks that a strict client records a violation for each thing that
// a Streamable HTTP server must not do.
func TestHTTPClientSeesViolations(t *testing.T) {
	const legacyHello = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
	const modernHello = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
	const tools = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}`
	plain := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
	result := func(m *jsonrpc.Message, r string) string { return string(jsonrpc.AppendResult(nil, m.ID, []byte(r))) }
	for name, tt := range map[string]struct {
		date, want string
		list       func(w http.ResponseWriter, m *jsonrpc.Message) // answers tools/list; nil for a correct answer
		note       func(w http.ResponseWriter)                     // responds to notifications; nil for a correct response
		get        func(w http.ResponseWriter)
	}{
		"nothing wrong, legacy": {date: newestLegacy},
		"nothing wrong, modern": {date: newestModern},
		"closed while it answers": {date: newestLegacy, list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", `{"jsonrpc":"2.0","id":"p","method":"ping"}`, result(m, tools))
		}},
		"a note with the wrong status": {date: newestLegacy, want: "status 200", note: func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }},
		"a note with a body": {date: newestLegacy, want: "2 bytes", note: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "ok")
		}},
		"another session": {date: newestLegacy, want: "another session", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set(mcp.HeaderSession, "two")
			plain(w, result(m, tools))
		}},
		"a session in the modern era": {date: newestModern, want: "has an Mcp-Session-Id header", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set(mcp.HeaderSession, "two")
			plain(w, result(m, tools))
		}},
		"an event with an id in the modern era": {date: newestModern, want: "event with an id", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 1\r\ndata: %s\r\n\r\n", result(m, tools))
		}},
		"an event of another type": {date: newestModern, want: "type odd", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: odd\ndata: x\n\ndata: %s\n\n", result(m, tools))
		}},
		"an event id twice": {date: newestLegacy, want: "was repeated", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 1\ndata: %s\n\nid: 1\ndata: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, result(m, tools))
		}},
		"an unknown method at 200": {date: newestModern, want: "status 200, not 404", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			plain(w, string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "x"})))
		}},
		"a result at 400": {date: newestModern, want: "status 400", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, result(m, tools))
		}},
		"an answer of another type": {date: newestModern, want: "Content-Type text/plain", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, result(m, tools))
		}},
		"a later code": {date: newestLegacy, want: "code is -32021", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			plain(w, string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: mcp.CodeMissingCapability, Message: "x"})))
		}},
		"an older code": {date: newestModern, want: "code is -32002", list: func(w http.ResponseWriter, m *jsonrpc.Message) {
			plain(w, string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: mcp.CodeResourceNotFound, Message: "x"})))
		}},
		"GET with a type of its own": {date: newestLegacy, want: "the server answered GET", get: func(w http.ResponseWriter) {
			plain(w, "{}")
		}},
		"GET with 404": {date: newestLegacy, want: "the server answered GET with the status 404", get: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			got := surveyed(t, tt.date, func(w http.ResponseWriter, r *http.Request) {
				switch r.Method {
				case http.MethodDelete:
					close(gone)
					time.Sleep(20 * time.Millisecond) // so that a client can see the refusal of its answer
					return
				case http.MethodGet:
					if tt.get == nil {
						w.WriteHeader(http.StatusMethodNotAllowed)
						return
					}
					tt.get(w)
					return
				}
				body, _ := io.ReadAll(r.Body)
				m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
				switch {
				case err != nil:
					t.Errorf("the client sent %s", body)
				case m.Kind == jsonrpc.Notification && tt.note != nil:
					tt.note(w)
				case m.Kind == jsonrpc.Notification:
					w.WriteHeader(http.StatusAccepted)
				case m.Kind == jsonrpc.Result:
					<-gone
					w.WriteHeader(http.StatusNotFound)
				case m.Method == mcp.MethodInitialize:
					w.Header().Set(mcp.HeaderSession, "one")
					plain(w, result(m, legacyHello))
				case m.Method == mcp.MethodDiscover:
					plain(w, result(m, modernHello))
				case tt.list != nil:
					tt.list(w, m)
				default:
					plain(w, result(m, tools))
				}
			})
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("the client recorded %q, want a violation with %q", got, tt.want)
			}
		})
	}
}

// TestGETWhileTheSessionIsDeleted checks that a server may answer GET with 404 from the moment when the
// client deletes its session.
func TestGETWhileTheSessionIsDeleted(t *testing.T) {
	deleted, refused := make(chan struct{}), make(chan struct{})
	var once sync.Once
	got := surveyed(t, newestLegacy, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			select {
			case <-deleted:
				w.WriteHeader(http.StatusNotFound)
				_ = http.NewResponseController(w).Flush()
				once.Do(func() { close(refused) })
			default:
				w.Header().Set("Content-Type", "text/event-stream")
				_ = http.NewResponseController(w).Flush()
				<-deleted
			}
			return
		case http.MethodDelete:
			close(deleted)
			<-refused
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Scan(body, jsonrpc.Limits{})
		if m.Kind == jsonrpc.Notification {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		result := `{"tools":[]}`
		if m.Method == mcp.MethodInitialize {
			w.Header().Set(mcp.HeaderSession, "one")
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
		}
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
	})
	if got != "" {
		t.Errorf("the client recorded %q", got)
	}
}

const newestLegacy, newestModern = "2025-11-25", "2026-07-28"

// TestClientMirrorsHeaders checks how a modern client writes values into headers, and which
// arguments it repeats in headers (2026-07-28).
func TestClientMirrorsHeaders(t *testing.T) {
	for in, want := range map[string]string{
		"us-west1": "us-west1", "a b": "a b", "": "",
		"Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=", " padded ": "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2": "=?base64?bGluZTEKbGluZTI=?=", "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
	} {
		if got := headerValue(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	schema := []byte(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"object","properties":{"c":{"type":"integer","x-mcp-header":"C"}}},"d":{"type":"array","items":{"properties":{"e":{"x-mcp-header":"E"}}}}}}`)
	var got []string
	for _, a := range headerArgs(schema, jsonrpc.Whole(schema), nil) {
		got = append(got, strings.Join(a.path, ".")+"="+a.header)
	}
	if s := strings.Join(got, " "); s != "a=A b.c=C" {
		t.Errorf("the headers are %s", s)
	}
}
