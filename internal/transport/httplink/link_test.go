package httplink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func mustLink(t testing.TB, address string, o Options) *Link {
	t.Helper()
	l, err := New(address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestNewRefuses(t *testing.T) {
	for _, address := range []string{"", "x", "/mcp", "ftp://h/", "file:///x", "http://", "http:///x", "http://h:p:q/", "javascript:alert(1)", "http://u:secret@h/\x7f"} {
		if _, err := New(address, Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, f := range []transport.HeaderField{{Name: "", Value: "x"}, {Name: "a b", Value: "x"}, {Name: "A:", Value: "x"}, {Name: "A", Value: "secret\r\nB: c"}, {Name: "A", Value: "secret\x00"}} {
		if _, err := New("http://h/", Options{Header: []transport.HeaderField{f}}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", f, err)
		}
	}
}

func TestWhatIsSent(t *testing.T) {
	var got *http.Request
	var body string
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
	})
	u, _ := url.Parse(address)
	l := mustLink(t, "http://me:secret@"+u.Host+"/mcp?q=1#f", Options{Header: []transport.HeaderField{
		{Name: "x-key", Value: "1"}, {Name: "X-Key", Value: "2"}, {Name: "host", Value: "localhost"},
	}})
	h := l.NewHeader(1)
	h["Content-Type"] = []string{"application/json"}
	resp, err := l.Send(t.Context(), "POST", h, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Discard()
	user, password, _ := got.BasicAuth()
	if got.Method != "POST" || got.RequestURI != "/mcp?q=1" || got.Host != "localhost" || body != "{}" || got.ContentLength != 2 ||
		user != "me" || password != "secret" || got.Header.Get("User-Agent") != "dragoman" || strings.Join(got.Header["X-Key"], ",") != "1,2" {
		t.Errorf("the request is %+v with the body %q", got, body)
	}
	if s := l.String(); s != "http://"+u.Host+"/mcp" {
		t.Errorf("String() = %s", s)
	}
	if len(l.header) != 3 {
		t.Errorf("the configured header changed: %v", l.header)
	}
}

func TestNotSent(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	cancelled, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("caller is gone")
	cancel(gone)
	boom := errors.New("boom")
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		l      *Link
		unsent bool
		cause  error
	}{
		{"refused", t.Context(), mustLink(t, "http://"+closed.Addr().String(), Options{}), true, nil},
		{"cancelled before", cancelled, mustLink(t, "http://"+closed.Addr().String(), Options{}), true, gone},
		{"wrapper fails before", t.Context(), mustLink(t, "http://h", Options{HTTP: roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, boom
		})}), true, boom},
		{"fails after some of it", t.Context(), mustLink(t, "http://h", Options{HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
			io.CopyN(io.Discard, r.Body, 1)
			return nil, boom
		})}), false, boom},
		{"transport tries again and fails before", t.Context(), mustLink(t, "http://h", Options{HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
			io.CopyN(io.Discard, r.Body, 1)
			r.GetBody()
			return nil, boom
		})}), true, boom},
		{"transport tries again and fails after", t.Context(), mustLink(t, "http://h", Options{HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
			io.CopyN(io.Discard, r.Body, 1)
			b, _ := r.GetBody()
			if all, err := io.ReadAll(b); string(all) != "{}" || err != nil {
				t.Errorf("the second body is %q, %v", all, err)
			}
			return nil, boom
		})}), false, boom},
	} {
		_, err := tt.l.Send(tt.ctx, "POST", tt.l.NewHeader(0), []byte("{}"))
		if errors.Is(err, transport.ErrNotSent) != tt.unsent || err == nil || tt.cause != nil && !errors.Is(err, tt.cause) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestSentOnCutConnection checks connections that break. If the request has arrived, its
// outcome is unknown. If no connection was made, the request was certainly not sent.
func TestSentOnCutConnection(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	})
	l := mustLink(t, address, Options{})
	if _, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("{}")); err == nil || errors.Is(err, transport.ErrNotSent) {
		t.Error(err)
	}
}

