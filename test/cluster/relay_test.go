//go:build unix

package cluster

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// relay is what stands between the replicas and their database. It can cut all connections, and refuse new ones.
type relay struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]bool
	running  sync.WaitGroup
}

// newRelay returns a relay, and the URL of a database through it.
func newRelay(t *testing.T, database string) (*relay, string) {
	t.Helper()
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: at.Host, open: map[net.Conn]bool{}}
	at.Host = l.Addr().String()
	r.running.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.set(true)
		r.running.Wait()
	})
	return r, at.String()
}

func (r *relay) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.carry(conn) })
	}
}

// carry passes bytes on in both directions, until one end is closed.
func (r *relay) carry(conn net.Conn) {
	defer r.done(conn)
	if !r.take(conn) {
		return
	}
	to, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer r.done(to)
	if !r.take(to) {
		return
	}
	r.running.Go(func() {
		_, _ = io.Copy(conn, to)
		_, _ = conn.Close(), to.Close()
	})
	_, _ = io.Copy(to, conn)
}

func (r *relay) take(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[conn] = true
	return !r.cut
}

func (r *relay) done(conn net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
	_ = conn.Close()
}

// set cuts all connections, or lets new ones through again.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for conn := range r.open {
		if cut {
			_ = conn.Close()
		}
	}
}
