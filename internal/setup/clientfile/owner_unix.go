//go:build !windows

package clientfile

import (
	"io/fs"
	"os"
	"syscall"
)

// sameOwner gives f the owner and group of the file that f will replace, if the operating system
// allows the change.
func sameOwner(f *os.File, st fs.FileInfo) {
	if s, ok := st.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Getuid() || int(s.Gid) != os.Getgid()) {
		_ = f.Chown(int(s.Uid), int(s.Gid))
	}
}
