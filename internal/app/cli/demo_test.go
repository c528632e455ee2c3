package cli

import "testing"

func TestProgramName(t *testing.T) {
	for _, c := range [][3]string{
		{"dragoman", "/usr/bin/dragoman", "dragoman"},
		{"bin/dragoman", "/src/bin/dragoman", "bin/dragoman"},
		{`.\dragoman.exe`, `C:\dragoman.exe`, `.\dragoman.exe`},
		{"/tmp/go-build1/b001/exe/dragoman", "/tmp/go-build1/b001/exe/dragoman", "go run ./cmd/dragoman"},
		{"/my tools/dragoman", "/my tools/dragoman", "dragoman"},
		{"", "", "dragoman"},
	} {
		if got := programName(c[0], c[1]); got != c[2] {
			t.Errorf("programName(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestReachable(t *testing.T) {
	for in, want := range map[string]string{
		"http://[::]:7300/mcp":          "http://localhost:7300/mcp",
		"http://0.0.0.0:80/mcp":         "http://localhost:80/mcp",
		"http://127.0.0.1:7300/mcp":     "http://127.0.0.1:7300/mcp",
		"http://[::1]:7300/mcp":         "http://[::1]:7300/mcp",
		"http://gateway.internal:1/mcp": "http://gateway.internal:1/mcp",
		"":                              "",
	} {
		if got := reachable(in); got != want {
			t.Errorf("reachable(%q) = %q, want %q", in, got, want)
		}
	}
}
