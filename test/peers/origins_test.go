//go:build unix

package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/test/built"
	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgotypes "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// oddServers are servers of package fake whose handshake is not that of MCP. Each has a call and the
// text of its result.
//
// The last server refuses version 2 of the handshake. It waits for a person unless an environment
// variable says that a program has started it.
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
	{[]string{"codex-app-server", "--set", "form=shim", "--set", "v2=-32602", "--set", "supervised=required"}, "codex-app-server", "codex", map[string]any{"prompt": "hello"}, "You said: hello"},
}

// oddClients are clients of independent implementations of MCP. Each function starts the command,
// lists its tools and calls some of them. The function returns the names of the tools, and the
// texts of the results.
var oddClients = map[string]func(context.Context, *testing.T, *exec.Cmd, []oddCall) (tools, texts []string){
	"Go SDK": goSDK, "mcp-go": mcpGo,
}

type oddCall struct {
	tool      string
	arguments map[string]any
}

// TestClientsOfOddServers lets two independent clients list and call the tools of the odd
// servers through `dragoman run`.
func TestClientsOfOddServers(t *testing.T) {
	if os.Getenv("DRAGOMAN_PEERS") == "" {
		t.Skip("set DRAGOMAN_PEERS=1, or run make peers")
	}
	program := built.Dragoman(t)
	for _, s := range oddServers {
		for name, client := range oddClients {
			t.Run(strings.Join(s.profile, " ")+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				args := []string{"run"}
				if s.dialect != "" {
					args = append(args, "--dialect", s.dialect)
				}
				args = append(append(args, "--", program, "fake"), s.profile...)
				tools, texts := client(ctx, t, exec.Command(program, args...), []oddCall{{s.tool, s.arguments}})
				if !slices.Contains(tools, s.tool) {
					t.Errorf("the tools are %q", tools)
				}
				if texts[0] != s.want {
					t.Errorf("%s: %q, want %q", s.tool, texts[0], s.want)
				}
			})
		}
	}
}

// TestClientsOfOddServersTogether lets the clients use all odd servers through one `dragoman serve`.
func TestClientsOfOddServersTogether(t *testing.T) {
	if os.Getenv("DRAGOMAN_PEERS") == "" {
		t.Skip("set DRAGOMAN_PEERS=1, or run make peers")
	}
	program := built.Dragoman(t)
	servers, own := map[string]any{}, map[string]any{}
	var calls []oddCall
	var want []string
	for i, s := range oddServers {
		name := fmt.Sprintf("odd%d", i)
		servers[name] = map[string]any{"command": program, "args": append([]string{"fake"}, s.profile...)}
		if s.dialect != "" {
			own[name] = map[string]any{"dialect": s.dialect}
		}
		calls, want = append(calls, oddCall{name + "__" + s.tool, s.arguments}), append(want, s.want)
	}
	b, err := json.Marshal(map[string]any{"mcpServers": servers, "dragoman": map[string]any{"servers": own}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, client := range oddClients {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c := exec.Command(program, "serve", "--stdio", "--listen", "127.0.0.1:0", "-c", file)
			tools, texts := client(ctx, t, c, calls)
			for i, call := range calls {
				// A server that starts slowly may be missing from the first list. A call waits for
				// such a server.
				if strings.Contains(call.tool, "__files.") && slices.Contains(tools, strings.Replace(call.tool, "files.", "", 1)) {
					t.Errorf("%s has lost a part of its name: %q", call.tool, tools)
				}
				if texts[i] != want[i] {
					t.Errorf("%s: %q, want %q", call.tool, texts[i], want[i])
				}
			}
		})
	}
}

func goSDK(ctx context.Context, t *testing.T, c *exec.Cmd, calls []oddCall) (tools, texts []string) {
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
	for _, x := range calls {
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: x.tool, Arguments: x.arguments})
		if err != nil {
			t.Fatalf("%s: %v", x.tool, err)
		}
		text := ""
		if b, ok := r.Content[0].(*mcp.TextContent); ok {
			text = b.Text
		}
		texts = append(texts, text)
	}
	return tools, texts
}

func mcpGo(ctx context.Context, t *testing.T, cmd *exec.Cmd, calls []oddCall) (tools, texts []string) {
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
	for _, x := range calls {
		var call mcpgotypes.CallToolRequest
		call.Params.Name, call.Params.Arguments = x.tool, x.arguments
		r, err := c.CallTool(ctx, call)
		if err != nil {
			t.Fatalf("%s: %v", x.tool, err)
		}
		text := ""
		if b, ok := r.Content[0].(mcpgotypes.TextContent); ok {
			text = b.Text
		}
		texts = append(texts, text)
	}
	return tools, texts
}
