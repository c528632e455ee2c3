package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// values returns the variables in one line, each as NAME="VALUE"@LINE.
func values(all []Variable) string {
	var out []string
	for _, v := range all {
		out = append(out, fmt.Sprintf("%s=%q@%d", v.Name, v.Value.Reveal(), v.Line))
	}
	return strings.Join(out, " ")
}

func TestParseEnv(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"A=1\nB = two words \n":            `A="1"@1 B="two words"@2`,
		"\ufeff# comment\r\n\r\nA=x\r\n":   `A="x"@3`,
		"export A=x\nexport\tB=y":          `A="x"@1; 2: the text before = is not the name of an environment variable`,
		"A=a#b # comment":                  `A="a#b"@1`,
		"A= # only a comment\nB=":          `A=""@1 B=""@2`,
		`A='it"s $HOME \n # x' # comment`:  `A="it\"s $HOME \\n # x"@1`,
		`A="a\nb\t\"c\" \\ \$x \q"`:        "A=\"a\\nb\\t\\\"c\\\" \\\\ $x \\\\q\"@1",
		"A=\"one\ntwo\"\nB='x\n\ny'\nC=3":  `A="one\ntwo"@1 B="x\n\ny"@3 C="3"@6`,
		"A=${B} $C":                        `A="${B} $C"@1`,
		"A=1\nA=2":                         `A="2"@2; 2: A is set twice; the last value counts`,
		"hunter2hunter2":                   "; 1: the line has no =",
		"1A=x\nA-B=x\n=x":                  "; 1: the text before = is not the name of an environment variable; 2: the text before = is not the name of an environment variable; 3: the text before = is not the name of an environment variable",
		"A=1\nB='x\ny\nz":                  `A="1"@1; 2: the value has no closing quote`,
		`A="x" y`:                          "; 1: text follows the closing quote",
		"A=\xff":                           "; 0: the file is not UTF-8",
		"A=\x00":                           "; 0: the file has a NUL character",
		strings.Repeat("x", MaxEnvFile+1):  "; 0: the file is larger than 1 MiB",
		"A=sk-=/+:value,with~signs%and@at": `A="sk-=/+:value,with~signs%and@at"@1`,
	} {
		all, problems := ParseEnv([]byte(text))
		got := values(all)
		for _, p := range problems {
			got += fmt.Sprintf("; %d: %s", p.Line, p.Text)
			if strings.Contains(p.String(), "hunter2") {
				t.Errorf("a problem has a value: %s", p)
			}
		}
		if got != want {
			t.Errorf("%.40q:\n%s\nnot\n%s", text, got, want)
		}
	}
}

func TestAppendEnv(t *testing.T) {
	for before, want := range map[string]string{"": "K=v w\n", "A=1": "A=1\nK=v w\n", "# x\r\nA=1\r\n": "# x\r\nA=1\r\nK=v w\r\n"} {
		want = strings.Replace(want, "v w", "'v w'", 1)
		if got := string(AppendEnv([]byte(before), "K", "v w")); got != want {
			t.Errorf("%q: %q, not %q", before, got, want)
		}
	}
}

// FuzzParseEnv checks that ParseEnv reports valid line numbers and names for any file, and that it
// reads each value that AppendEnv writes.
func FuzzParseEnv(f *testing.F) {
	for _, text := range []string{"", "A=1", "A='x", "A=\"\\", "export A=\n#", "A=1\nA=2\r\n", "=\n'\n\""} {
		f.Add([]byte(text), "it's \"x\" $y `z` \\ \n\r\t#")
	}
	f.Fuzz(func(t *testing.T, b []byte, value string) {
		all, problems := ParseEnv(b)
		for _, p := range problems {
			if p.Text == "" || p.Line < 0 || p.Line > strings.Count(string(b), "\n")+1 {
				t.Fatalf("%+v", p)
			}
		}
		for i, v := range all {
			if !isVariable(v.Name) || v.Line < 1 {
				t.Fatalf("variable %d: %q in line %d", i, v.Name, v.Line)
			}
		}
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) || len(value) > 1<<16 {
			return
		}
		if again, problems := ParseEnv(AppendEnv(nil, "NEW_NAME", value)); len(problems) > 0 || len(again) != 1 || again[0].Value.Reveal() != value {
			t.Fatalf("%q becomes %q: %s %v", value, AppendEnv(nil, "NEW_NAME", value), values(again), problems)
		}
		if problems.Err() == nil && len(b) < 1<<16 {
			again, problems := ParseEnv(AppendEnv(b, "NEW_NAME", value))
			if problems.Err() != nil || len(again) == 0 || again[len(again)-1].Value.Reveal() != value {
				t.Fatalf("%q after %q: %v", value, b, problems)
			}
		}
	})
}

const withEnvFile = `mcpServers:
  a: {command: x, args: [--user, "${ADD_USER}"], env: {ADD_TOKEN: "${ADD_TOKEN}"}}
  b: {command: y, env: {T: "${ADD_MISSING}"}}
dragoman: {envFile: secrets.env, server: {name: "${ADD_NAME}"}}
`

