package files

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	r := open(t, Options{})
	var out writeOut
	r.OK("write_file", args{"path": "new/sub/a.txt", "content": "one\n"}, &out)
	if !out.Created || out.Size != 4 || out.Undo != nil || r.content("new/sub/a.txt") != "one\n" {
		t.Errorf("%+v", out)
	}
	if err := os.Chmod(r.path("new/sub/a.txt"), 0o640); err != nil {
		t.Fatal(err)
	}
	first := out.Version
	r.OK("write_file", args{"path": "new/sub/a.txt", "content": "two", "if_version": metadataVersion(r, "new/sub/a.txt")}, &out)
	if out.Created || out.Undo == nil || r.content("new/sub/a.txt") != "two" || r.content(out.Undo.Path) != "one\n" {
		t.Fatalf("%+v", out)
	}
	if fi, err := os.Stat(r.path("new/sub/a.txt")); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o640 {
		t.Errorf("the permissions are %v %v", fi.Mode(), err)
	}
	r.Refused("write_file", args{"path": "new/sub/a.txt", "content": "", "if_version": first}, "changed since")
	r.Refused("write_file", args{"path": "none", "content": "", "if_version": first}, "does not exist any more")
	r.Refused("write_file", args{"path": "new/sub/a.txt", "content": "", "overwrite": false}, "exists already")
	r.OK("write_file", args{"path": "fresh", "content": "x", "overwrite": false}, nil)
	r.OK("write_file", args{"path": "new/sub/a.txt", "content": "three", "append": true}, &out)
	if r.content("new/sub/a.txt") != "twothree" || out.Size != 8 {
		t.Errorf("after append: %q %+v", r.content("new/sub/a.txt"), out)
	}
	r.OK("write_file", args{"path": "bytes", "content": base64.StdEncoding.EncodeToString([]byte("\x00\xff")), "encoding": "base64"}, nil)
	if r.content("bytes") != "\x00\xff" {
		t.Errorf("%q", r.content("bytes"))
	}
	r.Refused("write_file", args{"path": "bytes", "content": "?", "encoding": "base64"}, "not base64")
	r.Refused("write_file", args{"path": "new", "content": ""}, "is a folder")
	r.Refused("write_file", args{"path": ".", "content": ""}, "is a root")
	r.Refused("write_file", args{"path": "fresh/x", "content": ""}, "not a folder")
	r.Refused("write_file", args{"path": undoFolder + "/x", "content": ""}, "in the undo folder")
	r.noTemps()
}

func metadataVersion(r *rig, path string) string {
	var m metadataOut
	r.OK("get_metadata", args{"path": path}, &m)
	return m.Version
}

// TestWriteKeepsEncoding replaces files and reads the raw bytes.
func TestWriteKeepsEncoding(t *testing.T) {
	r := open(t, Options{})
	for _, test := range []struct {
		old, content, encoding, newlines, want string
	}{
		{"old\n", "a\nb\n", "", "", "a\nb\n"},
		{"old\r\n", "a\nb\n", "", "", "a\r\nb\r\n"},
		{"old\r\n", "a\nb\n", "", "as_is", "a\nb\n"},
		{"old\r\n", "a\r\nb\n", "", "", "a\r\nb\n"},
		{"old\r\nx\n", "a\nb\n", "", "", "a\nb\n"},
		{"\xef\xbb\xbfold", "grün", "", "", "\xef\xbb\xbfgrün"},
		{utf16of("old\r\n", utf16Less), "a\n😀", "", "", utf16of("a\r\n😀", utf16Less)},
		{utf16of("old", utf16More), "漢", "keep", "", utf16of("漢", utf16More)},
		{utf16of("old", utf16More), "漢", utf8Plain, "", "漢"},
		{"old", "漢", utf16Less, "", utf16of("漢", utf16Less)},
		{"old", "漢", utf8Marked, "", "\xef\xbb\xbf漢"},
		{"\x00binary", "text", "", "", "text"},
		{"", "text", "", "", "text"},
	} {
		r.put("f", test.old)
		a := args{"path": "f", "content": test.content}
		if test.encoding != "" {
			a["encoding"] = test.encoding
		}
		if test.newlines != "" {
			a["newlines"] = test.newlines
		}
		r.OK("write_file", a, nil)
		if got := r.content("f"); got != test.want {
			t.Errorf("%q over %q: %q, want %q", test.content, test.old, got, test.want)
		}
	}
	r.put("f", utf16of("one\r\n", utf16Less))
	r.OK("write_file", args{"path": "f", "content": "two\n", "append": true}, nil)
	if got := r.content("f"); got != utf16of("one\r\ntwo\r\n", utf16Less) {
		t.Errorf("after append: %q", got)
	}
	r.Refused("write_file", args{"path": "f", "content": "x", "append": true, "encoding": utf8Plain}, "is not utf-8, so text in utf-8 cannot be appended")
}

