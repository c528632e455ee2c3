package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

func TestFileNames(t *testing.T) {
	for _, c := range []struct{ uri, mime, want string }{
		{"", "image/png", "tool.png"},
		{"", "image/PNG; q=1", "tool.png"},
		{"", "x/unknown", "tool.bin"},
		{"", "", "tool"},
		{"file:///a/b/report.pdf", "application/pdf", "report.pdf"},
		{"file:///a/b/report", "application/pdf", "report.pdf"},
		{"file:///../../etc/passwd", "", "passwd"},
		{"x:/%2e%2e%2f%2e%2e%2fup", "", "up"},
		{"file:///a/..", "text/plain", "tool.txt"},
		{"file:///C:%5Cwindows%5Cx.dll", "", "C__windows_x.dll"},
		{"x:/.bashrc", "", "bashrc"},
		{"x:/-rf", "", "rf"},
		{"x:/--.-", "", "tool"},
		{"x:/a-b-", "", "a-b-"},
		{"x:/con.txt", "", "_con.txt"},
		{"x:/a%00b%1b%5b2Jc.png", "", "a_b__2Jc.png"},
		{"x:/日本.txt", "", "日本.txt"},
		{"mailto:someone", "", "someone"},
		{"%zz", "", "tool"},
		{"x:/" + strings.Repeat("n", 300), "", strings.Repeat("n", 100)},
	} {
		if got := nameOf(c.uri, c.mime, "tool"); got != c.want {
			t.Errorf("%q %q: got %q, want %q", c.uri, c.mime, got, c.want)
		}
	}
}

// TestSave checks that no file is overwritten and that no link leads out of the folder.
func TestSave(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "new", "out")
	s, err := newSaver(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, want := range []string{"a.png", "a-2.png", "a-3.png"} {
		path, err := s.save("a.png", []byte{byte(i)})
		if err != nil || path != filepath.Join(dir, want) {
			t.Fatalf("%s, %v, want %s", path, err, want)
		}
		if b, _ := os.ReadFile(path); len(b) != 1 || b[0] != byte(i) {
			t.Errorf("%s has %v", path, b)
		}
	}
	outside := filepath.Join(top, "outside")
	if err := os.Symlink(outside, filepath.Join(dir, "link.png")); err != nil {
		t.Skip("this system makes no symlinks: ", err)
	}
	if path, err := s.save("link.png", []byte("x")); err != nil || path != filepath.Join(dir, "link-2.png") {
		t.Errorf("%s, %v", path, err)
	}
	if _, err := s.save("../up.png", []byte("x")); err == nil {
		t.Error("a file was written outside of the folder")
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("a link was followed")
	}
}

// TestSaveIsBounded checks that a command saves a limited number of files.
func TestSaveIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := newSaver(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range maxSaved {
		if _, err := s.save("a.png", nil); err != nil {
			t.Fatal(i, err)
		}
	}
	if s.next["a.png"] != maxSaved+1 {
		t.Errorf("the next file begins at number %d", s.next["a.png"])
	}
	for _, name := range []string{"a.png", "b.png"} {
		if path, err := s.save(name, nil); err == nil {
			t.Errorf("%s was saved", path)
		}
	}
	if all, _ := os.ReadDir(dir); len(all) != maxSaved {
		t.Errorf("%d files", len(all))
	}
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{"aGk=": "hi", "aGk": "hi", "a-_-": "k\xef\xfe", "a+/+": "k\xef\xfe", "aG\nk=": "hi"} {
		raw := jsonrpc.AppendQuote(nil, text)
		if got, err := decode(raw, jsonrpc.Whole(raw)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := decode([]byte(`"!"`), jsonrpc.Whole([]byte(`"!"`))); err == nil {
		t.Error("not base64")
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{
		"plain-1.2_x/y:z@%+,=": "plain-1.2_x/y:z@%+,=", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'", "a\nb": `$'a\nb'`, "\x1b[2J'": `$'\x1b[2J\''`, "日本": "'日本'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}
