//go:build unix

package httpdoor

import "syscall"

// push writes as much of b as the kernel takes without waiting, and returns how much that was. An error
// shows in the next Write.
func (c *conn) push(b []byte) (sent int) {
	if c.raw == nil {
		inner, ok := c.Conn.(syscall.Conn)
		if !ok {
			return 0
		}
		raw, err := inner.SyscallConn()
		if err != nil {
			return 0
		}
		c.raw = raw
	}
	_ = c.raw.Write(func(fd uintptr) bool {
		for sent < len(b) {
			n, err := syscall.Write(int(fd), b[sent:])
			if n > 0 {
				sent += n
			}
			if err != nil && err != syscall.EINTR {
				break
			}
		}
		return true
	})
	return sent
}
