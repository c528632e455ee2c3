package documents

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	"github.com/dragoman-mcp/dragoman/test/built"
)

const root = "../.."

// notRun has the lines in the documents that this test does not run. It maps the beginning of a
// line to the reason.
var notRun = map[string]string{
	"sudo":                            "changes the system",
	"echo GITHUB_TOKEN":               "changes the system",
	"cp dragoman.rb":                  "needs Homebrew and a release",
	"sha256sum ":                      "needs a release; make release-try checks the sums",
	"tar ":                            "needs a release; make release-try unpacks the archive",
	"diff dist/":                      "needs a release",
	"gh ":                             "needs a release",
	"git checkout ":                   "needs a release",
	"apt":                             "changes the system",
	"brew ":                           "needs Homebrew and a release",
	"ssh ":                            "needs another machine; make remote tries it",
	"systemctl ":                      "needs systemd",
	"journalctl ":                     "needs systemd",
	"docker ":                         "needs a container engine",
	"podman ":                         "needs a container engine",
	"npm ":                            "needs a release; the packed packages are tried by make release-try",
	"npx ":                            "needs a release; the packed packages are tried by make release-try",
	"go install ":                     "needs a release",
	"make ":                           "the target is looked up in the Makefile instead",
	"git clone ":                      "needs the network",
	"dragoman search ":                "asks the official registry",
	"dragoman login github":           "the server of this name is a program here",
	"dragoman logout ":                "nobody is signed in here",
	"dragoman add io.":                "asks the official registry",
	"cd ":                             "the commands run in one directory",
	"promtool ":                       "needs Prometheus",
	"nginx ":                          "needs nginx",
	"caddy ":                          "needs Caddy",
	"man ":                            "needs man",
	"kill ":                           "the process is not known here",
	"dragoman config check -c /etc/":  "there is no such file here",
	"dragoman keys revoke INQ":        "no key has this id here",
	"dragoman people sign-out ada --": "there is no such session here",
	"dragoman projects ":              "there is no such project here",
	"dragoman secrets remove old":     "there is no such secret here",
	"dragoman prompts add ":           "there is no such text here",
	"dragoman prompts publish ":       "there is no such prompt here",
	"dragoman prompts activate ":      "there is no such prompt here",
	"dragoman prompts show ":          "there is no such prompt here",
	"dragoman prompts off ":           "there is no such prompt here",
	"dragoman prompt project:prompts": "there is no such prompt here",
	"dragoman rules who ":             "there is no such server here",

	"dragoman call https://mcp.example.com/mcp docs__":               "there is no such server here",
	"dragoman people invite ada --role caller --role admin -c team.": "there is no such file here",

	"dragoman rules for ":            "there is no such key or person here",
	"dragoman rules edit ":           "there is no such project here",
	"dragoman tools approve ":        "no definition has changed here",
	"dragoman tools reject ":         "no definition has changed here",
	"dragoman examples run ":         "no run was kept here",
	"dragoman examples keep ":        "no run was kept here",
	"dragoman examples remove ":      "no run was kept here",
	"dragoman examples show ":        "no run was kept here",
	"dragoman prompts compare ":      "there is no such prompt here",
	"dragoman prompts instructions ": "there is no such prompt here",
	"dragoman keys show ":            "there is no such key here",
	"dragoman questions show ":       "no question waits here",
	"dragoman questions answer ":     "no question waits here",
	"dragoman questions decline ":    "no question waits here",
	"claude ":                        "needs Claude Code",
}

// endless matches commands that run until they are stopped.
var endless = regexp.MustCompile(`^dragoman (serve\b|run .*--listen|record .*://|fake .*--listen|fake oauth ([^|]* )?[a-z-]+$|doctor --client|logs.* -f|status.* --watch|calls.* -f)`)

// statuses are the expected exit codes, other than 0, of commands with these beginnings.
var statuses = []struct {
	start string
	code  int
}{
	{"dragoman doctor", 1},                              // doctor finds faults in the example servers
	{"dragoman doctor --client", 3},                     // no client connects
	{"dragoman fake --client probe-then-initialize", 1}, // the client finds faults in the server
	{"dragoman fake --client bare-http-client", 1},      // the client finds faults in the server
	{"dragoman replay call.txtar", 1},                   // no client sends the call
	{"dragoman healthcheck --ready", 1},                 // no serve process is running
	{"dragoman backup ", 1},                             // nothing is stored yet
	{"dragoman server requirements --db postgres:", 1},  // no such database is running
	{"dragoman secrets set github", 1},                  // nobody types a value
	{"dragoman people role ada none --project shop", 2}, // there is no project shop
	{"dragoman secrets set github --project shop", 2},
	{"dragoman audit show --project shop", 2},
	{"dragoman add --project shop ", 2},
	{"dragoman disable orders --project shop", 2},
	{"dragoman login https://mcp.example.com/mcp", 3}, // there is no such host
	{"dragoman logout https://mcp.example.com/mcp", 1},
	{"dragoman keys --url ", 2}, // there is no key in DRAGOMAN_KEY
	{"dragoman keys add ci --url ", 2},
	{"dragoman status --url ", 2},
}

