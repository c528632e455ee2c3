//go:build unix

package try

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// TestGoInstall installs the command in the same way as `go install …@latest`. The module proxy is
// a folder, the home directory is empty, and PATH contains only Go. The program must know its
// version from its build information, and must start a server for a client.
func TestGoInstall(t *testing.T) {
	results(t)
	const path, tag = "github.com/dragoman-mcp/dragoman", "v0.9.1-try"
	proxy := t.TempDir()
	at := func(name string) string { return filepath.Join(proxy, path, "@v", name) }
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, at("list"), tag+"\n")
	writeText(t, at(tag+".info"), fmt.Sprintf(`{"Version":%q,"Time":"2026-01-02T03:04:05Z"}`, tag))
	writeText(t, at(tag+".mod"), string(mod))
	zip, err := os.Create(at(tag + ".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer zip.Close()
	if err := modzip.Create(zip, module.Version{Path: path, Version: tag}, moduleFiles(t)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	golang := need(t, "go")
	ours := func(name string) string { return strings.TrimSpace(run(t, "", nil, golang, "env", name)) }
	home := t.TempDir()
	environment := []string{
		"HOME=" + home, "PATH=" + filepath.Join(ours("GOROOT"), "bin"), "CGO_ENABLED=0", "GOTOOLCHAIN=local",
		// The home directory is empty, but Go uses the module cache and the build cache of this
		// machine.
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(ours("GOMODCACHE"), "cache", "download") + "," + ours("GOPROXY"), "GOSUMDB=off",
		"GOCACHE=" + ours("GOCACHE"), "GOFLAGS=-modcacherw -trimpath",
	}
	run(t, home, environment, golang, "install", path+"/cmd/dragoman@latest")
	program := filepath.Join(home, "go", "bin", "dragoman")
	var said struct{ Version string }
	if err := json.Unmarshal([]byte(run(t, "", []string{}, program, "version", "--json")), &said); err != nil || said.Version != strings.TrimPrefix(tag, "v") {
		t.Errorf("version %q, %v", said.Version, err)
	}
	wantServer(t, []string{"HOME=" + home, "PATH=" + folder(t, "sh")}, program, program, "run")
}

// moduleFiles returns the files of the work tree that git tracks. A release has the same files.
// Without a git repository, moduleFiles returns all files except those that a build writes.
func moduleFiles(t *testing.T) (out []modzip.File) {
	t.Helper()
	root := filepath.Join("..", "..")
	nested := []string{}
	listed := tracked(root)
	if listed == nil {
		listed = found(t, root)
	}
	for _, name := range listed {
		if dir, ok := strings.CutSuffix(name, "/go.mod"); ok {
			nested = append(nested, dir+"/")
		}
	}
next:
	for _, name := range listed {
		for _, dir := range nested {
			if strings.HasPrefix(name, dir) {
				continue next
			}
		}
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			out = append(out, moduleFile{root, name})
		}
	}
	return out
}

// tracked returns the files below root that git tracks, or nil if git lists none.
func tracked(root string) []string {
	c := exec.Command("git", "ls-files", "-z")
	c.Dir = root
	out, err := c.Output()
	if err != nil || len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// found returns the files below root that a build does not write.
func found(t *testing.T, root string) (out []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (slices.Contains([]string{".git", ".cache", "bin", "dist"}, name) || e.Name() == "node_modules"):
			return fs.SkipDir
		case e.Type().IsRegular():
			out = append(out, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type moduleFile struct{ root, name string }

func (f moduleFile) Path() string                 { return f.name }
func (f moduleFile) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.name)) }
func (f moduleFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.name)) }
