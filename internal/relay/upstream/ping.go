package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// If Spec.Ping is set, Dragoman pings the idle sessions of the server (2025-11-25 §Ping,
// "Implementation Considerations": periodic pings, a frequency that can be configured, and logged
// failures). It pings each legacy session, on any transport, that has no calls and on which nothing
// has happened for the interval. Any answer counts, even the error -32601. If there is no answer,
// the server is unresponsive until it answers a ping or a call. A server on a pipe is responsive
// again as soon as it sends anything.
//
// A ping without an answer never ends the server's process by itself, because the server may be busy
// with its own work. But new calls get another session (see leaveHung). If calls wait for an
// unresponsive server, or have needed it in vain, Dragoman ends its process as described in health.go. Over HTTP, pings replace the regular checks of idle sessions (see check.go). A session is
// then checked only if the server cannot be reached, or if the server has been unresponsive for
// twice the idle timeout of a call.

const (
	// pingTimeout is the timeout of a ping. If Spec.Ping is shorter, the timeout is Spec.Ping.
	pingTimeout = 10 * time.Second
	// pingAgain is the pause before the next ping of an unresponsive server. If Spec.Ping is
	// shorter, the pause is Spec.Ping.
	pingAgain = 5 * time.Second
	// pingJitter bounds the random deviation of the pauses between pings. Each pause is longer or
	// shorter than the interval by at most interval/pingJitter, so that the sessions of many
	// servers are not pinged at the same time.
	pingJitter = 10
)

// pingEvery returns the interval at which a session is pinged, or 0 if it is not pinged. If
// Spec.Ping is set but the session cannot be pinged, the second result says why. Otherwise it is
// "".
func (w *watchdog) pingEvery(s *session) (every time.Duration, why string) {
	every = w.times.Load().Ping
	switch {
	case every <= 0:
		return 0, ""
	case !s.server.Revision().Can(mcp.Ping):
		return 0, "the server's revision has no ping"
	case s.server.Opening().Dialect.Suppresses(mcp.MethodPing):
		return 0, "the server's dialect has no ping"
	}
	return every, ""
}

// startPings schedules the first ping of a session that was just opened, or whose interval
// was changed.
func (w *watchdog) startPings(st *state, s *session) {
	s.stopPings()
	every, why := w.pingEvery(s)
	if why != "" && !st.health.pingNoted {
		st.health.pingNoted = true
		st.log(slog.LevelInfo, "server is not pinged", "reason", why)
	}
	if every > 0 {
		w.pingLater(st, s, spread(every))
	}
}

// spread adds a random deviation to the interval; see pingJitter.
func spread(every time.Duration) time.Duration {
	return every - every/pingJitter + rand.N(2*every/pingJitter+1)
}

// pingLater schedules the next ping of a session. It cancels a ping that is already
// scheduled.
func (w *watchdog) pingLater(st *state, s *session, after time.Duration) {
	s.stopPings()
	if !s.over && !s.outdated && !st.ops.closed {
		s.ping = time.AfterFunc(after, func() { w.work.Go(func() { w.pingIdle(s) }) })
	}
}

// stopPings cancels the scheduled ping.
func (s *session) stopPings() {
	if s.ping != nil {
		s.ping.Stop()
		s.ping = nil
	}
}

// isBusy reports whether a session is in use. Such a session needs no pings, because its calls show
// whether the server answers.
func (s *session) isBusy() bool { return s.users > 0 || s.server.Running() > 0 }

// quiet returns the time since the last activity on a session.
func (s *session) quiet() time.Duration {
	quiet := min(time.Since(s.opened), time.Since(s.idle), time.Since(s.pinged))
	if silent, known := s.server.Silence(); known {
		quiet = min(quiet, silent)
	}
	return quiet
}

