package files

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// listAll reads the whole list of a folder in pages. It returns the names and the number of pages.
func listAll(r *rig, path string, limit int) (names []string, pages int) {
	r.T.Helper()
	cursor := ""
	for {
		var out listOut
		r.OK("list_dir", args{"path": path, "limit": limit, "cursor": cursor}, &out)
		for _, e := range out.Entries {
			names = append(names, e.Name)
		}
		if pages++; out.NextCursor == "" {
			return names, pages
		}
		cursor = out.NextCursor
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	var want []string
	for i := range 57 {
		name := fmt.Sprintf("f%03d", (i*31)%57)
		r.put(name, strings.Repeat("x", i))
		want = append(want, name)
	}
	r.put(".hidden", "")
	r.put("sub/in", "")
	want = append(want, "sub")
	slices.Sort(want)
	for _, limit := range []int{1, 2, 7, 57, 58, 100} {
		if got, _ := listAll(r, ".", limit); !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %v", limit, got)
		}
	}
	var out listOut
	r.OK("list_dir", args{"hidden": true}, &out)
	if out.Total != 59 || out.Entries[0].Name != ".hidden" {
		t.Errorf("with hidden names: %d entries, first %+v", out.Total, out.Entries[0])
	}
	r.Refused("list_dir", args{"path": "f000"}, "not a folder")
	r.Refused("list_dir", args{"path": "none"}, "does not exist")
	r.Refused("list_dir", args{"cursor": "!"}, "did not return the cursor")
}

func TestListOddNames(t *testing.T) {
	r := open(t, Options{})
	if err := os.WriteFile(r.path("bad\xff"), nil, 0o600); err != nil {
		t.Skip("the file system accepts only names in UTF-8: ", err)
	}
	r.put("a\nb", "")
	if err := os.Symlink("a\nb", r.path("link")); err != nil {
		skipUnsupported(t, "this system makes no symlinks", err)
	}
	var out listOut
	r.OK("list_dir", args{}, &out)
	if len(out.Entries) != 3 || out.Entries[0].Name != "a\nb" || !out.Entries[1].Unusable || out.Entries[2].Target != "a\nb" {
		t.Errorf("%+v", out.Entries)
	}
	r.OK("read_file", args{"path": "a\nb"}, nil)
}

// TestListLarge lists a large folder in pages: 5000 entries, or 100,000 with `make attack`.
func TestListLarge(t *testing.T) {
	t.Parallel()
	n := 5000
	if attack() {
		n = 100_000
	}
	r := open(t, Options{})
	for i := range n {
		f, err := os.Create(r.path(fmt.Sprintf("%06d", i)))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	names, pages := listAll(r, ".", pageMost)
	if len(names) != n || !slices.IsSorted(names) || pages != (n+pageMost-1)/pageMost {
		t.Errorf("%d names in %d pages", len(names), pages)
	}
	if len(slices.Compact(names)) != n {
		t.Error("some names came twice")
	}
	var found searchOut
	r.OK("search_files", args{"pattern": "??499?"}, &found)
	if want := max(10, n/1000); len(found.Results) != want || !found.Complete {
		t.Errorf("the search found %d", len(found.Results))
	}
}
