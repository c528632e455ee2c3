package console

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// hostileTool is the path of the page of a tool whose name and server are hostile.
var hostileTool = "/servers/" + url.PathEscape(hostile) + "/tools/" + url.PathEscape(hostile)

func init() {
	scenes["tools-none"] = scenes["empty"]
	pagesOf["tools-none"] = []string{"/tools"}
	scenes["tools"] = func() scene {
		s := scene{report: admin.Report{Servers: []admin.Server{server("files", mcp.R20250618, 4), broken("browser", "it failed")}}}
		s.report.Servers[1].Lists = nil
		files := func(name, effect, state string, tokens int, hidden ...admin.Hidden) admin.ToolDetail {
			return admin.ToolDetail{
				Tool:  admin.Tool{Server: "files", Name: name, Offered: "files__" + name, Title: "A title", Description: "Does it.\nThen stops.", Signature: name + "(path, depth?) -> content", Effect: effect, State: state, Tokens: tokens, Hidden: hidden},
				About: "Does it.\nThen stops.", Returns: "content", Definition: json.RawMessage(`{"name":"` + name + `", "inputSchema":{"type":"object"}}`),
				Arguments: []admin.ToolArgument{{Name: "path", Type: "string", Required: true, About: "Where."}, {Name: "depth", Type: "integer", Default: "1"}},
			}
		}
		deny := admin.Hidden{Rule: "expose.tools.deny: delete_*", Why: "the configuration denies it"}
		mcpOnly := admin.Hidden{Endpoint: "/mcp", Why: `server "other" has a tool with this name and comes first`}
		both := []admin.Hidden{deny, deny}
		both[0].Endpoint, both[1].Endpoint = "/mcp", "/s/files/mcp"
		s.source.tools = []admin.ToolDetail{
			files("", "unknown", "invalid", 3, admin.Hidden{Endpoint: "/mcp", Why: "the tool has no name"}), files("delete_all", "destructive", "hidden", 40, both...),
			files("read", "read-only", "shown", 1200), files("write", "write", "hidden", 60, mcpOnly),
		}
		s.source.tools[2].Hints = []admin.ToolHint{{Name: "readOnlyHint", Text: "true"}}
		s.source.tools[3].Stale, s.source.tools[3].About, s.source.tools[3].Arguments = true, "", nil
		s.source.tools[3].Definition = json.RawMessage(`{"name":"write","description":"` + strings.Repeat("x", 20<<10) + `end"}`)
		s.source.costs = []admin.ToolCost{{Endpoint: "/mcp", Tools: 1, Tokens: 1200}, {Endpoint: "/s/files/mcp", Server: "files", Tools: 2, Tokens: 1260}}
		return s
	}
	pagesOf["tools"] = []string{"/tools", "/tools?q=read&server=files&sort=-tokens", "/tools?q=nothing", "/tools?page=9", "/servers/files/tools/read", "/servers/files/tools/delete_all", "/servers/files/tools/write", "/servers/files/tools/none", "/servers/none/tools/read"}
	scenes["tools-many"] = func() scene {
		s := scenes["many"]()
		for i := range 5000 {
			name, server := fmt.Sprintf("tool_%04d", i), s.report.Servers[i%200].Name
			s.source.tools = append(s.source.tools, admin.ToolDetail{Tool: admin.Tool{Server: server, Name: name, Offered: server + "__" + name, Description: strings.Repeat("word ", 60), Effect: "write", State: "shown", Tokens: 100}})
		}
		s.source.costs = []admin.ToolCost{{Endpoint: "/mcp", Tools: 5000, Tokens: 500_000}}
		for _, x := range s.report.Servers {
			s.source.costs = append(s.source.costs, admin.ToolCost{Endpoint: "/s/" + x.Name + "/mcp", Server: x.Name, Tools: 25, Tokens: 2500})
		}
		return s
	}
	pagesOf["tools-many"] = []string{"/tools?page=100"}
	scenes["tools-hostile"] = func() scene {
		s := scenes["hostile"]()
		hidden := []admin.Hidden{{Endpoint: "/mcp", Rule: hostile, Why: hostile}, {Endpoint: "/s/" + hostile + "/mcp", Why: hostile}}
		s.source.tools = []admin.ToolDetail{{
			Tool:      admin.Tool{Server: hostile, Name: hostile, Offered: hostile, Title: hostile, Description: hostile, Signature: hostile, State: "hidden", Effect: "write", Hidden: hidden, Hints: []admin.ToolHint{{Name: hostile, Text: hostile}}},
			Arguments: []admin.ToolArgument{{Name: hostile, Type: hostile, Default: hostile, About: hostile}}, About: hostile + "\n" + hostile, Returns: hostile, Definition: json.RawMessage(hostile),
		}}
		s.source.costs = []admin.ToolCost{{Endpoint: "/mcp"}, {Endpoint: "/s/" + hostile + "/mcp", Server: hostile, Tools: 1, Tokens: 1}}
		return s
	}
	pagesOf["tools-hostile"] = []string{"/tools", "/tools?q=" + url.QueryEscape(hostile), hostileTool}
}

