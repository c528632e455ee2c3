package clientfile

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
// nothing, and that Disconnect removes the entry. It does the same with moved and wrapped entries.
func checkConnected(t *testing.T, c *Client, path string, before, after []byte, entry Entry) {
	t.Helper()
	checkMoved(t, c, path, before, entry)
	checkWrapped(t, c, path, before, entry)
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
		back, err := Disconnect(c, History{path, after, earlier}, Undo{Entry: entry.Name}, ourAddresses)
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
	if back, err := Disconnect(c, History{path, other, nil}, Undo{Entry: entry.Name}, ourAddresses); err != nil || !bytes.Equal(back, before) {
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

// touched returns a file after a change by another program.
func touched(t *testing.T, path string, b []byte) []byte {
	t.Helper()
	out, err := setJSON(path, b, []string{"zzz"}, Text("by another program"))
	if IsTOML(path) {
		out, err = append(bytes.Clone(b), "\n[zzz]\n"...), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkMoved moves one entry, connects, moves all others, and takes all of it back.
func checkMoved(t *testing.T, c *Client, path string, before []byte, entry Entry) {
	t.Helper()
	root, err := Parse(path, before)
	if err != nil {
		t.Fatal(err)
	}
	paths := c.entries(root)
	kept, now := []byte(nil), before
	var versions [][]byte
	for _, part := range [][][]string{paths[:1], paths[1:]} {
		versions = append([][]byte{now}, versions...)
		if kept, err = AddMoved(path, kept, now, part); err != nil {
			t.Fatal(err)
		}
		if now, err = Move(path, now, part); err != nil {
			t.Fatal(err)
		}
		if now, err = Connect(c, path, now, entry, ourAddresses); err != nil {
			t.Fatal(err)
		}
	}
	left, err := Parse(path, now)
	if err != nil || len(c.entries(left)) != 1 || !ours(c, left.Get(c.entries(left)[0]...), ourAddresses) {
		t.Fatalf("%v\n%s", err, now)
	}
	undo := Undo{Entry: entry.Name, Moved: kept}
	if back, err := Disconnect(c, History{path, now, versions}, undo, ourAddresses); err != nil || !bytes.Equal(back, before) {
		t.Errorf("moved and back: %v\n%s", err, cmp.Diff(string(before), string(back)))
	}
	for name, f := range map[string]History{"without a backup": {path, now, nil}, "after another change": {path, touched(t, path, now), versions}} {
		back, err := Disconnect(c, f, undo, ourAddresses)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(path, back); err != nil || !same(without(again, []string{"zzz"}), root) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(string(before), string(back)))
		}
		if lost := lostComments(before, back); len(lost) > 0 {
			t.Errorf("%s: %q are lost:\n%s", name, lost, back)
		}
	}
}

// lostComments returns the comments of before that are not in after.
func lostComments(before, after []byte) (lost []string) {
	for _, c := range regexp.MustCompile(`(?m)(//|#|/\*) .*$`).FindAllString(string(before), -1) {
		if !strings.Contains(string(after), strings.TrimRight(c, "\r")) {
			lost = append(lost, c)
		}
	}
	return lost
}

// checkWrapped wraps each entry that can be wrapped, and takes it back. Dragoman imports the same
// servers from the file as before.
func checkWrapped(t *testing.T, c *Client, path string, before []byte, entry Entry) {
	t.Helper()
	root, err := Parse(path, before)
	if err != nil {
		t.Fatal(err)
	}
	now, versions, wrapped := before, [][]byte(nil), [][]string(nil)
	for _, p := range c.entries(root) {
		if ours(c, root.Get(p...), ourAddresses) || IsWrapped(root, p) {
			continue
		}
		after, err := Wrap(c, path, now, &Server{Original: p[len(p)-1], Path: p}, "/opt/dragoman")
		if err != nil {
			continue
		}
		wrapped, versions, now = append(wrapped, p), append([][]byte{now}, versions...), after
	}
	if len(wrapped) == 0 {
		t.Fatal("nothing was wrapped")
	}
	if now, err = Connect(c, path, now, entry, ourAddresses); err != nil {
		t.Fatal(err)
	}
	versions = append([][]byte{now}, versions...)
	root2, err := Parse(path, now)
	if err != nil {
		t.Fatal(err)
	}
	strip := regexp.MustCompile(`(?m)^# [0-9:]* |^# .* needs .*\n|^ +type: .*\n`)
	was, is := imported(t, c, path, root), imported(t, c, path, without(root2, append(slices.Clone(first(c.find(root2))), entry.Name)))
	if d := cmp.Diff(strip.ReplaceAllString(was, ""), strip.ReplaceAllString(is, "")); d != "" {
		t.Errorf("the wrapped servers:\n%s\n%s", d, now)
	}
	if got := Wraps(c, History{path, now, versions}, nil); len(got) != len(wrapped) {
		t.Errorf("wrapped: %q, not %q", got, wrapped)
	}
	undo := Undo{Entry: entry.Name, Wrapped: wrapped}
	if back, err := Disconnect(c, History{path, now, versions}, undo, ourAddresses); err != nil || !bytes.Equal(back, before) {
		t.Errorf("wrapped and back: %v\n%s", err, cmp.Diff(string(before), string(back)))
	}
	back, err := Disconnect(c, History{path, touched(t, path, now), versions}, undo, ourAddresses)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse(path, back); err != nil || !same(without(again, []string{"zzz"}), root) {
		t.Errorf("wrapped, changed and back: %v\n%s", err, cmp.Diff(string(before), string(back)))
	}
	if _, err = Disconnect(c, History{path, now, nil}, undo, ourAddresses); err != nil {
		t.Errorf("without a backup: %v", err)
	}
}
