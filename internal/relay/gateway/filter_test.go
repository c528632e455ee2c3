package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
)

// staticServer is an Upstream that answers every call with answer.
type staticServer struct {
	Upstream
	answer string
	called int
}

func (p *staticServer) Name() string { return "paper" }

func (p *staticServer) Acquire(context.Context, *mcp.ClientInfo, mcp.Need) (bridge.Lease, error) {
	return &staticLease{staticServer: p}, nil
}

type staticLease struct {
	bridge.Lease
	staticServer *staticServer
}

func (l *staticLease) Revision() mcp.Revision { return mcp.R20260728 }

func (l *staticLease) Release() {}

func (l *staticLease) Call(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
	p := l.staticServer
	p.called++
	m, err := jsonrpc.Scan([]byte(p.answer), jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	return &mcp.Reply{Msg: m, From: mcp.R20260728}, nil
}

// showing is a catalog.Filter that shows the items for which it returns true, for any server.
type showing func(kind catalog.Kind, name string) bool

func (f showing) Shows(kind catalog.Kind, _, name string) bool { return f(kind, name) }

// none is a catalog.Filter that hides all items.
var none = showing(func(kind catalog.Kind, _ string) bool { return kind == catalog.KindServer })

func callOf(t *testing.T, method, params string) *mcp.Call {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return mcp.NewCall(m, jsonrpc.Span{}, &mcp.ClientInfo{Revision: mcp.R20260728})
}

func TestT25_FilteredListIsPrivateAndHiddenIsUnknown(t *testing.T) {
	p := &staticServer{answer: `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":5,"cacheScope":"public","tools":[{"name":"a", "inputSchema":{}},{"name":"secret"}, {"name":"b","n":1e400}]}}`}
	u := &Single{Bridge: &bridge.Bridge{}, Upstream: p, Expose: showing(func(kind catalog.Kind, name string) bool { return kind == catalog.KindTool && name != "secret" })}
	reply, err := u.Call(t.Context(), callOf(t, mcp.MethodListTools, "{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := string(reply.Edits.Splice(nil, reply.Msg.Raw))
	want := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":5,"cacheScope":"private","tools":[{"name":"a", "inputSchema":{}},{"name":"b","n":1e400}]}}`
	if got != want {
		t.Errorf("the list is\n%s\nwant\n%s", got, want)
	}
	calls := p.called
	_, hidden := u.Call(t.Context(), callOf(t, mcp.MethodCallTool, `{"name":"secret"}`), nil)
	_, absent := (&Single{Bridge: &bridge.Bridge{}, Upstream: p, Expose: none}).Call(t.Context(), callOf(t, mcp.MethodCallTool, `{"name":"secret"}`), nil)
	if hidden == nil || absent == nil || hidden.Error() != absent.Error() || !strings.Contains(hidden.Error(), "-32602") {
		t.Errorf("the error for a hidden tool is %v, but for an unknown tool it is %v", hidden, absent)
	}
	if p.called != calls {
		t.Error("the server was called for a hidden tool")
	}
	for _, x := range [][2]string{
		{mcp.MethodGetPrompt, `{"name":"p"}`}, {mcp.MethodReadResource, `{"uri":"x:y"}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"p"}}`}, {mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"x:{y}"}}`},
	} {
		if _, err := u.Call(t.Context(), callOf(t, x[0], x[1]), nil); err == nil {
			t.Errorf("%s %s reached the server, although its item is hidden", x[0], x[1])
		}
	}
}

// TestT25_JoinedListsArePrivate checks the cacheScope of lists. A merged list, and a list with a
// filter, is private to its client, whatever cacheScope the servers give. A list of one server
// without a filter keeps the server's cacheScope.
func TestT25_JoinedListsArePrivate(t *testing.T) {
	const public = `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"a","inputSchema":{}}]}`
	u := &fake{name: "u", lists: map[string][]string{mcp.MethodListTools: {`{"name":"a","inputSchema":{}}`}}}
	u.call = func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
		return resultReply(mcp.R20260728, public), nil
	}
	all := showing(func(catalog.Kind, string) bool { return true })
	for what, x := range map[string]struct {
		host downstream.Handler
		want string
	}{
		"joined":                    {merged(t, u), `"private"`},
		"merged from several":       {merged(t, u, &fake{name: "v"}), `"private"`},
		"filtered":                  {&Single{Bridge: &bridge.Bridge{}, Upstream: u, Expose: none}, `"private"`},
		"filter that hides nothing": {&Single{Bridge: &bridge.Bridge{}, Upstream: u, Expose: all}, `"private"`},
		"one unchanged":             {&Single{Bridge: &bridge.Bridge{}, Upstream: u}, `"public"`},
		"merged from filtered":      {&Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{u}, Expose: all}, `"private"`},
	} {
		c := modern(t, mcp.MethodListTools, "{}")
		reply, err := x.host.Call(t.Context(), c, &recordingCaller{})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		raw := dialect.Reply(nil, c, reply)
		m := message(t, string(raw))
		if got := string(m.ResultMember("cacheScope").Of(m.Raw)); got != x.want {
			t.Errorf("%s: cacheScope is %s, want %s", what, got, x.want)
		}
		if g, ok := x.host.(*Merged); ok {
			g.Close()
		}
	}
}

// TestPagesOfAListHaveOneCacheScope checks that all pages of a list have the same cacheScope (2026-07-28
// §Caching, "Interaction with Pagination"). If a filter leaves out a tool of only one page, they are
// private. If a Vet does so, they stay public, because it judges for everybody.
func TestPagesOfAListHaveOneCacheScope(t *testing.T) {
	const bad = `{"name":"bad","inputSchema":{"type":"object"}}`
	pages := map[string]string{
		"":  `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"a","inputSchema":{}}],"nextCursor":"2"}`,
		"2": `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[` + bad + `],"nextCursor":"3"}`,
		"3": `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"b","inputSchema":{}}]}`,
	}
	u := &fake{name: "u"}
	u.call = func(_ context.Context, a *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
		cursor, _ := jsonrpc.Text(a.Msg.Raw, a.Msg.Param("cursor"))
		return resultReply(mcp.R20260728, pages[cursor]), nil
	}
	vetted := &Single{Bridge: &bridge.Bridge{}, Upstream: u, Vet: func(_ catalog.Kind, _ string, _ mcp.Revision, raw []byte) (v catalog.Verdict, _ jsonrpc.EditList) {
		if string(raw) == bad {
			v.Hide = "it is bad"
		}
		return v, jsonrpc.EditList{}
	}}
	filtered := &Single{Bridge: &bridge.Bridge{}, Upstream: u, Expose: showing(func(_ catalog.Kind, name string) bool { return name != "bad" })}
	for want, g := range map[string]*Single{`"public"`: vetted, `"private"`: filtered} {
		for _, params := range []string{`{}`, `{"cursor":"2"}`, `{"cursor":"3"}`} {
			c := modern(t, mcp.MethodListTools, params)
			reply, err := g.Call(t.Context(), c, &recordingCaller{})
			if err != nil {
				t.Fatal(err)
			}
			m := message(t, string(dialect.Reply(nil, c, reply)))
			if got := string(m.ResultMember("cacheScope").Of(m.Raw)); got != want {
				t.Errorf("%s: cacheScope is %s, want %s", params, got, want)
			}
			if strings.Contains(string(m.Raw), `"bad"`) {
				t.Errorf("a hidden tool is listed: %s", m.Raw)
			}
		}
	}
}
