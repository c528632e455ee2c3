package clientfile

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

var ourAddresses = []string{"127.0.0.1:7300"}

// TestGolden reads, connects and disconnects real files of all clients. Each archive has a
// file and three results: the servers in the format of Dragoman, the settings that are not
// imported, and the file with an entry for Dragoman.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			path, before := archive.Files[0].Name, archive.Files[0].Data
			if strings.HasSuffix(file, "-project.txtar") {
				before = bytes.TrimRight(before, "\n") // the client writes no newline at the end
			}
			root, err := Parse(path, before)
			if err != nil {
				t.Fatal(err)
			}
			c := Identify(path, root)
			if c == nil {
				t.Fatal("no client")
			}
			seen[c.ID] = true
			entry := Entry{Name: "dragoman", URL: "http://127.0.0.1:7300/mcp"}
			if !c.HTTP {
				entry = Entry{Name: "dragoman", Command: []string{"/usr/local/bin/dragoman", "run", "http://127.0.0.1:7300/mcp"}}
			}
			after, err := Connect(c, path, before, entry, ourAddresses)
			if err != nil {
				t.Fatal(err)
			}
			checkConnected(t, c, path, before, after, entry)
			got := []txtar.File{{Name: "imported", Data: []byte(imported(t, c, path, root))}, {Name: "connected", Data: after}}
			if *update {
				archive.Files = append(archive.Files[:1], got...)
				if err := os.WriteFile(file, txtar.Format(archive), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			for i, f := range got {
				if i+1 >= len(archive.Files) {
					t.Fatalf("no section %s; run go test -update", f.Name)
				}
				want := archive.Files[i+1]
				if f.Name == "connected" && !bytes.HasSuffix(before, []byte("\n")) {
					want.Data = bytes.TrimRight(want.Data, "\n")
				}
				if diff := cmp.Diff(string(want.Data), string(f.Data)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", f.Name, diff)
				}
			}
		})
	}
	for _, c := range Clients() {
		if !seen[c.ID] {
			t.Errorf("no file of %s", c.Title)
		}
	}
}

// imported returns a configuration of Dragoman with the servers of a file, and all notes about
// them.
func imported(t *testing.T, c *Client, path string, root *Value) string {
	t.Helper()
	opt := Options{OS: "linux", Project: "/home/me/shop", Addresses: ourAddresses}
	owned := strings.HasSuffix(path, ".mcp.json")
	if strings.HasPrefix(path, `C:\`) {
		opt.OS, opt.Project, owned = "windows", `C:\work\shop`, true
	}
	f := Read(c, path, root, owned, opt)
	var add []Added
	var said strings.Builder
	for _, s := range f.Servers {
		switch {
		case s.Dragoman:
			fmt.Fprintf(&said, "# %s is Dragoman\n", s.Name)
		case s.Broken:
			fmt.Fprintf(&said, "# %s is not imported\n", s.Name)
		default:
			add = append(add, Added{Name: s.Name, Entry: s.Entry, Settings: s.Settings})
		}
		for _, n := range s.Notes {
			mark := "!"
			if n.Harmless {
				mark = "-"
			}
			fmt.Fprintf(&said, "# %d:%d %s %s %s\n", n.Line, n.Col, s.Name, mark, n)
		}
		for _, v := range s.Variables {
			fmt.Fprintf(&said, "# %s needs %s optional=%t %s\n", s.Name, v.Name, v.Optional, v.About)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(f.Elsewhere)) {
		fmt.Fprintf(&said, "# %d more in %s\n", f.Elsewhere[k], k)
	}
	out, err := AddServers("dragoman.yaml", nil, add)
	if err != nil {
		t.Fatal(err)
	}
	return said.String() + string(out)
}

// checkConnected checks that Connect makes a single insertion, that a second Connect changes
// nothing, and that Disconnect removes the entry.
func checkConnected(t *testing.T, c *Client, path string, before, after []byte, entry Entry) {
	t.Helper()
	again, err := Connect(c, path, after, entry, ourAddresses)
	if err != nil || !bytes.Equal(again, after) {
		t.Errorf("a second connect: %v\n%s", err, again)
	}
	root, err := Parse(path, after)
	if err != nil {
		t.Fatalf("%v\n%s", err, after)
	}
	if got := Connected(c, root, ourAddresses); !slices.Contains(got, entry.Name) {
		t.Errorf("connected: %q", got)
	}
	was, err := Parse(path, before)
	if err != nil {
		t.Fatal(err)
	}
	full := append(slices.Clone(first(c.find(root))), entry.Name)
	if !same(without(root, full), without(was, full)) {
		t.Errorf("other values changed:\n%s", after)
	}
	if lost := missingLines(before, after); len(lost) > 1 {
		t.Errorf("more than one line changed: %q", lost)
	}
	for name, earlier := range map[string][][]byte{"with a backup": {before}, "with others": {[]byte("{}"), []byte("!"), before}, "without a backup": nil} {
		back, err := Disconnect(c, History{path, after, earlier}, entry.Name, ourAddresses)
		if err != nil || !bytes.Equal(back, before) {
			t.Errorf("%s, disconnect: %v\n%s", name, err, cmp.Diff(string(before), string(back)))
		}
	}
	moved := entry
	if moved.URL != "" {
		moved.URL = "http://127.0.0.1:7300/s/files/mcp"
	} else {
		moved.Command = []string{"/opt/dragoman", "serve", "--stdio"}
	}
	other, err := Connect(c, path, after, moved, ourAddresses)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Disconnect(c, History{path, other, nil}, entry.Name, ourAddresses); err != nil || !bytes.Equal(back, before) {
		t.Errorf("after another entry: %v\n%s", err, cmp.Diff(string(before), string(back)))
	}
}

func first[A, B any](a A, _ B) A { return a }

// missingLines returns the lines of before that do not occur in after in the same order.
func missingLines(before, after []byte) []string {
	rest := splitLines(after)
	var out []string
	for _, l := range splitLines(before) {
		if i := slices.Index(rest, l); i >= 0 {
			rest = rest[i+1:]
		} else {
			out = append(out, l)
		}
	}
	return out
}
