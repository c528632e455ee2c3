//go:build unix

package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// TestVendorsStartRun lets Claude Code and Codex start `dragoman run URL` as their server on stdio, for a server that
// wants a sign-in, each with an empty home. There is one tab, and the server's tools are there without a restart of the
// client. The second start asks nothing.
func TestVendorsStartRun(t *testing.T) {
	if mode := os.Getenv("DRAGOMAN_CLIENTS"); mode == "" || mode == "check" {
		t.Skip("set DRAGOMAN_CLIENTS=1 (or make clients) to run the programs of vendors")
	}
	r := prepare(t)
	modules := filepath.Join(installFrom(t, "vendors"), "node_modules")
	for name, uses := range map[string]func(*starter, *testing.T, string) []string{"Claude Code": (*starter).claude, "Codex": (*starter).codex} {
		t.Run(name, func(t *testing.T) {
			s := newStarter(t, r)
			for i := range 2 {
				if tools := uses(s, t, modules); !slices.ContainsFunc(tools, func(name string) bool { return strings.HasSuffix(name, "add") }) {
					t.Errorf("start %d: the tools are %q", i+1, tools)
				}
			}
			if n := s.tabs(); n != 1 {
				t.Errorf("%d tabs were opened", n)
			}
		})
	}
}

// starter is a home, a server that wants a sign-in, and a person who visits each link that their browser gets.
type starter struct {
	*rig
	home, opened, url string
	env               []string
}

func newStarter(t *testing.T, r *rig) *starter {
	s := &starter{rig: r, home: t.TempDir(), opened: filepath.Join(t.TempDir(), "opened")}
	browser := filepath.Join(s.home, "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\necho \"$1\" >>'"+s.opened+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"HOME=" + s.home, "XDG_DATA_HOME=" + filepath.Join(s.home, "data"), "XDG_RUNTIME_DIR=" + s.home, "BROWSER=" + browser, "DISPLAY=:9"}
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, r.dragoman, "fake", "oauth", "ok", "--set", "consent=none", "--listen", "127.0.0.1:0")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		end()
		running.Wait()
		_ = cmd.Wait()
	})
	found := make(chan string, 1)
	running.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, at, ok := strings.Cut(lines.Text(), "ok is at "); ok {
				found <- at
			} else {
				t.Errorf("the issuer says %s", lines.Text())
			}
		}
	})
	select {
	case s.url = <-found:
	case <-time.After(time.Minute):
		t.Fatal("no server that wants a sign-in")
	}
	running.Go(func() {
		for done := 0; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			b, _ := os.ReadFile(s.opened)
			for links := strings.Fields(string(b)); done < len(links); done++ {
				if resp, err := http.Get(links[done]); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
		}
	})
	return s
}

func (s *starter) tabs() int {
	b, _ := os.ReadFile(s.opened)
	return len(strings.Fields(string(b)))
}

// command returns a command in the home, which ends with all that it has started.
func (s *starter) command(t *testing.T, name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = s.home
	cmd.Env = append(slices.Concat(os.Environ(), s.env), "CODEX_HOME="+s.home, "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// claude gives Claude Code a prompt, and returns the tools that it offers to its model last. The model is ours: it waits
// for the tool of the server, and calls it.
func (s *starter) claude(t *testing.T, modules string) []string {
	programs, err := filepath.Glob(filepath.Join(modules, "@anthropic-ai", "claude-code-*", "claude"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no Claude Code: %v", err)
	}
	m := &messages{}
	model := httptest.NewServer(m)
	defer model.Close()
	servers, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"gh": map[string]any{"command": s.dragoman, "args": []string{"run", s.url}}}})
	cmd := s.command(t, programs[0], "-p", "Add one and two.", "--mcp-config", string(servers), "--strict-mcp-config", "--allowedTools", "mcp__gh")
	cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL="+model.URL, "ANTHROPIC_API_KEY=none", "ENABLE_TOOL_SEARCH=false")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !strings.Contains(m.result, "3") {
		t.Errorf("the result of the tool is %q; Claude Code says %s", m.result, out)
	}
	return m.tools
}

// messages is a model behind the Messages API.
type messages struct {
	mu     sync.Mutex
	asked  int
	tools  []string // of the server
	result string
}

func (m *messages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/messages") || json.NewDecoder(r.Body).Decode(&in) != nil {
		http.NotFound(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	block, delta, stop := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "Done."}, "end_turn"
	if len(in.Tools) > 0 { // otherwise it wants a title
		m.asked, m.tools = m.asked+1, nil
		for _, x := range in.Tools {
			if strings.HasPrefix(x.Name, "mcp__gh__") {
				m.tools = append(m.tools, x.Name)
			}
		}
		last := string(in.Messages[len(in.Messages)-1].Content)
		switch {
		case strings.Contains(last, "id-of-the-call"):
			m.result = last
		case slices.Contains(m.tools, "mcp__gh__add"):
			block, stop = map[string]any{"type": "tool_use", "id": "id-of-the-call", "name": "mcp__gh__add", "input": map[string]any{}}, "tool_use"
			delta = map[string]any{"type": "input_json_delta", "partial_json": `{"a":1,"b":2}`}
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(kind string, f map[string]any) {
		f["type"] = kind
		b, _ := json.Marshal(f)
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1}
	event("message_start", map[string]any{"message": map[string]any{"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}})
	event("content_block_start", map[string]any{"index": 0, "content_block": block})
	event("content_block_delta", map[string]any{"index": 0, "delta": delta})
	event("content_block_stop", map[string]any{"index": 0})
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	event("message_stop", map[string]any{})
}

// codex asks one app-server of Codex for the tools until they're there, and returns them.
func (s *starter) codex(t *testing.T, modules string) (tools []string) {
	programs, err := filepath.Glob(filepath.Join(modules, "@openai", "codex-*", "vendor", "*", "bin", "codex"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no Codex: %v", err)
	}
	settings := fmt.Sprintf("[mcp_servers.gh]\ncommand = %q\nargs = [\"run\", %q]\nenv_vars = [\"XDG_DATA_HOME\", \"BROWSER\", \"DISPLAY\"]\n", s.dragoman, s.url)
	if err := os.WriteFile(filepath.Join(s.home, "config.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := s.command(t, programs[0], "app-server")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	_, _ = io.WriteString(in, `{"id":0,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}`+"\n"+`{"method":"initialized"}`+"\n")
	answers := json.NewDecoder(out)
	for id, end := 1, time.Now().Add(time.Minute); time.Now().Before(end); id++ {
		_, _ = fmt.Fprintf(in, `{"id":%d,"method":"mcpServerStatus/list","params":{}}`+"\n", id)
		for {
			var m struct {
				ID     *int
				Result struct {
					Data []struct{ Tools map[string]any }
				}
			}
			if err := answers.Decode(&m); err != nil {
				t.Errorf("%v: %s", err, log.String())
				return tools
			}
			if m.ID == nil || *m.ID != id {
				continue
			}
			tools = nil
			for _, x := range m.Result.Data {
				for name := range x.Tools {
					tools = append(tools, name)
				}
			}
			break
		}
		if slices.Contains(tools, "add") {
			return tools
		}
		time.Sleep(time.Second)
	}
	t.Log(log.String())
	return tools
}
