package stdio

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNearDirs checks that the search for similar program names reads only the first directories of
// PATH.
func TestNearDirs(t *testing.T) {
	root := t.TempDir()
	var dirs []string
	for i := range maxNearDirs + 3 {
		dir := filepath.Join(root, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	for i, name := range map[int]string{0: "first1", maxNearDirs - 1: "first2", maxNearDirs: "first3", maxNearDirs + 2: "first4"} {
		if err := os.WriteFile(filepath.Join(dirs[i], name+".exe"), nil, 0o700); err != nil { //nolint:gosec // a program must be executable
			t.Fatal(err)
		}
	}
	got := nearIn(strings.Join(dirs, string(filepath.ListSeparator)), "first.exe")
	if want := []string{"first1.exe", "first2.exe"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