// less has additional arguments for commands that would take long or ask without them, by the beginning
// of the command. doctor waits three times for answers that the example server never gives.
var less = map[string]string{
	"dragoman add ":   "--yes ",
	"dragoman doctor": " --timeout 1s",
	"dragoman matrix": " --clients 2025-06-18/http --servers 2026-07-28/http",
}

// shellBlocks returns the lines of the fenced blocks marked sh. It joins continued lines.
func shellBlocks(text string) []string {
	var out []string
	inside, joined := false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			inside = !inside && strings.TrimSpace(line) == "```sh"
		case !inside:
		case strings.HasSuffix(line, `\`):
			joined += strings.TrimSuffix(line, `\`)
		default:
			if line = strings.TrimSpace(joined + line); line != "" && line[0] != '#' {
				out = append(out, line)
			}
			joined = ""
		}
	}
	return out
}

func documents(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	return append(all, filepath.Join(root, "README.md"))
}

// TestCommands runs every command in the documents, except the lines in notRun.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it many times")
	}
	bin := filepath.Dir(built.Dragoman(t))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	play := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q\n", playServer, self)
	for _, name := range []string{"npx", "uvx", "node", "python3"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(play), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := shellBlocks(string(text))
		if len(lines) == 0 {
			continue
		}
		seen += len(lines)
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, bin, play, serveExample(t))
			for _, line := range lines {
				if target, ok := strings.CutPrefix(line, "make "); ok {
					target, _, _ = strings.Cut(target, " ")
					if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
						t.Errorf("%s: the Makefile has no target %q", line, target)
					}
					continue
				}
				if skipped(line) {
					continue
				}
				p.run(line)
				if filepath.Base(path) == "cli.md" && isServe(line) {
					p.run("dragoman serve") // later commands use the default file again
				}
			}
		})
	}
	if seen < 20 {
		t.Errorf("found only %d commands in the documents", seen)
	}
}

func skipped(line string) bool {
	for start := range notRun {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// place is the directory in which the commands of one document run.
type place struct {
	t        *testing.T
	dir, url string
	env      []string
	ports    map[string]string // addresses with free ports, by the port that the document shows
	stop     []func()          // functions that stop running commands, newest last
}

const configuration = `dragoman: {listen: "127.0.0.1:7300"}
mcpServers:
  files: {command: npx, args: [-y, "@modelcontextprotocol/server-filesystem", /srv]}
  github: {command: npx, args: [-y, "@modelcontextprotocol/server-github"]}
  gh: {command: npx, args: [-y, "@modelcontextprotocol/server-github"]}
  deploy: {command: npx, args: [deploy]}
  charts: {command: npx, args: [charts]}
  docs: {command: npx, args: [docs]}
  weather:
    command: npx
    args: [weather]
`

// newPlace creates a directory with the files that the documents name, and starts dragoman
// serve in it.
func newPlace(t *testing.T, bin, play, url string) *place {
	dir := t.TempDir()
	p := &place{t: t, dir: dir, url: url, ports: map[string]string{}, env: []string{
		"HOME=" + dir, "TOKEN=secret-token", "LANG=C.UTF-8",
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
	}}
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("dragoman.yaml", p.here(configuration), 0o600)
	write(".cursor/mcp.json", `{"mcpServers":{"github":{"url":"https://mcp.example.com/mcp"},"files":{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/srv"]}}}`, 0o600)
	write("mcp.json", `{"mcpServers":{"files":{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/srv"]}}}`, 0o600)
	write(".codex/config.toml", "[mcp_servers.files]\ncommand = \"npx\"\nargs = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv\"]\n", 0o600)
	write("token.txt", "a token\n", 0o600)
	write("issue.json", `{"title":"Bug"}`, 0o644)
	write(".local/share/bash-completion/completions/README", "", 0o644)
	for _, name := range []string{"server", "server-new"} {
		write(name, play, 0o755)
	}
	write("notes/today.md", "# Today\n", 0o644)
	write("work/todo.md", "# To do\n", 0o644)
	write(".config/fish/completions/README", "", 0o644)
	t.Cleanup(p.stopAll)
	p.run("dragoman serve")
	return p
}

var address = regexp.MustCompile(`127\.0\.0\.1:([1-9]\d+)`)

// here replaces the URL of the example server and the ports in a line of a document with the real
// URL and ports.
func (p *place) here(text string) string {
	text = strings.ReplaceAll(text, "go run ./cmd/dragoman", "dragoman")
	text = strings.ReplaceAll(text, "bin/dragoman", "dragoman")
	text = address.ReplaceAllStringFunc(text, func(a string) string {
		port := a[strings.Index(a, ":")+1:]
		if p.ports[port] == "" {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				p.t.Fatal(err)
			}
			p.ports[port] = l.Addr().String()
			_ = l.Close()
		}
		return p.ports[port]
	})
	return strings.ReplaceAll(text, "https://mcp.example.com/mcp", p.url)
}

func (p *place) stopAll() {
	for _, stop := range slices.Backward(p.stop) {
		stop()
	}
	p.stop = nil
}

// run runs a line. If the line fails, the test fails.
func (p *place) run(shown string) {
	p.t.Helper()
	line := p.here(shown)
	if isServe(line) && !strings.Contains(line, "--listen") {
		line += " --listen " + p.here("127.0.0.1:7300")
	}
	if rest, ok := strings.CutPrefix(line, "dragoman calls 41"); ok {
		line = "dragoman calls " + p.call() + rest
	}
	for start, more := range less {
		if rest, ok := strings.CutPrefix(line, start); ok && !strings.Contains(line, "--client") {
			line = start + more + rest
		}
	}
	if err := exec.Command("bash", "-n", "-c", line).Run(); err != nil {
		p.t.Errorf("%s: the shell cannot read it: %v", shown, err)
		return
	}
	begun := time.Now()
	defer func() { p.t.Logf("%5.1fs %s", time.Since(begun).Seconds(), shown) }()
	limit := 2 * time.Minute
	if endless.MatchString(line) {
		limit = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	out := &logtest.Buffer{}
	c := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
	c.Dir, c.Env, c.Stdout, c.Stderr = p.dir, p.env, out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	if !endless.MatchString(line) {
		defer cancel()
		p.judge(shown, c.Run(), out)
		return
	}
	if isServe(line) {
		p.stopAll() // a running command may use the port
	}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	p.stop = append(p.stop, func() {
		defer cancel()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGINT)
		p.judge(shown, <-ended, out, 130)
	})
	if isServe(line) {
		p.await(line)
		return
	}
	if !strings.Contains(line, ">") && !strings.Contains(line, "calls -f") { // wait for the first output; no client connects in the meantime
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
			if out.String() != "" || len(ended) > 0 {
				break // the command is running, or has ended and is checked at the end of the document
			}
		}
	}
}

// call makes a call through the serve process that is running, and returns its number.
func (p *place) call() string {
	p.t.Helper()
	at := p.here("127.0.0.1:7300")
	c := exec.Command("bash", "-o", "pipefail", "-c", "dragoman call http://"+at+"/mcp gh__echo message=hello >/dev/null && "+
		`dragoman calls --listen `+at+` --json | grep '"target":"echo"' | tail -n 1 | grep -o '"number":[0-9]*'`)
	stderr := &logtest.Buffer{}
	c.Dir, c.Env, c.Stderr = p.dir, p.env, stderr
	out, err := c.Output()
	if err != nil {
		p.t.Errorf("no call was made: %v\n%s", err, stderr)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), `"number":`)
}

// isServe reports whether a line runs dragoman serve, and not dragoman server.
func isServe(line string) bool { return strings.HasPrefix(line+" ", "dragoman serve ") }

// await waits until the serve process that this command line started accepts connections.
func (p *place) await(line string) {
	at := p.here("127.0.0.1:7300")
	if m := address.FindString(line); m != "" {
		at = m
	}
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", at); err == nil {
			_ = c.Close()
			return
		}
	}
	p.t.Errorf("%s does not listen on %s", line, at)
}

func (p *place) judge(shown string, err error, out *logtest.Buffer, also ...int) {
	p.t.Helper()
	for _, s := range statuses {
		if strings.HasPrefix(p.here(shown), s.start) {
			also = append(also, s.code)
		}
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || !slices.Contains(also, exit.ExitCode())) {
		p.t.Errorf("%s: %v\n%s", shown, err, out.String())
	}
}

func TestShellBlocks(t *testing.T) {
	const page = "```sh\na b \\\n  c\n# comment\n\nd\n```\ntext\n```\nno\n```\n```json\nno\n```\n```sh\ne\n```\n"
	if got := strings.Join(shellBlocks(page), "|"); got != "a b   c|d|e" {
		t.Errorf("got %q", got)
	}
}
