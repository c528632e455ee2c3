//go:build unix

package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/test/built"
)

// TestClientsFindReal lets SDKs, Claude Code and Codex find a tool among those of 25 servers from npm, and call it: the last
// two with a model that is a script. The server gets each call once, with the arguments that the client was given.
func TestClientsFindReal(t *testing.T) {
	if os.Getenv("DRAGOMAN_CLIENTS") != "find" {
		t.Skip("set DRAGOMAN_CLIENTS=find (or make search-clients) to search among the tools of servers from npm")
	}
	n := newNotes(t)
	of := func(client string) task {
		return task{"write text to a file", leastTools, "files__write_file", map[string]any{"path": n.path(client), "content": "written by " + client}, "content", "uccessfully wrote"}
	}
	n.sdksFind(t, n.base+"/find/mcp", of)
	modules := filepath.Join(installFrom(t, "vendors"), "node_modules")
	for name, program := range map[string]func(t *testing.T, modules, url string, m *model) string{"Claude Code": n.claude, "Codex": n.codex} {
		t.Run(name, func(t *testing.T) {
			do := of(name)
			m := newModel(t, do)
			if out := program(t, modules, n.base+"/find/mcp", m); !strings.Contains(out, do.Answer) {
				t.Errorf("%s says %s", name, out)
			}
			first, last := m.tokens()
			alone, whole := newModel(t, do), newModel(t, do) // which find no search_tools there
			program(t, modules, "", alone)
			program(t, modules, n.base+"/mcp", whole)
			without, _ := alone.tokens()
			listed, _ := whole.tokens()
			t.Logf("%s: %d tokens without a server; search mode adds %d, and %d at the end of the task; %d tools at /mcp add %d", name, without, first-without, last-without, n.tools, listed-without)
		})
	}
	n.check(t, append([]string{"Go SDK", "Claude Code", "Codex"}, clients[0].name, clients[1].name, clients[2].name, clients[3].name))
}

const (
	leastTools = 500
	patience   = 8 * time.Minute // for the servers, which start together. After half of it, a few may be missing.
)

// notes are the servers of test/sweep/queries.txt behind a serve. What one of them gets is written into a file.
type notes struct {
	*rig
	base  string
	home  string // the folder of the server files
	heard string // what it gets
	tools int
}

func newNotes(t *testing.T) *notes {
	folder := t.TempDir()
	n := &notes{rig: prepare(t), heard: filepath.Join(folder, "heard")}
	file := filepath.Join(folder, "dragoman.yaml")
	sweep := exec.CommandContext(t.Context(), "go", "run", "../sweep", "-servers", filepath.Join("..", "..", ".cache", "sweep"), "-config", file)
	if out, err := sweep.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var config map[string]map[string]map[string]any
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	files := config["mcpServers"]["files"]
	n.home = files["cwd"].(string)
	files["args"] = append([]any{"-c", `heard=$1; shift; tee -a "$heard" | "$@"`, "sh", n.heard, files["command"]}, files["args"].([]any)...)
	files["command"] = "sh"
	shared := map[string]any{} // or each kind of client would start all of them once more
	for name := range config["mcpServers"] {
		shared[name] = map[string]string{"isolation": "shared"}
	}
	config["dragoman"] = map[string]map[string]any{"servers": shared, "limits": {"start": "5m"}} // they all start at once
	if b, err = json.Marshal(config); err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", folder)
	n.base = built.Serve(t, n.dragoman, "-c", file, "--no-console")
	n.wait(t, file)
	return n
}

