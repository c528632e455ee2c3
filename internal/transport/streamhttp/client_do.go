package streamhttp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// Do sends one request and returns its answer, a Result or a Failure. The answer has the id out.ID,
// possibly in another spelling. A Failure without an id also counts as the answer, because it
// cannot belong to another request. Do calls in for each message before the answer, in the
// goroutine of the caller. If in is nil, Do drops these messages.
//
// When ctx ends, Do closes the response and returns the cause. For an error status, and for a
// success status without an answer, the error is a *transport.StatusError. If the server received
// nothing of the request, the error wraps transport.ErrNotSent. If the answer is not a valid
// message, or is an event over the limit, the error is a *transport.BadAnswer. Other errors are
// ErrNoAnswer, transport.ErrTooLarge, transport.ErrEndless and errors of net/http.
func (c *Client) Do(ctx context.Context, out *transport.Outgoing, in transport.Inbox) (*jsonrpc.Message, error) {
	h, set := c.header(out)
	resp, err := c.link.Send(ctx, http.MethodPost, h, out.Body)
	c.exchanged(out, h, set, resp)
	if err != nil {
		return nil, err
	}
	if !success(resp) {
		return nil, resp.Refused()
	}
	if out.Method == mcp.MethodInitialize && out.Rules != nil && out.Rules.Sessions {
		c.storeSession(resp.Header)
	}
	switch resp.Media() {
	case httplink.JSON:
		return c.answer(ctx, resp, out)
	case httplink.Events:
		return c.follow(ctx, resp, out, in)
	}
	return nil, resp.Refused()
}

// answer reads a response that is one JSON object.
func (c *Client) answer(ctx context.Context, resp *httplink.Response, out *transport.Outgoing) (*jsonrpc.Message, error) {
	b, err := resp.ReadAll(c.limits.Bytes)
	if err != nil {
		resp.Close()
		return nil, ended(ctx, err)
	}
	m, err := jsonrpc.Scan(b, c.limits)
	if err != nil {
		if err = c.unusable(transport.Refused(b, err), out.ID); err != nil {
			resp.Close()
			return nil, err
		}
		return nil, resp.NotMCP(b)
	}
	if !c.answers(m, out.ID) {
		if m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure {
			c.drop("the response contains an answer to another request", m)
		}
		return nil, resp.NotMCP(b)
	}
	resp.Close()
	return m, nil
}

// readers is a pool of event readers. Each response uses its own reader.
var readers = sync.Pool{New: func() any { return new(eventstream.Reader) }}

// unusable returns the *transport.BadAnswer in err if it can be the answer to the request id, and
// nil otherwise. An invalid answer without an id is accepted, because HTTP assigns each response to
// its request.
func (c *Client) unusable(err error, id jsonrpc.ID) error {
	var bad *transport.BadAnswer
	if errors.As(err, &bad) && (bad.ID == "" || plainID(bad.ID) == plainID(id)) {
		return bad
	}
	return nil
}

// follow reads a response that is an event stream. If the stream breaks and can be resumed, follow
// resumes it.
func (c *Client) follow(ctx context.Context, resp *httplink.Response, out *transport.Outgoing, in transport.Inbox) (*jsonrpc.Message, error) {
	rules := out.Rules
	if rules == nil {
		rules = &anyRules
	}
	s := &stream{c: c, rules: rules, id: out.ID, in: in, trail: out.Trail}
	s.rd = readers.Get().(*eventstream.Reader)
	defer func() {
		s.rd.Reset(nil, eventstream.Limits{}) // a reader in the pool must not refer to the connection
		readers.Put(s.rd)
	}()
	for empty := 0; ; {
		s.rd.Reset(resp.Body, s.limits())
		m, emptyNow, err := s.read()
		if m != nil {
			c.finish(resp, s.rd)
			return m, nil
		}
		resp.Close()
		var bad *transport.BadAnswer
		switch {
		case ctx.Err() == nil && errors.As(err, &bad):
			return nil, bad
		case ctx.Err() == nil && errors.Is(err, eventstream.ErrTooLarge):
			return nil, transport.ErrEndless
		case ctx.Err() != nil || !rules.Resumable || s.last == "":
			return nil, ended(ctx, err)
		}
		if !emptyNow {
			empty = 0
		} else if empty++; empty == maxEmpty {
			return nil, ended(ctx, err)
		}
		if resp, err = s.resume(ctx, empty); err != nil {
			return nil, ended(ctx, err)
		}
	}
}

// stream is one event stream. If the stream is resumed, it consists of several connections.
type stream struct {
	c     *Client
	rules *transport.Rules
	id    jsonrpc.ID // id of the request that the stream answers, "" for the stream of Listen
	in    transport.Inbox
	rd    *eventstream.Reader
	long  jsonrpc.Salvage // reads an event over the limit to find which request the event answers
	trail *trails.Trail   // records the GET requests that resume the stream; nil if nothing is recorded

	last  string // the event id to resume after, "" if the stream cannot be resumed
	retry time.Duration
}

func (s *stream) limits() eventstream.Limits {
	most := s.c.limits.Bytes
	return eventstream.Limits{Bytes: most, Skip: &s.long, Endless: transport.Endless(most)}
}

