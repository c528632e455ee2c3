package interop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// mcpGo is github.com/mark3labs/mcp-go.
type mcpGo struct{}

func (mcpGo) serveStdio(era string, wit observer) error {
	s := server.NewStdioServer(mcpGoServer(era, wit))
	s.SetErrorLogger(log.New(io.Discard, "", 0))
	s.SetContextFunc(func(ctx context.Context) context.Context {
		return server.WithSupportedProtocolVersions(ctx, versions(era))
	})
	err := s.Listen(context.Background(), os.Stdin, os.Stdout)
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (mcpGo) serveHTTP(era, transport string, wit observer) (http.Handler, func()) {
	s := mcpGoServer(era, wit)
	if transport == events {
		h := server.NewSSEServer(s, server.WithSSEEndpoint("/"), server.WithMessageEndpoint("/messages"))
		return h, h.CloseSessions
	}
	h := server.NewStreamableHTTPServer(s, server.WithStateful(era != modern && era != onlyModern),
		server.WithStreamableHTTPProtocolVersions(versions(era)...))
	return h, func() { h.CloseSessions(context.Background()) }
}

type completer struct{}

func (completer) CompletePromptArgument(_ context.Context, _ string, a mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	return &mcp.Completion{Values: completions(a.Value)}, nil
}

func mcpGoServer(era string, wit observer) *server.MCPServer {
	hooks := &server.Hooks{}
	if era == onlyModern {
		hooks.AddOnRequestInitialization(func(_ context.Context, _ any, message any) error {
			var m struct{ Method string }
			if raw, ok := message.(json.RawMessage); ok && json.Unmarshal(raw, &m) == nil && m.Method == "initialize" {
				return errors.New("there is no handshake here")
			}
			return nil
		})
	}
	s := server.NewMCPServer("mcp-go-server", "1",
		server.WithHooks(hooks), server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true), server.WithPromptCapabilities(true),
		server.WithElicitation(), server.WithRoots(), server.WithCompletions(), server.WithPromptCompletionProvider(completer{}))
	s.EnableSampling()
	add := func(name string, h server.ToolHandlerFunc) {
		s.AddTool(mcp.NewToolWithRawSchema(name, "the tool "+name, json.RawMessage(`{"type":"object"}`)), h)
	}
	add("echo", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		out := mcp.NewToolResultText(string(r.Params.RawArguments))
		out.StructuredContent = map[string]any{"revision": server.RequestProtocolVersion(ctx)}
		return out, nil
	})
	add("fail", func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("no luck"), nil
	})
	add("count", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
			return nil, errors.New("no progress token has arrived")
		}
		for i := 1; i <= 3; i++ {
			err := s.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
				"progressToken": r.Params.Meta.ProgressToken, "progress": i, "total": 3, "message": fmt.Sprint("step ", i),
			})
			if err != nil {
				return nil, err
			}
			if err := wit.await(ctx, fmt.Sprint("heard ", r.GetString("key", ""), i)); err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("counted"), nil
	})
	add("wait", func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		key := r.GetString("key", "")
		wit.saw("started " + key)
		if err := wit.await(ctx, "release "+key); err == nil {
			return mcp.NewToolResultText("released"), nil
		}
		wit.saw("cancelled " + key)
		return nil, ctx.Err()
	})
	mcpGoAsks(s, wit, add)
	mcpGoContents(s)
	return s
}

// mcpGoAsks adds the tools that send questions to the client: in their results to modern
// clients, and as requests to other clients.
func mcpGoAsks(s *server.MCPServer, wit observer, add func(string, server.ToolHandlerFunc)) {
	const state = "opaque \"state\" é"
	form := mcp.ElicitationParams{Message: "Who are you?", RequestedSchema: json.RawMessage(formSchema)}
	model := mcp.CreateMessageParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("6*7?")}}}
	tool := func(name string, request func(*server.InputRequestBuilder), parked func(mcp.InputResponses) (string, bool),
		live func(context.Context) (string, error)) {
		add(name, func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if !server.IsModernRequest(ctx) {
				ctx, done := releasable(ctx, wit, r.GetString("key", ""))
				defer done()
				text, err := live(ctx)
				return mcp.NewToolResultText(text), err
			}
			text, ok := parked(r.Params.InputResponses)
			if !ok {
				b := server.NewInputRequestBuilder(state)
				request(b)
				return b.ToolResult(), nil
			}
			if r.Params.RequestState != state {
				return nil, fmt.Errorf("the state came back as %q", r.Params.RequestState)
			}
			return mcp.NewToolResultText(text), nil
		})
	}
	formText := func(e *mcp.ElicitationResult) string {
		fields, _ := e.Content.(map[string]any)
		return fmt.Sprint(e.Action, " ", fields["name"])
	}
	tool("ask-form", func(b *server.InputRequestBuilder) { b.Elicit("q", form) },
		func(r mcp.InputResponses) (string, bool) {
			e := server.ElicitationResponse(r, "q")
			if e == nil {
				return "", false
			}
			return formText(e), true
		},
		func(ctx context.Context) (string, error) {
			e, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form})
			if err != nil {
				return "", err
			}
			return formText(e), nil
		})
	modelText := func(m *mcp.CreateMessageResult) string { return mcp.GetTextFromContent(m.Content) }
	tool("ask-model", func(b *server.InputRequestBuilder) { b.Sample("q", model) },
		func(r mcp.InputResponses) (string, bool) {
			m := server.SamplingResponse(r, "q")
			if m == nil {
				return "", false
			}
			return modelText(m), true
		},
		func(ctx context.Context) (string, error) {
			m, err := s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: model})
			if err != nil {
				return "", err
			}
			return modelText(m), nil
		})
	tool("ask-roots", func(b *server.InputRequestBuilder) { b.Roots("q") },
		func(r mcp.InputResponses) (string, bool) {
			l := server.RootsResponse(r, "q")
			if l == nil || len(l.Roots) == 0 {
				return "", l != nil
			}
			return l.Roots[0].URI, true
		},
		func(ctx context.Context) (string, error) {
			l, err := s.RequestRoots(ctx, mcp.ListRootsRequest{})
			if err != nil || len(l.Roots) == 0 {
				return "", err
			}
			return l.Roots[0].URI, nil
		})
}

func mcpGoContents(s *server.MCPServer) {
	s.AddResource(mcp.NewResource(noteURI, "note"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: noteURI, Text: noteText}}, nil
	})
	s.AddResource(mcp.NewResource(blobURI, "blob"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.BlobResourceContents{URI: blobURI, Blob: base64.StdEncoding.EncodeToString(blobBytes)}}, nil
	})
	s.AddResourceTemplate(mcp.NewResourceTemplate(templateURI, "item"), func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, Text: "item " + r.Params.URI}}, nil
	})
	s.AddPrompt(mcp.NewPrompt("greet", mcp.WithArgument("name", mcp.RequiredArgument())),
		func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return mcp.NewGetPromptResult("", []mcp.PromptMessage{
				mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("Greet "+r.Params.Arguments["name"])),
			}), nil
		})
}
