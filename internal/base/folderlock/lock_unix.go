//go:build unix

package folderlock

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryLock locks f, and returns errHeld if another process has the lock.
func tryLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		}
		return err
	}
}

// canLock reports whether tryLock works for an open folder. On some network file systems, only files
// that are open for writing can be locked, and no folder can.
func canLock(dir *os.File) bool {
	err := tryLock(dir)
	return err == nil || errors.Is(err, errHeld)
}

// folderID returns a name for an open folder that no other folder of this machine has.
func folderID(dir *os.File) (string, error) {
	fi, err := dir.Stat()
	if err != nil {
		return "", err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.ErrUnsupported
	}
	return fmt.Sprintf("%x-%x", st.Dev, st.Ino), nil
}
