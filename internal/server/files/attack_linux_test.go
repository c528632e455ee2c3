package files

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// makeDevice makes a device like /dev/zero, if the system allows it.
func makeDevice(path string) { _ = unix.Mknod(path, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) }

// TestAttackFullDisk fills a small file system.
func TestAttackFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		skipUnsupported(t, "only an administrator can mount a file system", err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	func() {
		s, err := Open(Options{Roots: []string{dir}, Undo: Undo{Size: 1 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		content := strings.Repeat("0123456789abcdef", 6<<10) // 96 KiB
		write := func(path, content string, add bool) error {
			_, _, err := s.write(t.Context(), nil, writeIn{Path: path, Content: content, Append: add})
			return err
		}
		if err := write("a", content, false); err != nil {
			t.Fatal(err)
		}
		if err := write("b", content, false); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{
			write("a", content[1:], false), write("c", content, false), write("b", content, true),
		} {
			if err == nil || !strings.Contains(err.Error(), "disk is full") {
				t.Errorf("the error is %v", err)
			}
		}
		if _, _, err := s.copy(t.Context(), noRequest(), copyIn{Source: "a", Destination: "c"}); err == nil || !strings.Contains(err.Error(), "disk is full") {
			t.Errorf("copy_file: %v", err)
		}
		for _, name := range []string{"a", "b"} {
			if b, err := os.ReadFile(dir + "/" + name); err != nil || string(b) != content {
				t.Errorf("%s has %d bytes, %v", name, len(b), err)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "a" && e.Name() != "b" && e.Name() != undoFolder {
				t.Errorf("%s is left", e.Name())
			}
		}
		// A deletion needs no space, and it frees space.
		if _, _, err := s.delete(t.Context(), nil, deleteIn{Path: "b", Permanent: true}); err != nil {
			t.Error(err)
		}
		if err := write("a", content[1:], false); err != nil {
			t.Errorf("after the deletion: %v", err)
		}
	}()
}
