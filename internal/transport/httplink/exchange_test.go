//go:build unix

package httplink

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// rawServer gives each connection to a script. Its connections are closed when the test ends.
type rawServer struct {
	address  string
	accepted atomic.Int32
	requests atomic.Int32
}

// visit is one connection to a rawServer.
type visit struct {
	*net.TCPConn
	s  *rawServer
	in *bufio.Reader
}

// request reads one request, and reports false at the end of the connection.
func (v *visit) request() (*http.Request, bool) {
	r, err := http.ReadRequest(v.in)
	if err != nil {
		return nil, false
	}
	b, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	v.s.requests.Add(1)
	return r, err == nil
}

func (v *visit) say(text string) { io.WriteString(v, text) }

func rawly(t testing.TB, script func(v *visit, number int)) *rawServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{address: "http://" + ln.Addr().String() + "/mcp"}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			n := int(s.accepted.Add(1))
			running.Go(func() {
				defer c.Close()
				script(&visit{c.(*net.TCPConn), s, bufio.NewReader(c)}, n)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return s
}

func ownLink(t testing.TB, address string) (*Link, *Origin) {
	t.Helper()
	l := mustLink(t, address, Options{})
	o, ok := l.rt.(*Origin)
	if !ok {
		t.Fatalf("%s is left to %T", address, l.rt)
	}
	return l, o
}

// settle waits until cond is true.
func settle(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// peek returns the first bytes that have arrived, which stay where they are.
func peek(c syscall.Conn) string {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	var b [4]byte
	n := 0
	raw.Read(func(fd uintptr) bool {
		n, _, _ = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return true
	})
	return string(b[:max(n, 0)])
}

func call(t testing.TB, l *Link, method string, body []byte) (status int, answer string, err error) {
	t.Helper()
	resp, err := l.Send(t.Context(), method, l.NewHeader(0), body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Close()
	b, err := resp.ReadAll(1 << 20)
	return resp.StatusCode, string(b), err
}

func TestWhoExchanges(t *testing.T) {
	none := func(*http.Request) (*url.URL, error) { return nil, nil }
	proxied := func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "http", Host: "proxy"}, nil }
	for _, tt := range []struct {
		address, host string
		proxy         func(*http.Request) (*url.URL, error)
		dials         string // "" if net/http does
	}{
		{"http://localhost/mcp", "", none, "localhost:80"},
		{"http://127.0.0.1:8080/mcp", "api.example", none, "127.0.0.1:8080"},
		{"http://[::1]:8080/mcp", "", none, "[::1]:8080"},
		{"http://h/", "", proxied, ""},
		{"https://h/", "", none, ""},
		{"http://[fe80::1%25lo]/", "", none, ""},
		{"http://bücher.example/", "", none, ""},
		{"http://h/", "bücher.example", none, ""},
		{"http://h/", "a b", none, ""},
	} {
		u, err := url.Parse(tt.address)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := plainOrigin(u, tt.host, tt.proxy).(*Origin)
		if (o != nil) != (tt.dials != "") || o != nil && o.pool.address != tt.dials {
			t.Errorf("%s with the host %q: %+v", tt.address, tt.host, o)
		}
	}
}

// TestSameBytes compares a request with the one that net/http sends, and expects it in one piece.
func TestSameBytes(t *testing.T) {
	pieces := make(chan string, 64)
	s := rawly(t, func(v *visit, _ int) {
		b := make([]byte, 64<<10)
		for {
			n, err := v.Read(b)
			if err != nil {
				return
			}
			pieces <- string(b[:n])
			if all := string(b[:n]); !strings.Contains(all, "Content-Length: 2\r\n") || strings.HasSuffix(all, "{}") {
				v.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}
	})
	for _, tt := range []struct {
		method, path string
		header       []transport.HeaderField
		body         []byte
	}{
		{"POST", "", nil, []byte("{}")},
		{"POST", "?a=b%20c", nil, nil},
		{"GET", "/x%2Fy", nil, nil},
		{"DELETE", "", []transport.HeaderField{{Name: "mcp-session-id", Value: " a b\t"}}, nil},
		{"POST", "", []transport.HeaderField{{Name: "X-B", Value: "1"}, {Name: "X-B", Value: "2"}, {Name: "X-A", Value: "é"}, {Name: "X-C", Value: ""}}, []byte("{}")},
		{"POST", "", []transport.HeaderField{{Name: "Host", Value: "api.example:80"}, {Name: "User-Agent", Value: ""}}, []byte("{}")},
		{"POST", "", []transport.HeaderField{{Name: "Content-Length", Value: "7"}, {Name: "Transfer-Encoding", Value: "chunked"}, {Name: "Trailer", Value: "X"}, {Name: "Connection", Value: "close"}}, []byte("{}")},
	} {
		var sent [2]string
		for i, rt := range []http.RoundTripper{nil, DefaultTransport()} {
			l := mustLink(t, s.address+tt.path, Options{HTTP: rt, Header: tt.header})
			if _, _, err := call(t, l, tt.method, tt.body); err != nil {
				t.Fatal(err)
			}
			sent[i] = <-pieces
			if own := rt == nil; !own {
				if len(tt.body) > 0 && !strings.HasSuffix(sent[i], "{}") {
					sent[i] += <-pieces
				}
				rt.(*http.Transport).CloseIdleConnections()
			}
		}
		if sent[0] != sent[1] {
			t.Errorf("%s %s: %q, but net/http sends %q", tt.method, tt.path, sent[0], sent[1])
		}
	}
}

// TestConnections checks after which answers a connection is used again. The first answer is to a
// POST. The second request must always be answered, and the server must get it once.
func TestConnections(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, tt := range map[string]struct {
		answer string
		then   string // what else happens to the connection: "close" by the server, "leave" the body unread
		again  bool
	}{
		"a length":                        {ok + "Content-Length: 2\r\n\r\n{}", "", true},
		"no body":                         {ok + "Content-Length: 0\r\n\r\n", "", true},
		"no content":                      {"HTTP/1.1 204 No Content\r\n\r\n", "", true},
		"no content of length 0":          {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "", true},
		"chunks":                          {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "", true},
		"chunks and a trailer":            {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-A: b\r\n\r\n", "", true},
		"1.0 with keep-alive":             {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\n{}", "", true},
		"1.0":                             {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", "", false},
		"close":                           {ok + "Connection: x, Close\r\nContent-Length: 2\r\n\r\n{}", "", false},
		"until the end":                   {ok + "\r\n{}", "close", false},
		"closed while idle":               {ok + "Content-Length: 2\r\n\r\n{}", "close", false},
		"closed while idle, no body":      {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", "close", false},
		"more than the length":            {ok + "Content-Length: 2\r\n\r\n{}{}", "", false},
		"a second answer":                 {ok + "Content-Length: 2\r\n\r\n{}" + ok + "Content-Length: 4\r\n\r\nevil", "", false},
		"more than the chunks":            {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n0", "", false},
		"a late second answer":            {ok + "Content-Length: 2\r\n\r\n{}", ok + "Content-Length: 4\r\n\r\nevil", false},
		"no content, with a length":       {"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n", "evil", false},
		"no content, with chunks":         {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n", false},
		"switching protocols":             {"HTTP/1.1 101 Switching Protocols\r\n\r\n", "", false},
		"unread":                          {ok + "Content-Length: 20000\r\n\r\n{}", "leave", false},
		"a server that wants no reuse":    {ok + "Keep-Alive: max=5, timeout=0\r\nContent-Length: 2\r\n\r\n{}", "", false},
		"bare LF":                         {"HTTP/1.1 200 OK\nX: y\nContent-Length: 2\n\n{}", "", false},
		"a bare LF before the body":       {ok + "Content-Length: 2\r\n\n{}", "", false},
		"a bare LF in an interim answer":  {"HTTP/1.1 103 Early Hints\n\r\n" + ok + "Content-Length: 2\r\n\r\n{}", "", false},
		"bare LF, no body":                {"HTTP/1.1 202 Accepted\nContent-Length: 0\n\n", "", false},
		"the same length twice":           {ok + "Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}", "", true},
		"a server that says for how long": {ok + "Keep-Alive: max=5, timeout=5\r\nContent-Length: 2\r\n\r\n{}", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			ready, done := make(chan bool, 1), make(chan bool, 1)
			s := rawly(t, func(v *visit, n int) {
				if n == 1 {
					v.request()
					v.say(tt.answer)
					switch tt.then {
					case "close":
						v.CloseWrite()
						done <- true
						io.Copy(io.Discard, v)
						return
					case "", "leave":
					default:
						<-ready
						v.say(tt.then)
						done <- true
					}
				}
				for {
					if _, ok := v.request(); !ok {
						return
					}
					v.say(ok + "Content-Length: 6\r\n\r\nsecond")
				}
			})
			l, o := ownLink(t, s.address)
			resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if tt.then != "leave" {
				if _, err := resp.ReadAll(100); err != nil {
					t.Fatal(err)
				}
			}
			resp.Close()
			if tt.then != "" && tt.then != "leave" {
				ready <- true
				<-done
				for _, w := range o.pool.idle {
					settle(t, "for the news from the server", func() bool { return !w.quiet() })
				}
			}
			if _, answer, err := call(t, l, "POST", []byte("{}")); answer != "second" || err != nil {
				t.Errorf("the second request got %q, %v", answer, err)
			}
			if n := s.accepted.Load(); n == 1 != tt.again || s.requests.Load() != 2 {
				t.Errorf("%d requests over %d connections", s.requests.Load(), n)
			}
		})
	}
}

// TestNothingTwice breaks the connection at each point of an exchange.
func TestNothingTwice(t *testing.T) {
	for _, tt := range []struct {
		name    string
		method  string
		first   func(v *visit) // what the server does to the first connection after its first answer
		mute    bool           // our side of the idle connection can't send any more
		unsent  bool           // transport.ErrNotSent
		want    string         // the answer, "" for an error
		arrives int32          // requests at the server, with the first
	}{
		{"POST, closed without an answer", "POST", func(v *visit) { v.request() }, false, false, "", 2},
		{"POST, reset without an answer", "POST", func(v *visit) { v.request(); v.SetLinger(0) }, false, false, "", 2},
		{"POST, half a head", "POST", func(v *visit) { v.request(); v.say("HTTP/1.1 200 OK\r\nContent-Le") }, false, false, "", 2},
		{"GET, closed without an answer", "GET", func(v *visit) { v.request() }, false, false, "ok", 3},
		{"GET, half a head", "GET", func(v *visit) { v.request(); v.say("HTTP/1.1 ") }, false, false, "", 2},
		{"DELETE, closed without an answer", "DELETE", func(v *visit) { v.request() }, false, false, "", 2},
		{"POST, nothing written", "POST", func(v *visit) { io.Copy(io.Discard, v); <-time.After(50 * time.Millisecond) }, true, false, "ok", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := rawly(t, func(v *visit, n int) {
				for {
					if _, ok := v.request(); !ok {
						return
					}
					v.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					if n == 1 {
						tt.first(v)
						return
					}
				}
			})
			l, o := ownLink(t, s.address)
			var body []byte
			if tt.method == "POST" {
				body = []byte("{}")
			}
			if _, _, err := call(t, l, tt.method, body); err != nil {
				t.Fatal(err)
			}
			if tt.mute {
				o.pool.idle[0].Conn.(*net.TCPConn).CloseWrite()
			}
			_, answer, err := call(t, l, tt.method, body)
			if answer != tt.want || (err == nil) != (tt.want != "") || errors.Is(err, transport.ErrNotSent) != tt.unsent {
				t.Errorf("%q, %v", answer, err)
			}
			if n := s.requests.Load(); n != tt.arrives {
				t.Errorf("the server got %d requests", n)
			}
		})
	}
	t.Run("nothing written to a new connection", func(t *testing.T) {
		s := rawly(t, func(v *visit, n int) { v.request() })
		l, o := ownLink(t, s.address)
		dial, dials := o.pool.dial, 0
		o.pool.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			c, err := dial(ctx, network, address)
			if err == nil {
				c.(*net.TCPConn).CloseWrite()
			}
			return c, err
		}
		if _, _, err := call(t, l, "POST", []byte("{}")); !errors.Is(err, transport.ErrNotSent) || dials != 1 {
			t.Errorf("%v after %d connections", err, dials)
		}
	})
}

// TestEarlyAnswers checks servers that answer before they have read the whole request.
func TestEarlyAnswers(t *testing.T) {
	for name, after := range map[string]func(v *visit, hold chan bool){
		"and do nothing":      func(v *visit, hold chan bool) { <-hold },
		"and close":           func(v *visit, _ chan bool) { v.CloseWrite(); io.CopyN(io.Discard, v, 1<<20) },
		"and read the rest":   func(v *visit, _ chan bool) { io.Copy(io.Discard, v) },
		"and read half of it": func(v *visit, hold chan bool) { io.CopyN(io.Discard, v, 4<<20); <-hold },
	} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan bool)
			s := rawly(t, func(v *visit, n int) {
				if n > 1 {
					v.request()
					v.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					return
				}
				for {
					line, err := v.in.ReadString('\n')
					if err != nil {
						return
					}
					if line == "\r\n" {
						break
					}
				}
				v.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
				after(v, hold)
			})
			defer close(hold)
			l, o := ownLink(t, s.address)
			if status, answer, err := call(t, l, "POST", make([]byte, 48<<20)); status != 413 || answer != "big" || err != nil {
				t.Fatalf("%d %q, %v", status, answer, err)
			}
			if name == "and read the rest" {
				return // it may have done so in time
			}
			if n := len(o.pool.idle); n != 0 {
				t.Errorf("%d connections are kept", n)
			}
			if _, answer, err := call(t, l, "POST", []byte("{}")); answer != "ok" || err != nil {
				t.Errorf("the next request got %q, %v", answer, err)
			}
		})
	}
}

// TestAnswerToWhoDoesNotRead checks a server that answers and closes before it reads anything, so
// that the rest of the request can't be written any more.
func TestAnswerToWhoDoesNotRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems may drop what has arrived when the connection is reset")
	}
	s := rawly(t, func(v *visit, _ int) {
		v.say("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy")
	})
	l, o := ownLink(t, s.address)
	dial := o.pool.dial
	o.pool.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err == nil {
			w := c.(syscall.Conn)
			settle(t, "for the answer", func() bool { return peek(w) == "HTTP" })
		}
		return c, err
	}
	if status, answer, err := call(t, l, "POST", make([]byte, 1<<20)); status != 503 || answer != "busy" || err != nil {
		t.Errorf("%d %q, %v", status, answer, err)
	}
}

