//go:build unix

package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// TestVendorsSignIn lets the programs of vendors sign in at Dragoman's own authorization server, each with an empty
// home: Claude Code, Codex, mcp-remote and the Inspector. There's no internet, so the documents of the first two are those
// that are built in. All but mcp-remote also refresh an access token that no longer counts, and sign in again after theirs
// were revoked.
func TestVendorsSignIn(t *testing.T) {
	if mode := os.Getenv("DRAGOMAN_CLIENTS"); mode == "" || mode == "check" {
		t.Skip("set DRAGOMAN_CLIENTS=1 (or make clients) to run the programs of vendors")
	}
	h := newHouse(t)
	modules := filepath.Join(installFrom(t, "vendors"), "node_modules")
	t.Run("Claude Code", func(t *testing.T) { h.claude(t, modules) })
	t.Run("Codex", func(t *testing.T) { h.codex(t, modules) })
	t.Run("mcp-remote", h.mcpRemote)
	t.Run("Inspector", h.inspector)
}

// visitor is a program with a home of its own, whose browser writes down what it should open.
type visitor struct {
	*house
	home, opened string
}

func (h *house) visitor(t *testing.T) *visitor {
	v := &visitor{h, t.TempDir(), filepath.Join(t.TempDir(), "opened")}
	script := "#!/bin/sh\necho \"$1\" >>'" + v.opened + "'\n"
	for _, name := range []string{"xdg-open", "open", "x-www-browser", "sensible-browser"} {
		if err := os.WriteFile(filepath.Join(v.home, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// runs runs a command. The person opens the first URL that the command's browser gets, a moment later, as people do.
func (v *visitor) runs(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = v.home
	cmd.Env = append(os.Environ(), "HOME="+v.home, "CODEX_HOME="+v.home, "MCP_REMOTE_CONFIG_DIR="+v.home, "PATH="+v.home+string(os.PathListSeparator)+os.Getenv("PATH"), "BROWSER="+filepath.Join(v.home, "xdg-open"), "DISPLAY=:9",
		"DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	var out logtest.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	_ = os.Remove(v.opened) // of the command before
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for opened := false; ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out.String())
			}
			return out.String()
		case <-time.After(500 * time.Millisecond): // the program needs a moment to listen
		}
		b, _ := os.ReadFile(v.opened)
		for _, word := range strings.Fields(string(b) + " " + out.String()) { // mcp-remote brings a browser of its own, and prints the URL
			if strings.HasPrefix(word, v.base+"/authorize?") && !opened {
				opened = true
				v.open(t, word)
			}
		}
	}
}

// has fails the test unless a client has a grant.
func (v *visitor) has(t *testing.T, client string) {
	t.Helper()
	var ids []string
	for range 50 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.base+"/api/v1/grants", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+v.key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			Grants []struct{ Client, Name string }
		}
		err = json.NewDecoder(resp.Body).Decode(&out)
		_ = resp.Body.Close()
		ids = nil
		for _, g := range out.Grants {
			ids = append(ids, g.Client, g.Name)
		}
		if err == nil && slices.Contains(ids, client) {
			return
		}
		time.Sleep(100 * time.Millisecond) // serve learns of the admin's key within a second
	}
	t.Errorf("%s has no grant: %q", client, ids)
}

