//go:build unix

package try

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is the timeout of every step. A passing test needs much less time.
const patience = 8 * time.Minute

// results returns the folder with the results of the release.
func results(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DRAGOMAN_TRY")
	if dir == "" {
		t.Skip("DRAGOMAN_TRY is not set; make release-try sets it")
	}
	return dir
}

// result returns the path of the only result that matches a pattern.
func result(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(results(t), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// need returns the path of a tool. It skips the test if this machine does not have the tool.
func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Skipf("SKIPPED: this machine has no %s", tool)
	}
	return path
}

// run runs a command and returns its stdout. The test fails unless the exit code is 0. If env
// is nil, the command gets the environment of the test.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, env
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, said.Bytes())
	}
	return string(out)
}

// version returns the version of the release, from the name of its npm package.
func version(t *testing.T) string {
	t.Helper()
	m := regexp.MustCompile(`dragoman-cli-([0-9].*)\.tgz$`).FindStringSubmatch(result(t, "dragoman-cli-[0-9]*.tgz"))
	if m == nil {
		t.Fatal("no npm package")
	}
	return m[1]
}

// needy returns the command of a server that exits unless API_TOKEN has the right value. dragoman
// is a path, or the name of a program in the PATH of the server.
func needy(dragoman string) []string {
	return []string{"sh", "-c", `test "$API_TOKEN" = s3cret || { echo "API_TOKEN is not set" >&2; exit 1; }; exec "$0" fake strict-2026-07-28`, dragoman}
}

// clientFile writes a client's configuration file with one server, and returns its path.
func clientFile(t *testing.T, env map[string]string, command ...string) string {
	t.Helper()
	entry := map[string]any{"command": command[0], "args": command[1:]}
	if env != nil {
		entry["env"] = env
	}
	b, err := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{"needy": entry}}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// client acts as an MCP client that reads its configuration file. It starts the server with
// environment and the variables of the entry, opens a session of 2025-06-18, and calls the tool
// echo. It returns the answer, or an error that includes the server's stderr.
func client(t *testing.T, file string, environment []string) (string, error) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		}
	}
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	entry := read.MCPServers["needy"]
	for k, v := range entry.Env {
		environment = append(environment, k+"="+v)
	}
	program := entry.Command
	if !filepath.IsAbs(program) { // exec searches the PATH of the test, but a client searches its own PATH
		program = filepath.Join(variable(environment, "PATH"), program)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, entry.Args...)
	c.Dir, c.Env = t.TempDir(), environment
	var said bytes.Buffer
	c.Stderr = &said
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	ask := func(id int, method, params string) (json.RawMessage, error) {
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return nil, err
			}
			var m struct {
				ID     json.RawMessage
				Result json.RawMessage
				Error  json.RawMessage
			}
			if err := json.Unmarshal(line, &m); err != nil {
				return nil, fmt.Errorf("not a message: %q", line)
			}
			if string(m.ID) == fmt.Sprint(id) {
				if m.Error != nil {
					return nil, errors.New(string(m.Error))
				}
				return m.Result, nil
			}
		}
	}
	answer, err := ask(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"try","version":"1"}}`)
	if err == nil {
		fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		answer, err = ask(2, "tools/call", `{"name":"echo","arguments":{"text":"hello from a clean home"}}`)
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, lines)
	if end := c.Wait(); end != nil && err == nil {
		t.Errorf("the server ended with %v after its stdin was closed; stderr: %s", end, said.String())
	}
	if err != nil { // Wait has returned, so no goroutine writes to said any more
		err = fmt.Errorf("%w; stderr: %s", err, said.String())
	}
	return string(answer), err
}

func variable(environment []string, name string) string {
	for _, e := range environment {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// wantServer checks that a client can start the server of needy, and that the error names
// API_TOKEN if the token is missing. entry is the part of the command line before the server's
// command.
func wantServer(t *testing.T, environment []string, dragoman string, entry ...string) {
	t.Helper()
	command := append(entry, needy(dragoman)...)
	answer, err := client(t, clientFile(t, map[string]string{"API_TOKEN": "s3cret"}, command...), environment)
	if err != nil || !strings.Contains(answer, "hello from a clean home") {
		t.Errorf("with its token: %s, %v", answer, err)
	}
	if answer, err = client(t, clientFile(t, nil, command...), environment); err == nil || !strings.Contains(err.Error(), "API_TOKEN") {
		t.Errorf("without its token: %s, %v", answer, err)
	}
}

// folder creates a folder with links to the tools, for a PATH that has only these tools.
func folder(t *testing.T, tools ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range tools {
		path, err := filepath.EvalSymlinks(need(t, tool))
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestChecksums checks that SHA256SUMS lists each file of the release, and that sha256sum accepts
// it.
func TestChecksums(t *testing.T) {
	dir := results(t)
	b, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Name() != "SHA256SUMS" && !strings.Contains(string(b), "  "+e.Name()+"\n") {
			t.Errorf("SHA256SUMS lacks %s", e.Name())
		}
	}
	run(t, dir, nil, need(t, "sha256sum"), "--check", "--strict", "SHA256SUMS")
}

// TestArchive checks that the archive has one folder with all files, and that the program
// knows its version.
func TestArchive(t *testing.T) {
	top := "dragoman_" + version(t) + "_" + runtime.GOOS + "_" + runtime.GOARCH
	f, err := os.Open(result(t, top+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files, program := map[string]int64{}, filepath.Join(t.TempDir(), "dragoman")
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(h.Name, top+"/")
		if !ok || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%+v", h)
		}
		files[name] = h.Mode
		if name == "dragoman" {
			b, err := io.ReadAll(r)
			if err == nil {
				err = os.WriteFile(program, b, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"README.md", "LICENSE", "CHANGELOG.md", "man/dragoman.1", "man/dragoman-run.1", "completions/dragoman.bash", "completions/_dragoman", "completions/dragoman.fish", "completions/dragoman.ps1"} {
		if files[name] != 0o644 {
			t.Errorf("%s: mode %o", name, files[name])
		}
	}
	if files["dragoman"] != 0o755 {
		t.Errorf("dragoman: mode %o", files["dragoman"])
	}
	if out := run(t, "", []string{}, program, "version"); !strings.HasPrefix(out, "dragoman "+version(t)+" (") {
		t.Errorf("%s", out)
	}
}

// TestBill checks that the bill of materials has the modules that the program itself lists.
func TestBill(t *testing.T) {
	b, err := os.ReadFile(result(t, "dragoman_*_"+runtime.GOOS+"_"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat    string
		SerialNumber string
		Metadata     struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, Purl string }
	}
	if err := json.Unmarshal(b, &bill); err != nil {
		t.Fatal(err)
	}
	if bill.BOMFormat != "CycloneDX" || bill.Metadata.Component.Version != version(t) || len(bill.Components) < 8 ||
		!regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(bill.SerialNumber) {
		t.Errorf("%+v", bill)
	}
	found := false
	for _, c := range bill.Components {
		found = found || c.Name == "github.com/spf13/cobra" && c.Purl == "pkg:golang/github.com/spf13/cobra@"+c.Version
	}
	if !found {
		t.Errorf("cobra is missing: %+v", bill.Components)
	}
}
