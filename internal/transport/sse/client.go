package sse

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// ErrNoEndpoint means that the server did not send the endpoint for messages, or that Dial refused
// this endpoint.
var ErrNoEndpoint = errors.New("the event stream does not begin with a valid endpoint event")

// ClientOptions configure a connection to a server. The zero value works.
type ClientOptions struct {
	// HTTP, CAs, Header, Credentials and UserAgent have the same meaning as in httplink.Options.
	HTTP        http.RoundTripper
	CAs         *x509.CertPool
	Header      []transport.HeaderField
	Credentials httplink.Signer
	UserAgent   string
	// Limits are the limits of one message from the server. If Bytes is 0, the limit is 16 MiB.
	// Dial always sets Tolerant.
	Limits jsonrpc.Limits
	// WriteTimeout is the timeout of one Write. 0 means 30 s. The timeout is long because some
	// servers process a message before they answer its POST request.
	WriteTimeout time.Duration
}

// maxEndpoint is the maximum length in bytes of an endpoint URL.
const maxEndpoint = 8 << 10

// closeTimeout is how long Close waits for queued messages, such as a cancellation.
const closeTimeout = 2 * time.Second

// pipe is the client's end of one stream. It also contains the endpoint for messages to the server.
type pipe struct {
	post    *httplink.Link
	link    *httplink.Link // the address of the stream
	resp    *httplink.Response
	rd      *eventstream.Reader
	long    jsonrpc.Salvage // gets the data of an event that exceeds the limit
	limits  jsonrpc.Limits
	timeout time.Duration

	life            context.Context // ended by Close
	end             context.CancelCauseFunc
	closing, closed atomic.Bool

	courier *transport.Courier
}

var errClosed = errors.New("the connection was closed")

// Dial opens the stream of an HTTP+SSE server (2024-11-05 §Transports, "HTTP with SSE") and waits
// for its endpoint event. ctx does not limit the stream after Dial has returned. Dial refuses an
// endpoint whose origin differs from the origin of url, so that credentials do not reach another
// server. The specification does not require this.
//
// The error of Dial wraps ErrNoEndpoint, is an error from net/http, or is a *transport.StatusError
// if the response is not a stream. Read returns io.EOF when the server ends the stream, and another
// error when the stream breaks or after Close. Write returns a *transport.StatusError when the
// server refuses a message. The Pipe can still be used after such an error.
func Dial(ctx context.Context, url string, o ClientOptions) (transport.Pipe, error) {
	link, err := httplink.New(url, httplink.Options{HTTP: o.HTTP, CAs: o.CAs, Header: o.Header, Credentials: o.Credentials, UserAgent: o.UserAgent})
	if err != nil {
		return nil, err
	}
	p := &pipe{link: link, limits: o.Limits, timeout: o.WriteTimeout}
	p.courier = transport.NewCourier(p.send, nil)
	p.limits.Tolerant = true
	if p.limits.Bytes <= 0 {
		p.limits.Bytes = 16 << 20
	}
	if p.timeout <= 0 {
		p.timeout = 30 * time.Second
	}
	// ctx ends the stream only until Dial returns. After that, the stream does not depend on ctx.
	p.life, p.end = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { p.end(context.Cause(ctx)) })
	err = p.open()
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// open sends the GET request and reads the stream up to the endpoint event.
func (p *pipe) open() error {
	h := p.link.NewHeader(2)
	h["Accept"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-store"}
	resp, err := p.link.Send(p.life, http.MethodGet, h, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || resp.Media() != httplink.Events {
		return resp.Refused()
	}
	p.resp = resp
	p.rd = eventstream.NewReader(resp.Body, eventstream.Limits{
		Bytes: p.limits.Bytes, Skip: &p.long, Endless: transport.Endless(p.limits.Bytes),
	})
	for {
		e, err := p.rd.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoEndpoint, err)
		}
		if len(e.Data) == 0 && !e.Skipped {
			continue
		}
		// The specification requires that the endpoint event comes first. A server that sends
		// another event first does not use this transport.
		if e.Name != "endpoint" {
			return fmt.Errorf("%w: the first event is not an endpoint event", ErrNoEndpoint)
		}
		if len(e.Data) > maxEndpoint {
			return fmt.Errorf("%w: the URL of the endpoint is longer than %d bytes", ErrNoEndpoint, maxEndpoint)
		}
		if p.post, err = p.link.Resolve(string(e.Data)); err != nil {
			return fmt.Errorf("%w: %w", ErrNoEndpoint, err)
		}
		return nil
	}
}

// Read implements transport.Pipe.
func (p *pipe) Read() (*jsonrpc.Message, error) {
	for {
		e, err := p.rd.Next()
		switch {
		case err == nil:
		case p.closed.Load():
			return nil, errClosed
		case err == eventstream.ErrTooLarge:
			return nil, transport.ErrEndless
		case err == io.EOF:
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("the stream broke: %w", err)
		}
		if e.Skipped {
			err = transport.Skipped(p.limits.Bytes, &p.long)
			p.long.Reset()
		}
		switch {
		case len(e.Data) == 0 && !e.Skipped || e.Name != "" && e.Name != "message":
			continue
		case e.Skipped:
			return nil, err
		}
		if jsonrpc.IsBatch(e.Data) {
			return nil, &transport.Batch{Raw: e.Data}
		}
		m, err := jsonrpc.Scan(e.Data, p.limits)
		if err != nil {
			return nil, transport.Refused(e.Data, err)
		}
		return m, nil
	}
}

// Write implements transport.Pipe. Its timeout is ClientOptions.WriteTimeout.
func (p *pipe) Write(b []byte) error {
	ctx, cancel := context.WithTimeout(p.life, p.timeout)
	defer cancel()
	return p.send(ctx, b)
}

// Send implements transport.Pipe. It has no timeout of its own, because a server may send the
// answer on its stream before it responds to the POST request.
func (p *pipe) Send(ctx context.Context, _ <-chan struct{}, b []byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.life, func() { cancel(context.Cause(p.life)) })()
	return p.send(ctx, b)
}

// Queue implements transport.Pipe. Queued messages may arrive out of order.
func (p *pipe) Queue(b []byte) error { return p.courier.Put(b) }

// Stalled implements transport.Pipe. It always returns 0, because each message is a separate
// request. The server may accept a message even if it did not accept the previous one.
func (p *pipe) Stalled() (d time.Duration, midway bool) { return 0, false }

func (p *pipe) send(ctx context.Context, b []byte) error {
	if p.closed.Load() {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, errClosed)
	}
	h := p.post.NewHeader(1)
	h["Content-Type"] = []string{"application/json"}
	resp, err := p.post.Send(ctx, http.MethodPost, h, b)
	if err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.Refused()
	}
	if resp.Media() == httplink.Events {
		resp.Close() // the body of the response may never end
	} else {
		resp.Discard() // most servers send no body or a short one
	}
	return nil
}

// Close implements transport.Pipe.
func (p *pipe) Close() error {
	if p.closing.Swap(true) {
		return nil
	}
	p.courier.Close(closeTimeout)
	p.closed.Store(true)
	p.end(errClosed)
	if p.resp != nil {
		p.resp.Close()
	}
	p.link.Close()
	return nil
}
