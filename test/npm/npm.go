// Package npm installs pinned packages from npm below .cache for tests, and finds a Node that runs them.
// Packages that are installed already are kept, so that the tests then need no network.
package npm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Many machines have an older Node than today's packages need. test/conformance installs the same version
// in the same place.
const (
	nodeAtLeast = 24
	nodeVersion = "24.21.0"
)

// cache is the folder .cache, seen from the folder of a test.
var cache = filepath.Join("..", "..", ".cache")

// Install writes files, of which one is package-lock.json, into a folder of this name below .cache, and
// installs what the lock file pins. It returns the folder.
func Install(t testing.TB, name string, files map[string][]byte) string {
	t.Helper()
	sum := sha256.Sum256(files["package-lock.json"])
	dir, err := filepath.Abs(filepath.Join(cache, name, hex.EncodeToString(sum[:6])))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, files)
	run(t, dir, hex.EncodeToString(sum[:]), "ci")
	return dir
}

// Node returns the path of a Node that is new enough: the one on the PATH, or one from npm.
func Node(t testing.TB) string {
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
	spec := "node-linux-" + arch + "@" + nodeVersion
	write(t, dir, map[string][]byte{"package.json": []byte(`{"private":true}`)})
	run(t, dir, spec, "install", "--no-save", spec)
	return filepath.Join(dir, "node_modules", "node-linux-"+arch, "bin", "node")
}

func write(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs npm in dir. It does nothing if an earlier run with the same stamp succeeded.
func run(t testing.TB, dir, stamp string, args ...string) {
	t.Helper()
	done := filepath.Join(dir, ".installed")
	if b, err := os.ReadFile(done); err == nil && string(b) == stamp {
		return
	}
	if _, err := exec.LookPath("npm"); err != nil {
		t.Fatal("this test needs npm")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
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
