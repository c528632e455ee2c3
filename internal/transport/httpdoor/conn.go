package httpdoor

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// listener gives each connection a number, and lets it rest if the system can wait for it.
type listener struct {
	net.Listener
	watch *watch
}

func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, number: connections.Add(1)}
	if _, ok := inner.(*net.TCPConn); ok && canWatch && l.watch.start() {
		c.watch = l.watch
	}
	return c, nil
}

// connections is the number of the newest connection. All listeners share it, so each number is
// unique in the process.
var connections atomic.Uint64

// conn is a connection of a client, with a number. If it rests, net/http gets another conn with the
// same number afterwards.
type conn struct {
	net.Conn
	number uint64
	// lengths counts the lines that begin like a Content-Length header. told counts the requests in
	// which net/http reported a Content-Length header. The function ambiguous compares the two
	// counts.
	lengths lengthLines
	told    atomic.Uint64

	head *[headRoom]byte // between join and joined; only for the goroutine that writes
	kept int             // the bytes in it
	// stall is how long each step of a Write may take, which then sets the write deadlines; 0 if the
	// deadline that is set holds for all of it. Only for the goroutine that writes.
	stall time.Duration
	raw   syscall.RawConn // of Conn, for push

	early []byte // bytes that Read returns first; was read from Conn before
	watch *watch // nil if the connection must not rest
	left  atomic.Uint32
	// Only the goroutine that serves the connection changes these, and only while no other one reads.
	idle  idle
	until time.Time // while it waits: the deadline that net/http has set
	room  int       // the size of net/http's buffer
}

// idle is what net/http does between two requests.
type idle uint8

const (
	busy     idle = iota
	answered      // it has answered a request, and sets the deadline for the next one now
	waiting       // it waits for the next request
)

// The values of left say whether net/http still owns the connection.
const (
	stays   uint32 = iota
	leaving        // Read has returned errRests, so net/http closes the connection next
	rests          // the watch has it, or another conn
)

var errRests = errors.New("the connection rests")

// state is the hook ConnState of net/http.
func state(c net.Conn, s http.ConnState) {
	if c, ok := c.(*conn); ok && s == http.StateIdle && c.watch != nil {
		c.idle = answered
	}
}

