//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// The suite imports fs.globSync, which Node 20 does not have. If the Node on the PATH is older
// than nodeAtLeast, the program installs nodeVersion from npm.
const (
	nodeAtLeast = 22
	nodeVersion = "24.21.0"
)

var (
	//go:embed package.json
	suitePackage []byte
	//go:embed package-lock.json
	suiteLock []byte
	//go:embed loopback.cjs
	loopbackHook []byte
)

// suite is the installed conformance suite.
type suite struct {
	node         string // the path of Node
	script       string // the entry script of the suite
	hook         string // the path of loopback.cjs
	requirements string // the folder with the files REV.yaml
}

// install installs the suite below dir. It keeps packages that are already installed.
func install(ctx context.Context, dir string) (*suite, error) {
	node, err := installNode(ctx, filepath.Join(dir, "node-"+nodeVersion))
	if err != nil {
		return nil, fmt.Errorf("install node: %w", err)
	}
	home := filepath.Join(dir, "suite")
	sum := sha256.Sum256(suiteLock)
	files := map[string][]byte{"package.json": suitePackage, "package-lock.json": suiteLock}
	if err := npm(ctx, home, files, hex.EncodeToString(sum[:]), "ci"); err != nil {
		return nil, fmt.Errorf("install the suite: %w", err)
	}
	hook := filepath.Join(dir, "loopback.cjs")
	if err := os.WriteFile(hook, loopbackHook, 0o644); err != nil {
		return nil, err
	}
	pkg := filepath.Join(home, "node_modules", "@modelcontextprotocol", "conformance")
	return &suite{
		node:         node,
		script:       filepath.Join(pkg, "dist", "index.js"),
		hook:         hook,
		requirements: filepath.Join(pkg, "requirements"),
	}, nil
}

// installNode returns the path of a Node that is new enough: the Node on the PATH, or one from npm.
func installNode(ctx context.Context, dir string) (string, error) {
	if path, err := exec.LookPath("node"); err == nil {
		out, _ := exec.CommandContext(ctx, path, "--version").Output()
		major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
		if n, _ := strconv.Atoi(major); n >= nodeAtLeast {
			return path, nil
		}
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if runtime.GOOS != "linux" || arch == "" {
		return "", fmt.Errorf("put node %d or newer on the PATH: npm has no build of it for %s/%s that we know", nodeAtLeast, runtime.GOOS, runtime.GOARCH)
	}
	spec := "node-linux-" + arch + "@" + nodeVersion
	files := map[string][]byte{"package.json": []byte(`{"private":true}`)}
	if err := npm(ctx, dir, files, spec, "install", "--no-save", spec); err != nil {
		return "", err
	}
	return filepath.Join(dir, "node_modules", "node-linux-"+arch, "bin", "node"), nil
}

// npm writes files into dir and runs npm there. It does nothing if an earlier run with the same
// stamp succeeded.
func npm(ctx context.Context, dir string, files map[string][]byte, stamp string, args ...string) error {
	done := filepath.Join(dir, ".installed")
	if b, err := os.ReadFile(done); err == nil && string(b) == stamp {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	argv := append([]string{"npm"}, args...)
	argv = append(argv, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	if err := run(ctx, dir, nil, &out, argv...); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out.Bytes())
	}
	return os.WriteFile(done, []byte(stamp), 0o644)
}
