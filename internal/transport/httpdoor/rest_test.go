package httpdoor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// resting returns the number of connections that rest.
func resting(hs *Server) int {
	hs.watch.mu.Lock()
	defer hs.watch.mu.Unlock()
	return len(hs.watch.resting)
}

// rested waits until n connections rest.
func rested(t *testing.T, hs *Server, n int) {
	t.Helper()
	if !canWatch {
		time.Sleep(10 * hs.watch.after)
		return
	}
	for end := time.Now().Add(2 * time.Minute); resting(hs) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections rest", resting(hs))
		}
	}
}

// tell answers with what the server knows about the request.
var tell = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprint(w, r.Method, r.URL.Path, r.Header["X"], string(body), err, " ", ConnectionOf(r), r.RemoteAddr)
})

func soon(d time.Duration) func(*Server) {
	return func(hs *Server) { hs.watch.after = d }
}

// answer reads one response.
func answer(rd *bufio.Reader) (string, error) {
	resp, err := http.ReadResponse(rd, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

const plainGet = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"

// TestRequestsInPieces cuts a stream of three requests into two at each byte, and lets the connection
// rest there if it will. The answers must be the same wherever the cut is.
func TestRequestsInPieces(t *testing.T) {
	const after = 20 * time.Millisecond
	hs, dial := serveTest(t, tell, soon(after))
	text := plainGet +
		"POST /b HTTP/1.1\r\nHost: localhost\r\nX: 1\r\nContent-Length: 3\r\n\r\n{}\n" +
		"POST /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
	var wg sync.WaitGroup
	defer wg.Wait()
	for cut := 1; cut < len(text); cut++ {
		conn := dial()
		wg.Go(func() {
			rd := bufio.NewReader(conn)
			_, _ = io.WriteString(conn, text[:cut])
			time.Sleep(4 * after)
			_, _ = io.WriteString(conn, text[cut:])
			for turn := range 2 {
				number := ""
				for _, want := range []string{"GET/a[]<nil> ", "POST/b[1]{}\n<nil> ", "POST/c[]{}<nil> "} {
					got, err := answer(rd)
					about, ok := strings.CutPrefix(got, want)
					if err != nil || !ok || number != "" && about != number || !strings.HasSuffix(about, conn.LocalAddr().String()) {
						t.Errorf("cut at %d, turn %d: %q, %v", cut, turn, got, err)
						return
					}
					number = about
				}
				if turn == 0 {
					time.Sleep(4 * after)
					_, _ = io.WriteString(conn, text)
				}
			}
		})
	}
	wg.Wait()
	rested(t, hs, len(text)-1)
}

// TestRestEnds checks how a connection that rests can end, and that the server forgets it then.
func TestRestEnds(t *testing.T) {
	const after = 20 * time.Millisecond
	for name, c := range map[string]struct {
		change func(*Server)
		do     func(hs *Server, conn *net.TCPConn)
		least  time.Duration
		want   string // what the client reads before the end
	}{
		"client closes":      {do: func(_ *Server, conn *net.TCPConn) { _ = conn.CloseWrite() }},
		"client resets":      {do: func(_ *Server, conn *net.TCPConn) { _ = conn.SetLinger(0); _ = conn.Close() }},
		"last request":       {do: func(_ *Server, conn *net.TCPConn) { _, _ = io.WriteString(conn, plainGet); _ = conn.CloseWrite() }, want: "200 OK"},
		"no HTTP":            {do: func(_ *Server, conn *net.TCPConn) { _, _ = io.WriteString(conn, "GET\r\n\r\n") }, want: "400 Bad Request"},
		"idle timeout":       {change: func(hs *Server) { hs.IdleTimeout = 200 * time.Millisecond }, least: 200 * time.Millisecond},
		"short idle timeout": {change: func(hs *Server) { hs.IdleTimeout = 10 * time.Millisecond }, least: 10 * time.Millisecond},
		"slow head":          {change: func(hs *Server) { hs.ReadHeaderTimeout = 100 * time.Millisecond }, least: 100 * time.Millisecond, do: func(_ *Server, conn *net.TCPConn) { _, _ = io.WriteString(conn, plainGet[:8]) }, want: "400 Bad Request"},
		"close":              {do: func(hs *Server, _ *net.TCPConn) { _ = hs.Close() }},
		"shutdown":           {do: func(hs *Server, _ *net.TCPConn) { _ = hs.Shutdown(context.Background()) }},
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(name, early), func(t *testing.T) {
				hs, dial := serveTest(t, tell, func(hs *Server) {
					hs.watch.after = after
					if c.change != nil {
						c.change(hs)
					}
				})
				conn := dial().(*net.TCPConn)
				rd := bufio.NewReader(conn)
				start := time.Now()
				_, _ = io.WriteString(conn, plainGet)
				if got, err := answer(rd); err != nil {
					t.Fatal(got, err)
				}
				if !early && hs.IdleTimeout > after {
					rested(t, hs, 1)
				}
				if c.do != nil {
					c.do(hs, conn)
				}
				if b, err := io.ReadAll(rd); c.want == "" && len(b) > 0 || !strings.Contains(string(b), c.want) || isTimeout(err) {
					t.Errorf("%q, %v", b, err)
				}
				if took := time.Since(start); took < c.least || took > c.least+5*time.Second {
					t.Errorf("the connection ended after %v", took)
				}
				rested(t, hs, 0)
			})
		}
	}
}

// TestRestingCrowd opens many connections that rest, send requests, and end at any time.
func TestRestingCrowd(t *testing.T) {
	connections := 5000
	if testing.Short() {
		connections = 500
	}
	hs, dial := serveTest(t, tell, soon(2*time.Millisecond))
	var wg sync.WaitGroup
	places := make(chan struct{}, 200)
	for i := range connections {
		places <- struct{}{}
		conn := dial()
		wg.Go(func() {
			defer func() { _ = conn.Close(); <-places }()
			rd := bufio.NewReader(conn)
			for turn := range 3 {
				path := fmt.Sprintf("/%d-%d", i, turn)
				_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
				got, failed := answer(rd)
				if err = errors.Join(err, failed); err != nil || !strings.HasPrefix(got, "GET"+path+"[]<nil> ") {
					t.Errorf("%s: %q, %v", path, got, err)
					return
				}
				time.Sleep(time.Duration(i%4) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	rested(t, hs, 0)
}

// TestShrink checks that memory is given back after many connections have begun to rest, and that somebody who
// lets connections rest again and again can't make us collect the garbage all the time.
func TestShrink(t *testing.T) {
	if !canWatch {
		t.Skip("connections don't rest on this system")
	}
	collections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	hs, dial := serveTest(t, tell, soon(time.Millisecond))
	crowd := make([]net.Conn, shrinkAt)
	for i := range crowd {
		crowd[i] = dial()
	}
	allRest := func() {
		for _, conn := range crowd {
			_, _ = io.WriteString(conn, plainGet)
			if _, err := answer(bufio.NewReader(conn)); err != nil {
				t.Fatal(err)
			}
		}
		rested(t, hs, len(crowd))
	}
	before := collections()
	began := time.Now()
	allRest()
	for end := time.Now().Add(2 * time.Minute); collections() < before+2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no memory was given back")
		}
	}
	allRest()
	time.Sleep(shrinkAfter * 3 / 2)
	if n := collections() - before; n != 2 && time.Since(began) < shrinkEvery {
		t.Errorf("%d collections", n)
	}
}
