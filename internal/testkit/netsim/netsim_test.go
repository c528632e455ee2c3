package netsim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// reads collects the text that each Read of c returns, until a Read fails.
func reads(c net.Conn) (got []string, err error) {
	b := make([]byte, 100)
	for {
		n, err := c.Read(b)
		if n > 0 {
			got = append(got, string(b[:n]))
		}
		if err != nil {
			return got, err
		}
	}
}

// bubble creates a link in a synctest bubble and closes it after the test.
func bubble(t *testing.T, o Options, f func(t *testing.T, a, b *Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := NewLink(o)
		f(t, a, b)
		_ = a.Close()
		_ = b.Close()
	})
}

func want(t *testing.T, got []string, err error, wanted string, wantErr error) {
	t.Helper()
	if strings.Join(got, "|") != wanted || !errors.Is(err, wantErr) {
		t.Errorf("read %q, then %v; want %q, then %v", got, err, wanted, wantErr)
	}
}

func TestChunks(t *testing.T) {
	bubble(t, Options{Up: Faults{ChunkBytes: 2}}, func(t *testing.T, a, b *Conn) {
		if n, err := a.Write([]byte("hello")); n != 5 || err != nil {
			t.Error(n, err)
		}
		_ = a.CloseWrite()
		got, err := reads(b)
		want(t, got, err, "he|ll|o", io.EOF)
		_, _ = b.Write([]byte("still open"))
		_ = b.Close()
		got, err = reads(a)
		want(t, got, err, "still open", io.EOF)
	})
}

func TestLatency(t *testing.T) {
	bubble(t, Options{Up: Faults{Latency: time.Minute}}, func(t *testing.T, a, b *Conn) {
		begun := time.Now()
		_, _ = a.Write([]byte("x"))
		time.Sleep(10 * time.Second)
		_ = a.Close()
		if _, err := io.ReadFull(b, make([]byte, 1)); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF || time.Since(begun) != 70*time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

func TestDrop(t *testing.T) {
	bubble(t, Options{Up: Faults{DropAfterBytes: 3}}, func(t *testing.T, a, b *Conn) {
		if n, err := a.Write([]byte("hello")); n != 3 || !errors.Is(err, syscall.ECONNRESET) {
			t.Error(n, err)
		}
		got, err := reads(b)
		want(t, got, err, "hel", syscall.ECONNRESET)
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		got, err = reads(a)
		want(t, got, err, "", syscall.ECONNRESET)
	})
	bubble(t, Options{Up: Faults{DropAfterBytes: 5}}, func(t *testing.T, a, b *Conn) {
		if n, err := a.Write([]byte("hello")); n != 5 || err != nil {
			t.Error(n, err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
	bubble(t, Options{Up: Faults{DropAfterBytes: -1}}, func(t *testing.T, a, b *Conn) {
		if n, err := a.Write([]byte("hello")); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Error(n, err)
		}
	})
}

func TestHalfClose(t *testing.T) {
	bubble(t, Options{Up: Faults{HalfCloseAfterBytes: 3}}, func(t *testing.T, a, b *Conn) {
		if n, err := a.Write([]byte("hello")); n != 3 || !errors.Is(err, syscall.EPIPE) {
			t.Error(n, err)
		}
		got, err := reads(b)
		want(t, got, err, "hel", io.EOF)
		_, _ = b.Write([]byte("yes"))
		_ = b.CloseWrite()
		got, err = reads(a)
		want(t, got, err, "yes", io.EOF)
	})
}

func TestCloseAndReset(t *testing.T) {
	bubble(t, Options{Buffer: 4}, func(t *testing.T, a, b *Conn) {
		var wg sync.WaitGroup
		wg.Go(func() { // blocks when the buffer is full
			if n, err := a.Write([]byte("hello")); n != 4 || !errors.Is(err, syscall.EPIPE) {
				t.Error(n, err)
			}
		})
		synctest.Wait()
		_ = b.Close()
		wg.Wait()
		_ = a.Close()
		for _, err := range []error{a.Close(), a.CloseWrite(), a.SetDeadline(time.Now())} {
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
		got, err := reads(a)
		want(t, got, err, "", net.ErrClosed)
	})
	bubble(t, Options{}, func(t *testing.T, a, b *Conn) {
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err := reads(a)
			want(t, got, err, "", syscall.ECONNRESET)
		})
		synctest.Wait()
		b.Reset()
		wg.Wait()
	})
}

func TestDeadlines(t *testing.T) {
	bubble(t, Options{Buffer: 1}, func(t *testing.T, a, _ *Conn) {
		begun := time.Now()
		_ = a.SetReadDeadline(begun.Add(time.Minute))
		_, err := a.Read(make([]byte, 1))
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Error(err)
		}
		if d := time.Since(begun); d != time.Minute {
			t.Errorf("after %v", d)
		}
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := a.Write([]byte("xy")); n != 1 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(n, err)
		}
		// A later deadline also applies to a Read that is already waiting.
		_ = a.SetDeadline(time.Time{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		})
		synctest.Wait()
		_ = a.SetReadDeadline(time.Now())
		wg.Wait()
	})
}

// web runs an HTTP server on a network in a synctest bubble.
func web(t *testing.T, h http.HandlerFunc, f func(t *testing.T, n *Network, c *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		l, err := n.Listen("api.test:80")
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: h}
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.Serve(l) })
		tr := &http.Transport{DialContext: n.DialContext}
		f(t, n, &http.Client{Transport: tr})
		tr.CloseIdleConnections()
		_ = srv.Close()
		wg.Wait()
	})
}