// wait waits until all servers are ready, and counts their tools.
func (n *notes) wait(t *testing.T, file string) {
	type server struct {
		Name, State string
		Lists       []struct {
			Method string
			Items  int
		}
	}
	var all struct{ Servers []server }
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) { // they're separate processes
		out, err := exec.CommandContext(t.Context(), n.dragoman, "status", "--json", "-c", file, "--listen", strings.TrimPrefix(n.base, "http://")).Output()
		all.Servers = nil
		if err == nil {
			err = json.Unmarshal(out, &all)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.tools = 0
		ready := 0
		for _, s := range all.Servers {
			for _, l := range s.Lists {
				if l.Method == "tools/list" && s.State == "ready" {
					n.tools += l.Items
					ready += min(l.Items, 1)
				}
			}
		}
		if late := time.Now().After(end.Add(-patience / 2)); n.tools >= leastTools && (ready == len(all.Servers) || late) {
			t.Logf("%d of %d servers are ready, with %d tools", ready, len(all.Servers), n.tools)
			return
		}
	}
	t.Fatalf("the servers are not ready: %+v", all.Servers)
}

func (n *notes) path(client string) string {
	return filepath.Join(n.home, strings.ReplaceAll(client, "`", "")+".txt")
}

// check checks what the server got: one call of each client, as it was meant.
func (n *notes) check(t *testing.T, names []string) {
	b, err := os.ReadFile(n.heard)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range bytes.Lines(b) {
		var m struct {
			Method string
			Params struct {
				Name      string
				Arguments map[string]any
			}
		}
		if json.Unmarshal(line, &m) == nil && m.Method == "tools/call" {
			calls[fmt.Sprint(m.Params.Name, m.Params.Arguments)]++
		}
	}
	for _, name := range names {
		content := "written by " + name
		if call := fmt.Sprint("write_file", map[string]any{"path": n.path(name), "content": content}); calls[call] != 1 {
			t.Errorf("%s was called %d times by %s", call, calls[call], name)
		}
		if written, err := os.ReadFile(n.path(name)); err != nil || string(written) != content {
			t.Errorf("%s: the file is %q, %v", name, written, err)
		}
	}
	if len(calls) != len(names) {
		t.Errorf("the server got %v", calls)
	}
}

// vendor runs a program with a home of its own, and returns what it prints.
func (n *notes) vendor(t *testing.T, home string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = home, append(os.Environ(), append(env, "HOME="+home, "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "MCP_TIMEOUT=300000")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", filepath.Base(name), err, out)
	}
	return string(out)
}

const prompt = "Write the text into the file."

// claude lets Claude Code answer a prompt with a model. Its server is at url, if there is one.
func (n *notes) claude(t *testing.T, modules, url string, m *model) string {
	programs, err := filepath.Glob(filepath.Join(modules, "@anthropic-ai", "claude-code-*", "claude"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no Claude Code: %v", err)
	}
	args := []string{"-p", prompt, "--strict-mcp-config", "--allowedTools", "mcp__dragoman"}
	if url != "" {
		args = append(args, "--mcp-config", fmt.Sprintf(`{"mcpServers":{"dragoman":{"type":"http","url":%q}}}`, url))
	}
	return n.vendor(t, t.TempDir(), []string{"ANTHROPIC_BASE_URL=" + m.URL, "ANTHROPIC_API_KEY=none"}, programs[0], args...)
}

// codex lets Codex do the same.
func (n *notes) codex(t *testing.T, modules, url string, m *model) string {
	programs, err := filepath.Glob(filepath.Join(modules, "@openai", "codex-*", "vendor", "*", "bin", "codex"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no Codex: %v", err)
	}
	home := t.TempDir()
	settings := fmt.Sprintf("model = \"script\"\nmodel_provider = \"test\"\n[model_providers.test]\nname = \"test\"\nbase_url = \"%s/v1\"\nwire_api = \"responses\"\nenv_key = \"TEST_KEY\"\n", m.URL)
	if url != "" {
		settings += fmt.Sprintf("[mcp_servers.dragoman]\nurl = %q\nrequired = true\nstartup_timeout_sec = 300\ndefault_tools_approval_mode = \"approve\"\n", url)
	}
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return n.vendor(t, home, []string{"CODEX_HOME=" + home, "TEST_KEY=none"}, programs[0], "exec", "--skip-git-repo-check", prompt)
}
