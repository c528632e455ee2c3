package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// goSDK is the official Go SDK.
type goSDK struct{}

func (goSDK) serveStdio(era string, wit observer) error {
	return goServer(era, wit).Run(context.Background(), &mcp.StdioTransport{})
}

func (goSDK) serveHTTP(era, transport string, wit observer) (http.Handler, func()) {
	s := goServer(era, wit)
	pick := func(*http.Request) *mcp.Server { return s }
	end := func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	}
	if transport == events {
		return mcp.NewSSEHandler(pick, nil), end
	}
	// The SDK's server supports either sessions or requests without a session.
	return mcp.NewStreamableHTTPHandler(pick, &mcp.StreamableHTTPOptions{
		Stateless: era == modern || era == onlyModern, PropagateRequestCancellation: true,
	}), end
}

func goServer(era string, wit observer) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "go-sdk-server", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: versions(era),
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: completions(r.Params.Argument.Value)}}, nil
		},
	})
	if era == onlyModern {
		s.AddReceivingMiddleware(refuseHandshake)
	}
	object := json.RawMessage(`{"type":"object"}`)
	add := func(name string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "the tool " + name, InputSchema: object}, h)
	}
	say := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		structured, err := json.Marshal(map[string]any{"revision": r.Session.InitializeParams().ProtocolVersion})
		out := say(string(r.Params.Arguments))
		out.StructuredContent = json.RawMessage(structured)
		return out, err
	})
	add("fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		out := say("no luck")
		out.IsError = true
		return out, nil
	})
	add("count", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Key string }
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return nil, err
		}
		token := r.Params.GetProgressToken()
		if token == nil {
			return nil, errors.New("no progress token has arrived")
		}
		for i := 1; i <= 3; i++ {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(i), Total: 3, Message: fmt.Sprint("step ", i),
			})
			if err != nil {
				return nil, err
			}
			if err := wit.await(ctx, fmt.Sprint("heard ", args.Key, i)); err != nil {
				return nil, err
			}
		}
		return say("counted"), nil
	})
	add("wait", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Key string }
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return nil, err
		}
		wit.saw("started " + args.Key)
		if err := wit.await(ctx, "release "+args.Key); err == nil {
			return say("released"), nil
		}
		wit.saw("cancelled " + args.Key)
		return nil, ctx.Err()
	})
	form := &mcp.ElicitParams{Mode: "form", Message: "Who are you?", RequestedSchema: json.RawMessage(formSchema)}
	ask(wit, add, "ask-form", form, func(ctx context.Context, s *mcp.ServerSession) (mcp.InputResponse, error) {
		return s.Elicit(ctx, form)
	}, func(r mcp.InputResponse) string {
		e := r.(*mcp.ElicitResult)
		return fmt.Sprint(e.Action, " ", e.Content["name"])
	})
	model := &mcp.CreateMessageParams{MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "6*7?"}}}}
	ask(wit, add, "ask-model", model, func(ctx context.Context, s *mcp.ServerSession) (mcp.InputResponse, error) {
		return s.CreateMessage(ctx, model)
	}, func(r mcp.InputResponse) string {
		switch m := r.(type) {
		case *mcp.CreateMessageResult:
			return m.Content.(*mcp.TextContent).Text
		case *mcp.CreateMessageWithToolsResult:
			return m.Content[0].(*mcp.TextContent).Text
		}
		return fmt.Sprintf("%T", r)
	})
	ask(wit, add, "ask-roots", &mcp.ListRootsParams{}, func(ctx context.Context, s *mcp.ServerSession) (mcp.InputResponse, error) {
		return s.ListRoots(ctx, nil)
	}, func(r mcp.InputResponse) string { return r.(*mcp.ListRootsResult).Roots[0].URI })
	goContents(s)
	return s
}

// refuseHandshake answers initialize in the same way as a server that does not know the method.
func refuseHandshake(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method == "initialize" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
		}
		return next(ctx, method, r)
	}
}

// ask adds a tool that sends a question to the client: in its result to a modern client, and
// as a request to any other client.
func ask(wit observer, add func(string, mcp.ToolHandler), name string, request mcp.InputRequest,
	live func(context.Context, *mcp.ServerSession) (mcp.InputResponse, error), text func(mcp.InputResponse) string) {
	const state = "opaque \"state\" é"
	add(name, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer := r.Params.InputResponses["q"]
		if r.Session.InitializeParams().ProtocolVersion != modern {
			var args struct{ Key string }
			if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
				return nil, err
			}
			ctx, done := releasable(ctx, wit, args.Key)
			defer done()
			var err error
			if answer, err = live(ctx, r.Session); err != nil {
				return nil, err
			}
		} else if answer == nil {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": request}, RequestState: state}, nil
		} else if r.Params.RequestState != state {
			return nil, fmt.Errorf("the state came back as %q", r.Params.RequestState)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text(answer)}}}, nil
	})
}

func goContents(s *mcp.Server) {
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		c := &mcp.ResourceContents{URI: r.Params.URI, MIMEType: "text/plain"}
		switch r.Params.URI {
		case noteURI:
			c.Text = noteText
		case blobURI:
			c.Blob = blobBytes
		default:
			c.Text = "item " + r.Params.URI
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
	}
	s.AddResource(&mcp.Resource{URI: noteURI, Name: "note"}, read)
	s.AddResource(&mcp.Resource{URI: blobURI, Name: "blob"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: templateURI, Name: "item"}, read)
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
				{Role: "user", Content: &mcp.TextContent{Text: "Greet " + r.Params.Arguments["name"]}},
			}}, nil
		})
}

const formSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
