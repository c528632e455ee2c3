package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// town is a Places of a process with this name, among processes whose names end with "house".
type town string

func (p town) Mark(id string) string { return string(p) + "-" + id }

func (p town) Of(id string) string {
	if home, _, ok := strings.Cut(id, "-"); ok && home != string(p) && strings.HasSuffix(home, "house") {
		return home
	}
	return ""
}

// hop is a Forwarder that passes requests on to a process, and notes what it has got.
type hop struct {
	name string
	to   http.Handler

	mu    sync.Mutex
	got   []string
	fails error // what clients hear instead of an answer; nil passes requests on
}

// Reaches implements httpdoor.Forwarder.
func (h *hop) Reaches(*http.Request, *transport.Elsewhere) bool { return true }

func (h *hop) Forward(w http.ResponseWriter, r *http.Request, body []byte, to *transport.Elsewhere) bool {
	h.mu.Lock()
	h.got = append(h.got, to.Home+" "+r.Method+" "+r.URL.RequestURI()+" "+string(body))
	fails := h.fails
	h.mu.Unlock()
	if to.Failed = fails; fails != nil {
		httpdoor.Refuse(w, http.StatusOK, "1", mcp.Wire(fails))
		return true
	}
	next := r.Clone(r.Context())
	next.Body, next.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	h.to.ServeHTTP(w, next)
	return true
}

// took checks that exactly one request was forwarded since the last call: this one.
func (h *hop) took(t *testing.T, method, uri, body string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if want := h.name + " " + method + " " + uri + " " + body; len(h.got) != 1 || h.got[0] != want {
		t.Errorf("forwarded %q, want %q", h.got, want)
	}
	h.got = nil
}

func (h *hop) none(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.got) != 0 {
		t.Errorf("forwarded %q", h.got)
	}
}

// twoHouses are two processes with the same servers and the same keys. The second forwards requests to
// the first, if it forwards any.
type twoHouses struct {
	*testing.T
	first, second *site
	servers, away *house // the second process is away
	hop           *hop
}

func newTwoHouses(t *testing.T, forwards bool) *twoHouses {
	keys := bridge.NewKeys([]byte("secret"))
	a, b := &house{gate: &gate{}}, &house{gate: &gate{}}
	text := a.servers(t, "strict-2025-11-25")
	x := &twoHouses{T: t, servers: a, away: b, hop: &hop{name: "firsthouse"}}
	a.open(t, text, func(o *Options) { o.Places = town("firsthouse") })
	b.open(t, text, func(o *Options) {
		o.Places, o.Events, o.Calls = town("secondhouse"), &event.Publisher{}, calls.New(calls.Options{})
		if forwards {
			o.Forward = x.hop
		}
	})
	a.own.bridge.Keys, b.own.bridge.Keys = keys, keys
	mux := http.NewServeMux()
	a.Routes(mux)
	x.hop.to = mux
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	x.first, x.second = &site{t, a.url, client}, &site{t, b.url, client}
	return x
}

