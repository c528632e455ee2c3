package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLines checks that each setting is shown with the line that sets it, and that secrets are
// not shown.
func TestLines(t *testing.T) {
	const text = `# comment
mcpServers:
  files:
    command: prog
    env: {TOKEN: hunter22222}
  odd.name:
    url: https://example.com/mcp
dragoman:
  limits:
    call: 30s
  servers:
    files: {lazy: true}
`
	path := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, problems := Load(path)
	if s == nil {
		t.Fatal(problems)
	}
	at := map[string]Line{}
	for _, l := range s.Lines(s.Where()) {
		if l.Key != "" {
			at[l.Path] = l
		}
		if strings.Contains(l.Value, "hunter") {
			t.Errorf("a secret is shown: %+v", l)
		}
	}
	for path, want := range map[string]int{
		"mcpServers.files": 3, "mcpServers.files.command": 4, "mcpServers.files.env": 5, "dragoman.limits.call": 10, "dragoman.servers.files.lazy": 12,
		"dragoman.limits.callMax": 0, "dragoman.listen": 0,
	} {
		if l, ok := at[path]; !ok || l.At != want {
			t.Errorf("%s: %+v, want line %d", path, l, want)
		}
	}
	if l := at["dragoman.limits.call"]; l.Value != "30s" || l.Depth != 2 {
		t.Errorf("%+v", l)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, "30s", "40s", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if where := s.Where(); where != nil {
		t.Errorf("a file that has changed: %v", where)
	}
	if where := Default().Where(); where != nil {
		t.Errorf("without a file: %v", where)
	}
}