// TestLongBodies checks that bodies of all sizes arrive, over one connection.
func TestLongBodies(t *testing.T) {
	s := rawly(t, func(v *visit, _ int) {
		for {
			r, ok := v.request()
			if !ok {
				return
			}
			b, _ := io.ReadAll(r.Body)
			fmt.Fprintf(v, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
		}
	})
	l, _ := ownLink(t, s.address)
	body := make([]byte, 12<<20)
	for i := range body {
		body[i] = byte('a' + i*i%26)
	}
	for _, n := range []int{1, joined - 1, joined, joined + 1, 64 << 10, 1 << 20, 12 << 20, 3} {
		resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), body[:n])
		if err != nil {
			t.Fatal(err)
		}
		if b, err := resp.ReadAll(16 << 20); !bytes.Equal(b, body[:n]) || err != nil {
			t.Errorf("%d bytes came back as %d, %v", n, len(b), err)
		}
		resp.Close()
	}
	if n := s.accepted.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestTheContextEnds ends the context at each point of an exchange.
func TestTheContextEnds(t *testing.T) {
	gone := errors.New("caller is gone")
	arrived := make(chan bool, 1)
	hold := make(chan bool)
	s := rawly(t, func(v *visit, _ int) {
		for {
			line, err := v.in.ReadString('\n')
			if err != nil {
				return
			}
			switch line {
			case "X-Test: head\r\n":
				v.say("HTTP/1.1 200 OK\r\nContent-Le")
			case "X-Test: body\r\n":
				v.say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
			case "X-Test: chunk\r\n":
				v.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n")
			case "\r\n":
				arrived <- true
				<-hold
				return
			}
		}
	})
	defer close(hold)
	l, o := ownLink(t, s.address)
	dial := o.pool.dial
	for _, at := range []string{"dial", "write", "answer", "head", "body", "chunk"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		body := []byte("{}")
		o.pool.dial = dial
		switch at {
		case "dial":
			o.pool.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				arrived <- true
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
			}
		case "write":
			body = make([]byte, 12<<20)
		}
		result := make(chan error, 1)
		go func() {
			h := l.NewHeader(1)
			h["X-Test"] = []string{at}
			resp, err := l.Send(ctx, "POST", h, body)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Close()
			}
			clear(body) // nobody reads it any more; the race detector watches
			result <- err
		}()
		<-arrived
		cancel(gone)
		select {
		case err := <-result:
			if !errors.Is(err, gone) || errors.Is(err, transport.ErrNotSent) != (at == "dial") {
				t.Errorf("%s: %v", at, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: the exchange goes on", at)
		}
	}
	if len(o.pool.idle) > 0 {
		t.Errorf("%d connections are kept", len(o.pool.idle))
	}
}

