package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// httpClient is a client of a Streamable HTTP endpoint with authentication.
type httpClient struct {
	t    *testing.T
	url  string
	http *http.Client
}

// serveHTTP starts an endpoint and returns a client of this endpoint. A bearer token consists of
// the name of its principal, "/", and any text, so one principal can have several tokens.
func (w *whole) serveHTTP() *httpClient {
	server := streamhttp.NewServer(streamhttp.Options{
		Acceptor: &downstream.Endpoint{Handler: w.host},
		Principal: func(r *http.Request) (*identity.Principal, error) {
			principal, _, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "/")
			if !ok {
				return nil, errors.New("nobody")
			}
			return identity.Named(principal), nil
		},
	})
	web := httptest.NewServer(server)
	client := &http.Client{Transport: &http.Transport{}}
	w.ends = append(w.ends, func() {
		client.CloseIdleConnections()
		_ = server.Close()
		web.Close()
	})
	return &httpClient{w.t, web.URL, client}
}

// send posts a message with a token and additional headers. It returns the status, the message in
// the answer (nil for none), and the response headers.
func (v *httpClient) send(token, body string, header ...string) (int, *jsonrpc.Message, http.Header) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.url, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := v.http.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	m, _ := jsonrpc.Scan(b, jsonrpc.Limits{Bytes: len(b) + 1, Tolerant: true})
	return resp.StatusCode, m, resp.Header
}

// call calls the tool t as a modern client, with additional params.
func (v *httpClient) call(token, more string) *jsonrpc.Message {
	v.t.Helper()
	status, m, _ := v.send(token, modernRequest("1", "tools/call", `"name":"t","arguments":{"n":1}`+more, `{}`),
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "t")
	if m == nil {
		v.t.Fatalf("status %d without a message", status)
	}
	return m
}

// counting returns a legacy server that counts the calls of each session. If the arguments of a
// call ask for it, the server sends a request during this call.
func counting() *testServer {
	s := &testServer{}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodCallTool && !jsonrpc.Find(m.Raw, m.Param("arguments"), "asks").IsZero():
			l.say(`{"jsonrpc":"2.0","id":"q` + string(m.ID) + `",` + elicit + `}`)
		case m.Kind == jsonrpc.Result:
			l.say(`{"jsonrpc":"2.0","id":` + strings.Trim(string(m.ID), `"q`) + `,"result":{"content":[]}}`)
		case m.Method == mcp.MethodCallTool:
			l.answer(m, fmt.Sprintf(`{"content":[],"session":%d,"n":%d}`, l.number, len(l.got(mcp.MethodCallTool))))
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	return s
}

// counts checks that all answers to one client come from the same session. The session counts
// its calls from 1.
type counts struct {
	t       *testing.T
	session string // "" before the first call
	n       int
}

func (c *counts) next(m *jsonrpc.Message) {
	c.t.Helper()
	if m == nil || m.Kind != jsonrpc.Result {
		c.t.Fatalf("the answer has no result: %v", m)
	}
	session, n := string(m.ResultMember("session").Of(m.Raw)), string(m.ResultMember("n").Of(m.Raw))
	if c.n++; c.session == "" {
		c.session = session
	}
	if session != c.session || n != fmt.Sprint(c.n) {
		c.t.Errorf("call %d of session %s reached session %s as its call %s", c.n, c.session, session, n)
	}
}

// TestT4_SessionOfAPrincipal sends two calls of a modern client as independent requests. Both calls
// reach one session of the legacy server, which counts its calls. Another principal gets another
// session.
func TestT4_SessionOfAPrincipal(t *testing.T) {
	s := counting()
	v := build(t, s).serveHTTP()
	anna, bert := &counts{t: t}, &counts{t: t}
	anna.next(v.call("anna/1", ""))
	anna.next(v.call("anna/1", ""))
	bert.next(v.call("bert/1", ""))
	anna.next(v.call("anna/1", ""))
	bert.next(v.call("bert/1", ""))
	if anna.session == bert.session {
		t.Error("two principals share a session")
	}
	// In addition to the sessions of the two principals, Dragoman may open a session to list the
	// tools without a client.
	if n := s.opened(); n > 3 {
		t.Errorf("the server has %d sessions", n)
	}
}

