package upstream

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// A server on a pipe can stop reading its input because it runs a tool, is suspended, or is blocked
// while it writes its output. Then messages to the server have to wait, and so do the calls that
// need these messages. The status shows such a stall after stallShown. Calls that the server has
// already read are not affected and may still finish.
//
// After stallLimit, Dragoman sets the session aside. New calls, and calls of which nothing was
// sent, then get another session. When the server reads again, the session returns to service. If
// the server does not read again, the session ends after the last call that the server has already
// read. If all clients share one session, Dragoman does not set it aside, and new calls wait.

const (
	stallTick  = time.Second             // interval of the checks of a session in use
	stallShown = 1500 * time.Millisecond // the status shows a stall that lasts this long
	stallLimit = 10 * time.Second        // a session is set aside after a stall of this length

	reasonStalled     = "the server does not read its input; messages to the server are waiting"
	reasonSomeStalled = "the server does not read the input of one of its sessions"
)

var errStalled = fmt.Errorf("session ended because %w", transport.ErrStalled)

// watchStall starts the stall timer of a session that is about to be used. lookAtStall
// restarts the timer while the session is in use.
func (w *watchdog) watchStall(st *state, s *session) {
	if s.stall == nil && s.pipe && !st.ops.closed {
		s.stall = time.AfterFunc(stallTick, func() { w.lookAtStall(s) })
	}
}

// lookAtStall runs when the stall timer fires. If the server has not read for stallLimit, it sets
// the session aside or ends it. If the server reads again, it puts the session back into service.
func (w *watchdog) lookAtStall(s *session) {
	w.update(func(st *state) {
		if s.stall == nil || st.ops.closed || s.server.Err() != nil {
			s.stall = nil
			return
		}
		d, midway := s.server.Stalled()
		switch {
		case d < stallLimit:
			w.resume(st, s)
		case s.server.Sent() == 0 && (!midway || d >= w.midwayLimit()):
			// The server has not read any of the running calls, so the session can end. If a call was
			// partly sent, the session ends only after the idle timeout, because the server may still
			// read the rest of the call; see midwayLimit.
			s.stall = nil
			w.markStalled(st, s)
			w.work.Go(func() { w.broker.drop(s, errStalled) })
			return
		case !w.shares(st) && len(st.pools.leaving) < maxSessionsPerPool:
			w.markStalled(st, s)
			w.broker.setAside(st, s)
		}
		if d == 0 && s.users == 0 {
			s.stall = nil
			return
		}
		s.stall.Reset(stallTick)
	})
}

// markStalled logs a stall once, and marks the session as stuck.
func (w *watchdog) markStalled(st *state, s *session) {
	if s.stuck {
		return
	}
	s.stuck = true
	st.health.setFault(w.stalled)
	st.log(slog.LevelWarn, "server does not read its input")
}

// resume records that the server reads the input of a session again.
func (w *watchdog) resume(st *state, s *session) {
	if !s.stuck {
		return
	}
	s.stuck = false
	st.log(slog.LevelInfo, "server reads its input again")
	w.broker.putBack(st, s)
}

// midwayLimit is how long the server may stop reading in the middle of a call: the idle timeout. If
// calls have none, it is defaultIdle, because nothing else would end this session: the server isn't
// working on any call, and can't be sent another one.
func (w *watchdog) midwayLimit() time.Duration {
	if idle := w.idleTimeout(); idle > 0 {
		return idle
	}
	return defaultIdle
}

// reportStalls changes the status if the server does not read the input of some or all of its
// sessions.
func (w *watchdog) reportStalls(st *state, to *Status) {
	if to.State != Ready {
		return
	}
	reading, stalled := 0, time.Duration(0)
	for _, s := range st.pools.all() {
		d, _ := s.server.Stalled()
		switch {
		case d >= stallShown:
			stalled = max(stalled, d)
		case !s.outdated:
			reading++
		}
	}
	switch {
	case stalled == 0:
	case reading == 0:
		to.State, to.Since, to.Reason = Unresponsive, time.Now().Add(-stalled), reasonStalled
		to.Failure = w.stalled
	case to.Reason == "":
		to.Reason = reasonSomeStalled
	}
}