// read reads events from the current connection until it gets the answer or the connection ends.
// empty is true if the connection ended without an event and within maxRetry. If the answer is not
// a valid message, err is a *transport.BadAnswer.
func (s *stream) read() (answer *jsonrpc.Message, empty bool, err error) {
	opened := time.Now()
	events := 0
	for {
		e, err := s.rd.Next()
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF // the caller still expects the answer
			}
			return nil, events == 0 && time.Since(opened) < maxRetry, err
		}
		events++
		if e.HasRetry {
			// 2025-11-25 §Transports, "Sending Messages to the Server" 6: the client must respect
			// the delay of the server. Dragoman keeps the delay between minRetry and maxRetry.
			s.retry = min(max(e.Retry, minRetry), maxRetry)
		}
		if e.HasID && (e.ID == "" || eventstream.ValidID(e.ID)) {
			s.last = e.ID
		}
		if e.Skipped {
			err = transport.Skipped(s.c.limits.Bytes, &s.long)
			s.long.Reset()
		}
		if len(e.Data) == 0 && !e.Skipped || e.Name != "" && e.Name != "message" {
			continue
		}
		var m *jsonrpc.Message
		if !e.Skipped {
			if m, err = jsonrpc.Scan(e.Data, s.c.limits); err != nil {
				err = transport.Refused(e.Data, err)
			}
		}
		if err != nil {
			if s.id != "" {
				if bad := s.c.unusable(err, s.id); bad != nil {
					return nil, false, bad
				}
			}
			s.unreadable(err)
			continue
		}
		if s.take(m) {
			return m, false, nil
		}
	}
}

// unreadable drops an event that is not a message.
func (s *stream) unreadable(err error) {
	why := "the stream contains an event that is not a JSON-RPC message"
	if errors.Is(err, transport.ErrTooLarge) {
		s.c.log.Warn("discarded an SSE event over the size limit", slog.String("cause", err.Error()))
		why = "the stream contains an event that is larger than the size limit"
	}
	s.c.drop(why, nil)
}

// take handles one message and reports whether it is the answer.
func (s *stream) take(m *jsonrpc.Message) bool {
	c := s.c
	switch m.Kind {
	case jsonrpc.Result, jsonrpc.Failure:
		if s.id != "" && c.answers(m, s.id) {
			return true
		}
		c.drop("the stream contains an answer to another request", m)
		if s.in != nil {
			s.in(m) // pass on the wrong answer, because it shows the caller how the server behaves
		}
		return false
	case jsonrpc.Request:
		if !s.rules.RequestsOnSSE {
			// 2026-07-28 §Streamable HTTP, "Receiving Messages", forbids server requests on the
			// stream (MUST NOT).
			c.drop("the stream contains a server request that the revision of the server does not allow", m)
			return false
		}
	}
	if s.in != nil {
		s.in(m)
	}
	return false
}

// answers reports whether m is the answer to the request id. HTTP assigns a response to its
// request, so a Failure may have no id, and the id of m may be spelled differently.
func (c *Client) answers(m *jsonrpc.Message, id jsonrpc.ID) bool {
	switch {
	case m.Kind == jsonrpc.Failure && (m.ID == "" || m.ID == "null"):
		return true
	case m.Kind != jsonrpc.Result && m.Kind != jsonrpc.Failure:
		return false
	case m.ID == id:
		return true
	}
	return plainID(m.ID) == plainID(id)
}

// plainID returns an id without details that some servers add or remove: quotes, and a zero
// fraction such as .0.
func plainID(id jsonrpc.ID) string {
	s := string(id)
	if len(s) >= 2 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	if whole, fraction, ok := strings.Cut(s, "."); ok && strings.Trim(fraction, "0") == "" {
		s = whole
	}
	return s
}

// lingering decides whether to wait for the end of a stream after the answer.
type lingering struct {
	time time.Duration
	skip atomic.Int32
}

const (
	lingerTime = 10 * time.Millisecond
	lingerSkip = 64   // number of streams to close without waiting, after a stream that did not end in time
	lingerMost = 1024 // maximum number of events that are read after an answer
)

// finish ends a stream after its answer. The server should end the stream itself (2026-07-28
// §Streamable HTTP, "Receiving Messages"). An HTTP/1 connection can be reused only if the server
// does so. So finish waits up to lingerTime, unless the server recently failed to end a stream.
func (c *Client) finish(resp *httplink.Response, rd *eventstream.Reader) {
	defer resp.Close()
	if resp.ProtoMajor >= 2 {
		return
	}
	if skip := c.linger.skip.Load(); skip > 0 {
		c.linger.skip.Add(-1)
		return
	}
	timer := time.AfterFunc(c.linger.time, func() { resp.Body.Close() })
	for range lingerMost {
		e, err := rd.Next()
		if err != nil {
			break
		}
		if len(e.Data) > 0 {
			c.drop("the stream contains an event after the answer", nil)
		}
	}
	if !timer.Stop() {
		c.linger.skip.Store(lingerSkip)
	}
}