// pingIdle runs when a session's ping timer fires. It pings the server if the session has been idle
// for the interval, or if the server is unresponsive. It then schedules the next ping.
func (w *watchdog) pingIdle(s *session) {
	var every time.Duration
	if !get(w.core, func(st *state) (due bool) { every, due = w.pingDue(st, s); return due }) {
		return
	}
	began := time.Now()
	limit := min(every, pingTimeout)
	err := w.pingWithin(s, limit)
	if w.life.Err() != nil || s.server.Err() != nil {
		return
	}
	if err != nil && isOver(err) {
		w.broker.replace(s, 0, err)
		return
	}
	if status := statusOf(err); status > 0 && status < http.StatusInternalServerError || errors.Is(err, transport.ErrCredentials) {
		err = nil // a server that refuses the ping still answers, and without credentials we can't ask
	}
	why := w.pingFailure(err, limit)
	w.update(func(st *state) {
		s.pinged = time.Now()
		if silent, known := s.server.Silence(); known && silent < time.Since(began) {
			err = nil // the server has sent another message in the meantime
		}
		if w.pinged(st, s, err, why) {
			if !s.unresponsiveSince.IsZero() {
				every = min(every, pingAgain)
			}
			w.pingLater(st, s, spread(every))
		}
	})
}

// pingDue reports whether a session must be pinged now, and returns the interval of its pings. If
// the session is not due, pingDue schedules the next look at it.
func (w *watchdog) pingDue(st *state, s *session) (every time.Duration, due bool) {
	every, _ = w.pingEvery(s)
	if every == 0 || s.over || s.outdated || st.ops.closed {
		s.stopPings()
		return every, false
	}
	wait := spread(every)
	switch stalled, _ := s.server.Stalled(); {
	case s.isBusy(), stalled > 0: // stall.go reports a server that does not read
	case s.unresponsiveSince.IsZero() && s.quiet() < every-every/pingJitter:
		wait -= s.quiet()
	default:
		return every, true
	}
	if wait <= 0 {
		return every, true
	}
	w.pingLater(st, s, wait)
	return every, false
}

// pinged records the result of a ping: err, and its description why. It reports whether the session
// gets more pings.
func (w *watchdog) pinged(st *state, s *session, err error, why *failure.Failure) (more bool) {
	switch {
	case err == nil:
		w.markResponsive(st, s)
		return true
	case s.isBusy() && s.unresponsiveSince.IsZero():
		// A call has begun since the ping was sent. health.go checks whether the server answers the
		// call.
		return true
	}
	w.markUnresponsive(st, s, why, why.Attrs()...)
	w.leaveHung(st, s)
	tooLong := w.lastsTooLong(time.Since(s.unresponsiveSince))
	if s.aside && s.missed && tooLong {
		w.work.Go(func() { w.broker.drop(s, errUnresponsive) })
		return false
	}
	if late := errors.Is(err, errPingTimeout); !late || tooLong {
		w.checkLater(st, s, max(checkGap-time.Since(s.checked), 0))
	}
	return true
}

// pingFailure returns the failure to report for a ping that failed with err, or nil if err is nil.
func (w *watchdog) pingFailure(err error, limit time.Duration) *failure.Failure {
	var e *mcp.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Failure != nil:
		return e.Failure
	}
	f := w.facts()
	f.Class, f.Cause, f.Running = failure.Silent, "timeout", true
	f.Sentence = fmt.Sprintf("server %q does not answer a ping within %s, although it is idle", w.spec.Name, limit)
	f.Action = "read the log of the server; if the server still does not answer, restart it"
	return failure.Of(errors.New(err.Error()), f)
}

// answered records that a call was answered on a session that was unresponsive.
func (w *watchdog) answered(s *session) {
	w.update(func(st *state) {
		w.markResponsive(st, s)
	})
}

// setTimes changes the timeouts of future handshakes and calls, and the interval of pings.
func (w *watchdog) setTimes(t Times) {
	if before := w.times.Swap(&t); before == nil || before.Ping == t.Ping {
		return
	}
	w.update(func(st *state) {
		st.health.pingNoted = false
		for _, s := range st.pools.all() {
			w.startWatching(st, s)
		}
	})
}
