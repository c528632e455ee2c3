//go:build unix

package daemon

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// TestAppOnlyToolsStayMarked lists the tools of two servers, one of each era, with strict clients of
// all revisions. A tool that hosts must not show to the model (SEP-1865, "Tool Visibility") keeps its
// mark at the merged endpoint and at those of the servers.
func TestAppOnlyToolsStayMarked(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "old", "fake strict-2025-06-18"), child(t, "new", "fake strict-2026-07-28")))
	for _, e := range strictClients {
		for at, names := range map[string]string{"": "old__redraw new__redraw", "/s/old": "redraw", "/s/new": "redraw"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := fake.OpenClient(ctx, e.profile, fake.Where{URL: r.base + at + e.path}, fake.ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var marked []string
			wholeList(t, ctx, c, mcp.MethodListTools)
			for params := "{}"; params != ""; {
				var page struct {
					Tools []struct {
						Name string
						Meta struct {
							UI struct{ Visibility json.RawMessage }
						} `json:"_meta"`
					}
					NextCursor *json.RawMessage
				}
				if err := json.Unmarshal([]byte(result(t, ctx, c, mcp.MethodListTools, params)), &page); err != nil {
					t.Fatal(err)
				}
				for _, x := range page.Tools {
					if string(x.Meta.UI.Visibility) == `["app"]` {
						marked = append(marked, x.Name)
					}
				}
				if params = ""; page.NextCursor != nil {
					params = `{"cursor":` + string(*page.NextCursor) + `}`
				}
			}
			if got := strings.Join(marked, " "); got != names {
				t.Errorf("%s at %s: the tools for the app only are %q, want %q", e.profile, at+e.path, got, names)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			for _, v := range c.Violations() {
				t.Errorf("%s at %s: the client saw: %s", e.profile, at+e.path, v)
			}
		}
	}
}