func get(t *testing.T, c *http.Client) (string, error) {
	t.Helper()
	resp, err := c.Get("http://api.test/")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestHTTP(t *testing.T) {
	body := strings.Repeat("body", 50_000)
	web(t, func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := net.SplitHostPort(r.RemoteAddr); host != "127.0.0.1" {
			t.Errorf("request from %s", r.RemoteAddr)
		}
		_, _ = io.WriteString(w, body)
	}, func(t *testing.T, n *Network, c *http.Client) {
		for _, f := range []Faults{{}, {ChunkBytes: 1}, {Latency: time.Second}} {
			n.Shape("api.test:80", func(int) Options { return Options{Up: f, Down: f} })
			begun := time.Now()
			got, err := get(t, c)
			if err != nil || got != body {
				t.Errorf("%+v: %d bytes, %v", f, len(got), err)
			}
			// One round trip is for the connection, and one for the request and the response.
			if d := time.Since(begun); d < 4*f.Latency {
				t.Errorf("%+v: took %v", f, d)
			}
			c.CloseIdleConnections()
		}
	})
}

func TestHTTPBreaks(t *testing.T) {
	web(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, bytes.NewReader(make([]byte, 10_000)))
	}, func(t *testing.T, n *Network, c *http.Client) {
		n.Shape("api.test:80", func(nth int) Options {
			return []Options{
				{Down: Faults{DropAfterBytes: 5000}},
				{Down: Faults{HalfCloseAfterBytes: 5000}},
				{Up: Faults{DropAfterBytes: -1}},
				{},
			}[nth]
		})
		if _, err := get(t, c); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v, want a reset", err)
		}
		if _, err := get(t, c); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v, want an unexpected end", err)
		}
		if _, err := get(t, c); err == nil {
			t.Error("got an answer")
		}
		if _, err := get(t, c); err != nil {
			t.Error(err)
		}
	})
}

func TestNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		ctx := t.Context()
		if _, err := n.DialContext(ctx, "tcp", "nobody:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v", err)
		}
		l, err := n.Listen("[::1]:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		if _, err := n.Listen(at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v", err)
		}
		for _, bad := range []string{"x", "x:y", "x:65536"} {
			if _, err := n.Listen(bad); err == nil {
				t.Errorf("listens at %s", bad)
			}
		}

		n.Swallow(at, true)
		begun := time.Now()
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if _, err := n.DialContext(short, "tcp", at); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 10*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
		n.Swallow(at, false)

		c, err := n.DialFrom("203.0.113.9")(ctx, "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if c.LocalAddr().String() != s.RemoteAddr().String() || !strings.HasPrefix(s.RemoteAddr().String(), "203.0.113.9:") ||
			c.RemoteAddr().String() != at || s.LocalAddr().String() != at {
			t.Errorf("%v-%v, %v-%v", c.LocalAddr(), c.RemoteAddr(), s.LocalAddr(), s.RemoteAddr())
		}
		n.Reset(at)
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v", err)
		}
		_, _ = c.Close(), s.Close()
		if len(n.live) != 0 {
			t.Error("a closed link is kept")
		}

		waiting, err := n.DialContext(ctx, "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		_ = l.Close()
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v", err)
		}
		_ = waiting.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}
