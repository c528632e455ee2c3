package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// The tests in this file record what happens to a request that fails on its way to a server or
// at the server: how often the server gets it, in how many sessions, and which error the client
// gets.

// retryRequests are the requests that the tests send. The second and third are read-only.
var retryRequests = []struct{ method, params string }{
	{mcp.MethodCallTool, `"name":"t","arguments":{}`},
	{mcp.MethodReadResource, `"uri":"x:1"`},
	{mcp.MethodListTools, ``},
	{mcp.MethodGetPrompt, `"name":"p"`},
}

// outcomeText describes how a request ended.
func outcomeText(m *jsonrpc.Message) string {
	if m.Kind == jsonrpc.Result {
		return "result"
	}
	data := jsonrpc.Find(m.Raw, m.Error, "data")
	outcome, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, data, "outcome"))
	s := refusalOf(m)
	if outcome != "" {
		s += " " + outcome
	}
	if string(jsonrpc.Find(m.Raw, data, "retryable").Of(m.Raw)) == "true" {
		s += " retryable"
	}
	return s
}

// faultyPipe is a pipe to a server. The next write of a message with a certain method may fail.
type faultyPipe struct {
	transport.Pipe
	fault func(method string) error
}

func (p *faultyPipe) Send(ctx context.Context, quit <-chan struct{}, b []byte) error {
	m, err := jsonrpc.Scan(b, jsonrpc.Limits{})
	if err == nil {
		if err := p.fault(m.Method); err != nil {
			return err
		}
	}
	return p.Pipe.Send(ctx, quit, b)
}

// pipeFaults are the ways in which a request over a pipe fails.
var pipeFaults = []struct {
	name  string
	write func() error                                 // replaces the result of a write
	serve func(l *testSession, m *jsonrpc.Message)     // replaces the server's answer
	now   func(s *testServer, far func() *testSession) // runs before the request
}{
	{name: "the write fails and no byte has left", write: func() error { return fmt.Errorf("%w: broken", transport.ErrNotSent) }},
	{name: "the write fails and some bytes have left", write: func() error { return errors.New("broken") }},
	{name: "the server ends before the request", now: func(_ *testServer, far func() *testSession) { _ = far().pipe.Close() }},
	{name: "the server ends and cannot be opened again", now: func(s *testServer, far func() *testSession) {
		s.refuseOpens(errors.New("no such server"))
		_ = far().pipe.Close()
	}},
	{name: "the server ends when it has read it", serve: func(l *testSession, _ *jsonrpc.Message) { _ = l.pipe.Close() }},
	{name: "the server never answers", serve: func(*testSession, *jsonrpc.Message) {}},
	{name: "an error of the other era with its versions", serve: func(l *testSession, m *jsonrpc.Message) {
		l.fail(m, mcp.CodeUnsupportedVersion, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`)
	}},
	{name: "an error of the other era without them", serve: func(l *testSession, m *jsonrpc.Message) { l.fail(m, mcp.CodeUnsupportedVersion, ``) }},
	{name: "without them, and the server has changed its era", serve: func(l *testSession, m *jsonrpc.Message) {
		l.server.modern = !l.server.modern
		l.fail(m, mcp.CodeUnsupportedVersion, ``)
	}},
	{name: "with them, and the server has changed its era", serve: func(l *testSession, m *jsonrpc.Message) {
		l.server.modern = !l.server.modern
		l.fail(m, mcp.CodeUnsupportedVersion, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`)
	}},
	{name: "an error of its own", serve: func(l *testSession, m *jsonrpc.Message) { l.fail(m, jsonrpc.CodeInternal, ``) }},
}

