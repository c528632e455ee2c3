package httpdoor

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// TestLongWrites checks the Write of a conn that takes steps: a client that reads gets all bytes, also
// next to another one, and a client that doesn't read ends the Write after the time for one step.
func TestLongWrites(t *testing.T) {
	const size = 32 << 20 // more than the kernel keeps
	var clients sync.WaitGroup
	for i := range 3 {
		server, client := tcpPair(t)
		c := &conn{Conn: server, stall: 5 * time.Second}
		b := bytes.Repeat([]byte{'a' + byte(i), '0', '1', '2', '3', '4', '5'}, size/7)
		clients.Go(func() {
			got, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(got, b) {
				t.Errorf("client %d: %d bytes, %v", i, len(got), err)
			}
		})
		clients.Go(func() {
			if n, err := c.Write(b); err != nil || n != len(b) {
				t.Errorf("client %d: %d bytes written, %v", i, n, err)
			}
			c.Close()
		})
	}
	clients.Wait()

	server, client := tcpPair(t)
	c := &conn{Conn: server, stall: 100 * time.Millisecond}
	began := time.Now()
	n, err := c.Write(make([]byte, size))
	if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || n == size || took < c.stall || took > time.Minute {
		t.Errorf("nobody reads: %d bytes written in %v, %v", n, took, err)
	}
	client.Close()
	if n, err := c.Write(make([]byte, size)); err == nil {
		t.Errorf("nobody is there: %d bytes written", n)
	}
}

func tcpPair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err == nil {
		server, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}
