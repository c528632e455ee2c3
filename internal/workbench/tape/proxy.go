package tape

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
)

// Limits in bytes. Longer requests are refused. Longer responses and events are forwarded
// completely, but only a part of them is recorded.
const (
	maxBody  = 16 << 20
	maxEvent = 4 << 20
)

type exchangeKey struct{}

// Proxy returns a handler that forwards requests to a server, and records the requests and the
// responses. It records each event of a stream as soon as the event arrives. target is the server's
// endpoint. A request for path is sent to the path of target. Requests for other paths keep their
// path. extra contains header fields that are added to each request.
func (r *Recorder) Proxy(target *url.URL, path string, extra http.Header, transport http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, // forward events without delay
		Transport:     transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = target.Scheme, target.Host, target.Host
			if p.In.URL.Path == path {
				p.Out.URL.Path, p.Out.URL.RawPath = target.Path, target.RawPath
				if p.Out.URL.RawQuery == "" {
					p.Out.URL.RawQuery = target.RawQuery
				}
			}
			p.Out.Header["X-Forwarded-For"] = nil
			p.Out.Header.Del("Accept-Encoding") // no compression, because the tape must be readable
			for k, v := range extra {
				p.Out.Header[k] = v
			}
			if p.In.Header.Get("Origin") != "" {
				// The client sends the origin of this proxy, but the server may accept only the
				// server's own origin.
				p.Out.Header.Set("Origin", target.Scheme+"://"+target.Host)
			}
		},
		ModifyResponse: func(res *http.Response) error { r.tapResponse(res); return nil },
		ErrorHandler: func(w http.ResponseWriter, q *http.Request, err error) {
			n, _ := q.Context().Value(exchangeKey{}).(int)
			if q.Context().Err() != nil {
				r.part(gone, n, []byte("before the answer"))
				return
			}
			r.part(end, n, []byte("no answer: "+err.Error()))
			http.Error(w, "the recorded server does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
		if err != nil {
			var big *http.MaxBytesError
			if errors.As(err, &big) {
				http.Error(w, "the request is too large to be recorded", http.StatusRequestEntityTooLarge)
			}
			return
		}
		n := r.begin()
		h := q.Header.Clone()
		h.Set("Host", q.Host)
		r.mu.Lock()
		first := q.Method + " " + r.redact.address(q.URL.RequestURI())
		r.mu.Unlock()
		r.head(request, n, first, h, body)
		q = q.WithContext(context.WithValue(q.Context(), exchangeKey{}, n))
		q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, q)
	})
}

func (r *Recorder) tapResponse(res *http.Response) {
	n, _ := res.Request.Context().Value(exchangeKey{}).(int)
	t := &tappedBody{r: r, n: n, from: res.Body, left: res.ContentLength, head: func(body []byte) {
		r.head(response, n, strconv.Itoa(res.StatusCode), res.Header, body)
	}}
	if mediaTypes(res.Header.Get("Content-Type")) == "text/event-stream" {
		t.stream = true
		t.head(nil)
	}
	res.Body = t
}

// tappedBody records a response body while it is read. The events of a stream are recorded one by
// one. Any other body is recorded at its end. Only the goroutine that copies the body uses
// tappedBody.
type tappedBody struct {
	r      *Recorder
	n      int
	from   io.ReadCloser
	head   func(body []byte)
	stream bool
	left   int64 // the number of bytes that are still expected; negative if unknown
	buf    []byte
	over   bool

	// line, last and pos are positions in buf: the start of the current line, the end of the
	// previous line, and the end of the part that was searched. buf begins with the current event.
	// cr is true if the byte before buf was a CR. In that case, an LF at the start of buf belongs
	// to the same line end.
	line, last, pos int
	cr              bool
}

func (t *tappedBody) Read(b []byte) (int, error) {
	n, err := t.from.Read(b)
	t.buf = append(t.buf, b[:min(n, maxBody-min(len(t.buf), maxBody))]...)
	if t.stream {
		t.events()
	}
	switch was := t.left; {
	case err != nil:
		t.finish(err)
	case was > 0:
		// The client may send its next request as soon as it has read the end of the body. Record
		// the body now, because it must come before that request on the tape.
		if t.left -= int64(n); t.left <= 0 {
			t.finish(io.EOF)
		}
	}
	return n, err
}

// events records the complete events in buf. An empty line ends an event. A line may end with CR
// LF, LF or CR (WHATWG HTML, "Parsing an event stream"). events searches each byte only once.
func (t *tappedBody) events() {
	for {
		at := bytes.IndexAny(t.buf[t.pos:], "\r\n")
		if at < 0 {
			t.pos = len(t.buf)
			if len(t.buf) > maxEvent {
				t.record(t.buf[:maxEvent])
				t.begin(len(t.buf), false)
			}
			return
		}
		at += t.pos
		switch {
		case t.buf[at] == '\n' && at == t.line && (at > 0 && t.buf[at-1] == '\r' || at == 0 && t.cr):
			t.line, t.pos = at+1, at+1 // the second half of CRLF
			if at == 0 {
				t.begin(1, false)
			}
		case at == t.line:
			if at > 0 {
				t.record(t.buf[:t.last])
			}
			t.begin(at+1, t.buf[at] == '\r')
		default:
			t.last, t.line, t.pos = at, at+1, at+1
		}
	}
}

// begin drops the first n bytes of buf, so that buf begins with the next event. cr is true if the
// last dropped byte is a CR.
func (t *tappedBody) begin(n int, cr bool) {
	t.buf = t.buf[n:]
	t.line, t.last, t.pos, t.cr = 0, 0, 0, cr
}

func (t *tappedBody) record(text []byte) {
	t.r.part(event, t.n, bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n")))
}

func (t *tappedBody) finish(err error) {
	if t.over {
		return
	}
	t.over = true
	how := "end"
	if !errors.Is(err, io.EOF) {
		how = "cut"
	}
	if !t.stream {
		t.head(t.buf)
		if how == "cut" {
			t.r.part(end, t.n, []byte(how))
		}
		return
	}
	if rest := bytes.TrimRight(t.buf, "\r\n"); len(rest) > 0 {
		t.record(rest)
	}
	t.r.part(end, t.n, []byte(how))
}

// Close closes the body. If the body was not read to its end, Close records that the client has
// disconnected.
func (t *tappedBody) Close() error {
	if !t.over {
		t.over = true
		if !t.stream {
			t.head(t.buf)
		}
		t.r.part(gone, t.n, nil)
	}
	return t.from.Close()
}
