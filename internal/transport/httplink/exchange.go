package httplink

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

const (
	// joined is the size of the largest body that is copied behind the head. A longer one leaves in the
	// same write, if the system can write two parts at once.
	joined = 16 << 10
	// reuseWait is how long an answered exchange waits for the end of its own writing before it gives
	// up the connection. net/http waits as long.
	reuseWait = 50 * time.Millisecond
	// stageMost is the largest buffer that stages keeps.
	stageMost = 64 << 10
)

var (
	// stages holds the buffers in which requests are put together.
	stages = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}
	// inboxes holds the readers of connections. An idle connection has none.
	inboxes = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

	errReadAfterClose = errors.New("http: read on closed response body")
)

// plainOrigin returns the transport for an http URL that needs no proxy, and nil for any other URL,
// which is left to net/http. host is the configured Host header, or "". proxy is
// http.ProxyFromEnvironment, whose answer depends only on the origin.
func plainOrigin(u *url.URL, host string, proxy func(*http.Request) (*url.URL, error)) transporter {
	if host == "" {
		host = u.Host
	}
	if !canLook || u.Scheme != "http" || !plainHost(u.Host) || !plainHost(host) {
		return nil
	}
	if through, err := proxy(&http.Request{URL: u}); through != nil || err != nil {
		return nil
	}
	return &Origin{host: host, pool: pool{address: net.JoinHostPort(u.Hostname(), portOf(u)), dial: newDialer().DialContext}}
}

// plainHost reports whether a host can be sent as it is. A zone must be removed and letters outside
// of ASCII must be encoded, which net/http does.
func plainHost(host string) bool {
	for i := range len(host) {
		c := host[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']') {
			return false
		}
	}
	return true
}

// Origin exchanges requests and responses with one origin (HTTP/1.1, RFC 9112). It sends the head
// and the body in one write, and the response is read by whoever reads its body. net/http needs two
// writes and hands each request over between three goroutines; see docs/adr/0030. It's safe for
// concurrent use.
type Origin struct {
	host string // the value of the Host header; "" means that each request has its own
	pool pool
}

// NewOrigin returns an Origin that makes TCP connections to an address with dial. They may have TLS, after
// the handshake; then the server is trusted not to send anything without a request.
func NewOrigin(address string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Origin {
	return &Origin{pool: pool{address: address, dial: dial}}
}

// CloseIdleConnections closes the connections without an exchange.
func (o *Origin) CloseIdleConnections() { o.pool.clear() }

// RoundTrip implements http.RoundTripper for a Link, whose bodies are the only ones it knows.
func (o *Origin) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := payloadOf(req)
	if err != nil {
		return nil, err
	}
	resp, sent, head, err := o.exchange(req, body.bytes())
	body.took(sent > head)
	return resp, err
}

// Exchange sends a request with a body, whatever req.Body is, and returns as soon as the head of the
// response has arrived. Nobody may change the body before the response is closed, or after an error.
// sent reports whether a byte of the request may have arrived; until then, it may be sent elsewhere.
func (o *Origin) Exchange(req *http.Request, body []byte) (resp *http.Response, sent bool, err error) {
	resp, n, _, err := o.exchange(req, body)
	return resp, n > 0, err
}

// exchange returns how many bytes of the request were sent, and how many its head has. It takes
// another connection only if the server can't have received a byte of the request, or if the request
// has no body, may be repeated, and went to a connection that the server closed without a byte of an
// answer.
func (o *Origin) exchange(req *http.Request, rest []byte) (resp *http.Response, sent, length int64, err error) {
	stage := stages.Get().(*[]byte)
	head, err := o.appendHead((*stage)[:0], req, len(rest))
	if err != nil {
		return nil, 0, 0, err
	}
	first, empty := head, len(rest) == 0
	if len(rest) <= joined {
		first, rest = append(head, rest...), nil
	}
	for {
		x, err := o.begin(req, first, rest)
		if err != nil {
			return nil, 0, 0, err
		}
		resp, err := x.answer()
		// Bytes that the kernel has taken count as sent, because nobody can take them back.
		sent := x.sent.Load()
		if err != nil && x.unused() && (sent == 0 || empty && repeatable(req)) {
			continue
		}
		if x.late == nil && cap(first) <= stageMost {
			*stage = first
			stages.Put(stage)
		}
		return resp, sent, int64(len(head)), err
	}
}

