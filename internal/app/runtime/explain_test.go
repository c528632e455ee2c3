package runtime

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestDecide compares what Decide says of all tools and prompts with what clients list, and names what decides.
func TestDecide(t *testing.T) {
	h := newRuledHouse(t)
	h.Apply(event.DefaultProject, snapshotOf(t, `
dragoman:
  servers: {old: {expose: {tools: {deny: ["a*"]}}}, new: {expose: {prompts: {deny: [greet]}}}}
  policy:
    - {match: "old/echo", who: {people: [Ann]}, do: confirm}
    - {match: "*/echo", do: deny}
    - {match: "new/*", who: {people: [bob]}, do: deny}
`+h.text))
	p := h.Default()
	for name, want := range map[string]string{
		"ann": "confirm rule default 1 old/echo; deny rule default 2 */echo; deny expose default 0 servers.old.expose.tools; deny expose default 0 servers.new.expose.prompts",
		"bob": "deny rule default 2 */echo; deny rule default 2 */echo; deny expose default 0 servers.old.expose.tools; deny expose default 0 servers.new.expose.prompts",
	} {
		who, c := p.Asker(identity.Named(name)), h.client(t, name, mcp.Latest, "", func() {})
		var got []string
		for _, x := range []struct {
			kind         catalog.Kind
			server, item string
		}{{catalog.KindTool, "old", "echo"}, {catalog.KindTool, "new", "echo"}, {catalog.KindTool, "old", "ask"}, {catalog.KindPrompt, "new", "greet"}} {
			d := p.Decide(who, x.kind, x.server, x.item)
			number := 0
			if d.Rule != nil {
				number = d.Rule.Number
			}
			got = append(got, fmt.Sprint(d.Do, " ", d.By, " ", d.Of, " ", number, " ", d.Match+d.Path))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: %s", name, text)
		}
		for kind, method := range map[catalog.Kind]string{catalog.KindTool: mcp.MethodListTools, catalog.KindPrompt: mcp.MethodListPrompts} {
			list := jsonrpc.ValueOf([]byte(said(t, c, method, "")))
			var listed, allowed []string
			for item := range jsonrpc.Elements(list.Raw(), jsonrpc.Find(list.Raw(), jsonrpc.Whole(list.Raw()), strings.TrimSuffix(method, "/list"))) {
				shown, _ := jsonrpc.Text(list.Raw(), jsonrpc.Find(list.Raw(), item, "name"))
				listed = append(listed, shown)
			}
			for x := range p.Lists().All(kind) {
				if p.Decide(who, kind, x.Server, x.Name).Do.String() != "deny" && len(x.Needs) == 0 {
					allowed = append(allowed, x.Offered)
				}
			}
			slices.Sort(listed)
			slices.Sort(allowed)
			if allowed = slices.Compact(allowed); !slices.Equal(listed, allowed) || kind == catalog.KindTool && len(listed) == 0 {
				t.Errorf("%s lists %q, and may use %q", name, listed, allowed)
			}
		}
	}
}
