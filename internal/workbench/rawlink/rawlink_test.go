package rawlink

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReader checks an event stream with all three kinds of line ends. The reader ignores an
// unterminated event.
func TestReader(t *testing.T) {
	r := NewReader(strings.NewReader(": hello\r\n\nevent: message\rdata: a\rdata:b\r\rid: 7\n\nretry: 20\ndata\n\ndata: cut"), 64)
	for i, want := range []Event{{Name: "message", Data: []byte("a\nb"), Retry: -1}, {ID: "7", Retry: -1}, {Retry: 20}} {
		got, err := r.Next()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("event %d: got %v, %v, want %v", i, got, err, want)
		}
	}
	if ev, err := r.Next(); err != io.EOF {
		t.Errorf("then %v, %v", ev, err)
	}
}

// TestReaderInPieces reads a stream byte by byte: an event comes with the first byte of its last line
// end, even if that is a CR. A byte order mark changes nothing.
func TestReaderInPieces(t *testing.T) {
	from, to := io.Pipe()
	go func() {
		for _, b := range []byte("\ufeffdata: a\r\n\r\ndata: b\r\r") {
			_, _ = to.Write([]byte{b})
		}
	}()
	r := NewReader(from, 64)
	for _, want := range []string{"a", "b"} { // the pipe stays open
		if ev, err := r.Next(); err != nil || string(ev.Data) != want {
			t.Errorf("got %q, %v, want %q", ev.Data, err, want)
		}
	}
	_ = to.Close()
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	if _, err := NewReader(strings.NewReader("data: 12345\ndata: 6789\n\n"), 8).Next(); err == nil || err == io.EOF {
		t.Errorf("an event of 10 bytes: %v", err)
	}
	in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100)+"\r\nnext\nlast"), 16)
	for _, want := range []string{"xxxxxxxx <nil>", "next <nil>", "last EOF"} {
		if line, err := ReadLine(in, 8); fmt.Sprintf("%s %v", line, err) != want {
			t.Errorf("got %s %v, want %s", line, err, want)
		}
	}
}

func TestMessages(t *testing.T) {
	const body = "data: a\n\nid: 1\n\ndata: b"
	for kind, want := range map[string]string{
		"text/event-stream; charset=utf-8": `"a" <nil>, "" <nil>, "" cut, `,
		"application/json":                 `"data: a\n\nid: 1\n\ndata: b" cut, `,
	} {
		got := ""
		res := &http.Response{Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(io.MultiReader(
			strings.NewReader(body), iotest.ErrReader(errors.New("cut"))))}
		for ev, err := range Messages(res, 64) {
			got += fmt.Sprintf("%q %v, ", ev.Data, err)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", kind, got, want)
		}
	}
}

func TestOpenStream(t *testing.T) {
	for _, c := range []struct{ kind, body, want string }{
		{"text/event-stream", "event: endpoint\ndata: /post?a=b\n\n", "http://a.test/post?a=b"},
		{"text/event-stream", "event: endpoint\ndata: http://b.test/post\n\n", ""},
		{"text/event-stream", "event: endpoint\ndata: https://a.test/post\n\n", ""},
		{"text/event-stream", "data: /post\n\n", ""},
		{"text/event-stream", "", ""},
		{"text/html", "event: endpoint\ndata: /post\n\n", ""},
	} {
		q := httptest.NewRequest(http.MethodGet, "http://a.test/sse", nil)
		s, err := OpenStream(func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", c.kind)
			_, _ = io.WriteString(w, c.body)
			return w.Result(), nil
		}, q, 64)
		if (err == nil) != (c.want != "") || err == nil && s.To != c.want {
			t.Errorf("%s of %s: %v, %v", c.body, c.kind, s, err)
		}
	}
}
