//go:build unix

package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Some of the clients need a newer Node than many machines have. If the Node on the PATH is older
// than nodeAtLeast, prepare installs nodeVersion from npm. test/conformance installs the same
// version in the same place.
const (
	nodeAtLeast = 24
	nodeVersion = "24.21.0"
)

var (
	//go:embed package.json package-lock.json *.mjs vendors
	files embed.FS

	cache = filepath.Join("..", "..", ".cache")
)

// rig has the files and commands that the clients need to run.
type rig struct {
	dir      string // the folder with the scripts and node_modules
	node     string
	dragoman string
	versions map[string]string   // the versions in package.json
	servers  map[server][]string // the commands that start the servers
}

func prepare(t *testing.T) *rig {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("make clients needs npm")
	}
	r := &rig{node: findNode(t), dir: install(t), dragoman: filepath.Join(t.TempDir(), "dragoman")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", r.dragoman, "./cmd/dragoman")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	r.servers = map[server][]string{
		newest:     {r.dragoman, "fake", "strict-2026-07-28"},
		latest:     {r.dragoman, "fake", "strict-2025-11-25"},
		oldest:     {r.dragoman, "fake", "strict-2024-11-05"},
		ofSDK2:     {r.node, filepath.Join(r.dir, "modern.mjs")},
		everything: {r.node, filepath.Join(r.dir, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")},
	}
	b, err := files.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	var pinned struct{ Dependencies map[string]string }
	if err := json.Unmarshal(b, &pinned); err != nil {
		t.Fatal(err)
	}
	r.versions = pinned.Dependencies
	return r
}

// install puts the scripts and the pinned packages below .cache. It keeps packages that are
// already installed.
func install(t *testing.T) string { return installFrom(t, ".") }

// installFrom is install for the files of a folder.
func installFrom(t *testing.T, folder string) string {
	t.Helper()
	lock, err := files.ReadFile(path.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir, err := filepath.Abs(filepath.Join(cache, "clients", hex.EncodeToString(sum[:6])))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := files.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := files.ReadFile(path.Join(folder, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	npm(t, dir, hex.EncodeToString(sum[:]), "ci")
	return dir
}

// findNode returns the path of a Node that is new enough.
func findNode(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("node"); err == nil {
		out, _ := exec.CommandContext(t.Context(), path, "--version").Output()
		major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
		if n, _ := strconv.Atoi(major); n >= nodeAtLeast {
			return path
		}
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if runtime.GOOS != "linux" || arch == "" {
		t.Fatalf("put node %d or newer on the PATH: npm has no known build of it for %s/%s", nodeAtLeast, runtime.GOOS, runtime.GOARCH)
	}
	dir, err := filepath.Abs(filepath.Join(cache, "conformance", "node-"+nodeVersion))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := "node-linux-" + arch + "@" + nodeVersion
	npm(t, dir, spec, "install", "--no-save", spec)
	return filepath.Join(dir, "node_modules", "node-linux-"+arch, "bin", "node")
}

// npm runs npm in dir. It does nothing if an earlier run with the same stamp succeeded.
func npm(t *testing.T, dir, stamp string, args ...string) {
	t.Helper()
	done := filepath.Join(dir, ".installed")
	if b, err := os.ReadFile(done); err == nil && string(b) == stamp {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", append(args, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm %s: %v\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	if err := os.WriteFile(done, []byte(stamp), 0o644); err != nil {
		t.Fatal(err)
	}
}