// repeatable reports whether a request without a body may be sent twice. DELETE may not, as in
// net/http.
func repeatable(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// unused reports whether a connection broke before the server sent anything, and not because it was
// new or because nobody waits any more. The server has probably closed it while it was idle.
func (x *exchange) unused() bool { return x.wire.reused && !x.received && x.ctx.Err() == nil }

// appendHead appends the head of a request, with the fields in the order of net/http.
func (o *Origin) appendHead(b []byte, req *http.Request, length int) ([]byte, error) {
	uri := req.URL.RequestURI()
	if !validName(req.Method) {
		return nil, fmt.Errorf("net/http: invalid method %q", req.Method)
	}
	for i := range len(uri) {
		if uri[i] < ' ' || uri[i] == 0x7f {
			return nil, errors.New("net/http: can't write control character in Request.URL")
		}
	}
	b = append(b, req.Method...)
	b = append(b, ' ')
	b = append(b, uri...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, cmp.Or(o.host, req.Host)...)
	b = append(b, "\r\n"...)
	if agent := req.Header["User-Agent"]; len(agent) > 0 && agent[0] != "" {
		b = appendField(b, "User-Agent", agent[0])
	}
	if length > 0 || req.Method == http.MethodPost || req.Method == http.MethodPut || req.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(length), 10)
		b = append(b, "\r\n"...)
	}
	var few [24]string
	names := few[:0]
	for name, values := range req.Header {
		if !validName(name) {
			return nil, fmt.Errorf("net/http: invalid header field name %q", name)
		}
		for _, v := range values {
			if !validValue(v) {
				return nil, fmt.Errorf("net/http: invalid header field value for %q", name) // the value may be a secret
			}
		}
		switch name {
		case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range req.Header[name] {
			b = appendField(b, name, v)
		}
	}
	return append(b, "\r\n"...), nil
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, textproto.TrimString(value)...)
	return append(b, "\r\n"...)
}

// begin takes a connection and sends a request, which consists of two parts. It returns an error only if
// there is no connection.
func (o *Origin) begin(req *http.Request, first, rest []byte) (*exchange, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := o.pool.take(ctx)
	if err != nil {
		return nil, err
	}
	x := &exchange{pool: &o.pool, wire: w, ctx: ctx, req: req, stop: func() bool { return true }}
	if ctx.Done() != nil {
		x.stop = context.AfterFunc(ctx, w.hangUp)
	}
	x.send(first, rest)
	return x, nil
}

// exchange is one request and its response on one connection. It is also the body of the response.
// Read is for one goroutine; Close may be called by any.
type exchange struct {
	pool *pool
	wire *wire
	ctx  context.Context
	req  *http.Request
	stop func() bool // keeps the end of ctx from closing the connection; false if it has closed it

	sent   atomic.Int64 // the bytes of the request that the kernel has taken
	failed error        // why the request could not be written; valid when late has ended
	late   *late        // writes what the kernel did not take at once; nil if it took everything

	in       *bufio.Reader
	received bool          // the server has sent a byte since the request
	body     framing       // how the body ends
	left     int64         // bytes of the body to come, if it has a length
	chunks   io.Reader     // the body, if it is chunked
	keep     time.Duration // how long the connection may be idle after the response; 0 if it ends with it
	err      error         // what Read returns from now on
	ended    atomic.Bool
}

// late is a goroutine that writes the rest of a request.
type late struct {
	work.Group
	done chan struct{}
}

