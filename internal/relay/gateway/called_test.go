package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestEachCallIsPublished checks that Dragoman publishes one event for each call, whether a server
// or Dragoman itself answers. Each event has its own number and the outcome. If a server answers,
// the event has the server's name, and the tool's name without prefix.
func TestEachCallIsPublished(t *testing.T) {
	answers := map[string]func() (*mcp.Reply, error){
		"fine": func() (*mcp.Reply, error) { return resultReply(mcp.R20251125, `{"content":[]}`), nil },
		"sick": func() (*mcp.Reply, error) { return resultReply(mcp.R20251125, `{"content":[],"isError" : true}`), nil },
		"quotes": func() (*mcp.Reply, error) {
			return resultReply(mcp.R20251125, `{"content":[{"type":"text","text":"\"isError\":true","isError":true}],"isError":false}`), nil
		},
		"bad": func() (*mcp.Reply, error) {
			return &mcp.Reply{Msg: jsonrpc.NewFailure("0", &jsonrpc.Error{Code: -7, Message: "no"}), From: mcp.R20251125}, nil
		},
		"gone":   func() (*mcp.Reply, error) { return nil, &mcp.Error{Outcome: mcp.NotSent, Message: "gone"} },
		"broken": func() (*mcp.Reply, error) { return nil, errors.New("broken") },
	}
	long := strings.Repeat("x", 1000)
	u := &fake{
		name: "u", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)},
		lists: map[string][]string{mcp.MethodListTools: {`{"name":"fine"}`, `{"name":"sick"}`, `{"name":"quotes"}`, `{"name":"bad"}`, `{"name":"gone"}`, `{"name":"broken"}`}},
		call: func(_ context.Context, a *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
			return answers[a.Name]()
		},
	}
	g := merged(t, u, &fake{name: "v"})
	var got []string
	numbers := map[uint64]bool{}
	g.Bridge.Events = &event.Publisher{}
	g.Bridge.Events.Tap(event.Of(event.Call), func(e event.Event) {
		got = append(got, fmt.Sprintf("%s %s %.9s %s %d", e.Method, e.Server, e.Name, e.Outcome, e.Code))
		if e.Call == 0 || numbers[e.Call] || e.In == 0 || e.Time.IsZero() || e.From != mcp.R20260728 || len(e.Name) > maxRepeated || e.Trace != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%+v", e)
		}
		numbers[e.Call] = true
		if known := e.To != mcp.Unknown; known != (e.Server == "u") {
			t.Errorf("the event has the wrong server or server revision: %+v", e)
		}
	})
	const trace = `"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
	call := func(method, params string) {
		m := message(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+trace+`}}`)
		_, _ = g.Call(t.Context(), mcp.NewCall(m, m.Param(mcp.KeyMeta), &mcp.ClientInfo{Revision: mcp.R20260728}), mcp.NoCaller{})
	}
	call("tools/list", "")
	for _, tool := range []string{"u__fine", "u__sick", "u__quotes", "u__bad", "u__gone", "u__broken", "u__none", long} {
		call("tools/call", `"name":"`+tool+`",`)
	}
	call("made/up", "")
	want := []string{
		"tools/list   ok 0", "tools/call u fine ok 0", "tools/call u sick tool_error 0", "tools/call u quotes ok 0", "tools/call u bad failed -7", "tools/call u gone not_sent -32603", "tools/call u broken unknown -32603",
		"tools/call  u__none refused -32602", "tools/call  xxxxxxxxx refused -32602", "made/up   refused -32601",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCancelledCalls checks the outcome in the event of a call whose context ends, because the
// client cancels the call, the client disconnects, or Dragoman stops.
func TestCancelledCalls(t *testing.T) {
	end := func() {}
	u := &fake{
		name: "u", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)},
		lists: map[string][]string{mcp.MethodListTools: {`{"name":"hang"}`}},
		call: func(ctx context.Context, _ *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
			end()
			return nil, &mcp.Error{Outcome: mcp.OutcomeUnknown, Cause: "shutdown", Err: ctx.Err()}
		},
	}
	for name, c := range map[string]struct {
		method, params string
		cause          error
		want           string
	}{
		"a call is cancelled": {mcp.MethodCallTool, `"name":"u__hang"`, mcp.ErrCancelled, "cancelled 0"},
		"the client leaves":   {mcp.MethodCallTool, `"name":"u__hang"`, nil, "cancelled 0"},
		"a listen ends":       {mcp.MethodListen, `"notifications":{"toolsListChanged":true}`, nil, "cancelled 0"},
		"the process stops":   {mcp.MethodCallTool, `"name":"u__hang"`, mcp.ErrShutdown, "unknown -32603"},
		"it was refused":      {mcp.MethodCallTool, `"name":"u__none"`, mcp.ErrCancelled, "refused -32602"},
	} {
		t.Run(name, func(t *testing.T) {
			g := merged(t, u)
			g.Bridge.Events = &event.Publisher{}
			var got string
			g.Bridge.Events.Tap(event.Of(event.Call), func(e event.Event) { got = fmt.Sprintf("%s %d", e.Outcome, e.Code) })
			ctx, cancel := context.WithCancelCause(t.Context())
			if end = func() { cancel(c.cause) }; c.params != `"name":"u__hang"` {
				end()
			}
			m := message(t, `{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":{`+c.params+`,"_meta":{}}}`)
			call, ended := mcp.NewCall(m, m.Param(mcp.KeyMeta), &mcp.ClientInfo{Revision: mcp.R20260728}), &endings{}
			call.Record = ended
			_, _ = g.Call(ctx, call, mcp.NoCaller{})
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if len(*ended) != 1 || ((*ended)[0].Cause == "cancelled") != ((*ended)[0].Outcome == event.Cancelled) {
				t.Errorf("the record got %+v", *ended)
			}
		})
	}
}

// endings is an mcp.Record that keeps the ending of each call.
type endings []mcp.Ending

func (*endings) Routed(*mcp.Attempt)                       {}
func (*endings) Resumed(*mcp.Call, uint64)                 {}
func (e *endings) Answered(_ *mcp.Attempt, how mcp.Ending) { *e = append(*e, how) }
