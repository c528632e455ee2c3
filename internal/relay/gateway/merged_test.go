package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

func two() (a, b *fake) {
	a = &fake{name: "a", lists: map[string][]string{
		"tools/list": {`{"name":"t","inputSchema":{"x":1e400}}`}, "prompts/list": {`{"name":"p"}`},
		"resources/list": {`{"uri":"a:1","name":"one"}`}, "resources/templates/list": {`{"uriTemplate":"f:///{+path}","name":"f"}`},
	}}
	b = &fake{name: "b", lists: map[string][]string{
		"tools/list": {`{"name":"t"}`}, "prompts/list": {`{"name":"p"}`}, "resources/list": {`{"uri":"b:1","name":"one"}`, `{"uri":"a:1","name":"mine"}`},
		"resources/templates/list": {`{"uriTemplate":"f:///deep/{x}.txt","name":"f"}`},
	}}
	return a, b
}

func TestCallsReachTheirServerUnderItsOwnNames(t *testing.T) {
	for _, x := range []struct{ method, params, server, want string }{
		{mcp.MethodCallTool, `{"name":"b__t", "arguments":{"n":1e400}}`, "b", `{"name":"t", "arguments":{"n":1e400}}`},
		{mcp.MethodGetPrompt, `{"name":"a__p"}`, "a", `{"name":"p"}`},
		{mcp.MethodReadResource, `{"uri":"b:1"}`, "b", `{"uri":"b:1"}`},
		{mcp.MethodReadResource, `{"uri":"a:1"}`, "a", `{"uri":"a:1"}`},
		{mcp.MethodReadResource, `{"uri":"f:///deep/x.txt"}`, "b", `{"uri":"f:///deep/x.txt"}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"b__p"},"argument":{"name":"x","value":""}}`, "b", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"f:///{+path}"}}`, "a", `{"ref":{"type":"ref/resource","uri":"f:///{+path}"}}`},
		{mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"b:1"}}`, "b", `{"ref":{"type":"ref/resource","uri":"b:1"}}`},
	} {
		a, b := two()
		g := merged(t, a, b)
		if _, err := g.Call(t.Context(), modern(t, x.method, x.params), &recordingCaller{}); err != nil {
			t.Errorf("%s %s: %v", x.method, x.params, err)
			continue
		}
		got := map[string][]string{"a": a.seen.all(), "b": b.seen.all()}
		if len(got["a"])+len(got["b"]) != 1 || len(got[x.server]) != 1 {
			t.Errorf("%s %s was sent to %v", x.method, x.params, got)
			continue
		}
		m := message(t, got[x.server][0])
		if p := string(m.Params.Of(m.Raw)); p != x.want {
			t.Errorf("%s %s: the server got %s", x.method, x.params, p)
		}
	}
}

// hiding is a filter that hides the items of one server.
type hiding struct{ server string }

func (f hiding) Shows(kind catalog.Kind, server, _ string) bool {
	return server != f.server || kind == catalog.KindServer
}

func TestG07_UnknownAndHiddenLookAlike(t *testing.T) {
	a, b := two()
	g := merged(t, a)
	g.Upstreams = append(g.Upstreams, b)
	g.Expose = hiding{"b"}
	answer := func(method, params string) string {
		t.Helper()
		_, err := g.Call(t.Context(), modern(t, method, params), &recordingCaller{})
		if code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%s %s: %v", method, params, err)
			return ""
		}
		return string(jsonrpc.AppendError(nil, "1", mcp.Wire(err)))
	}
	for _, method := range []string{mcp.MethodCallTool, mcp.MethodGetPrompt} {
		hidden := map[string]string{mcp.MethodCallTool: "b__t", mcp.MethodGetPrompt: "b__p"}[method]
		if x, y := answer(method, `{"name":"`+hidden+`"}`), answer(method, `{"name":"b__q"}`); strings.ReplaceAll(x, hidden, "b__q") != y {
			t.Errorf("the answer for a hidden item is %s, but for an unknown item it is %s", x, y)
		}
	}
	if x, y := answer(mcp.MethodReadResource, `{"uri":"b:1"}`), answer(mcp.MethodReadResource, `{"uri":"b:2"}`); strings.ReplaceAll(x, "b:1", "b:2") != y {
		t.Errorf("the answer for a hidden URI is %s, but for an unknown URI it is %s", x, y)
	}
	if len(b.seen.all()) != 0 {
		t.Errorf("the server whose items are hidden got %q", b.seen.all())
	}
	for _, bad := range []string{`{}`, `{"name":7}`, `{"name":""}`} {
		answer(mcp.MethodCallTool, bad)
	}
	if x := answer(mcp.MethodCallTool, `{"name":"`+strings.Repeat("x", 1<<20)+`"}`); len(x) > 1000 {
		t.Errorf("the answer for a very long name has %d bytes", len(x))
	}
}

