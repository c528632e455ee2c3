package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// extended returns a server that declares extensions.
func extended(name, extensions string) *fake {
	return &fake{name: name, hello: mcp.ServerInfo{Revision: mcp.R20260728, Capabilities: []byte(`{"resources":{},"extensions":` + extensions + `}`)}}
}

type without struct{ server string }

func (f without) Shows(_ catalog.Kind, server, _ string) bool { return server != f.server }

// manyExtensions returns n extensions, as an object.
func manyExtensions(prefix string, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"%s%d":{}`, prefix, i)
	}
	return `{` + strings.Join(all, ",") + `}`
}

func TestMergedExtensions(t *testing.T) {
	const apps = `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}`
	for _, tt := range []struct {
		name     string
		all      []*fake
		expose   catalog.Filter
		want     string
		leftOut  string // part of the reported loss
		reached  map[string]string
		refusals map[string]string
	}{
		{
			name: "one server, everything but authorization",
			all:  []*fake{extended("a", `{`+apps+`,"com.acme/x":{"v":1},"io.modelcontextprotocol/oauth-client-credentials":{},"n":7}`)},
			want: `{` + apps + `,"com.acme/x":{"v":1}}`,
		},
		{
			name:     "each extension has one server",
			all:      []*fake{extended("a", `{`+apps+`,"io.modelcontextprotocol/skills":{"directoryRead":true}}`), extended("b", `{`+apps+`,"com.acme/x":{}}`)},
			want:     `{` + apps + `,"io.modelcontextprotocol/skills":{"directoryRead":true},"com.acme/x":{}}`,
			reached:  map[string]string{"acme/do": "b"},
			refusals: map[string]string{},
		},
		{
			name:     "several servers",
			all:      []*fake{extended("a", `{"com.acme/x":{},"io.modelcontextprotocol/skills":{}}`), extended("b", `{"org.other/y":{},"io.modelcontextprotocol/skills":{"directoryRead":true}}`)},
			want:     `{"io.modelcontextprotocol/skills":{"directoryRead":true}}`,
			leftOut:  "a, b",
			refusals: map[string]string{"acme/do": "a, b"},
		},
		{
			name:     "nobody declares it",
			all:      []*fake{extended("a", `{`+apps+`}`), extended("b", `{}`)},
			want:     `{` + apps + `}`,
			refusals: map[string]string{"acme/do": "Method not found: acme/do", "skills/list": "Method not found: skills/list"},
		},
		{
			name:     "settings that differ",
			all:      []*fake{extended("a", `{"io.modelcontextprotocol/ui":{"mimeTypes":["x"],"same":1}}`), extended("b", `{"io.modelcontextprotocol/ui":{"mimeTypes":["y"],"same":1}}`)},
			want:     `{"io.modelcontextprotocol/ui":{"same":1}}`,
			refusals: map[string]string{},
		},
		{
			name:    "a server that declares all that it may",
			all:     []*fake{extended("a", manyExtensions("io.modelcontextprotocol/", 70)), extended("b", `{`+apps+`,"com.acme/x":{}}`)},
			want:    strings.TrimSuffix(manyExtensions("io.modelcontextprotocol/", 64), "}") + `,` + apps + `,"com.acme/x":{}}`,
			reached: map[string]string{"acme/do": "b"},
		},
		{
			name:     "a server that declares all vendors' extensions that it may",
			all:      []*fake{extended("a", manyExtensions("com.acme/", 70)), extended("b", `{"com.acme/x":{}}`)},
			want:     "",
			leftOut:  "a, b",
			refusals: map[string]string{"acme/do": "a, b"},
		},
		{
			name:     "a hidden server",
			all:      []*fake{extended("a", `{}`), extended("b", `{"com.acme/x":{}}`)},
			expose:   without{"b"},
			want:     "",
			refusals: map[string]string{"acme/do": "Method not found: acme/do"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lost []string
			g := &Merged{Bridge: &bridge.Bridge{}, Expose: tt.expose}
			for _, u := range tt.all {
				g.Upstreams = append(g.Upstreams, u)
			}
			defer g.Close()
			g.catalog().Lost = func(_, _, why string) { lost = append(lost, why) }
			for range 2 {
				h, err := g.Hello(t.Context(), &mcp.ClientInfo{})
				if err != nil {
					t.Fatal(err)
				}
				caps := h.Capabilities
				if got := string(jsonrpc.Find(caps, jsonrpc.Whole(caps), "extensions").Of(caps)); got != tt.want {
					t.Errorf("the extensions are %s, want %s", got, tt.want)
				}
			}
			for i, why := range lost {
				if tt.leftOut == "" || !strings.Contains(why, tt.leftOut) || strings.Contains(strings.Join(lost[:i], "\n"), why) {
					t.Errorf("a loss is %q", why)
				}
			}
			if (len(lost) > 0) != (tt.leftOut != "") {
				t.Errorf("the losses are %q", lost)
			}
			for method, want := range tt.reached {
				r, err := g.resolve(t.Context(), modern(t, method, `{}`))
				if err != nil || r.Server != want {
					t.Errorf("%s goes to %q, %v; want %q", method, r.Server, err, want)
				}
			}
			for method, want := range tt.refusals {
				if _, err := g.resolve(t.Context(), modern(t, method, `{}`)); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error is %v, want %q in it", method, err, want)
				}
			}
		})
	}
}

// TestMethodsOfMCPAreNoVendors checks that a server with a vendor's extension does not get what MCP defines
// for the other direction, or may define. At the endpoint of one server, it still gets everything.
func TestMethodsOfMCPAreNoVendors(t *testing.T) {
	var lost int
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(event.Event) { lost++ })
	vendor := &forwarded{fake: extended("b", `{"com.acme/x":{}}`)}
	g := &Merged{Bridge: &bridge.Bridge{Events: events}, Upstreams: []Upstream{extended("a", `{}`), vendor}}
	defer g.Close()
	if _, err := g.Hello(t.Context(), &mcp.ClientInfo{}); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{
		mcp.MethodSample, mcp.MethodElicit, mcp.MethodListRoots, "tools/new", "resources/templates/new", "sampling/new", "roots/",
		mcp.NoteMessage, mcp.NoteToolsChanged,
	} {
		for _, c := range []*mcp.Call{modern(t, method, `{}`), legacy(t, method, `{}`)} {
			_, err := g.resolve(t.Context(), c)
			if bad, ok := errors.AsType[*jsonrpc.Error](err); !ok || bad.Code != jsonrpc.CodeMethodNotFound {
				t.Errorf("%s: %v", method, err)
			}
			single := &Single{Bridge: &bridge.Bridge{}, Upstream: vendor}
			if r, err := single.resolve(t.Context(), c); err != nil || r.Server != "b" {
				t.Errorf("%s at the endpoint of one server: %v", method, err)
			}
		}
	}
	for _, method := range []string{"acme/do", "tool", "toolsx/y", "notifications/x"} {
		if r, err := g.resolve(t.Context(), modern(t, method, `{}`)); err != nil || r.Server != "b" {
			t.Errorf("%s: %v", method, err)
		}
	}
	notes := []string{
		mcp.NoteMessage, mcp.NoteToolsChanged, mcp.NoteResourceUpdated, mcp.NoteElicitComplete, "notifications/tools/new", "tools/new",
		"notifications/acme", "notifications/acme/x", "acme/note",
	}
	for _, method := range notes {
		g.Notify(t.Context(), &mcp.ClientInfo{}, message(t, `{"jsonrpc":"2.0","method":"`+method+`"}`))
	}
	if want := notes[6:]; lost != 6 || !slices.Equal(vendor.methods, want) {
		t.Errorf("the server got %q, and %d were lost", vendor.methods, lost)
	}
}

// forwarded keeps the methods of the notifications that a fake gets.
type forwarded struct {
	*fake
	methods []string
}

func (f *forwarded) Forward(_ *mcp.ClientInfo, _ []byte, method string) {
	f.methods = append(f.methods, method)
}

// TestPageOfTool reads the page of a tool that no server lists. Each server gets the requests for its
// own pages, also for those that have the URI of another server's page.
func TestPageOfTool(t *testing.T) {
	server := func(name, tools string) *fake {
		u := extended(name, `{}`)
		u.hello.Capabilities = []byte(`{"resources":{},"tools":{}}`)
		u.lists = map[string][]string{"tools/list": {tools}}
		return u
	}
	g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{
		server("a", `{"name":"t","_meta":{"ui":{"resourceUri":"ui://same"}}}`),
		server("b", `{"name":"t","_meta":{"ui":{"resourceUri":"ui://page"}}}`),
		server("c", `{"name":"t","_meta":{"ui/resourceUri":"ui://flat"}}`),
		server("d", `{"name":"t","_meta":{"ui":{"resourceUri":"ui://same"}}}`),
		server("thief", `{"name":"t"}`),
	}}
	thief := g.Upstreams[4].(*fake)
	thief.lists["resources/list"] = []string{`{"uri":"ui://page"}`, `{"uri":"ui://own"}`}
	defer g.Close()
	owner := func(show catalog.Filter, uri string) string {
		u, err := g.catalog().View(&mcp.ClientInfo{}, show).Owner(context.Background(), uri)
		if err != nil {
			return err.Error()
		}
		return u.Server.Name()
	}
	for _, tt := range []struct {
		show      catalog.Filter
		uri, want string
	}{
		{without{"thief"}, "ui://page", "b"},
		{nil, "ui://page", "b"},
		{without{"b"}, "ui://page", "Resource not found"},
		{nil, "ui://dragoman-thief/page", "thief"},
		{without{"thief"}, "ui://dragoman-thief/page", "Resource not found"},
		{nil, "ui://dragoman-nobody/page", "Resource not found"},
		{nil, "ui://own", "thief"},
		{nil, "ui://flat", "c"},
		{nil, "ui://same", "a"},
		{nil, "ui://dragoman-d/same", "d"},
		{nil, "ui://other", "Resource not found"},
	} {
		if got := owner(tt.show, tt.uri); !strings.Contains(got, tt.want) {
			t.Errorf("%s, %v: %s, want %s", tt.uri, tt.show, got, tt.want)
		}
	}
}

// TestSkills merges the skills of two servers, and reads files that are in no list.
func TestSkills(t *testing.T) {
	server := func(name, skill string) *fake {
		u := extended(name, `{"io.modelcontextprotocol/skills":{}}`)
		u.lists = map[string][]string{"skills/list": {`{"uri":"` + skill + `","resources":[]}`, `{"uri":"skill://same/SKILL.md"}`}}
		return u
	}
	g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{
		server("a", "skill://refunds/SKILL.md"), server("b", "skill://org/refunds/SKILL.md"), extended("c", `{}`),
	}}
	defer g.Close()
	reply, err := g.Call(t.Context(), modern(t, "skills/list", `{}`), mcp.NoCaller{})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"skills":[{"uri":"skill://refunds/SKILL.md","resources":[]},{"uri":"skill://same/SKILL.md"},{"uri":"skill://org/refunds/SKILL.md","resources":[]},{"uri":"skill://dragoman-b/same/SKILL.md"}]}`
	if got := string(reply.Msg.Result.Of(reply.Msg.Raw)); got != want {
		t.Errorf("the skills are %s, want %s", got, want)
	}
	for _, tt := range []struct{ method, uri, want string }{
		{"skills/get", "skill://refunds/SKILL.md", "a"},
		{"skills/get", "skill://org/refunds/SKILL.md", "b"},
		{"resources/directory/read", "skill://org/refunds", "b"},
		{"resources/directory/read", "skill://org/refunds/scripts/", "b"},
		{"resources/read", "skill://refunds/files/a.md", "a"},
		{"resources/read", "skill://same/x", "a"},
		{"resources/read", "skill://dragoman-b/same/x", "b"},
		{"skills/get", "skill://dragoman-b/same/SKILL.md", "b"},
		{"resources/directory/read", "skill://dragoman-b/same", "b"},
		{"skills/get", "skill://refundsX/SKILL.md", "Resource not found"},
	} {
		r, err := g.resolve(t.Context(), modern(t, tt.method, `{"uri":"`+tt.uri+`"}`))
		if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && r.Server != tt.want {
			t.Errorf("%s of %s goes to %q, %v; want %q", tt.method, tt.uri, r.Server, err, tt.want)
		}
	}
}

