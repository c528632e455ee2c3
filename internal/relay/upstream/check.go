package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// An HTTP server can disappear unnoticed, because no pipe ends when the server exits. So Dragoman
// pings the sessions of each server that is kept open. It checks an idle session once a minute, and
// any session soon after a call failed or a stream of the server ended. A session that fails two
// pings in a row is ended, and the server is opened again in the background. If the operator has
// set an interval for pings, the pings in ping.go replace the checks of idle sessions.

const (
	checkEvery   = time.Minute
	checkTimeout = 10 * time.Second
	// checkGap is the minimum time between two checks of a session, because servers may end their
	// streams often. If the ping of a check fails, the check pings once more after checkAgain.
	checkGap   = 5 * time.Second
	checkAgain = time.Second
)

// errNoAnswer is the reason for the end of a session that failed its checks. errPingTimeout is the
// error of a ping without an answer.
var (
	errNoAnswer    = errors.New("the server does not answer a ping")
	errPingTimeout = errors.New("no answer")
)

// checkLater schedules a check of a session, and cancels a check that was scheduled before.
// It has an effect only if the server uses HTTP and is kept open.
func (w *watchdog) checkLater(st *state, s *session, after time.Duration) {
	if s.pipe || s.over || !st.health.kept || st.ops.closed {
		return
	}
	s.stopCheck()
	s.check = time.AfterFunc(after, func() { w.work.Go(func() { w.check(s) }) })
}

// checkInAMinute schedules the next regular check of a session, unless ping.go pings the
// session.
func (w *watchdog) checkInAMinute(st *state, s *session) {
	if s.ping != nil {
		s.stopCheck()
		return
	}
	w.checkLater(st, s, checkEvery)
}

// stopCheck cancels the scheduled check.
func (s *session) stopCheck() {
	if s.check != nil {
		s.check.Stop()
		s.check = nil
	}
}

// checkSoon schedules an early check of a session after a failure. It has an effect only if the
// session has regular checks or pings.
func (w *watchdog) checkSoon(s *session) {
	if s.pipe {
		return
	}
	w.update(func(st *state) {
		if s.check != nil || s.ping != nil {
			w.checkLater(st, s, max(checkGap-time.Since(s.checked), 0))
		}
	})
}

// check pings the server, and ends the session if the server does not answer. It does not ping
// while calls run, because running calls show whether the server answers.
func (w *watchdog) check(s *session) {
	skip := get(w.core, func(st *state) bool {
		s.checked = time.Now()
		busy := s.server.Running() > 0
		if busy {
			w.checkInAMinute(st, s)
		}
		return busy || s.over || s.outdated || st.ops.closed || !st.health.kept
	})
	if skip {
		return
	}
	err := w.pingFails(s)
	if err != nil && work.Sleep(w.life, checkAgain) == nil {
		err = w.pingFails(s)
	}
	if w.life.Err() != nil {
		return
	}
	if err != nil && s.server.Running() == 0 {
		w.broker.drop(s, fmt.Errorf("%w: %w", errNoAnswer, err))
		for _, other := range w.others(s) {
			w.checkSoon(other)
		}
		return
	}
	w.update(func(st *state) {
		w.checkInAMinute(st, s)
	})
}

func (w *watchdog) others(s *session) []*session {
	return get(w.core, func(st *state) []*session {
		return slices.DeleteFunc(st.pools.all(), func(x *session) bool { return x == s })
	})
}

// pingFails pings the server. It returns nil if the server answers, and otherwise the reason why
// the session cannot be used. Any answer is enough, even HTTP status 429. Without credentials we
// can't ask, and whoever signs in next finds the session as it was.
func (w *watchdog) pingFails(s *session) error {
	err := w.pingWithin(s, checkTimeout)
	if statusOf(err) == http.StatusTooManyRequests || errors.Is(err, transport.ErrCredentials) {
		return nil
	}
	return err
}

// pingWithin pings the server. The error is errPingTimeout if there is no answer within limit.
func (w *watchdog) pingWithin(s *session, limit time.Duration) error {
	ctx, stop := context.WithTimeout(w.life, limit)
	defer stop()
	_, err := s.server.Call(ctx, w.ownCall(pingMethod(s), nil, nil), mcp.NoCaller{})
	if err != nil && w.life.Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w within %s", errPingTimeout, limit)
	}
	return err
}

// statusOf returns the HTTP status in an error, or 0 if err contains no HTTP status.
func statusOf(err error) int {
	var status *transport.StatusError
	if errors.As(err, &status) {
		return status.Status
	}
	return 0
}

// pingMethod returns the method that is used as a ping. The modern revisions have no ping
// (2026-07-28 §Changelog), but all modern servers support server/discover.
func pingMethod(s *session) string {
	if s.server.Revision().Can(mcp.Ping) {
		return mcp.MethodPing
	}
	return mcp.MethodDiscover
}
