//go:build unix

package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	r.sdksFind(t, base, func(string) task {
		return task{"delete calendar event", 500, "calendar__delete_calendar_event", map[string]any{"id": 7}, "id", "delete_calendar_event {"}
	})
}

// task is what a client finds and calls.
type task struct {
	Query     string         `json:"query"`
	Tools     int            `json:"tools"` // among at least so many
	Tool      string         `json:"tool"`  // comes first
	Arguments map[string]any `json:"arguments"`
	Needs     string         `json:"needs"`  // an argument without which nothing is called
	Answer    string         `json:"answer"` // is in the result
}

// sdksFind lets each SDK do its task.
func (r *rig) sdksFind(t *testing.T, url string, of func(client string) task) {
	t.Run("Go SDK", func(t *testing.T) {
		if err := goFinds(t.Context(), url, of("Go SDK")); err != nil {
			t.Error(err)
		}
	})
	for _, c := range clients[:4] { // the others are commands, which start a process for each call
		t.Run(c.name, func(t *testing.T) {
			o := r.run(t, c, map[string]any{"server": latest, "url": url, "only": []string{"finding"}, "task": of(c.name)})
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
func goFinds(ctx context.Context, url string, do task) error {
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
	wrong := maps.Clone(do.Arguments)
	delete(wrong, do.Needs)
	for _, x := range []struct {
		name, has string
		args      map[string]any
	}{
		{"search_tools", `\n` + do.Tool + "(", map[string]any{"query": do.Query}},
		{"describe_tools", "inputSchema", map[string]any{"names": []string{do.Tool}}},
		{"call_tool", "arguments." + do.Needs + " is missing", map[string]any{"name": do.Tool, "arguments": wrong}},
		{"call_tool", do.Answer, map[string]any{"name": do.Tool, "arguments": do.Arguments}},
	} {
		if got := call(x.name, x.args); !strings.Contains(got, x.has) {
			failed = errors.Join(failed, fmt.Errorf("%s: %.500s", x.name, got))
		}
	}
	return failed
}
