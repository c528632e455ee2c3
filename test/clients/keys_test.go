//go:build unix

package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fronttest"
)

// TestClientsWithKey connects clients to a `dragoman serve` whose clients need an API key: each works with
// one in a header, and fails with a wrong one. None of them opens a browser, since whatever it looks for
// below /.well-known isn't there (TA06). Claude Code and Codex are large, so `make clients-check` leaves
// them out.
func TestClientsWithKey(t *testing.T) {
	mode := os.Getenv("DRAGOMAN_CLIENTS")
	if mode == "" {
		t.Skip("set DRAGOMAN_CLIENTS=1 (or make clients) to run clients from npm")
	}
	k := newKeyed(t)
	all := map[string]func(t *testing.T, key string) error{"Go SDK": k.goSDK, "mcp-remote": k.mcpRemote}
	for _, c := range clients {
		all[c.name] = func(t *testing.T, key string) error {
			return k.script(t, c, map[string]any{"url": k.url, "headers": map[string]string{"Authorization": "Bearer " + key}})
		}
	}
	if mode != "check" {
		modules := filepath.Join(installFrom(t, "vendors"), "node_modules")
		all["Claude Code"] = func(t *testing.T, key string) error { return k.claude(t, modules, key) }
		all["Codex"] = func(t *testing.T, key string) error { return k.codex(t, modules, key) }
	}
	for name, connect := range all {
		t.Run(name, func(t *testing.T) {
			if err := connect(t, k.key); err != nil {
				t.Errorf("with a key: %v", err)
			}
			if err := connect(t, k.key[:len(k.key)-1]+"-"); err == nil {
				t.Error("a wrong key opens the server")
			}
			k.check(t)
		})
	}
}

// keyed is a `dragoman serve` whose clients need a key, behind a proxy that sees what they ask for.
type keyed struct {
	*rig
	url, key string
	opened   string // the file to which the browser writes what it opens
	path     string // a PATH with the browser

	mu       sync.Mutex
	answers  []string // the status, method and path of each answer since the last check
	accepted int      // how many of them were accepted
}

func newKeyed(t *testing.T) *keyed {
	folder := t.TempDir()
	k := &keyed{rig: prepare(t), opened: filepath.Join(folder, "opened")}
	browser := "#!/bin/sh\necho \"$0 $*\" >>'" + k.opened + "'\n"
	for _, name := range []string{"xdg-open", "open", "x-www-browser", "sensible-browser", "firefox", "chromium", "google-chrome"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(browser), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	k.path = folder + string(os.PathListSeparator) + os.Getenv("PATH")
	const more = "dragoman: {access: {loopback: keys}, database: %q}\n"
	base := k.rig.serve(t, fmt.Sprintf(more, filepath.Join(folder, "dragoman.db")))
	file := filepath.Join(folder, "dragoman.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(more, filepath.Join(folder, "dragoman.db"))), 0o600); err != nil {
		t.Fatal(err)
	}
	add := exec.CommandContext(t.Context(), k.dragoman, "-q", "keys", "add", "test", "-c", file)
	add.Env = append(os.Environ(), "HOME="+folder, "XDG_RUNTIME_DIR="+folder)
	out, err := add.Output()
	if k.key = strings.TrimSpace(string(out)); err != nil || k.key == "" {
		t.Fatalf("keys add: %v", err)
	}
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(fronttest.Proxy(func(r *httputil.ProxyRequest) { r.SetURL(to) }, func(r *http.Response) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.answers = append(k.answers, fmt.Sprintf("%d %s %s", r.StatusCode, r.Request.Method, r.Request.URL.RequestURI()))
		if r.StatusCode < 300 {
			k.accepted++
		}
		return nil
	}))
	t.Cleanup(front.Close)
	k.url = front.URL + k.at()
	// The serve that runs reads the key within a second.
	for range 100 {
		if r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/mcp", nil); err == nil {
			r.Header.Set("X-API-Key", k.key)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusTooManyRequests {
					return k
				}
			}
		}
		time.Sleep(100 * time.Millisecond) // the server is a separate process
	}
	t.Fatal("serve doesn't know the key")
	return nil
}

// at is the path of the endpoint. With one server, its tools have their own names.
func (k *keyed) at() string { return "/s/" + string(latest) + "/mcp" }

// check checks what a client asked for, and forgets it.
func (k *keyed) check(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.accepted == 0 {
		t.Errorf("nothing was accepted: %v", k.answers)
	}
	if !slices.ContainsFunc(k.answers, func(a string) bool { return strings.HasPrefix(a, "401 ") || strings.HasPrefix(a, "429 ") }) {
		t.Errorf("no wrong key was refused: %v", k.answers)
	}
	for _, a := range k.answers {
		status, rest, _ := strings.Cut(a, " ")
		if _, path, _ := strings.Cut(rest, " "); path != k.at() && status != "404" {
			t.Errorf("there is something at %s", a)
		}
	}
	k.answers, k.accepted = nil, 0
	if b, err := os.ReadFile(k.opened); err == nil {
		t.Errorf("a browser was opened: %s", b)
		_ = os.Remove(k.opened)
	}
}

