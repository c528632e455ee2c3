package admin

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
)

// TestFindItems checks the pages of a list, and a search in the list.
func TestFindItems(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	r.ready("old")
	kinds := 0
	for _, method := range []string{mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListPrompts} {
		r.api.ReadItems(t.Context(), "old", method)
		all := r.api.FindItems(ItemQuery{Server: "old", Method: method})
		if !all.Read {
			t.Errorf("%s was not read", method)
		}
		if all.Total != len(all.Items) {
			t.Errorf("%s: %d of %d items", method, len(all.Items), all.Total)
		}
		if all.Total == 0 {
			continue
		}
		kinds++
		first := all.Items[0]
		if got := r.api.FindItems(ItemQuery{Server: "old", Method: method, Text: first.Name + " " + first.URI, Limit: 1}); got.Total == 0 || got.Items[0].Name != first.Name {
			t.Errorf("%s: a search for %q finds %+v", method, first.Name, got)
		}
		if got := r.api.FindItems(ItemQuery{Server: "old", Method: method, Text: "no such words"}); got.Total != 0 || got.Items != nil || !got.Read {
			t.Errorf("%s: %+v", method, got)
		}
		if got := r.api.FindItems(ItemQuery{Server: "old", Method: method, From: all.Total}); got.Total != all.Total || got.Items != nil {
			t.Errorf("%s: behind the end: %+v", method, got)
		}
	}
	if kinds == 0 {
		t.Error("the demo server offers neither resources nor prompts")
	}
	r.api.ReadItems(t.Context(), "none", mcp.MethodListPrompts)
	if got := r.api.FindItems(ItemQuery{Server: "none", Method: mcp.MethodListPrompts}); got.Read || got.Total != 0 {
		t.Errorf("a server that does not exist: %+v", got)
	}
}
