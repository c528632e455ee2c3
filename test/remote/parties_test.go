//go:build linux

package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// person is an HTTP client, with or without a password.
type person struct {
	http     *http.Client
	base     string
	password string
}

// answer is a response, which may still be arriving.
type answer struct {
	*http.Response
	lines *bufio.Scanner
}

// do sends a request. The response must begin soon; what follows may take as long as ctx does.
func (p *person) do(t *testing.T, ctx context.Context, method, path, body string, header ...string) *answer {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body = nil
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if p.password != "" {
		req.SetBasicAuth(user, p.password)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	return &answer{resp, lines}
}

func (p *person) get(t *testing.T, path string) *answer {
	t.Helper()
	return p.do(t, soon(t), http.MethodGet, path, "")
}

func (p *person) post(t *testing.T, ctx context.Context, path, body string, header ...string) *answer {
	t.Helper()
	return p.do(t, ctx, http.MethodPost, path, body, append(header, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")...)
}

// modern sends a request of 2026-07-28 with the headers that repeat its method and name.
func (p *person) modern(t *testing.T, ctx context.Context, method, name, params string) *answer {
	t.Helper()
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		header = append(header, "Mcp-Name", name)
	}
	const meta = `"_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"remote","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	return p.post(t, ctx, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`, header...)
}

// text returns the rest of the body.
func (a *answer) text(t *testing.T) string {
	t.Helper()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Errorf("after %d bytes: %v", len(b), err)
	}
	return string(b)
}

// await returns the data of the next event that has a text in it. It fails if nothing, not even a comment,
// arrives for a while.
func (a *answer) await(t *testing.T, want string) string {
	t.Helper()
	late := time.AfterFunc(patience, func() { _ = a.Body.Close() })
	defer late.Stop()
	var seen []string
	for a.lines.Scan() {
		late.Reset(patience)
		seen = append(seen, a.lines.Text())
		if data, ok := strings.CutPrefix(a.lines.Text(), "data: "); ok && strings.Contains(data, want) {
			return data
		}
	}
	t.Fatalf("%s: no event with %s has arrived: %v, %q", a.Status, want, a.lines.Err(), seen)
	return ""
}

// backend is an MCP server whose calls end when the test says so.
type backend struct {
	url    string
	server *mcp.Server

	mu    sync.Mutex
	calls map[string]*waiting
	tools int
}

// waiting is a call of the tool wait.
type waiting struct{ release, cancelled chan struct{} }

func newBackend(t *testing.T) *backend {
	b := &backend{calls: map[string]*waiting{}, server: mcp.NewServer(&mcp.Implementation{Name: "work", Version: "1"}, nil)}
	object := json.RawMessage(`{"type":"object"}`)
	add := func(name string, h func(ctx context.Context, r *mcp.CallToolRequest) (string, error)) {
		b.server.AddTool(&mcp.Tool{Name: name, InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := h(ctx, r)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
		})
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) (string, error) {
		return string(r.Params.Arguments), nil
	})
	add("sleep", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
		select {
		case <-time.After(65 * time.Second): // the limit of nginx is real time
		case <-ctx.Done():
		}
		return "awake", ctx.Err()
	})
	add("wait", func(ctx context.Context, r *mcp.CallToolRequest) (string, error) {
		var args struct{ Key string }
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return "", err
		}
		call := b.call(args.Key)
		if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}); err != nil {
			return "", err
		}
		select {
		case <-call.release:
			return "released", nil
		case <-ctx.Done():
			close(call.cancelled)
			return "", ctx.Err()
		}
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server }, &mcp.StreamableHTTPOptions{PropagateRequestCancellation: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	b.url = web.URL
	return b
}

func (b *backend) call(key string) *waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[key] == nil {
		b.calls[key] = &waiting{make(chan struct{}), make(chan struct{})}
	}
	return b.calls[key]
}

// release ends a call.
func (b *backend) release(t *testing.T, key string) {
	t.Helper()
	close(b.call(key).release)
}

// wantCancelled waits until a call has been cancelled.
func (b *backend) wantCancelled(t *testing.T, key string) {
	t.Helper()
	select {
	case <-b.call(key).cancelled:
	case <-soon(t).Done():
		t.Errorf("the server doesn't hear that its client has cancelled %q", key)
	}
}

// grow adds a tool, upon which the server notifies its clients.
func (b *backend) grow(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	b.tools++
	name := fmt.Sprintf("tool%d", b.tools)
	b.mu.Unlock()
	b.server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
}
