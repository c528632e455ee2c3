//go:build unix

package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/test/built"
)

// TestClientsFind lets SDKs find a tool among 500 at the address where clients search, read its definition and call it
// (TS18), with their own checks of what they get.
func TestClientsFind(t *testing.T) {
	if os.Getenv("DRAGOMAN_CLIENTS") == "" {
		t.Skip("set DRAGOMAN_CLIENTS=1 (or make clients) to run clients from npm")
	}
	r := prepare(t)
	text := "mcpServers:\n"
	for name, nouns := range map[string]string{
		"calendar": "calendar_event calendar reminder attendee room", "files": "file folder archive link permission", "git": "branch commit tag issue repository",
		"mail": "message draft thread label attachment", "shop": "order invoice refund customer product", "cluster": "pod node service secret volume",
		"notes": "note notebook page comment template", "data": "table row column query view", "people": "person team role contract leave", "media": "photo album video playlist caption",
	} {
		text += fmt.Sprintf("  %s: {url: %q}\n", name, manyTools(t, name, strings.Fields(nouns)))
	}
	base := built.ServeServers(t, r.dragoman, text) + "/find/mcp"
	t.Run("Go SDK", func(t *testing.T) {
		if err := goFinds(t.Context(), base); err != nil {
			t.Error(err)
		}
	})
	for _, c := range clients[:4] { // the others are commands, which start a process for each call
		t.Run(c.name, func(t *testing.T) {
			o := r.run(t, c, map[string]any{"server": latest, "url": base, "only": []string{"finding"}})
			if got := o.Steps["finding"]; got != "works" {
				t.Error(got)
			}
		})
	}
}

// manyTools starts a server with ten tools for each noun, and returns its URL.
func manyTools(t *testing.T, name string, nouns []string) string {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	for _, verb := range strings.Fields("list get create update delete move copy share export count") {
		for _, noun := range nouns {
			tool := verb + "_" + noun
			s.AddTool(&mcp.Tool{
				Name: tool, Description: fmt.Sprintf("Use it to %s a %s.", verb, strings.ReplaceAll(noun, "_", " ")),
				InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`),
			}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: tool + " " + string(r.Params.Arguments)}}}, nil
			})
		}
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	return web.URL
}

// goFinds is what steps.mjs does in finding, with the official Go SDK.
func goFinds(ctx context.Context, url string) error {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	var failed error
	call := func(name string, args map[string]any) string {
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
		if err != nil {
			failed = errors.Join(failed, err)
			return ""
		}
		b, err := json.Marshal(r.Content)
		failed = errors.Join(failed, err)
		return string(b)
	}
	if list, err := session.ListTools(ctx, nil); err != nil || len(list.Tools) != 4 {
		return fmt.Errorf("the tools are %v, %w", list, err)
	}
	const tool = "calendar__delete_calendar_event"
	for _, x := range []struct {
		name, has string
		args      map[string]any
	}{
		{"search_tools", `8 of 500 tools`, map[string]any{"query": "delete calendar event"}},
		{"search_tools", `\n` + tool + "(id)", map[string]any{"query": "delete calendar event"}},
		{"describe_tools", "inputSchema", map[string]any{"names": []string{tool}}},
		{"call_tool", "arguments.id is missing", map[string]any{"name": tool}},
		{"call_tool", "delete_calendar_event {", map[string]any{"name": tool, "arguments": map[string]any{"id": 7}}},
	} {
		if got := call(x.name, x.args); !strings.Contains(got, x.has) {
			failed = errors.Join(failed, fmt.Errorf("%s: %.500s", x.name, got))
		}
	}
	return failed
}
