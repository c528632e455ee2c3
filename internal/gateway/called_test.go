package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// TestEachCallIsPublished: each call is published as one event with its own number, its
// outcome and the names that the server knows, whoever answers it.
func TestEachCallIsPublished(t *testing.T) {
	answers := map[string]func() (*mcp.Reply, error){
		"fine": func() (*mcp.Reply, error) { return resultReply(mcp.R20251125, `{"content":[]}`), nil },
		"bad": func() (*mcp.Reply, error) {
			return &mcp.Reply{Msg: jsonrpc.NewFailure("0", &jsonrpc.Error{Code: -7, Message: "no"}), From: mcp.R20251125}, nil
		},
		"gone":   func() (*mcp.Reply, error) { return nil, &mcp.Error{Outcome: mcp.NotSent, Message: "gone"} },
		"broken": func() (*mcp.Reply, error) { return nil, errors.New("broken") },
	}
	long := strings.Repeat("x", 1000)
	u := &fake{
		name: "u", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)},
		lists: map[string][]string{mcp.MethodListTools: {`{"name":"fine"}`, `{"name":"bad"}`, `{"name":"gone"}`, `{"name":"broken"}`}},
		call: func(_ context.Context, c *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
			return answers[c.Name]()
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
			t.Errorf("the server's revision: %+v", e)
		}
	})
	const trace = `"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
	call := func(method, params string) {
		m := message(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+trace+`}}`)
		_, _ = g.Call(t.Context(), mcp.NewCall(m, m.Param(mcp.KeyMeta), &mcp.ClientInfo{Revision: mcp.R20260728}), mcp.NoCaller{})
	}
	call("tools/list", "")
	for _, tool := range []string{"u__fine", "u__bad", "u__gone", "u__broken", "u__none", long} {
		call("tools/call", `"name":"`+tool+`",`)
	}
	call("made/up", "")
	want := []string{
		"tools/list   ok 0", "tools/call u fine ok 0", "tools/call u bad failed -7", "tools/call u gone not_sent -32603", "tools/call u broken unknown -32603",
		"tools/call  u__none refused -32602", "tools/call  xxxxxxxxx refused -32602", "made/up   refused -32601",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
