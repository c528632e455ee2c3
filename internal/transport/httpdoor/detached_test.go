package httpdoor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stand is a server whose path /stream serves a stream, and whose other paths answer with tell.
type stand struct {
	*Server
	t      *testing.T
	dial   func() net.Conn
	stream func() *Stream // returns the stream of the next request
	ended  atomic.Int64   // the number of ended requests for /stream
}

// newStand returns a stand whose requests share the stream s.
func newStand(t *testing.T, s *Stream, change func(*Server)) *stand {
	x := &stand{t: t, stream: func() *Stream { return s }}
	x.Server, x.dial = serveTest(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			tell(w, r)
			return
		}
		x.stream().Attach(w, r).Serve(w, r, func() { x.ended.Add(1) })
	}), change)
	return x
}

const streamHead = "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"

// open sends text, and returns the response to the first request in it.
func (x *stand) open(text string) (*net.TCPConn, *http.Response, *bufio.Reader) {
	x.t.Helper()
	conn := x.dial().(*net.TCPConn)
	_, _ = io.WriteString(conn, text)
	rd := bufio.NewReader(conn)
	resp, err := http.ReadResponse(rd, nil)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		x.t.Fatal(resp, err)
	}
	return conn, resp, rd
}

func (x *stand) waitEnded(n int64) {
	x.t.Helper()
	for end := time.Now().Add(2 * time.Minute); x.ended.Load() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("%d streams have ended", x.ended.Load())
		}
	}
}

// waitQuiet waits until n streams have nothing to do.
func (x *stand) waitQuiet(n int) {
	x.t.Helper()
	if !canWatch {
		x.t.Skip("streams need a goroutine on this system")
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		found := 0
		x.watch.mu.Lock()
		for _, d := range x.watch.streams {
			if d.state.Load() == quiet {
				found++
			}
		}
		x.watch.mu.Unlock()
		if found == n {
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("%d streams are quiet", found)
		}
	}
}