// modernRequest returns a modern request, with white space that no encoder would write, and its headers.
func modernRequest(method, name, params string) (body string, header []string) {
	params = strings.TrimSuffix(params, "}")
	if params != "{" {
		params += " ,"
	}
	body = ` { "id" :"x",  "method":"` + method + `","jsonrpc":"2.0" , "params":` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}  }` + "\n"
	return body, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
}

// resultMember returns a member of the result in an answer, as text or as JSON.
func resultMember(t *testing.T, answer, name string) string {
	t.Helper()
	if _, after, events := strings.Cut(answer, "data: {"); events {
		answer, _, _ = strings.Cut("{"+after, "\n")
	}
	var m struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal([]byte(answer), &m); err != nil || m.Result[name] == nil {
		t.Fatalf("no %q in %s", name, answer)
	}
	var s string
	if json.Unmarshal(m.Result[name], &s) == nil {
		return s
	}
	return string(m.Result[name])
}

// undone checks that f leaves no trace in the second process: no step of its policy is asked, and what
// its auditor hears is that nothing was sent.
func (x *twoHouses) undone(f func()) {
	x.Helper()
	before := x.away.gate.asked
	x.away.gate.take()
	f()
	if n := x.away.gate.asked - before; n != 0 {
		x.Errorf("the second process asked its policy %d times", n)
	}
	for _, entry := range x.away.gate.take() {
		if !strings.HasSuffix(entry, " not_sent") {
			x.Errorf("its auditor heard %q", entry)
		}
	}
	if n := x.away.own.bridge.Parked(); n != 0 {
		x.Errorf("it has parked %d calls", n)
	}
}

// TestSessionElsewhereIsForwarded sends each kind of request of a session to the process that does not
// have it, over both transports.
func TestSessionElsewhereIsForwarded(t *testing.T) {
	x := newTwoHouses(t, true)
	id := x.first.wants(200, `"result"`, "POST", "/mcp", helloBody).Get("Mcp-Session-Id")
	hers := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	odd := "\n" + strings.Replace(callBody, `"star","arguments":{}`, `"old__echo" ,"arguments":{"text":"legacy"}`, 1) + " "
	note := `{ "jsonrpc":"2.0","method":"notifications/initialized"}`
	broken := `{"jsonrpc":"2.0","id":`
	x.undone(func() {
		x.second.wants(202, "", "POST", "/mcp", note, hers...)
		x.hop.took(t, "POST", "/mcp", note)
		x.second.wants(200, "legacy", "POST", "/mcp", odd, hers...)
		x.hop.took(t, "POST", "/mcp", odd)
		x.second.wants(400, "", "POST", "/mcp", broken, hers...)
		x.hop.took(t, "POST", "/mcp", broken)
		_ = x.second.open("GET", "/mcp", "", hers...).Body.Close()
		x.hop.took(t, "GET", "/mcp", "")
		st := x.first.stream("/sse")
		defer st.body.Close()
		for _, body := range []string{strings.Replace(helloBody, "2025-11-25", "2024-11-05", 1), odd} {
			x.second.wants(202, "", "POST", st.post, body)
			x.hop.took(t, "POST", st.post, body)
			if got := st.next(); !strings.Contains(got, `"result"`) {
				t.Errorf("the stream says %s", got)
			}
		}
		x.second.wants(204, "", "DELETE", "/mcp", "", hers...)
		x.hop.took(t, "DELETE", "/mcp", "")
		x.second.wants(404, "session not found", "POST", "/mcp", odd, hers...)
		x.hop.took(t, "POST", "/mcp", odd)
	})
	if n := x.servers.executions("legacy"); n != 2 {
		t.Errorf("the server ran %d calls", n)
	}
	// The session header means nothing to a modern request.
	body, header := modernRequest("tools/call", "new__echo", `{"name":"new__echo","arguments":{"text":"modern"}}`)
	x.second.wants(200, "modern", "POST", "/mcp", body, append(header, "Mcp-Session-Id", id)...)
	x.hop.none(t)
}

// TestLostOnTheWay lets requests get lost that another process should answer. Each is a call that has failed here, once,
// with its server, its name and the cause, and no server hears of it. A message that never becomes a call leaves nothing.
func TestLostOnTheWay(t *testing.T) {
	x := newTwoHouses(t, true)
	id := x.first.wants(200, `"result"`, "POST", "/mcp", helloBody).Get("Mcp-Session-Id")
	hers := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	call := strings.Replace(callBody, `"star","arguments":{}`, `"old__echo" ,"arguments":{"text":"legacy"}`, 1)
	st := x.first.stream("/sse")
	defer st.body.Close()
	x.second.wants(200, `"result"`, "POST", "/mcp", strings.Replace(callBody, "tools/call", "tools/list", 1)) // now the names are known
	x.away.gate.take()
	for _, lost := range []*mcp.Error{
		{Message: "lost", Origin: mcp.FromGateway, Cause: "replica_lost", Outcome: mcp.OutcomeUnknown},
		{Message: "unreachable", Origin: mcp.FromGateway, Cause: "replica_unreachable", Outcome: mcp.NotSent},
	} {
		x.hop.fails = lost
		before := x.away.gate.asked
		x.second.wants(200, lost.Cause, "POST", "/mcp", call, hers...)
		x.second.wants(200, lost.Cause, "POST", st.post, call)
		x.second.wants(200, lost.Cause, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, hers...)
		x.second.wants(200, lost.Cause, "POST", "/mcp", helloBody, hers...)
		x.second.wants(200, lost.Cause, "DELETE", "/mcp", "", hers...)
		all, _, _ := x.away.Default().Calls().Since(0, 100)
		all = slices.DeleteFunc(all, func(c calls.Call) bool { return c.Cause != lost.Cause })
		for _, c := range all {
			if c.Server != "old" || c.Name != "old__echo" || c.Target != "echo" || c.Method != mcp.MethodCallTool || c.Outcome != lost.Outcome || c.Out == 0 {
				t.Errorf("the call is %+v", c)
			}
		}
		entry := "old echo legacy " + string(lost.Outcome)
		if got := x.away.gate.take(); len(all) != 2 || !slices.Equal(got, []string{entry, entry}) || x.away.gate.asked != before {
			t.Errorf("%d calls, the auditor heard %q, and the policy was asked %d times", len(all), got, x.away.gate.asked-before)
		}
	}
	if n := x.servers.executions("legacy"); n != 0 {
		t.Errorf("the server ran %d calls", n)
	}
}

// TestRetryElsewhereIsForwarded asks the client in three ways: a legacy server asks, so that its call is
// parked; a step of the policy asks; and a modern server asks. The first two retries belong to the
// process that asked. Any process can serve the third.
func TestRetryElsewhereIsForwarded(t *testing.T) {
	const filled = `{"action":"accept","content":{"name":"Ada","age":36}}`
	for _, forwards := range []bool{true, false} {
		x := newTwoHouses(t, forwards)
		for _, q := range []struct {
			tool, arguments, answer, done string
			refused                       string // by another process, if nobody forwards; "" if any can serve the retry
		}{
			{"old__elicit", `{}`, filled, "Ada", "park_lost"},
			{"old__echo", `{"text":"ask"}`, `{"action":"accept"}`, "ask", "asked_elsewhere"},
			{"new__echo", `{"text":"ask"}`, `{"action":"accept"}`, "ask", "asked_elsewhere"},
			{"new__elicit", `{}`, filled, "Ada", ""},
		} {
			start := `{"name":"` + q.tool + `","arguments":` + q.arguments
			body, header := modernRequest("tools/call", q.tool, start+"}")
			_, _, asked := x.first.ask("POST", "/mcp", body, header...)
			var asks map[string]any
			_ = json.Unmarshal([]byte(resultMember(t, asked, "inputRequests")), &asks)
			answers := ""
			for key := range asks {
				answers = fmt.Sprintf(`{%q:%s}`, key, q.answer)
			}
			retry, _ := modernRequest("tools/call", q.tool, start+fmt.Sprintf(`,"requestState":%q,"inputResponses":%s}`, resultMember(t, asked, "requestState"), answers))
			switch {
			case q.refused == "":
				x.second.wants(200, q.done, "POST", "/mcp", retry, header...)
			case forwards:
				x.undone(func() {
					x.second.wants(200, q.done, "POST", "/mcp", retry, header...)
					x.hop.took(t, "POST", "/mcp", retry)
					x.second.wants(200, `"error"`, "POST", "/mcp", retry, header...) // it was good for one use
					x.hop.took(t, "POST", "/mcp", retry)
				})
			default:
				x.undone(func() { x.second.wants(200, q.refused, "POST", "/mcp", retry, header...) })
				x.first.wants(200, q.done, "POST", "/mcp", retry, header...)
			}
			x.hop.none(t)
		}
		if n := x.servers.executions("ask"); n != 2 {
			t.Errorf("forwards %t: the servers ran %d calls that the person was asked about", forwards, n)
		}
	}
}

// TestTaskElsewhereIsForwarded polls tasks at the process that does not have them: one of a legacy server
// for a modern client, and for a legacy client one of a legacy server and one whose answer we keep.
func TestTaskElsewhereIsForwarded(t *testing.T) {
	for _, forwards := range []bool{true, false} {
		x := newTwoHouses(t, forwards)
		poll := func(status int, want, body string, header []string) {
			t.Helper()
			x.undone(func() {
				if !forwards {
					status, want = 200, "Task not found"
				}
				x.second.wants(status, want, "POST", "/mcp", body, header...)
				if forwards {
					x.hop.took(t, "POST", "/mcp", body)
				}
			})
			x.hop.none(t)
		}
		body, header := modernRequest("tools/call", "old__task", `{"name":"old__task","arguments":{}}`)
		_, _, created := x.first.ask("POST", "/mcp", body, header...)
		id := resultMember(t, created, "taskId")
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodCancelTask} {
			body, header = modernRequest(method, id, fmt.Sprintf(`{"taskId":%q}`, id))
			poll(200, `"resultType"`, body, header)
		}

		hello := strings.Replace(helloBody, `"capabilities":{}`, `"capabilities":{"tasks":{}}`, 1)
		session := func(at *site) []string {
			return []string{"Mcp-Session-Id", at.wants(200, `"result"`, "POST", "/mcp", hello).Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
		}
		here, there := session(x.first), session(x.second)
		for _, call := range []string{`{"name":"old__task","task":{},"arguments":{}}`, `{"name":"new__echo","task":{},"arguments":{"text":"kept"}}`} {
			_, _, created = x.first.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":`+call+`}`, here...)
			var task struct{ TaskID string }
			_ = json.Unmarshal([]byte(resultMember(t, created, "task")), &task)
			body = fmt.Sprintf(`{"id":4,  "jsonrpc":"2.0","method":"tasks/get","params":{"taskId":%q}}`, task.TaskID)
			x.first.wants(200, `"status"`, "POST", "/mcp", body, here...)
			// The first process does not have the session of the second. What to do about a session
			// and a task in different processes is for the Forwarder to decide; this one just hops.
			poll(404, "session not found", body, there)
		}
	}
}