// SetReadDeadline sets a shorter deadline while net/http waits for the next request. After an answer,
// net/http sets the idle timeout first. It sets a deadline again when it has the first four bytes of
// a request, which it may have read together with the request before.
func (c *conn) SetReadDeadline(t time.Time) error {
	switch c.idle {
	case busy: // don't assign: other goroutines may read idle
		return c.Conn.SetReadDeadline(t)
	case waiting:
		c.idle = busy
		return c.Conn.SetReadDeadline(t)
	}
	c.idle, c.until = waiting, t
	if soon := time.Now().Add(c.watch.after); t.IsZero() || soon.Before(t) {
		t = soon
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Read(b []byte) (int, error) {
	if c.room == 0 {
		c.room = len(b) // net/http's buffer is empty before the first Read
	}
	if len(c.early) > 0 {
		n := copy(b, c.early)
		c.early = c.early[n:]
		c.lengths.scan(b[:n])
		return n, nil
	}
	n, err := c.Conn.Read(b)
	if err != nil && n == 0 && c.idle == waiting && isTimeout(err) {
		return c.rest(b, err)
	}
	c.lengths.scan(b[:n])
	return n, err
}

// headRoom is the size of the buffer in which net/http puts the head of a response and the beginning of
// its body. net/http writes it before the rest of a long body.
const headRoom = 4 << 10

var heads = sync.Pool{New: func() any { return new([headRoom]byte) }}

// join makes Write keep what fits into headRoom until the next Write, so that both leave in one. The
// method joined must follow.
func (c *conn) join() { c.head = heads.Get().(*[headRoom]byte) }

// joined writes what Write has kept.
func (c *conn) joined() (err error) {
	if c.kept > 0 {
		_, err = c.Conn.Write(c.head[:c.kept])
	}
	heads.Put(c.head)
	c.head, c.kept = nil, 0
	return err
}

func (c *conn) Write(b []byte) (int, error) {
	switch {
	case c.head != nil && c.kept == 0 && len(b) <= headRoom:
		c.kept = copy(c.head[:], b)
		return len(b), nil
	case c.kept == 0 && c.stall > 0:
		return c.writeLong(b)
	case c.kept == 0:
		return c.Conn.Write(b)
	}
	both, kept := net.Buffers{c.head[:c.kept], b}, c.kept
	c.kept = 0
	n, err := both.WriteTo(c.Conn)
	return max(int(n)-kept, 0), err
}

// writeLong writes as much as the kernel takes at once. Only then it waits, for one step at a time.
func (c *conn) writeLong(b []byte) (sent int, err error) {
	for err == nil && sent < len(b) {
		if err = c.Conn.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			break
		}
		if sent += c.push(b[sent:]); sent < len(b) {
			n := 0
			n, err = c.Conn.Write(b[sent : sent+step(b[sent:])])
			sent += n
		}
	}
	return sent, err
}

// rest ends a Read that has waited for long enough. The connection doesn't rest if net/http has some
// bytes of the next request, which we know from the size of b: then Read goes on until the deadline
// that net/http has set.
func (c *conn) rest(b []byte, timeout error) (int, error) {
	switch {
	case !c.until.IsZero() && !time.Now().Before(c.until):
		return 0, timeout
	case len(b) == c.room && c.left.CompareAndSwap(stays, leaving):
		return 0, errRests
	}
	c.idle = busy
	_ = c.Conn.SetReadDeadline(c.until)
	return c.Read(b)
}

// Close closes the connection, or gives it to the watch if it is to rest.
func (c *conn) Close() error {
	switch {
	case c.left.CompareAndSwap(leaving, rests):
		// All counted lines belong to requests that are answered, so the count begins again.
		c.watch.rest(&conn{Conn: c.Conn, number: c.number, watch: c.watch}, c.until)
		return nil
	case c.left.Load() == rests:
		return nil
	}
	return c.Conn.Close()
}

// CloseWrite lets net/http close one direction of the connection, so that a client can read the
// last response before the connection is reset.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// ConnectionOf returns the number of r's connection. The number is unique in the process. It is 0
// if no [Server] has accepted the connection.
func ConnectionOf(r *http.Request) uint64 {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		return c.number
	}
	return 0
}

// NewcomerOf describes the sender of r, for the limits on new sessions. client is the sender's name
// for itself. If client is "", NewcomerOf uses the User-Agent header.
func NewcomerOf(r *http.Request, principal, client string) transport.Newcomer {
	if client == "" {
		client = r.UserAgent()
	}
	client = client[:min(len(client), transport.MaxClient)]
	return transport.Newcomer{Principal: principal, Remote: Remote(r), Connection: ConnectionOf(r), Client: client}
}

// ambiguous reports whether r may have had a Content-Length header in addition to its
// Transfer-Encoding header. With both headers, a proxy and net/http may disagree about the end of
// the request. net/http removes such a Content-Length header silently, so conn counts the lines
// that begin like this header. The count is never too low. It may be too high if a body contains
// such a line, or if the next request was already read. Then the only effect is that a connection
// is closed that could stay open.
func ambiguous(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if len(r.TransferEncoding) > 0 {
		return !ok || c.lengths.seen.Load() > c.told.Load()
	}
	if ok && len(r.Header["Content-Length"]) > 0 {
		c.told.Add(1)
	}
	return false
}

// lengthLines counts the lines of a stream that begin with "Content-Length:" in any combination of
// upper and lower case. The stream may arrive in chunks of any size.
type lengthLines struct {
	seen atomic.Uint64
	at   int // the number of bytes of lengthName that have matched since the line began; -1 if the line cannot match
}

const lengthName = "content-length:"

func (l *lengthLines) scan(b []byte) {
	for len(b) > 0 {
		if l.at < 0 {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				return
			}
			b, l.at = b[i+1:], 0
			continue
		}
		c := b[0]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch {
		case c == '\n':
			l.at = 0
		case c != lengthName[l.at]:
			l.at = -1
		case l.at == len(lengthName)-1:
			l.seen.Add(1)
			l.at = -1
		default:
			l.at++
		}
		b = b[1:]
	}
}
