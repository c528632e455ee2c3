package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// deployed is a server on HTTP that changes its era while nobody looks.
type deployed struct {
	mu     sync.Mutex
	modern bool
	answer func(w http.ResponseWriter, m *jsonrpc.Message) bool // of calls; nil for the usual
	foul   func(w http.ResponseWriter)                          // a legacy one's to what is modern
	opened int
	calls  int // that were executed
}

func (s *deployed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if r.Method != http.MethodPost || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	version := r.Header.Get("Mcp-Protocol-Version")
	switch {
	case s.modern && version != mcp.R20260728.String():
		say(w, 400, `{"jsonrpc":"2.0","id":`+idOf(m)+`,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"x"}}}`)
	case s.modern && m.Method == mcp.MethodDiscover:
		say(w, 200, string(ok(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)))
	case s.modern:
		s.call(w, m)
	case m.Method == mcp.MethodInitialize:
		s.opened++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(s.opened))
		say(w, 200, string(ok(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`)))
	case r.Header.Get("Mcp-Session-Id") == "":
		s.foul(w)
	case m.Kind != jsonrpc.Request:
		w.WriteHeader(http.StatusAccepted)
	default:
		s.call(w, m)
	}
}

func (s *deployed) call(w http.ResponseWriter, m *jsonrpc.Message) {
	if m.Method == mcp.MethodCallTool {
		s.calls++
	}
	if s.answer != nil && s.answer(w, m) {
		return
	}
	say(w, 200, string(ok(m, `{"resultType":"complete","content":[],"era":"`+map[bool]string{true: "modern", false: "legacy"}[s.modern]+`"}`)))
}

func idOf(m *jsonrpc.Message) string {
	if m.ID == "" {
		return "null"
	}
	return string(m.ID)
}

func say(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func foulWith(status int, contentType, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// fouls are what legacy servers are known to answer to a modern request.
var fouls = map[string]func(http.ResponseWriter){
	"TypeScript":   foulWith(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`),
	"Python":       foulWith(400, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`),
	"Go":           foulWith(400, "text/plain", "unsupported protocol version"),
	"mcp-go":       foulWith(404, "text/plain", "Invalid session ID"),
	"nothing":      foulWith(405, "", ""),
	"a web server": foulWith(404, "text/html", "<html>not found</html>"),
}

func TestT14_EraAfterADeploy(t *testing.T) {
	for name, foul := range fouls {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := &deployed{modern: true, foul: foul}
			web := httptest.NewServer(s)
			defer web.Close()
			u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{})
			defer u.Close(t.Context())
			n := 0
			want := func(era string) {
				t.Helper()
				n++
				r, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
				if err != nil {
					t.Fatal(err)
				}
				if got, _ := jsonrpc.Text(r.Msg.Raw, r.Msg.ResultMember("era")); got != era {
					t.Fatalf("got %s, want %s", r.Msg.Raw, era)
				}
				if s.calls != n {
					t.Errorf("%d calls were executed, want %d", s.calls, n)
				}
			}
			want("modern")
			for range 2 {
				s.deploy(false)
				want("legacy")
				want("legacy")
				s.deploy(true)
				want("modern")
			}
		})
	}
}

func (s *deployed) deploy(modern bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.modern = modern
}

// TestRefusalOfTheSameEraIsNotSentAgain: a modern server that executes a tool and
// answers as only a legacy one should has executed it once.
func TestRefusalOfTheSameEraIsNotSentAgain(t *testing.T) {
	for name, foul := range fouls {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := &deployed{modern: true, foul: foul}
			s.answer = func(w http.ResponseWriter, m *jsonrpc.Message) bool {
				if m.Method == mcp.MethodCallTool {
					foul(w)
				}
				return m.Method == mcp.MethodCallTool
			}
			web := httptest.NewServer(s)
			defer web.Close()
			u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{})
			defer u.Close(t.Context())
			r, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
			if err == nil && r.Code() == 0 {
				t.Errorf("got %s", r.Msg.Raw)
			}
			if s.calls != 1 {
				t.Errorf("executed %d times", s.calls)
			}
		})
	}
}
