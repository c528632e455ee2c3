package netsim

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Faults configure one direction of a link. The zero value has no faults.
type Faults struct {
	// Latency is the delay before the other end can read a written byte or the end of the stream.
	Latency time.Duration
	// ChunkBytes limits the bytes that one Read returns. 0 means that a Read returns at most the
	// bytes of one Write.
	ChunkBytes int
	// DropAfterBytes resets the whole link after this many bytes were written. The other end can
	// still read these bytes. After that, both ends get ECONNRESET. 0 means that the link is never
	// reset. A negative number resets the link on the first write.
	DropAfterBytes int
	// HalfCloseAfterBytes ends this direction after this many bytes were written. The other end can
	// still read these bytes, and then gets io.EOF. Further writes get EPIPE. 0 means that the
	// direction does not end. A negative number ends the direction on the first write.
	HalfCloseAfterBytes int
}

// Options configure a link between a, the end that dials, and b, the end that accepts.
type Options struct {
	Up   Faults // the direction from a to b
	Down Faults // the direction from b to a
	// Buffer is the number of bytes that each direction holds before Write blocks; 0 means 64
	// KiB.
	Buffer int
}

// Conn is one end of a link. It implements net.Conn.
type Conn struct {
	link          *link
	in, out       *half
	local, remote net.Addr
	closed        bool     // guarded by link.mu
	read, write   deadline // guarded by link.mu
	onClose       func()
}

var _ net.Conn = (*Conn)(nil)

// link is the state shared by both ends.
type link struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
}

// half is one direction of a link.
type half struct {
	faults Faults
	buffer int
	queue  []segment
	size   int   // bytes in queue
	passed int   // bytes written so far
	end    error // io.EOF or ECONNRESET after the direction has ended, else nil
	endAt  time.Time
	unread bool // the reader has closed its end
}

type segment struct {
	data []byte
	at   time.Time // the arrival time
}

type deadline struct{ at time.Time }

// NewLink returns the two ends of a link. The caller must close both.
func NewLink(o Options) (a, b *Conn) {
	return newLink(o, addr("127.0.0.1", 49152), addr("127.0.0.1", 80))
}

func newLink(o Options, from, to net.Addr) (a, b *Conn) {
	if o.Buffer <= 0 {
		o.Buffer = 64 << 10
	}
	l := &link{changed: make(chan struct{})}
	up := &half{faults: o.Up, buffer: o.Buffer}
	down := &half{faults: o.Down, buffer: o.Buffer}
	a = &Conn{link: l, in: down, out: up, local: from, remote: to}
	b = &Conn{link: l, in: up, out: down, local: to, remote: from}
	return a, b
}

func addr(ip string, port int) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(port)))
}

func (l *link) notifyLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// waitLocked releases the lock until the link changes or the earliest of the times is reached. It
// ignores zero times.
func (l *link) waitLocked(t ...time.Time) {
	var first time.Time
	for _, t := range t {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	if first.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func (d deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for {
		h, now := c.in, time.Now()
		var next time.Time // the time at which the next bytes or the end of the stream arrive; zero if unknown
		switch {
		case c.closed:
			return 0, c.fault("read", net.ErrClosed)
		case c.read.passed():
			return 0, c.fault("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case len(h.queue) > 0:
			first := &h.queue[0]
			if first.at.After(now) {
				next = first.at
				break
			}
			n := copy(b, first.data)
			if first.data = first.data[n:]; len(first.data) == 0 {
				h.queue = h.queue[1:]
			}
			h.size -= n
			c.link.notifyLocked()
			return n, nil
		case h.end != nil:
			if h.endAt.After(now) {
				next = h.endAt
				break
			}
			if h.end == io.EOF {
				return 0, io.EOF
			}
			return 0, c.fault("read", h.end)
		}
		c.link.waitLocked(next, c.read.at)
	}
}

// Write implements net.Conn. Like TCP, it returns when the bytes are in the buffer.
func (c *Conn) Write(b []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	sent := 0
	for {
		h := c.out
		switch {
		case c.closed:
			return sent, c.fault("write", net.ErrClosed)
		case c.write.passed():
			return sent, c.fault("write", os.ErrDeadlineExceeded)
		case h.end == io.EOF, h.unread:
			return sent, c.fault("write", syscall.EPIPE)
		case h.end != nil:
			return sent, c.fault("write", h.end)
		case sent == len(b):
			return sent, nil
		}
		n := min(len(b)-sent, h.buffer-h.size)
		if n <= 0 {
			c.link.waitLocked(c.write.at)
			continue
		}
		if h.faults.ChunkBytes > 0 {
			n = min(n, h.faults.ChunkBytes)
		}
		n = min(n, left(h.faults.DropAfterBytes, h.passed), left(h.faults.HalfCloseAfterBytes, h.passed))
		if n > 0 {
			data := append([]byte(nil), b[sent:sent+n]...)
			h.queue = append(h.queue, segment{data, time.Now().Add(h.faults.Latency)})
			h.size += n
			h.passed += n
			sent += n
		}
		done := sent == len(b)
		if left(h.faults.HalfCloseAfterBytes, h.passed) == 0 {
			h.endLocked(io.EOF)
		}
		if left(h.faults.DropAfterBytes, h.passed) == 0 {
			c.resetLocked()
		}
		c.link.notifyLocked()
		if done {
			return sent, nil
		}
	}
}

// left returns how many bytes may still pass before a fault occurs. after is the configured number
// of bytes; see Faults. passed is the number of bytes written so far.
func left(after, passed int) int {
	switch {
	case after == 0:
		return int(^uint(0) >> 1)
	case after < 0:
		return 0
	}
	return max(0, after-passed)
}

func (h *half) endLocked(err error) {
	if h.end == nil {
		h.end, h.endAt = err, time.Now().Add(h.faults.Latency)
	}
}

func (c *Conn) resetLocked() {
	c.in.endLocked(syscall.ECONNRESET)
	c.out.endLocked(syscall.ECONNRESET)
}

// Close implements net.Conn. The other end can still read the bytes that were already sent, and
// then gets io.EOF.
func (c *Conn) Close() error {
	c.link.mu.Lock()
	if c.closed {
		c.link.mu.Unlock()
		return c.fault("close", net.ErrClosed)
	}
	c.closed = true
	c.out.endLocked(io.EOF)
	c.in.unread, c.in.queue, c.in.size = true, nil, 0
	c.link.notifyLocked()
	c.link.mu.Unlock()
	if c.onClose != nil {
		c.onClose()
	}
	return nil
}

// CloseWrite ends only the direction from this end, like net.TCPConn.CloseWrite.
func (c *Conn) CloseWrite() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return c.fault("close", net.ErrClosed)
	}
	c.out.endLocked(io.EOF)
	c.link.notifyLocked()
	return nil
}

// Reset breaks the link in the same way as a cut cable or a crash. Both ends can still read the
// bytes that were already sent, and then get ECONNRESET. The caller must still close both ends.
func (c *Conn) Reset() {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.resetLocked()
	c.link.notifyLocked()
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.read, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.write, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return c.fault("set", net.ErrClosed)
	}
	d.at = t
	c.link.notifyLocked()
	return nil
}

func (c *Conn) fault(op string, err error) error {
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