func TestUnknownURIIsSaidInTheWordsOfTheClient(t *testing.T) {
	a, b := two()
	g := merged(t, a, b)
	if _, err := g.Call(t.Context(), legacy(t, mcp.MethodReadResource, `{"uri":"z:1"}`), &recordingCaller{}); code(err) != mcp.CodeResourceNotFound || string(mcp.Wire(err).Data) != `{"uri":"z:1"}` {
		t.Errorf("legacy client: %v", err)
	}
	if _, err := g.Call(t.Context(), modern(t, mcp.MethodReadResource, `{"uri":"z:1"}`), &recordingCaller{}); code(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("modern client: %v", err)
	}
}

func TestCapabilitiesAreTheUnion(t *testing.T) {
	for want, caps := range map[string][]string{
		`{"tools":{"listChanged":true}}`:                                                                 {`{}`, `{}`},
		`{"logging":{},"tools":{"listChanged":true}}`:                                                    {`{"tools":{}}`, `{"logging":{}}`},
		`{"completions":{},"prompts":{"listChanged":true}}`:                                              {`{"prompts":{}}`, `{"completions":{}}`},
		`{"resources":{"listChanged":true,"subscribe":true}}`:                                            {`{"resources":{"subscribe":true}}`, `{"resources":{}}`},
		`{"resources":{"listChanged":true}}`:                                                             {`{"resources":{"subscribe":false}}`, `{}`},
		`{"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}}`: {`{"tools":{},"prompts":{}}`, `{"resources":{}}`},
	} {
		a, b := two()
		a.hello = mcp.ServerInfo{Revision: mcp.R20251125, Capabilities: []byte(caps[0])}
		b.hello = mcp.ServerInfo{Revision: mcp.R20251125, Capabilities: []byte(caps[1])}
		h, err := merged(t, a, b).Hello(t.Context(), &mcp.ClientInfo{})
		if err != nil || string(h.Capabilities) != want {
			t.Errorf("%v: got %s, want %s (%v)", caps, h.Capabilities, want, err)
		}
	}
}

func TestInstructionsAreJoinedInFourWays(t *testing.T) {
	for join, want := range map[catalog.InstructionsOrder]string{
		"":                     "own\n\n## a\n\nA\n\n## b\n\nB",
		catalog.OwnFirst:       "own\n\n## a\n\nA\n\n## b\n\nB",
		catalog.UpstreamsFirst: "## a\n\nA\n\n## b\n\nB\n\nown",
		catalog.OwnOnly:        "own",
		catalog.UpstreamsOnly:  "## a\n\nA\n\n## b\n\nB",
	} {
		a, b := two()
		a.hello.Instructions, b.hello.Instructions = []byte(`" A\n"`), []byte(`"B"`)
		g := merged(t, a, b)
		g.Identity.Join = join
		g.Identity.Instructions = func(context.Context, *mcp.ClientInfo) string { return "\nown " }
		h, err := g.Hello(t.Context(), &mcp.ClientInfo{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := jsonrpc.Text(h.Instructions, jsonrpc.Whole(h.Instructions)); got != want {
			t.Errorf("%s: got %q, want %q", join, got, want)
		}
	}
}

func TestSetLevelReachesAllAndWaitsForNobodyLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two()
		a.level = func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b.level = func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, errors.New("no") }
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{a, b}}
		start := time.Now()
		r, err := g.Call(t.Context(), legacy(t, mcp.MethodSetLevel, `{"level":"info"}`), &recordingCaller{})
		if err != nil || result(t, r) != "{}" || time.Since(start) > 2*time.Second {
			t.Errorf("the answer is %v, %v after %v", r, err, time.Since(start))
		}
		if len(a.seen.all()) != 1 || len(b.seen.all()) != 1 {
			t.Error("not all servers got the level")
		}
		for _, bad := range []string{`{}`, `{"level":7}`, `{"level":"loud"}`} {
			if _, err := g.Call(t.Context(), legacy(t, mcp.MethodSetLevel, bad), &recordingCaller{}); code(err) != jsonrpc.CodeInvalidParams {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}