// TestUnlistedResources finds the servers of resources that are in no list.
func TestUnlistedResources(t *testing.T) {
	var made atomic.Bool // whether server b has made x://made
	server := func(name string, has ...string) *fake {
		u := extended(name, `{}`)
		u.hello.Capabilities = []byte(`{"resources":{},"tools":{}}`)
		u.lists = map[string][]string{"tools/list": {`{"name":"t"}`}}
		u.call = func(_ context.Context, c *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
			if c.Msg.Method == mcp.MethodCallTool {
				return resultReply(mcp.R20260728, `{"content":[{"type":"resource_link","uri":"x://linked"},{"type":"resource","resource":{"uri":"x://embedded","text":""}}]}`), nil
			}
			for _, uri := range has {
				if c.Name == uri && (uri != "x://made" || made.Load()) {
					return resultReply(mcp.R20260728, `{"contents":[]}`), nil
				}
			}
			return mcp.Fail(catalog.Missing(c.Client, c.Name)), nil
		}
		return u
	}
	a, b := server("a", "x://both", "ui://both"), server("b", "x://both", "ui://both", "x://b", "x://linked", "x://made")
	g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{a, b, server("c")}}
	defer g.Close()
	read := func(uri string) string {
		r, err := g.resolve(t.Context(), modern(t, "resources/read", `{"uri":"`+uri+`"}`))
		if err != nil {
			return err.Error()
		}
		return r.Server
	}
	if _, err := g.Call(t.Context(), modern(t, "tools/call", `{"name":"b__t"}`), mcp.NoCaller{}); err != nil {
		t.Fatal(err)
	}
	if n := len(a.seen.all()); n != 0 {
		t.Errorf("server a got %d requests for a call of b", n)
	}
	for uri, want := range map[string]string{"x://linked": "b", "x://embedded": "b", "x://both": "a", "x://b": "b", "ui://both": "not found", "x://none": "not found", "x://made": "not found"} {
		if got := read(uri); !strings.Contains(got, want) {
			t.Errorf("%s is read from %s, want %s", uri, got, want)
		}
		before := len(a.seen.all())
		if read(uri); len(a.seen.all()) != before && want != "not found" {
			t.Errorf("%s: the servers were asked again", uri)
		}
	}
	made.Store(true)
	if got := read("x://made"); got != "b" {
		t.Errorf("x://made, which b has only now, is read from %s", got)
	}
	// Server b no longer has x://embedded, so the next client asks all servers.
	if _, err := g.Call(t.Context(), modern(t, "resources/read", `{"uri":"x://embedded"}`), mcp.NoCaller{}); err != nil {
		t.Fatal(err)
	}
	if got := read("x://embedded"); !strings.Contains(got, "not found") {
		t.Errorf("x://embedded is read from %s", got)
	}
}

