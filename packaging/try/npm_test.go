//go:build unix

package try

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// registry is an npm registry that serves the packages of the release.
type registry struct {
	url      string
	mu       sync.Mutex
	tarballs []string // the names of the requested tarballs
}

// npmArch returns npm's name for the architecture of this machine.
func npmArch() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}

// serveRegistry serves the packages of the release. The packages of other platforms have only
// metadata, so npm must not request their tarballs.
func serveRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{}
	documents := map[string]string{} // package metadata, by package name
	files := map[string]string{}     // paths of the tarballs, by name
	found, err := filepath.Glob(filepath.Join(results(t), "dragoman-cli-*.tgz"))
	if err != nil || len(found) != 2 {
		t.Fatalf("%q, %v", found, err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if name, ok := strings.CutPrefix(q.URL.Path, "/tarballs/"); ok && files[name] != "" {
			r.mu.Lock()
			r.tarballs = append(r.tarballs, name)
			r.mu.Unlock()
			http.ServeFile(w, q, files[name])
			return
		}
		if d := documents[strings.TrimPrefix(q.URL.Path, "/")]; d != "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, d)
			return
		}
		http.NotFound(w, q)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	add := func(p map[string]any, tarball, integrity string) {
		name, v := p["name"].(string), p["version"].(string)
		p["dist"] = map[string]string{"tarball": r.url + "/tarballs/" + tarball, "integrity": integrity}
		b, err := json.Marshal(map[string]any{"name": name, "dist-tags": map[string]string{"latest": v}, "versions": map[string]any{v: p}})
		if err != nil {
			t.Fatal(err)
		}
		documents[name] = string(b)
	}
	for _, file := range found {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha512.Sum512(b)
		files[filepath.Base(file)] = file
		p := packageIn(t, file)
		add(p, filepath.Base(file), "sha512-"+base64.StdEncoding.EncodeToString(sum[:]))
		if optional, ok := p["optionalDependencies"].(map[string]any); ok {
			for name, v := range optional {
				parts := strings.Split(strings.TrimPrefix(name, "@dragoman/cli-"), "-")
				if documents[name] == "" && (parts[0] != runtime.GOOS || parts[1] != npmArch()) {
					add(map[string]any{"name": name, "version": v, "os": parts[:1], "cpu": parts[1:]}, "missing.tgz", "")
				}
			}
		}
	}
	return r
}

// packageIn returns the package.json in a packed package.
func packageIn(t *testing.T, file string) (out map[string]any) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if h.Name == "package/package.json" {
			if err := json.NewDecoder(r).Decode(&out); err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
}

// TestNPM installs the packages in the same way as users, with an empty home directory and only
// Node in the PATH. It tests npx in a client's configuration file, and a global installation.
func TestNPM(t *testing.T) {
	need(t, "npm")
	r := serveRegistry(t)
	tools := folder(t, "node", "npm", "npx", "sh")
	prefix := t.TempDir()
	environment := []string{
		"HOME=" + t.TempDir(), "PATH=" + tools, "npm_config_registry=" + r.url, "npm_config_update_notifier=false", "npm_config_prefix=" + prefix,
	}
	// npx adds the programs of the package to the PATH of the started command.
	wantServer(t, environment, "dragoman", "npx", "-y", "@dragoman/cli", "run", "--")
	run(t, t.TempDir(), environment, filepath.Join(tools, "npm"), "install", "--global", "--no-audit", "--no-fund", "@dragoman/cli")
	launcher := filepath.Join(prefix, "bin", "dragoman")
	if out := run(t, "", environment, launcher, "version"); !strings.HasPrefix(out, "dragoman "+version(t)+" (") {
		t.Errorf("%s", out)
	}
	r.mu.Lock()
	for _, name := range r.tarballs {
		if name == "missing.tgz" {
			t.Error("npm requested the package of another platform")
		}
	}
	r.mu.Unlock()
	for name, node := range nodes(t) {
		t.Run(name, func(t *testing.T) { tryLauncher(t, node, launcher) })
	}
	t.Run("without the program", func(t *testing.T) {
		alone := filepath.Join(t.TempDir(), "bin", "dragoman.js")
		b, err := os.ReadFile(filepath.Join("..", "files", "npm", "dragoman.js"))
		if err != nil {
			t.Fatal(err)
		}
		writeText(t, alone, string(b))
		writeText(t, filepath.Join(alone, "..", "..", "package.json"), `{"optionalDependencies":{"@dragoman/cli-`+runtime.GOOS+`-`+npmArch()+`":"1"}}`)
		out, err := exec.Command(need(t, "node"), alone, "version").CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "is not installed\ndragoman: hint: install @dragoman/cli again") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func writeText(t *testing.T, to, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// nodes returns the paths of the Node programs to test the launcher with, by name. "node" is the
// program in the PATH, which may be too old for execve. "newer node" is the program that make
// conformance has installed.
func nodes(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"node": need(t, "node")}
	newer, err := filepath.Glob(filepath.Join("..", "..", ".cache", "conformance", "node-*", "node_modules", "node-*", "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	if len(newer) == 0 {
		t.Log("SKIPPED: no newer Node below .cache; make conformance installs one")
	}
	for _, path := range newer {
		if path, err = filepath.Abs(path); err != nil {
			t.Fatal(err)
		}
		all["newer node"] = path
	}
	return all
}

// tryLauncher checks that the launcher is transparent: it passes on stdin, stdout, exit codes
// and signals, and prints nothing to stderr.
func tryLauncher(t *testing.T, node, launcher string) {
	exec1 := func(stdin string, args ...string) (code int, out, said string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c := exec.CommandContext(ctx, node, append([]string{launcher}, args...)...)
		c.Env = []string{"HOME=" + t.TempDir()}
		var stdout, stderr strings.Builder
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &stdout, &stderr
		err := c.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return c.ProcessState.ExitCode(), stdout.String(), stderr.String()
	}
	if code, out, said := exec1("", "frobnicate", "a b", ""); code != 2 || out != "" || !strings.HasPrefix(said, `dragoman: error: "frobnicate" is not a command`) {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
	line := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"é","version":"1"}}}` + "\n"
	if code, out, said := exec1(line, "fake", "strict-2025-11-25"); code != 0 || !strings.Contains(out, `"protocolVersion":"2025-11-25"`) || said != "" {
		t.Errorf("exit code %d, %q, %q", code, out, said)
	}
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		c := exec.Command(node, launcher, "serve", "--demo", "--listen", "127.0.0.1:0")
		c.Env = []string{"HOME=" + t.TempDir()}
		stderr, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all := ""
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if all += lines.Text() + "\n"; strings.Contains(lines.Text(), "MCP clients connect to") {
				if err := c.Process.Signal(signal); err != nil {
					t.Error(err)
				}
			}
		}
		// After one signal, the program exits with code 0. If the launcher passed on the signal
		// twice, the exit code would be 130 or 143.
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", signal, err, all)
		}
	}
}
