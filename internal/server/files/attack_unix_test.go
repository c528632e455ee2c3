//go:build unix

package files

import (
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// pipe makes a named pipe. Opening it for reading blocks, because no program ever opens it for
// writing.
func (p *trap) pipe(path string) { _ = unix.Mkfifo(path, 0o644) }

// special makes a pipe, a socket and, for an administrator, a device.
func (p *trap) special() {
	p.pipe(filepath.Join(p.root, "pipe"))
	p.pipe(filepath.Join(p.root, "sub", "pipe"))
	if l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(p.root, "socket"), Net: "unix"}); err == nil {
		l.SetUnlinkOnClose(false)
		_ = l.Close()
	}
	makeDevice(filepath.Join(p.root, "device"))
}