// TestNamesOfOthers has servers without a prefix that offer names of other servers: tools and
// prompts, from the start and later, to all clients and to those that answer questions, and with
// each separator. The report, which the status and the console show, and the log say what is left
// out, and why.
func TestNamesOfOthers(t *testing.T) {
	for _, x := range []struct{ list, use, kind string }{
		{mcp.MethodListTools, mcp.MethodCallTool, "tools"}, {mcp.MethodListPrompts, mcp.MethodGetPrompt, "prompts"},
	} {
		for _, sep := range []string{"__", ".", "/", "-_"} {
			for _, caps := range []string{"{}", asksAll} {
				t.Run(fmt.Sprintf("%s %q %s", x.kind, sep, caps), func(t *testing.T) { namesOfOthers(t, x.list, x.use, x.kind, sep, caps) })
			}
		}
	}
}

func namesOfOthers(t *testing.T, method, use, kind, sep, caps string) {
	server := func(name string, items ...string) *fake {
		u := extended(name, `{}`)
		u.hello.Capabilities = []byte(`{"` + kind + `":{"listChanged":true}}`)
		u.lists = map[string][]string{}
		for _, item := range items {
			u.lists[method] = append(u.lists[method], `{"name":"`+item+`"}`)
		}
		return u
	}
	var lost []string
	who := "v" + sep + "who"
	first, thief := server("first"), server("thief", who, "v"+sep+"new", "mine")
	g := &Merged{
		Bridge:    &bridge.Bridge{},
		Upstreams: []Upstream{first, thief, server("v", "who"), server("last", "shared")},
		Prefixes:  map[string]string{"first": "", "thief": "", "last": ""},
		Names:     catalog.Names{Separator: sep},
	}
	defer g.Close()
	g.catalog().Lost = func(server, _, why string) { lost = append(lost, server+": "+why) }
	ask := func(method, params string) *mcp.Call {
		c := modern(t, method, params)
		c.Client.Capabilities = []byte(caps)
		return c
	}
	calls := func(name, want string) {
		t.Helper()
		asked := map[string]string{use: `{"name":"` + name + `"}`}
		if kind == "prompts" {
			asked[mcp.MethodComplete] = `{"ref":{"type":"ref/prompt","name":"` + name + `"}}`
		}
		for method, params := range asked {
			r, err := g.resolve(t.Context(), ask(method, params))
			if err != nil && want != "" || err == nil && r.Server != want {
				t.Errorf("%s: %s goes to %q, %v; want %q", method, name, r.Server, err, want)
			}
		}
	}
	list := func(want string) {
		t.Helper()
		shows(t, listNamesFor(t, g, method, caps), want)
	}
	says := func(server, name, why string) {
		t.Helper()
		text := fmt.Sprintf("%s: %q is left out: %s", server, name, why)
		n := 0
		for _, l := range lost {
			if strings.HasPrefix(l, text) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the log says %d times %q: %q", n, text, lost)
		}
		for _, r := range g.Lists() {
			if r.Server == server && r.Method == method && slices.ContainsFunc(r.Rejected, func(x catalog.RejectedItem) bool { return x.Name == name && strings.HasPrefix(x.Why, why) }) {
				return
			}
		}
		t.Errorf("the report does not say that %s of %s is left out: %+v", name, server, g.Lists())
	}
	list("mine " + who + " shared")
	calls(who, "v")
	calls("v"+sep+"new", "")
	calls("mine", "thief")
	calls("shared", "last")
	says("thief", who, `the name begins with the prefix of server "v"`)
	says("thief", "v"+sep+"new", `the name begins with the prefix of server "v"`)
	// A server that comes first in the configuration offers names later.
	first.setList(func(context.Context, string) ([][]byte, error) {
		return items(`{"name":"shared"}`, `{"name":"`+who+`"}`, `{"name":"own"}`), nil
	})
	g.Changed("first", kind)
	list("own mine " + who + " shared")
	calls("shared", "last")
	calls(who, "v")
	says("first", "shared", `server "last" already offers`)
	says("first", who, `the name begins with the prefix of server "v"`)
	// While the server cannot be reached, the name stays with it.
	last := g.Upstreams[3].(*fake)
	last.setList(func(context.Context, string) ([][]byte, error) { return nil, errors.New("away") })
	g.Changed("last", kind)
	list("own mine " + who + " shared")
	calls("shared", "last")
	// Now the server no longer offers it.
	last.setList(func(context.Context, string) ([][]byte, error) { return nil, nil })
	g.Changed("last", kind)
	list("shared own mine " + who)
	calls("shared", "first")
}

