package main

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestFormula checks that the Homebrew formula has the URLs and checksums of four archives. CI does
// not write a formula, because it builds only one archive.
func TestFormula(t *testing.T) {
	r := &release{files: filepath.Join("..", "files"), dist: t.TempDir(), version: "1.2.3", platforms: released}
	sums := map[string]string{}
	for _, p := range released {
		file := filepath.Join(r.dist, r.archiveName(p)+".tar.gz")
		if err := os.WriteFile(file, []byte(p.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		sum, err := fileSum(file)
		if err != nil {
			t.Fatal(err)
		}
		sums[p.String()] = sum
	}
	if err := r.formula(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(r.dist, "dragoman.rb"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, p := range released[:4] {
		url := homepage + "/releases/download/v1.2.3/" + r.archiveName(p) + ".tar.gz"
		if !strings.Contains(text, `url "`+url+`"`+"\n      sha256 \""+sums[p.String()]+`"`) {
			t.Errorf("%s is missing:\n%s", p, text)
		}
	}
	if strings.Contains(text, "{{") || strings.Count(text, " do\n")+strings.Count(text, "  def ") != strings.Count(text, "  end\n") || !strings.Contains(text, `version "1.2.3"`) {
		t.Errorf("%s", text)
	}
}

// TestZip checks that a zip file contains modes and dates, and that two runs write the same bytes.
func TestZip(t *testing.T) {
	r := &release{date: time.Unix(1_700_000_000, 0).UTC()}
	entries := []entry{{name: "a/", mode: 0o755}, {name: "a/b.exe", body: []byte("x"), mode: 0o755}}
	var one, two bytes.Buffer
	if err := r.zip(&one, entries); err != nil {
		t.Fatal(err)
	}
	if err := r.zip(&two, entries); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Errorf("two runs differ: %v", err)
	}
	z, err := zip.NewReader(bytes.NewReader(one.Bytes()), int64(one.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if len(z.File) != 2 || z.File[0].Mode() != fs.ModeDir|0o755 || z.File[1].Mode() != 0o755 || !z.File[1].Modified.Equal(r.date) {
		t.Errorf("%+v", z.File)
	}
}

// TestVersions checks that versions matches only the versions that deb, rpm, npm and image tags
// support.
func TestVersions(t *testing.T) {
	for v, want := range map[string]bool{"1.2.3": true, "0.0.0-dev": true, "1.2.3-rc.1": true, "1.2": false, "v1.2.3": false, "1.2.3+x": false, "1.2.3-a_b": false, "": false} {
		if versions.MatchString(v) != want {
			t.Errorf("%q: want %t", v, want)
		}
	}
}

// TestClear checks that clear removes the results of an earlier run, but refuses a folder with
// other files.
func TestClear(t *testing.T) {
	r := &release{dist: filepath.Join(t.TempDir(), "dist")}
	if err := r.clear(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]bool{"dragoman_1.2.3_linux_amd64.tar.gz": true, "SHA256SUMS": true, "thesis.tex": false} {
		if err := os.MkdirAll(r.dist, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.dist, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		err := r.clear()
		if _, e := os.Stat(r.dist); (err == nil) != want || os.IsNotExist(e) != want {
			t.Errorf("%s: %v, %v", name, err, e)
		}
		if err := os.RemoveAll(r.dist); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWorkflows checks the files in .github: actions are pinned by commit, the checks run
// .ci/run, a release is built with make release, and the form for bugs names the right
// commands.
func TestWorkflows(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("..", "..", ".github", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	checks, making, form := read("workflows/checks.yml"), read("workflows/release.yml"), read("ISSUE_TEMPLATE/bug.yml")
	for _, m := range regexp.MustCompile(`uses: (\S+)`).FindAllStringSubmatch(checks+making, -1) {
		if !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(m[1]) {
			t.Errorf("%s is not pinned by commit", m[1])
		}
	}
	for _, want := range []struct{ in, text string }{{checks, "run: .ci/run\n"}, {making, "run: .ci/run\n"}, {making, "run: make release\n"}, {making, "dist/SHA256SUMS"}, {form, "`dragoman bug -o report.md`"}} {
		if !strings.Contains(want.in, want.text) {
			t.Errorf("%q is missing", want.text)
		}
	}
}
