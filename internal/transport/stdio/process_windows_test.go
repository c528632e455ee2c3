package stdio

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

func detach(*exec.Cmd, bool) {}

func commandLine() string { return windows.UTF16PtrToString(windows.GetCommandLine()) }

// splitLine splits a command line as the programs of today's C compilers do, and so Node and Python: two
// quotation marks in a quotation are one mark, and the quotation goes on. In programs in Go it ends there.
func splitLine(line string) (args []string) {
	var arg strings.Builder
	quoted, began, slashes := false, false, 0
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c == '\\' {
			slashes, began = slashes+1, true
			continue
		}
		if c == '"' {
			arg.WriteString(strings.Repeat(`\`, slashes/2))
		} else {
			arg.WriteString(strings.Repeat(`\`, slashes))
		}
		odd := slashes%2 == 1
		slashes = 0
		switch {
		case c == '"' && odd:
			arg.WriteByte(c)
		case c == '"' && quoted && i+1 < len(line) && line[i+1] == '"':
			arg.WriteByte(c)
			i++
		case c == '"':
			quoted, began = !quoted, true
		case (c == ' ' || c == '\t') && !quoted:
			if began {
				args = append(args, arg.String())
			}
			arg.Reset()
			began = false
		default:
			arg.WriteByte(c)
			began = true
		}
	}
	arg.WriteString(strings.Repeat(`\`, slashes))
	if began {
		args = append(args, arg.String())
	}
	return args
}

// TestBatchFile starts a batch file as npm makes them, which is found through PATH and PATHEXT, and wants
// its program to get the arguments that we gave. None of them may start another program.
func TestBatchFile(t *testing.T) {
	dir, err := os.MkdirTemp("", "a folder (x86) ") // Wine can't remove a folder of testing
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"npx":     "#!/bin/sh\nexit 9\n", // npm puts one for Unix beside it
		"npx.cmd": "@echo off\r\nSETLOCAL\r\n\"" + self + "\" %*\r\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{
		"-y", "two words", "https://x.example/mcp?a=1&b=2", "a|b^c<d>e", `say "hi"`, `" & echo x>y & "`, `C:\notes\`, `\\host\share\a b\`,
		`{"a":"b"}`, "!x!", "größe", "", "(x)", "a,b;c=d",
	}
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() != nil {
		args = append(args, `%PATH%`, `%`, "100%") // the cmd.exe of Wine 8 can't do this
	}
	spec := specOf("line")
	spec.Command, spec.Args, spec.Dir = "npx", args, dir
	spec.Env = append(spec.Env, "PATH="+dir)
	p := start(t, spec)
	wantEOF(t, p)
	<-p.Exited()
	if got := splitLine(strings.Join(p.StderrTail(100), "\n")); len(got) == 0 || !slices.Equal(got[1:], args) {
		t.Errorf("\n got %q\nwant %q", got, args)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != len(files) {
		t.Errorf("an argument was run as a command: %v, %v", left, err)
	}
}