// TestT16_ClientsTokenRotates checks that a client is identified by its principal, not by its
// token. With a new token it keeps its HTTP session and the session at the server. With the new
// token, it can also answer a server request of a call that it started with the old token. Another
// principal cannot do any of this with the same session id.
func TestT16_ClientsTokenRotates(t *testing.T) {
	s := counting()
	v := build(t, s).serveHTTP()
	anna := &counts{t: t}
	for _, token := range []string{"anna/1", "anna/2", "anna/3"} {
		anna.next(v.call(token, ""))
	}
	status, m, header := v.send("anna/3", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`)
	session := header.Get("Mcp-Session-Id")
	if status != 200 || session == "" {
		t.Fatalf("initialize: %d %v", status, m)
	}
	at := []string{"Mcp-Session-Id", session}
	if status, _, _ := v.send("anna/4", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, at...); status != 202 {
		t.Errorf("initialized: %d", status)
	}
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}`
	_, m, _ = v.send("anna/5", call, at...)
	anna.next(m)
	if status, _, _ := v.send("bert/1", call, at...); status != 404 {
		t.Errorf("another principal's use of the session: status %d", status)
	}
	_, m, _ = v.send("anna/6", call, at...)
	anna.next(m)
	// The client answers a server request with a new token.
	ask := func(token, more string) *jsonrpc.Message {
		_, m, _ := v.send(token, modernRequest("1", "tools/call", `"name":"t","arguments":{"asks":1}`+more, canBeAsked),
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "t")
		return m
	}
	retry := retryOf(t, ask("anna/6", ""))
	if m := ask("bert/2", retry); m == nil || !strings.Contains(string(m.Raw), `"code":-32602`) {
		t.Errorf("an answer of another principal: %v", m)
	}
	if m := ask("anna/7", retry); m == nil || m.Kind != jsonrpc.Result {
		t.Errorf("an answer with another token: %v", m)
	}
}

// newAskingServer returns a server of either era whose tool first sends a request to the client.
func newAskingServer(modern bool) *testServer {
	s := &testServer{modern: modern}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodCallTool && modern && m.Param("requestState").IsZero():
			l.answer(m, `{"resultType":"input_required","inputRequests":{"k":{`+elicit+`}},"requestState":"theirs"}`)
		case m.Method == mcp.MethodCallTool && modern:
			l.answer(m, `{"resultType":"complete","content":[],"done":true}`)
		case m.Method == mcp.MethodCallTool:
			l.say(`{"jsonrpc":"2.0","id":"q",` + elicit + `}`)
		case m.Kind == jsonrpc.Result, m.Kind == jsonrpc.Failure:
			calls := l.got(mcp.MethodCallTool)
			l.answer(calls[len(calls)-1], `{"content":[],"done":true}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	return s
}

// calls returns how many calls the server got, in all its sessions.
func (s *testServer) calls(t *testing.T) (n int) {
	for i := range s.opened() {
		n += len(s.link(t, i).got(mcp.MethodCallTool))
	}
	return n
}

const canBeAsked = `{"elicitation":{}}`

// parked calls a tool that first sends a request to the client. It returns the params of a retry
// with the client's response.
func (n *testClient) parked(id, params string) (retry string) {
	n.t.Helper()
	n.say(modernRequest(id, "tools/call", params, canBeAsked))
	return retryOf(n.t, n.answerTo(id))
}

// retryOf returns the params of the client's retry after the answer m. They contain the client's
// response.
func retryOf(t *testing.T, m *jsonrpc.Message) string {
	t.Helper()
	if m == nil || !strings.Contains(string(m.Raw), `"resultType":"input_required"`) {
		t.Fatalf("the client was not asked: %v", m)
	}
	var key string
	for q := range jsonrpc.Members(m.Raw, m.ResultMember("inputRequests")) {
		key = string(q.Key.Of(m.Raw))
	}
	return `,"requestState":` + string(m.ResultMember("requestState").Of(m.Raw)) + `,"inputResponses":{` + key + `:{"action":"accept"}}`
}

// TestT7_StateOfAnotherPrincipal checks two users that share one credential at the server. The
// server cannot tell that B sends the state of A, but Dragoman can. Dragoman refuses the retry,
// logs the principal and the server, and does not send the retry to the server. A can continue.
func TestT7_StateOfAnotherPrincipal(t *testing.T) {
	for era, modern := range map[string]bool{"parked": false, "the_server's_own": true} {
		t.Run(era, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAskingServer(modern)
				w := build(t, s)
				a, b := w.clientOf("anna"), w.clientOf("bert")
				const params = `"name":"t","arguments":{}`
				retry := a.parked("1", params)
				before := s.calls(t)
				b.say(modernRequest("1", "tools/call", params+retry, canBeAsked))
				m := b.answerTo("1")
				b.wants(m, `"code":-32602`)
				if s.calls(t) != before {
					t.Error("the server got the call")
				}
				w.mu.Lock()
				refused := slices.Clone(w.refused)
				w.mu.Unlock()
				if !slices.Equal(refused, []string{"a bert tools/call"}) {
					t.Errorf("the refusals are %q", refused)
				}
				a.say(modernRequest("2", "tools/call", params+retry, canBeAsked))
				a.wants(a.answerTo("2"), `"done":true`)
			})
		})
	}
}

// TestT9_ParametersAlteredOnRetry checks a retry with other parameters than the original call.
// Dragoman refuses the retry, the tool does not run, and the original call can continue.
func TestT9_ParametersAlteredOnRetry(t *testing.T) {
	for era, modern := range map[string]bool{"parked": false, "the_server's_own": true} {
		t.Run(era, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAskingServer(modern)
				w := build(t, s)
				n := w.clientOf("anna")
				const params = `"name":"t","arguments":{"to":"b","n":1}`
				retry := n.parked("1", params)
				before := s.calls(t)
				altered := []string{
					`"name":"u","arguments":{"to":"b","n":1}`, `"name":"t","arguments":{"to":"c","n":1}`, `"name":"t","arguments":{"to":"b","n":1.0}`,
					`"name":"t","arguments":{"to":"b","n":1,"x":null}`, `"name":"t","arguments":{}`, `"name":"t"`, params + `,"other":1`,
				}
				for i, p := range altered {
					id := fmt.Sprint(10 + i)
					n.say(modernRequest(id, "tools/call", p+retry, canBeAsked))
					if m := n.answerTo(id); !strings.Contains(string(m.Raw), `"code":-32602`) {
						t.Errorf("%s: %s", p, m.Raw)
					}
				}
				if now := s.calls(t); now != before {
					t.Errorf("the server was called %d times", now-before)
				}
				if n := len(w.refused); n != len(altered) {
					t.Errorf("%d refusals were published", n)
				}
				n.say(modernRequest("2", "tools/call", `"arguments" : { "n":1, "to":"\u0062"} , "name":"t"`+retry, canBeAsked))
				n.wants(n.answerTo("2"), `"done":true`)
			})
		})
	}
}

// states contains requestState values that servers send, as raw JSON.
var states = map[string]string{
	"empty": `""`, "1_MiB": `"` + strings.Repeat("x", 1<<20) + `"`, "not_ASCII": `"日本 👩‍🚀 \u00e4\/"`, "absent": "",
}

// TestT8_StateIsPlayedBackToTheByte checks that a legacy client never gets the state. A server
// that sent a state gets this state back unchanged. A server that did not send a state gets none.
func TestT8_StateIsPlayedBackToTheByte(t *testing.T) {
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := stateful(state)
				n := build(t, s).legacy(canBeAsked)
				n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
				q := n.request()
				n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`)
				m := n.answerTo("1")
				n.wants(m, `"done":true`)
				if strings.Contains(string(m.Raw), "requestState") {
					t.Errorf("got %.300s", m.Raw)
				}
				s.gotBack(t, state)
			})
		})
	}
}

