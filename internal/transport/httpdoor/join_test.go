package httpdoor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// script is a connection that records writes, and fails once it has taken room bytes.
type script struct {
	net.Conn
	room   int
	writes []string
}

func (s *script) Write(b []byte) (int, error) {
	n := min(len(b), s.room)
	s.room -= n
	s.writes = append(s.writes, string(b[:n]))
	if n < len(b) {
		return n, errors.New("broken")
	}
	return n, nil
}

// TestJoin checks that the head of a response waits for the next part, that nothing is lost, and that a
// write that fails tells how much of its own part was taken.
func TestJoin(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), headRoom+1))
	for _, x := range []struct {
		name  string
		room  int
		parts []string
		took  []int    // by the Write of each part
		sent  []string // before joined
		left  string   // written by joined
		fails bool
	}{
		{"head and body", 1 << 20, []string{"head", long}, []int{4, len(long)}, []string{"head", long}, "", false},
		{"a third part", 1 << 20, []string{"head", long, long}, []int{4, len(long), len(long)}, []string{"head", long, long}, "", false},
		{"a long head", 1 << 20, []string{long, "y"}, []int{len(long), 1}, []string{long}, "y", false},
		{"only a head", 1 << 20, []string{"head"}, []int{4}, nil, "head", false},
		{"nothing", 1 << 20, nil, nil, nil, "", false},
		{"broken in the head", 3, []string{"head", long}, []int{4, 0}, []string{"hea"}, "", true},
		{"broken in the body", 5, []string{"head", long}, []int{4, 1}, []string{"head", "x"}, "", true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := &script{room: x.room}
			c := &conn{Conn: s}
			c.join()
			failed := false
			for i, part := range x.parts {
				n, err := c.Write([]byte(part))
				if failed = err != nil; n != x.took[i] {
					t.Errorf("part %d: %d bytes taken, %v", i, n, err)
				}
			}
			if got, want := fmt.Sprintf("%.9q", s.writes), fmt.Sprintf("%.9q", x.sent); got != want || failed != x.fails {
				t.Errorf("%s, failed %v, want %s, %v", got, failed, want, x.fails)
			}
			s.writes = nil
			if err := c.joined(); err != nil || len(s.writes) > 1 || len(s.writes) == 1 && s.writes[0] != x.left || len(s.writes) == 0 && x.left != "" {
				t.Errorf("joined: %v, %q", err, s.writes)
			}
			if _, _ = c.Write([]byte("later")); x.fails == (len(s.writes) > 0 && s.writes[len(s.writes)-1] == "later") {
				t.Errorf("a later write waits: %q", s.writes)
			}
		})
	}
}

// TestJoinedResponses compares responses of many sizes, two on each connection.
func TestJoinedResponses(t *testing.T) {
	s := NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7 >> 3)
		}
		w.Header()["Content-Length"] = []string{strconv.Itoa(n)}
		if err := WriteLarge(w, r, b, time.Minute); err != nil {
			t.Error(err)
		}
	}))
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &countingListener{Listener: inner}
	serveOn(t, l, s, s.Serve)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, n := range []int{0, 1, 2047, 2048, 3800, 3900, 4000, 4096, 4097, 8192, writeStep, writeStep + 111, writeStep + headRoom, writeStep + headRoom + 1, 3*writeStep + 17} {
		for range 2 {
			l.writes.Store(0)
			resp, err := client.Get(fmt.Sprintf("http://%s/?n=%d", l.Addr(), n))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || len(b) != n {
				t.Fatalf("%d: %d bytes, %v", n, len(b), err)
			}
			if writes := l.writes.Load(); writes > int64(1+(max(n-headRoom, 1)+writeStep-1)/writeStep) {
				t.Errorf("%d: %d writes", n, writes)
			}
			for i := range b {
				if b[i] != byte(i*7>>3) {
					t.Fatalf("%d: byte %d is wrong", n, i)
				}
			}
		}
	}
}

// countingListener counts the writes of its connections, which can't write two parts at once.
type countingListener struct {
	net.Listener
	writes atomic.Int64
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countedConn{c, &l.writes}, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}
