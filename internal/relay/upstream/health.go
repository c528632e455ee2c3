package upstream

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// A server on a pipe may be running but not answer: the process may be suspended, swapped out, or
// in an endless loop. Then its calls time out. If a session has calls in flight and nothing arrives
// from the server, Dragoman pings the server. If the server does not answer the ping, its state is
// Unresponsive until it sends a message. New calls get another session meanwhile; see
// leaveHung. If the server sends nothing for twice the idle timeout of a call, Dragoman ends its
// process. If the server is kept open, Dragoman restarts it in the background.
// Otherwise the next call restarts it.

// watchdog finds sessions that have stopped working: it watches whether the server answers and reads
// while calls run, and pings it while it is idle.
type watchdog struct {
	*core
	broker interface {
		setAside(*state, *session)
		putBack(*state, *session)
		drop(s *session, cause error)
		replace(s *session, holds int, cause error)
	}
}

const (
	// defaultSilence is the default of Spec.Silence. The server gets the same time again to answer
	// the ping that follows, so the state becomes Unresponsive after 10 s.
	defaultSilence     = 5 * time.Second
	defaultIdle        = 60 * time.Second // default of conn.Options.Idle
	reasonUnresponsive = "calls are waiting, but the server does not send anything and does not answer a ping"
	reasonSomeHung     = "the server does not answer on one of its sessions; new calls use another one"
)

// hungSessions is how many sessions of one client may be unresponsive before new calls of this client
// fail at once. A server that also hangs in its second process would probably hang in the next one.
const hungSessions = 2

// sharedPatience is how long new calls still use an unresponsive session that all clients share. Such a
// server may be busy with one call and answer the other calls later, so Dragoman waits a while before it
// fails them.
const sharedPatience = 20 * time.Second

var errUnresponsive = errors.New("the server stopped responding")

// silenceLimit is how long a server may be silent while calls wait.
func (c *core) silenceLimit() time.Duration {
	if c.spec.Silence > 0 {
		return c.spec.Silence
	}
	return defaultSilence
}

// watch starts the watch timer of a session that is about to run a call. The timer is restarted
// while calls run, so it also serves the calls that follow.
func (w *watchdog) watch(s *session) {
	if !s.shared || s.watched.Load() {
		return
	}
	w.update(func(st *state) {
		if s.watch == nil && !st.ops.closed {
			s.watched.Store(true)
			s.watchedFrom = time.Now()
			s.watch = time.AfterFunc(w.silenceLimit(), func() { w.checkSilence(s) })
		}
	})
}

// startWatching begins to watch a session while it is idle.
func (w *watchdog) startWatching(st *state, s *session) {
	w.startPings(st, s)
	w.checkInAMinute(st, s)
}

// stopTimers stops all timers of the watchdog for a session that has ended.
func (s *session) stopTimers() {
	s.stopCheck()
	s.stopPings()
	s.unwatch()
	if s.stall != nil {
		s.stall.Stop()
		s.stall = nil
	}
}

// unwatch stops the watch timer.
func (s *session) unwatch() {
	if s.watch != nil {
		s.watch.Stop()
		s.watch = nil
	}
	s.watched.Store(false)
}

// checkSilence runs when the watch timer fires. It pings a server that has been silent for too
// long. If an unresponsive server has been silent for twice the idle timeout of a call, it ends the
// session.
func (w *watchdog) checkSilence(s *session) {
	w.update(func(st *state) {
		silent, known := s.silentFor()
		switch {
		case s.watch == nil || st.ops.closed || !known || s.server.Err() != nil:
			s.unwatch()
		case silent < w.silenceLimit():
			w.markResponsive(st, s)
			s.rewatch(w.silenceLimit() - silent)
		case s.server.Running() == 0 && s.unresponsiveSince.IsZero():
			s.rewatch(w.silenceLimit())
		case !s.unresponsiveSince.IsZero() && w.lastsTooLong(silent):
			s.unwatch()
			w.work.Go(func() { w.broker.drop(s, errUnresponsive) })
		default:
			w.work.Go(func() { w.probe(s) })
		}
	})
}

// silentFor returns how long the server has sent nothing, but at most the time since
// s.watchedFrom. The second result is false if the time is not known.
func (s *session) silentFor() (time.Duration, bool) {
	silent, known := s.server.Silence()
	return min(silent, time.Since(s.watchedFrom)), known
}