// command returns a command with a home of its own, in which every browser is ours.
func (k *keyed) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "PATH="+k.path, "BROWSER="+filepath.Join(filepath.Dir(k.opened), "xdg-open"), "DISPLAY=:9",
		"DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// script runs a client's script for the tools of a server.
func (k *keyed) script(t *testing.T, c client, target map[string]any) error {
	target["server"], target["only"] = latest, []string{"tools"}
	arg, err := json.Marshal(target)
	if err != nil {
		return err
	}
	out, err := k.command(t, k.node, filepath.Join(k.dir, c.script), string(arg), c.mode).Output()
	var o outcome
	if err == nil {
		err = json.Unmarshal(out, &o)
	}
	if err == nil && (o.Steps["open"] != "works" || o.Steps["tools"] != "works") {
		err = fmt.Errorf("%s", out)
	}
	return err
}

// mcpRemote connects with the first TypeScript SDK through mcp-remote. The key is in a variable, as
// docs/access.md has it.
func (k *keyed) mcpRemote(t *testing.T, key string) error {
	remote := filepath.Join(k.dir, "node_modules", "mcp-remote", "dist", "proxy.js")
	line := fmt.Sprintf(`AUTH='Bearer %s' exec '%s' '%s' '%s' --header 'Authorization:${AUTH}'`, key, k.node, remote, k.url)
	return k.script(t, clients[0], map[string]any{"command": "sh", "args": []string{"-c", line}})
}

type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// goSDK connects with the official Go SDK.
func (k *keyed) goSDK(t *testing.T, key string) error {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: k.url, HTTPClient: &http.Client{Transport: withKey(key)},
	}, nil)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	list, err := session.ListTools(t.Context(), nil)
	if err == nil && len(list.Tools) == 0 {
		err = fmt.Errorf("no tools")
	}
	return err
}

// claude adds the server to Claude Code, which then says whether it can connect.
func (k *keyed) claude(t *testing.T, modules, key string) error {
	packages, err := filepath.Glob(filepath.Join(modules, "@anthropic-ai", "claude-code-*", "claude"))
	if err != nil || len(packages) == 0 {
		t.Fatalf("no Claude Code: %v", err)
	}
	add := k.command(t, packages[0], "mcp", "add", "--transport", "http", "dragoman", k.url, "--header", "Authorization: Bearer "+key)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	list := k.command(t, packages[0], "mcp", "list")
	list.Dir, list.Env = add.Dir, add.Env
	out, err := list.CombinedOutput()
	if err == nil && !strings.Contains(string(out), "Connected") {
		err = fmt.Errorf("%s", out)
	}
	return err
}

// codex asks Codex's app-server for the tools of the server.
func (k *keyed) codex(t *testing.T, modules, key string) error {
	programs, err := filepath.Glob(filepath.Join(modules, "@openai", "codex-*", "vendor", "*", "bin", "codex"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no Codex: %v", err)
	}
	cmd := k.command(t, programs[0], "app-server")
	settings := fmt.Sprintf("[mcp_servers.dragoman]\nurl = %q\nbearer_token_env_var = \"DRAGOMAN_KEY\"\n", k.url)
	if err := os.WriteFile(filepath.Join(cmd.Dir, "config.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "CODEX_HOME="+cmd.Dir, "DRAGOMAN_KEY="+key)
	_, err = appServerTools(cmd)
	return err
}

// appServerTools returns how many tools Codex's app-server sees at its only server.
func appServerTools(cmd *exec.Cmd) (int, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	for _, line := range []string{`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}`, `{"method":"initialized"}`, `{"id":2,"method":"mcpServerStatus/list","params":{}}`} {
		if _, err := fmt.Fprintln(in, line); err != nil {
			return 0, err
		}
	}
	for d := json.NewDecoder(out); ; {
		var m struct {
			ID     int
			Result struct {
				Data []struct {
					Tools      map[string]any
					ToolsError string
				}
			}
		}
		if err := d.Decode(&m); err != nil {
			return 0, fmt.Errorf("%w: %s", err, log.String())
		}
		switch {
		case m.ID != 2:
		case len(m.Result.Data) == 1 && len(m.Result.Data[0].Tools) > 0:
			return len(m.Result.Data[0].Tools), nil
		default:
			return 0, fmt.Errorf("%+v", m.Result.Data)
		}
	}
}
