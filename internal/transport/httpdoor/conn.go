package httpdoor

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Listen wraps the listener of a server that NewHTTPServer made, so that the doors
// know the connection of a request.
func Listen(l net.Listener) net.Listener { return &listener{Listener: l} }

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, number: connections.Add(1)}, nil
}

// connections counts the connections of the process, so that no number is used
// twice.
var connections atomic.Uint64

// conn is a connection of a client.
type conn struct {
	net.Conn
	number uint64
	// lengths counts the lines that begin as Content-Length does; told are those of
	// requests that net/http has reported. See ambiguous.
	lengths lengthLines
	told    atomic.Uint64
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.lengths.scan(b[:n])
	return n, err
}

// CloseWrite is what net/http calls so that a client can read the last answer
// before its connection is reset.
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

// ConnectionOf returns the number of the connection on which r came. It is unique in
// the process, and 0 where the listener was not wrapped by Listen.
func ConnectionOf(r *http.Request) uint64 {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		return c.number
	}
	return 0
}

// NewcomerOf describes who sent r, for those who limit how many sessions a client may
// open. client is the name that it gives; "" stands for its User-Agent.
func NewcomerOf(r *http.Request, principal, client string) transport.Newcomer {
	if client == "" {
		client = r.UserAgent()
	}
	client = client[:min(len(client), transport.MaxClient)]
	return transport.Newcomer{Principal: principal, Remote: Remote(r), Connection: ConnectionOf(r), Client: client}
}

// ambiguous reports whether r may have had a Content-Length beside its
// Transfer-Encoding, so that somebody before us may have seen another end of it.
// net/http removes the header without a word, hence the count on the connection: it
// is never too low. It may be too high, when a body has a line of that name or the
// next request was read already; that costs no more than a connection.
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

// lengthLines counts the lines of a stream that begin with Content-Length and a
// colon, in any case, however the stream is cut into reads.
type lengthLines struct {
	seen atomic.Uint64
	at   int // bytes of lengthName that have matched since a line began; -1 when the rest of the line cannot
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