// line reads the next line that begins with prefix.
func line(t *testing.T, rd *bufio.Reader, prefix string) string {
	t.Helper()
	for {
		s, err := rd.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
}

// TestStreamEnds checks how a stream without a goroutine ends, what the client then reads, and whether
// the connection can be used again.
func TestStreamEnds(t *testing.T) {
	for _, c := range []struct {
		name, text string
		do         func(x *stand, s *Stream, conn *net.TCPConn)
		body       string // the end of the body, without keep-alive comments
		cut        bool   // the body must not end well
		stays      bool   // the connection must stay
		next       string // the next answer if the request for it has been sent
	}{
		{name: "end", do: func(_ *stand, s *Stream, _ *net.TCPConn) { s.End() }, stays: true},
		{name: "last event", do: func(_ *stand, s *Stream, _ *net.TCPConn) { _ = s.Push("", []byte("b")); s.End() }, body: "data: b\n\n", stays: true},
		{name: "release", do: func(_ *stand, s *Stream, _ *net.TCPConn) { s.Release() }, body: "retry: 3000\n\n", stays: true},
		{name: "cut", do: func(_ *stand, s *Stream, _ *net.TCPConn) { s.Cut() }, cut: true},
		{name: "client half-closes", do: func(_ *stand, _ *Stream, conn *net.TCPConn) { _ = conn.CloseWrite() }},
		{name: "client closes", do: func(_ *stand, _ *Stream, conn *net.TCPConn) { _ = conn.Close() }, cut: true},
		{name: "client resets", do: func(_ *stand, _ *Stream, conn *net.TCPConn) { _ = conn.SetLinger(0); _ = conn.Close() }, cut: true},
		{name: "server closes", do: func(x *stand, _ *Stream, _ *net.TCPConn) { _ = x.Close() }, cut: true},
		{name: "server shuts down", do: func(x *stand, s *Stream, _ *net.TCPConn) {
			short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if err := x.Shutdown(short); err == nil {
				x.t.Error("Shutdown did not wait")
			}
			_ = s.Push("", []byte("late"))
			s.Release()
			if err := x.Shutdown(context.Background()); err != nil {
				x.t.Error(err)
			}
		}, body: "data: late\n\nretry: 3000\n\n"},
		{name: "last request", text: strings.Replace(streamHead, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1), do: func(_ *stand, s *Stream, _ *net.TCPConn) { s.End() }},
		{name: "HTTP/1.0", text: "GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n", do: func(_ *stand, s *Stream, _ *net.TCPConn) { s.End() }},
		{name: "with a body", text: "GET /stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", do: func(_ *stand, s *Stream, _ *net.TCPConn) { s.End() }, stays: true},
		{name: "next request", text: streamHead + plainGet, do: func(_ *stand, s *Stream, _ *net.TCPConn) { s.End() }, stays: true, next: "GET/a"},
		{name: "next request in pieces", text: streamHead + plainGet[:5], do: func(_ *stand, s *Stream, conn *net.TCPConn) {
			_, _ = io.WriteString(conn, plainGet[5:9])
			s.End()
			time.Sleep(20 * time.Millisecond)
			_, _ = io.WriteString(conn, plainGet[9:])
		}, stays: true, next: "GET/a"},
		{name: "next request during the stream, and no other", do: func(_ *stand, s *Stream, conn *net.TCPConn) {
			_, _ = io.WriteString(conn, plainGet)
			_ = conn.CloseWrite()
			time.Sleep(20 * time.Millisecond)
			_ = s.Push("", []byte("b"))
			s.End()
		}, body: "data: b\n\n", next: "GET/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStream(StreamRules{}, "x-", Wait)
			x := newStand(t, s, soon(10*time.Millisecond))
			if c.text == "" {
				c.text = streamHead
			}
			conn, resp, rd := x.open(c.text)
			if resp.ProtoMinor == 1 && !strings.Contains(c.text, "Content-Length") && canWatch {
				x.waitQuiet(1)
			}
			_ = s.Push("", []byte("a"))
			first := bufio.NewReader(resp.Body)
			line(t, first, "data: a")
			c.do(x, s, conn)
			b, err := io.ReadAll(first)
			if (err != nil) != c.cut || !strings.HasSuffix(string(b), c.body) {
				t.Errorf("%q, %v", b, err)
			}
			x.waitEnded(1)
			if s.Attended() {
				t.Error("the stream still has a connection")
			}
			if c.next != "" {
				if got, err := answer(rd); !strings.HasPrefix(got, c.next) || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			}
			if c.stays {
				if c.next == "" {
					time.Sleep(30 * time.Millisecond)
				}
				_, _ = io.WriteString(conn, plainGet)
				if got, err := answer(rd); !strings.HasPrefix(got, "GET/a") || err != nil {
					t.Errorf("the connection was closed: %q, %v", got, err)
				}
			} else if _, err := rd.ReadByte(); err == nil || isTimeout(err) {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
}

// TestStreamsWithoutGoroutines opens many streams, whose events and keep-alive comments must arrive,
// and counts the goroutines meanwhile.
func TestStreamsWithoutGoroutines(t *testing.T) {
	const streams = 200
	rules := StreamRules{KeepAlive: 300 * time.Millisecond}.Defaults()
	all := make(chan *Stream, streams)
	x := newStand(t, nil, nil)
	x.stream = func() *Stream { return <-all }
	before := runtime.NumGoroutine()
	made := make([]*Stream, streams)
	readers := make([]*bufio.Reader, streams)
	for i := range streams {
		made[i] = new(Stream)
		made[i].Init(rules, "", Discard)
		all <- made[i]
		_, resp, _ := x.open(streamHead)
		readers[i] = bufio.NewReader(resp.Body)
	}
	least := streams
	for end := time.Now().Add(2 * time.Second); canWatch && least > 5 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		least = min(least, runtime.NumGoroutine()-before)
	}
	if canWatch && least > 5 {
		t.Errorf("%d more goroutines", least)
	}
	start := time.Now()
	for i, s := range made {
		if err := s.Push("", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, rd := range readers {
		if got := line(t, rd, "data: "); got != fmt.Sprint(i) {
			t.Errorf("stream %d: %s", i, got)
		}
		line(t, rd, ":") // at least one comment comes after the event
	}
	if took := time.Since(start); took < rules.KeepAlive || took > 20*rules.KeepAlive {
		t.Errorf("the comments took %v", took)
	}
	for _, s := range made {
		s.End()
	}
	x.waitEnded(streams)
}

// TestSlowClient checks that a client that does not read loses its connection after Stall, or as soon
// as the queue is full, that it can resume, and that another client does not notice.
func TestSlowClient(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 1<<20)
	for name, rules := range map[string]StreamRules{
		"stall": {Stall: 300 * time.Millisecond, Bytes: 64 << 20},
		"queue": {Bytes: 4 << 20, Grace: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var slow atomic.Int64
			rules.Slow = func() { slow.Add(1) }
			s := newStream(rules, "x-", Keep)
			x := newStand(t, s, nil)
			x.stream = func() *Stream { return s }
			_, _, _ = x.open(streamHead)
			innocent := newStream(StreamRules{}, "", Discard)
			x.stream = func() *Stream { return innocent }
			_, resp, _ := x.open(streamHead)
			x.waitQuiet(2)
			start := time.Now()
			for range 16 {
				if err := s.Push("", big); err != nil {
					t.Fatal(err)
				}
			}
			_ = innocent.Push("", []byte("hello"))
			line(t, bufio.NewReader(resp.Body), "data: hello")
			x.waitEnded(1)
			took := time.Since(start)
			if name == "stall" && (took < rules.Stall || took > 10*time.Second) || name == "queue" && (slow.Load() != 1 || took > 10*time.Second) {
				t.Errorf("%v, %d", took, slow.Load())
			}
			_ = s.Push("", []byte("newest"))
			s.End()
			x.stream = func() *Stream { return s }
			_, resp, _ = x.open(streamHead)
			line(t, bufio.NewReaderSize(resp.Body, 64<<10), "data: newest")
		})
	}
}

// TestCloseDuringWrite checks that Close doesn't wait for a client that does not read.
func TestCloseDuringWrite(t *testing.T) {
	s := newStream(StreamRules{Bytes: 64 << 20}, "", Discard)
	x := newStand(t, s, nil)
	x.open(streamHead)
	_ = s.Push("", bytes.Repeat([]byte("x"), 16<<20))
	s.End()
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	_ = x.Close()
	x.waitEnded(1)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// TestStreamCrowd lets clients and the server end streams at any time, while events of all sizes are sent.
func TestStreamCrowd(t *testing.T) {
	const clients, turns = 100, 5
	x := newStand(t, nil, soon(time.Millisecond))
	rules := StreamRules{KeepAlive: time.Millisecond, Bytes: 8 << 20}.Defaults()
	var wg sync.WaitGroup
	defer wg.Wait()
	x.stream = func() *Stream {
		s := new(Stream)
		s.Init(rules, "x-", Wait)
		wg.Go(func() {
			for i := range 18 {
				_ = s.Push("", bytes.Repeat([]byte{'a' + byte(i)}, 1<<i))
			}
			s.End()
		})
		return s
	}
	for i := range clients {
		wg.Go(func() {
			conn := x.dial()
			rd := bufio.NewReader(conn)
			for range turns {
				_, _ = io.WriteString(conn, streamHead)
				resp, err := http.ReadResponse(rd, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if i%4 == 0 { // leave in the middle
					_, _ = io.CopyN(io.Discard, resp.Body, int64(i<<10))
					_ = conn.Close()
					conn = x.dial()
					rd = bufio.NewReader(conn)
					continue
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				for n := range 18 {
					if !bytes.Contains(b, fmt.Appendf(nil, "data: %s\n\n", bytes.Repeat([]byte{'a' + byte(n)}, 1<<n))) {
						t.Errorf("event %d is missing", n)
					}
				}
			}
		})
	}
	x.waitEnded(clients * turns)
}
