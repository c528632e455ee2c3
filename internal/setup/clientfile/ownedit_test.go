package clientfile

import (
	"strings"
	"testing"
)

const ownYAML = `# top
mcpServers:
  # The files.
  files:
    command: npx  # runner
    args:
      - -y

      # the root
      - files

  # About weather.
  # Two lines.
  "weather": {url: https://example.com}

  last:
    command: x
    enabled: false
# about dragoman
dragoman:
  servers:
    files: {prefix: f}
  listen: 127.0.0.1:1
`

func TestRemoveServer(t *testing.T) {
	for _, c := range []struct{ name, file, server, want string }{
		{"first", ownYAML, "files", strings.NewReplacer("  # The files.\n  files:\n    command: npx  # runner\n    args:\n      - -y\n\n      # the root\n      - files\n", "", "  servers:\n    files: {prefix: f}\n", "  servers: {}\n").Replace(ownYAML)},
		{"in braces", ownYAML, "weather", strings.Replace(ownYAML, "  # About weather.\n  # Two lines.\n  \"weather\": {url: https://example.com}\n", "", 1)},
		{"last", ownYAML, "last", strings.Replace(ownYAML, "  last:\n    command: x\n    enabled: false\n", "", 1)},
		{"only", "mcpServers: # all\n  a:\n    command: x\n", "a", "mcpServers: {} # all\n"},
		{"CRLF", "mcpServers:\r\n  a:\r\n    command: x\r\n  b:\r\n    command: y\r\n", "a", "mcpServers:\r\n  b:\r\n    command: y\r\n"},
		{"no newline at the end", "mcpServers:\n  a:\n    command: x\n  b:\n    command: y", "b", "mcpServers:\n  a:\n    command: x\n"},
		{"JSON", `{"mcpServers": {"a": {"command": "x"}, /* b */ "b": {}}}`, "a", `{"mcpServers": {/* b */ "b": {}}}`},
		{"missing", ownYAML, "none", ""},
		{"missing in JSON", `{"mcpServers": {}}`, "none", ""},
		{"all in braces", "mcpServers: {a: {command: x}, b: {command: y}} # all\n", "a", "mcpServers: # all\n  b: {command: y}\n"},
		{"anchors", "mcpServers:\n  a: &x\n    command: x\n  b: *x\n", "a", ""},
	} {
		got, err := RemoveServer("d.yaml", []byte(c.file), Own{Server: c.server})
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

func TestSetDisabled(t *testing.T) {
	for _, c := range []struct {
		name, file, server string
		off                bool
		want               string
	}{
		{"off", ownYAML, "files", true, strings.Replace(ownYAML, "      - files\n", "      - files\n    disabled: true\n", 1)},
		{"on, by enabled", ownYAML, "last", false, strings.Replace(ownYAML, "    enabled: false\n", "", 1)},
		{"on already", "mcpServers:\n  a:\n    command: x\n", "a", false, "mcpServers:\n  a:\n    command: x\n"},
		{"on", "mcpServers:\n  a:\n    disabled: true # for now\n    command: x\n", "a", false, "mcpServers:\n  a:\n    command: x\n"},
		{"off, was false", "mcpServers:\n  a:\n    disabled: false\n    command: x\n", "a", true, "mcpServers:\n  a:\n    command: x\n    disabled: true\n"},
		{"in braces", ownYAML, "weather", true, strings.Replace(ownYAML, "\"weather\": {url: https://example.com}\n", "\"weather\":\n    url: https://example.com\n    disabled: true\n", 1)},
		{"on, in braces", "mcpServers:\n  a: {\"command\":'it''s, {x', args: [a, {b: c}],\n      disabled: true} # for now\n", "a", false, "mcpServers:\n  a: # for now\n    \"command\": 'it''s, {x'\n    args: [a, {b: c}]\n"},
		{"comment in braces", "mcpServers:\n  a: {command: x, # why\n    args: []}\n", "a", true, ""},
		{"missing", ownYAML, "none", true, ""},
		{"JSON off", `{"mcpServers": {"a": {"command": "x"}}}`, "a", true, `{"mcpServers": {"a": {"command": "x", "disabled": true}}}`},
		{"JSON on", `{"mcpServers": {"a": {"command": "x", "disabled": true}}}`, "a", false, `{"mcpServers": {"a": {"command": "x"}}}`},
	} {
		got, err := SetDisabled("d.yaml", []byte(c.file), Own{Server: c.server}, c.off)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

func TestSetFilter(t *testing.T) {
	const lines = "dragoman:\n  servers:\n    a:\n      prefix: f # short\n      expose:\n        tools:\n"
	const entry = "mcpServers:\n  a: {command: x}\n"
	for _, c := range []struct {
		name, file  string
		allow, deny string
		want        string
	}{
		{"new", entry, "", "rm", entry + "\ndragoman:\n  servers:\n    a:\n      expose:\n        tools:\n          deny: [rm]\n"},
		{"settings in braces", entry + "dragoman:\n  servers: {a: {prefix: f}, b: {}}\n", "", "rm,c d",
			entry + "dragoman:\n  servers:\n    a:\n      prefix: f\n      expose:\n        tools:\n          deny: [rm, \"c d\"]\n    b: {}\n"},
		{"list in brackets", entry + lines + "          deny: ['rm', \"x, y\",z] # bad\n", "", "x, y,new", entry + lines + "          deny: [\"x, y\", new] # bad\n"},
		{"list in lines", entry + lines + "          deny:\n            # never\n            - rm # really\n            - mv\n          allow: [\"*\"]\n", "*", "rm,cp", entry + lines + "          deny:\n            # never\n            - rm # really\n            - cp\n          allow: [\"*\"]\n"},
		{"list as far as its key, no newline", entry + lines + "          deny:\n          - rm", "", "rm,cp", entry + lines + "          deny:\n          - rm\n          - cp\n"},
		{"gone", entry + lines + "          deny: [rm]\n", "", "", entry + "dragoman:\n  servers:\n    a:\n      prefix: f # short\n"},
		{"gone with its server", entry + "dragoman:\n  listen: 127.0.0.1:1\n  servers:\n    a: {expose: {tools: {deny: [rm]}}}\n", "", "", entry + "dragoman:\n  listen: 127.0.0.1:1\n  servers: {}\n"},
		{"same", entry + lines + "          deny: [ rm ]\n", "", "rm", entry + lines + "          deny: [ rm ]\n"},
		{"not there", entry, "", "", entry},
		{"items of several lines", entry + lines + "          deny:\n            - >-\n              rm\n            - mv\n", "", "mv", ""},
		{"JSON", `{"mcpServers": {"a": {}}, "dragoman": {"servers": {"a": {"prefix": "f"}}}}`, "", "rm", `{"mcpServers": {"a": {}}, "dragoman": {"servers": {"a": {"prefix": "f", "expose": {"tools": {"deny": ["rm"]}}}}}}`},
		{"JSON gone", `{"mcpServers": {"a": {}}, "dragoman": {"servers": {"a": {"prefix": "f", "expose": {"tools": {"deny": ["rm"]}}}}}}`, "", "", `{"mcpServers": {"a": {}}, "dragoman": {"servers": {"a": {"prefix": "f"}}}}`},
	} {
		list := func(s string) []string {
			if s == "x, y,new" {
				return []string{"x, y", "new"}
			}
			return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
		}
		got, err := SetFilter("d.yaml", []byte(c.file), Own{Server: "a"}, list(c.allow), list(c.deny))
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

// FuzzRemoveServer checks that a file without one server is the same otherwise.
func FuzzRemoveServer(f *testing.F) {
	f.Add([]byte(ownYAML), "files")
	f.Add([]byte("mcpServers:\n  a: |\n    x\n   # y\n  b: {}\n"), "a")
	f.Add([]byte("mcpServers:\n  ? a\n  : b\n---\nc: d\n"), "a")
	f.Fuzz(func(t *testing.T, b []byte, server string) {
		out, err := RemoveServer("d.yaml", b, Own{Server: server})
		if err != nil || LooksLikeJSON(b) {
			return
		}
		old, _ := plainYAML(b)
		now, ok := plainYAML(out)
		path := []string{"mcpServers", server}
		if !ok || now.Get(path...) != nil {
			t.Errorf("%q became %q", b, out)
		}
		settings := []string{"dragoman", "servers", server}
		if !same(pruned(pruned(now, path[:1]), settings[:2]), without(without(old, path), settings)) {
			t.Errorf("%q became %q", b, out)
		}
	})
}

// TestServersOfProjects changes the servers of a project in the file, beside servers of the same names in default and
// in another project, whose lines stay as they are.
func TestServersOfProjects(t *testing.T) {
	const file = `mcpServers:
  a: {command: x}
dragoman:
  servers:
    a: {prefix: p}
  projects:
    lab:
      mcpServers:
        a:
          command: lab
    # The shop.
    shop:
      title: Shop # kept
      use: [a]
      mcpServers:
        # About b.
        b:
          command: y # runner
        last:
          url: http://h
      servers:
        b: {prefix: q}
    empty: {}
`
	const ofB = "        # About b.\n        b:\n          command: y # runner\n"
	added := []Added{{Name: "a", Comment: "new", Entry: Mapping("command", Text("z")), Settings: Mapping("prefix", Text("r"))}}
	for name, c := range map[string]struct {
		do   func(b []byte) ([]byte, error)
		want string
	}{
		"remove":      {func(b []byte) ([]byte, error) { return RemoveServer("d.yaml", b, Own{"shop", "b"}) }, strings.NewReplacer(ofB, "", "      servers:\n        b: {prefix: q}\n", "      servers: {}\n").Replace(file)},
		"remove none": {func(b []byte) ([]byte, error) { return RemoveServer("d.yaml", b, Own{"shop", "a"}) }, ""},
		"no project":  {func(b []byte) ([]byte, error) { return RemoveServer("d.yaml", b, Own{"none", "a"}) }, ""},
		"disable":     {func(b []byte) ([]byte, error) { return SetDisabled("d.yaml", b, Own{"shop", "b"}, true) }, strings.Replace(file, "y # runner\n", "y # runner\n          disabled: true\n", 1)},
		"enable":      {func(b []byte) ([]byte, error) { return SetDisabled("d.yaml", b, Own{"shop", "b"}, false) }, file},
		"hide": {
			func(b []byte) ([]byte, error) { return SetFilter("d.yaml", b, Own{"shop", "last"}, nil, []string{"x"}) },
			strings.Replace(file, "        b: {prefix: q}\n", "        b: {prefix: q}\n        last:\n          expose:\n            tools:\n              deny: [x]\n", 1),
		},
		"add": {
			func(b []byte) ([]byte, error) { return AddServersTo("d.yaml", b, "shop", added) },
			strings.NewReplacer("          url: http://h\n", "          url: http://h\n        # new\n        a:\n          command: z\n", "        b: {prefix: q}\n", "        b: {prefix: q}\n        a:\n          prefix: r\n").Replace(file),
		},
		"add to an empty project": {
			func(b []byte) ([]byte, error) { return AddServersTo("d.yaml", b, "empty", added) },
			strings.Replace(file, "    empty: {}\n", "    empty:\n      mcpServers:\n        # new\n        a:\n          command: z\n      servers:\n        a:\n          prefix: r\n", 1),
		},
	} {
		got, err := c.do([]byte(file))
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.want)
		}
	}
	const json = `{"mcpServers": {"a": {"command": "x"}}, "dragoman": {"projects": {"shop": {"mcpServers": {"b": {"command": "y"}}}}}}`
	for name, c := range map[string]struct {
		do   func(b []byte) ([]byte, error)
		want string
	}{
		"remove":  {func(b []byte) ([]byte, error) { return RemoveServer("d.json", b, Own{"shop", "b"}) }, strings.Replace(json, `"b": {"command": "y"}`, "", 1)},
		"disable": {func(b []byte) ([]byte, error) { return SetDisabled("d.json", b, Own{"shop", "b"}, true) }, strings.Replace(json, `"y"}`, `"y", "disabled": true}`, 1)},
		"add":     {func(b []byte) ([]byte, error) { return AddServersTo("d.json", b, "shop", added[:1]) }, ""},
	} {
		got, err := c.do([]byte(json))
		if c.want == "" {
			v, _ := Parse("d.json", got)
			if err != nil || v.Get("dragoman", "projects", "shop", "mcpServers", "a", "command") == nil || v.Get("dragoman", "projects", "shop", "servers", "a", "prefix") == nil {
				t.Errorf("%s: %v\n%s", name, err, got)
			}
		} else if string(got) != c.want || err != nil {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.want)
		}
	}
}
