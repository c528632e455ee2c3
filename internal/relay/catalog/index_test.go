package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// manyLists returns the lists of 200 servers with 25 tools each.
func manyLists() (out []Items) {
	for s := range 200 {
		x := Items{Server: fmt.Sprintf("server-%03d", s), Have: true, Version: uint64(s + 1)}
		for i := range 25 {
			x.Shown = append(x.Shown, fmt.Appendf(nil, `{"name":"tool_%02d_of_%d","title":"Tool %d","description":"Searches tickets by title, text and comments of project %d. Returns at most 100 results, the newest first, with their labels and their authors.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Keywords or a quoted phrase."},"status":{"type":"string","enum":["open","closed","any"]},"limit":{"type":"integer","minimum":1,"maximum":100},"labels":{"type":"array","items":{"type":"string"}}},"required":["query"]},"annotations":{"readOnlyHint":true}}`, i, s, i, s))
		}
		out = append(out, x)
	}
	return out
}

// nothing is a merged list without items.
func nothing() *mergedList {
	return &mergedList{method: mcp.MethodListTools, kind: KindTool, first: map[string]int{}}
}

// TestIndexIsKept checks that, after a change of one list, only the tools of this list are read again
// into an index of 5,000 tools.
func TestIndexIsKept(t *testing.T) {
	l, items, c := nothing(), manyLists(), &Catalog{}
	var x index
	first := x.of(c, l, items)
	parts := x.parts
	kept := func() (n int) {
		for server, p := range x.parts {
			if parts[server] == p {
				n++
			}
		}
		return n
	}
	if len(first) != 5000 || !slices.IsSortedFunc(first, func(a, b *Item) int { return strings.Compare(a.Key, b.Key) }) {
		t.Fatalf("%d tools", len(first))
	}
	if again := x.of(c, l, items); &again[0] != &first[0] {
		t.Error("it was made again")
	}
	if x.of(c, nothing(), items); kept() != 200 {
		t.Errorf("after a merge, the tools of %d servers are kept", kept())
	}
	items[7].Version, items[7].Shown = 1000, items[7].Shown[:5]
	if changed := x.of(c, l, items); len(changed) != 4980 || kept() != 199 {
		t.Errorf("%d tools, those of %d servers are kept", len(changed), kept())
	}
}

func BenchmarkIndex(b *testing.B) {
	c, items := &Catalog{}, manyLists()
	for b.Loop() {
		var x index
		x.of(c, nothing(), items)
	}
}

// TestSearchOfOperators checks that operators find all tools, also those that no client sees, and that what is secret
// of a server isn't looked at.
func TestSearchOfOperators(t *testing.T) {
	tools := func(raw ...string) map[string][]string { return map[string][]string{mcp.MethodListTools: raw} }
	hello := mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)}
	c := catalogOf(t, &source{"gh", hello, tools(
		`{"name":"star_repo","description":"Marks a repository. The key is hunter22."}`, `{"name":"unstar_repo","description":"Takes a mark away."}`, `{"name":"bad","description":"A repository, too."}`,
	)}, &source{"b", hello, tools(`{"name":"star_map","description":"Shows the sky."}`)})
	c.Vet = judge(map[string]int{})
	c.Clean = func(string) func(string) string {
		return func(text string) string { return strings.ReplaceAll(text, "hunter22", "***") }
	}
	if _, err := page(t, c.View(&mcp.ClientInfo{}, nil), mcp.MethodListTools, ""); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"gh__star_repo": "star_repo", "sky": "star_map", "hunter22": "", "nothing": "", "repository": "bad star_repo"} {
		var got []string
		for _, x := range c.Search(query) {
			got = append(got, x.Name)
		}
		if query == "repository" {
			slices.Sort(got)
			got = slices.DeleteFunc(got, func(name string) bool { return name == "unstar_repo" })
		} else if len(got) > 1 {
			got = got[:1]
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %q, want %q", query, s, want)
		}
	}
}

