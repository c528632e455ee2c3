package clientfile

import (
	"bytes"
	"strings"
	"testing"
)

// TestPythonEnvironment checks where the command of an entry with a venv is looked for, on both kinds of
// systems.
func TestPythonEnvironment(t *testing.T) {
	for _, c := range []struct {
		about, os, folder, entry string
		exists                   []string
		command, cwd             string
	}{
		{"in the working directory", "linux", "/p", `"command":"python","cwd":"./s","venv":".venv"`, []string{"/p/s", "/p/s/.venv/bin/python", "/p/.venv/bin/python"}, "/p/s/.venv/bin/python", "/p/s"},
		{"beside the file", "linux", "/p", `"command":"python3","cwd":"/s","venv":"v"`, []string{"/p/v/bin/python"}, "/p/v/bin/python", "/s"},
		{"a full path", "darwin", "/p", `"command":"uvicorn","venv":"/v"`, []string{"/v/bin/uvicorn"}, "/v/bin/uvicorn", ""},
		{"on Windows", "windows", `C:\p`, `"command":"python.exe","cwd":"./s/t","venv":".venv"`, []string{`C:\p\s\t`, `C:\p\s\t\.venv\Scripts\python.exe`}, `C:\p\s\t\.venv\Scripts\python.exe`, `C:\p\s\t`},
		{"on Windows, with the launcher", "windows", `C:\p`, `"command":"py","venv":"v"`, []string{`C:\p\v\Scripts\python.exe`}, `C:\p\v\Scripts\python.exe`, ""},
		{"no environment", "linux", "/p", `"command":"python","cwd":"s","venv":"v"`, []string{"/p/s"}, "python", "/p/s"},
		{"no file", "linux", "", `"command":"python","cwd":"s","venv":"v"`, nil, "python", ""},
	} {
		there := map[string]bool{}
		for _, p := range c.exists {
			there[p] = true
		}
		root, err := Parse("x.json", []byte(`{"mcpServers":{"a":{`+c.entry+`}}}`))
		if err != nil {
			t.Fatal(err)
		}
		s := Read(generic, "x.json", root, false, Options{OS: c.os, Folder: c.folder, Exists: func(p string) bool { return there[p] }}).Servers[0]
		if got := s.Entry.Get("command").text(); got != c.command {
			t.Errorf("%s: command %s, want %s", c.about, got, c.command)
		}
		if got := s.Entry.Get("cwd").text(); got != c.cwd {
			t.Errorf("%s: cwd %s, want %s", c.about, got, c.cwd)
		}
		told := false
		for _, n := range s.Notes {
			told = told || n.Key == "venv" && n.Harmless == (c.command[0] != 'p')
		}
		if !told {
			t.Errorf("%s: notes %v", c.about, s.Notes)
		}
	}
}

// TestWrapInPythonEnvironment checks that a client does not look for Dragoman in the Python environment of
// an entry, and that the entry comes back as it was.
func TestWrapInPythonEnvironment(t *testing.T) {
	for _, c := range []struct{ entry, command, bad string }{
		{`"command": "python3", "venv": "v"`, "/p/v/bin/python", ""},
		{`"command": "/x/python", "venv": "v"`, "/x/python", ""},
		{`"command": "other", "venv": "v"`, "", "write the full path"},
		{`"command": "${PYTHON}", "venv": "v"`, "", "write the full path"},
	} {
		before := []byte(`{"mcpServers": {"a": {` + c.entry + `, "args": ["s.py"]}}}`)
		root, err := Parse("x.json", before)
		if err != nil {
			t.Fatal(err)
		}
		s := Read(generic, "x.json", root, false, Options{OS: "linux", Folder: "/p", Exists: func(p string) bool { return p == "/p/v/bin/python" }}).Servers[0]
		after, err := Wrap(generic, "x.json", before, &s, "/opt/dragoman")
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: %v\n%s", c.entry, err, after)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.entry, err)
			continue
		}
		if root, err = Parse("x.json", after); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(wordsOf(root.Get(s.Path...)), " "); got != "/opt/dragoman run "+c.command+" s.py" || root.Get("mcpServers", "a", "venv") != nil {
			t.Errorf("%s becomes %s", c.entry, after)
		}
		f := History{"x.json", after, [][]byte{before}}
		if got := Wraps(generic, f, nil); len(got) != 1 {
			t.Errorf("%s: wrapped: %q", c.entry, got)
		}
		if back, err := Disconnect(generic, f, Undo{Wrapped: [][]string{s.Path}}, nil); err != nil || !bytes.Equal(back, before) {
			t.Errorf("%s comes back as %s: %v", c.entry, back, err)
		}
		for _, n := range s.Notes {
			if n.Key == "venv" && !n.Harmless {
				t.Errorf("%s: %s", c.entry, n)
			}
		}
	}
}
