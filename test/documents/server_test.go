package documents

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// playServer is the variable that makes the test binary run as a server on stdio.
const playServer = "DRAGOMAN_DOCUMENTS_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(playServer) != "" {
		_ = exampleServer().Run(context.Background(), &mcp.StdioTransport{}) // returns when the client disconnects
		return
	}
	os.Exit(m.Run())
}

// exampleServer returns a server with the tools, prompts and resources that the examples of the
// documents use.
func exampleServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1.0.0"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"Paris"}}}, nil
		},
	})
	answer := func(text string) mcp.ToolHandler {
		return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		}
	}
	for name, schema := range map[string]string{
		"search":       `{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}`,
		"add":          `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`,
		"echo":         `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
		"create_issue": `{"type":"object","properties":{"title":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}}},"required":["title"]}`,
		"read_file":    `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`,
		"draw":         `{"type":"object","properties":{"title":{"type":"string"}}}`,
		"screenshot":   `{"type":"object","properties":{"url":{"type":"string"}}}`,
	} {
		s.AddTool(&mcp.Tool{Name: name, Description: "An example.", InputSchema: json.RawMessage(schema)}, answer(name+" is done"))
	}
	s.AddTool(&mcp.Tool{Name: "start", Description: "Asks where to deploy to.", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			got, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Deploy where?", RequestedSchema: json.RawMessage(
				`{"type":"object","properties":{"environment":{"type":"string"},"confirm":{"type":"boolean"}},"required":["environment","confirm"]}`)})
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "the form was answered: " + got.Action}}}, nil
		})
	s.AddResource(&mcp.Resource{URI: "file:///notes/today.md", Name: "today", MIMEType: "text/markdown"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "file:///notes/today.md", Text: "# Today\n"}}}, nil
		})
	s.AddResource(&mcp.Resource{URI: "demo://logo.png", Name: "logo", MIMEType: "image/png"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "demo://logo.png", MIMEType: "image/png", Blob: []byte("PNG")}}}, nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "file:///{+path}", Name: "files"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "# A file\n"}}}, nil
		})
	for _, name := range []string{"args-prompt", "simple-prompt"} {
		s.AddPrompt(&mcp.Prompt{Name: name, Arguments: []*mcp.PromptArgument{{Name: "city"}}},
			func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "The weather?"}}}}, nil
			})
	}
	s.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "language"}}},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Review this."}}}}, nil
		})
	return s
}

// serveExample serves exampleServer over HTTP and returns its URL.
func serveExample(t *testing.T) string {
	s := exampleServer()
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web.URL + "/mcp"
}