// TestWriteThroughSymlink writes to the target of a symlink and keeps the symlink.
func TestWriteThroughSymlink(t *testing.T) {
	r := open(t, Options{})
	r.put("real/a.txt", "old")
	if err := os.Symlink("real", r.path("dir")); err != nil {
		skipUnsupported(t, "this system makes no symlinks", err)
	}
	if err := os.Symlink("../dir/a.txt", r.path("real/link")); err != nil {
		t.Fatal(err)
	}
	r.OK("write_file", args{"path": "dir/link", "content": "new"}, nil)
	if fi, err := os.Lstat(r.path("real/link")); err != nil || fi.Mode()&fs.ModeSymlink == 0 || r.content("real/a.txt") != "new" {
		t.Errorf("%v %v %q", fi, err, r.content("real/a.txt"))
	}
	r.OK("delete_file", args{"path": "dir/link"}, nil)
	if r.content("real/a.txt") != "new" {
		t.Error("delete_file deleted the target of a symlink")
	}
}

func TestMoveAndCopy(t *testing.T) {
	r := open(t, Options{})
	r.put("a", "A")
	r.put("b", "B")
	r.put("dir/x/y", "Y")
	var moved moveOut
	r.Refused("move_file", args{"source": "a", "destination": "b"}, "exists already")
	r.Refused("copy_file", args{"source": "a", "destination": "b"}, "exists already")
	r.Refused("move_file", args{"source": "a", "destination": "dir"}, "is a folder")
	r.Refused("move_file", args{"source": "dir", "destination": "dir/x/z"}, "is inside")
	r.Refused("copy_file", args{"source": "dir", "destination": "dir/z"}, "is inside")
	r.Refused("move_file", args{"source": "dir", "destination": "a", "overwrite": true}, "a folder cannot replace it")
	r.Refused("move_file", args{"source": "a", "destination": "a"}, "both")
	r.Refused("move_file", args{"source": "none", "destination": "c"}, "does not exist")
	r.OK("move_file", args{"source": "a", "destination": "b", "overwrite": true}, &moved)
	if moved.Replaced == nil || r.content("b") != "A" || r.content(moved.Replaced.Path) != "B" || r.content("a") != "" {
		t.Fatalf("%+v", moved)
	}
	r.OK("move_file", args{"source": moved.Replaced.Path, "destination": "b", "overwrite": true}, &moved)
	if r.content("b") != "B" || r.content(moved.Replaced.Path) != "A" {
		t.Errorf("after the undo: %q %+v", r.content("b"), moved)
	}
	r.OK("move_file", args{"source": "dir", "destination": "new/dir"}, nil)
	if r.content("new/dir/x/y") != "Y" {
		t.Error("the folder did not move")
	}
	var copied copyOut
	r.OK("copy_file", args{"source": "new/dir", "destination": "copy"}, &copied)
	if r.content("copy/x/y") != "Y" || r.content("new/dir/x/y") != "Y" || copied.Entries != 3 || copied.Bytes != 1 {
		t.Errorf("%+v", copied)
	}
	r.Refused("copy_file", args{"source": "new/dir", "destination": "copy"}, "is a folder")
	r.OK("copy_file", args{"source": "b", "destination": "copy/x/y", "overwrite": true}, &copied)
	if r.content("copy/x/y") != "B" || copied.Replaced == nil || r.content(copied.Replaced.Path) != "Y" {
		t.Errorf("%+v", copied)
	}
	if err := os.Symlink("b", r.path("link")); err == nil {
		r.OK("move_file", args{"source": "link", "destination": "link2"}, nil)
		if target, err := os.Readlink(r.path("link2")); err != nil || target != "b" {
			t.Errorf("the symlink: %q %v", target, err)
		}
		r.OK("copy_file", args{"source": "link2", "destination": "b2"}, nil)
		if fi, err := os.Lstat(r.path("b2")); err != nil || !fi.Mode().IsRegular() {
			t.Errorf("the copy of a symlink: %v %v", fi, err)
		}
		r.Refused("copy_file", args{"source": "link2", "destination": "b"}, "b")
	}
	r.noTemps()
}

