package runtime

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// teller is a Handler that answers each call with the name of its caller.
type teller struct{ host }

func (h *teller) Call(_ context.Context, c *mcp.Call, _ mcp.Caller) (*mcp.Reply, error) {
	h.note()
	return mcp.Answer([]byte(`{"content":[{"type":"text","text":"for ` + c.Client.Who.Key() + `"}]}`)), nil
}

// withKey is a Principal function: the header X-Who names the caller, and nobody comes in without it.
func withKey(r *http.Request) (*identity.Principal, error) {
	if who := identity.Named(r.Header.Get("X-Who")); who != nil {
		return who, nil
	}
	return nil, &httpdoor.Denied{Challenge: `Bearer realm="dragoman"`, Reason: "send a key"}
}

// anybody is a Reach function: who is known may use everything.
func anybody(who *identity.Principal, _ string) (catalog.Filter, bool) { return nil, who != nil }

// site sends HTTP requests to endpoints.
type site struct {
	t    *testing.T
	base string
	http *http.Client
}

// serveSite serves h until the test ends.
func serveSite(t *testing.T, h http.Handler) *site {
	web := httptest.NewServer(h)
	s := &site{t, web.URL, &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		web.Close()
	})
	return s
}

// open sends a request; header alternates names and values. The caller closes the body.
func (s *site) open(method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// ask sends a request and returns the whole answer.
func (s *site) ask(method, path, body string, header ...string) (int, http.Header, string) {
	s.t.Helper()
	resp := s.open(method, path, body, header...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// wants checks the status of an answer, and that its body contains text.
func (s *site) wants(status int, text string, method, path, body string, header ...string) http.Header {
	s.t.Helper()
	got, h, b := s.ask(method, path, body, header...)
	if got != status || !strings.Contains(b, text) {
		s.t.Errorf("%s %s %v: %d %s, want %d with %q", method, path, header, got, b, status, text)
	}
	return h
}

const (
	helloBody  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	callBody   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"star","arguments":{}}}`
	modernBody = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"star","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
)

// modern returns header and what a modern call needs beside it.
func modern(header ...string) []string {
	return append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "star"}, header...)
}

// stream is an open HTTP+SSE stream.
type stream struct {
	site   *site
	body   io.Closer
	events *eventstream.Reader
	post   string // the path for messages
}

// stream opens a stream.
func (s *site) stream(path string, header ...string) *stream {
	s.t.Helper()
	resp := s.open(http.MethodGet, path, "", header...)
	st := &stream{site: s, body: resp.Body, events: eventstream.NewReader(resp.Body, eventstream.Limits{Bytes: 1 << 20})}
	st.post = st.next()
	return st
}

func (st *stream) next() string {
	st.site.t.Helper()
	e, err := st.events.Next()
	if err != nil {
		st.site.t.Fatal(err)
	}
	return string(e.Data)
}

// TestPrincipalAndPlacesReachBothDoors lets ann and bob use one endpoint, in both eras and over both
// transports. Each call is its caller's, nobody uses another one's session, a stranger gets nothing,
// and an id of another process is not found. Whatever bob does, ann goes on.
func TestPrincipalAndPlacesReachBothDoors(t *testing.T) {
	h := &teller{}
	e := NewEndpoint("", &downstream.Endpoint{Handler: h}, EndpointOptions{Principal: withKey, Places: pipetest.Here{}})
	mux := http.NewServeMux()
	e.Mount(mux, "")
	s := serveSite(t, mux)
	defer e.close(errServerRemoved)

	ann, bob := []string{"X-Who", "ann"}, []string{"X-Who", "bob"}
	session := func(who ...string) []string {
		id := s.wants(200, `"result"`, "POST", "/mcp", helloBody, who...).Get("Mcp-Session-Id")
		if !strings.HasPrefix(id, "here-") {
			t.Errorf("the session id %q has no mark", id)
		}
		return []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	}
	hers := session(ann...)
	session(bob...)
	st := s.stream("/sse", ann...)
	defer st.body.Close()
	if !strings.Contains(st.post, "sessionId=here-") {
		t.Errorf("the stream's path %q has no mark", st.post)
	}
	annGoesOn := func() {
		t.Helper()
		s.wants(200, "for ann", "POST", "/mcp", callBody, append(hers, ann...)...)
		s.wants(200, "for ann", "POST", "/mcp", modernBody, modern(ann...)...)
		s.wants(202, "", "POST", st.post, callBody, ann...)
		if got := st.next(); !strings.Contains(got, "for ann") {
			t.Errorf("the stream says %s", got)
		}
	}
	annGoesOn()
	s.wants(200, "for bob", "POST", "/mcp", modernBody, modern(bob...)...)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		s.wants(404, "session not found", method, "/mcp", callBody, append(hers, bob...)...)
	}
	s.wants(404, "session not found", "POST", st.post, callBody, bob...)
	annGoesOn()
	calls := h.calls.Load()
	for _, x := range []struct{ method, path, body string }{{"POST", "/mcp", helloBody}, {"POST", "/mcp", modernBody}, {"GET", "/mcp", ""}, {"DELETE", "/mcp", ""}, {"GET", "/sse", ""}, {"POST", st.post, callBody}} {
		s.wants(401, "send a key", x.method, x.path, x.body)
		s.wants(401, "send a key", x.method, x.path, x.body, modern(hers...)...)
	}
	if n := h.calls.Load(); n != calls {
		t.Errorf("a stranger's request reached the handler: %d, %d before", n, calls)
	}
	annGoesOn()
	elsewhere := append([]string{"Mcp-Session-Id", strings.Replace(hers[1], "here-", "there-", 1), "MCP-Protocol-Version", "2025-11-25"}, ann...)
	s.wants(404, "session not found", "POST", "/mcp", callBody, elsewhere...)
	s.wants(404, "session not found", "POST", strings.Replace(st.post, "here-", "there-", 1), callBody, ann...)
	annGoesOn()
}

// TestEndpointWithoutPrincipal checks that an endpoint which names no Principal lets nobody in.
func TestEndpointWithoutPrincipal(t *testing.T) {
	h := &teller{}
	e := NewEndpoint("", &downstream.Endpoint{Handler: h}, EndpointOptions{})
	mux := http.NewServeMux()
	e.Mount(mux, "")
	s := serveSite(t, mux)
	defer e.close(errServerRemoved)
	s.wants(401, "not authorized", "POST", "/mcp", helloBody)
	s.wants(401, "not authorized", "POST", "/mcp", modernBody, modern()...)
	s.wants(401, "not authorized", "GET", "/sse", "")
	if h.calls.Load() != 0 {
		t.Error("a request reached the handler")
	}
}
