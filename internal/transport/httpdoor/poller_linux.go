package httpdoor

import (
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// canWatch is true if this system has a poller.
const canWatch = true

// poller waits for many connections. It is an epoll instance, for which the runtime waits as it
// waits for sockets, so wait holds no thread.
type poller struct {
	file   *os.File
	raw    syscall.RawConn
	events [128]unix.EpollEvent // only wait uses it
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	// os.NewFile registers only files in non-blocking mode with the runtime.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &poller{file: os.NewFile(uintptr(fd), "epoll")}
	err = p.file.SetReadDeadline(time.Time{}) // fails if the runtime cannot wait for the file
	if err == nil {
		p.raw, err = p.file.SyscallConn()
	}
	if err != nil {
		_ = p.file.Close()
		return nil, err
	}
	return p, nil
}

// interest is what makes wait return a connection, besides an error: one of the events below.
type interest uint32

const (
	forBytes interest = unix.EPOLLIN | unix.EPOLLRDHUP // it has bytes to read, or the client has closed it
	forEnd   interest = unix.EPOLLRDHUP                // the client has closed it
	atOnce   interest = unix.EPOLLIN | unix.EPOLLOUT   // it can be read or written
)

// add makes wait return the token once, as soon as something of interest has happened to c.
func (p *poller) add(c net.Conn, token uint64, events interest) error {
	return p.control(c, unix.EPOLL_CTL_ADD, &unix.EpollEvent{
		Events: uint32(events) | unix.EPOLLONESHOT,
		Fd:     int32(token), Pad: int32(token >> 32),
	})
}

// remove undoes add. It is not needed for a connection that is closed.
func (p *poller) remove(c net.Conn) { _ = p.control(c, unix.EPOLL_CTL_DEL, nil) }

// control holds both files open during the call, because the system could otherwise give their
// numbers to other files.
func (p *poller) control(c net.Conn, op int, e *unix.EpollEvent) error {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = p.raw.Control(func(ep uintptr) { err = unix.EpollCtl(int(ep), op, int(fd), e) })
	}); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return err
}

// atEnd reports whether reading from c would find the end or an error. It reads nothing.
func atEnd(c net.Conn) bool {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return true
	}
	n := 0
	var failed error
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, failed = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err != nil || n <= 0 && failed != unix.EAGAIN && failed != unix.EINTR
}

// wait appends the tokens of the connections that are ready to found. If none is, it waits for one.
// The error is os.ErrDeadlineExceeded when the time of wakeAt has come.
func (p *poller) wait(found []uint64) ([]uint64, error) {
	var n int
	var failed error
	err := p.raw.Read(func(ep uintptr) bool {
		n, failed = unix.EpollWait(int(ep), p.events[:], 0)
		return n != 0 || failed != nil && failed != unix.EINTR
	})
	if err == nil {
		err = failed
	}
	for i := range max(n, 0) {
		e := &p.events[i]
		found = append(found, uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32)
	}
	return found, err
}

// wakeAt makes wait return at that time. The zero time means never.
func (p *poller) wakeAt(t time.Time) { _ = p.file.SetReadDeadline(t) }

func (p *poller) close() { _ = p.file.Close() }
