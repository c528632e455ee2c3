//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// canElicit returns a modern request whose client declares elicitation.
func canElicit(body string) string {
	return strings.Replace(body, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
}

// inputRequestOf returns the state and the key of the only input request of an input_required
// result.
func inputRequestOf(t testing.TB, m *jsonrpc.Message) (state, key string) {
	t.Helper()
	state = string(m.ResultMember("requestState").Of(m.Raw))
	for q := range jsonrpc.Members(m.Raw, m.ResultMember("inputRequests")) {
		key = string(q.Key.Of(m.Raw))
	}
	if state == "" || key == "" {
		t.Fatalf("no request for input: %s", m.Raw)
	}
	return state, key
}

// retryOf returns the parameters of the retry that carries the response.
func retryOf(params, state, key, content string) string {
	return params + `,"requestState":` + state + `,"inputResponses":{` + key + `:{"action":"accept","content":` + content + `}}`
}

// once fails the test unless the server has run the tool exactly once.
func (u *upstreamUnderTest) once(t testing.TB, tool string) {
	t.Helper()
	if n := u.count("call " + tool); n != 1 {
		t.Errorf("%s ran %d times", tool, n)
	}
}

// TestT5_AnotherIDAnswersTheCall checks a legacy server that sends a request during a call. A
// modern client answers the request with a retry, which has another id. The tool runs once, and
// the retry gets the result of the call. A second retry with the same state does not run the tool
// again.
func TestT5_AnotherIDAnswersTheCall(t *testing.T) {
	t.Parallel()
	const params = `"name":"ask","arguments":{"v":1}`
	t.Run("http", func(t *testing.T) {
		u := child(t, "child", "legacy")
		r := run(t, u)
		send := func(id, params string) *jsonrpc.Message {
			return r.post("/mcp", canElicit(modernBody(id, "tools/call", params)), modernHeader("tools/call", "ask")...).message(t)
		}
		state, key := inputRequestOf(t, send(`"first"`, params))
		m := send("77", retryOf(params, state, key, `{"who":"me"}`))
		if m.ID != "77" || toolText(m) != `{"v":1} {"who":"me"}` {
			t.Errorf("the retry: %s", m.Raw)
		}
		if m := send("78", retryOf(params, state, key, `{"who":"me"}`)); errorCode(m) != -32602 || errorData(m, "outcome") != "unknown" {
			t.Errorf("the second retry: %s", m.Raw)
		}
		u.once(t, "ask")
	})
	t.Run("stdio", func(t *testing.T) {
		u := child(t, "child", "legacy")
		p := runPipe(t, u)
		p.send(canElicit(modernBody("1", "tools/call", params)))
		state, key := inputRequestOf(t, p.answerTo("1"))
		p.send(canElicit(modernBody(`"1"`, "tools/call", retryOf(params, state, key, `{"who":"me"}`))))
		if m := p.answerTo(`"1"`); toolText(m) != `{"v":1} {"who":"me"}` {
			t.Errorf("the retry: %s", m.Raw)
		}
		u.once(t, "ask")
	})
}

// TestT6_OneChildAsksSeveralClients runs calls of clients of both eras at the same time on one
// stdio server. During the calls, the server sends requests without saying to which call they
// belong. All clients get their request before the first client answers, and the clients answer
// in another order.
func TestT6_OneChildAsksSeveralClients(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	r := run(t, u)
	who := func(i int) string { return fmt.Sprintf(`{"who":%d}`, i) }
	params := func(i int) string { return `"name":"ask","arguments":` + who(i) }
	var streams []*stream
	var sessions []string
	var questions []*jsonrpc.Message
	for i := range 2 {
		sessions = append(sessions, r.initialize("/mcp", "2025-11-25", `{"elicitation":{}}`))
		streams = append(streams, r.open("POST", "/mcp", toolCall("1", "ask", who(i)), "Mcp-Session-Id", sessions[i]))
		questions = append(questions, streams[i].event())
	}
	var states, keys []string
	for i := 2; i < 4; i++ {
		m := r.post("/mcp", canElicit(modernBody("1", "tools/call", params(i))), modernHeader("tools/call", "ask")...).message(t)
		state, key := inputRequestOf(t, m)
		if !strings.Contains(string(m.Raw), string(jsonrpc.AppendQuote(nil, who(i)))) {
			t.Errorf("client %d is asked %s", i, m.Raw)
		}
		states, keys = append(states, state), append(keys, key)
	}
	for i := 3; i >= 2; i-- {
		body := canElicit(modernBody("1", "tools/call", retryOf(params(i), states[i-2], keys[i-2], who(10+i))))
		r.post("/mcp", body, modernHeader("tools/call", "ask")...).wantText(t, who(i)+" "+who(10+i))
	}
	for i := 1; i >= 0; i-- {
		q := questions[i]
		if q == nil || q.Kind != jsonrpc.Request {
			t.Fatalf("client %d: %v instead of a request", i, q)
		}
		if text, _ := jsonrpc.Text(q.Raw, q.Param("message")); text != who(i) {
			t.Errorf("client %d is asked %s", i, text)
		}
		r.post("/mcp", `{"jsonrpc":"2.0","id":`+string(q.ID)+`,"result":{"action":"accept","content":`+who(10+i)+`}}`, "Mcp-Session-Id", sessions[i])
		if m := streams[i].event(); m == nil || toolText(m) != who(i)+" "+who(10+i) {
			t.Errorf("client %d: got %v", i, m)
		}
	}
	if n := u.count("call ask"); n != 4 {
		t.Errorf("the tool ran %d times", n)
	}
}

// TestT11_RestartWhileACallIsParked restarts Dragoman while a call is parked, so Dragoman does
// not know the call when the client sends its response. Dragoman tells the client that the server
// may have executed the call, and does not execute it again.
func TestT11_RestartWhileACallIsParked(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	r := run(t, u)
	const params = `"name":"ask","arguments":{}`
	state, key := inputRequestOf(t, r.post("/mcp", canElicit(modernBody("1", "tools/call", params)), modernHeader("tools/call", "ask")...).message(t))
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	u.wantGone(t)
	r = run(t, u)
	m := r.post("/mcp", canElicit(modernBody("2", "tools/call", retryOf(params, state, key, `{}`))), modernHeader("tools/call", "ask")...).message(t)
	if errorCode(m) != -32602 || errorData(m, "outcome") != "unknown" || errorData(m, "retryable") != "false" || !strings.Contains(string(m.Raw), "may have executed the call") {
		t.Errorf("the retry: %s", m.Raw)
	}
	r.call("/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
	u.once(t, "ask")
}

// hangUp sends a request, calls the function when, and then closes the connection. It does not wait
// for any part of the answer.
func (r *rig) hangUp(body string, header []string, when func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		resp, err := r.request(ctx, "POST", "/mcp", strings.NewReader(body), header...)
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	when()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		r.t.Errorf("the request ended with %v", err)
	}
}

// TestT12_HangUp checks a modern client that closes its connection before the response headers,
// or within an event stream. The server gets a cancellation in the form of its era, with the id
// that the call has on this server. The server then serves the next call.
func TestT12_HangUp(t *testing.T) {
	t.Parallel()
	type journal interface{ entries(what string) []string }
	for server, make := range map[string]func(t *testing.T) (*upstreamUnderTest, journal, string){
		"legacy_pipe": func(t *testing.T) (*upstreamUnderTest, journal, string) {
			u := child(t, "child", "legacy")
			return u, u, "cancelled"
		},
		"modern_pipe": func(t *testing.T) (*upstreamUnderTest, journal, string) {
			u := child(t, "child", "modern")
			return u, u, "cancelled"
		},
		"legacy_web": func(t *testing.T) (*upstreamUnderTest, journal, string) {
			s := newWeb(t, false)
			return s.as(t, "web"), s, "cancelled"
		},
		"modern_web": func(t *testing.T) (*upstreamUnderTest, journal, string) {
			s := newWeb(t, true)
			return s.as(t, "web"), s, "closed"
		},
	} {
		for tool, what := range map[string]string{"hang": "before_headers", "work": "in_the_stream"} {
			t.Run(server+"/"+what, func(t *testing.T) {
				u, j, end := make(t)
				r := run(t, u)
				body := strings.Replace(modernBody("1", "tools/call", `"name":"`+tool+`"`), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
				if tool == "hang" {
					r.hangUp(body, modernHeader("tools/call", tool), func() {
						await(t, "the call has arrived", 20*time.Second, func() bool { return len(j.entries("call hang")) == 1 })
					})
				} else {
					s := r.open("POST", "/mcp", body, modernHeader("tools/call", tool)...)
					if m := s.event(); m == nil || m.Method != mcp.NoteProgress {
						t.Fatalf("got %v", m)
					}
					s.stop()
				}
				await(t, "the server hears of it", 20*time.Second, func() bool { return len(j.entries(end)) > 0 })
				if calls, ends := j.entries("call "+tool), j.entries(end); len(calls) != 1 || len(ends) != 1 || ends[0] != calls[0] {
					t.Errorf("the server got the calls %q and the ends %q", calls, ends)
				}
				r.call("/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
			})
		}
	}
}

// TestT12_LegacyClientSaysSo checks that a legacy client over HTTP that loses its connection
// does not cancel its call (2025-06-18 §Transports, "Sending Messages to the Server"). If the
// client sends a cancellation, the call is cancelled.
func TestT12_LegacyClientSaysSo(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	r := run(t, u)
	session := []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-06-18", "{}")}
	r.hangUp(toolCall(`"mine"`, "hang", "{}"), session, func() {
		await(t, "the call has arrived", 20*time.Second, func() bool { return u.count("call hang") == 1 })
	})
	// The server reads in order. When it answers this call, it has read all earlier messages.
	r.call("/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
	if n := u.count("cancelled"); n != 0 {
		t.Errorf("the server got %d cancellations for a lost connection", n)
	}
	r.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}`, session...)
	await(t, "the cancellation", 20*time.Second, func() bool { return u.count("cancelled") == 1 })
	if calls, ends := u.entries("call hang"), u.entries("cancelled"); ends[0] != calls[0] {
		t.Errorf("the server got the calls %q and the cancellations %q", calls, ends)
	}
}

// TestT12_ParkedCall checks two clients. One client answers the request of its parked call and
// disconnects before the call ends. The other client, on a pipe, disconnects while its call is
// parked. In both cases, the server gets a cancellation with the id that the call has on this
// server.
func TestT12_ParkedCall(t *testing.T) {
	t.Parallel()
	const params = `"name":"ask on","arguments":{}`
	ended := func(t *testing.T, u *upstreamUnderTest) {
		t.Helper()
		await(t, "the cancellation", 20*time.Second, func() bool { return u.count("cancelled") > 0 })
		if calls, ends := u.entries("call ask on"), u.entries("cancelled"); len(calls) != 1 || len(ends) != 1 || ends[0] != calls[0] {
			t.Errorf("the server got the calls %q and the cancellations %q", calls, ends)
		}
	}
	t.Run("http", func(t *testing.T) {
		u := child(t, "child", "legacy")
		r := run(t, u)
		header := modernHeader("tools/call", "ask on")
		state, key := inputRequestOf(t, r.post("/mcp", canElicit(modernBody("1", "tools/call", params)), header...).message(t))
		r.hangUp(canElicit(modernBody("2", "tools/call", retryOf(params, state, key, `{}`))), header, func() {
			await(t, "the answer has arrived", 20*time.Second, func() bool { return u.count("answered") == 1 })
		})
		ended(t, u)
	})
	t.Run("stdio", func(t *testing.T) {
		u := child(t, "child", "legacy")
		p := runPipe(t, u)
		p.send(canElicit(modernBody("1", "tools/call", params)))
		inputRequestOf(t, p.answerTo("1"))
		_ = p.in.Close()
		if err := p.wait(20 * time.Second); err != nil {
			t.Errorf("ended with %v", err)
		}
		ended(t, u)
		u.wantReaped(t)
	})
}

// TestT12_ChildOfOneCallIsReaped gives each call its own session and its own child process. If
// the client of a call disconnects, the child exits and does not stay a zombie.
func TestT12_ChildOfOneCallIsReaped(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy", func(s *config.Server) { s.Isolation = config.IsolateCall })
	r := run(t, u)
	body, header := modernBody("1", "tools/call", `"name":"hang"`), modernHeader("tools/call", "hang")
	r.hangUp(body, header, func() {
		await(t, "the call has arrived", 20*time.Second, func() bool { return u.count("call hang") == 1 })
	})
	u.wantReaped(t)
	r.call("/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
}

// wantReaped waits until all processes of the server are gone, including zombies. It fails the test
// if a process stays.
func (u *upstreamUnderTest) wantReaped(t testing.TB) {
	t.Helper()
	all := u.pids(t)
	if len(all) == 0 {
		t.Error("the server was never started")
	}
	for _, pid := range all {
		await(t, fmt.Sprintf("process %d is reaped", pid), 20*time.Second, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
}
