package admin

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestServerSettings checks which settings the API lists for a server, and their line numbers in
// the file.
func TestServerSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	const text = `mcpServers:
  files:
    command: no-such-program
    args: [one, two]
    env: {TOKEN: hunter2hunter2}
  other: {command: no-such-program}
dragoman:
  limits: {call: 20s}
  servers:
    files: {startTimeout: 3s}
    other: {lazy: true}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, problems := config.Load(file)
	if s == nil {
		t.Fatal(problems)
	}
	r := servingSnapshot(t, s)
	if a := r.ask(http.MethodGet, "/api/v1/servers/files/settings", ""); a.status != 401 {
		t.Errorf("without the key: %d", a.status)
	}
	if a := r.do(http.MethodGet, "/api/v1/servers/none/settings", ""); a.status != 404 {
		t.Errorf("a server that does not exist: %d", a.status)
	}
	var got ServerSettings
	a := r.do(http.MethodGet, "/api/v1/servers/files/settings", "")
	a.into(t, &got)
	if !got.Known || strings.Contains(a.body, "hunter2") || strings.Contains(a.body, "other") {
		t.Errorf("%s", a.body)
	}
	lines := map[string]int{}
	for _, x := range got.Lines {
		lines[x.Path] = x.Line
	}
	for path, want := range map[string]int{
		"mcpServers.files": 2, "mcpServers.files.command": 3, "mcpServers.files.args": 4, "mcpServers.files.env.TOKEN": 5,
		"dragoman.servers.files.startTimeout": 10, "dragoman.servers.files.callTimeout": 8, "dragoman.servers.files.callMax": 0, "dragoman.servers.files.isolation": 0,
	} {
		if at, ok := lines[path]; !ok || at != want {
			t.Errorf("%s: line %d, want %d", path, at, want)
		}
	}
}