// send writes as much of the request as the kernel takes at once. A goroutine writes the rest, if
// there is any, because the server may answer before it has read everything, or wait for somebody
// to read its answer first.
func (x *exchange) send(first, rest []byte) {
	n, err := x.wire.try(first, rest)
	x.sent.Add(int64(n))
	if err != nil {
		x.failed = err
	} else if n < len(first)+len(rest) {
		k := min(n, len(first))
		x.sendLate(first[k:], rest[n-k:])
	}
}

func (x *exchange) sendLate(b, rest []byte) {
	l := &late{done: make(chan struct{})}
	x.late = l
	l.Go(func() {
		defer close(l.done)
		if x.writeRest(b) {
			x.writeRest(rest)
		}
	})
}

func (x *exchange) writeRest(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	n, err := x.wire.Write(b)
	x.sent.Add(int64(n))
	x.failed = err
	return err == nil
}

// answer reads the head of the response. If it returns an error, the exchange has ended.
func (x *exchange) answer() (*http.Response, error) {
	var resp *http.Response
	var err error
	if x.late == nil {
		err = x.failed
	}
	if err == nil || x.sent.Load() > 0 {
		// Even if the server has stopped reading, it may have said why before.
		x.in = inboxes.Get().(*bufio.Reader)
		x.in.Reset(x.wire)
		r, e := x.readHead()
		if resp = r; e == nil || err == nil {
			err = e
		}
	}
	if err != nil {
		x.end(false)
		if x.ctx.Err() != nil {
			err = context.Cause(x.ctx)
		}
		return nil, err
	}
	if x.body == nothing {
		x.end(true)
		resp.Body = http.NoBody
	} else {
		resp.Body = x
	}
	return resp, nil
}

// Read reads the body of the response. At its end, the connection becomes idle.
func (x *exchange) Read(p []byte) (n int, err error) {
	switch {
	case x.err != nil:
		return 0, x.err
	case x.ended.Load():
		return 0, errReadAfterClose
	case len(p) == 0:
		return 0, nil
	}
	switch x.body {
	case sized:
		n, err = x.in.Read(p[:min(int64(len(p)), x.left)])
		if x.left -= int64(n); x.left == 0 {
			err = io.EOF
		} else if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	case chunked:
		if n, err = x.chunks.Read(p); err == io.EOF {
			if e := x.skipTrailer(); e != nil {
				err = e
			}
		}
	default:
		n, err = x.in.Read(p)
	}
	if err == nil {
		return n, nil
	}
	if err != io.EOF && x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	}
	x.err = err
	x.end(err == io.EOF)
	return n, err
}

// Close ends the exchange. If the body has not been read to its end, Close closes the connection.
func (x *exchange) Close() error {
	if x.ended.CompareAndSwap(false, true) {
		x.stop()
		x.wire.Close()
	}
	x.wait()
	return nil
}

// end ends the exchange in the goroutine that reads. If whole is true, the response was read to its
// end, and the connection can be used again unless something speaks against it. When end returns,
// nobody reads the request any more.
func (x *exchange) end(whole bool) {
	if x.ended.CompareAndSwap(false, true) {
		live := x.stop()
		if w := x.wire; !whole || !live || x.keep <= 0 || x.in.Buffered() > 0 || !x.written() || !x.pool.put(w, x.keep) {
			w.Close()
		}
	}
	x.wait()
	if x.in != nil {
		x.in.Reset(nil)
		inboxes.Put(x.in)
		x.in, x.chunks = nil, nil
	}
}

// wait waits until nobody reads the request any more.
func (x *exchange) wait() {
	if x.late != nil {
		x.late.Wait()
	}
}

// written reports whether the whole request was written. A server that answers early may take the
// rest of the request, but we don't wait for it to do so.
func (x *exchange) written() bool {
	if x.late != nil {
		select {
		case <-x.late.done:
		case <-time.After(reuseWait):
			return false
		}
	}
	return x.failed == nil
}
