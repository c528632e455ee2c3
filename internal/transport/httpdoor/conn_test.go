package httpdoor

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// serveTest serves h on a real socket and returns a function that connects to it. change may be nil.
func serveTest(t *testing.T, h http.Handler, change func(*Server)) (hs *Server, dial func() net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs = NewHTTPServer(h)
	if change != nil {
		change(hs)
	}
	return hs, serveOn(t, l, hs, hs.Serve)
}

func serveOn(t *testing.T, l net.Listener, hs *Server, serve func(net.Listener) error) (dial func() net.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() { _ = serve(l) })
	t.Cleanup(func() { _ = hs.Close(); wg.Wait() })
	return func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		return c
	}
}

// TestContentLengthBesideTransferEncoding checks RFC 9112 §6.1. A server may process a request
// with both a Content-Length and a Transfer-Encoding according to only the Transfer-Encoding. It must
// then close the connection.
func TestContentLengthBesideTransferEncoding(t *testing.T) {
	const (
		head    = "POST / HTTP/1.1\r\nHost: localhost\r\n"
		chunked = head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
		length  = head + "Content-Length: 2\r\n\r\n{}"
	)
	for _, c := range []struct {
		name, before, text string
		closes             bool
	}{
		{"both", "", head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", true},
		{"in the other order", "", head + "Transfer-Encoding: chunked\r\nContent-Length: 12\r\n\r\n2\r\n{}\r\n0\r\n\r\n", true},
		{"in another case", "", head + "transfer-encoding: Chunked\r\ncOnTent-lenGTH:5\r\n\r\n2\r\n{}\r\n0\r\n\r\n", true},
		{"with bare line feeds", "", "POST / HTTP/1.1\nHost: localhost\nContent-Length: 2\nTransfer-Encoding: chunked\n\n2\r\n{}\r\n0\r\n\r\n", true},
		{"twice", "", head + "Content-Length: 2\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", true},
		{"after a good one", length, head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", true},
		{"after a chunked one", chunked, head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", true},
		{"chunked", "", chunked, false},
		{"by length", "", length, false},
		{"chunked after others", length, chunked, false},
		{"without a body", "", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", false},
	} {
		for step, feed := range map[string]int{"at once": len(c.text), "byte by byte": 1} {
			t.Run(c.name+" "+step, func(t *testing.T) {
				var mu sync.Mutex
				var paths []string
				hs, dial := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					mu.Lock()
					paths = append(paths, r.URL.Path)
					mu.Unlock()
				}), func(hs *Server) { hs.watch.after = time.Millisecond })
				conn := dial()
				rd := bufio.NewReader(conn)
				for i, text := range []string{c.before, c.text} {
					if text == "" {
						continue
					}
					if i == 1 && c.before != "" {
						rested(t, hs, 1)
					}
					closes := i == 1 && c.closes
					for rest := text; rest != ""; rest = rest[min(feed, len(rest)):] {
						if _, err := io.WriteString(conn, rest[:min(feed, len(rest))]); err != nil {
							t.Fatal(err)
						}
					}
					if closes { // the server must not read the second request
						_, _ = io.WriteString(conn, "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
					}
					resp, err := http.ReadResponse(rd, nil)
					if err != nil || resp.Close != closes {
						t.Fatalf("%v %v", resp, err)
					}
				}
				if !c.closes {
					_, _ = io.WriteString(conn, length)
					if resp, err := http.ReadResponse(rd, nil); err != nil || resp.Close {
						t.Errorf("the connection was closed: %v %v", resp, err)
					}
					return
				}
				if _, err := rd.ReadByte(); err == nil {
					t.Error("the connection was not closed")
				}
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(strings.Join(paths, " "), "smuggled") {
					t.Errorf("%q", paths)
				}
			})
		}
	}
}

// TestChunkedWithoutServe checks a listener that was not wrapped. The server then cannot count
// Content-Length lines, so it closes the connection after every chunked request.
func TestChunkedWithoutServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hs := NewHTTPServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	conn := serveOn(t, l, hs, hs.Server.Serve)()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || !resp.Close {
		t.Errorf("%v %v", resp, err)
	}
}

func TestConnectionNumbers(t *testing.T) {
	_, dial := serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ConnectionOf(r) == 0 {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, string(rune('a'+ConnectionOf(r)%26)))
	}), nil)
	ask := func(c net.Conn) string {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
		return string(b)
	}
	a, b := dial(), dial()
	if first, again, other := ask(a), ask(a), ask(b); first != again || first == other {
		t.Errorf("%s %s %s", first, again, other)
	}
}

func TestLengthLines(t *testing.T) {
	text := "POST / HTTP/1.1\r\nContent-Length: 1\r\nX: content-length:\r\ncontent-length:\r\n\r\nContent-Lengthx:\nContent-LENGTH: \n\n\nContent-Length:"
	for step := 1; step <= len(text); step++ {
		var c lengthLines
		for rest := []byte(text); len(rest) > 0; rest = rest[min(step, len(rest)):] {
			c.scan(rest[:min(step, len(rest))])
		}
		if got := c.seen.Load(); got != 4 {
			t.Fatalf("in steps of %d: %d lines were counted", step, got)
		}
	}
}
