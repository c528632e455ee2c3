package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// deployed is an HTTP server whose era can change.
type deployed struct {
	mu     sync.Mutex
	modern bool
	answer func(w http.ResponseWriter, m *jsonrpc.Message) bool // answers a call and returns true, or returns false to get the default answer; may be nil
	foul   func(w http.ResponseWriter)                          // answers modern requests while the server is legacy
	hold   func(m *jsonrpc.Message)                             // called before each answer and may block it; may be nil
	opened int
	calls  int // number of calls that were executed
}

func (s *deployed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if r.Method != http.MethodPost || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	modern := s.modern
	if s.hold != nil {
		s.mu.Unlock()
		s.hold(m)
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	version := r.Header.Get("Mcp-Protocol-Version")
	switch {
	case modern && version != mcp.R20260728.String():
		say(w, 400, `{"jsonrpc":"2.0","id":`+idOf(m)+`,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"x"}}}`)
	case modern && m.Method == mcp.MethodDiscover:
		say(w, 200, string(ok(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)))
	case modern:
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

func badAnswer(status int, contentType, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// badAnswers contains known answers of legacy servers to a modern request.
var badAnswers = map[string]func(http.ResponseWriter){
	"TypeScript":   badAnswer(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`),
	"Python":       badAnswer(400, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`),
	"Go":           badAnswer(400, "text/plain", "unsupported protocol version"),
	"mcp-go":       badAnswer(404, "text/plain", "Invalid session ID"),
	"nothing":      badAnswer(405, "", ""),
	"a web server": badAnswer(404, "text/html", "<html>not found</html>"),
}

func TestT14_EraAfterADeploy(t *testing.T) {
	for name, foul := range badAnswers {
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

// TestRefusalOfTheSameEraIsNotSentAgain checks a modern server that executes a tool, and then
// sends an answer that is typical of legacy servers. Dragoman does not send the call again.
func TestRefusalOfTheSameEraIsNotSentAgain(t *testing.T) {
	for name, foul := range badAnswers {
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
				t.Errorf("the call was executed %d times", s.calls)
			}
		})
	}
}

// TestT14_EraAfterADeployOnStdio replaces the program behind a pipe with a program of the other era
// and back, between calls and during a call. Dragoman detects the era of the new process. No call
// runs twice, because an interrupted call is never retried.
func TestT14_EraAfterADeployOnStdio(t *testing.T) {
	for name, client := range map[string]*mcp.ClientInfo{"modern_client": modernClient, "legacy_client": legacyClient} {
		t.Run(name, func(t *testing.T) {
			h := &program{legacy: true}
			bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
				release := make(chan struct{})
				defer close(release)
				calls := 0
				works := func(modern bool) {
					t.Helper()
					calls++
					if _, err := call(t, u, client, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
						t.Fatal(err)
					}
					if got := u.Status().Revision.Modern(); got != modern {
						t.Errorf("after call %d, modern is %t", calls, got)
					}
					if n := h.count(mcp.MethodCallTool); n != calls {
						t.Errorf("%d calls ran, want %d", n, calls)
					}
				}
				deploy := func(modern bool) {
					h.modern, h.legacy = modern, !modern
					all := h.all()
					_ = all[len(all)-1].pipe.Close()
					synctest.Wait()
				}
				works(false)
				for range 3 {
					deploy(true)
					works(true)
					works(true)
					deploy(false)
					works(false)
				}
				// Replace the program during a call.
				for _, modern := range []bool{true, false} {
					h.on = held(release)
					cut := make(chan error, 1)
					go func() {
						_, err := call(t, u, client, mcp.MethodCallTool, `{"name":"t"}`)
						cut <- err
					}()
					calls++
					synctest.Wait()
					h.on = nil
					deploy(modern)
					var e *mcp.Error
					if err := <-cut; !errors.As(err, &e) || e.Outcome != mcp.OutcomeUnknown {
						t.Errorf("the interrupted call: %v", err)
					}
					works(modern)
				}
			})
		})
	}
}

// probed is an HTTP server with sessions. It is legacy unless modern is set. The function probe
// answers the probes.
type probed struct {
	probe func(w http.ResponseWriter, m *jsonrpc.Message)

	mu      sync.Mutex
	down    func(w http.ResponseWriter) // if not nil, answers every request
	modern  bool
	session int
	probes  int
}

func (s *probed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if r.Method != http.MethodPost || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method == mcp.MethodDiscover {
		s.probes++
	}
	switch {
	case s.down != nil:
		s.down(w)
	case m.Method == mcp.MethodDiscover && s.modern:
		say(w, 200, string(ok(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)))
	case m.Method == mcp.MethodDiscover:
		s.probe(w, m)
	case s.modern:
		say(w, 200, string(ok(m, `{"resultType":"complete","content":[]}`)))
	case m.Method == mcp.MethodInitialize:
		s.session++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(s.session))
		say(w, 200, string(ok(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1"}}`)))
	case m.Kind != jsonrpc.Request:
		w.WriteHeader(http.StatusAccepted)
	case r.Header.Get("Mcp-Session-Id") != fmt.Sprint(s.session):
		w.WriteHeader(http.StatusNotFound)
	default:
		say(w, 200, string(ok(m, `{"content":[]}`)))
	}
}

// change calls f, which may modify the server, and returns the number of probes so far.
func (s *probed) change(f func()) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	return s.probes
}

// TestT13_OverHTTP checks a legacy server that answers the probe in one of the ways known from
// existing servers. Dragoman opens the server with initialize. After the session is lost, Dragoman
// probes the server again only if the first answer did not show the era.
func TestT13_OverHTTP(t *testing.T) {
	refusal := func(status int, code int64) func(http.ResponseWriter, *jsonrpc.Message) {
		return func(w http.ResponseWriter, m *jsonrpc.Message) {
			say(w, status, string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: "m"})))
		}
	}
	page := func(status int) func(http.ResponseWriter, *jsonrpc.Message) {
		return func(w http.ResponseWriter, _ *jsonrpc.Message) { badAnswer(status, "text/html", "<html>no</html>")(w) }
	}
	for name, x := range map[string]struct {
		probe  func(http.ResponseWriter, *jsonrpc.Message)
		forget bool // Dragoman must not remember the era
	}{
		"-32601 at 200": {refusal(200, -32601), false},
		"-32601 at 400": {refusal(400, -32601), false},
		"-32601 at 404": {refusal(404, -32601), false},
		"-32602 at 200": {refusal(200, -32602), false},
		"-32602 at 400": {refusal(400, -32602), false},
		"-32000 at 200": {refusal(200, -32000), false},
		"-32000 at 400": {refusal(400, -32000), false},
		"-32000 at 400 of no request": {func(w http.ResponseWriter, _ *jsonrpc.Message) {
			say(w, 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`)
		}, false},
		"405":      {page(405), false},
		"HTML 404": {page(404), false},
		"versions without a modern one": {func(w http.ResponseWriter, m *jsonrpc.Message) {
			say(w, 200, string(ok(m, `{"supportedVersions":["2025-11-25","2025-06-18"],"capabilities":{}}`)))
		}, false},
		"408":                 {page(408), true},
		"500":                 {page(500), true},
		"-32603 at 500":       {refusal(500, -32603), true},
		"a broken connection": {func(http.ResponseWriter, *jsonrpc.Message) { panic(http.ErrAbortHandler) }, true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := &probed{probe: x.probe}
			web := httptest.NewServer(s)
			defer web.Close()
			u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{})
			defer u.Close(t.Context())
			works := func() {
				t.Helper()
				if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Fatal(err)
				}
				if r := u.Status().Revision; !r.Legacy() {
					t.Errorf("the era is %s", r)
				}
			}
			works()
			before := s.change(func() { s.session++ })
			works()
			if after := s.change(func() {}); (after > before) != x.forget || before == 0 {
				t.Errorf("the server was probed %d times at first, and %d times in all", before, after)
			}
		})
	}
}

// TestT13_InconclusiveIsForgotten checks a server that requires credentials or is down, so that
// its era remains unknown. When the server becomes available, Dragoman probes it.
func TestT13_InconclusiveIsForgotten(t *testing.T) {
	for _, status := range []int{401, 403, 407, 429, 502, 503, 504} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d_then_modern_%t", status, modern), func(t *testing.T) {
				s := &probed{modern: modern, down: func(w http.ResponseWriter) { w.WriteHeader(status) }}
				s.probe = func(w http.ResponseWriter, m *jsonrpc.Message) { badAnswer(404, "text/html", "no")(w) }
				web := httptest.NewServer(s)
				defer web.Close()
				u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{})
				defer u.Close(t.Context())
				_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
				var e *mcp.Error
				if !errors.As(err, &e) || e.Outcome != mcp.NotSent {
					t.Errorf("got %v", err)
				}
				u.update(func(st *state) {
					if st.dial.era != mcp.Unknown {
						t.Errorf("the remembered era is %s", st.dial.era)
					}
					st.health.notBefore = time.Time{} // skips the back-off
				})
				before := s.change(func() { s.down = nil })
				if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Fatal(err)
				}
				if got := u.Status().Revision; got.Modern() != modern || s.change(func() {}) == before {
					t.Errorf("the era is %s", got)
				}
			})
		}
	}
}

// TestT13_SilenceProvesNothing checks a server on stdio that does not answer the probe. Dragoman
// sends initialize after 3 s. It remembers the timeout, so it opens the second process without
// this delay. It does not remember the era, so it detects that the third process is modern.
func TestT13_SilenceProvesNothing(t *testing.T) {
	h := &program{legacy: true}
	mute := true
	h.on = func(_ *process, m *jsonrpc.Message) []byte {
		if m.Method == mcp.MethodDiscover && mute {
			return silent
		}
		return nil
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		for n, want := range []time.Duration{3 * time.Second, 0, 0} {
			modern := n == 2
			if modern {
				h.modern, h.legacy, mute = true, false, false
			}
			start := time.Now()
			if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
			if took, got := time.Since(start), u.Status().Revision; took != want || got.Modern() != modern {
				t.Errorf("process %d: opened after %v, the era is %s", n, took, got)
			}
			if era := get(u.core, func(st *state) mcp.Revision { return st.dial.era }); n == 0 && era != mcp.Unknown {
				t.Errorf("process %d: the remembered era is %s", n, era)
			}
			_ = h.all()[n].pipe.Close()
			synctest.Wait()
		}
	})
}
