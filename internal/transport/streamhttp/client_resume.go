package streamhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

const (
	minRetry     = 500 * time.Millisecond
	maxRetry     = 60 * time.Second
	defaultRetry = time.Second

	// maxEmpty is the number of connections in a row without an event after which a request fails.
	// maxTries is the maximum number of attempts for each reconnection.
	maxEmpty = 5
	maxTries = 5
)

// reconnects determines the pauses before the client reconnects after failures.
var reconnects = work.Backoff{First: 2 * defaultRetry, Ceiling: maxRetry}

// wait returns the delay before the client reconnects. failures is the number of failures in a row.
// If failures is 0, wait returns the delay that the server requested, or defaultRetry. After
// failures, wait may return a longer delay, which is random in part, because other clients may wait
// for the same server.
func (s *stream) wait(failures int) time.Duration {
	d := s.retry
	if d == 0 {
		d = defaultRetry
	}
	if failures == 0 {
		return d
	}
	return max(d, reconnects.Pause(failures))
}

// get opens a stream by GET. If s.last is set, the stream continues after that event.
func (s *stream) get(ctx context.Context) (*httplink.Response, error) {
	var p trails.Passage
	if s.trail != nil {
		p = s.trail.Sent(trails.ServerWire, nil) // a GET request contains no message
	}
	h := s.c.link.NewHeader(4)
	h["Accept"] = eventsOnly
	set := s.c.sessionHeaders(h, s.rules)
	if s.last != "" {
		h[mcp.HeaderLastEvent] = []string{s.last}
		set |= lastEvent
	}
	resp, err := s.c.link.Send(ctx, http.MethodGet, h, nil)
	if s.trail != nil {
		s.trail.Exchanged(p, trails.NewHead(http.MethodGet, s.c.link.Path(), 0, h, s.c.reasons.of(set)...), trails.Head{})
		if resp != nil {
			s.trail.Exchanged(p, trails.Head{}, trails.NewHead("", "", resp.StatusCode, resp.Header, receivedFields...))
		}
	}
	return resp, err
}

// resume continues the broken stream of a request (2025-11-25 §Transports, "Resumability and
// Redelivery"). failures is the number of previous connections in a row without an event.
func (s *stream) resume(ctx context.Context, failures int) (*httplink.Response, error) {
	var last error
	for range maxTries {
		if err := work.Sleep(ctx, s.wait(failures)); err != nil {
			return nil, err
		}
		failures++
		resp, err := s.get(ctx)
		switch {
		case ctx.Err() != nil:
			if resp != nil {
				resp.Close()
			}
			return nil, context.Cause(ctx)
		case err != nil:
			last = err
		case success(resp) && resp.Media() == httplink.Events:
			return resp, nil
		case overloaded(resp):
			last = s.refused(resp)
		default:
			return nil, resp.Refused()
		}
	}
	return nil, last
}

// overloaded reports whether the server may accept the same request later.
func overloaded(r *httplink.Response) bool {
	return r.StatusCode == http.StatusTooManyRequests || r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented
}

// refused returns the error for a response that refuses the request. It stores the delay from the
// Retry-After header in s.retry, within limits.
func (s *stream) refused(resp *httplink.Response) *transport.StatusError {
	e := resp.Refused()
	if e.RetryAfter > 0 {
		s.retry = min(max(e.RetryAfter, minRetry), maxRetry)
	}
	return e
}

// Listen keeps the event stream for GET open, which exists only in revisions with sessions
// (2025-11-25 §Transports, "Listening for Messages from the Server"). It passes the messages of the
// stream to in until ctx ends, and then returns the cause. When the stream ends, Listen reconnects,
// and continues after the last event that had an id.
//
// It returns ErrNoListen if the server does not offer the stream, ErrSessionLost if the server has
// lost the session, and a *transport.StatusError if the status is 401 or 403.
func (c *Client) Listen(ctx context.Context, rules *transport.Rules, in transport.Inbox) error {
	if rules == nil {
		rules = &anyRules
	}
	s := &stream{c: c, rules: rules, in: in, rd: new(eventstream.Reader)}
	for failures := 0; ; {
		resp, err := s.get(ctx)
		switch {
		case ctx.Err() != nil:
			if resp != nil {
				resp.Close()
			}
			return context.Cause(ctx)
		case err != nil:
			failures++
			c.interrupted()
			c.log.Debug("cannot open the event stream for notifications (GET)", slog.Any("err", err), slog.Int("attempt", failures))
		case success(resp) && resp.Media() == httplink.Events:
			s.rd.Reset(resp.Body, s.limits())
			_, empty, err := s.read()
			resp.Close()
			c.interrupted()
			if errors.Is(err, eventstream.ErrTooLarge) {
				s.last = "" // if the stream resumed before this event, the server would send the event again
				c.log.Warn("discarded an SSE event over the size limit on the notification stream")
			}
			failures++
			if !empty {
				failures = 0
			}
		case overloaded(resp):
			s.refused(resp)
			failures++
		case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
			return resp.Refused()
		case resp.StatusCode == http.StatusNotFound && c.Session() != "":
			resp.Discard()
			return ErrSessionLost
		case resp.StatusCode == http.StatusBadRequest && s.last != "":
			// The server no longer knows the event s.last. So Listen opens a new stream, and missed
			// messages are lost.
			resp.Discard()
			s.last = ""
			failures++
		default:
			return fmt.Errorf("%w: %w", ErrNoListen, resp.Refused())
		}
		if err := work.Sleep(ctx, s.wait(failures)); err != nil {
			return err
		}
	}
}
