package upstream

import (
	"fmt"
	"log/slog"
	"slices"
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
		case s.server.Sent() == 0 && (!midway || d >= w.idleLimit()):
			// The server has not read any of the running calls, so the session can end. If a call was
			// partly sent, the session ends only after the idle timeout, because the server may still
			// read the rest of the call.
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

// setAside takes a session out of service until the server reads and answers again; see
// putBack.
func (b *broker) setAside(st *state, s *session) {
	if s.aside {
		return
	}
	s.aside = true
	s.server.Withdraw()
	switch p := s.pool; {
	case s.current():
		s.link.session = nil
		st.pools.leaving = append(st.pools.leaving, s)
		b.hub.stopListen(s.link, errStalled) // the next session of the link starts its own listen
	case p != nil:
		close(p.freed) // notifies the callers that wait for an exclusive session, so that they choose another session
		p.freed = make(chan struct{})
	}
	if !slices.ContainsFunc(st.pools.all(), func(x *session) bool { return !x.aside && !x.outdated }) {
		st.health.up = false // the next session counts as a restart
	}
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

// putBack puts a session that was set aside back into service, if the server reads and answers
// again. If its link already has another session, the session ends after its last call.
func (b *broker) putBack(st *state, s *session) {
	if !s.aside || s.stuck || !s.unresponsiveSince.IsZero() {
		return
	}
	s.aside = false
	if i := slices.Index(st.pools.leaving, s); i >= 0 && !s.outdated {
		st.pools.leaving = slices.Delete(st.pools.leaving, i, i+1)
		if s.link.session != nil {
			b.outdate(st, s, errNotNeeded)
			return
		}
		s.link.session = s
		b.hub.relistenSoon(st, s.link)
	} else if p := s.pool; p != nil { // notify the callers that wait for a session
		close(p.freed)
		p.freed = make(chan struct{})
	}
	st.health.up = true
	if st.health.status.State == Broken || st.health.status.State == Idle {
		st.health.setState(Ready, "")
	}
}

// idleLimit returns the idle timeout of a call, or defaultIdle if there is none.
func (c *core) idleLimit() time.Duration {
	if idle := c.times.Load().Idle; idle > 0 {
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