func TestBodyIsLetGo(t *testing.T) {
	var kept io.Reader
	l := mustLink(t, "http://h", Options{HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
		kept = r.Body
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})})
	resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Close()
	if b, err := io.ReadAll(kept); len(b) > 0 || err == nil {
		t.Errorf("read %q, %v after the exchange", b, err)
	}
	kept = nil
	l = mustLink(t, "http://h", Options{HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
		kept = r.Body
		return nil, io.EOF
	})})
	_, err = l.Send(t.Context(), "POST", l.NewHeader(0), []byte("secret"))
	if b, _ := io.ReadAll(kept); len(b) > 0 || !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("read %q after %v", b, err)
	}
}

// TestEarlyAnswer checks a server that answers before it has read the whole request. The server
// must not see later changes of the caller's buffer. The test needs -race.
func TestEarlyAnswer(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(413) })
	l := mustLink(t, address, Options{})
	body := bytes.Repeat([]byte("x"), 8<<20)
	for range 5 {
		resp, err := l.Send(t.Context(), "POST", l.NewHeader(0), body)
		if err == nil {
			resp.Close()
		}
		clear(body)
	}
}

func TestRedirects(t *testing.T) {
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("foreign origin got %s %s with %v", r.Method, r.URL, r.Header)
	})
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/307", "/301", "/302", "/303", "/308":
			w.Header().Set("Location", "/to")
			switch r.URL.Path {
			case "/307":
				w.WriteHeader(307)
			case "/308":
				w.WriteHeader(308)
			case "/301":
				w.WriteHeader(301)
			case "/302":
				w.WriteHeader(302)
			case "/303":
				w.WriteHeader(303)
			}
		case "/to":
			w.Write([]byte(r.Method + string(b) + r.Header.Get("Authorization")))
		case "/loop":
			http.Redirect(w, r, "/loop", 307)
		case "/foreign":
			http.Redirect(w, r, elsewhere, 307)
		case "/port":
			http.Redirect(w, r, "http://127.0.0.1:1/", 307)
		case "/user":
			http.Redirect(w, r, "http://a:b@"+r.Host+"/to", 307)
		case "/scheme":
			http.Redirect(w, r, "https://"+r.Host+"/to", 307)
		case "/none":
			w.WriteHeader(307)
		}
	})
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"POST", "/307", 200, "POST{}key"},
		{"POST", "/308", 200, "POST{}key"},
		{"POST", "/301", 301, ""},
		{"POST", "/302", 302, ""},
		{"POST", "/303", 303, ""},
		{"GET", "/301", 200, "GETkey"},
		{"GET", "/303", 200, "GETkey"},
		{"GET", "/307", 200, "GETkey"},
		{"POST", "/loop", 307, ""},
		{"POST", "/foreign", 307, ""},
		{"GET", "/foreign", 307, ""},
		{"POST", "/port", 307, ""},
		{"POST", "/user", 307, ""},
		{"POST", "/scheme", 307, ""},
		{"POST", "/none", 307, ""},
	} {
		l := mustLink(t, address+tt.path, Options{Header: []transport.HeaderField{{Name: "Authorization", Value: "key"}}})
		var body []byte
		if tt.method == "POST" {
			body = []byte("{}")
		}
		resp, err := l.Send(t.Context(), tt.method, l.NewHeader(0), body)
		if err != nil {
			t.Errorf("%s %s: %v", tt.method, tt.path, err)
			continue
		}
		b, _ := resp.ReadAll(1000)
		if resp.StatusCode != tt.status || tt.body != "" && string(b) != tt.body {
			t.Errorf("%s %s: %d %q", tt.method, tt.path, resp.StatusCode, b)
		}
		resp.Close()
	}
}

