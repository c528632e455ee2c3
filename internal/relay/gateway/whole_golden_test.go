package gateway_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/transcript"
)

// golden compares got with the file name in testdata, and reports the lines that differ. With
// -update it writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if transcript.Update() {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	lines, wanted := strings.Split(got, "\n"), strings.Split(strings.ReplaceAll(string(want), "\r\n", "\n"), "\n")
	differ := 0
	for i := range max(len(lines), len(wanted)) {
		var a, b string
		if i < len(lines) {
			a = lines[i]
		}
		if i < len(wanted) {
			b = wanted[i]
		}
		if a != b && differ < 10 {
			differ++
			t.Errorf("%s line %d\ngot  %s\nwant %s", file, i+1, a, b)
		}
	}
}
