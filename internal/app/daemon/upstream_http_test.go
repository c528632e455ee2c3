//go:build unix

package daemon

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// badHTTP is a server of 2026-07-28 that gives bad answers to tool calls.
type badHTTP struct {
	calls  atomic.Int64
	tokens atomic.Int64 // the number of requests that had the client's credentials
}

func (s *badHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(fmt.Sprint(r.Header), "clients-own") {
		s.tokens.Add(1)
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if err != nil || r.Method != "POST" {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
	}
	switch m.Method {
	case mcp.MethodDiscover:
		answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"bad","version":"1"}}`)
	case mcp.MethodListTools:
		answer(`{"resultType":"complete","tools":[]}`)
	case mcp.MethodCallTool:
		s.calls.Add(1)
		name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
		s.tool(w, m, name, answer)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *badHTTP) tool(w http.ResponseWriter, m *jsonrpc.Message, name string, answer func(string)) {
	const done = `{"resultType":"complete","content":[{"type":"text","text":"fine"}]}`
	stream := func(text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	abort := func() { panic(http.ErrAbortHandler) }
	whole := string(jsonrpc.AppendResult(nil, m.ID, []byte(done)))
	switch name {
	case "good":
		answer(done)
	case "html":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><script>alert(1)</script>\x1b[31m")
	case "nothing":
		w.WriteHeader(http.StatusNoContent)
	case "accepted":
		w.WriteHeader(http.StatusAccepted)
	case "other id":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonrpc.AppendResult(nil, "987654", []byte(done)))
	case "array":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "["+whole+"]")
	case "half":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "99999")
		_, _ = io.WriteString(w, whole[:20])
		_ = http.NewResponseController(w).Flush()
		abort()
	case "empty stream":
		stream(": nothing\n\n")
	case "half event":
		stream("data: " + whole[:30])
		abort()
	case "unended event": // no blank line follows, so Dragoman must discard the event (WHATWG HTML §Server-sent events)
		stream("data: " + whole + "\n")
	case "redirect":
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case "loop":
		w.Header().Set("Location", "/mcp")
		w.WriteHeader(http.StatusPermanentRedirect)
	case "bomb":
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.CopyN(z, zeros{}, 1<<20)
		_ = z.Close()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		for range 48 { // RFC 1952, section 2.2: a file may have several members
			_, _ = w.Write(b.Bytes())
		}
	case "endless":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.CopyN(w, zeros{}, 64<<20)
	case "endless line":
		stream("data: ")
		_, _ = io.CopyN(w, zeros{}, 64<<20)
	case "500":
		w.WriteHeader(http.StatusInternalServerError)
	case "stray": // sends a request, an answer with an unknown id, the right answer twice, and progress
		stream(`data: {"jsonrpc":"2.0","id":5,"method":"sampling/createMessage"}` + "\n\n" +
			"data: " + string(jsonrpc.AppendResult(nil, "987654", []byte(`{}`))) + "\n\n" +
			"data: " + whole + "\n\n" + "data: " + whole + "\n\n" + `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":9}}` + "\n\n")
	}
}

type zeros struct{}

var blank = bytes.Repeat([]byte(" "), 32<<10)

func (zeros) Read(b []byte) (int, error) { return copy(b, blank), nil }

// TestE11_BadAnswers checks an HTTP server that answers calls badly, in many ways. The client soon
// gets an error without the server's own text, with the outcome of the call. Dragoman does not send
// the call again, and the next call works.
func TestE11_BadAnswers(t *testing.T) {
	t.Parallel()
	s := &badHTTP{}
	server := httptest.NewServer(s)
	defer server.Close()
	c, problem := config.Complete(config.Server{Name: "bad", URL: server.URL + "/mcp"})
	if problem != nil {
		t.Fatal(problem)
	}
	r := run(t, &upstreamUnderTest{Server: c})
	r.call("/mcp", "good", "{}").wantText(t, "fine")
	for tool, cause := range map[string]string{
		"html": "bad_response", "nothing": "bad_response", "accepted": "bad_response", "other id": "", "array": "",
		"half": "", "empty stream": "cut_off", "half event": "cut_off", "unended event": "cut_off",
		"redirect": "", "loop": "", "bomb": "", "endless": "", "endless line": "", "500": "server_error",
	} {
		t.Run(strings.ReplaceAll(tool, " ", "_"), func(t *testing.T) {
			r.t = t
			before := s.calls.Load()
			start := time.Now()
			a := r.modern("/mcp", "1", "tools/call", tool, `"name":"`+tool+`"`, "Authorization", "Bearer clients-own")
			m := a.message(t)
			if errorCode(m) != -32603 || errorData(m, "outcome") == "" || errorData(m, "outcome") == "not_sent" || errorData(m, "retryable") != "false" {
				t.Errorf("got %d %.400s", a.status, a.body)
			}
			if cause != "" && errorData(m, "cause") != cause {
				t.Errorf("cause %s, want %s", errorData(m, "cause"), cause)
			}
			if took := time.Since(start); took > patience(10*time.Second) {
				t.Errorf("took %v", took)
			}
			if strings.ContainsAny(a.body, "\x1b") || len(a.body) > 2<<10 {
				t.Errorf("the error has the server's own text: %.400q", a.body)
			}
			if n := s.calls.Load() - before; n != 1 && tool != "loop" || tool == "loop" && n > 4 {
				t.Errorf("the server was called %d times", n)
			}
			r.call("/mcp", "good", "{}").wantText(t, "fine")
		})
	}
	r.t = t
	a := r.modern("/mcp", "1", "tools/call", "stray", `"name":"stray"`)
	a.wantText(t, "fine")
	if n := strings.Count(a.body, `"result"`); n != 1 || strings.Contains(a.body, "sampling") || strings.Contains(a.body, "987654") {
		t.Errorf("the client got a foreign message: %s", a.body)
	}
	if n := s.tokens.Load(); n != 0 {
		t.Errorf("the client's credentials reached the server %d times", n)
	}
}

// TestU13_EndlessLine checks a server that writes a line that never ends. The call fails with the
// cause "too_large", and a later call works.
func TestU13_EndlessLine(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy", func(s *config.Server) { s.CallTimeout = 5 * time.Minute }) // a busy machine needs more than one to read the line
	r := run(t, u)
	r.call("/mcp", "echo", "{}").wantText(t, "{}")
	m := r.call("/mcp", "endless", "{}").message(t)
	if errorCode(m) != -32603 || errorData(m, "outcome") != "unknown" || errorData(m, "cause") != "too_large" {
		t.Errorf("got %s", m.Raw)
	}
	await(t, "a good call works again", 30*time.Second, func() bool {
		return toolText(r.call("/mcp", "echo", `{"v":1}`).message(t)) == `{"v":1}`
	})
}