// TestTemplatesOfOthers checks two servers with one resource template: the first in the
// configuration gets it, and the report and the log name the other one.
func TestTemplatesOfOthers(t *testing.T) {
	server := func(name, template string) *fake {
		u := extended(name, `{}`)
		u.hello.Capabilities = []byte(`{"resources":{"listChanged":true},"completions":{}}`)
		u.lists = map[string][]string{mcp.MethodListTemplates: {`{"name":"v__who","uriTemplate":"` + template + `"}`}}
		return u
	}
	var lost []string
	a, b := server("a", "x://{id}"), server("b", "y://{id}")
	g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{a, b}, Prefixes: map[string]string{"b": ""}}
	defer g.Close()
	g.catalog().Lost = func(server, _, why string) { lost = append(lost, server+": "+why) }
	goes := func(uri, want string) {
		t.Helper()
		for method, params := range map[string]string{
			mcp.MethodReadResource: `{"uri":"` + strings.Replace(uri, "{id}", "7", 1) + `"}`, mcp.MethodComplete: `{"ref":{"type":"ref/resource","uri":"` + uri + `"}}`,
		} {
			if r, err := g.resolve(t.Context(), modern(t, method, params)); err != nil || r.Server != want {
				t.Errorf("%s: %s goes to %q, %v; want %q", method, uri, r.Server, err, want)
			}
		}
	}
	shows(t, listNames(t, g, mcp.MethodListTemplates), "x://{id} y://{id}")
	goes("x://{id}", "a")
	goes("y://{id}", "b")
	b.setList(func(_ context.Context, method string) ([][]byte, error) {
		if method != mcp.MethodListTemplates {
			return nil, nil
		}
		return items(`{"name":"own","uriTemplate":"y://{id}"}`, `{"name":"taken","uriTemplate":"x://{id}"}`), nil
	})
	g.Changed("b", "resources")
	shows(t, listNames(t, g, mcp.MethodListTemplates), "x://{id} y://{id}")
	goes("x://{id}", "a")
	const why = `server "a" has an item with the same name and comes first`
	if len(lost) != 1 || lost[0] != `b: "x://{id}" is left out: `+why {
		t.Errorf("the losses are %q", lost)
	}
	told := false
	for _, r := range g.Lists() {
		told = told || r.Server == "b" && len(r.Rejected) == 1 && r.Rejected[0] == catalog.RejectedItem{Name: "x://{id}", Why: why}
	}
	if !told {
		t.Errorf("the report is %+v", g.Lists())
	}
}

