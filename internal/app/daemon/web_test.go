//go:build unix

package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// webServer is a strict HTTP server of one era. It counts the calls in each session, and keeps its
// requests and a journal of events. Its tools:
//
//	echo   answers with its arguments
//	count  answers with the number of calls so far in this session
//	hang   answers when finish is closed, and ends when it is cancelled
//	work   sends progress and then does the same as hang
//	fail   answers with the error in its arguments
//
// For every resources/read, the answer is the "resource not found" error of the server's era.
type webServer struct {
	modern bool
	finish chan struct{} // nil is never closed
	tools  string        // if not "", the items of tools/list instead of the default
	web    *httptest.Server

	mu       sync.Mutex
	token    string         // the token that requests must have; "" accepts any
	counts   map[string]int // the number of calls in each session, by session id
	opened   int
	journal  []string
	requests []webRequest
	gone     map[string]chan struct{} // by session id and call id; a cancellation of the call closes the channel
}

// webRequest is one request that the server received.
type webRequest struct {
	header http.Header
	m      *jsonrpc.Message
}

// newWeb starts a webServer. It ends with the test.
func newWeb(t testing.TB, modern bool, more ...func(*webServer)) *webServer {
	t.Helper()
	s := &webServer{modern: modern, counts: map[string]int{}, gone: map[string]chan struct{}{}}
	for _, f := range more {
		f(s)
	}
	s.web = httptest.NewServer(s)
	t.Cleanup(s.web.Close)
	return s
}

// as returns the server's entry in a configuration.
func (s *webServer) as(t testing.TB, name string, more ...func(*config.Server)) *upstreamUnderTest {
	t.Helper()
	c := config.Server{Name: name, URL: s.web.URL + "/mcp"}
	for _, f := range more {
		f(&c)
	}
	complete, problem := config.Complete(c)
	if problem != nil {
		t.Fatal(problem)
	}
	return &upstreamUnderTest{Server: complete}
}

func (s *webServer) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal = append(s.journal, fmt.Sprintf(format, args...))
}

// entries returns the journal entries that start with what, without what.
func (s *webServer) entries(what string) (rest []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.journal {
		if line == what || strings.HasPrefix(line, what+" ") {
			rest = append(rest, strings.TrimPrefix(line[len(what):], " "))
		}
	}
	return rest
}

func (s *webServer) count(what string) int { return len(s.entries(what)) }

// of returns all received requests of a method.
func (s *webServer) of(method string) []webRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r webRequest) bool { return r.m.Method != method })
}

// forget drops all sessions, as a restart of the server would.
func (s *webServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
}

// takes sets the token that requests must have from now on; "" accepts any.
func (s *webServer) takes(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

func (s *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	allowed := s.token == "" || r.Header.Get("Authorization") == "Bearer "+s.token
	s.mu.Unlock()
	if !allowed {
		w.Header().Set("Www-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	session := r.Header.Get(mcp.HeaderSession)
	if r.Method == http.MethodDelete {
		s.note("delete %s", session)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if r.Method != http.MethodPost || err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, webRequest{r.Header.Clone(), m})
	_, known := s.counts[session]
	s.mu.Unlock()
	switch {
	case s.modern && r.Header.Get(mcp.HeaderVersion) != modernVersion:
		sayWeb(w, 400, webError(m, -32022, `{"supported":["2026-07-28"],"requested":"x"}`))
	case s.modern || m.Method == mcp.MethodInitialize:
		s.take(w, r, m, session)
	case session == "":
		sayWeb(w, 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	default:
		s.take(w, r, m, session)
	}
}

func (s *webServer) take(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, session string) {
	result := func(text string) {
		if s.modern {
			text = `{"resultType":"complete",` + text[1:]
		}
		sayWeb(w, 200, string(jsonrpc.AppendResult(nil, m.ID, []byte(text))))
	}
	switch m.Method {
	case mcp.MethodDiscover:
		result(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{}},"ttlMs":0,"cacheScope":"private"}`)
	case mcp.MethodInitialize:
		s.mu.Lock()
		s.opened++
		id := fmt.Sprintf("session-%d", s.opened)
		s.counts[id] = 0
		s.mu.Unlock()
		s.note("initialize")
		w.Header().Set(mcp.HeaderSession, id)
		result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"web","version":"1"}}`)
	case mcp.MethodListTools:
		s.note("list")
		tools := s.tools
		if tools == "" {
			tools = `{"name":"echo","inputSchema":{"type":"object"}},{"name":"count","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"work","inputSchema":{"type":"object"}},{"name":"fail","inputSchema":{"type":"object"}}`
		}
		result(`{"ttlMs":0,"cacheScope":"private","tools":[` + tools + `]}`)
	case mcp.MethodCallTool:
		s.call(w, r, m, session, result)
	case mcp.MethodReadResource:
		code := map[bool]int64{true: jsonrpc.CodeInvalidParams, false: mcp.CodeResourceNotFound}[s.modern]
		sayWeb(w, 200, webError(m, code, `{"uri":"x:error"}`))
	case mcp.NoteCancelled:
		id := m.Param("requestId").Of(m.Raw)
		s.note("cancelled %s", id)
		s.mu.Lock()
		if gone := s.gone[session+" "+string(id)]; gone != nil {
			close(gone)
			delete(s.gone, session+" "+string(id))
		}
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
	default:
		if m.Kind != jsonrpc.Request {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		sayWeb(w, map[bool]int{true: 404, false: 200}[s.modern], webError(m, jsonrpc.CodeMethodNotFound, ""))
	}
}

func (s *webServer) call(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, session string, result func(string)) {
	name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
	text := func(t string) {
		result(`{"content":[{"type":"text","text":` + string(jsonrpc.AppendQuote(nil, t)) + `}]}`)
	}
	gone := make(chan struct{})
	s.mu.Lock()
	s.counts[session]++
	n := s.counts[session]
	s.gone[session+" "+string(m.ID)] = gone
	s.mu.Unlock()
	s.note("call %s %s", name, m.ID)
	switch name {
	case "echo":
		text(string(m.Param("arguments").Of(m.Raw)))
	case "fail":
		args := m.Param("arguments")
		code, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, args, "code"))
		status := 200
		if s.modern && mcp.IsModernCode(code) {
			status = 400
		}
		sayWeb(w, status, webError(m, code, string(jsonrpc.Find(m.Raw, args, "data").Of(m.Raw))))
	case "count":
		text(fmt.Sprint(n))
	case "hang", "work":
		if name == "work" {
			token := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: %s\n\n", jsonrpc.AppendNotification(nil, mcp.NoteProgress, []byte(`{"progressToken":`+string(token)+`,"progress":1}`)))
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-gone: // 2025-11-25 §Cancellation
		case <-r.Context().Done(): // 2026-07-28 §Streamable HTTP, "Cancellation"
			s.note("closed %s", m.ID)
		case <-s.finish:
			text("finished")
		}
	default:
		sayWeb(w, 200, webError(m, jsonrpc.CodeInvalidParams, ""))
	}
}

func webError(m *jsonrpc.Message, code int64, data string) string {
	return string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: "m", Data: []byte(data)}))
}

func sayWeb(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
