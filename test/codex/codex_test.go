//go:build unix

package codex

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
	"github.com/dragoman-mcp/dragoman/test/built"
	"github.com/dragoman-mcp/dragoman/test/npm"
)

var (
	//go:embed package.json
	packageJSON []byte
	//go:embed package-lock.json
	packageLock []byte
)

// TestMain fails if a worker process is left after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }

const settings = `model = "model-of-the-test"
model_provider = "test"
[model_providers.test]
name = "test"
base_url = "%s/v1"
wire_api = "responses"
env_key = "TEST_KEY"
request_max_retries = 0
stream_max_retries = 0
`

// result is the result of the tools codex and codex-reply.
type result struct {
	Content           []struct{ Text string }
	StructuredContent struct{ ThreadID, Content string }
	IsError           bool
}

func (r *result) texts() string {
	var all []string
	for _, c := range r.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

// client is a strict client, connected through Dragoman to Codex.
type client struct {
	*fake.Client
	t        *testing.T
	decision string // the client's answer to each question
	log      bytes.Buffer
}

func open(t *testing.T, program, codex, home, revision string, named bool) *client {
	t.Helper()
	c := &client{t: t, decision: "accept"}
	// Codex runs commands in a login shell. An empty HOME keeps the user's shell profile out
	// of the test.
	command := []string{program, "-v", "run", "--env", "CODEX_HOME=" + home, "--env", "HOME=" + t.TempDir(), "--env", "TEST_KEY=none"}
	if named {
		command = append(command, "--dialect", "codex-app-server")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var err error
	c.Client, err = fake.OpenClient(ctx, "strict-"+revision, fake.Where{Command: append(command, "--", codex, "app-server")}, fake.ClientOptions{
		Stderr: &c.log,
		Answer: func(context.Context, fake.Ask) ([]byte, *jsonrpc.Error) {
			return fmt.Appendf(nil, `{"action":"accept","content":{"decision":%q}}`, c.decision), nil
		},
	})
	if err != nil {
		t.Fatalf("open: %v\n%s", err, c.log.String())
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if v := c.Violations(); len(v) > 0 {
			t.Errorf("violations: %q", v)
		}
		if t.Failed() {
			t.Log(c.log.String())
		}
	})
	return c
}

func (c *client) tool(o fake.CallOptions, name string, arguments map[string]string) (*result, *fake.Reply) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	params, _ := json.Marshal(map[string]any{"name": name, "arguments": arguments})
	reply, err := c.Call(ctx, "tools/call", params, o)
	if err != nil || reply.Err != nil {
		c.t.Fatalf("%s %v: %v, %+v", name, arguments, err, reply)
	}
	r := &result{}
	if err := json.Unmarshal(reply.Result, r); err != nil {
		c.t.Fatal(err)
	}
	return r, reply
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestCodex runs turns with real workers of two Codex versions.
func TestCodex(t *testing.T) {
	if os.Getenv("DRAGOMAN_PEERS_CODEX") == "" {
		t.Skip("set DRAGOMAN_PEERS_CODEX=1 (or make peers-codex) to run Codex from npm")
	}
	if _, err := exec.LookPath("npm"); errors.Is(err, exec.ErrNotFound) {
		t.Fatal("make peers-codex needs npm and node")
	}
	packages := npm.Install(t, "peers-codex", map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock})
	modules, program, end := filepath.Join(packages, "node_modules"), built.Dragoman(t), newModel(t)
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), fmt.Appendf(nil, settings, end.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, worker := range []struct {
		name, command string
	}{
		{"0.169", filepath.Join(modules, "@openai", "codex", "bin", "codex.js")},
		{"0.50", filepath.Join(modules, "codex-of-conversations", "bin", "codex.js")},
	} {
		for _, revision := range []string{"2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(worker.name+"/"+revision, func(t *testing.T) {
				folder := t.TempDir()
				// For one of the revisions, Dragoman must detect the dialect by itself.
				c := open(t, program, worker.command, home, revision, revision != "2025-06-18")
				asks := revision >= "2025-06-18" // true if the revision has elicitation

				list, err := c.Call(t.Context(), "tools/list", nil, fake.CallOptions{})
				if err != nil || !bytes.Contains(list.Result, []byte(`"name":"codex"`)) || !bytes.Contains(list.Result, []byte(`"name":"codex-reply"`)) {
					t.Fatalf("tools/list: %v, %+v", err, list)
				}
				r, reply := c.tool(fake.CallOptions{Progress: true}, "codex", map[string]string{
					"prompt": "say something", "cwd": folder, "sandbox": "read-only", "approval-policy": "on-request",
				})
				thread := r.StructuredContent.ThreadID
				if r.StructuredContent.Content != sentence || r.Content[0].Text != sentence || thread == "" || r.IsError {
					t.Fatalf("a turn: %s", reply.Result)
				}
				if len(reply.Progress) == 0 {
					t.Error("no progress")
				}
				say := func(prompt string) *result {
					r, _ := c.tool(fake.CallOptions{}, "codex-reply", map[string]string{"threadId": thread, "prompt": prompt})
					return r
				}
				for _, decision := range []string{"accept", "decline"} {
					c.decision = decision
					for _, what := range []string{"run", "patch"} {
						file := filepath.Join(folder, what+"-"+decision)
						before := len(c.Asks())
						name := file
						if what == "patch" {
							name = filepath.Base(file) // paths in a patch are relative to the folder
						}
						r := say(what + " " + name)
						if want := asks && decision == "accept"; r.StructuredContent.Content != sentence || exists(file) != want {
							t.Errorf("%s %s: the file exists: %t, want %t; %s", decision, what, exists(file), want, r.texts())
						}
						if n := len(c.Asks()) - before; asks && n != 1 {
							t.Errorf("%s %s: the client got %d questions", decision, what, n)
						}
						if !asks && !strings.Contains(r.texts(), "so it was declined") {
							t.Errorf("the result does not mention that the request was declined: %s", r.texts())
						}
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				params, _ := json.Marshal(map[string]any{"name": "codex-reply", "arguments": map[string]string{"threadId": thread, "prompt": "wait"}})
				_, err = c.Call(ctx, "tools/call", params, fake.CallOptions{Progress: true, OnProgress: func(fake.Notice) { cancel() }})
				cancel()
				if err == nil {
					t.Error("a cancelled turn has a result")
				}
				r = say("go on")
				for try := 0; strings.Contains(r.texts(), "running in this thread") && try < 100; try++ {
					time.Sleep(100 * time.Millisecond) // the worker is a separate process, so poll
					r = say("go on")
				}
				if r.StructuredContent.Content != sentence {
					t.Errorf("after the interruption: %s", r.texts())
				}
				if r, _ := c.tool(fake.CallOptions{}, "codex-reply", map[string]string{"threadId": "01a1fe41-a016-7be2-8d43-c893307d6599", "prompt": "x"}); !r.IsError || !strings.Contains(r.texts(), "Codex has no thread") {
					t.Errorf("a thread that does not exist: %s", r.texts())
				}
			})
		}
		t.Run(worker.name+"/the thread of another process", func(t *testing.T) {
			first := open(t, program, worker.command, home, "2025-11-25", true)
			r, _ := first.tool(fake.CallOptions{}, "codex", map[string]string{"prompt": "hello"})
			thread := r.StructuredContent.ThreadID
			reply := func() *result {
				c := open(t, program, worker.command, home, "2026-07-28", true)
				r, _ := c.tool(fake.CallOptions{}, "codex-reply", map[string]string{"threadId": thread, "prompt": "go on"})
				return r
			}
			if worker.name == "0.50" {
				// A 0.50 worker needs the path of the thread's file, and only the Dragoman process
				// that began the thread knows this path.
				if r := reply(); !r.IsError || !strings.Contains(r.texts(), "Codex has no thread") {
					t.Errorf("codex-reply: %s", r.texts())
				}
				return
			}
			if r := reply(); !r.IsError || !strings.Contains(r.texts(), "Another process of Codex") {
				t.Errorf("while the other process has the thread open: %s", r.texts())
			}
			if err := first.Close(); err != nil {
				t.Error(err)
			}
			if r := reply(); r.IsError || r.StructuredContent.Content != sentence {
				t.Errorf("after the other process has ended: %s", r.texts())
			}
		})
	}
}