func TestE05_Resolve(t *testing.T) {
	l := mustLink(t, "https://example.com/sse", Options{})
	for ref, want := range map[string]string{
		"/m?s=1":                        "https://example.com/m",
		"m":                             "https://example.com/m",
		"https://EXAMPLE.com:443/m":     "https://EXAMPLE.com:443/m",
		"https://evil.example/m":        "",
		"//evil.example/m":              "",
		"http://example.com/m":          "",
		"https://example.com:8443/m":    "",
		"https://u:p@example.com/m":     "",
		"https://example.com.evil/m":    "",
		"https://example.com@evil/m":    "",
		"\\\\evil.example/m":            "https://example.com/%5C%5Cevil.example/m",
		"javascript:alert(1)":           "",
		"file:///etc/passwd":            "",
		"https://example.com\x00.evil/": "",
	} {
		r, err := l.Resolve(ref)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q became %s", ref, r)
		case want != "" && (err != nil || r.String() != want):
			t.Errorf("%q became %v, %v", ref, r, err)
		}
	}
}

func TestReadAll(t *testing.T) {
	for _, tt := range []struct {
		body   string
		length int64
		limit  int
		err    error
	}{
		{"12345", 5, 5, nil},
		{"12345", 5, 4, ErrTooLarge},
		{"12345", -1, 5, nil},
		{"12345", -1, 4, ErrTooLarge},
		{"", 0, 5, nil},
		{"", -1, 5, nil},
		{"123", 5, 5, io.ErrUnexpectedEOF},
		{"", 5, 5, io.ErrUnexpectedEOF},
		{strings.Repeat("x", 5000), -1, 5000, nil},
		{strings.Repeat("x", 5001), -1, 5000, ErrTooLarge},
		{strings.Repeat("x", 1025), -1, 1024, ErrTooLarge},
	} {
		r := &Response{Response: &http.Response{ContentLength: tt.length, Body: io.NopCloser(strings.NewReader(tt.body))}}
		b, err := r.ReadAll(tt.limit)
		if err != tt.err || err == nil && string(b) != tt.body {
			t.Errorf("%d bytes of %d, limit %d: %d bytes, %v", len(tt.body), tt.length, tt.limit, len(b), err)
		}
	}
}

func TestMedia(t *testing.T) {
	for v, want := range map[string]Media{
		"": Other, "text/html": Other, "application/json": JSON, "Application/JSON; charset=utf-8": JSON,
		"text/event-stream;charset=UTF-8": Events, "TEXT/Event-Stream": Events, "application/json-seq": Other,
	} {
		r := &Response{Response: &http.Response{Header: http.Header{"Content-Type": {v}}}}
		if got := r.Media(); got != want {
			t.Errorf("%q: %d, want %d", v, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
			io.WriteString(w, ` {"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"x"}}`)
		case "/auth":
			w.Header().Add("WWW-Authenticate", `Bearer resource_metadata="https://x"`)
			w.WriteHeader(401)
		case "/big":
			w.WriteHeader(500)
			w.Write(bytes.Repeat([]byte("<p>"), 100_000))
		case "/slow":
			w.WriteHeader(404)
			io.WriteString(w, "nothing here")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/endless":
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(500)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
	send := func(path string) *Response {
		t.Helper()
		l := mustLink(t, address+path, Options{})
		resp, err := l.Send(t.Context(), "GET", l.NewHeader(0), nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	get := func(path string) *transport.StatusError { return send(path).Refused() }
	if e := send("/slow").refused(time.Millisecond); e.Status != 404 {
		t.Errorf("%+v", e)
	}
	if e := get("/json"); e.Status != 429 || e.RetryAfter != 7*time.Second || e.Msg == nil || e.Msg.Kind != jsonrpc.Failure || e.ContentType != "application/json" {
		t.Errorf("%+v", e)
	}
	if e := get("/auth"); e.Status != 401 || !slices.Equal(e.Challenges(), []string{`Bearer resource_metadata="https://x"`}) || e.Msg != nil {
		t.Errorf("%+v", e)
	}
	if e := get("/big"); len(e.Body) != maxErrorBody {
		t.Errorf("the body of the error has %d bytes", len(e.Body))
	}
	if e := get("/endless"); e.Status != 500 {
		t.Errorf("%+v", e)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "x": 0, "999999999999": 24 * time.Hour, "9999999999999999999999": 0,
		"Sun, 01 Nov 2026 12:00:30 GMT": 30 * time.Second, "Sun, 01 Nov 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(v, now); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
}
