//go:build unix

package daemon

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// rawMessage reads the body of one HTTP message, and allocates nothing unless the body needs more room
// than buf has.
func rawMessage(in *bufio.Reader, buf []byte) ([]byte, error) {
	n := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if len(line) <= 2 {
			break
		}
		const length = "content-length:"
		if len(line) > len(length) && strings.EqualFold(string(line[:len(length)]), length) {
			n = 0
			for _, c := range bytes.TrimSpace(line[len(length):]) {
				n = 10*n + int(c-'0')
			}
		}
	}
	if n > cap(buf) {
		buf = make([]byte, n)
	}
	_, err := io.ReadFull(in, buf[:n])
	return buf[:n], err
}

// appendRaw appends the answer of a modern server to a request, without allocating. A call gets text.
func appendRaw(out, request []byte, text string) []byte {
	id := request[bytes.Index(request, []byte(`"id":`))+5:]
	id = id[:bytes.IndexAny(id, ",}")]
	out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), id...), `,"result":{"resultType":"complete",`...)
	switch {
	case bytes.Contains(request, []byte("server/discover")):
		return append(out, `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`...)
	case bytes.Contains(request, []byte("tools/list")):
		return append(out, `"ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`...)
	}
	return append(append(append(out, `"content":[{"type":"text","text":"`...), text...), `"}]}}`...)
}

// rawServer is a server over HTTP that allocates nothing for a call, so that a test can count what we
// allocate.
func rawServer(t testing.TB, text string) config.Server {
	t.Helper()
	return rawAt(t, text, "application/json", "", "")
}

// rawEvents is the same with event streams as answers.
func rawEvents(t testing.TB, text string) config.Server {
	t.Helper()
	return rawAt(t, text, "text/event-stream", "event: message\ndata: ", "\n\n")
}

func rawAt(t testing.TB, text, media, prefix, suffix string) config.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	serve := func(c net.Conn) {
		in, buf, body, out := bufio.NewReaderSize(c, 64<<10), make([]byte, 2<<20), []byte(nil), []byte(nil)
		for {
			b, err := rawMessage(in, buf)
			if err != nil {
				return
			}
			body = append(appendRaw(append(body[:0], prefix...), b, text), suffix...)
			out = append(append(append(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: "...), media...), "\r\nContent-Length: "...)
			out = append(strconv.AppendInt(out, int64(len(body)), 10), "\r\n\r\n"...)
			out = append(out, body...)
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return complete(t, config.Server{Name: "s", URL: "http://" + l.Addr().String() + "/mcp"})
}

// rawChild is the same as a child process, which counts its own allocations.
func rawChild(t testing.TB, text string) config.Server {
	return complete(t, config.Server{Name: "s", Command: os.Args[0], Dir: t.TempDir(), Env: childEnv(fmt.Sprint("raw ", len(text)), "")})
}

func complete(t testing.TB, s config.Server) config.Server {
	t.Helper()
	s, problem := config.Complete(s)
	if problem != nil {
		t.Fatal(problem)
	}
	return s
}

// runAsRaw runs the process as the server of rawChild.
func runAsRaw(size int) {
	in, out, text := bufio.NewReaderSize(os.Stdin, 2<<20), []byte(nil), strings.Repeat("x", size)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if bytes.Contains(line, []byte(`"id":`)) {
			out = append(appendRaw(out[:0], line, text), '\n')
			if _, err := os.Stdout.Write(out); err != nil {
				return
			}
		}
	}
}

// rawCall returns a function that sends a call to the program over one connection and reads the answer,
// and allocates nothing.
func rawCall(t testing.TB, server config.Server, text string) (call func()) {
	t.Helper()
	r := launch(t, func(ctx context.Context, _ *slog.Logger, ready func(string)) error {
		return Run(ctx, RunOptions{Server: server, Listen: "127.0.0.1:0", Ready: ready, Version: "test"})
	})
	body := modernBody("7", "tools/call", `"name":"t","arguments":{"body":"`+text+`"}`)
	header := modernHeader("tools/call", "t")
	r.post("/mcp", body, header...).wantText(t, text)
	u, err := url.Parse(r.base)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	request := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", u.Host)
	for i := 0; i < len(header); i += 2 {
		request += header[i] + ": " + header[i+1] + "\r\n"
	}
	out := fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n%s", request, len(body), body)
	in, buf := bufio.NewReaderSize(c, 64<<10), make([]byte, 2<<20)
	return func() {
		if _, err := c.Write(out); err != nil {
			t.Fatal(err)
		}
		if b, err := rawMessage(in, buf); err != nil || !bytes.HasPrefix(b, []byte(`{"jsonrpc":"2.0","id":7,"result":{`)) || len(b) < len(text) {
			t.Fatalf("%v: %.300s", err, b)
		}
	}
}

// rawCalls are the calls that are measured, and how often those with a bound may allocate. The server of
// net/http alone allocates 30 times.
var rawCalls = []struct {
	name   string
	server func(testing.TB, string) config.Server
	size   int
	most   float64
}{
	{"http/256", rawServer, 256, 75},
	{"http/64k", rawServer, 64 << 10, 0},
	{"http/1m", rawServer, 1 << 20, 0},
	{"events/64k", rawEvents, 64 << 10, 0},
	{"events/1m", rawEvents, 1 << 20, 0},
	{"stdio/256", rawChild, 256, 55},
	{"stdio/64k", rawChild, 64 << 10, 0},
	{"stdio/1m", rawChild, 1 << 20, 0},
}

// BenchmarkRaw makes one call after another with a client and a server that cost next to nothing.
func BenchmarkRaw(b *testing.B) {
	for _, x := range rawCalls {
		b.Run(x.name, func(b *testing.B) {
			text := strings.Repeat("x", x.size)
			call := rawCall(b, x.server(b, text), text)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// TestRelayAllocs bounds how often a small call allocates, from the request of the client to its answer.
func TestRelayAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds allocations")
	}
	for _, x := range rawCalls {
		if x.most == 0 {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			text := strings.Repeat("x", x.size)
			call := rawCall(t, x.server(t, text), text)
			for range 50 {
				call()
			}
			n := testing.AllocsPerRun(500, call)
			t.Logf("a call allocates %v times", n)
			if n > x.most {
				t.Errorf("a call allocates %v times, want at most %v", n, x.most)
			}
		})
	}
}

// TestRelayBytes bounds the bytes that a call with long texts allocates: 1.5 times the two messages.
func TestRelayBytes(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	const runs = 100
	for _, x := range rawCalls {
		if x.size != 64<<10 {
			continue // with 1 MiB, it depends on the collector whether the pools have a buffer
		}
		t.Run(x.name, func(t *testing.T) {
			text := strings.Repeat("x", x.size)
			call := rawCall(t, x.server(t, text), text)
			for range 20 {
				call()
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range runs {
				call()
			}
			runtime.ReadMemStats(&after)
			n := int(after.TotalAlloc-before.TotalAlloc) / runs
			t.Logf("a call with two texts of %d bytes allocates %d", x.size, n)
			if n > 2*x.size*3/2 {
				t.Errorf("a call with two texts of %d bytes allocates %d", x.size, n)
			}
		})
	}
}
