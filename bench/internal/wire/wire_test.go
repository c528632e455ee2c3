package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const three = "HTTP/1.1 100 Continue\r\n\r\n" +
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nMCP-Session-ID: s1\r\n\r\nhello" +
	"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n" +
	"HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n" +
	"6;x=y\r\ndata: \r\n4\r\nhi\n\n\r\n0\r\nTrailer: t\r\n\r\n" +
	"HTTP/1.1 204 \r\n\r\n" +
	"HTTP/1.1 404 Not Found\r\nConnection: Close\r\n\r\nto the end"

func TestResponse(t *testing.T) {
	for name, src := range map[string]io.Reader{
		"whole":       strings.NewReader(three),
		"byte wise":   iotest.OneByteReader(strings.NewReader(three)),
		"half":        iotest.HalfReader(strings.NewReader(three)),
		"data at EOF": iotest.DataErrReader(strings.NewReader(three)),
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(src)
			var m Response
			read := func(status int, body string) {
				t.Helper()
				if err := r.Response(&m); err != nil {
					t.Fatal(err)
				}
				if m.Status != status || string(m.Body) != body {
					t.Fatalf("got %d %q, want %d %q", m.Status, m.Body, status, body)
				}
			}
			read(200, "hello")
			if string(m.Session) != "s1" || m.EventStream() || m.Close {
				t.Fatalf("fields: %+v", m.Head)
			}
			read(202, "")
			read(200, "data: hi\n\n")
			if !m.EventStream() {
				t.Fatal("EventStream is false for an event stream")
			}
			read(204, "")
			read(404, "to the end")
			if !m.Close {
				t.Fatal("Close is false for a response that ends with the connection")
			}
			if err := r.Response(&m); !errors.Is(err, ErrClosed) {
				t.Fatalf("after the end: %v", err)
			}
		})
	}
}

// TestLargeResponse checks that a body larger than the buffer makes the buffer grow, and that
// slices of the response's head stay valid.
func TestLargeResponse(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 20<<10)
	for name, msg := range map[string]string{
		"sized":   "HTTP/1.1 200 OK\r\nMcp-Session-Id: keep\r\nContent-Length: 327680\r\n\r\n" + body,
		"chunked": "HTTP/1.1 200 OK\r\nMcp-Session-Id: keep\r\nTransfer-Encoding: chunked\r\n\r\n28000\r\n" + body[:0x28000] + "\r\n28000\r\n" + body[0x28000:] + "\r\n0\r\n\r\n",
	} {
		r := NewReader(iotest.HalfReader(strings.NewReader(msg + msg)))
		var m Response
		for range 2 {
			if err := r.Response(&m); err != nil {
				t.Fatal(name, err)
			}
			if string(m.Body) != body || string(m.Session) != "keep" {
				t.Fatalf("%s: %d bytes, session %q", name, len(m.Body), m.Session)
			}
		}
	}
}

func TestResponseRefuses(t *testing.T) {
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\n",
		"nonsense\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead+10),
	} {
		var m Response
		if err := NewReader(strings.NewReader(in)).Response(&m); err == nil || err == io.EOF || errors.Is(err, ErrClosed) {
			t.Errorf("%.60q: %v", in, err)
		}
	}
}

func TestRequest(t *testing.T) {
	r := NewReader(iotest.OneByteReader(strings.NewReader(
		"POST /mcp?x=1 HTTP/1.1\r\nHost: h\r\nMCP-Protocol-Version: 2026-07-28\r\nContent-Length: 2\r\n\r\n{}" +
			"POST /mcp HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" +
			"GET /mcp HTTP/1.1\r\nConnection: close\r\n\r\n")))
	var m Request
	var proceed bytes.Buffer
	for i, want := range []string{"POST /mcp {}", "POST /mcp {}", "GET /mcp "} {
		if err := r.Request(&m, &proceed); err != nil {
			t.Fatal(err)
		}
		if got := string(m.Method) + " " + string(m.Path) + " " + string(m.Body); got != want {
			t.Errorf("%d: got %q, want %q", i, got, want)
		}
		if m.Close != (i == 2) {
			t.Errorf("%d: close %v", i, m.Close)
		}
	}
	if proceed.String() != "HTTP/1.1 100 Continue\r\n\r\n" {
		t.Errorf("proceed: %q", proceed.String())
	}
	if err := r.Request(&m, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"data: a\n\ndata:b\r\n\r\ndata: c\r\r", "a|b|c|"},
		{": comment\nevent: message\nid: 1\ndata: x\n\n", "x|"},
		{"data: one\ndata: two\ndata: three\n\n", "one\ntwo\nthree|"},
		{"id: prime\ndata:\n\ndata: y\n\n", "y|"},
		{"data: unfinished\n", ""},
		{"\uFEFFdata: z\n\n", "z|"},
		{"retry: 5\n\n", ""},
	} {
		var got strings.Builder
		in := []byte(c.in)
		Events(in, func(d []byte) { got.Write(d); got.WriteByte('|') })
		if got.String() != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got.String(), c.want)
		}
		if string(in) != c.in {
			t.Errorf("%q: the stream was changed", c.in)
		}
	}
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(three))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		var m Response
		for range 10 {
			if r.Response(&m) != nil {
				return
			}
			Events(m.Body, func([]byte) {})
		}
	})
}
