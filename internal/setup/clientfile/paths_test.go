package clientfile

import "testing"

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