// TestReportOfNamesOfOthers checks that the report names items that only some clients do not see: of a
// list that a server has for them, and of the lists that Dragoman has read before the first client.
func TestReportOfNamesOfOthers(t *testing.T) {
	thief, v := extended("thief", `{}`), extended("v", `{}`)
	for _, u := range []*fake{thief, v} {
		u.hello.Capabilities = []byte(`{"tools":{"listChanged":true}}`)
		u.lists = map[string][]string{mcp.MethodListTools: {`{"name":"v__who"}`}}
	}
	thief.listFor = func(f *mcp.ClientInfo) []string {
		if f.Declares("elicitation") {
			return []string{`{"name":"v__who"}`, `{"name":"v__ask"}`}
		}
		return []string{`{"name":"v__who"}`}
	}
	g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{thief, v}, Prefixes: map[string]string{"thief": ""}}
	defer g.Close()
	left := func() (names []string) {
		for _, r := range g.Lists() {
			for _, x := range r.Rejected {
				if r.Server == "thief" {
					names = append(names, x.Name)
				}
			}
		}
		return names
	}
	g.Refresh(t.Context(), "thief", mcp.MethodListTools)
	shows(t, left(), "v__who")
	listNamesFor(t, g, mcp.MethodListTools, asksAll)
	shows(t, left(), "v__who v__ask")
}

