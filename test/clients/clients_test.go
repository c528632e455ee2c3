//go:build unix

package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/test/built"
)

// TestMain fails if a process is left after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }

// client is one client in one mode, and the servers of the other era for its tests.
type client struct {
	name, pkg    string // pkg is the client's name in package.json
	script, mode string
	servers      []server
}

// server is the name of a server in steps.mjs.
type server string

const (
	ofSDK2     server = "modern"     // modern.mjs
	everything server = "everything" // the reference server
	newest     server = "fake-2026-07-28"
	latest     server = "fake-2025-11-25"
	oldest     server = "fake-2024-11-05"
)

// modern reports whether a server supports only 2026-07-28. All other servers support only older
// revisions.
func (s server) modern() bool { return s == ofSDK2 || s == newest }

// String returns the name of the server in the table.
func (s server) String() string {
	if date, ok := strings.CutPrefix(string(s), "fake-"); ok {
		return "strict " + date
	}
	return map[server]string{ofSDK2: "TypeScript SDK v2", everything: "everything"}[s]
}

var (
	modern = []server{ofSDK2, newest}
	legacy = []server{everything, latest, oldest}
)

// clients are the clients of the table. Command-line clients start a process for each step, so the
// tests use them with only one server.
var clients = []client{
	{"TypeScript SDK v1", "@modelcontextprotocol/sdk", "sdk1.mjs", "", modern},
	{"TypeScript SDK v2", "@modelcontextprotocol/client", "sdk2.mjs", "legacy", modern},
	{"TypeScript SDK v2, `auto`", "@modelcontextprotocol/client", "sdk2.mjs", "auto", legacy},
	{"AI SDK", "@ai-sdk/mcp", "aisdk.mjs", "", legacy},
	{"mcporter", "mcporter", "mcporter.mjs", "", modern[:1]},
	{"Inspector CLI", "@modelcontextprotocol/inspector", "inspector.mjs", "legacy", modern[:1]},
	{"Inspector CLI, `modern`", "@modelcontextprotocol/inspector", "inspector.mjs", "modern", legacy[:1]},
}

// steps are the columns of the table, in this order; see steps.mjs.
var steps = []string{"open", "tools", "call", "elicitation", "sampling", "roots", "resources", "prompts", "progress", "cancellation", "ping", "rules"}

// outcome is the result that a script prints.
type outcome struct {
	Revision string            `json:"revision"` // "" if the client does not report it
	Steps    map[string]string `json:"steps"`
}

func TestClients(t *testing.T) {
	mode := os.Getenv("DRAGOMAN_CLIENTS")
	if mode == "" {
		t.Skip("set DRAGOMAN_CLIENTS=1 (or make clients) to run clients from npm")
	}
	r := prepare(t)
	base := r.serve(t, "")
	var rows, failures []string
	for _, c := range clients {
		for _, to := range c.servers {
			// Some clients do not report their revision. So the test also compares Dragoman's
			// counts of handshakes before and after the run over HTTP.
			before := r.handshakes(t, base)
			var overHTTP, onPipe outcome
			var both sync.WaitGroup
			both.Go(func() {
				overHTTP = r.run(t, c, map[string]any{"server": to, "url": base + "/s/" + string(to) + "/mcp"})
			})
			both.Go(func() {
				for range 5 {
					onPipe = r.run(t, c, map[string]any{"server": to, "command": r.dragoman, "args": append([]string{"run", "--"}, r.servers[to]...)})
					if onPipe.Revision == "" || isModern(onPipe.Revision) != to.modern() {
						break
					}
					// The AI SDK waits only a second for an answer to server/discover. On a
					// busy machine the server needs longer to start, so try again.
				}
			})
			both.Wait()
			spoken := difference(before, r.handshakes(t, base))
			for _, way := range []struct {
				name string
				outcome
			}{{"stdio", onPipe}, {"HTTP", overHTTP}} {
				revision := way.Revision
				if revision == "" {
					revision = spoken
				}
				if isModern(revision) == to.modern() {
					t.Errorf("%s, %s, uses %q, which is the era of its server, so Dragoman translated nothing", c.name, way.name, revision)
				}
				row := fmt.Sprintf("| %s | %s | %s | %s | %s |", c.name, r.versions[c.pkg], way.name, revision, to)
				for _, step := range steps {
					cell := way.Steps[step]
					switch {
					case cell == "none":
						cell = "–"
					case cell != "works":
						failures = append(failures, fmt.Sprintf("%s, %s, %s: %s %s", c.name, way.name, to, step, cell))
						cell = "**fails**"
					}
					row += " " + cell + " |"
				}
				rows = append(rows, row)
			}
		}
	}
	for _, f := range failures {
		t.Error(f)
	}
	checkDocument(t, section(r.versions, rows), mode == "update")
}

func isModern(revision string) bool { return revision == "2026-07-28" }

