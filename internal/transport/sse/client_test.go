package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

const (
	aRequest = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	aResult  = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

// fakeServer sends the bodies of POST requests back on its stream.
type fakeServer struct {
	status int    // status of the answer to a POST
	body   string // body of the answer to a POST
	first  string // start of the stream
	posts  chan string
	header http.Header
	hold   chan struct{} // if not nil, POST requests wait until hold is closed
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		b, _ := io.ReadAll(r.Body)
		if s.hold != nil {
			<-s.hold
		}
		s.header = r.Header
		if s.status < 300 {
			s.posts <- r.URL.RequestURI() + " " + string(b)
		}
		w.WriteHeader(s.status)
		io.WriteString(w, s.body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	io.WriteString(w, s.first)
	w.(http.Flusher).Flush()
	for {
		select {
		case p := <-s.posts:
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", strings.TrimPrefix(p, "/messages?id=1 "))
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func start(t testing.TB, s *fakeServer) string {
	t.Helper()
	if s.posts == nil {
		s.posts = make(chan string, 1)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL + "/sse"
}

func dial(t testing.TB, url string, o ClientOptions) transport.Pipe {
	t.Helper()
	p, err := Dial(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestExchange(t *testing.T) {
	for _, status := range []int{200, 202, 204} {
		body := "Accepted"
		if status == 204 {
			body = ""
		}
		s := &fakeServer{status: status, body: body, first: ": hello\n\nevent: endpoint\ndata: /messages?id=1\n\nevent: ping\ndata: x\n\n"}
		p := dial(t, start(t, s), ClientOptions{Header: []transport.HeaderField{{Name: "Authorization", Value: "key"}}})
		for range 3 {
			b := []byte(aRequest)
			if err := p.Write(b); err != nil {
				t.Fatal(err)
			}
			clear(b)
			m, err := p.Read()
			if err != nil || string(m.Raw) != aRequest {
				t.Fatalf("%v, %v", m, err)
			}
		}
		if s.header.Get("Authorization") != "key" || s.header.Get("Content-Type") != "application/json" {
			t.Errorf("%v", s.header)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Write([]byte(aRequest)); !errors.Is(err, transport.ErrNotSent) {
			t.Errorf("after Close: %v", err)
		}
		if _, err := p.Read(); err == nil || err == io.EOF {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestE05_ForeignEndpoint(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("foreign origin got %s %v", r.Method, r.Header)
	}))
	defer evil.Close()
	for _, endpoint := range []string{
		"https://evil.example/m", "//evil.example/m", evil.URL + "/m", "http://u:p@127.0.0.1/m", "javascript:alert(1)", "http://[::1", strings.Repeat("/x", maxEndpoint),
	} {
		s := &fakeServer{status: 202, first: "event: endpoint\ndata: " + endpoint + "\n\n"}
		p, err := Dial(t.Context(), start(t, s), ClientOptions{Header: []transport.HeaderField{{Name: "Authorization", Value: "key"}}})
		if !errors.Is(err, ErrNoEndpoint) || p != nil {
			t.Errorf("%.30q: %v", endpoint, err)
		}
	}
}

func TestDialRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		media  string
		body   string
		want   error // the expected error; nil for a StatusError
	}{
		{"404", 404, "text/plain", "no", nil},
		{"401", 401, "", "", nil},
		{"html", 200, "text/html", "<html>", nil},
		{"json", 200, "application/json", "{}", nil},
		{"ended", 200, "text/event-stream", ":\n\n", ErrNoEndpoint},
		{"cut", 200, "text/event-stream", "event: endpoint\ndata: /m\n", ErrNoEndpoint},
		{"a message first", 200, "text/event-stream", "data: {}\n\nevent: endpoint\ndata: /m\n\n", ErrNoEndpoint},
	} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", tt.media)
			w.WriteHeader(tt.status)
			io.WriteString(w, tt.body)
		}))
		_, err := Dial(t.Context(), h.URL, ClientOptions{})
		var se *transport.StatusError
		if tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && (!errors.As(err, &se) || se.Status != tt.status) {
			t.Errorf("%s: %v", tt.name, err)
		}
		h.Close()
	}
	if _, err := Dial(t.Context(), "ftp://x", ClientOptions{}); err == nil {
		t.Error("a URL with ftp is accepted")
	}
}

func TestDialIsBoundByItsContextAndThePipeIsNot(t *testing.T) {
	s := &fakeServer{status: 202, first: ":\n\n"}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("caller is gone")
	address := start(t, s)
	var wg sync.WaitGroup
	wg.Go(func() { cancel(gone) })
	if _, err := Dial(ctx, address, ClientOptions{}); err != gone {
		t.Error(err)
	}
	wg.Wait()

	s = &fakeServer{status: 202, first: "event: endpoint\ndata: /messages?id=1\n\n"}
	ctx, cancel = context.WithCancelCause(t.Context())
	p, err := Dial(ctx, start(t, s), ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	cancel(gone)
	if err := p.Write([]byte(aResult)); err != nil {
		t.Error(err)
	}
	if m, err := p.Read(); err != nil || m.Kind != jsonrpc.Result {
		t.Errorf("%v, %v", m, err)
	}
}

func TestWriteFails(t *testing.T) {
	s := &fakeServer{status: 404, body: "no such session", first: "event: endpoint\ndata: /messages?id=1\n\n"}
	p := dial(t, start(t, s), ClientOptions{})
	var se *transport.StatusError
	if err := p.Write([]byte(aRequest)); !errors.As(err, &se) || se.Status != 404 || errors.Is(err, transport.ErrNotSent) {
		t.Error(err)
	}
	s.status, s.body = 202, ""
	if err := p.Write([]byte(aRequest)); err != nil {
		t.Errorf("the pipe is not usable any more: %v", err)
	}
}

func TestCloseUnblocks(t *testing.T) {
	s := &fakeServer{status: 202, first: "event: endpoint\ndata: /messages?id=1\n\n", hold: make(chan struct{})}
	p := dial(t, start(t, s), ClientOptions{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := p.Read(); err == nil || err == io.EOF {
			t.Errorf("Read: %v", err)
		}
	})
	wg.Go(func() {
		if err := p.Write([]byte(aRequest)); err == nil {
			t.Error("Write succeeds after the end of the stream")
		}
	})
	p.Close()
	wg.Wait()
	close(s.hold)
}

// canned is a RoundTripper without a network, so that it works in a synctest bubble.
type canned func(*http.Request) (*http.Response, error)

func (f canned) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Dial(t.Context(), "http://fake/sse", ClientOptions{HTTP: canned(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return stream("event: endpoint\ndata: /m\n\n"), nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		begin := time.Now()
		if err := p.Write([]byte(aRequest)); err != context.DeadlineExceeded || time.Since(begin) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func stream(body string) *http.Response {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(body))}
}

func TestReadEnds(t *testing.T) {
	const first = "event: endpoint\ndata: /m\n\n"
	for _, tt := range []struct {
		name, body string
		want       []string // the kinds of the results of Read, in order
	}{
		{"clean", "data: " + aResult + "\n\n", []string{"message", "EOF"}},
		{"cut", "data: " + aResult + "\n", []string{"final"}},
		{"bad frame in between", "data: nonsense\n\ndata: []\n\ndata: " + aResult + "\n\n", []string{"refused", "refused", "message", "EOF"}},
		{"too large", "data: " + strings.Repeat("x", 200) + "\n\ndata: " + aResult + "\n\n", []string{"answer to  too large", "message", "EOF"}},
		{"too large an answer", "data: {\"result\":\"" + strings.Repeat("x", 200) + "\",\ndata: \"jsonrpc\":\"2.0\",\"id\":7}\n\n", []string{"answer to 7 too large", "EOF"}},
		{"too large, of another name", "event: x\ndata: " + strings.Repeat("x", 200) + "\n\n", []string{"EOF"}},
		{"no JSON", "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"x\":NaN}}\n\n", []string{"answer to 7", "EOF"}},
		{"cut, too large", "data: " + strings.Repeat("x", 200), []string{"final", "final"}},
		{"a second endpoint is not a message", "event: endpoint\ndata: /other\n\ndata: " + aResult + "\n\n", []string{"message", "EOF"}},
	} {
		p, err := Dial(t.Context(), "http://fake/sse", ClientOptions{
			Limits: jsonrpc.Limits{Bytes: 100},
			HTTP:   canned(func(r *http.Request) (*http.Response, error) { return stream(first + tt.body), nil }),
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range tt.want {
			m, err := p.Read()
			var refused *jsonrpc.Error
			var bad *transport.BadAnswer
			got := "final"
			switch {
			case err == nil && m != nil:
				got = "message"
			case err == io.EOF:
				got = "EOF"
			case errors.As(err, &bad):
				got = "answer to " + string(bad.ID)
			case errors.As(err, &refused):
				got = "refused"
			}
			if errors.Is(err, transport.ErrTooLarge) {
				got += " too large"
			}
			if got != want {
				t.Errorf("%s, read %d: %s (%v), want %s", tt.name, i, got, err, want)
			}
		}
		p.Close()
	}
}
