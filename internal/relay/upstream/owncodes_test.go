package upstream

import (
	"fmt"
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

// ownErrors are errors that a server uses for its own purposes, and that look like refusals by
// a server of the other era. JSON-RPC leaves the codes from -32000 to -32099 to the server.
var ownErrors = map[string]string{
	"-32020":               `{"code":-32020,"message":"quota exceeded"}`,
	"-32022":               `{"code":-32022,"message":"unsupported version of the document"}`,
	"-32022 with its data": `{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"x"}}`,
}

// odd returns the answers of a process. A call of the tool "odd" gets the error in code. A call of
// any other tool gets its answer after release is closed.
func odd(release <-chan struct{}, code string) func(*process, *jsonrpc.Message) []byte {
	return func(l *process, m *jsonrpc.Message) []byte {
		if m.Method != mcp.MethodCallTool {
			return nil
		}
		if name, _ := jsonrpc.Text(m.Raw, m.Param("name")); name == "odd" {
			return []byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":` + code + `}`)
		}
		return held(release)(l, m)
	}
}

// TestOwnErrorCodesEndNoSession checks a tool of a legacy server that answers with an error code
// of its own. The caller gets this error. The call of another client on the same session
// continues, and the server stays ready. If the server often answers in this way, Dragoman checks
// its era only from time to time.
func TestOwnErrorCodesEndNoSession(t *testing.T) {
	for name, code := range ownErrors {
		for _, dual := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_dual_%t", strings.ReplaceAll(name, " ", "_"), dual), func(t *testing.T) {
				h := &program{legacy: true, modern: dual}
				one, other := info(mcp.R20251125, "", canElicit, 1), info(mcp.R20251125, "", canElicit, 1)
				if !dual {
					one, other = legacyClient, modernClient
				}
				bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
					release := make(chan struct{})
					h.on = odd(release, code)
					var wait sync.WaitGroup
					wait.Go(func() {
						if r, err := call(t, u, other, mcp.MethodCallTool, `{"name":"slow"}`); err != nil || r.Code() != 0 {
							t.Errorf("the call of the other client: %v", err)
						}
					})
					synctest.Wait()
					ask := func() {
						t.Helper()
						r, err := call(t, u, one, mcp.MethodCallTool, `{"name":"odd"}`)
						if err != nil || !strings.Contains(string(r.Msg.Raw), `"error":`+code) {
							t.Fatalf("got %v", err)
						}
					}
					ask()
					synctest.Wait()
					if s := u.Status(); s.State != Ready || s.Sessions != 1 || s.Running != 1 || !s.Revision.Legacy() {
						t.Errorf("the server is %+v", s)
					}
					if n := len(h.all()); n != 2 {
						t.Errorf("there are %d processes after one era check", n)
					}
					for range 20 {
						ask()
					}
					if n := len(h.all()); n != 2 {
						t.Errorf("there are %d processes after 20 more such answers", n)
					}
					close(release)
					wait.Wait()
					for range 60 {
						time.Sleep(time.Minute)
						ask()
					}
					if n := len(h.all()); n > 2+12 {
						t.Errorf("there are %d processes after an hour of such answers", n)
					}
					if n := h.count(mcp.MethodCallTool); n != 82 {
						t.Errorf("%d calls were executed, want 82", n)
					}
					if n := h.alive(); n != 1 {
						t.Errorf("%d processes are left", n)
					}
					if r := u.Report(); r.Restarts != 0 || r.Fault.Text != "" {
						t.Errorf("the report says %d restarts and the fault %q", r.Restarts, r.Fault.Text)
					}
				})
			})
		}
	}
}

// TestOwnErrorCodesEndNoSessionOverHTTP checks the same over HTTP for both eras. The errors
// include those with which a server of the other era refuses requests.
func TestOwnErrorCodesEndNoSessionOverHTTP(t *testing.T) {
	type answer struct {
		modern bool
		say    func(w http.ResponseWriter, m *jsonrpc.Message)
	}
	answers := map[string]answer{}
	for name, code := range ownErrors {
		for _, status := range []int{200, 400} {
			answers[fmt.Sprintf("legacy %d %s", status, name)] = answer{false, func(w http.ResponseWriter, m *jsonrpc.Message) {
				say(w, status, `{"jsonrpc":"2.0","id":`+idOf(m)+`,"error":`+code+`}`)
			}}
		}
	}
	for name, foul := range badAnswers {
		answers["modern "+name] = answer{true, func(w http.ResponseWriter, _ *jsonrpc.Message) { foul(w) }}
	}
	for name, a := range answers {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			release, arrived := make(chan struct{}), make(chan struct{})
			s := &deployed{modern: a.modern, foul: badAnswers["Go"], hold: func(m *jsonrpc.Message) {
				if strings.Contains(string(m.Raw), `"slow"`) {
					close(arrived)
					<-release
				}
			}}
			s.answer = func(w http.ResponseWriter, m *jsonrpc.Message) bool {
				if strings.Contains(string(m.Raw), `"odd"`) {
					a.say(w, m)
					return true
				}
				return false
			}
			web := httptest.NewServer(s)
			defer web.Close()
			u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{})
			defer u.Close(t.Context())
			var wait sync.WaitGroup
			defer wait.Wait()
			wait.Go(func() {
				if r, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"slow"}`); err != nil || r.Code() != 0 {
					t.Errorf("the call of the other client: %v", err)
				}
			})
			defer close(release)
			<-arrived
			for range 20 {
				r, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"odd"}`)
				if err == nil && r.Code() == 0 {
					t.Fatal("the error did not arrive")
				}
			}
			if s := u.Status(); s.State != Ready || s.Sessions != 1 || s.Running != 1 || s.Revision.Modern() != a.modern {
				t.Errorf("the server is %+v", s)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.calls != 20 || s.opened > 2 {
				t.Errorf("%d calls were executed, and %d sessions opened", s.calls, s.opened)
			}
		})
	}
}

// TestT14_RunningCallsSurviveTheDeploy replaces a server with a server of the other era while a
// call runs. Dragoman converts and retries the next call. The first call still gets its answer.
func TestT14_RunningCallsSurviveTheDeploy(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("from_modern_%t", modern), func(t *testing.T) {
			release, arrived := make(chan struct{}), make(chan struct{})
			s := &deployed{modern: modern, foul: badAnswers["Go"], hold: func(m *jsonrpc.Message) {
				if strings.Contains(string(m.Raw), `"slow"`) {
					close(arrived)
					<-release
				}
			}}
			s.answer = func(w http.ResponseWriter, m *jsonrpc.Message) bool {
				if strings.Contains(string(m.Raw), `"slow"`) {
					say(w, 200, string(ok(m, `{"resultType":"complete","content":[]}`)))
					return true
				}
				return false
			}
			web := httptest.NewServer(s)
			defer web.Close()
			u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{})
			defer u.Close(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"slow"}`)
				done <- err
			}()
			<-arrived
			s.deploy(!modern)
			for range 2 {
				if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Fatal(err)
				}
			}
			if st := u.Status(); st.State != Ready || st.Running != 1 || st.Revision.Modern() == modern {
				t.Errorf("the server is %+v", st)
			}
			close(release)
			if err := <-done; err != nil {
				t.Errorf("the call that ran during the change: %v", err)
			}
			if s.calls != 3 {
				t.Errorf("%d calls were executed, want 3", s.calls)
			}
			if u.Report().Restarts != 1 {
				t.Errorf("the server was restarted %d times", u.Report().Restarts)
			}
		})
	}
}