// TestSharedURIHasAReason checks that a recorded call says why its URIs are changed.
func TestSharedURIHasAReason(t *testing.T) {
	server := func(name string) *fake {
		u := directedTaskServer(name).answers(map[string]string{mcp.MethodCallTool: `{"content":[{"type":"resource_link","name":"n","uri":"ui:\/\/same"},{"type":"\u0072esource","resource":{"uri":"ui://same"}}]}`})
		u.lists[mcp.MethodListTools] = []string{`{"name":"star","_meta":{"ui":{"resourceUri":"ui://same"}}}`}
		return u
	}
	g := merged(t, server("a"), server("b"))
	for name, want := range map[string]int{"a": 0, "b": 2} {
		c := modern(t, mcp.MethodCallTool, `{"name":"`+name+`__star"}`)
		c.Trail = trails.New(1 << 20)
		reply, err := g.Call(t.Context(), c, mcp.NoCaller{})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		_, entries, _ := c.Trail.Story()
		for _, e := range entries {
			for _, x := range e.Changes {
				if x.Why == mcp.WhyURI {
					got++
				}
			}
		}
		if got != want || strings.Count(result(t, reply), `"ui://dragoman-b/same"`) != want {
			t.Errorf("%s: %d changes of URIs, and the client gets %s", name, got, result(t, reply))
		}
	}
}
