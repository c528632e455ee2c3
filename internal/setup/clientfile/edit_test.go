package clientfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func client(t testing.TB, id string) *Client {
	c, ok := ByID(id)
	if !ok {
		t.Fatal(id)
	}
	return c
}

var cursorEntry = Entry{Name: "dragoman", URL: "http://127.0.0.1:7300/mcp"}

// TestConnectJSON checks the layout of the new entry in JSON files of different layouts.
func TestConnectJSON(t *testing.T) {
	const e = `"dragoman": {"url": "http://127.0.0.1:7300/mcp"}`
	long := func(indent, unit, nl string) string {
		return indent + `"dragoman": {` + nl + indent + unit + `"url": "http://127.0.0.1:7300/mcp"` + nl + indent + "}"
	}
	for name, c := range map[string]struct{ before, after string }{
		"no file":              {"", "{\n  \"mcpServers\": {\n" + long("    ", "  ", "\n") + "\n  }\n}\n"},
		"blanks":               {" \n", "{\n  \"mcpServers\": {\n" + long("    ", "  ", "\n") + "\n  }\n}\n"},
		"byte order mark":      {"\ufeff{}\n", "\ufeff{\n  \"mcpServers\": {\n" + long("    ", "  ", "\n") + "\n  }\n}\n"},
		"empty object":         {"{}", "{\n  \"mcpServers\": {\n" + long("    ", "  ", "\n") + "\n  }\n}"},
		"empty list":           {"{\n\t\"mcpServers\": {}\n}\n", "{\n\t\"mcpServers\": {\n" + long("\t\t", "\t", "\n") + "\n\t}\n}\n"},
		"null":                 {"{\n  \"mcpServers\": null\n}\n", "{\n  \"mcpServers\": {\n" + long("    ", "  ", "\n") + "\n  }\n}\n"},
		"no list":              {"{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  \"mcpServers\": {\n" + long("    ", "  ", "\n") + "\n  }\n}\n"},
		"minified":             {`{"a":1,"mcpServers":{"x":{"command":"y"}}}`, `{"a":1,"mcpServers":{"x":{"command":"y"},` + strings.Replace(e, `": {"u`, `":{"u`, 1) + `}}`},
		"minified, two":        {`{"mcpServers":{"x":{"command":"y"},"z":{"command":"y"}}}`, `{"mcpServers":{"x":{"command":"y"},"z":{"command":"y"},` + strings.Replace(e, `": {"u`, `":{"u`, 1) + `}}`},
		"minified, empty":      {`{"mcpServers":{}}`, `{"mcpServers":{` + e + `}}`},
		"a comment behind":     {"{\n  \"mcpServers\": {\n    \"x\": {} // note\n  }\n}", "{\n  \"mcpServers\": {\n    \"x\": {}, // note\n" + long("    ", "  ", "\n") + "\n  }\n}"},
		"a comment below":      {"{\n  \"mcpServers\": {\n    \"x\": {},\n    // none yet\n  }\n}", "{\n  \"mcpServers\": {\n    \"x\": {},\n    // none yet\n" + long("    ", "  ", "\n") + ",\n  }\n}"},
		"only a comment":       {"{\n  \"mcpServers\": {\n    // none yet\n  }\n}", "{\n  \"mcpServers\": {\n    // none yet\n" + long("    ", "  ", "\n") + "\n  }\n}"},
		"line ends of Windows": {"{\r\n    \"mcpServers\": {\r\n        \"x\": {}\r\n    }\r\n}\r\n", "{\r\n    \"mcpServers\": {\r\n        \"x\": {},\r\n" + long("        ", "    ", "\r\n") + "\r\n    }\r\n}\r\n"},
		"an old entry":         {`{"mcpServers": {"dragoman": {"url": "http://localhost:7300/mcp"}, "b": {}}}`, `{"mcpServers": {` + e + `, "b": {}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			after, err := Connect(client(t, "cursor"), "mcp.json", []byte(c.before), cursorEntry, ourAddresses)
			if err != nil {
				t.Fatal(err)
			}
			if want := c.after; string(after) != want {
				t.Fatalf("got:\n%q\nwant:\n%q", after, want)
			}
			back, err := Disconnect(client(t, "cursor"), History{"mcp.json", after, [][]byte{[]byte(c.before)}}, Undo{Entry: "dragoman"}, ourAddresses)
			if err != nil || name != "an old entry" && string(back) != c.before {
				t.Errorf("back: %q, %v", back, err)
			}
			back, err = Disconnect(client(t, "cursor"), History{"mcp.json", after, nil}, Undo{Entry: "dragoman"}, ourAddresses)
			if err != nil {
				t.Fatal(err)
			}
			if root, err := Parse("mcp.json", back); err != nil || root.Get("mcpServers", "dragoman") != nil {
				t.Errorf("without a backup: %v %q", err, back)
			}
		})
	}
}

func TestConnectTOML(t *testing.T) {
	const table = "[mcp_servers.dragoman]\nurl = \"http://127.0.0.1:7300/mcp\"\n"
	codex := client(t, "codex")
	for name, c := range map[string]struct{ before, after string }{
		"no file":           {"", table},
		"no line end":       {"a = 1", "a = 1\n\n" + table},
		"at the end":        {"a = 1\n", "a = 1\n\n" + table},
		"behind its like":   {"[mcp_servers.x]\ncommand = \"y\"\n# about z\n[z]\nb = 1\n", "[mcp_servers.x]\ncommand = \"y\"\n\n" + table + "# about z\n[z]\nb = 1\n"},
		"under its parent":  {"[mcp_servers]\nx = { command = \"y\" }\n\n[z]\n", "[mcp_servers]\nx = { command = \"y\" }\n\n" + table + "\n[z]\n"},
		"an old entry":      {"[mcp_servers.dragoman]\ncommand = \"dragoman\"\nargs = [\"serve\"]\n[mcp_servers.dragoman.env]\nA = \"b\"\n\n[z]\n", table + "\n[z]\n"},
		"an old inline one": {"[mcp_servers]\na = {command = \"x\"}\ndragoman = { url = \"http://localhost:7300/mcp\" } # ours\n", "[mcp_servers]\na = {command = \"x\"}\n" + table},
	} {
		t.Run(name, func(t *testing.T) {
			after, err := Connect(codex, "config.toml", []byte(c.before), cursorEntry, ourAddresses)
			if err != nil {
				t.Fatal(err)
			}
			if string(after) != c.after {
				t.Fatalf("got:\n%s\nwant:\n%s", after, c.after)
			}
			back, err := Disconnect(codex, History{"config.toml", after, [][]byte{[]byte(c.before)}}, Undo{Entry: "dragoman"}, ourAddresses)
			if err != nil || !strings.HasPrefix(name, "an old") && string(back) != c.before {
				t.Errorf("back: %q, %v", back, err)
			}
		})
	}
	for _, before := range []string{"mcp_servers = { a = { command = \"b\" } }\n", "a = \n", "mcp_servers = 3\n"} {
		if after, err := Connect(codex, "config.toml", []byte(before), cursorEntry, ourAddresses); err == nil {
			t.Errorf("%q becomes %q", before, after)
		}
	}
}

// TestTaken checks that a server of the user is never replaced or removed.
func TestTaken(t *testing.T) {
	for id, before := range map[string]string{
		"cursor":   `{"mcpServers": {"dragoman": {"command": "other"}}}`,
		"codex":    "[mcp_servers.dragoman]\nurl = \"https://example.com/mcp\"\n",
		"opencode": `{"mcp": {"dragoman": {"type": "local", "command": ["dragoman", "run", "--", "npx", "x"]}}}`,
	} {
		name := map[string]string{"codex": "c.toml"}[id]
		var taken *Taken
		if _, err := Connect(client(t, id), name, []byte(before), cursorEntry, ourAddresses); !errors.As(err, &taken) {
			t.Errorf("%s: connect: %v", id, err)
		}
		if _, err := Disconnect(client(t, id), History{name, []byte(before), nil}, Undo{Entry: "dragoman"}, ourAddresses); !errors.As(err, &taken) {
			t.Errorf("%s: disconnect: %v", id, err)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.json", "{\n  \"a\": [1,,2]\n}", "a.json:2:"},
		{"a.json", "{\"a\": 1}}", "a.json:1:"},
		{"a.json", "[1]", ""},
		{"a.json", strings.Repeat("[", 100_000), "nested too deeply"},
		{"a.json", "{\"a\": \"" + strings.Repeat("[", 100_000) + "\"}", ""},
		{"a.json", "\xff", "not UTF-8"},
		{"a.json", `{"a":`, "a.json:1:6: this is not JSON: the text ends too early"},
		{"a.json", `{"a": "canary\q"}`, "a.json:1:7: this is not JSON: a string with an invalid escape or character"},
		{"a.json", `{"a": canary}`, "a.json:1:7: this is not JSON: a word without quotes that is neither a number nor true, false or null"},
		{"a.toml", "a = x\n", "a.toml:1:5: this is not TOML: unexpected character 'x' at start of value; a text needs quotes"},
		{"a.toml", "a = 1\na = 2\n", "a.toml:2:"},
		{"a.toml", "a = " + strings.Repeat("[", 100_000), "nested too deeply"},
	} {
		_, err := Parse(c.name, []byte(c.text))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v", c.text, err)
		}
	}
	for _, text := range []string{"[1]", `{"mcpServers": [1]}`, `{"mcpServers": "x"}`} {
		if after, err := Connect(client(t, "cursor"), "mcp.json", []byte(text), cursorEntry, ourAddresses); err == nil {
			t.Errorf("%q becomes %q", text, after)
		}
	}
}

func TestStandardize(t *testing.T) {
	in := "\ufeff{ // a\n \"x\": [1, 2,], /* b */\n}\n"
	out, err := Standardize("x", []byte(in))
	if err != nil || len(out) != len(in) || bytes.ContainsAny(out, "/*") || bytes.Count(out, []byte("\n")) != 3 {
		t.Errorf("%q, %v", out, err)
	}
}

func TestDiff(t *testing.T) {
	before := "a\nb\nc\nd\ne\nf\n"
	got := Diff("f", []byte(before), []byte("a\nb\nc\nd\nx\ne\nf"), func(s string) string { return s })
	want := "--- f\n+++ f\n@@ -2,5 +2,6 @@\n b\n c\n d\n+x\n e\n-f\n+f\n\\ No newline at end of file\n" // the line e stays unchanged between two changes
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := Diff("f", nil, []byte("a\n"), strings.ToUpper); got != "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+A\n" {
		t.Errorf("%q", got)
	}
}

// FuzzConnect connects and disconnects any file. Values other than Dragoman's entry keep their
// meaning. If Disconnect gets the earlier version of the file, it restores this version byte for byte.
func FuzzConnect(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"mcpServers":{"a":{}}}`, "{\n \"mcpServers\": { // x\n \"a\": 1, /* b */ }, }", "[mcp_servers.a]\nb = 1\n# c\n[d]\n", "mcp_servers.a.b = 1\n[[x]]\ny = '''\n[z]\n'''\n",
		"{\"mcpServers\":{\"a\":{\"url\":\"https://h/\", // x\n\"headers\":{\"A\":\"b\"},\"env\":{}},\n\"b\":{\"command\":[\"x\"]}}}",
		"[mcp_servers]\na = { url = \"https://h/\", http_headers = { A = \"b\" } } # x\n[mcp_servers.b]\ncommand = \"x\" # y\nargs = [\n \"z\", # z\n]\n[mcp_servers.b.env]\nA = \"b\""} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, isTOML bool) {
		id, name := "cursor", "mcp.json"
		if isTOML {
			id, name = "codex", "config.toml"
		}
		c := client(t, id)
		before, err := Parse(name, b)
		if err != nil {
			return
		}
		Read(c, name, before, false, Options{OS: "linux", Addresses: ourAddresses})
		if twice(before) {
			return
		}
		moveAndWrap(t, c, name, b, before)
		after, err := Connect(c, name, b, cursorEntry, ourAddresses)
		if err != nil {
			return
		}
		root, err := Parse(name, after)
		if err != nil {
			t.Fatalf("%v\n%q", err, after)
		}
		path, _ := c.find(before)
		full := append(append([]string{}, path...), "dragoman")
		if root.Get(full...) == nil || !same(without(root, full), without(before, full)) {
			t.Fatalf("%q becomes %q", b, after)
		}
		if before.Get(full...) != nil {
			return
		}
		for _, earlier := range [][][]byte{{b}, nil} {
			back, err := Disconnect(c, History{name, after, earlier}, Undo{Entry: "dragoman"}, ourAddresses)
			if err != nil {
				t.Fatalf("%v\n%q", err, after)
			}
			again, err := Parse(name, back)
			if err != nil || again.Get(full...) != nil || !same(without(again, full), without(before, full)) || earlier != nil && !bytes.Equal(back, b) {
				t.Fatalf("%v\n%q\n%q\n%q", err, b, after, back)
			}
		}
	})
}