// TestRetriesOverPipes records the results for servers on pipes.
func TestRetriesOverPipes(t *testing.T) {
	var out strings.Builder
	out.WriteString("How often the server has got the request, in how many sessions of it, and what the client was told.\n")
	for _, modern := range []bool{false, true} {
		for _, fault := range pipeFaults {
			for _, times := range []int{1, 9} {
				if fault.now != nil && times > 1 {
					continue
				}
				fmt.Fprintf(&out, "\n%s server, %s, %s:\n", eraOf(modern), fault.name, oftenAs(times))
				for _, r := range retryRequests {
					inBubble(t, func(t *testing.T) {
						var mu sync.Mutex
						left := 0
						due := func(method string) bool {
							mu.Lock()
							defer mu.Unlock()
							if method != r.method || left == 0 {
								return false
							}
							left--
							return true
						}
						s := &testServer{modern: modern, caps: `{"tools":{},"prompts":{},"resources":{}}`}
						s.on = func(l *testSession, m *jsonrpc.Message) {
							switch {
							case m.Method == mcp.MethodListen:
								l.acknowledge(m)
							case fault.serve != nil && due(m.Method):
								fault.serve(l, m)
							case m.Kind == jsonrpc.Request:
								l.answer(m, `{"resultType":"complete","content":[],"contents":[],"messages":[],"tools":[]}`)
							}
						}
						s.framing = func() (client, server transport.Pipe) {
							client, server = inmem.Pipe()
							return &faultyPipe{client, func(method string) error {
								if fault.write == nil || !due(method) {
									return nil
								}
								return fault.write()
							}}, server
						}
						w := build(t, s)
						c := w.callerAs("nobody", true, `{}`)
						c.ask(mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`)
						mu.Lock()
						left = times
						mu.Unlock()
						if fault.now != nil {
							fault.now(s, func() *testSession { return s.link(t, 0) })
						}
						answer := outcomeText(c.ask(r.method, r.params))
						got := 0
						for i := range s.opened() {
							got += len(s.link(t, i).got(r.method))
						}
						fmt.Fprintf(&out, "  %s: %d in %d, %s\n", r.method, got, s.opened(), answer)
					})
				}
			}
		}
	}
	golden(t, "retries_pipe.txt", out.String())
}

func oftenAs(times int) string {
	if times == 1 {
		return "once"
	}
	return "always"
}

// httpServer is a server of either era on HTTP. While left is not 0, fault handles the requests of
// one method.
type httpServer struct {
	mu      sync.Mutex
	modern  bool
	method  string // the method to which fault applies
	left    int
	fault   func(s *httpServer, w http.ResponseWriter, m *jsonrpc.Message)
	opened  int
	got     int
	session string        // the session id that the server accepts
	running chan struct{} // gets an element for each call of the tool "slow"
	release chan struct{} // closed when the server may answer these calls; nil if it has no such tool
}

func (s *httpServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if r.Method != http.MethodPost || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	say := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
	}
	if m.Method == s.method {
		s.got++
	}
	name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
	switch {
	case m.Method == s.method && s.left > 0 && name != "slow":
		s.left--
		s.fault(s, w, m)
	case s.modern && m.Method == mcp.MethodDiscover:
		s.opened++
		say(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}},"ttlMs":0,"cacheScope":"private"}`)
	case s.modern && r.Header.Get("Mcp-Protocol-Version") != "2026-07-28":
		httpError(w, 400, m, mcp.CodeUnsupportedVersion, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`)
	case !s.modern && m.Method == mcp.MethodInitialize:
		s.opened++
		s.session = fmt.Sprint(s.opened)
		w.Header().Set("Mcp-Session-Id", s.session)
		say(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"shop","version":"1"}}`)
	case !s.modern && r.Header.Get("Mcp-Session-Id") == "":
		httpError(w, 400, m, -32000, "")
	case !s.modern && r.Header.Get("Mcp-Session-Id") != s.session:
		w.WriteHeader(http.StatusNotFound)
	case m.Kind != jsonrpc.Request:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodListen:
		httpError(w, 404, m, jsonrpc.CodeMethodNotFound, "")
	case name == "slow" && s.release != nil:
		s.mu.Unlock()
		s.running <- struct{}{}
		<-s.release
		s.mu.Lock()
		say(`{"resultType":"complete","content":[],"slow":true}`)
	case s.release != nil:
		const tool = `"inputSchema":{"type":"object"}`
		say(`{"resultType":"complete","content":[],"contents":[],"messages":[],"tools":[{"name":"t",` + tool + `},{"name":"slow",` + tool + `}],` +
			`"prompts":[{"name":"p"}],"resources":[{"uri":"x:1","name":"x"}],"resourceTemplates":[]}`)
	default:
		say(`{"resultType":"complete","content":[],"contents":[],"messages":[],"tools":[]}`)
	}
}

// httpError answers a request with an HTTP status and a JSON-RPC error.
func httpError(w http.ResponseWriter, status int, m *jsonrpc.Message, code int, data string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, failure(m.ID, code, data))
}

func bareStatus(status int) func(*httpServer, http.ResponseWriter, *jsonrpc.Message) {
	return func(_ *httpServer, w http.ResponseWriter, _ *jsonrpc.Message) { w.WriteHeader(status) }
}

func body(contentType, text string) func(*httpServer, http.ResponseWriter, *jsonrpc.Message) {
	return func(_ *httpServer, w http.ResponseWriter, _ *jsonrpc.Message) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
	}
}

// webFaults are the ways in which a POST fails.
var webFaults = []struct {
	name  string
	fault func(s *httpServer, w http.ResponseWriter, m *jsonrpc.Message)
}{
	{"the session is lost", func(s *httpServer, w http.ResponseWriter, _ *jsonrpc.Message) {
		s.session = ""
		w.WriteHeader(http.StatusNotFound)
	}},
	{"404 and the session is known", func(_ *httpServer, w http.ResponseWriter, m *jsonrpc.Message) {
		httpError(w, 404, m, jsonrpc.CodeMethodNotFound, "")
	}},
	{"400", bareStatus(400)},
	{"401", bareStatus(401)},
	{"403", bareStatus(403)},
	{"404", bareStatus(404)},
	{"405", bareStatus(405)},
	{"413", bareStatus(413)},
	{"429", bareStatus(429)},
	{"500", bareStatus(500)},
	{"502", bareStatus(502)},
	{"503", bareStatus(503)},
	{"202", bareStatus(202)},
	{"400 with an error of its own", func(_ *httpServer, w http.ResponseWriter, m *jsonrpc.Message) { httpError(w, 400, m, -32000, "") }},
	{"400 with a header mismatch", func(_ *httpServer, w http.ResponseWriter, m *jsonrpc.Message) {
		httpError(w, 400, m, mcp.CodeHeaderMismatch, "")
	}},
	{"400 with the versions of the other era", func(_ *httpServer, w http.ResponseWriter, m *jsonrpc.Message) {
		httpError(w, 400, m, mcp.CodeUnsupportedVersion, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`)
	}},
	{"the server has changed its era", func(s *httpServer, w http.ResponseWriter, m *jsonrpc.Message) {
		if s.left = 0; s.modern {
			httpError(w, 400, m, -32000, "")
		} else {
			httpError(w, 400, m, mcp.CodeUnsupportedVersion, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`)
		}
		s.modern = !s.modern
	}},
	{"200 with an error of its own", func(_ *httpServer, w http.ResponseWriter, m *jsonrpc.Message) { httpError(w, 200, m, -32000, "") }},
	{"the connection is cut before the answer", func(_ *httpServer, _ http.ResponseWriter, _ *jsonrpc.Message) { panic(http.ErrAbortHandler) }},
	{"the connection is reset", func(_ *httpServer, w http.ResponseWriter, _ *jsonrpc.Message) {
		c, _, _ := w.(http.Hijacker).Hijack()
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}},
	{"the answer is cut", func(_ *httpServer, w http.ResponseWriter, _ *jsonrpc.Message) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"jsonrpc":`)
		panic(http.ErrAbortHandler)
	}},
	{"the answer is not JSON", body("application/json", "<html>")},
	{"the answer is a page", body("text/html", "<html>")},
	{"the stream ends without an answer", body("text/event-stream", ": nothing\n\n")},
}

// TestRetriesOverHTTP records the results for servers on HTTP.
func TestRetriesOverHTTP(t *testing.T) {
	var out strings.Builder
	out.WriteString("How often the server has got the request, in how many sessions or discoveries, and what the client was told.\n")
	for _, modern := range []bool{false, true} {
		for _, fault := range webFaults {
			for _, times := range []int{1, 9} {
				fmt.Fprintf(&out, "\n%s server, %s, %s:\n", eraOf(modern), fault.name, oftenAs(times))
				for _, r := range retryRequests[:2] {
					t.Run(fault.name, func(t *testing.T) {
						s := &httpServer{modern: modern, method: r.method, fault: fault.fault}
						web := httptest.NewServer(s)
						t.Cleanup(web.Close)
						w := build(t, &testServer{url: web.URL})
						c := w.callerAs("nobody", true, `{}`)
						c.ask(mcp.MethodGetPrompt, `"name":"p"`)
						s.mu.Lock()
						s.left, s.got = times, 0
						s.mu.Unlock()
						answer := outcomeText(c.ask(r.method, r.params))
						s.mu.Lock()
						defer s.mu.Unlock()
						fmt.Fprintf(&out, "  %s: %d in %d, %s\n", r.method, s.got, s.opened, answer)
					})
				}
			}
		}
	}
	golden(t, "retries_http.txt", out.String())
}
