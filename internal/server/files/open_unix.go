//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Flags for opening files and folders. With openFile, opening a pipe does not wait for a writer,
// and opening a terminal does not make it the controlling terminal. With openFolder, the operating
// system opens only folders.
const (
	openFile   = os.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	openFolder = os.O_RDONLY | unix.O_DIRECTORY
)

func isQuota(err error) bool { return errors.Is(err, unix.EDQUOT) }

// identity returns the inode number of a file, or 0 if it is unknown. Two files that exist on one
// file system at the same time have different numbers.
func identity(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}

// keepOwner gives a new file the owner of the file that it replaces. On most systems only an
// administrator may change the owner, so keepOwner ignores errors.
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := old.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(st.Uid), int(st.Gid))
	}
}

// syncFolder writes the entries of a folder to the disk, so that they survive a crash.
func syncFolder(dir *os.Root) error {
	f, err := dir.OpenFile(".", openFolder, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err = f.Sync(); errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil // some network file systems cannot sync a folder
	}
	return err
}

func isCrossDevice(err error) bool { return errors.Is(err, unix.EXDEV) }
