//go:build unix

package peers

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/test/built"
	"github.com/dragoman-mcp/dragoman/test/npm"
)

var (
	//go:embed package.json
	packageJSON []byte
	//go:embed package-lock.json
	packageLock []byte
)

// install puts the pinned servers below .cache and returns the folder of their commands.
func install(t *testing.T) string {
	t.Helper()
	return filepath.Join(npm.Install(t, "peers", map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock}), "node_modules", ".bin")
}

// command runs the program as a user would, and returns its stdout.
func command(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("dragoman %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// post sends one message. It returns the answer, from JSON or from an event stream, and the
// session id in the response.
func post(t *testing.T, url, session string, header map[string]string, body string) (answer, newSession string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	defer http.DefaultClient.CloseIdleConnections()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= 300 {
		t.Errorf("%s: %s\n%s", url, resp.Status, b)
	}
	return string(b), resp.Header.Get("Mcp-Session-Id")
}

func wants(t *testing.T, what, got string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(got, w) {
			t.Errorf("%s: %q is not in\n%.2000s", what, w, got)
		}
	}
}

func TestPeers(t *testing.T) {
	if os.Getenv("DRAGOMAN_PEERS") == "" {
		t.Skip("set DRAGOMAN_PEERS=1 (or make peers) to run servers from npm")
	}
	bin, program, folder := install(t), built.Dragoman(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "found.txt"), []byte("it is here"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`mcpServers:
  everything: {command: %[1]q}
  files: {command: %[2]q, args: [%[6]q]}
  memory: {command: %[3]q, env: {MEMORY_FILE_PATH: %[7]q}}
  thinking: {command: %[4]q}
  context7: {command: %[5]q}
`, filepath.Join(bin, "mcp-server-everything"), filepath.Join(bin, "mcp-server-filesystem"), filepath.Join(bin, "mcp-server-memory"),
		filepath.Join(bin, "mcp-server-sequential-thinking"), filepath.Join(bin, "context7-mcp"), folder, filepath.Join(folder, "memory.jsonl"))
	base := built.ServeServers(t, program, text)
	merged := base + "/mcp"

	table := fmt.Sprintf("%-11s %7s  %-24s %s\n", "server", "tools", "called", "at /mcp and at its own")
	t.Run("one endpoint", func(t *testing.T) {
		// Five node processes start, perhaps on a busy machine. The list is complete when the last
		// process has answered.
		want := []string{"everything__echo", "files__list_directory", "memory__create_entities", "thinking__sequentialthinking", "context7__"}
		var got string
		for range 30 {
			if got = command(t, program, "list", "tools", merged); t.Failed() || all(got, want) {
				break
			}
			time.Sleep(time.Second) // these are separate processes, so poll
		}
		wants(t, "list tools", got, want...)
		wants(t, "create_entities", command(t, program, "call", merged, "memory__create_entities",
			"--json-args", `{"entities":[{"name":"dragoman","entityType":"bridge","observations":["it stands"]}]}`), "dragoman")
	})
	for _, c := range []struct{ server, tool, arguments, want string }{
		{"everything", "echo", `{"message":"over the bridge"}`, "over the bridge"},
		{"files", "list_directory", fmt.Sprintf(`{"path":%q}`, folder), "found.txt"},
		{"memory", "read_graph", `{}`, "it stands"},
		{"thinking", "sequentialthinking", `{"thought":"one","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`, "thoughtNumber"},
		{"context7", "", "", ""}, // the tools of this server need a network
	} {
		t.Run("alone/"+c.server, func(t *testing.T) {
			own := base + "/s/" + c.server + "/mcp"
			listed := command(t, program, "list", "tools", own)
			wants(t, "list tools", listed, c.tool)
			tools := strings.Count(command(t, program, "list", "tools", own, "--json"), `"inputSchema"`)
			if tools == 0 {
				t.Errorf("no tools:\n%s", listed)
			}
			if c.tool != "" {
				wants(t, c.tool, command(t, program, "call", merged, c.server+"__"+c.tool, "--json-args", c.arguments), c.want)
				wants(t, c.tool, command(t, program, "call", own, c.tool, "--json-args", c.arguments), c.want)
			}
			outcome := "ok"
			switch {
			case t.Failed():
				outcome = "failed"
			case c.tool == "":
				c.tool, outcome = "-", "listed only: its tools need a network"
			}
			table += fmt.Sprintf("%-11s %7d  %-24s %s\n", c.server, tools, c.tool, outcome)
		})
	}
	t.Run("a modern client calls a legacy server", func(t *testing.T) {
		answer, _ := post(t, base+"/s/memory/mcp", "", map[string]string{
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "read_graph",
		}, `{"jsonrpc":"2.0","id":"m","method":"tools/call","params":{"name":"read_graph","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
		wants(t, "answer", answer, `"id":"m"`, `"resultType":"complete"`, "it stands")
	})
	t.Logf("servers from npm behind dragoman serve\n%s", table)
}

// TestMain fails if a server process is left after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }

// TestOldClientOnModernServer connects a client of 2025-03-26 to the modern demo server, which
// itself refuses the handshake.
func TestOldClientOnModernServer(t *testing.T) {
	if os.Getenv("DRAGOMAN_PEERS") == "" {
		t.Skip("set DRAGOMAN_PEERS=1 (or make peers)")
	}
	base := built.Serve(t, built.Dragoman(t), "--demo")
	url := base + "/s/modern/mcp"
	answer, session := post(t, url, "", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	wants(t, "initialize", answer, `"protocolVersion":"2025-03-26"`)
	post(t, url, session, nil, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	answer, _ = post(t, url, session, nil, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":40,"b":2}}}`)
	wants(t, "call", answer, `"id":2`, "42")
}

func all(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}
