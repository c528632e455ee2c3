package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/catalog"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// extended returns a server that declares extensions.
func extended(name, extensions string) *fake {
	return &fake{name: name, hello: mcp.ServerInfo{Revision: mcp.R20260728, Capabilities: []byte(`{"resources":{},"extensions":` + extensions + `}`)}}
}

type without struct{ server string }

func (f without) Shows(_ catalog.Kind, server, _ string) bool { return server != f.server }

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
			reached:  map[string]string{"skills/list": "a", "skills/get": "a", "resources/directory/read": "a", "acme/do": "b"},
			refusals: map[string]string{},
		},
		{
			name:     "several servers",
			all:      []*fake{extended("a", `{"com.acme/x":{},"io.modelcontextprotocol/skills":{}}`), extended("b", `{"org.other/y":{},"io.modelcontextprotocol/skills":{}}`)},
			want:     "",
			leftOut:  "a, b",
			refusals: map[string]string{"acme/do": "a, b", "skills/list": "a, b"},
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

// TestPageOfTool reads the page of a tool that no server lists.
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
	}}
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
		{nil, "ui://page", "b"},
		{nil, "ui://flat", "c"},
		{nil, "ui://same", "Resource not found"},
		{without{"d"}, "ui://same", "a"},
		{without{"b"}, "ui://page", "Resource not found"},
		{nil, "ui://other", "Resource not found"},
	} {
		if got := owner(tt.show, tt.uri); !strings.Contains(got, tt.want) {
			t.Errorf("%s, %v: %s, want %s", tt.uri, tt.show, got, tt.want)
		}
	}
}
