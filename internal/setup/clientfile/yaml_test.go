package clientfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAddServers adds a server to Dragoman's own file, in every form that the file may have.
func TestAddServers(t *testing.T) {
	one := []Added{{Name: "b", Comment: "from Cursor", Entry: Mapping("command", Text("x"), "env", Mapping("A", Text("yes")))}}
	two := []Added{{Name: "b", Entry: Mapping("url", Text("http://h")), Settings: Mapping("callTimeout", Text("90s"))}}
	const b = "  # from Cursor\n  b:\n    command: x\n    env:\n      A: \"yes\"\n"
	const u = "  b:\n    url: http://h\n"
	const s = "  servers:\n    b:\n      callTimeout: 90s\n"
	for name, c := range map[string]struct {
		before, after string
		add           []Added
	}{
		"no file":          {"", head + "\nmcpServers:\n" + b, one},
		"only comments":    {"# mine\n", "# mine\n\nmcpServers:\n" + b, one},
		"no line end":      {"mcpServers:\n  a:\n    command: y", "mcpServers:\n  a:\n    command: y\n" + b, one},
		"empty section":    {"mcpServers: {} # none\nx-a: 1\n", "mcpServers: # none\n" + b + "x-a: 1\n", one},
		"null section":     {"x-a: 1\nmcpServers:\n", "x-a: 1\nmcpServers:\n" + b, one},
		"before the next":  {"mcpServers:\n  a:\n    command: y # why\n\n# ours\ndragoman:\n  listen: 127.0.0.1:1\n", "mcpServers:\n  a:\n    command: y # why\n" + b + "\n# ours\ndragoman:\n  listen: 127.0.0.1:1\n", one},
		"indented comment": {"mcpServers:\n  a:\n    command: y\n  # c: off\ndragoman:\n", "mcpServers:\n  a:\n    command: y\n  # c: off\n" + b + "dragoman:\n", one},
		"four spaces":      {"mcpServers:\n    a:\n        command: y\n", "mcpServers:\n    a:\n        command: y\n    # from Cursor\n    b:\n        command: x\n        env:\n            A: \"yes\"\n", one},
		"windows":          {"mcpServers:\r\n  a:\r\n    command: y\r\n", strings.ReplaceAll("mcpServers:\n  a:\n    command: y\n"+b, "\n", "\r\n"), one},
		"a block text":     {"mcpServers:\n  a:\n    command: sh\n    args:\n    - -c\n    - |\n      x\n      # no comment\n", "mcpServers:\n  a:\n    command: sh\n    args:\n    - -c\n    - |\n      x\n      # no comment\n" + b, one},
		"settings":         {"mcpServers:\n  a: {command: y}\n", "mcpServers:\n  a: {command: y}\n" + u + "\ndragoman:\n" + s, two},
		"settings behind":  {"dragoman:\n  listen: 127.0.0.1:1\n  servers:\n    a: {lazy: true}\n  # end\n\nmcpServers:\n  a: {command: y}\n", "dragoman:\n  listen: 127.0.0.1:1\n  servers:\n    a: {lazy: true}\n    b:\n      callTimeout: 90s\n  # end\n\nmcpServers:\n  a: {command: y}\n" + u, two},
		"settings, new":    {"dragoman:\n  listen: 127.0.0.1:1\nmcpServers:\n  a: {command: y}\n", "dragoman:\n  listen: 127.0.0.1:1\n" + s + "mcpServers:\n  a: {command: y}\n" + u, two},
		"json":             {"{\n  \"mcpServers\": {} // none\n}\n", "{\n  \"mcpServers\": {\n    \"b\": {\n      \"url\": \"http://h\"\n    }\n  }, // none\n  \"dragoman\": {\n    \"servers\": {\n      \"b\": {\n        \"callTimeout\": \"90s\"\n      }\n    }\n  }\n}\n", two},
	} {
		got, err := AddServers("dragoman.yaml", []byte(c.before), c.add)
		if diff := cmp.Diff(c.after, string(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, before := range []string{"mcpServers: {a: {command: y}}\n", "{mcpServers: {a: {command: y}}}\n", "x-a: &a {}\nmcpServers: *a\n", "mcpServers: [1]\n"} {
		if got, err := AddServers("dragoman.yaml", []byte(before), one); err == nil {
			t.Errorf("%q becomes %q", before, got)
		}
	}
}

func TestYAMLText(t *testing.T) {
	for in, want := range map[string]string{
		"npx": "npx", "-y": "-y", "https://h:1/x?a=b": `"https://h:1/x?a=b"`, "https://h/x": "https://h/x", "20s": "20s", "true": `"true"`, "No": `"No"`,
		"12": `"12"`, "1e3": `"1e3"`, "0x1": `"0x1"`, "2026-01-01": `"2026-01-01"`, "": `""`, "-": `"-"`, "@a/b": `"@a/b"`, "a b": `"a b"`, "a:": `"a:"`, "${A}": `"${A}"`,
		"*": `"*"`, "#x": `"#x"`, "a\nb": `"a\nb"`, "é": `"é"`, "null": `"null"`, "~": `"~"`, ".5": `".5"`, "a,b": `"a,b"`,
	} {
		if got := yamlText(in); got != want {
			t.Errorf("yamlText(%q) = %s, want %s", in, got, want)
		}
	}
}