// rewatch restarts the watch timer. It stops the timer if the server is responsive and the
// session has no running calls and no leases.
func (s *session) rewatch(after time.Duration) {
	if s.server.Running() == 0 && s.unresponsiveSince.IsZero() {
		if s.users == 0 {
			s.unwatch()
			return
		}
		s.watchedFrom = time.Now() // no call is running, so the server does not have to send anything
	}
	s.watch.Reset(after)
}

func (w *watchdog) markResponsive(st *state, s *session) {
	if !s.unresponsiveSince.IsZero() {
		s.unresponsiveSince, s.unresponsive = time.Time{}, nil
		s.unanswered.Store(false)
		st.logEvent(slog.LevelInfo, "server answers again", "answers again")
		w.broker.putBack(st, s)
	}
}

// markUnresponsive records and logs that the server does not answer on the session s. The
// parameter why describes the reason for users.
func (w *watchdog) markUnresponsive(st *state, s *session, why *failure.Failure, attrs ...any) {
	if !s.unresponsiveSince.IsZero() {
		if silent, known := s.server.Silence(); !known || silent >= time.Since(s.unresponsiveSince) {
			return
		}
		w.markResponsive(st, s) // it has sent something since, and is silent once more
	}
	s.unresponsiveSince, s.unresponsive = time.Now(), why
	s.unanswered.Store(true)
	st.health.setFault(why)
	st.logEvent(slog.LevelWarn, "server does not answer", "does not answer: "+why.Sentence, attrs...)
}

// lastsTooLong reports whether a silence has lasted for twice the idle timeout of a call. Every
// call that was running when the silence began has then timed out, except tasks/result, which has
// no timeout. If calls have no idle timeout, lastsTooLong returns false.
func (w *watchdog) lastsTooLong(silent time.Duration) bool {
	idle := w.idleTimeout()
	return idle > 0 && silent >= 2*idle
}

// idleTimeout returns the idle timeout of a call. It is negative if calls have none.
func (c *core) idleTimeout() time.Duration { return cmp.Or(c.times.Load().Idle, defaultIdle) }

// probe pings the server. Any answer, even an error, shows that the server is responsive.
func (w *watchdog) probe(s *session) {
	ctx, stop := context.WithTimeout(w.life, w.silenceLimit())
	defer stop()
	_, err := s.server.Call(ctx, w.ownCall(pingMethod(s), nil, nil), mcp.NoCaller{})
	next := w.silenceLimit() / 3
	w.update(func(st *state) {
		silent, _ := s.silentFor()
		switch {
		case s.watch == nil || st.ops.closed || s.server.Err() != nil:
			return
		case err == nil || silent < w.silenceLimit():
			w.markResponsive(st, s)
			next = 3 * w.silenceLimit() // the server works on a long call, so there is no need to ping it all the time
		default:
			w.markUnresponsive(st, s, w.unresponsive, "silent_for", silent.Round(time.Millisecond).String())
			w.leaveHung(st, s)
		}
		s.rewatch(next)
	})
}

// leaveHung sets an unresponsive session aside, so that new calls get another session. If all
// clients share one session, it stays in use; see sharedPatience. So does a session that has just been
// opened and has not answered any call yet: the server may still be loading.
func (w *watchdog) leaveHung(st *state, s *session) {
	if s.over || s.outdated || !s.pipe || w.shares(st) || len(st.pools.leaving) >= maxSessionsPerPool {
		return
	}
	if s.served.Load() || time.Since(s.opened) >= defaultStart {
		w.broker.setAside(st, s)
	}
}

// reportHung changes the status if the server does not answer on some or all of its sessions.
func (w *watchdog) reportHung(st *state, to *Status) {
	if to.State != Ready {
		return
	}
	var hung *session
	answering := 0
	for _, s := range st.pools.all() {
		silent, known := s.server.Silence()
		switch {
		case !s.unresponsiveSince.IsZero() && (!known || silent >= time.Since(s.unresponsiveSince)):
			hung = s
		case !s.outdated:
			answering++
		}
	}
	switch {
	case hung == nil:
	case answering == 0 || !hung.aside:
		to.State, to.Since, to.Reason, to.Failure = Unresponsive, hung.unresponsiveSince, hung.unresponsive.Sentence, hung.unresponsive
	case to.Reason == "":
		to.Reason = reasonSomeHung
	}
}