func TestDeleteAndUndo(t *testing.T) {
	r := open(t, Options{})
	r.put("a", "A")
	r.put("dir/x/y", "Y")
	var out deleteOut
	r.OK("delete_file", args{"path": "a"}, &out)
	if out.Undo == nil || r.content("a") != "" || r.content(out.Undo.Path) != "A" || !strings.Contains(out.Undo.How, `destination "a"`) {
		t.Fatalf("%+v", out)
	}
	r.OK("move_file", args{"source": out.Undo.Path, "destination": "a", "overwrite": true}, nil)
	if r.content("a") != "A" {
		t.Error("the file is not back")
	}
	if left := undoEntries(r); len(left) != 0 {
		t.Errorf("the undo folder has %v", left)
	}
	r.Refused("delete_file", args{"path": "dir"}, "not empty")
	r.OK("delete_file", args{"path": "dir", "recursive": true}, &out)
	if r.content(out.Undo.Path+"/x/y") != "Y" {
		t.Errorf("%+v", out)
	}
	r.Refused("delete_file", args{"path": out.Undo.Path}, "undo folder")
	r.OK("delete_file", args{"path": out.Undo.Path, "recursive": true, "permanent": true}, nil)
	out = deleteOut{}
	r.OK("delete_file", args{"path": "a", "permanent": true}, &out)
	if out.Undo != nil || r.content("a") != "" {
		t.Errorf("%+v", out)
	}
	r.Refused("delete_file", args{"path": "."}, "is a root")
	r.Refused("delete_file", args{"path": "none"}, "does not exist")
	var list listOut
	r.OK("list_dir", args{}, &list)
	if len(list.Entries) != 0 {
		t.Errorf("the root has %+v", list.Entries)
	}
}

func undoEntries(r *rig) (names []string) {
	entries, _ := os.ReadDir(r.path(undoFolder))
	for _, e := range entries {
		if _, _, ok := keptEntry(e.Name()); ok {
			files, _ := os.ReadDir(r.path(undoFolder + "/" + e.Name()))
			if len(files) > 0 {
				names = append(names, e.Name())
			} else {
				r.T.Errorf("%s is empty", e.Name())
			}
		}
	}
	return names
}

// TestUndoBounds fills the undo folder beyond each of its bounds.
func TestUndoBounds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	r := openWith(t, Options{Undo: Undo{Size: 100, Entries: 5, Age: time.Hour}}, func(s *Server) {
		s.now = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(time.Second)
			return now
		}
	})
	size := func() (total int64) {
		for _, n := range undoEntries(r) {
			_, size, _ := keptEntry(n)
			total += size
		}
		return total
	}
	for i := range 10 {
		name := fmt.Sprintf("f%d", i)
		r.put(name, strings.Repeat("x", 30))
		r.OK("delete_file", args{"path": name}, nil)
		if n := size(); n > 100 || n < 30 {
			t.Fatalf("%d bytes are kept", n)
		}
	}
	for i := range 10 {
		name := fmt.Sprintf("f%d", i)
		r.put(name, "x")
		r.OK("delete_file", args{"path": name}, nil)
	}
	if n := len(undoEntries(r)); n != 5 {
		t.Errorf("%d entries are kept", n)
	}
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	r.put("last", "x")
	r.OK("delete_file", args{"path": "last"}, nil)
	if n := len(undoEntries(r)); n != 1 {
		t.Errorf("%d entries are kept after two hours", n)
	}
	r.put("big", strings.Repeat("x", 101))
	r.Refused("delete_file", args{"path": "big"}, "permanent")
	r.Refused("write_file", args{"path": "big", "content": ""}, "permanent")
	r.OK("write_file", args{"path": "big", "content": "small", "permanent": true}, nil)
	r.OK("delete_file", args{"path": "big"}, nil)
	r.noTemps()
}

func TestNoUndo(t *testing.T) {
	r := openWith(t, Options{}, func(s *Server) { s.o.Undo = Undo{} })
	r.put("a", "A")
	var out writeOut
	r.OK("write_file", args{"path": "a", "content": "B"}, &out)
	r.OK("delete_file", args{"path": "a"}, nil)
	if _, err := os.Stat(r.path(undoFolder)); err == nil || out.Undo != nil {
		t.Error("something was kept")
	}
}

