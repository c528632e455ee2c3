package clientfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEntry(t *testing.T) {
	const json = "{\r\n  \"mcpServers\": {\r\n    \"a\": {\r\n      \"command\": \"x\" // run\r\n    }\r\n  }\r\n}\r\n"
	for _, c := range []struct{ name, file, server, entry, to, want string }{
		{"lines", ownYAML, "files", "command: npx  # runner\nargs:\n  - -y\n\n  # the root\n  - files\n", "# new\ncommand: uvx\nargs: [a]\n\nenv:\n  A: b",
			strings.Replace(ownYAML, "    command: npx  # runner\n    args:\n      - -y\n\n      # the root\n      - files\n", "    # new\n    command: uvx\n    args: [a]\n\n    env:\n      A: b\n", 1)},
		{"braces to lines", ownYAML, "weather", "{url: https://example.com}\n", "  url: https://other\n  headers: {}\n", strings.Replace(ownYAML, "\"weather\": {url: https://example.com}\n", "\"weather\":\n    url: https://other\n    headers: {}\n", 1)},
		{"lines to braces", ownYAML, "last", "command: x\nenabled: false\n", "{command: y,\n  args: []}", strings.Replace(ownYAML, "  last:\n    command: x\n    enabled: false\n", "  last: {command: y,\n      args: []}\n", 1)},
		{"comment after the key", "mcpServers:\r\n   a: # mine\r\n        command: x\r\n", "a", "command: x\n", "command: y\r\n", "mcpServers:\r\n   a: # mine\r\n        command: y\r\n"},
		{"no such", ownYAML, "none", "", "command: x", strings.Replace(ownYAML, "    enabled: false\n", "    enabled: false\n  none:\n    command: x\n", 1)},
		{"out of the entry", "mcpServers:\n  a:\n    command: x\n", "a", "command: x\n", "command: y\n---\nb: c", ""},
		{"not YAML", "mcpServers:\n  a:\n    command: x\n", "a", "command: x\n", "command: [y", ""},
		{"JSON", json, "a", "{\r\n  \"command\": \"x\" // run\r\n}", "{\r\n  \"url\": \"y\", // go\n  \"env\": {}\n}", strings.Replace(json, "\"command\": \"x\" // run", "\"url\": \"y\", // go\r\n      \"env\": {}", 1)},
		{"JSON, no such", `{"mcpServers": {}}`, "a", "", `{"command": "x"}`, `{"mcpServers": {"a": {"command": "x"}}}`},
		{"JSON, two objects", `{"mcpServers": {"a": {}}}`, "a", "{}", `{}, "b": {}`, ""},
	} {
		path := []string{"mcpServers", c.server}
		entry, err := EntryText("d.yaml", []byte(c.file), path)
		if entry != c.entry || err != nil {
			t.Errorf("%s: EntryText returns %q, %v", c.name, entry, err)
		}
		if got, err := SetEntryText("d.yaml", []byte(c.file), path, entry); entry != "" && (string(got) != c.file || err != nil) {
			t.Errorf("%s: the same entry makes %v\n%s", c.name, err, got)
		}
		got, err := SetEntryText("d.yaml", []byte(c.file), path, c.to)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

// TestListText replaces a list at the top of a file, in each way in which people write lists.
func TestListText(t *testing.T) {
	for _, c := range []struct{ name, file, list, to, want string }{
		{"as far left as the key", "a: x\nlist:\n# one\n- k: 1\n\n# two\n-\n  k: 2\n# b\nb: [y]\n", "# one\n- k: 1\n\n# two\n-\n  k: 2\n", "# new\n- k: 3\n  l: 4\n", "a: x\nlist:\n# new\n- k: 3\n  l: 4\n# b\nb: [y]\n"},
		{"indented", "list: # mine\n   - k: 1\n   - k: 2\nb:\n- y\n", "- k: 1\n- k: 2\n", "- k: 3", "list: # mine\n   - k: 3\nb:\n- y\n"},
		{"in brackets", "list: [1, 2] # mine\nb: y\n", "[1, 2] # mine\n", "- 3", "list:\n  - 3\nb: y\n"},
		{"to brackets", "list:\n- 1\nb: y\n", "- 1\n", "[3,\n 4]", "list: [3,\n  4]\nb: y\n"},
		{"none", "a: x\n", "", "# new\n- 3\n", "a: x\nlist:\n  # new\n  - 3\n"},
		{"gone", "list:\n- 1\n- 2\nb: y\n", "- 1\n- 2\n", "", "b: y\n"},
		{"all that there is, gone", "list:\n- 1\n", "- 1\n", "", ""},
		{"out of the list", "list:\n- 1\n", "- 1\n", "- 2\nb: y", "!"},
		{"an anchor", "list: &x\n- 1\n", "!", "- 2", "list:\n  - 2\n"},
		{"JSON", `{"list": [1], "b": "y"}`, "[1]", "[\n  2\n]", "{\"list\": [\n  2\n], \"b\": \"y\"}"},
		{"JSON, two lists", `{"list": [1]}`, "[1]", `[2], "b": [3]`, "!"},
	} {
		list, err := EntryText("d.yaml", []byte(c.file), []string{"list"})
		if err != nil {
			list = "!"
		}
		got, err := SetEntryText("d.yaml", []byte(c.file), []string{"list"}, c.to)
		if err != nil {
			got = []byte("!")
		}
		if list != c.list || string(got) != c.want {
			t.Errorf("%s: %q becomes %q (%v)", c.name, list, got, err)
		}
	}
}

// TestBombs sets texts that stand for much more than they are, or that are too deep for the parser: they are refused at
// once, and few aliases aren't.
func TestBombs(t *testing.T) {
	bomb := "- &a {match: 'o/x', do: deny}\n- &b0 [*a]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("- &b%d [%s*b%d]\n", i+1, strings.Repeat(fmt.Sprintf("*b%d, ", i), 9), i)
	}
	merges := "- &b0 {a: 1}\n"
	for i := range 20 {
		merges += fmt.Sprintf("- &b%d {<<: *b%d, x: *b%d, y: *b%d}\n", i+1, i, i, i)
	}
	for name, c := range map[string]struct {
		list string
		want error
	}{
		"aliases":            {bomb, errAliases},
		"merges":             {merges, errAliases},
		"an alias of itself": {"- &a [*a]", errAliases},
		"brackets":           {strings.Repeat("[", 100_000), errDeep},
		"dashes":             {strings.Repeat("- ", 100_000), errDeep},
		"closing brackets":   {"- ]" + strings.Repeat("]", 100_000), errDeep},
		"few aliases":        {"- &a {match: 'o/x', do: deny}\n- *a\n- {<<: *a, do: allow}\n", nil},
	} {
		for _, file := range []string{"a: x\n", "list: [1]\n", "list: [1]\nb: x\n"} {
			if out, err := SetEntryText("d.yaml", []byte(file), []string{"list"}, c.list); !errors.Is(err, c.want) || err != nil && out != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := AddServers("d.yaml", []byte("x:\n"+bomb), []Added{{Name: "a", Entry: Mapping("command", Text("x"))}}); err == nil {
		t.Error("a server is added to a file that stands for too much")
	}
}

// FuzzOwnEdits checks that edits of one server leave everything else of the file as it is.
func FuzzOwnEdits(f *testing.F) {
	f.Add([]byte(ownYAML), "files", "rm")
	f.Add([]byte("mcpServers: {a: {command: x, args: ['it''s', \"]\"]}}\ndragoman: {servers: {a: {expose: {tools: {deny: [a, rm]}}}}}\n"), "a", "a")
	f.Add([]byte("mcpServers:\n  a: &x {command: y}\n  b: *x\n"), "a", "* ,")
	f.Fuzz(func(t *testing.T, b []byte, server, text string) {
		old, ok := plainYAML(b)
		if !ok || LooksLikeJSON(b) {
			return
		}
		check := func(what string, out []byte, err error, path ...string) {
			if err != nil {
				return
			}
			now, ok := plainYAML(out)
			if !ok || !same(pruned(without(now, path), path[:1]), pruned(without(old, path), path[:1])) {
				t.Errorf("%s: %q became %q", what, b, out)
			}
		}
		entry := []string{"mcpServers", server}
		out, err := SetDisabled("d.yaml", b, Own{Server: server}, true)
		check("disabled", out, err, entry...)
		out, err = SetEntryText("d.yaml", b, entry, text)
		check("entry", out, err, entry...)
		if _, err = EntryText("d.yaml", b, entry); err != nil {
			return
		}
		if out, err = SetFilter("d.yaml", b, Own{Server: server}, nil, []string{text}); err == nil {
			if v := valueAt("d.yaml", out, []string{"dragoman", "servers", server, "expose", "tools", "deny"}); !same(v, Texts([]string{text})) {
				t.Errorf("%q became %q", b, out)
			}
		}
	})
}
