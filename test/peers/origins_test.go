//go:build unix

package peers

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgotypes "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// oddServers are servers whose handshake is not MCP's, as package fake plays them. Each has a call
// and the text of its result.
var oddServers = []struct {
	profile   []string
	dialect   string // named with --dialect; "" if Dragoman detects it
	tool      string
	arguments map[string]any
	want      string
}{
	{[]string{"manifest-ts"}, "", "files.add", map[string]any{"a": 1, "b": 41}, `{"sum":42}`},
	{[]string{"manifest-python"}, "", "files.add", map[string]any{"a": 1, "b": 41}, `{"sum":42}`},
	{[]string{"manifest-parameters"}, "", "files.add", map[string]any{"a": 1, "b": 41}, `{"sum":42}`},
	{[]string{"push-manifest"}, "", "files.add", map[string]any{"a": 1, "b": 41}, `{"sum":42}`},
	{[]string{"gate-initialized"}, "", "echo", map[string]any{"text": "hello"}, "hello"},
	{[]string{"codex-app-server"}, "", "codex", map[string]any{"prompt": "hello"}, "You said: hello"},
	{[]string{"codex-app-server", "--set", "form=shim"}, "", "codex", map[string]any{"prompt": "hello"}, "You said: hello"},
	{[]string{"codex-app-server-old", "--set", "v2=-32602"}, "codex-app-server", "codex", map[string]any{"prompt": "hello"}, "You said: hello"},
}

// TestClientsOfOddServers lets two independent clients list and call the tools of the odd
// servers through `dragoman run`.
func TestClientsOfOddServers(t *testing.T) {
	if os.Getenv("DRAGOMAN_PEERS") == "" {
		t.Skip("set DRAGOMAN_PEERS=1, or run make peers")
	}
	program := dragoman(t)
	clients := map[string]func(context.Context, *testing.T, *exec.Cmd, string, map[string]any) ([]string, string){
		"Go SDK": goSDK, "mcp-go": mcpGo,
	}
	for _, s := range oddServers {
		for name, client := range clients {
			t.Run(s.profile[len(s.profile)-1]+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				args := []string{"run"}
				if s.dialect != "" {
					args = append(args, "--dialect", s.dialect)
				}
				args = append(append(args, "--", program, "fake"), s.profile...)
				tools, text := client(ctx, t, exec.Command(program, args...), s.tool, s.arguments)
				if !slices.Contains(tools, s.tool) {
					t.Errorf("the tools are %q", tools)
				}
				if text != s.want {
					t.Errorf("%s: %q, want %q", s.tool, text, s.want)
				}
			})
		}
	}
}

func goSDK(ctx context.Context, t *testing.T, c *exec.Cmd, tool string, arguments map[string]any) (tools []string, text string) {
	s, err := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for x, err := range s.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, x.Name)
	}
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := r.Content[0].(*mcp.TextContent); ok {
		text = b.Text
	}
	return tools, text
}

func mcpGo(ctx context.Context, t *testing.T, cmd *exec.Cmd, tool string, arguments map[string]any) (tools []string, text string) {
	c := mcpgo.NewClient(transport.NewStdio(cmd.Path, nil, cmd.Args[1:]...))
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var hello mcpgotypes.InitializeRequest
	hello.Params.ProtocolVersion = "2025-06-18"
	hello.Params.ClientInfo = mcpgotypes.Implementation{Name: "mcp-go", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		t.Fatal(err)
	}
	list, err := c.ListTools(ctx, mcpgotypes.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.Tools {
		tools = append(tools, x.Name)
	}
	var call mcpgotypes.CallToolRequest
	call.Params.Name, call.Params.Arguments = tool, arguments
	r, err := c.CallTool(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := r.Content[0].(mcpgotypes.TextContent); ok {
		text = b.Text
	}
	return tools, text
}
