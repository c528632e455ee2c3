package httpdoor

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Listen wraps the listener for a server from NewHTTPServer. ConnectionOf returns numbers only for
// connections of such a listener.
func Listen(l net.Listener) net.Listener { return &listener{Listener: l} }

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, number: connections.Add(1)}, nil
}

// connections is the number of the newest connection. All listeners share it, so each number is
// unique in the process.
var connections atomic.Uint64

// conn is a connection of a client, with a number.
type conn struct {
	net.Conn
	number uint64
	// lengths counts the lines that begin like a Content-Length header. told counts the requests in
	// which net/http reported a Content-Length header. The function ambiguous compares the two
	// counts.
	lengths lengthLines
	told    atomic.Uint64
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.lengths.scan(b[:n])
	return n, err
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
// if the server's listener is not from Listen.
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