// full is a writer that fails with the error of a full disk after left bytes.
type full struct {
	w    io.Writer
	left int
}

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n, _ := f.w.Write(p[:f.left])
		f.left = 0
		return n, &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	}
	f.left -= len(p)
	return f.w.Write(p)
}

// TestDiskFull fails each write after some bytes. No file may be half written.
func TestDiskFull(t *testing.T) {
	left := 0
	r := openWith(t, Options{}, func(s *Server) {
		s.filling = func(w io.Writer) io.Writer { return &full{w, left} }
	})
	r.put("old", "old content")
	r.put("dir/one", "1234567890")
	r.put("dir/two", "1234567890")
	for left = range 8 {
		for _, a := range []struct {
			name string
			args args
		}{
			{"write_file", args{"path": "old", "content": "123456789"}},
			{"write_file", args{"path": "new", "content": "123456789"}},
			{"write_file", args{"path": "old", "content": "123456789", "append": true}},
			{"copy_file", args{"source": "old", "destination": "copy"}},
			{"copy_file", args{"source": "dir/one", "destination": "old", "overwrite": true}},
			{"copy_file", args{"source": "dir", "destination": "copy"}},
		} {
			r.Refused(a.name, a.args, "disk is full")
			if r.content("old") != "old content" || r.content("new") != "" || r.content("dir/one") != "1234567890" {
				t.Errorf("%s %v changed something", a.name, a.args)
			}
			if _, err := os.Lstat(r.path("copy")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s %v left a copy", a.name, a.args)
			}
		}
	}
	r.noTemps()
	if left := undoEntries(r); len(left) != 0 {
		t.Errorf("the undo folder has %v", left)
	}
}

// TestKeepOnFullDisk deletes files while the disk has no room for another entry in the undo folder.
func TestKeepOnFullDisk(t *testing.T) {
	r := open(t, Options{})
	for _, name := range []string{"a", "b", "c"} {
		r.put(name, name)
	}
	r.OK("delete_file", args{"path": "a"}, nil)
	r.OK("delete_file", args{"path": "b"}, nil)
	r.s.keeping = func() error {
		if len(undoEntries(r)) > 1 {
			return syscall.ENOSPC
		}
		return nil
	}
	var out deleteOut
	r.OK("delete_file", args{"path": "c"}, &out)
	if left := undoEntries(r); len(left) != 2 || r.content(out.Undo.Path) != "c" {
		t.Errorf("the undo folder has %v", left)
	}
	r.put("d", "D")
	r.s.keeping = func() error { return syscall.ENOSPC }
	r.Refused("delete_file", args{"path": "d"}, "disk is full")
	if text, _ := r.Call("delete_file", args{"path": "d"}, nil); !strings.Contains(text, "set permanent to true") {
		t.Errorf("the error has no next step: %s", text)
	}
	if r.content("d") != "D" {
		t.Error("the file is gone")
	}
	r.OK("delete_file", args{"path": "d", "permanent": true}, nil)
}

func TestAppendOddBytes(t *testing.T) {
	r := open(t, Options{})
	text := utf16of("text", utf16Less)
	r.put("f", text)
	r.Refused("write_file", args{"path": "f", "content": "YQ==", "encoding": "base64", "append": true}, "is UTF-16")
	r.OK("write_file", args{"path": "f", "content": "YQA=", "encoding": "base64", "append": true}, nil)
	if r.content("f") != text+"a\x00" {
		t.Errorf("the file has %q", r.content("f"))
	}
}

// TestRootGone deletes the root of a running server.
func TestRootGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := open(t, Options{Roots: []string{dir}})
	r.Refused("read_file", args{"path": "f"}, "does not exist. ")
	if err := os.Remove(dir); err != nil {
		skipUnsupported(t, "this system does not delete an open folder", err)
	}
	for name, a := range map[string]args{
		"read_file": {"path": "f"}, "write_file": {"path": "f", "content": "x"}, "search_files": {"pattern": "x"}, "watch_folder": {},
	} {
		text, failed := r.Call(name, a, nil)
		if failed && !strings.Contains(text, "does not exist any more") {
			t.Errorf("%s: %s", name, text)
		}
	}
	r.Refused("write_file", args{"path": "f", "content": "x"}, "does not exist any more")
}
