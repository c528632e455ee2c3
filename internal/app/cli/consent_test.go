package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestConsent checks when a command starts the servers of a configuration file that it has found in
// the working directory.
func TestConsent(t *testing.T) {
	const before, after = `{"mcpServers":{"gh":{"command":"gh-mcp","args":["--token=hunter22222","a b"]},"off":{"command":"off-mcp","disabled":true}}}`, `{"mcpServers":{"gh":{"command":"other"}}}`
	u := newUser(t)
	file := u.write("dragoman.yaml", before)
	// try runs a command, and returns what it says and whether it has reached a server. typed is what
	// the user types at the terminal; "" means that there is no terminal.
	try := func(typed string, args ...string) (code int, said string, reached bool) {
		t.Helper()
		var out syncBuffer
		a := &app{world: world{stdin: strings.NewReader(""), stdout: io.Discard, env: u.env, status: newStatus(&out, false, noEnv), interactive: typed != "", keyboard: typed != ""}}
		a.openInput = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(typed)), nil }
		a.backend = Backend{
			Connect: func(context.Context, daemon.ConnectOptions) (Session, error) {
				reached = true
				return answering{}, nil
			},
			Serve: func(context.Context, daemon.ServeOptions) error {
				reached = true
				return nil
			},
		}
		code = a.main(args)
		return code, out.take(), reached
	}
	forget := func() {
		if err := os.RemoveAll(filepath.Join(u.home, "cache")); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"list"}, {"list", "gh"}, {"call", "gh", "tool"}, {"show", "gh"}, {"read", "gh", "x:y"}, {"doctor", "gh"}} {
		if code, said, reached := try("", args...); code != exitUsage || reached || !strings.Contains(said, "gh-mcp") || !strings.Contains(said, "-c dragoman.yaml") {
			t.Errorf("%v: %d %t\n%s", args, code, reached, said)
		}
	}
	if code, said, reached := try("\n", "list"); code == exitOK || reached || !strings.Contains(said, file) || !strings.Contains(said, "gh: gh-mcp ") || strings.Contains(said, "hunter") || strings.Contains(said, "off-mcp") {
		t.Errorf("refused at the terminal: %d %t\n%s", code, reached, said)
	}
	// Each of these counts as the first use.
	for _, first := range []struct {
		typed string
		args  []string
	}{{"y\n", []string{"list"}}, {"", []string{"call", "gh", "tool", "-c", "dragoman.yaml"}}, {"", []string{"list", "-c", file}}, {"", []string{"serve"}}, {"y\n", []string{"serve"}}} {
		forget()
		if code, said, reached := try(first.typed, first.args...); code != exitOK || !reached {
			t.Errorf("%v: %d\n%s", first.args, code, said)
		}
		if code, said, reached := try("", "call", "gh", "tool"); code != exitOK || !reached || said != "" {
			t.Errorf("after %v: %d\n%s", first.args, code, said)
		}
	}
	u.write("dragoman.yaml", after)
	if code, said, reached := try("", "call", "gh", "tool"); code != exitUsage || reached {
		t.Errorf("after a change: %d\n%s", code, said)
	}
	u.write("dragoman.yaml", before)
	if code, said, reached := try("", "call", "gh", "tool"); code != exitOK || !reached {
		t.Errorf("after the change was undone: %d\n%s", code, said)
	}
	// A URL, a command and the user's own file need no consent.
	forget()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	u.write(".config/dragoman/config.yaml", before)
	u.write("dragoman/config.yaml", before) // its place on Windows
	for _, args := range [][]string{{"list"}, {"list", "http://h"}, {"list", "--", "cmd"}} {
		if code, said, reached := try("", args...); code != exitOK || !reached {
			t.Errorf("%v: %d\n%s", args, code, said)
		}
	}
}

// TestConsentIsForWhatWasShown replaces the file while the question is open. The answer is about the
// content that the question has shown: this content starts, and the other one has never been used.
func TestConsentIsForWhatWasShown(t *testing.T) {
	const shown, evil = `{"mcpServers":{"gh":{"command":"shown"}}}`, `{"mcpServers":{"gh":{"command":"evil"}}}`
	for _, args := range [][]string{{"list", "gh"}, {"list"}} {
		u := newUser(t)
		u.write("dragoman.yaml", shown)
		var started []string
		run := func(swap bool, args ...string) int {
			replace := func() {
				if swap {
					u.write("dragoman.yaml", evil)
				}
			}
			a := &app{world: world{stdin: strings.NewReader(""), stdout: io.Discard, env: u.env, status: newStatus(io.Discard, false, noEnv), interactive: swap, keyboard: swap}}
			a.openInput = func() (io.ReadCloser, error) {
				replace()
				return io.NopCloser(strings.NewReader("y\n")), nil
			}
			a.backend = Backend{
				Connect: func(_ context.Context, o daemon.ConnectOptions) (Session, error) {
					started = append(started, o.Server.Command)
					return answering{}, nil
				},
				Serve: func(context.Context, daemon.ServeOptions) error { return nil },
			}
			return a.main(args)
		}
		if code := run(true, args...); code != exitOK {
			t.Errorf("%v: %d", args, code)
		}
		u.write("dragoman.yaml", evil)
		if code := run(false, "list"); code != exitUsage || strings.Contains(strings.Join(started, " "), "evil") {
			t.Errorf("after %v, the other content: %d, started %q", args, code, started)
		}
		u.write("dragoman.yaml", shown)
		if code := run(false, "list"); code != exitOK {
			t.Errorf("after %v, the content that was shown: %d", args, code)
		}
	}
}