func (h *house) claude(t *testing.T, modules string) {
	programs, err := filepath.Glob(filepath.Join(modules, "@anthropic-ai", "claude-code-*", "claude"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no Claude Code: %v", err)
	}
	v := h.visitor(t)
	v.runs(t, programs[0], "mcp", "add", "--transport", "http", "dragoman", h.base+"/mcp")
	v.runs(t, "script", "-qec", fmt.Sprintf("'%s' mcp login dragoman", programs[0]), "/dev/null") // it wants a terminal
	v.has(t, claudeDocument)
	list := func() string { return v.runs(t, programs[0], "mcp", "list") }
	if out := list(); !strings.Contains(out, "Connected") {
		t.Errorf("it does not connect: %s", out)
	}
	kept := filepath.Join(v.home, ".claude", ".credentials.json")
	v.ages(t, kept, "accessToken", "expiresAt")
	if out := list(); !strings.Contains(out, "Connected") || v.token(t, kept, "accessToken") == oldToken {
		t.Errorf("it does not refresh: %s", out)
	}
	h.remove(t, claudeDocument)
	if out := list(); strings.Contains(out, "Connected") {
		t.Errorf("it connects after the revocation: %s", out)
	}
	v.runs(t, "script", "-qec", fmt.Sprintf("'%s' mcp login dragoman", programs[0]), "/dev/null")
	if out := list(); !strings.Contains(out, "Connected") {
		t.Errorf("it does not recover from the revocation: %s", out)
	}
}

// ages lets an access token that a program has kept be an old one that nobody knows, so that the program has to refresh
// it.
func (v *visitor) ages(t *testing.T, file, token, expiry string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(b), v.token(t, file, token), oldToken)
	text = regexp.MustCompile(`(`+expiry+`\\?": ?)\d+`).ReplaceAllString(text, "${1}1")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const oldToken = "drga_old"

// token returns the access token in a file.
func (v *visitor) token(t *testing.T, file, name string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	m := regexp.MustCompile(`"` + name + `\\?": ?\\?"([^"\\]*)`).FindSubmatch(b)
	if err != nil || m == nil {
		t.Fatalf("no %s in %s: %v %s", name, file, err, b)
	}
	return string(m[1])
}

func (h *house) codex(t *testing.T, modules string) {
	programs, err := filepath.Glob(filepath.Join(modules, "@openai", "codex-*", "vendor", "*", "bin", "codex"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no Codex: %v", err)
	}
	v := h.visitor(t)
	v.runs(t, programs[0], "mcp", "add", "dragoman", "--url", h.base+"/mcp")
	v.has(t, codexDocument)
	if out := v.runs(t, programs[0], "mcp", "list"); !strings.Contains(out, "OAuth") {
		t.Errorf("it has no sign-in: %s", out)
	}
	kept := filepath.Join(v.home, ".credentials.json")
	v.ages(t, kept, "access_token", "expires_at")
	if tools := h.codexTools(t, v, programs[0]); tools == 0 || v.token(t, kept, "access_token") == oldToken {
		t.Errorf("it does not refresh, and sees %d tools", tools)
	}
	h.remove(t, codexDocument)
	if tools := h.codexTools(t, v, programs[0]); tools != 0 {
		t.Errorf("it sees %d tools after the revocation", tools)
	}
	v.runs(t, programs[0], "mcp", "login", "dragoman")
	if tools := h.codexTools(t, v, programs[0]); tools == 0 {
		t.Error("it does not recover from the revocation")
	}
}

// codexTools returns how many tools Codex's app-server sees.
func (h *house) codexTools(t *testing.T, v *visitor, program string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "app-server")
	cmd.Dir, cmd.Env = v.home, append(os.Environ(), "HOME="+v.home, "CODEX_HOME="+v.home)
	tools, err := appServerTools(cmd)
	if err != nil {
		t.Log(err)
	}
	return tools
}

// inspector lets the Inspector's command line sign in, use what it has kept, refresh it, and sign in again after it was
// removed.
func (h *house) inspector(t *testing.T) {
	v := h.visitor(t)
	t.Setenv("MCP_AUTO_OPEN_ENABLED", "true") // it has no terminal
	t.Setenv("MCP_INSPECTOR_SECRET_STORE", "file")
	list := func(args ...string) string {
		return v.runs(t, h.node, append([]string{filepath.Join(h.dir, "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"), "--cli", h.base + "/mcp", "--method", "tools/list"}, args...)...)
	}
	if out := list(); !strings.Contains(out, `"tools"`) {
		t.Errorf("it does not connect: %s", out)
	}
	if out := list("--stored-auth-only"); !strings.Contains(out, `"tools"`) {
		t.Errorf("it does not connect again: %s", out)
	}
	kept := filepath.Join(v.home, ".mcp-inspector", "secrets.json")
	v.ages(t, kept, "access_token", "expires_in")
	if out := list("--stored-auth-only"); !strings.Contains(out, `"tools"`) || v.token(t, kept, "access_token") == oldToken {
		t.Errorf("it does not refresh: %s", out)
	}
	h.remove(t, v.token(t, filepath.Join(v.home, ".mcp-inspector", "storage", "oauth.json"), "client_id"))
	if out := list(); !strings.Contains(out, `"tools"`) {
		t.Errorf("it does not recover from the revocation: %s", out)
	}
}

const (
	claudeDocument = "https://claude.ai/oauth/claude-code-client-metadata"
	codexDocument  = "https://chatgpt.com/oauth/codex/client.json"
)

func (h *house) mcpRemote(t *testing.T) {
	v := h.visitor(t)
	out := v.runs(t, h.node, filepath.Join(h.dir, "node_modules", "mcp-remote", "dist", "client.js"), h.base+"/mcp", "--transport", "http-only")
	if !strings.Contains(out, "Connected successfully") {
		t.Errorf("it does not connect: %s", out)
	}
	v.has(t, "MCP CLI Client")
}