// TestToolPages checks that each of 5,000 tools is on one page, and that no page lists more
// than 50.
func TestToolPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "tools-many")
		seen := map[string]bool{}
		for page := 1; page <= 100; page++ {
			_, body := h.ask("GET", fmt.Sprintf("/console/tools?sort=name&page=%d", page))
			rows := strings.Split(body, `<a class="mono" href="`)[1:]
			if len(rows) != pageRows {
				t.Fatalf("page %d has %d rows", page, len(rows))
			}
			for _, row := range rows {
				path, _, _ := strings.Cut(row, `"`)
				seen[path] = true
			}
			if next := strings.Contains(html.UnescapeString(body), fmt.Sprintf("page=%d\"", page+1)); next != (page < 100) {
				t.Errorf("page %d: the link to the next page: %v", page, next)
			}
		}
		if len(seen) != 5000 {
			t.Errorf("%d tools", len(seen))
		}
	})
}

// TestUnreadTool opens the page of a tool right after a start, when the server's list hasn't been read. The page has it read.
func TestUnreadTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "tools")
		at := slices.IndexFunc(h.source.tools, func(x admin.ToolDetail) bool { return x.Server == "files" && x.Name == "read" })
		h.source.unread = []admin.ToolDetail{h.source.tools[at]}
		h.source.tools = slices.Delete(slices.Clone(h.source.tools), at, at+1)
		if resp, body := h.ask("GET", "/console/servers/files/tools/read"); resp.StatusCode != 200 || h.source.unread != nil {
			t.Errorf("%d %s", resp.StatusCode, mainOf(body))
		}
		if resp, _ := h.ask("GET", "/console/servers/files/tools/none"); resp.StatusCode != 404 {
			t.Errorf("a tool that there isn't: %d", resp.StatusCode)
		}
	})
}

// TestAppOnlyTools checks that a tool that only the page of an app may call is marked.
func TestAppOnlyTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "tools")
		h.source.tools[2].AppOnly = true
		for path, want := range map[string]int{"/console/tools": 1, "/console/servers/files/tools/read": 1, "/console/servers/files/tools/write": 0} {
			if _, body := h.ask("GET", path); strings.Count(body, "for the app only") != want {
				t.Errorf("%s has %d marks, want %d", path, strings.Count(body, "for the app only"), want)
			}
		}
	})
}