// TestT8_StateCrossesHTTP checks the state for a modern client over HTTP with bounded bodies. The
// client gets a sealed state. The server gets its own state back unchanged.
func TestT8_StateCrossesHTTP(t *testing.T) {
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			s := stateful(state)
			v := build(t, s).serveHTTP()
			post := func(more string) *jsonrpc.Message {
				t.Helper()
				_, m, _ := v.send("anna/1", modernRequest("1", "tools/call", `"name":"t","arguments":{}`+more, canBeAsked),
					"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "t")
				if m == nil || m.Kind != jsonrpc.Result {
					t.Fatalf("got %v", m)
				}
				return m
			}
			asked := post("")
			sealed := asked.ResultMember("requestState")
			if sealed.IsZero() != (state == "") {
				t.Fatalf("the sealed state is %.60s", sealed.Of(asked.Raw))
			}
			more := `,"inputResponses":{"k":{"action":"accept"}}`
			if state != "" {
				more += `,"requestState":` + string(sealed.Of(asked.Raw))
			}
			if m := post(more); !strings.Contains(string(m.Raw), `"done":true`) {
				t.Errorf("got %.300s", m.Raw)
			}
			s.gotBack(t, state)
		})
	}
}

// stateful returns a modern server that sends one input request, with the given state.
func stateful(state string) *testServer {
	s := &testServer{modern: true}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodCallTool && m.Param("inputResponses").IsZero():
			more := ""
			if state != "" {
				more = `,"requestState":` + state
			}
			l.answer(m, `{"resultType":"input_required","inputRequests":{"k":{`+elicit+`}}`+more+`}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{"resultType":"complete","content":[],"done":true}`)
		}
	}
	return s
}

func (s *testServer) gotBack(t *testing.T, state string) {
	t.Helper()
	calls := s.link(t, 0).got(mcp.MethodCallTool)
	if len(calls) != 2 {
		t.Fatalf("the server was called %d times", len(calls))
	}
	if got := string(calls[1].Param("requestState").Of(calls[1].Raw)); got != state {
		t.Errorf("the server got back %.60s, want %.60s", got, state)
	}
}
