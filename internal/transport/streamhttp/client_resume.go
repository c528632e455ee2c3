package streamhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

const (
	minRetry     = 500 * time.Millisecond
	maxRetry     = 60 * time.Second
	defaultRetry = time.Second

	// maxBarren is how many continuations in a row may end at once without an event
	// before a request is given up; maxTries how many attempts one continuation gets.
	maxBarren = 5
	maxTries  = 5
)

// wait returns how long to wait before connecting again after so many failures in
// a row: as long as the server asked for, longer when it keeps failing. The
// server's own time is kept to exactly; ours are spread, for others may be waiting
// for the same server.
func (s *stream) wait(failures int) time.Duration {
	d := s.retry
	if d == 0 {
		d = defaultRetry
	}
	if failures == 0 {
		return d
	}
	backoff := min(defaultRetry<<min(failures, 6), maxRetry)
	return max(d, backoff-rand.N(backoff/4))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// get opens a stream by GET, after the event s.last when there is one.
func (s *stream) get(ctx context.Context) (*httplink.Response, error) {
	h := s.c.link.NewHeader(4)
	h["Accept"] = eventsOnly
	s.c.sessionHeaders(h, s.rules)
	if s.last != "" {
		h[mcp.HeaderLastEvent] = []string{s.last}
	}
	return s.c.link.Send(ctx, http.MethodGet, h, nil)
}

// resume continues the stream of a request where it broke off (2025-11-25
// §Transports, "Resumability and Redelivery"). failures is how many continuations
// before this one brought nothing.
func (s *stream) resume(ctx context.Context, failures int) (*httplink.Response, error) {
	var last error
	for range maxTries {
		if err := sleep(ctx, s.wait(failures)); err != nil {
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

// overloaded reports whether a refusal may pass by itself.
func overloaded(r *httplink.Response) bool {
	return r.StatusCode == http.StatusTooManyRequests || r.StatusCode >= 500 && r.StatusCode != http.StatusNotImplemented
}

// refused takes from a refusal when to come back.
func (s *stream) refused(resp *httplink.Response) *transport.StatusError {
	e := resp.Refused()
	if e.RetryAfter > 0 {
		s.retry = min(max(e.RetryAfter, minRetry), maxRetry)
	}
	return e
}

// Listen holds the standing stream of the revisions that have sessions (2025-11-25
// §Transports, "Listening for Messages from the Server") and gives what arrives on
// it to in, until ctx ends, whose cause it returns. It connects again when the
// stream ends, after the last event that had an id.
//
// It gives up with ErrNoListen when the server offers no such stream, with
// ErrSessionLost when it has forgotten the session, and with a
// *transport.StatusError when it wants other credentials.
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
			c.log.Debug("standing stream cannot be opened", slog.Any("err", err), slog.Int("attempt", failures))
		case success(resp) && resp.Media() == httplink.Events:
			s.rd.Reset(resp.Body, s.limits())
			_, barren, err := s.read()
			resp.Close()
			if errors.Is(err, eventstream.ErrTooLarge) {
				s.last = "" // it would only come again
				c.log.Warn("an event on the standing stream does not end")
			}
			failures++
			if !barren {
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
			// It does not know the event any more. What was missed is lost.
			resp.Discard()
			s.last = ""
			failures++
		default:
			return fmt.Errorf("%w: %w", ErrNoListen, resp.Refused())
		}
		if err := sleep(ctx, s.wait(failures)); err != nil {
			return err
		}
	}
}
