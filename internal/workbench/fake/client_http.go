package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// httpWire is the connection to a server over Streamable HTTP. The client sends each message with a
// POST. The response is plain JSON or an event stream. In revisions with sessions, a GET stream
// carries messages that belong to no POST (2025-03-26 and later, §Streamable HTTP).
type httpWire struct {
	c      *Client
	url    string
	client *http.Client
	ctx    context.Context // the context of MCP requests and of the GET stream; ends in close
	stop   context.CancelFunc
	runs   sync.WaitGroup

	mu      sync.Mutex
	session string
	seen    map[string]bool // the event ids that the client has received in this session
}

// Limits, pauses and timeouts of the HTTP transports.
const (
	maxEventIDs     = 100_000
	maxResumes      = 20
	betweenGETs     = 50 * time.Millisecond
	headersWithin   = 2 * time.Second
	bodyOfErrorMost = 64 << 10
)

// newHTTPClient returns a client that has its own connections and uses no proxy.
func newHTTPClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *Client) dialHTTP(url string) *httpWire {
	h := &httpWire{c: c, url: url, client: newHTTPClient(), seen: map[string]bool{}}
	h.ctx, h.stop = context.WithCancel(c.ctx)
	return h
}

// request builds an HTTP request with the headers that every request needs.
func (h *httpWire) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, h.url, body)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	session := h.session
	h.mu.Unlock()
	if session != "" {
		r.Header.Set(mcp.HeaderSession, session)
	}
	h.c.mu.Lock()
	greeted := h.c.ready
	h.c.mu.Unlock()
	if h.c.e.has(versionHeader) && !h.c.habits.noVersion && (greeted || h.c.e.has(perRequest)) {
		// 2025-06-18 §Transports, "Protocol Version Header": the header is required on all requests
		// after initialize. 2026-07-28: it is required on all requests.
		r.Header.Set(mcp.HeaderVersion, h.c.e.date)
	}
	return r, nil
}

func (h *httpWire) post(ctx context.Context, msg []byte, f *pendingRequest) (*http.Response, error) {
	r, err := h.request(ctx, http.MethodPost, bytes.NewReader(msg))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if f != nil && f.opts.probe != nil {
		r.Header.Set(mcp.HeaderVersion, f.opts.probe.date)
	}
	if f != nil && (h.c.e.has(mirrored) || h.c.habits.names || f.opts.probe != nil) {
		r.Header.Set(mcp.HeaderMethod, f.method)
		if f.name != "" {
			r.Header.Set(mcp.HeaderName, headerValue(f.name))
		}
		if f.method == mcp.MethodCallTool {
			for name, value := range h.c.mirrorsOf(f) {
				r.Header.Set(mcp.HeaderParam+name, value)
			}
		}
	}
	return h.client.Do(r)
}

// drained reads the beginning of a body and closes it. It returns an error for a status other than 2xx.
func drained(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, bodyOfErrorMost))
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, clip(string(body)))
	}
	return body, nil
}

func (h *httpWire) send(ctx context.Context, msg []byte, f *pendingRequest) error {
	if f == nil {
		resp, err := h.post(ctx, msg, nil)
		if err != nil {
			return err
		}
		body, err := drained(resp)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusAccepted || len(body) > 0 {
			// §Streamable HTTP, "Sending Messages": the response is 202 with an empty body.
			h.c.violate("the server answered a notification or a response with the status %d and %d bytes, want 202 and no body", resp.StatusCode, len(body))
		}
		return nil
	}
	ctx, cut := context.WithCancel(h.ctx)
	f.cut = cut
	h.runs.Go(func() {
		defer cut()
		resp, err := h.post(ctx, msg, f)
		if err == nil {
			err = h.answer(ctx, f, resp)
		}
		if err != nil {
			h.c.fail(f, fmt.Errorf("%s: %w", f.method, err))
		}
	})
	return nil
}

