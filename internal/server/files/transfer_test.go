package files

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// hook is a writer that calls f before it writes the first bytes of a copy.
type hook struct {
	called *atomic.Bool
	f      func()
	io.Writer
}

func (h hook) Write(p []byte) (int, error) {
	if !h.called.Swap(true) {
		h.f()
	}
	return h.Writer.Write(p)
}

// duringCopy makes the server call f once, before its next copy writes the first bytes.
func duringCopy(s *Server, f func()) {
	called := &atomic.Bool{}
	s.filling = func(w io.Writer) io.Writer { return hook{called, f, w} }
}

// twoRoots starts a server with the roots a and b. The rig's root is a. other returns a path in b.
func twoRoots(t *testing.T) (r *rig, other func(name string) string) {
	t.Helper()
	base := t.TempDir()
	for _, d := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r = open(t, Options{Roots: []string{filepath.Join(base, "a"), filepath.Join(base, "b")}})
	return r, func(name string) string { return filepath.Join(base, "b", filepath.FromSlash(name)) }
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func TestRootsApart(t *testing.T) {
	base := t.TempDir()
	inner := filepath.Join(base, "x", "sub")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	outer := filepath.Dir(inner)
	for _, roots := range [][]string{{outer, inner}, {inner, outer}, {base, filepath.Join(base, "x"), inner}} {
		s, err := Open(Options{Roots: roots})
		if err == nil {
			_ = s.Close()
			t.Fatalf("%q was opened", roots)
		}
		if !strings.Contains(err.Error(), "is inside") || !strings.Contains(err.Error(), "must not contain each other") {
			t.Errorf("%q: %v", roots, err)
		}
	}
}

// TestMoveSameEntry moves an entry to a path that names the same entry.
func TestMoveSameEntry(t *testing.T) {
	r := open(t, Options{})
	r.put("a", "A")
	r.put("dir/x", "X")
	if err := os.Link(r.path("a"), r.path("b")); err != nil {
		skipUnsupported(t, "this file system has no hard links", err)
	}
	for _, apart := range []bool{false, true} {
		r.s.apart = apart
		for _, overwrite := range []bool{false, true} {
			r.Refused("move_file", args{"source": "a", "destination": "b", "overwrite": overwrite}, "two names of the same file")
			r.Refused("copy_file", args{"source": "a", "destination": "b", "overwrite": overwrite}, "two names of the same file")
		}
	}
	if r.content("a") != "A" || r.content("b") != "A" {
		t.Error("a refused move changed something")
	}
	r.s.apart = false
	// On a file system that ignores case, dir/X is another spelling of dir/x. On other file
	// systems, it is a new name.
	r.OK("move_file", args{"source": "dir/x", "destination": "dir/X"}, nil)
	names, err := os.ReadDir(r.path("dir"))
	if err != nil || len(names) != 1 || names[0].Name() != "X" {
		t.Errorf("%v %v", names, err)
	}
}

func TestMoveAcross(t *testing.T) {
	r, other := twoRoots(t)
	r.put("f", "F")
	r.put("dir/x/y", "Y")
	r.put("dir/"+undoFolder+"/kept", "kept")
	if err := os.WriteFile(other("g"), []byte("G"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Refused("move_file", args{"source": "a/f", "destination": "b/g"}, "exists already")
	var out moveOut
	r.OK("move_file", args{"source": "a/f", "destination": "b/g", "overwrite": true}, &out)
	if out.Replaced == nil || out.RemainingCount != 0 || read(t, other("g")) != "F" || r.content("f") != "" {
		t.Fatalf("%+v", out)
	}
	if kept := read(t, other(strings.TrimPrefix(out.Replaced.Path, "b/"))); kept != "G" {
		t.Errorf("the undo folder has %q", kept)
	}
	out = moveOut{}
	r.OK("move_file", args{"source": "a/dir", "destination": "b/new/dir"}, &out)
	if read(t, other("new/dir/x/y")) != "Y" || read(t, other("new/dir/"+undoFolder+"/kept")) != "kept" {
		t.Error("the move lost something")
	}
	if _, err := os.Lstat(r.path("dir")); !os.IsNotExist(err) {
		t.Errorf("the source still exists: %v", err)
	}
	r.noTemps()
}

// TestMoveAcrossDuringWrites writes into the source of a move while the server copies it. The
// writes end before the move ends, and no bytes are lost.
func TestMoveAcrossDuringWrites(t *testing.T) {
	r, other := twoRoots(t)
	for _, name := range []string{"dir/a", "dir/sub/b", "dir/sub/c"} {
		r.put(name, "old")
	}
	done := make(chan string, 3)
	duringCopy(r.s, func() {
		for _, name := range []string{"a/dir/new", "a/dir/sub/b", "b/unrelated"} {
			_, _, err := r.s.write(t.Context(), nil, writeIn{Path: name, Content: "acknowledged"})
			if err != nil {
				done <- err.Error()
			} else {
				done <- ""
			}
		}
	})
	var out moveOut
	r.OK("move_file", args{"source": "a/dir", "destination": "b/dir"}, &out)
	for range 3 {
		if failed := <-done; failed != "" {
			t.Error(failed)
		}
	}
	if r.content("dir/new") != "acknowledged" && read(t, other("dir/new")) != "acknowledged" {
		t.Error("the new file is lost")
	}
	if r.content("dir/sub/b") != "acknowledged" && read(t, other("dir/sub/b")) != "acknowledged" {
		t.Error("the changed file is lost")
	}
	if read(t, other("dir/a")) != "old" || read(t, other("dir/sub/c")) != "old" || r.content("dir/a")+r.content("dir/sub/c") != "" {
		t.Error("the unchanged files did not move")
	}
	for _, name := range out.Remaining {
		if !slices.Contains([]string{"a/dir/new", "a/dir/sub/b"}, name) || read(t, r.path(strings.TrimPrefix(name, "a/"))) != "acknowledged" {
			t.Errorf("remaining: %q", out.Remaining)
		}
	}
	if len(out.Remaining) == 0 || out.RemainingCount != len(out.Remaining) {
		t.Errorf("%+v", out)
	}
}

// TestMoveAcrossReadOnlyFolder moves a folder from which a file cannot be removed. The error says
// that the copy is complete, but only if the source did not change.
func TestMoveAcrossReadOnlyFolder(t *testing.T) {
	if os.Getuid() <= 0 {
		t.Skip("the permissions of a folder do not stop this user")
	}
	for want, during := range map[string]func(r *rig){
		"the copy is complete":               func(*rig) {},
		"the source changed during the move": func(r *rig) { r.put("dir/new", "new") },
	} {
		r, other := twoRoots(t)
		r.put("dir/a", "A")
		r.put("dir/sub/b", "B")
		for _, sub := range []string{r.path("dir/sub"), other("dir/sub")} {
			t.Cleanup(func() { _ = os.Chmod(sub, 0o755) })
		}
		if err := os.Chmod(r.path("dir/sub"), 0o555); err != nil {
			t.Fatal(err)
		}
		duringCopy(r.s, func() { during(r) })
		r.Refused("move_file", args{"source": "a/dir", "destination": "b/dir"}, want)
		if read(t, other("dir/a")) != "A" || read(t, other("dir/sub/b")) != "B" || r.content("dir/sub/b") != "B" {
			t.Errorf("%s: the copy or the rest of the source is wrong", want)
		}
	}
}

// TestMoveAcrossChangedFile changes the only file of a move while the server copies it.
func TestMoveAcrossChangedFile(t *testing.T) {
	r := openWith(t, Options{}, func(s *Server) { s.apart = true })
	r.put("f", "old")
	duringCopy(r.s, func() { r.put("f", "newer") })
	r.Refused("move_file", args{"source": "f", "destination": "made/g"}, "changed during the move")
	if r.content("f") != "newer" {
		t.Errorf("the file has %q", r.content("f"))
	}
	if _, err := os.Lstat(r.path("made")); !os.IsNotExist(err) {
		t.Errorf("a refused move left a folder: %v", err)
	}
	r.noTemps()
	r.OK("move_file", args{"source": "f", "destination": "made/g"}, nil)
	if r.content("made/g") != "newer" || r.content("f") != "" {
		t.Error("the file did not move")
	}
}

// TestCopyOntoNewFile creates the destination of a copy while the server copies the source.
func TestCopyOntoNewFile(t *testing.T) {
	r := open(t, Options{})
	r.put("f", "F")
	duringCopy(r.s, func() { r.put("g", "appeared") })
	var out copyOut
	r.OK("copy_file", args{"source": "f", "destination": "g", "overwrite": true}, &out)
	if r.content("g") != "F" || out.Replaced == nil || r.content(out.Replaced.Path) != "appeared" {
		t.Errorf("%+v", out)
	}
	duringCopy(r.s, func() { r.put("h", "appeared") })
	r.Refused("copy_file", args{"source": "f", "destination": "h"}, "exists already")
	if r.content("h") != "appeared" {
		t.Errorf("the file has %q", r.content("h"))
	}
	r.noTemps()
}

func TestMoveUndoFolder(t *testing.T) {
	r := open(t, Options{})
	r.put("f", "F")
	r.OK("delete_file", args{"path": "f"}, nil)
	r.Refused("move_file", args{"source": undoFolder, "destination": "stolen"}, "is the undo folder")
}

// TestCopyUndoFolder copies a folder that contains an undo folder, and then a whole root. A call
// can copy a whole root only through a symlink. The copy of the root leaves out the root's own undo
// folder.
func TestCopyUndoFolder(t *testing.T) {
	r, other := twoRoots(t)
	r.put("dir/"+undoFolder+"/kept", "kept")
	r.put(undoFolder+"/kept", "kept")
	var out copyOut
	r.OK("copy_file", args{"source": "a/dir", "destination": "b/dir"}, &out)
	if read(t, other("dir/"+undoFolder+"/kept")) != "kept" || out.Skipped != 0 {
		t.Errorf("%+v", out)
	}
	if err := os.Symlink(".", r.path("self")); err != nil {
		skipUnsupported(t, "this system makes no symlinks", err)
	}
	out = copyOut{}
	r.OK("copy_file", args{"source": "a/self", "destination": "b/root"}, &out)
	if _, err := os.Lstat(other("root/" + undoFolder)); !os.IsNotExist(err) || out.Skipped != 1 {
		t.Errorf("%+v %v", out, err)
	}
}

// TestRefusedLeavesNoFolders checks that a refused call does not create the missing folders of its
// destination.
func TestRefusedLeavesNoFolders(t *testing.T) {
	r := open(t, Options{Undo: Undo{Size: 10}})
	r.put("dir/x", "X")
	r.put("f", "F")
	r.Refused("write_file", args{"path": "made/by/write", "content": "x", "if_version": "1"}, "does not exist any more")
	r.Refused("move_file", args{"source": "dir", "destination": "made/by/move/" + strings.Repeat("x", 300)}, "too long")
	r.Refused("copy_file", args{"source": "f", "destination": "made/by/copy/" + strings.Repeat("x", 300)}, "too long")
	if _, err := os.Lstat(r.path("made")); !os.IsNotExist(err) {
		t.Errorf("a refused call left a folder: %v", err)
	}
}