// TestStartedBy checks that people see everything that decides which program runs: also the folder, the
// variables that change the meaning of a command, and the command that prints Dragoman's instructions.
func TestStartedBy(t *testing.T) {
	t.Setenv("OUTER", "outer-value")
	lines := func(yaml string) string {
		t.Helper()
		s, problems := config.Parse(filepath.Join(t.TempDir(), "dragoman.yaml"), []byte(yaml), os.LookupEnv)
		if s == nil {
			t.Fatal(problems)
		}
		return strings.Join(startedBy(s), "\n")
	}
	got := lines(`
mcpServers:
  git:
    command: git
    args: [status]
    cwd: below
    env: {LEVEL: plain-value, PATH: "${OUTER}:./bin", LD_PRELOAD: ./evil.so, GIT_TOKEN: ghp_abcdefghijklmnopqrstuvwx, NODE_OPTIONS: "--require ./x.js ghp_abcdefghijklmnopqrstuvwx", A: "1", Path2: x}
  web: {url: "http://h/mcp"}
  all: {command: x}
dragoman:
  servers: {all: {inheritEnv: [AWS_REGION, "*"]}}
  server: {instructions: {command: [./teach, "--token=hunter22222", "a b"]}}
`)
	for _, want := range []string{"git: git status", "below", "PATH=***:./bin", "LD_PRELOAD=./evil.so", "NODE_OPTIONS=--require ./x.js ***", "GIT_TOKEN", "LEVEL", "*, AWS_REGION", "./teach '--token=***' 'a b'", "web: http://h/mcp"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	for _, secret := range []string{"outer-value", "ghp_", "hunter", "plain-value"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q is shown in\n%s", secret, got)
		}
	}
	if got := lines(`dragoman: {server: {instructions: {command: [./teach]}}}`); !strings.Contains(got, "./teach") || strings.Contains(got, "no server") {
		t.Errorf("only the instructions: %s", got)
	}
	if got := lines(`{mcpServers: {a: {command: x}}, dragoman: {projects: {shop: {use: [a], mcpServers: {evil: {command: ./evil}}, server: {instructions: {command: [./teach-shop]}}}}}}`); got != "a: x\nfor the instructions of shop: ./teach-shop\nshop/evil: ./evil" {
		t.Errorf("with a project: %s", got)
	}
	// However many variables there are, the telling ones are among those that are shown.
	many := "mcpServers:\n  m:\n    command: x\n    env:\n      LD_PRELOAD: ./evil.so\n"
	for i := range 500 {
		many += fmt.Sprintf("      A%03d: %s\n", i, strings.Repeat("x", 300))
	}
	if got := lines(many); !strings.Contains(got, "LD_PRELOAD=./evil.so") || !strings.Contains(got, "481 more") || len(got) > 2000 {
		t.Errorf("with many variables: %s", got)
	}
}

// TestServeSaysWhatItStarts checks that serve starts the servers of its folder without a question, and
// names them at the first use.
func TestServeSaysWhatItStarts(t *testing.T) {
	u := newUser(t)
	u.write("dragoman.yaml", `{"mcpServers":{"gh":{"command":"gh-mcp"}}}`)
	for _, want := range []bool{true, false} {
		var said syncBuffer
		a := &app{world: world{stdout: io.Discard, env: u.env, status: newStatus(&said, false, noEnv)}}
		a.backend = Backend{Serve: func(context.Context, daemon.ServeOptions) error { return nil }}
		if code := a.main([]string{"serve"}); code != exitOK || strings.Contains(said.take(), "gh: gh-mcp") != want {
			t.Errorf("%d, want the command: %t", code, want)
		}
	}
}

// TestImportCountsAsUse checks that the servers of a file that import has created can be used, but not
// those of a file that was there before.
func TestImportCountsAsUse(t *testing.T) {
	u := newUser(t)
	u.write("mcp.json", `{"mcpServers":{"gh":{"command":"gh-mcp"}}}`)
	list := func() int {
		a := &app{world: world{stdout: io.Discard, env: u.env, status: newStatus(io.Discard, false, noEnv)}}
		a.backend = Backend{Connect: func(context.Context, daemon.ConnectOptions) (Session, error) { return answering{}, nil }}
		return a.main([]string{"list"})
	}
	for _, c := range []struct {
		there string
		want  int
	}{{"", exitOK}, {"mcpServers:\n  evil:\n    command: evil\n", exitUsage}} {
		_ = os.Remove("dragoman.yaml")
		if c.there != "" {
			u.write("dragoman.yaml", c.there)
		}
		if code, out, said := u.run("import", "--from", "./mcp.json", "--into", "dragoman.yaml"); code != exitOK {
			t.Fatalf("%d\n%s%s", code, out, said)
		}
		if got := list(); got != c.want {
			t.Errorf("with %q there: %d, want %d", c.there, got, c.want)
		}
	}
}
