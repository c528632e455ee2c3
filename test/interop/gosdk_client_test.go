package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type goClient struct {
	session *mcp.ClientSession
	http    *http.Client

	mu       sync.Mutex
	last     int
	progress map[any]func(float64)
}

func (goSDK) connect(ctx context.Context, at place, revision string) (client, error) {
	c := &goClient{http: &http.Client{Transport: &http.Transport{}}, progress: make(map[any]func(float64))}
	impl := mcp.NewClient(&mcp.Implementation{Name: "go-sdk-client", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if r.Params.Message != "Who are you?" {
				return nil, fmt.Errorf("asked %q", r.Params.Message)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": formAnswer}}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: sampleAnswer}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.mu.Lock()
			f := c.progress[fmt.Sprint(r.Params.ProgressToken)]
			c.mu.Unlock()
			if f != nil {
				f(r.Params.Progress)
			}
		},
	})
	impl.AddRoots(&mcp.Root{URI: rootURI, Name: "interop"})
	var t mcp.Transport
	switch {
	case at.command != nil:
		t = &mcp.CommandTransport{Command: at.command()}
	case at.transport == pipe:
		t = &mcp.IOTransport{Reader: at.in, Writer: at.out}
	case at.transport == events:
		t = &mcp.SSEClientTransport{Endpoint: at.url, HTTPClient: c.http}
	default:
		t = &mcp.StreamableClientTransport{Endpoint: at.url, HTTPClient: c.http, MaxRetries: -1}
	}
	session, err := impl.Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		c.http.CloseIdleConnections()
		return nil, err
	}
	c.session = session
	return c, nil
}

func (c *goClient) revision() string { return c.session.InitializeResult().ProtocolVersion }

func (c *goClient) serverName() string {
	if i := c.session.InitializeResult().ServerInfo; i != nil {
		return i.Name
	}
	return ""
}

func (c *goClient) close() error {
	err := c.session.Close()
	c.http.CloseIdleConnections()
	return err
}

func goError(err error) error {
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return &wireError{e.Code, err}
	}
	return err
}

func (c *goClient) tools(ctx context.Context) (names []string, err error) {
	for t, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return nil, goError(err)
		}
		names = append(names, t.Name)
	}
	return names, nil
}

func (c *goClient) call(ctx context.Context, tool string, args map[string]any, onProgress func(float64)) (*result, error) {
	p := &mcp.CallToolParams{Name: tool, Arguments: args}
	if onProgress != nil {
		c.mu.Lock()
		c.last++
		token := fmt.Sprint("go ", c.last)
		c.progress[token] = onProgress
		c.mu.Unlock()
		p.SetProgressToken(token)
	}
	r, err := c.session.CallTool(ctx, p)
	if err != nil {
		return nil, goError(err)
	}
	var text strings.Builder
	for _, item := range r.Content {
		if t, ok := item.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	structured, err := json.Marshal(r.StructuredContent)
	return &result{text.String(), string(structured), r.IsError}, err
}

func (c *goClient) resources(ctx context.Context) (uris []string, err error) {
	for r, err := range c.session.Resources(ctx, nil) {
		if err != nil {
			return nil, goError(err)
		}
		uris = append(uris, r.URI)
	}
	return uris, nil
}

func (c *goClient) templates(ctx context.Context) (uris []string, err error) {
	for r, err := range c.session.ResourceTemplates(ctx, nil) {
		if err != nil {
			return nil, goError(err)
		}
		uris = append(uris, r.URITemplate)
	}
	return uris, nil
}

func (c *goClient) read(ctx context.Context, uri string) (string, []byte, error) {
	r, err := c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return "", nil, goError(err)
	}
	if len(r.Contents) != 1 || r.Contents[0].URI != uri {
		return "", nil, fmt.Errorf("read %d contents", len(r.Contents))
	}
	return r.Contents[0].Text, r.Contents[0].Blob, nil
}

func (c *goClient) prompts(ctx context.Context) (names []string, err error) {
	for p, err := range c.session.Prompts(ctx, nil) {
		if err != nil {
			return nil, goError(err)
		}
		names = append(names, p.Name)
	}
	return names, nil
}

func (c *goClient) prompt(ctx context.Context, name string, args map[string]string) (string, error) {
	r, err := c.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: args})
	if err != nil {
		return "", goError(err)
	}
	if len(r.Messages) != 1 {
		return "", fmt.Errorf("%d messages", len(r.Messages))
	}
	t, ok := r.Messages[0].Content.(*mcp.TextContent)
	if !ok {
		return "", fmt.Errorf("a %T", r.Messages[0].Content)
	}
	return t.Text, nil
}

func (c *goClient) complete(ctx context.Context, prompt, argument, value string) ([]string, error) {
	r, err := c.session.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: prompt},
		Argument: mcp.CompleteParamsArgument{Name: argument, Value: value},
	})
	if err != nil {
		return nil, goError(err)
	}
	return r.Completion.Values, nil
}
