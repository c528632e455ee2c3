package pipetest

import (
	"net"
	"strings"
	"sync"
)

// Listener is a net.Listener in memory, for HTTP servers in simulated time. Create one with Listen.
type Listener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

// Listen returns a Listener.
func Listen() *Listener { return &Listener{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections stay open.
func (l *Listener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return pipeAddr{} }

// Dial returns the client's end of a new connection.
func (l *Listener) Dial() (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- b:
		return a, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "localhost" }

// Here is a transport.Places. The ids of this process begin with "here-"; of another, the part before the dash says which
// process it's of.
type Here struct{}

// Mark implements transport.Places.
func (Here) Mark(id string) string { return "here-" + id }

// Of implements transport.Places.
func (Here) Of(id string) string {
	if home, _, ok := strings.Cut(id, "-"); ok && home != "here" {
		return home
	}
	return ""
}
