package admin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// manyItems returns the lists of 200 servers with 25 tools each.
func manyItems() (out []catalog.Items) {
	for s := range 200 {
		x := catalog.Items{Server: fmt.Sprintf("server-%03d", s), Have: true, Version: uint64(s + 1)}
		for i := range 25 {
			x.Shown = append(x.Shown, fmt.Appendf(nil, `{"name":"tool_%02d_of_%d","title":"Tool %d","description":"Searches tickets by title, text and comments of project %d. Returns at most 100 results, the newest first, with their labels and their authors.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Keywords or a quoted phrase."},"status":{"type":"string","enum":["open","closed","any"]},"limit":{"type":"integer","minimum":1,"maximum":100},"labels":{"type":"array","items":{"type":"string"}}},"required":["query"]},"annotations":{"readOnlyHint":true}}`, i, s, i, s))
		}
		out = append(out, x)
	}
	return out
}

func offeredForTest(server, name string) string { return server + "__" + name }

func unmasked(string) func(string) string { return func(text string) string { return text } }

// TestIndexIsKept checks that, after a change of one list, the API reads only the tools of this
// list again into its index of 5,000 tools.
func TestIndexIsKept(t *testing.T) {
	var x toolIndex
	items, snapshot := manyItems(), config.Default()
	read := 0
	count := func(server, name string) string {
		read++
		return offeredForTest(server, name)
	}
	first := x.of(items, snapshot, count, unmasked)
	if len(first) != 5000 || read != 5000 || !slices.IsSortedFunc(first, func(a, b indexed) int { return strings.Compare(a.sorted, b.sorted) }) {
		t.Fatalf("%d tools, %d were read", len(first), read)
	}
	if again := x.of(items, snapshot, count, unmasked); read != 5000 || &again[0] != &first[0] {
		t.Error("it was made again")
	}
	items[7].Version, items[7].Shown = 1000, items[7].Shown[:5]
	if changed := x.of(items, snapshot, count, unmasked); len(changed) != 4980 || read != 5005 {
		t.Errorf("%d tools, %d were read", len(changed), read)
	}
	if x.of(items, config.Default(), count, unmasked); read != 5005+4980 {
		t.Errorf("under another configuration: %d were read", read)
	}
	q := toolQuery{words: []string{"tool_03_of_42"}}
	if found, cost := q.find(first); len(found) != 1 || found[0].Server != "server-042" || cost == 0 {
		t.Errorf("%d found", len(found))
	}
}

func BenchmarkToolSearch(b *testing.B) {
	var x toolIndex
	items, snapshot := manyItems(), config.Default()
	for b.Loop() {
		q := toolQuery{words: []string{"tickets", "comments"}}
		if found, _ := q.find(x.of(items, snapshot, offeredForTest, unmasked)); len(found) != 5000 {
			b.Fatal(len(found))
		}
	}
}

func BenchmarkToolIndex(b *testing.B) {
	items, snapshot := manyItems(), config.Default()
	for b.Loop() {
		var x toolIndex
		x.of(items, snapshot, offeredForTest, unmasked)
	}
}

// TestToolsOfSomeClients checks that the index has the tools that a server shows only to clients
// with certain capabilities. The index names these capabilities if the lists show which ones they are.
func TestToolsOfSomeClients(t *testing.T) {
	tools := func(names ...string) (out [][]byte) {
		for _, n := range names {
			out = append(out, fmt.Appendf(nil, `{"name":%q}`, n))
		}
		return out
	}
	other := func(version uint64, shown [][]byte, caps ...string) catalog.OtherList {
		return catalog.OtherList{Capabilities: caps, Version: version, Shown: shown}
	}
	for want, others := range map[string][]catalog.OtherList{
		"x":                                      nil,
		"ask [elicitation roots], x":             {other(2, tools("x", "ask"), "elicitation", "roots")},
		"ask [elicitation], x":                   {other(2, tools("x", "ask"), "elicitation", "roots"), other(3, tools("x"), "roots")},
		"ask [], x":                              {other(2, tools("x", "ask"), "elicitation"), other(3, tools("x"), "elicitation", "roots")},
		"ask [elicitation], think [sampling], x": {other(2, tools("x", "ask"), "elicitation"), other(3, tools("think", "x", "ask"), "elicitation", "sampling")},
	} {
		var x toolIndex
		list := catalog.Items{Server: "s", Have: true, Version: 1, Shown: tools("x"), Others: others}
		if s := indexedText(x.of([]catalog.Items{list}, config.Default(), offeredForTest, unmasked)); s != want {
			t.Errorf("got %s, want %s", s, want)
		}
	}
	// Nobody has read the list for clients without capabilities.
	for want, others := range map[string][]catalog.OtherList{
		"ask, x":                              {other(2, tools("x", "ask"), "elicitation")},
		"ask [elicitation], x":                {other(2, tools("x", "ask"), "elicitation"), other(3, tools("x"), "sampling")},
		"ask [elicitation], think [sampling]": {other(2, tools("ask"), "elicitation"), other(3, tools("think"), "sampling")},
	} {
		var x toolIndex
		if s := indexedText(x.of([]catalog.Items{{Server: "s", Others: others}}, config.Default(), offeredForTest, unmasked)); s != want {
			t.Errorf("got %s, want %s", s, want)
		}
	}
}

// indexedText returns the names of tools, each with its Needs.
func indexedText(all []indexed) string {
	var out []string
	for _, i := range all {
		text := i.Name
		if i.Needs != nil {
			text += fmt.Sprint(" ", i.Needs)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
