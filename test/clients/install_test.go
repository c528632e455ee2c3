//go:build unix

package clients

import (
	"embed"
	"encoding/json"
	"path"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/test/built"
	"github.com/dragoman-mcp/dragoman/test/npm"
)

//go:embed package.json package-lock.json *.mjs vendors
var files embed.FS

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
	r := &rig{node: npm.Node(t), dir: install(t), dragoman: built.Dragoman(t)}
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
	entries, err := files.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		if all[e.Name()], err = files.ReadFile(path.Join(folder, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return npm.Install(t, "clients", all)
}
