//go:build linux

package wine

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is the limit of everything. Wine needs some seconds to start.
const patience = time.Minute

// windows is a folder with dragoman.exe, and with a folder of PATH in which a server is.
type windows struct {
	t   *testing.T
	dir string
}

func TestWine(t *testing.T) {
	wine := os.Getenv("DRAGOMAN_WINE")
	if wine == "" {
		t.Skip("`make wine` runs this test")
	}
	w := &windows{t, t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(w.dir, "dragoman.exe"), "./cmd/dragoman")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	w.write(`Program Files\tools\fake-server`, "#!/bin/sh\nexit 9\n") // npm puts one for Unix beside it
	fake := `"` + w.path("dragoman.exe") + `" fake `
	w.write(`Program Files\tools\fake-server.cmd`, "@echo off\r\n"+fake+"%*\r\n")
	// This one starts another program, which doesn't end when its input does.
	w.write(`Program Files\tools\stubborn.cmd`, "@echo off\r\nstart /b \"\" "+fake+"--listen 127.0.0.1:0 strict-2025-03-26 <nul >nul 2>nul\r\n"+fake+"%*\r\n")

	if out, err := w.command("version").Output(); err != nil || !strings.Contains(string(out), "windows/amd64") {
		t.Fatalf("version: %v\n%s", err, out)
	}
	t.Run("run", func(t *testing.T) { w.run(t) })
	t.Run("serve", func(t *testing.T) { w.serve(t) })
}

// path returns the name that a file below the folder has for Wine.
func (w *windows) path(name string) string {
	return `Z:` + strings.ReplaceAll(filepath.Join(w.dir, strings.ReplaceAll(name, `\`, "/")), "/", `\`)
}

func (w *windows) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, strings.ReplaceAll(name, `\`, "/"))
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *windows) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.t.Context(), os.Getenv("DRAGOMAN_WINE"), append([]string{filepath.Join(w.dir, "dragoman.exe")}, args...)...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "WINEPATH="+w.path(`Program Files\tools`)) // Wine puts it before PATH
	return cmd
}

// run is a client that starts `dragoman run` with a batch file in PATH.
func (w *windows) run(t *testing.T) {
	cmd := w.command("run", "fake-server", "strict-2026-07-28")
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	lines := bufio.NewScanner(out)
	for _, x := range [][2]string{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wine","version":"1"}}}`, `"protocolVersion":"2025-06-18"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"größe & so weiter"}}}`, "größe & so weiter"},
	} {
		if _, err := io.WriteString(in, x[0]+"\n"); err != nil {
			t.Fatal(err)
		}
		if x[1] != "" && (!lines.Scan() || !strings.Contains(lines.Text(), x[1])) {
			t.Errorf("%s\nis answered with %q", x[0], lines.Text())
		}
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil || t.Failed() {
		t.Errorf("%v; its stderr:\n%s", err, said.String())
	}
}

// serve calls a batch file's tool over HTTP, finds the process through its files, and kills it: its server
// must end with it, and so must what the server has started.
func (w *windows) serve(t *testing.T) {
	w.write("dragoman.yaml", "dragoman: {listen: \"127.0.0.1:0\"}\nmcpServers:\n  own: {command: stubborn, args: [strict-2025-11-25], cwd: "+strconv.Quote(w.path("."))+"}\n")
	cmd := w.command("serve", "-c", w.path("dragoman.yaml"), "--log-format", "text")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	address, lines := "", bufio.NewScanner(stderr)
	for address == "" && lines.Scan() {
		if m := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/mcp`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	drained := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stderr)
		close(drained)
	}()
	if got := w.call(address, "own__echo"); !strings.Contains(got, "hello from Wine") {
		t.Errorf("the call: %s", got)
	}
	if out, err := w.command("status", "--plain").CombinedOutput(); err != nil || !strings.Contains(string(out), "own") {
		t.Errorf("status: %v\n%s", err, out)
	}
	if out, err := w.command("console").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "http://"+address+"/console/?link=") {
		t.Errorf("console: %v\n%s", err, out)
	}
	if w.servers("strict-2025-11-25") == 0 || w.servers("strict-2025-03-26") == 0 {
		t.Error("the processes of the server aren't found")
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	<-drained
	for end := time.Now().Add(patience / 2); w.servers("strict-") > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server has survived serve")
		}
	}
}

// servers returns the number of processes of our program that have an argument.
func (w *windows) servers(arg string) (n int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		b, _ := os.ReadFile(file)
		if bytes.Contains(b, []byte(filepath.Base(filepath.Dir(w.dir)))) && bytes.Contains(b, []byte(arg)) {
			n++
		}
	}
	return n
}

// call calls a tool as a client of 2026-07-28.
func (w *windows) call(address, tool string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"text":"hello from Wine"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"wine","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/mcp", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.Status + " " + string(b)
}