func TestEnvFile(t *testing.T) {
	dir := t.TempDir()
	path, env := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "secrets.env")
	write(t, path, withEnvFile, 0o644)
	load := func(want string) *Snapshot {
		t.Helper()
		s, ps := Load(path)
		if got := listing(ps); !strings.Contains(got, want) || s == nil && strings.Contains(got, "is not set") || strings.Contains(got, "hunter2") {
			t.Errorf("%s\ndoes not contain\n%s", got, want)
		}
		return s
	}
	if s := load("c.yaml:4:21: dragoman.envFile: " + filepath.ToSlash(env) + ": file not found; create it with mode 0600"); s != nil {
		t.Error("a missing file is accepted")
	}
	if got := EnvFileOf(path); got != env {
		t.Errorf("EnvFileOf: %q", got)
	}
	const text = "ADD_TOKEN=hunter2-token\nADD_USER=ada-lovelace\nADD_NAME=house\nDRAGOMAN_SERVER_TITLE=hunter2\n"
	if runtime.GOOS != "windows" {
		for _, mode := range []os.FileMode{0o640, 0o604, 0o660} {
			write(t, env, text, mode)
			if s := load("other users of this machine can read the file, so Dragoman does not use it; run `chmod 600 " + env + "`"); s != nil {
				t.Error("a file that others can read is accepted")
			}
		}
	}
	write(t, env, text+"A=hunter2\nA=hunter2\n'hunter2'\n", 0o600)
	if s := load("secrets.env:7:1: the line has no =; write NAME=VALUE"); s != nil {
		t.Error("a file with an error is accepted")
	}
	write(t, env, text, 0o600)
	s := load("c.yaml:3:28: mcpServers.b.env.T: the environment variable ADD_MISSING is not set; write ADD_MISSING=VALUE into secrets.env, or write ${ADD_MISSING:-default}")
	if s == nil {
		t.Fatal("not accepted")
	}
	a, _ := s.Server("a")
	if s.EnvFile != env || a.Env["ADD_TOKEN"].Reveal() != "hunter2-token" || a.Args[1] != "ada-lovelace" || s.Identity.Name != "house" || s.Identity.Title != "" {
		t.Errorf("%q %+v %q %+v", s.EnvFile, a.Env, a.Args, s.Identity)
	}
	if got := strings.Join(a.Secrets(), " "); !strings.Contains(got, "hunter2-token") || !strings.Contains(got, "ada-lovelace") {
		t.Errorf("secrets: %s", got)
	}
	if got := string(s.AppendYAML(nil)); strings.Contains(got, "hunter2") || strings.Contains(got, "lovelace") || !strings.Contains(got, "\n  envFile: ") {
		t.Error(got)
	}
	if b, _ := s.Server("b"); b.Unusable == nil || b.Unusable.EnvFile != env {
		t.Errorf("%+v", b.Unusable)
	}
	if where := s.Where(); where["dragoman.envFile"] != 4 {
		t.Errorf("%v", where)
	}
	t.Run("the process comes first", func(t *testing.T) {
		t.Setenv("ADD_TOKEN", "of the process")
		t.Setenv("ADD_USER", "")
		s, _ := Load(path)
		a, _ := s.Server("a")
		if a.Env["ADD_TOKEN"].Reveal() != "of the process" || a.Args[1] != "ada-lovelace" {
			t.Errorf("%q %q", a.Env["ADD_TOKEN"].Reveal(), a.Args)
		}
	})
	later := *s
	later.EnvFile = "x"
	if c := later.Since(s); len(c.Settings) != 1 || c.Settings[0] != "envFile" {
		t.Errorf("%+v", c)
	}
}

// TestEnvFileIsNoWayIn checks that envFile has the same rules as other paths.
func TestEnvFileIsNoWayIn(t *testing.T) {
	for value, want := range map[string]string{
		`~/x`: "~ is not replaced", `""`: "must not be empty", `[a]`: "must be a single value", `"${NOT_SET_HERE}"`: "NOT_SET_HERE is not set",
	} {
		if _, ps := Parse("f", []byte("dragoman: {envFile: "+value+"}"), nil); !strings.Contains(listing(ps), want) {
			t.Errorf("%s: %s", value, listing(ps))
		}
	}
	if s, ps := Parse("f", []byte("envFile: x\n"), nil); s == nil || !strings.Contains(listing(ps), "move it under the key dragoman") {
		t.Error(listing(ps))
	}
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "c.yaml"), "dragoman: {envFile: .}", 0o600)
	if s, ps := Load(path); s != nil || !strings.Contains(listing(ps), "it is a folder, not a regular file") {
		t.Error(listing(ps))
	}
}

// TestWatchEnv checks that a change of the content or of the mode is reported.
func TestWatchEnv(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "x.env"), "A=1", 0o644)
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}, 100), make(chan error)
	go func() { ended <- WatchEnv(ctx, path, func() { changes <- struct{}{} }) }()
	change := func(what string, f func(i int)) {
		t.Helper()
		for i := range 300 { // the watch may not have begun yet
			f(i)
			select {
			case <-changes:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
		t.Fatal(what + " is not reported")
	}
	change("new content", func(i int) { write(t, path, fmt.Sprint("A=", i), 0o644) })
	if runtime.GOOS != "windows" {
		change("a new mode", func(i int) { _ = os.Chmod(path, os.FileMode(0o600+i%2*0o44)) })
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