// TestItemsOfSomeClients checks that the index has the tools that a server shows only to clients with
// certain capabilities. The index names these capabilities if the lists show which ones they are.
func TestItemsOfSomeClients(t *testing.T) {
	tools := func(names ...string) (out [][]byte) {
		for _, n := range names {
			out = append(out, fmt.Appendf(nil, `{"name":%q}`, n))
		}
		return out
	}
	other := func(version uint64, shown [][]byte, caps ...string) OtherList {
		return OtherList{Capabilities: caps, Version: version, Shown: shown}
	}
	text := func(list Items) string {
		var x index
		var out []string
		l := nothing()
		l.add(item{offered: "s__x", server: "s", target: Target{Name: "x"}})
		for _, i := range x.of(&Catalog{}, l, []Items{list}) {
			if i.Hidden != "" {
				t.Errorf("%s is hidden: %s", i.Name, i.Hidden)
			}
			text := i.Name
			if i.Needs != nil {
				text += fmt.Sprint(" ", i.Needs)
			}
			out = append(out, text)
		}
		return strings.Join(out, ", ")
	}
	for want, others := range map[string][]OtherList{
		"x":                                      nil,
		"ask [elicitation roots], x":             {other(2, tools("x", "ask"), "elicitation", "roots")},
		"ask [elicitation], x":                   {other(2, tools("x", "ask"), "elicitation", "roots"), other(3, tools("x"), "roots")},
		"ask [], x":                              {other(2, tools("x", "ask"), "elicitation"), other(3, tools("x"), "elicitation", "roots")},
		"ask [elicitation], think [sampling], x": {other(2, tools("x", "ask"), "elicitation"), other(3, tools("think", "x", "ask"), "elicitation", "sampling")},
	} {
		if s := text(Items{Server: "s", Have: true, Version: 1, Shown: tools("x"), Others: others}); s != want {
			t.Errorf("got %s, want %s", s, want)
		}
	}
	// Nobody has read the list for clients without capabilities.
	for want, others := range map[string][]OtherList{
		"ask, x":                              {other(2, tools("x", "ask"), "elicitation")},
		"ask [elicitation], x":                {other(2, tools("x", "ask"), "elicitation"), other(3, tools("x"), "sampling")},
		"ask [elicitation], think [sampling]": {other(2, tools("ask"), "elicitation"), other(3, tools("think"), "sampling")},
	} {
		if s := text(Items{Server: "s", Others: others}); s != want {
			t.Errorf("got %s, want %s", s, want)
		}
	}
}

// TestAllSaysWhyItemsAreHidden checks that the index has every item of every server, and why no client
// sees it, at one endpoint or at both.
func TestAllSaysWhyItemsAreHidden(t *testing.T) {
	tools := func(raw ...string) map[string][]string { return map[string][]string{mcp.MethodListTools: raw} }
	hello := mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)}
	c := catalogOf(t,
		&source{"a", hello, tools(`{"name":"same"}`, `{"name":"same"}`, `{"name":"secret"}`, `{"name":"bad"}`, `{"title":"?"}`)},
		&source{"b", hello, tools(`{"name":"same"}`, `{"name":"new"}`)},
		&source{"c", hello, tools(`{"name":"b__taken"}`)},
	)
	c.Prefixes = map[string]string{"a": "x", "b": "b", "c": ""}
	c.Expose = showing(func(name string) bool { return name != "secret" })
	c.Vet = judge(map[string]int{})
	if _, err := page(t, c.View(&mcp.ClientInfo{}, nil), mcp.MethodListTools, ""); err != nil {
		t.Fatal(err)
	}
	var out []string
	for x := range c.All(KindTool) {
		line := x.Server + " " + x.Offered + ": " + x.Hidden
		if x.Everywhere {
			line += " (everywhere)"
		}
		out = append(out, line)
	}
	want := []string{
		`a : the item has no name`,
		`b b__new: `, `b b__same: `,
		`c b__taken: the name begins with the prefix of server "b", so only that server may use it`,
		`a x__bad: it is bad (everywhere)`, `a x__same: `, `a x__same: the server lists this name twice; clients see only the first item`,
		`a x__secret: the configuration hides it (everywhere)`,
	}
	if !slices.Equal(out, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(out, "\n"), strings.Join(want, "\n"))
	}
	for x := range c.All(KindTool) {
		if x.Name == "new" && !strings.Contains(string(x.JSON), `"seen":true`) {
			t.Errorf("%s is %s", x.Name, x.JSON)
		}
	}
}

// TestAllHasNoItemsOfOnePrincipal checks that operators do not see what a server shows to somebody with
// credentials of its own.
func TestAllHasNoItemsOfOnePrincipal(t *testing.T) {
	_, c := newSigned(t)
	for _, who := range []string{"ann", ""} {
		toolsFor(t, c, who, `{"elicitation":{}}`)
		toolsFor(t, c, who, "")
	}
	for x := range c.All(KindTool) {
		if x.Name != "of_" {
			t.Errorf("the index has %s", x.Name)
		}
	}
}

// showing is a filter that shows the items whose names it returns true for, and all servers.
type showing func(name string) bool

func (f showing) Shows(kind Kind, _, name string) bool { return kind == KindServer || f(name) }
