package runtime

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// onlyServer shows one server, and of its tools only echo.
type onlyServer string

func (s onlyServer) Shows(kind catalog.Kind, server, name string) bool {
	return server == string(s) && (kind != catalog.KindTool || name == "echo")
}

// TestReach checks what ann sees who may use one server of the project shop, with a client of every
// revision: nothing else is in her lists, and everything else looks as if it did not exist. When she may
// use another server instead, her running session notices at the next request. Bob, who may use
// everything, is the innocent one.
func TestReach(t *testing.T) {
	s := newStreet(t, nil)
	var annsServer atomic.Value
	s.opts.Reach = func(who *identity.Principal, project string) (catalog.Filter, bool) {
		switch {
		case who.Key() == "bob":
			return nil, true
		case who.Key() == "ann" && project == "shop":
			return annsServer.Load().(onlyServer), true
		}
		return nil, false
	}
	for _, revision := range mcp.Revisions() {
		t.Run(revision.String(), func(t *testing.T) {
			annsServer.Store(onlyServer("old"))
			leaf := "/mcp"
			if !revision.Can(mcp.StreamableHTTP) {
				leaf = "/sse"
			}
			open := func(who, path string) *fake.Client {
				c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), fake.Where{URL: s.sites[who].base + path + leaf}, fake.ClientOptions{})
				if err != nil {
					t.Fatalf("%s at %s: %v", who, path, err)
				}
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			ann, bob := open("ann", "/p/shop"), open("bob", "/p/shop")
			sees := func(c *fake.Client, who string, old, new bool) {
				t.Helper()
				r, err := c.Call(t.Context(), mcp.MethodListTools, nil, fake.CallOptions{})
				if err != nil {
					t.Fatal(err)
				}
				list := string(r.Result)
				if strings.Contains(list, `"old__`) != old || strings.Contains(list, `"new__`) != new {
					t.Errorf("%s sees %s", who, list)
				}
				for name, want := range map[string]bool{"old__echo": old, "new__echo": new} {
					if got := mayCall(t.Context(), c, name); got != want {
						t.Errorf("%s calls %s: %t", who, name, got)
					}
				}
			}
			sees(ann, "ann", true, false)
			sees(bob, "bob", true, true)
			single := open("ann", "/p/shop/s/old")
			if !mayCall(t.Context(), single, "echo") || mayCall(t.Context(), single, "add") {
				t.Error("ann, at her server, calls another tool than echo")
			}
			if !mayCall(t.Context(), open("bob", "/p/shop/s/old"), "add") {
				t.Error("bob does not call another tool than echo")
			}
			annsServer.Store(onlyServer("new"))
			sees(ann, "ann, later", false, true)
			sees(bob, "bob, later", true, true)
		})
	}
	annsServer.Store(onlyServer("old"))
	ann := s.sites["ann"]
	for path, like := range map[string]string{
		"/p/shop/s/new/mcp": "/p/shop/s/NAME/mcp", "/p/shop/s/new/sse": "/p/shop/s/NAME/sse",
		"/mcp": "/p/NAME/mcp", "/sse": "/p/NAME/sse", "/s/old/mcp": "/p/NAME/s/old/mcp",
	} {
		other := strings.Replace(like, "NAME", "not", 1)
		got := strings.Replace(ann.answered("GET", path), `"`+path, `"`+other, 1)
		if got = strings.ReplaceAll(got, `"new"`, `"not"`); withoutLength(got) != withoutLength(ann.answered("GET", other)) {
			t.Errorf("%s: %s, want what %s says: %s", path, got, other, ann.answered("GET", other))
		}
	}
	if who := s.Project(event.DefaultProject).filter(identity.Local); who == nil || who.Shows(catalog.KindServer, "old", "") {
		t.Error("the local user sees something of a project where he has no role")
	}
}

// withoutLength removes the length of an answer, which may depend on the path.
func withoutLength(answer string) string {
	before, after, _ := strings.Cut(answer, "Content-Length:[")
	_, after, _ = strings.Cut(after, "]")
	return before + after
}

// mayCall reports whether a tool answers a call.
func mayCall(ctx context.Context, c *fake.Client, name string) bool {
	r, err := c.Call(ctx, mcp.MethodCallTool, []byte(`{"name":`+string(jsonrpc.AppendQuote(nil, name))+`,"arguments":{"text":"x","a":1,"b":2}}`), fake.CallOptions{})
	return err == nil && r.Err == nil && !strings.Contains(string(r.Result), `"isError":true`)
}

// TestReachOfNobody checks that without Options.Reach only the local user may use anything.
func TestReachOfNobody(t *testing.T) {
	r := &Runtime{}
	for who, want := range map[*identity.Principal]bool{nil: false, identity.Local: true, identity.Named("local"): false, {}: false} {
		if _, ok := r.reach(who, event.DefaultProject); ok != want {
			t.Errorf("%v may use something: %t", who, ok)
		}
	}
}
