package httplink

import (
	"crypto/tls"
	"net"
	"os"
	"syscall"
	"time"
)

// wire is a connection to a server, with reads and writes that don't wait.
type wire struct {
	net.Conn
	raw    syscall.RawConn
	sealed bool      // it's TLS, and raw is what it runs over
	reused bool      // it has carried an exchange before
	until  time.Time // while it is idle: when it is closed

	hangUp func() // Close

	// Arguments and results of put and look, which are made once so that a call allocates nothing.
	put, look   func(fd uintptr) bool
	first, rest []byte
	n           int
	err         error
	one         [1]byte
}

func newWire(c net.Conn) (*wire, error) {
	under, sealed := c, false
	if t, ok := c.(*tls.Conn); ok {
		under, sealed = t.NetConn(), true
	}
	raw, err := under.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, raw: raw, sealed: sealed}
	w.put, w.look, w.hangUp = w.putBytes, w.lookForBytes, func() { w.Close() }
	return w, nil
}

// try writes as much of two parts as the kernel takes without waiting.
func (w *wire) try(first, rest []byte) (n int, err error) {
	switch {
	case !canLook, w.sealed && (len(rest) > 0 || len(first) > 2*joined):
		return 0, nil
	case w.sealed:
		// TLS can't write a part of a record. But a connection at rest has room for so little.
		return w.Write(first)
	}
	w.first, w.rest, w.n, w.err = first, rest, 0, nil
	if err = w.raw.Write(w.put); err == nil && w.err != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: w.LocalAddr(), Addr: w.RemoteAddr(), Err: os.NewSyscallError("write", w.err)}
	}
	w.first, w.rest = nil, nil
	return w.n, err
}

// quiet reports whether an idle connection is open and the server has sent nothing on it. A server
// that has closed the connection, or sends without a request, doesn't get another one.
func (w *wire) quiet() bool {
	return canLook && w.raw.Read(w.look) == nil && w.err == syscall.EAGAIN
}