// TestToolDefinition checks that a long definition is cut, and that the page shows all of it on
// request.
func TestToolDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "tools")
		if _, body := h.ask("GET", "/console/servers/files/tools/write"); strings.Contains(body, "xend") || !strings.Contains(body, `href="?all=1#definition"`) {
			t.Error("the definition is not cut")
		}
		if _, body := h.ask("GET", "/console/servers/files/tools/write?all=1"); !strings.Contains(body, "xend&#34;}") || strings.Contains(body, `href="?all=1`) {
			t.Error("the definition is not whole")
		}
		if _, body := h.ask("GET", "/console/servers/files/tools/read"); !strings.Contains(body, html.EscapeString(`{"name":"read", "inputSchema":{"type":"object"}}`)) {
			t.Error("the bytes of the definition have changed")
		}
	})
}

// TestInvisibleBehindTheCut checks that the list counts invisible characters that it does not
// show, because they come after the end of the shortened description.
func TestInvisibleBehindTheCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "tools")
		h.source.tools[2].About += strings.Repeat(" ", 500) + "\u200b\u202e"
		if _, body := h.ask("GET", "/console/tools"); strings.Count(body, `<span class="st bad">2 invisible</span>`) != 1 {
			t.Error("the list does not say it")
		}
	})
}

// TestCountInvisible checks which characters count as invisible.
func TestCountInvisible(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a b\n\tc\r\n": 0, "a\u200bb\u202e": 2, "\xff": 1, "e\u0301": 0, "☀\ufe0f": 0, hostile: 5} {
		if got := countInvisible(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// BenchmarkTools measures how long the server needs for a page of 5,000 tools.
func BenchmarkTools(b *testing.B) {
	h := stage(b, "tools-many")
	r := h.request("GET", "/console/tools?page=50", "Cookie", h.cookie)
	for b.Loop() {
		if w := newRecorder(h, r); w.StatusCode != 200 {
			b.Fatal(w.StatusCode)
		}
	}
}

// TestToolNamesInPaths checks that the list links to the page of each tool, even if a browser or a mux
// would change the plain name of the tool in a path.
func TestToolNamesInPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "tools")
		names := []string{".", "..", "a/b", "/", "../../x", "~..", "%2e%2e", `a\b`, "?q#f"}
		h.source.tools = nil
		for _, name := range names {
			h.source.tools = append(h.source.tools, admin.ToolDetail{Tool: admin.Tool{Server: "files", Name: name, Offered: name, State: "shown"}})
		}
		_, body := h.ask("GET", "/console/tools")
		rows := strings.Split(body, `<a class="mono" href="`)[1:]
		if len(rows) != len(names) {
			t.Fatalf("%d links", len(rows))
		}
		for i, row := range rows {
			path, _, _ := strings.Cut(row, `"`)
			resp, page := h.ask("GET", html.UnescapeString(path))
			if want := "<title>" + html.EscapeString(names[i]) + " · Dragoman</title>"; resp.StatusCode != 200 || !strings.Contains(page, want) {
				t.Errorf("%q: %s answers %d", names[i], path, resp.StatusCode)
			}
		}
	})
}

// TestWideTool checks that the page of a tool with 65,536 alternatives is small, and that the check
// of its arguments takes little time.
func TestWideTool(t *testing.T) {
	for name, branch := range map[string]string{"short": `{}`, "typed": `{"type":"string"}`, "objects": `{"type":"object","properties":{"k":{"const":"v"}}}`} {
		schema := `{"type":"object","properties":{"a":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(branch+",", 65_536), ",") + `]}}}`
		h := stage(t, "runs")
		h.source.tools[0].Definition = json.RawMessage(`{"name":"search","inputSchema":` + schema + `}`)
		began := time.Now()
		_, page := h.ask("GET", "/console/servers/tickets/tools/search")
		_, again := h.play("search", url.Values{"timeout": {"x"}, "json": {`{"a":{"k":1}}`}}.Encode())
		if took := time.Since(began); took > 30*time.Second || len(page) > 64<<10 || len(again) > 64<<10 || !strings.Contains(again, "timeout must be") {
			t.Errorf("%s: %s, pages of %d and %d bytes", name, took, len(page), len(again))
		}
	}
}
