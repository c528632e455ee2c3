//go:build unix

package stdio

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ownDescriptor returns a new descriptor for f. The descriptor is non-blocking, so that Go can poll
// it, unless this could disturb other processes. O_NONBLOCK is a property of the open file, which
// other processes may share: the shell shares its terminal, and other commands may share a pipe. So
// on Linux, ownDescriptor opens a pipe or a terminal again. On other systems, it leaves a terminal
// in blocking mode. The other end of a pipe is not affected.
func ownDescriptor(f *os.File, write bool) (*os.File, error) {
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	kind := st.Mode & unix.S_IFMT
	if reopens && (kind == unix.S_IFIFO || kind == unix.S_IFCHR) {
		mode := unix.O_RDONLY
		if write {
			mode = unix.O_WRONLY
		}
		own, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), mode|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			return os.NewFile(uintptr(own), f.Name()), nil
		}
		// The file cannot be opened again, for example because /proc does not exist, the terminal
		// belongs to another user, or the pipe has no reader.
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if kind == unix.S_IFIFO || kind == unix.S_IFSOCK {
		if err := unix.SetNonblock(own, true); err != nil {
			_ = unix.Close(own)
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	return os.NewFile(uintptr(own), f.Name()), nil
}
