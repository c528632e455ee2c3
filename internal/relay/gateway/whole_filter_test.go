package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
)

// substringFilter shows the servers in its field servers. Of their items, it shows those whose
// names contain one of its texts.
type substringFilter struct{ texts, servers []string }

func (f substringFilter) Shows(kind catalog.Kind, server, name string) bool {
	if !slices.Contains(f.servers, server) {
		return false
	}
	return kind == catalog.KindServer || slices.ContainsFunc(f.texts, func(s string) bool { return strings.Contains(name, s) })
}

// filterOf returns the filter of each principal of these tests. Unknown principals see
// everything.
func filterOf(who *identity.Principal) catalog.Filter {
	switch who.Key() {
	case "ada":
		return substringFilter{[]string{"one", "t"}, []string{"a", "b"}}
	case "bob":
		return substringFilter{[]string{"hid-"}, []string{"a"}}
	}
	return nil
}

// namesOf returns the names or URIs of a list, and fails the test if it has several pages.
func (c *caller) namesOf(method string) string {
	c.t.Helper()
	m := c.ask(method, "")
	var names []string
	for e := range m.At(m.ResultMember(mcp.LookupMethod(method).ListKey)).Elements() {
		for _, key := range []string{"uri", "uriTemplate", "name"} {
			if name, ok := e.Get(key).Text(); ok {
				names = append(names, name)
				break
			}
		}
	}
	return strings.Join(names, " ")
}

// TestTwoPrincipalsReadTwoLists checks that two principals with different filters read different
// lists and different counts from one gateway, for all combinations of client era and server era. A
// filter does not cause requests to servers. A request for a hidden item gets the same answer as a
// request for an unknown item, and does not reach a server.
func TestTwoPrincipalsReadTwoLists(t *testing.T) {
	want := map[string]map[string]string{
		"ada": {
			mcp.MethodListTools: "a__one a__two a__three b__other", mcp.MethodListPrompts: "a__one",
			mcp.MethodListResources: "x:one", mcp.MethodListTemplates: "y:one/{v}",
		},
		"bob": {
			mcp.MethodListTools: "a__hid-a a__hid-b", mcp.MethodListPrompts: "a__hid-a",
			mcp.MethodListResources: "x:hid-a", mcp.MethodListTemplates: "y:hid-a/{v}",
		},
		"cleo": {
			mcp.MethodListTools: "a__one a__hid-a a__two a__three a__hid-b a__four b__other", mcp.MethodListPrompts: "a__one a__hid-a",
			mcp.MethodListResources: "x:one x:hid-a", mcp.MethodListTemplates: "y:one/{v} y:hid-a/{v}",
		},
	}
	for _, serverIsModern := range []bool{false, true} {
		for _, clientIsModern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s server, %s client", eraOf(serverIsModern), eraOf(clientIsModern)), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					a, b := newListServer(serverIsModern, false), newListServer(serverIsModern, false)
					b.lists = map[string][]string{mcp.MethodListTools: {"other"}}
					w := build(t, a.testServer, b.testServer)
					merged := w.host.(*gateway.Merged)
					merged.Filter = filterOf
					first := w.callerAs("cleo", clientIsModern, `{}`)
					for method, names := range want["cleo"] {
						if got := first.namesOf(method); got != names {
							t.Errorf("the lists of cleo: %s: %s, want %s", method, got, names)
						}
					}
					time.Sleep(time.Second) // wait until the handshakes are complete
					a.asks()
					b.asks()
					for _, who := range []string{"ada", "bob"} {
						c := w.callerAs(who, clientIsModern, `{}`)
						for method, names := range want[who] {
							if got := c.namesOf(method); got != names {
								t.Errorf("%s: %s: %s, want %s", who, method, got, names)
							}
						}
						if n := a.asks() + b.asks(); n != 0 {
							t.Errorf("the lists of %s cost %d requests", who, n)
						}
						hidden := map[string]string{"ada": "hid-a", "bob": "one"}[who]
						for method, params := range map[string]string{
							mcp.MethodCallTool: `"name":"a__NAME","arguments":{}`, mcp.MethodGetPrompt: `"name":"a__NAME"`,
							mcp.MethodReadResource: `"uri":"x:NAME"`,
							mcp.MethodComplete:     `"ref":{"type":"ref/prompt","name":"a__NAME"},"argument":{"name":"a","value":""}`,
						} {
							refused := func(name string) string {
								m := c.ask(method, strings.ReplaceAll(params, "NAME", name))
								return strings.ReplaceAll(string(m.Error.Of(m.Raw)), name, "NAME")
							}
							if x, y := refused(hidden), refused("unknown"); x != y || x == "" {
								t.Errorf("%s: %s: the answer for a hidden item is %s, but for an unknown item it is %s", who, method, x, y)
							}
						}
						if n := a.asks() + b.asks(); n != 0 {
							t.Errorf("%d requests of %s for hidden items reached a server", n, who)
						}
						shown := map[string]string{"ada": "one", "bob": "hid-a"}[who]
						if m := c.ask(mcp.MethodCallTool, `"name":"a__`+shown+`","arguments":{}`); m.Kind != jsonrpc.Result {
							t.Errorf("%s: a call of a visible tool got %s", who, m.Raw)
						}
						a.asks()
					}
				})
			})
		}
	}
}

// TestTwoPrincipalsAtOneServer checks the same as TestTwoPrincipalsReadTwoLists at the endpoint
// of one server. This server gets a request for each page.
func TestTwoPrincipalsAtOneServer(t *testing.T) {
	for _, serverIsModern := range []bool{false, true} {
		for _, clientIsModern := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				a := newListServer(serverIsModern, false)
				w := build(t, a.testServer)
				w.host.(*gateway.Single).Filter = filterOf
				for who, want := range map[string]string{"ada": "one two three", "bob": "hid-a hid-b", "cleo": "one hid-a two three hid-b four"} {
					c := w.callerAs(who, clientIsModern, `{}`)
					if got := c.namesOf(mcp.MethodListTools); got != want {
						t.Errorf("%s: %s, want %s", who, got, want)
					}
					a.asks()
					hidden := map[string]string{"ada": "hid-a", "bob": "one"}[who]
					if hidden == "" {
						continue
					}
					if m := c.ask(mcp.MethodCallTool, `"name":"`+hidden+`","arguments":{}`); !strings.Contains(string(m.Raw), "Unknown tool") {
						t.Errorf("%s: %s", who, m.Raw)
					}
					if n := a.asks(); n != 0 {
						t.Errorf("%s: %d requests reached the server", who, n)
					}
				}
			})
		}
	}
}