// moveAndWrap moves and wraps each entry of a file, and takes it back. Other values keep their meaning.
func moveAndWrap(t *testing.T, c *Client, name string, b []byte, before *Value) {
	t.Helper()
	for _, p := range c.entries(before) {
		if kept, err := AddMoved(name, nil, b, [][]string{p}); err == nil {
			after, err := Move(name, b, [][]string{p})
			if root, e := Parse(name, after); err == nil && (e != nil || !same(without(root, p), without(before, p)) || root.Get(p...) != nil) {
				t.Fatalf("%v\n%q\n%q becomes %q", e, p, b, after)
			}
			for _, earlier := range [][][]byte{{b}, nil} {
				back, e := Disconnect(c, History{name, after, earlier}, Undo{Moved: kept}, ourAddresses)
				again, _ := Parse(name, back)
				if err == nil && (e != nil || !same(again, before) || earlier != nil && !bytes.Equal(back, b)) {
					t.Fatalf("%v\n%q\n%q becomes %q becomes %q", e, p, b, after, back)
				}
			}
		}
		after, err := Wrap(c, name, b, &Server{Original: p[len(p)-1], Path: p}, "dragoman")
		if err != nil || IsWrapped(before, p) {
			continue
		}
		if root, e := Parse(name, after); e != nil || !IsWrapped(root, p) || !same(without(root, p), without(before, p)) {
			t.Fatalf("%v\n%q\n%q becomes %q", e, p, b, after)
		}
		if back, e := Disconnect(c, History{name, after, [][]byte{b}}, Undo{Wrapped: [][]string{p}}, ourAddresses); e != nil || !bytes.Equal(back, b) {
			t.Fatalf("%v\n%q\n%q becomes %q becomes %q", e, p, b, after, back)
		}
	}
}

// twice reports whether a mapping has the same key twice, which JSON allows.
func twice(v *Value) bool {
	seen := map[string]bool{}
	for _, m := range v.Members {
		if seen[m.Key] || twice(m.Value) {
			return true
		}
		seen[m.Key] = true
	}
	return slices.ContainsFunc(v.Items, twice)
}

// TestDiffHunks checks diffs with several changes.
func TestDiffHunks(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"a\nb\nc\n", "a\nx\nb\nc\ny\n", "--- f\n+++ f\n@@ -1,3 +1,5 @@\n a\n+x\n b\n c\n+y\n"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9", "--- f\n+++ f\n@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -6,4 +7,4 @@\n 6\n 7\n 8\n-9\n+9\n\\ No newline at end of file\n"},
		{"", "a\n", "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n"},
		{"a\nb\n", "c\n", "--- f\n+++ f\n@@ -1,2 +1 @@\n-a\n-b\n+c\n"},
	} {
		if got := Diff("f", []byte(c.before), []byte(c.after), func(s string) string { return s }); got != c.want {
			t.Errorf("%q to %q:\n%s\nnot\n%s", c.before, c.after, got, c.want)
		}
	}
}
