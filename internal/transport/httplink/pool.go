//go:build unix

package httplink

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pool holds the idle connections to one address, the one that was used last at the end. It starts
// no goroutine.
type pool struct {
	address string
	dial    func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	idle  []*wire
	shut  bool        // nothing becomes idle until the next take
	sweep *time.Timer // closes connections that have been idle for too long
	due   time.Time   // when sweep runs; zero if it is not set
}

// take returns an idle connection that the server has not closed, or a new one.
func (p *pool) take(ctx context.Context) (*wire, error) {
	for {
		p.mu.Lock()
		p.shut = false
		n := len(p.idle) - 1
		if n < 0 {
			p.mu.Unlock()
			break
		}
		w := p.idle[n]
		p.idle[n] = nil
		p.idle = p.idle[:n]
		p.mu.Unlock()
		if time.Now().Before(w.until) && w.quiet() {
			w.reused = true
			return w, nil
		}
		w.Close()
	}
	c, err := p.dial(ctx, "tcp", p.address)
	if err == nil {
		var w *wire
		if w, err = newWire(c); err == nil {
			return w, nil
		}
		c.Close()
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done() // the dialer looks at the clock, and may be a moment earlier than ctx
	}
	return nil, err
}

// put makes a connection idle. It reports false if there is no room for it.
func (p *pool) put(w *wire, keep time.Duration) bool {
	w.until = time.Now().Add(min(keep, idleTime))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, w)
	if p.due.IsZero() || w.until.Before(p.due) {
		p.setLocked(w.until)
	}
	return true
}

func (p *pool) setLocked(due time.Time) {
	p.due = due
	if p.sweep == nil {
		p.sweep = time.AfterFunc(time.Until(due), p.expire)
	} else {
		p.sweep.Reset(time.Until(due))
	}
}

// expire closes the connections that have been idle for too long.
func (p *pool) expire() {
	now := time.Now()
	var old []*wire
	p.mu.Lock()
	kept := p.idle[:0]
	p.due = time.Time{}
	for _, w := range p.idle {
		if !w.until.After(now) {
			old = append(old, w)
			continue
		}
		kept = append(kept, w)
		if p.due.IsZero() || w.until.Before(p.due) {
			p.due = w.until
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	if !p.due.IsZero() {
		p.setLocked(p.due)
	}
	p.mu.Unlock()
	for _, w := range old {
		w.Close()
	}
}

// clear closes all idle connections, and those of the exchanges that are going on when these end.
func (p *pool) clear() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.due, p.shut = nil, time.Time{}, true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	for _, w := range idle {
		w.Close()
	}
}

// wire is a connection to a server, with reads and writes that don't wait.
type wire struct {
	net.Conn
	raw    syscall.RawConn
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
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: c, raw: raw}
	w.put, w.look, w.hangUp = w.putBytes, w.lookForBytes, func() { w.Close() }
	return w, nil
}

// try writes as much of two parts as the kernel takes without waiting.
func (w *wire) try(first, rest []byte) (n int, err error) {
	w.first, w.rest, w.n, w.err = first, rest, 0, nil
	if err = w.raw.Write(w.put); err == nil && w.err != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: w.LocalAddr(), Addr: w.RemoteAddr(), Err: os.NewSyscallError("write", w.err)}
	}
	w.first, w.rest = nil, nil
	return w.n, err
}

func (w *wire) putBytes(fd uintptr) bool {
	for len(w.first)+len(w.rest) > 0 {
		n, err := writeParts(int(fd), w.first, w.rest)
		n = max(n, 0)
		k := min(n, len(w.first))
		w.first, w.rest, w.n = w.first[k:], w.rest[n-k:], w.n+n
		switch err {
		case nil, syscall.EINTR:
		case syscall.EAGAIN:
			return true
		default:
			w.err = err
			return true
		}
	}
	return true
}

// writeParts writes some bytes of first, or of both.
func writeParts(fd int, first, rest []byte) (int, error) {
	switch {
	case len(first) == 0:
		return syscall.Write(fd, rest)
	case len(rest) == 0:
		return syscall.Write(fd, first)
	}
	return writeBoth(fd, first, rest)
}

// quiet reports whether an idle connection is open and the server has sent nothing on it. A server
// that has closed the connection, or sends without a request, doesn't get another one.
func (w *wire) quiet() bool {
	return w.raw.Read(w.look) == nil && w.err == syscall.EAGAIN
}

func (w *wire) lookForBytes(fd uintptr) bool {
	_, w.err = syscall.Read(int(fd), w.one[:])
	return true
}