// answer reads the HTTP response to the request f. It returns nil if the HTTP response contains the
// JSON-RPC response.
func (h *httpWire) answer(ctx context.Context, f *pendingRequest, resp *http.Response) error {
	defer resp.Body.Close()
	h.takeSession(f, resp)
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode == http.StatusOK && kind == "text/event-stream":
		return h.stream(ctx, f, resp)
	case kind == "application/json":
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
		if err != nil {
			return err
		}
		h.checkStatus(f, resp.StatusCode, body)
		if h.c.receive(body, origin{f: f}) {
			return nil
		}
		return fmt.Errorf("the response has status %d, and its body has no answer: %s", resp.StatusCode, clip(string(body)))
	case resp.StatusCode == http.StatusOK:
		h.c.violate("the answer to %s has the Content-Type %s, want application/json or text/event-stream", f.method, clip(kind))
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, bodyOfErrorMost))
	return fmt.Errorf("status %d: %s", resp.StatusCode, clip(string(body)))
}

// takeSession checks and stores the session id in resp. Only the response to initialize may set a
// session id (2025-03-26 §Streamable HTTP, "Session Management"). Since 2026-07-28, no response may
// set one.
func (h *httpWire) takeSession(f *pendingRequest, resp *http.Response) {
	id := resp.Header.Get(mcp.HeaderSession)
	if id == "" {
		return
	}
	if !h.c.e.has(httpSessions) {
		h.c.violate("the answer to %s has an Mcp-Session-Id header, but %s has no sessions", f.method, h.c.e.date)
		return
	}
	for _, b := range []byte(id) {
		if b < 0x21 || b > 0x7e {
			h.c.violate("the session id contains the byte %#x, which is not allowed", b)
			return
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.method == mcp.MethodInitialize {
		h.session = id
	} else if id != h.session {
		h.c.violate("the answer to %s has the Mcp-Session-Id of another session", f.method)
	}
}

// checkStatus checks that the HTTP status matches the result or the error code in body (2026-07-28
// §Streamable HTTP, "Protocol Version Header" and "Server Validation"; §Base, "_meta").
func (h *httpWire) checkStatus(f *pendingRequest, status int, body []byte) {
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if err != nil {
		return // Client.receive reports this error
	}
	if m.Kind != jsonrpc.Failure {
		if status != http.StatusOK {
			h.c.violate("the result of %s came with the status %d, not 200", f.method, status)
		}
		return
	}
	if !h.c.e.has(perRequest) {
		return
	}
	code, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	want := 0
	switch code {
	case jsonrpc.CodeMethodNotFound:
		want = http.StatusNotFound
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		want = http.StatusBadRequest
	}
	if want != 0 && status != want {
		h.c.violate("the error %d of %s came with the status %d, not %d", code, f.method, status, want)
	}
}

// stream reads a response stream until the answer to f has arrived. If the stream breaks before the
// answer, and the revision allows resumption, stream resumes it.
func (h *httpWire) stream(ctx context.Context, f *pendingRequest, resp *http.Response) error {
	s := &resumable{h: h, f: f, breakAfter: f.opts.Break}
	for tries := 0; ; tries++ {
		ended, err := s.read(resp)
		if ended {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !h.c.e.has(httpSessions) || s.last == "" || tries == maxResumes {
			return errors.Join(errors.New("the stream ended without the answer"), err)
		}
		if err := work.Sleep(ctx, s.retry); err != nil {
			return err
		}
		if resp, err = h.get(ctx, s.last); err != nil {
			return fmt.Errorf("resume: %w", err)
		}
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			return fmt.Errorf("resume: status %d", resp.StatusCode)
		}
	}
}

// get opens a stream. If last is not "", the stream continues after the event with the id last
// (2025-03-26 §Streamable HTTP, "Resumability and Redelivery").
func (h *httpWire) get(ctx context.Context, last string) (*http.Response, error) {
	r, err := h.request(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set(mcp.HeaderLastEvent, last)
	}
	return h.client.Do(r)
}

// resumable is a stream that the client can resume. It may consist of several HTTP responses.
type resumable struct {
	h          *httpWire
	f          *pendingRequest // the request that the stream belongs to; nil for the GET stream of the session
	last       string
	retry      time.Duration
	breakAfter int
}

// read reads the events of one HTTP response. ended reports whether the answer to s.f has arrived.
func (s *resumable) read(resp *http.Response) (ended bool, err error) {
	defer resp.Body.Close()
	r := rawlink.NewReader(resp.Body, maxMessage)
	for {
		ev, err := r.Next()
		if err != nil {
			return ended, err
		}
		if ev.Retry >= 0 {
			s.retry = time.Duration(ev.Retry) * time.Millisecond
		}
		// An event without data may repeat the id of the last event.
		if ev.ID != "" && (len(ev.Data) > 0 || ev.ID != s.last) {
			s.remember(ev.ID)
		}
		if ev.Name != "" && ev.Name != "message" {
			s.h.c.violate("the server sent an event of the type %s, want message", clip(ev.Name))
			continue
		}
		if len(ev.Data) > 0 {
			if s.h.c.receive(ev.Data, origin{f: s.f, get: s.f == nil}) && s.f != nil {
				ended = true
			}
		}
		if ended {
			return true, nil
		}
		if ev.ID != "" && s.breakAfter > 0 {
			if s.breakAfter--; s.breakAfter == 0 {
				return false, nil
			}
		}
	}
}

// remember records the id of an event. Ids must be unique in the session. Since 2026-07-28,
// events have no ids (§Key Changes, "Remove SSE stream resumability").
func (s *resumable) remember(id string) {
	h := s.h
	if !h.c.e.has(httpSessions) {
		h.c.violate("the server sent an event with an id, but streams of %s are not resumable", h.c.e.date)
		return
	}
	s.last = id
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[id] {
		h.c.violate("the event id %s was repeated", clip(id))
	}
	if len(h.seen) < maxEventIDs {
		h.seen[id] = true
	}
}

// listen opens the GET stream of the session, and opens it again whenever it ends. The server may
// refuse the stream with 405. listen returns when the server has answered, or after headersWithin.
func (h *httpWire) listen() {
	opened := make(chan struct{})
	h.runs.Go(func() {
		var once sync.Once
		open := func() { once.Do(func() { close(opened) }) }
		defer open()
		s := &resumable{h: h, retry: betweenGETs}
		for h.ctx.Err() == nil {
			resp, err := h.get(h.ctx, s.last)
			if err != nil {
				if h.ctx.Err() == nil && !h.c.over() {
					h.c.violate("GET: %v", err)
				}
				return
			}
			kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
			if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
				// While we delete the session, a GET can still find that it has gone.
				gone := resp.StatusCode == http.StatusNotFound && h.c.over()
				if resp.StatusCode != http.StatusMethodNotAllowed && !gone {
					h.c.violate("the server answered GET with the status %d and the Content-Type %s, want 200 and text/event-stream, or 405", resp.StatusCode, clip(kind))
				}
				resp.Body.Close()
				return
			}
			open()
			_, _ = s.read(resp)
			if work.Sleep(h.ctx, s.retry) != nil {
				return
			}
		}
	})
	t := time.NewTimer(headersWithin)
	defer t.Stop()
	select {
	case <-opened:
	case <-t.C:
	}
}

// cancel closes the stream of a request in revisions in which a closed stream cancels the request.
func (h *httpWire) cancel(f *pendingRequest) bool {
	if !h.c.e.has(perRequest) {
		return false
	}
	if f.cut != nil {
		f.cut()
	}
	return true
}

// close deletes the session (2025-03-26 §Streamable HTTP, "Session Management") and closes all
// connections. A server may refuse to delete the session with 405.
func (h *httpWire) close(ctx context.Context) error {
	h.mu.Lock()
	session := h.session
	h.mu.Unlock()
	var err error
	if session != "" {
		err = h.farewell(ctx)
	}
	h.stop()
	h.runs.Wait()
	h.client.CloseIdleConnections()
	return err
}

func (h *httpWire) farewell(ctx context.Context) error {
	r, err := h.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return err
	}
	resp, err := h.client.Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusMethodNotAllowed {
		return fmt.Errorf("the server answered DELETE of the session with the status %d", resp.StatusCode)
	}
	return nil
}
