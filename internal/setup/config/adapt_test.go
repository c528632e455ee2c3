package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// TestClientFiles parses a real file of every client as a configuration of Dragoman.
func TestClientFiles(t *testing.T) {
	env := func(name string) (string, bool) {
		return map[bool]string{true: "https://h.example", false: "x"}[name == "DOCS_URL"], true
	}
	want := map[string]string{
		"claude":              "filesystem shell", // the file has another server, whose name Dragoman does not accept
		"claude-code":         "files docs intranet",
		"claude-code-project": "here",
		"cursor":              "github notes wrappedByGemini wrapped",
		"vscode":              "docs perplexity",
		"vscode-workspace":    "shop",
		"codex":               "files docs.house",
		"gemini":              "files docs legacy old",
		"opencode":            "files docs",
		"opencode-2":          "my-server",
	}
	for name, servers := range want {
		a, err := txtar.ParseFile(filepath.Join("../clientfile/testdata/golden", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(a.Files[0].Data)
		if name == "claude" {
			text = strings.Replace(text, "My GitHub", "github", 1)
			servers = "filesystem github shell"
		}
		s, problems := Parse(a.Files[0].Name, []byte(text), env)
		if s == nil {
			t.Errorf("%s: %v", name, problems.Err())
			continue
		}
		if !clientfile.IsTOML(a.Files[0].Name) {
			// A client may keep megabytes of history in the same file.
			large, same := Parse(a.Files[0].Name, []byte(text+strings.Repeat(" ", MaxFile)), env)
			if large == nil || !large.Equal(s) || len(same) != len(problems) {
				t.Errorf("%s with more than 1 MiB: %v", name, same)
			}
		}
		var got []string
		for _, srv := range s.Servers {
			got = append(got, srv.Name)
		}
		if strings.Join(got, " ") != servers {
			t.Errorf("%s: servers %q, want %q", name, got, servers)
		}
		for _, p := range problems {
			if p.Line > strings.Count(text, "\n") || p.Path == "" && p.Hint == "" && !strings.Contains(p.Text, "ignored") {
				t.Errorf("%s: %s", name, p)
			}
		}
		if s.Servers[0].Expose.IsZero() != (name != "codex" && name != "gemini") {
			t.Errorf("%s: exposes %+v", name, s.Servers[0].Expose)
		}
	}
}

// TestClientFileProblems checks that problems in converted files have a position.
func TestClientFileProblems(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"config.toml", "[mcp_servers.a]\nurl = 'ftp://x'\n", "config.toml:2:7: mcpServers.a.url: must begin with http:// or https://; use http://host:port/path or https://host/path"},
		{"config.toml", "[mcp_servers.a\n", "config.toml:1:15: this is not TOML: expected ']' to close table name"},
		{"config.toml", "[mcp_servers.a]\nurl = 'http://x'\nbearer_token_env_var = 'NOT_SET'\n", "config.toml:3:24: mcpServers.a.headers.Authorization: the environment variable NOT_SET is not set; set it, or write ${NOT_SET:-default}"},
		{".vscode/mcp.json", "{\n  // a\n  \"servers\": {\n    \"x\": {\"url\": \"http://h\", \"headers\": {\"A\": \"${input:a-b}\"}},\n  },\n}", ".vscode/mcp.json:4:47: mcpServers.x.headers.A: the environment variable A_B is not set; set it, or write ${A_B:-default}"},
		{"a.json", "{\n  // a\n  \"mcpServers\": {\"x\" 1}\n}", "a.json:3:22: this is not JSON: invalid character '1' after object name"},
		{"a.json", "{\"mcpServers\": {\"x\": {\"command\": \"a\"}, \"d\": {\"url\": \"http://localhost:7300/mcp\"}}}", "a.json:1:40: warning: mcpServers.d: is Dragoman itself, so it is ignored"},
		{".cursor/mcp.json", "{\"mcpServers\": {\"x\": {\"command\": \"/bin/dragoman\", \"args\": [\"serve\"]}}}", ".cursor/mcp.json:1:17: warning: mcpServers.x: is Dragoman itself, so it is ignored"},
		{"x.yaml", "servers: {x: {command: a}}\n", "x.yaml:1:1: servers: servers belong under the key mcpServers; rename the key, or convert the file with `dragoman import --from FILE`"},
	} {
		s, problems := Parse(c.file, []byte(c.text), nil)
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if !slices.Contains(got, c.want) {
			t.Errorf("%s:\n%s", c.text, cmp.Diff([]string{c.want}, got))
		}
		if usable := strings.Contains(c.want, "warning") || len(problems.OfServers()) > 0; usable != (s != nil) {
			t.Errorf("%s: %v", c.text, problems)
		}
	}
	// A file with the key dragoman is Dragoman's own file, whatever its name is.
	s, problems := Parse(".cursor/mcp.json", []byte(`{"mcpServers": {"x": {"url": "http://localhost:7300/mcp"}}, "dragoman": {"listen": "127.0.0.1:1"}, /* ours */}`), os.LookupEnv)
	if s == nil || len(s.Servers) != 1 || s.Listen != "127.0.0.1:1" {
		t.Errorf("%v", problems)
	}
}

// FuzzAddServers adds a server to any configuration. Either AddServers fails, or the new file
// has the added server and the other servers are unchanged.
func FuzzAddServers(f *testing.F) {
	for _, seed := range []string{"", "mcpServers:\n  a:\n    command: x\n", "x-a: &a {}\nmcpServers: {}\n", "dragoman:\n  servers:\n    # none\nmcpServers:\n- a\n",
		"{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}", "mcpServers:\n  a:\n    command: |\n     x\n # y\n", "? mcpServers\n: a: {command: b}\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before, _ := Parse("dragoman.yaml", b, nil)
		if before == nil {
			return
		}
		if _, taken := before.Server("added"); taken {
			return
		}
		str := func(s string) *clientfile.Value { return &clientfile.Value{Kind: clientfile.String, Text: s} }
		after, err := clientfile.AddServers("dragoman.yaml", b, []clientfile.Added{{
			Name:     "added",
			Entry:    &clientfile.Value{Kind: clientfile.Map, Members: []clientfile.Member{{Key: "command", Value: str("a: b")}}},
			Settings: &clientfile.Value{Kind: clientfile.Map, Members: []clientfile.Member{{Key: "callTimeout", Value: str("90s")}}},
		}})
		if err != nil {
			return
		}
		s, problems := Parse("dragoman.yaml", after, nil)
		if s == nil {
			t.Fatalf("%q becomes %q: %v", b, after, problems)
		}
		for _, old := range before.Servers {
			if now, ok := s.Server(old.Name); !ok || now.Fingerprint != old.Fingerprint {
				t.Errorf("%q becomes %q: %s changed", b, after, old.Name)
			}
		}
		if added, ok := s.Server("added"); !ok || added.Command != "a: b" {
			t.Errorf("%q becomes %q", b, after)
		}
	})
}