// section returns the Markdown between the markers in docs/compatibility.md.
func section(versions map[string]string, rows []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `## Third-party clients

`+"`make clients`"+` writes this part. The command starts servers of both eras, and connects each client through Dragoman to the servers of the era that the client does not speak:

- TypeScript SDK v2: a server of @modelcontextprotocol/server %s that speaks 2026-07-28 and refuses older revisions (`+"`test/clients/modern.mjs`"+`);
- everything: @modelcontextprotocol/server-everything %s, which speaks older revisions;
- strict: `+"`dragoman fake strict-DATE`"+`, which speaks one revision and records each message that breaks the rules of this revision. The feature *rules* works if no message breaks a rule.

A dash means that the client does not support the feature, or that the server's revision does not define it.

| client | version | over | speaks | server | %s |
|---|---|---|---|---|%s
%s

`, versions["@modelcontextprotocol/server"], versions["@modelcontextprotocol/server-everything"],
		strings.Join(steps, " | "), strings.Repeat("---|", len(steps)), strings.Join(rows, "\n"))
	b.WriteString(`The AI SDK waits one second for a server on stdio to answer ` + "`server/discover`" + `. If no answer arrives in this time, the AI SDK sends ` + "`initialize`" + ` and acts as a client of 2025-11-25. The features in the table work with this revision, as they do with 2026-07-28.

Over stdio, each client starts ` + "`dragoman run -- node SERVER`" + `. Over HTTP, the client connects to ` + "`http://127.0.0.1:PORT/s/NAME/mcp`" + ` of ` + "`dragoman serve`" + `. The test programs of the clients are ` + "`test/clients/*.mjs`" + `. The tests call the command-line clients with these commands:

    mcporter --config mcporter.json list s --json
    mcporter --config mcporter.json call --server s --tool echo --output json --args '{"message":"grüß Gott"}'
    mcporter --config mcporter.json resource s URI --json
    mcp-inspector --cli --config inspector.json --server s --method tools/list
    mcp-inspector --cli --config inspector.json --server s --method tools/call --tool-name echo --tool-arg 'message=grüß Gott'
    mcp-inspector --cli --config inspector.json --server s --method prompts/get --prompt-name NAME --prompt-args city=Vienna
`)
	return b.String()
}

const open, end = "<!-- clients -->\n", "<!-- /clients -->\n"

// checkDocument compares the section with the text between the markers in
// docs/compatibility.md. If update is true, it writes the section there.
func checkDocument(t *testing.T, want string, update bool) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "compatibility.md")
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	text := string(b)
	if text == "" {
		text = "# Compatibility\n"
	}
	head, rest, found := strings.Cut(text, open)
	have, tail, closed := strings.Cut(rest, end)
	switch {
	case found && !closed:
		t.Fatalf("%s: %s without %s", path, strings.TrimSpace(open), strings.TrimSpace(end))
	case !found:
		head, tail = text+"\n", ""
	}
	if have == want {
		return
	}
	if !update {
		t.Errorf("%s differs from the results: run make clients\n%s", path, want)
		return
	}
	if t.Failed() {
		t.Log("the document was not updated, because a step failed")
		return
	}
	if err := os.WriteFile(path, []byte(head+open+want+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run performs the steps with a client and returns the outcome.
func (r *rig) run(t *testing.T, c client, target map[string]any) outcome {
	t.Helper()
	arg, err := json.Marshal(target)
	if err != nil {
		t.Error(err)
		return outcome{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.node, filepath.Join(r.dir, c.script), string(arg), c.mode)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var o outcome
	if err == nil {
		err = json.Unmarshal(out, &o)
	}
	if err != nil || o.Steps["open"] != "works" {
		t.Errorf("%s: %v\n%s%s", c.name, err, out, stderr.Bytes())
	}
	return o
}

// serve starts `dragoman serve` with all servers and returns its base URL. more is what its configuration
// has besides.
func (r *rig) serve(t *testing.T, more string) string {
	t.Helper()
	text := more + "mcpServers:\n"
	for name, command := range r.servers {
		args, err := json.Marshal(command[1:])
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("  %s: {command: %q, args: %s}\n", string(name), command[0], args)
	}
	return built.ServeServers(t, r.dragoman, text)
}

var handshake = regexp.MustCompile(`(?m)^dragoman_handshake_seconds_count\{.*revision="([^"]*)".*\} (\S+)$`)

// handshakes returns Dragoman's counts of handshakes, by revision. A value contains all counts of
// one revision.
func (r *rig) handshakes(t *testing.T, base string) map[string]string {
	t.Helper()
	resp, err := http.Get(base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	met := make(map[string]string)
	for _, m := range handshake.FindAllStringSubmatch(string(b), -1) {
		met[m[1]] += m[2] + " "
	}
	return met
}

// difference returns the revisions whose counts are not the same in before and after.
func difference(before, after map[string]string) string {
	var grown []string
	for revision, n := range after {
		if n != before[revision] {
			grown = append(grown, revision)
		}
	}
	return strings.Join(grown, ", ")
}
