package interop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

type mcpGoClient struct {
	*mcpclient.Client
	http *http.Client
	init *mcp.InitializeResult

	mu       sync.Mutex
	last     int
	progress map[string]func(float64)
}

type mcpGoAnswers struct{}

func (mcpGoAnswers) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	if r.Params.Message != "Who are you?" {
		return nil, fmt.Errorf("asked %q", r.Params.Message)
	}
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"name": formAnswer},
	}}, nil
}

func (mcpGoAnswers) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent(sampleAnswer)}, Model: "m",
	}, nil
}

func (mcpGoAnswers) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: rootURI, Name: "interop"}}}, nil
}

func (mcpGo) connect(ctx context.Context, at place, revision string) (client, error) {
	c := &mcpGoClient{http: &http.Client{Transport: &http.Transport{}}, progress: make(map[string]func(float64))}
	var t transport.Interface
	var err error
	switch {
	case at.command != nil:
		cmd := at.command()
		t = transport.NewStdioWithOptions(cmd.Path, cmd.Env, nil, transport.WithCommandFunc(
			func(context.Context, string, []string, []string) (*exec.Cmd, error) { return cmd, nil }))
	case at.transport == pipe:
		t = transport.NewIO(at.in, at.out, io.NopCloser(strings.NewReader("")))
	case at.transport == events:
		t, err = transport.NewSSE(at.url, transport.WithHTTPClient(c.http))
	default:
		options := []transport.StreamableHTTPCOption{transport.WithHTTPBasicClient(c.http)}
		if revision != modern && revision != "" { // a legacy client, which sends initialize
			options = append(options, transport.WithContinuousListening())
		}
		t, err = transport.NewStreamableHTTP(at.url, options...)
	}
	if err != nil {
		return nil, err
	}
	var options []mcpclient.ClientOption
	if revision != "" {
		options = append(options, mcpclient.WithProtocolVersion(revision))
	}
	a := mcpGoAnswers{}
	options = append(options, mcpclient.WithElicitationHandler(a), mcpclient.WithSamplingHandler(a), mcpclient.WithRootsHandler(a))
	c.Client = mcpclient.NewClient(t, options...)
	c.OnNotification(c.notified)
	fail := func(err error) (client, error) {
		_ = c.close()
		return nil, err
	}
	// Start needs a context that lives as long as the transport.
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return fail(err)
	}
	request := mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: revision, ClientInfo: mcp.Implementation{Name: "mcp-go-client", Version: "1"},
	}}
	if c.init, err = c.Initialize(ctx, request); err != nil {
		return fail(err)
	}
	return c, nil
}

func (c *mcpGoClient) notified(n mcp.JSONRPCNotification) {
	if n.Method != string(mcp.MethodNotificationProgress) {
		return
	}
	c.mu.Lock()
	f := c.progress[fmt.Sprint(n.Params.AdditionalFields["progressToken"])]
	c.mu.Unlock()
	if p, ok := n.Params.AdditionalFields["progress"].(float64); ok && f != nil {
		f(p)
	}
}

func (c *mcpGoClient) revision() string   { return c.init.ProtocolVersion }
func (c *mcpGoClient) serverName() string { return c.init.ServerInfo.Name }

func (c *mcpGoClient) close() error {
	err := c.Close()
	c.http.CloseIdleConnections()
	return err
}

// mcpGoError restores the code of an error, because the SDK replaces some codes with sentinel
// errors.
func mcpGoError(err error) error {
	for sentinel, code := range map[error]int64{
		mcp.ErrInvalidParams: -32602, mcp.ErrMethodNotFound: -32601, mcp.ErrInvalidRequest: -32600,
		mcp.ErrInternalError: -32603, mcp.ErrResourceNotFound: -32002, mcp.ErrParseError: -32700,
	} {
		if errors.Is(err, sentinel) {
			return &wireError{code, err}
		}
	}
	return err
}

func (c *mcpGoClient) tools(ctx context.Context) (names []string, err error) {
	r, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, mcpGoError(err)
	}
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return names, nil
}

func (c *mcpGoClient) call(ctx context.Context, tool string, args map[string]any, onProgress func(float64)) (*result, error) {
	request := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}}
	if onProgress != nil {
		c.mu.Lock()
		c.last++
		token := c.last // use a number, because the token of the other SDK is a string
		c.progress[fmt.Sprint(token)] = onProgress
		c.mu.Unlock()
		request.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	r, err := c.CallTool(ctx, request)
	if err != nil {
		return nil, mcpGoError(err)
	}
	var text strings.Builder
	for _, item := range r.Content {
		text.WriteString(mcp.GetTextFromContent(item))
	}
	structured, err := json.Marshal(r.StructuredContent)
	return &result{text.String(), string(structured), r.IsError}, err
}

func (c *mcpGoClient) resources(ctx context.Context) (uris []string, err error) {
	r, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return nil, mcpGoError(err)
	}
	for _, item := range r.Resources {
		uris = append(uris, item.URI)
	}
	return uris, nil
}

func (c *mcpGoClient) templates(ctx context.Context) (uris []string, err error) {
	r, err := c.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	if err != nil {
		return nil, mcpGoError(err)
	}
	for _, item := range r.ResourceTemplates {
		uris = append(uris, item.URITemplate.Template.Raw())
	}
	return uris, nil
}

func (c *mcpGoClient) read(ctx context.Context, uri string) (string, []byte, error) {
	r, err := c.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}})
	if err != nil {
		return "", nil, mcpGoError(err)
	}
	if len(r.Contents) != 1 {
		return "", nil, fmt.Errorf("read %d contents", len(r.Contents))
	}
	switch content := r.Contents[0].(type) {
	case mcp.TextResourceContents:
		return content.Text, nil, nil
	case mcp.BlobResourceContents:
		b, err := base64.StdEncoding.DecodeString(content.Blob)
		return "", b, err
	}
	return "", nil, fmt.Errorf("a %T", r.Contents[0])
}

func (c *mcpGoClient) prompts(ctx context.Context) (names []string, err error) {
	r, err := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err != nil {
		return nil, mcpGoError(err)
	}
	for _, p := range r.Prompts {
		names = append(names, p.Name)
	}
	return names, nil
}

func (c *mcpGoClient) prompt(ctx context.Context, name string, args map[string]string) (string, error) {
	r, err := c.GetPrompt(ctx, mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: name, Arguments: args}})
	if err != nil {
		return "", mcpGoError(err)
	}
	if len(r.Messages) != 1 {
		return "", fmt.Errorf("%d messages", len(r.Messages))
	}
	return mcp.GetTextFromContent(r.Messages[0].Content), nil
}

func (c *mcpGoClient) complete(ctx context.Context, prompt, argument, value string) ([]string, error) {
	r, err := c.Complete(ctx, mcp.CompleteRequest{Params: mcp.CompleteParams{
		Ref:      mcp.PromptReference{Type: "ref/prompt", Name: prompt},
		Argument: mcp.CompleteArgument{Name: argument, Value: value},
	}})
	if err != nil {
		return nil, mcpGoError(err)
	}
	return r.Completion.Values, nil
}
