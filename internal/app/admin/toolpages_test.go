package admin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
)

// TestFindTools checks the sort orders and the ranges of FindTools. FindTools must find the same tools
// as the API route.
func TestFindTools(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	r.ready("old")
	var want Tools
	if r.do("GET", "/api/v1/servers/old/tools?sort=name", "").into(t, &want); want.Total < 3 {
		t.Fatalf("%+v", want)
	}
	names := func(q ToolQuery) (out []string) {
		for _, x := range r.api.FindTools(q).Tools {
			out = append(out, x.Name)
		}
		return out
	}
	all := names(ToolQuery{Sort: "name"})
	if len(all) != want.Total || all[0] != want.Tools[0].Name {
		t.Errorf("%v", all)
	}
	down := names(ToolQuery{Sort: "-name"})
	if down[0] != all[len(all)-1] || down[len(down)-1] != all[0] {
		t.Errorf("%v and %v", all, down)
	}
	if got := names(ToolQuery{Sort: "name", From: 1, Limit: 2}); strings.Join(got, " ") != strings.Join(all[1:3], " ") {
		t.Errorf("%v of %v", got, all)
	}
	if got := names(ToolQuery{From: 1 << 30, Limit: -1}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := names(ToolQuery{Text: "greet", Sort: "odd"}); len(got) == 0 || len(got) == len(all) {
		t.Errorf("%v", got)
	}
	last := 1 << 30
	for _, x := range r.api.FindTools(ToolQuery{Sort: "-tokens"}).Tools {
		if x.Tokens > last {
			t.Errorf("%s needs %d tokens, after %d", x.Name, x.Tokens, last)
		}
		last = x.Tokens
	}
	one, bad := r.api.FindTool("old", "greet")
	if bad != nil || one.Name != "greet" || len(one.Definition) == 0 {
		t.Errorf("%+v %v", one, bad)
	}
	if _, bad := r.api.FindTool("old", "gret"); bad == nil || !strings.Contains(bad.Detail, "greet") {
		t.Errorf("%v", bad)
	}
	if _, bad := r.api.FindTool("nobody", "greet"); bad == nil {
		t.Error("no problem")
	}
}

// TestToolCosts checks which tools are included in the costs of each endpoint.
func TestToolCosts(t *testing.T) {
	t.Parallel()
	got := toolCosts(slices.Values([]*catalog.Item{
		{Server: "a", Name: "x", Tokens: 1},
		{Server: "a", Name: "y", Tokens: 10, Hidden: "another server has a tool with the same name"},
		{Server: "a", Name: "z", Tokens: 100, Hidden: "the configuration hides it", Everywhere: true},
		{Server: "a", Tokens: 1000, Hidden: "the item has no name"},
		{Server: "b", Name: "x", Tokens: 20},
	}))
	want := []ToolCost{{"/mcp", "", 2, 21}, {"/s/b/mcp", "b", 1, 20}, {"/s/a/mcp", "a", 2, 11}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

// TestToolsLine checks when search mode is suggested.
func TestToolsLine(t *testing.T) {
	for _, c := range []struct {
		cost *ToolsCost
		want string
	}{
		{nil, ""},
		{&ToolsCost{"list", manyTools, manyTokens, 700}, ""},
		{&ToolsCost{"list", manyTools + 1, 900, 700}, "tools.mode: auto"},
		{&ToolsCost{"list", 5, manyTokens + 1, 700}, "tools.mode: auto"},
		{&ToolsCost{"search", 5, 900, 700}, "search mode"},
	} {
		if got := c.cost.Line(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %s", c.cost, got)
		}
	}
}

// TestSecretsInSchemas checks that a server cannot show a secret of its configuration as the name or the
// type of an argument, whatever escapes it uses.
func TestSecretsInSchemas(t *testing.T) {
	r := serving(t, demoServer(t, "one", "legacy"))
	raw := []byte(`{"name":"x","inputSchema":{"type":"object","properties":{"is \u0068unter2-secret":{"enum":["hunter2-secret"],"default":"hunter2%2Dsecret"}},"required":["hunter2&#45;secret"]}}`)
	x := r.api.toolDetail(&catalog.Item{Server: "one", Name: "x", JSON: raw})
	b, err := json.Marshal(x)
	if err != nil || len(x.Arguments) != 1 || x.Arguments[0].Name != "is ***" || strings.Contains(string(b), "unter2") {
		t.Errorf("%s, %v", b, err)
	}
}
