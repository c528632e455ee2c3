package doctor

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// web is the connection to a Streamable HTTP endpoint. Each parcel is a separate request and has
// its own goroutine.
type web struct {
	t       *Target
	in      chan piece
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	sent    int

	underWay atomic.Int32 // the number of parcels whose response has not ended

	mu      sync.Mutex
	session string
	version string // the value of the MCP-Protocol-Version header; "" for no header
}

func openWeb(ctx context.Context, t *Target) *web {
	w := &web{t: t, in: make(chan piece, maxPieces)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

func (w *web) pieces() <-chan piece { return w.in }
func (w *web) exitText() string     { return "" }

// close ends the session as 2025-11-25 §Transports, "Session Management" requires, and
// aborts all requests.
func (w *web) close() {
	w.mu.Lock()
	session := w.session
	w.mu.Unlock()
	if session != "" && w.ctx.Err() == nil {
		bye, cancel := context.WithTimeout(w.ctx, endingTime)
		if q, err := w.request(bye, parcel{method: http.MethodDelete}); err == nil {
			if res, err := w.t.Transport.RoundTrip(q); err == nil {
				_ = res.Body.Close()
			}
		}
		cancel()
	}
	w.cancel()
	w.running.Wait()
}

func (w *web) request(ctx context.Context, p parcel) (*http.Request, error) {
	if p.method == "" {
		p.method = http.MethodPost
	}
	q, err := http.NewRequestWithContext(ctx, p.method, w.t.URL.String(), bytes.NewReader(p.body))
	if err != nil {
		return nil, err
	}
	for k, v := range w.t.Header {
		q.Header[k] = v
	}
	switch p.method {
	case http.MethodPost:
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
	case http.MethodGet:
		q.Header.Set("Accept", "text/event-stream")
	}
	w.mu.Lock()
	session, version := w.session, w.version
	w.mu.Unlock()
	if session != "" {
		q.Header.Set(mcp.HeaderSession, session)
	}
	if version != "" {
		q.Header.Set(mcp.HeaderVersion, version)
	}
	w.mirror(q.Header, p.body)
	for k, v := range p.header {
		if len(v) == 0 || v[0] == "" {
			q.Header.Del(k)
			continue
		}
		q.Header[k] = v
	}
	if host := q.Header.Get("Host"); host != "" {
		q.Host = host
		q.Header.Del("Host")
	}
	return q, nil
}

// mirror sets the headers that repeat parts of a modern message (2026-07-28 §Streamable HTTP,
// "Request Metadata").
func (w *web) mirror(h http.Header, body []byte) {
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{Bytes: maxLine})
	if err != nil || m.Method == "" {
		return
	}
	version, ok := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyVersion))
	if !ok {
		return
	}
	h.Set(mcp.HeaderVersion, version)
	h.Set(mcp.HeaderMethod, m.Method)
	if known := mcp.LookupMethod(m.Method); known != nil && known.NameKey != "" {
		if name, ok := jsonrpc.Text(m.Raw, m.Param(known.NameKey)); ok {
			h.Set(mcp.HeaderName, mirror.EncodeValue(name))
		}
	}
}

func (w *web) send(p parcel) int {
	w.sent++
	n := w.sent
	if w.underWay.Add(1) > maxUnsent {
		w.underWay.Add(-1)
		return n // too many requests have no response; drop the parcel, so that the probe times out
	}
	w.running.Go(func() {
		defer w.underWay.Add(-1)
		end := piece{of: n, end: true}
		q, err := w.request(w.ctx, p)
		if err != nil {
			end.err = err
			w.give(end)
			return
		}
		res, err := w.t.Transport.RoundTrip(q)
		if err != nil {
			end.err = err
			w.give(end)
			return
		}
		defer res.Body.Close()
		end.status, end.header = res.StatusCode, res.Header
		w.learn(res.Header)
		for ev := range rawlink.Messages(res, maxLine) {
			if len(bytes.TrimSpace(ev.Data)) > 0 {
				w.give(piece{raw: ev.Data, of: n, status: res.StatusCode, header: res.Header})
			}
		}
		w.give(end)
	})
	return n
}

// learn keeps the first session id that the server assigns.
func (w *web) learn(h http.Header) {
	if id := h.Get(mcp.HeaderSession); id != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.session == "" {
			w.session = id
		}
	}
}

func (w *web) give(p piece) {
	select {
	case w.in <- p:
	case <-w.ctx.Done():
	}
}

// speak sets the MCP-Protocol-Version header of the following requests to r, if r is a legacy
// revision with this header.
func (w *web) speak(r mcp.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Can(mcp.VersionHeader) && r.Legacy() {
		w.version = r.String()
	}
}

// sessionOf returns the session id that the server has assigned, or "".
func (w *web) sessionOf() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session
}

// sse is the connection over HTTP+SSE (2024-11-05 §Transports). The server sends its messages on
// one stream. The doctor posts its messages to the address in the first event of this stream.
type sse struct {
	web
	to  string
	out chan []byte
}

func openSSE(ctx context.Context, t *Target) (*sse, error) {
	w := &sse{web: web{t: t, in: make(chan piece, maxPieces)}, out: make(chan []byte, maxUnsent)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	q, err := w.request(w.ctx, parcel{method: http.MethodGet})
	if err != nil {
		w.cancel()
		return nil, err
	}
	events, err := rawlink.OpenStream(t.Transport.RoundTrip, q, maxLine)
	if err != nil {
		w.cancel()
		return nil, err
	}
	w.to = events.To
	w.running.Go(w.post)
	w.running.Go(func() {
		defer close(w.in)
		defer events.Body.Close()
		for {
			ev, err := events.Next()
			if err != nil {
				return
			}
			if len(ev.Data) > 0 {
				w.give(piece{raw: ev.Data})
			}
		}
	})
	return w, nil
}

// send queues a message. post sends the queued messages one at a time, because their order matters.
func (w *sse) send(p parcel) int {
	w.sent++
	select {
	case w.out <- p.body:
	default: // the queue is full because the server does not read; drop the message, so that the probe times out
	}
	return w.sent
}

func (w *sse) post() {
	for {
		var body []byte
		select {
		case body = <-w.out:
		case <-w.ctx.Done():
			return
		}
		q, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.to, bytes.NewReader(body))
		if err != nil {
			return
		}
		for k, v := range w.t.Header {
			q.Header[k] = v
		}
		q.Header.Set("Content-Type", "application/json")
		if res, err := w.t.Transport.RoundTrip(q); err == nil {
			_ = res.Body.Close()
		}
	}
}

func (w *sse) close() {
	w.cancel()
	w.running.Wait()
}