// TestRefusedHeads lists answers that are errors, with a part of the text.
func TestRefusedHeads(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct{ answer, text string }{
		{"", "EOF"},
		{"HTTP/1.1 200 OK\r\nX: y", "unexpected EOF"},
		{"\x15\x03\x01\x00\x02\x02\x46", `malformed HTTP response "\x15\x03`},
		{"SSH-2.0-OpenSSH\r\n\r\n", `malformed HTTP response "SSH-2.0-OpenSSH"`},
		{"HTTP/2.0 200 OK\r\n\r\n", "malformed HTTP version"},
		{"HTTP/1.10 200 OK\r\n\r\n", "malformed HTTP version"},
		{"http/1.1 200 OK\r\n\r\n", "malformed HTTP version"},
		{"HTTP/1.1 20 OK\r\n\r\n", "malformed HTTP status code"},
		{"HTTP/1.1 +20 OK\r\n\r\n", "malformed HTTP status code"},
		{"HTTP/1.1 099 OK\r\n\r\n", "malformed HTTP status code"},
		{"HTTP/1.1\t200 OK\r\n\r\n", "malformed HTTP status code"},
		{"HTTP/1.1 200 O\x00K\r\n\r\n", "malformed HTTP response"},
		{"HTTP/1.1 200 OK\r\r\n\r\n", "malformed HTTP response"},
		{"HTTP/1.1 200 OK\rX: y\r\n\r\n", "malformed HTTP response"},
		{ok + "X: y\n z: folded\n\n", "malformed MIME header line"},
		{ok + "X: y\rContent-Length: 2\r\n\r\n", "malformed MIME header line"},
		{ok + "X: y\x00\r\n\r\n", "malformed MIME header line"},
		{ok + "X: y\x7f\r\n\r\n", "malformed MIME header line"},
		{ok + "X\r\n\r\n", "missing colon"},
		{ok + ": y\r\n\r\n", "malformed MIME header line"},
		{ok + "Content-Length : 2\r\n\r\n{}", "malformed MIME header line"},
		{ok + "X: y\r\n z: folded\r\n\r\n", "malformed MIME header line"},
		{ok + "X: y\r\n\tfolded\r\n\r\n", "missing colon"},
		{ok + " X: y\r\n\r\n", "malformed MIME header line"},
		{ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "multiple Content-Length"},
		{ok + "Content-Length: 2\ncontent-length: 02\n\n{}", "multiple Content-Length"},
		{ok + "Content-Length: 2, 2\r\n\r\n{}", "bad Content-Length"},
		{ok + "Content-Length: +2\r\n\r\n{}", "bad Content-Length"},
		{ok + "Content-Length: -2\r\n\r\n{}", "bad Content-Length"},
		{ok + "Content-Length: 0x2\r\n\r\n{}", "bad Content-Length"},
		{ok + "Content-Length: \r\n\r\n{}", "bad Content-Length"},
		{ok + "Content-Length: 99999999999999999999\r\n\r\n{}", "bad Content-Length"},
		{ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "both Content-Length and Transfer-Encoding"},
		{ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "too many transfer encodings"},
		{ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "unsupported transfer encoding"},
		{ok + "Transfer-Encoding: identity\r\n\r\n{}", "unsupported transfer encoding"},
		{ok + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", "malformed MIME header line"},
		{ok + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "unsupported transfer encoding"},
		{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "unsupported transfer encoding"},
		{ok + "X: " + strings.Repeat("y", maxHead) + "\r\n\r\n", "exceeded 131072 bytes"},
		{ok + strings.Repeat("X: y\r\n", maxHead/6) + "\r\n", "exceeded 131072 bytes"},
		{strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", maxHead/20), "exceeded 131072 bytes"},
		// Bodies.
		{ok + "Content-Length: 5\r\n\r\n{}", "unexpected EOF"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "unexpected EOF"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", "unexpected EOF"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n", "malformed chunked encoding"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", "bare LF"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n", "invalid byte in chunk length"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n", "invalid byte in chunk length"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n\r\n{}\r\n0\r\n\r\n", "empty hex number"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n", "too large"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 5000) + "\r\n{}\r\n0\r\n\r\n", "line too long"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 3000)+"\r\n{\r\n", 10) + "0\r\n\r\n", "too much non-data"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX\r\n\r\n", "missing colon"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\n\r\n", "malformed"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + strings.Repeat("y", maxTrailer) + "\r\n\r\n", "long trailer"},
	} {
		s := rawly(t, func(v *visit, _ int) {
			v.request()
			v.say(tt.answer)
		})
		l, o := ownLink(t, s.address)
		_, answer, err := call(t, l, "POST", []byte("{}"))
		short := tt.answer[:min(len(tt.answer), 200)]
		if err == nil || !strings.Contains(err.Error(), tt.text) || errors.Is(err, transport.ErrNotSent) {
			t.Errorf("%q: %q, %v, want %q", short, answer, err, tt.text)
		}
		if len(o.pool.idle) > 0 {
			t.Errorf("%q: the connection is kept", short)
		}
	}
}

func TestInterimAnswers(t *testing.T) {
	s := rawly(t, func(v *visit, _ int) {
		v.request()
		v.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\nContent-Length: 5\r\n\r\n")
		v.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	})
	l, _ := ownLink(t, s.address)
	if status, answer, err := call(t, l, "POST", []byte("{}")); status != 200 || answer != "ok" || err != nil {
		t.Errorf("%d %q, %v", status, answer, err)
	}
}

// TestStreams checks that a body is delivered as it comes, without a goroutine, and that it can be
// closed while somebody waits for more.
func TestStreams(t *testing.T) {
	next := make(chan string)
	s := rawly(t, func(v *visit, _ int) {
		v.request()
		v.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for text := range next {
			fmt.Fprintf(v, "%x\r\n%s\r\n", len(text), text)
		}
		v.in.ReadByte() // until the client closes
	})
	l, _ := ownLink(t, s.address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := l.rt.(*Origin)
	before := runtime.NumGoroutine()
	resp, err := l.Send(ctx, "GET", l.NewHeader(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	for _, text := range []string{"data: 1\n\n", "data: 2\n\n"} {
		next <- text
		if n, err := resp.Body.Read(b); string(b[:n]) != text || err != nil {
			t.Errorf("read %q, %v", b[:n], err)
		}
	}
	if n := runtime.NumGoroutine(); n > before+1 { // the server has one for the connection
		t.Errorf("%d goroutines more", n-before)
	}
	timer := time.AfterFunc(20*time.Millisecond, func() { resp.Body.Close() })
	defer timer.Stop()
	if n, err := resp.Body.Read(b); n > 0 || err == nil || err == io.EOF {
		t.Errorf("read %d bytes, %v", n, err)
	}
	close(next)
	if len(o.pool.idle) > 0 {
		t.Error("the connection is kept")
	}
}

// TestIdleConnections checks the limits of the pool.
func TestIdleConnections(t *testing.T) {
	var open atomic.Int32
	all := make(chan bool)
	s := rawly(t, func(v *visit, _ int) {
		open.Add(1)
		defer open.Add(-1)
		for {
			if _, ok := v.request(); !ok {
				return
			}
			<-all
			v.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	l, o := ownLink(t, s.address)
	var calls sync.WaitGroup
	for range maxIdle + 10 {
		calls.Go(func() { call(t, l, "POST", []byte("{}")) })
	}
	settle(t, "for the requests", func() bool { return s.requests.Load() == maxIdle+10 })
	close(all)
	calls.Wait()
	if n := len(o.pool.idle); n != maxIdle {
		t.Errorf("%d idle connections", n)
	}
	if d := time.Until(o.pool.due); d < idleTime-10*time.Second || d > idleTime {
		t.Errorf("they are closed in %v", d)
	}
	settle(t, "for the surplus to close", func() bool { return open.Load() == maxIdle })
	for _, w := range o.pool.idle[:6] {
		w.until = time.Now()
	}
	o.pool.setLocked(time.Now())
	settle(t, "for the old ones to close", func() bool { return open.Load() == maxIdle-6 })
	o.pool.mu.Lock()
	if d := time.Until(o.pool.due); len(o.pool.idle) != maxIdle-6 || d < idleTime-20*time.Second {
		t.Errorf("%d are left, for %v", len(o.pool.idle), d)
	}
	for _, w := range o.pool.idle {
		w.until = time.Now()
	}
	o.pool.mu.Unlock()
	if _, answer, err := call(t, l, "POST", []byte("{}")); answer != "ok" || err != nil {
		t.Errorf("%q, %v", answer, err)
	}
	if n := s.accepted.Load(); n != maxIdle+11 {
		t.Errorf("an old connection was used: %d", n)
	}
	l.Close()
	settle(t, "for all to close", func() bool { return open.Load() == 0 })
	if _, answer, err := call(t, l, "POST", []byte("{}")); answer != "ok" || err != nil {
		t.Errorf("after Close: %q, %v", answer, err)
	}
}

// TestCloseDuringAnExchange checks that a connection which is busy at Close is closed afterwards.
func TestCloseDuringAnExchange(t *testing.T) {
	hold := make(chan bool)
	s := rawly(t, func(v *visit, _ int) {
		for {
			if _, ok := v.request(); !ok {
				return
			}
			<-hold
			v.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	l, o := ownLink(t, s.address)
	var calls sync.WaitGroup
	calls.Go(func() { call(t, l, "POST", []byte("{}")) })
	settle(t, "for the request", func() bool { return s.requests.Load() == 1 })
	l.Close()
	close(hold)
	calls.Wait()
	if len(o.pool.idle) > 0 {
		t.Error("the connection is kept")
	}
	call(t, l, "POST", []byte("{}"))
	if len(o.pool.idle) != 1 {
		t.Error("the connection of a later request is not kept")
	}
}

// TestManyCallers lets callers come and go, and checks that each answer is the caller's own. It is
// for the race detector.
func TestManyCallers(t *testing.T) {
	s := rawly(t, func(v *visit, _ int) {
		for i := 0; ; i++ {
			r, ok := v.request()
			if !ok {
				return
			}
			b, _ := io.ReadAll(r.Body)
			switch rand.N(8) {
			case 0:
				return
			case 1:
				fmt.Fprintf(v, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(b), b)
				runtime.Gosched()
				v.say("0\r\n\r\n")
			case 2:
				fmt.Fprintf(v, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
				return
			default:
				fmt.Fprintf(v, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
			}
		}
	})
	l, _ := ownLink(t, s.address)
	var callers sync.WaitGroup
	var answered atomic.Int32
	for c := range 8 {
		callers.Go(func() {
			for i := range 150 {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.N(3) == 0 {
					time.AfterFunc(time.Duration(rand.N(2000))*time.Microsecond, cancel)
				}
				body := bytes.Repeat(fmt.Appendf(nil, "<%d.%d>", c, i), 1+rand.N(5000))
				resp, err := l.Send(ctx, "POST", l.NewHeader(0), body)
				if err == nil {
					closing := time.AfterFunc(time.Duration(rand.N(5000))*time.Microsecond, func() { resp.Body.Close() })
					b, err := resp.ReadAll(1 << 20)
					if err == nil && !bytes.Equal(b, body) {
						t.Errorf("caller %d got another's answer: %.40q", c, b)
					} else if err == nil {
						answered.Add(1)
					}
					closing.Stop()
					resp.Close()
				}
				clear(body)
				cancel()
			}
		})
	}
	callers.Wait()
	if answered.Load() < 200 {
		t.Errorf("only %d answers", answered.Load())
	}
}

// TestTryTwoParts writes two parts to a server that reads late, and checks that try says how many bytes the
// kernel has taken, and that these are the first ones.
func TestTryTwoParts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, sizes := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {300, 20_000}, {300, 64 << 20}, {64 << 20, 300}, {64 << 20, 1 << 20}} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		w, err := newWire(c)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		all := make([]byte, sizes[0]+sizes[1])
		for i := range all {
			all[i] = byte(i % 251)
		}
		n, err := w.try(all[:sizes[0]], all[sizes[0]:])
		if err != nil || n > len(all) || n < min(len(all), 30_000) {
			t.Errorf("%v: %d bytes, %v", sizes, n, err)
		}
		c.Close()
		got, err := io.ReadAll(peer)
		peer.Close()
		if err != nil || !bytes.Equal(got, all[:n]) {
			t.Errorf("%v: try took %d bytes, and the server got %d others: %v", sizes, n, len(got), err)
		}
		if n, err = w.try([]byte("a"), []byte("b")); n != 0 || err == nil {
			t.Errorf("after Close: %d, %v", n, err)
		}
	}
}
