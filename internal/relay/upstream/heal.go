package upstream

import (
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// If a server is kept open (see KeepOpen) but has no session, the code in this file opens the
// server again in the background. It does so after a failed open, and after the last session has
// ended by itself. It opens only one session: the home session of clients without capabilities,
// which Dragoman's own requests also use. Sessions for other clients are opened when these clients
// make a call.
//
// Calls and attempts in the background share one back-off. A call may open the server before the
// next background attempt. But after a failed open, or after several sessions in a row that ended
// early, calls also have to wait: for at most a minute, or for as long as the server requests.

// healer knows how the server is: whether it is ready, why it is not, and when it may be opened again.
type healer struct {
	*core
	broker   interface{ openHome(*state) }
	watchdog interface{ checkInAMinute(*state, *session) }
}

// healthState is the state of the healer.
type healthState struct {
	status    Status
	backoff   work.Backoff // counts consecutive failed opens and early ends of sessions
	notBefore time.Time    // before this time, calls do not open the server
	lastErr   error        // the error for calls before notBefore
	kept      bool         // the server is kept open; see Upstream.KeepOpen
	timer     *time.Timer  // timer of the next attempt in the background, or nil
	nextTry   time.Time    // time of the next attempt in the background, or zero
	opened    time.Time    // when a session was last opened; zero after a failure
	awaySince time.Time    // since when the server has been needed but not ready; zero if it is ready
	tries     int          // number of attempts since awaySince; concurrent opens are one attempt
	up        bool         // the server is open
	starts    int          // number of starts
	fault     Fault        // the last fault
	lastEnd   endLog       // the last end of the server; see countEnd
	pingNoted bool         // the log already says that the server is not pinged
}

const (
	// defaultStart is the default of Spec.Start.
	defaultStart = 30 * time.Second
	// steady is how long a session must last so that its end resets the count of consecutive
	// failures. The end of a session that has answered a call from a client always resets the
	// count.
	steady = time.Minute
	// maxCallPause is the maximum time after a failure during which calls fail at once, without an
	// attempt to open the server. A pause that the server requests may be longer, and so may the
	// pause before the next attempt in the background.
	maxCallPause = time.Minute
	// freeRestarts is how many consecutive sessions may end early before calls have to wait.
	freeRestarts = 4
	// maxRetryAfter bounds the pause that a server requests with a Retry-After header.
	maxRetryAfter = time.Hour
	// readersWait is the shortest time for which a request for a server's lists waits for the first
	// start of the server. If the start takes longer, some requests may have failed, so clients
	// must be notified when the server is ready.
	readersWait = 45 * time.Second
)

// keepOpen sets whether the server is kept open; see the start of this file. keepOpen does not open
// a server that no client has needed yet.
func (h *healer) keepOpen(keep bool) {
	h.update(func(st *state) {
		if st.health.kept == keep {
			return
		}
		st.health.kept = keep
		if !keep {
			return // settle cancels the scheduled attempt
		}
		for _, s := range st.pools.all() {
			h.watchdog.checkInAMinute(st, s)
		}
		if (st.health.status.State == Broken || st.health.status.Reason != "") && !st.pools.hasSession() {
			h.healLater(st, max(time.Until(st.health.notBefore), 0))
		}
	})
}

// healLater schedules the next attempt in the background, to start after the given pause. It
// cancels an attempt that is already scheduled.
func (h *healer) healLater(st *state, pause time.Duration) {
	if !st.mayHeal() || h.spec.Unusable != nil {
		return
	}
	st.health.stopHealing()
	st.health.nextTry = time.Now().Add(pause)
	st.health.timer = time.AfterFunc(pause, func() { h.work.Go(h.heal) })
}

func (h *healthState) stopHealing() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.nextTry = time.Time{}
}

// heal opens the home session of a server that is kept open and has no session.
func (h *healer) heal() {
	h.update(func(st *state) {
		if st.mayHeal() {
			h.broker.openHome(st)
		}
	})
}

// fail counts a failure and returns the pause before the next attempt. The parameter lived is
// how long the server was ready before the failure, or 0 if it was not ready.
func (h *healthState) fail(lived time.Duration) time.Duration {
	if lived >= steady {
		h.backoff.Reset()
	}
	return h.backoff.Fail()
}

// away records since when the server has been needed but not ready.
func (h *healthState) away() {
	if h.awaySince.IsZero() {
		h.awaySince, h.tries = time.Now(), 0
	}
}

// opening records that an open begins. The parameter alone says that no other open is in progress.
func (h *healer) opening(st *state, alone bool) {
	st.health.nextTry = time.Time{}
	if st.pools.hasSession() {
		return // the state of the server does not change
	}
	if st.health.status.State != Broken {
		st.health.setState(Starting, "")
	}
	st.health.away()
	if alone {
		st.health.tries++
	}
}

// scopeRefused records that an open has failed only because the server refused the credentials of one
// scope. Other scopes can still open the server, so it's not Broken, unless nobody has signed in yet: then
// the operators have to see why it has no session.
func (h *healer) scopeRefused(st *state, scope string, why *failure.Failure) {
	if scope == "" && !st.pools.hasSession() && !st.ops.closed {
		again := st.health.fault.same(why)
		pause := st.health.fail(0)
		st.health.setFault(why)
		st.health.setFailed(Broken, why)
		h.healLater(st, pause)
		if !again {
			st.log(slog.LevelWarn, "server could not be opened", append(why.Attrs(), "attempt", st.health.backoff.Failures(), "retry_after", shownPause(pause))...)
		}
		return
	}
	if st.health.status.State == Starting {
		st.health.setState(Idle, "")
		if len(st.pools.all()) > 0 {
			st.health.setState(Ready, "")
		}
	}
	if st.health.backoff.Failures() > 0 {
		h.healLater(st, max(time.Until(st.health.notBefore), 0))
	}
}

// openFailed records that an open has failed with err, and schedules the next attempt. The
// parameter why describes err for users.
func (h *healer) openFailed(st *state, err error, why *failure.Failure) {
	if st.ops.closed && !h.spec.OneClient {
		return // we have ended it ourselves; the only client of a server hears that its request came to nothing
	}
	var lived time.Duration
	if !st.health.opened.IsZero() {
		lived = time.Since(st.health.opened)
		st.health.opened = time.Time{}
	}
	pause := st.health.fail(lived)
	var e *mcp.Error
	asked := time.Duration(0)
	if errors.As(err, &e) {
		asked = min(e.RetryAfter, maxRetryAfter)
	}
	pause = max(pause, asked)
	st.health.lastErr = err
	st.health.notBefore = time.Now().Add(max(min(pause, maxCallPause), asked))
	repeated := st.health.backoff.Failures() > 1 && st.health.fault.same(why)
	st.health.setFault(why)
	if st.pools.hasSession() {
		st.health.setState(Ready, "") // the server has other sessions, so it is still ready
	} else {
		st.health.away()
		st.health.setFailed(Broken, why)
		h.healLater(st, pause)
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		// The server did not cause this failure, so the log line is the same for all servers.
		st.lines = append(st.lines, logLine{level: slog.LevelWarn, text: "no free file descriptors: servers cannot be started or connected to; raise the limit of open files (ulimit -n)"})
		return
	}
	if repeated {
		st.log(slog.LevelInfo, "server could still not be opened", "class", string(why.Class), "attempts", st.health.backoff.Failures(), "retry_in", shownPause(pause))
		return
	}
	st.log(slog.LevelWarn, "server could not be opened", append(why.Attrs(), "attempt", st.health.backoff.Failures(), "retry_after", shownPause(pause))...)
}

// shownPause formats a pause for the log.
func shownPause(pause time.Duration) string {
	return pause.Round(100 * time.Millisecond).String()
}

// sessionEnded records that a session has ended by itself. If it was the last session, sessionEnded
// schedules the next attempt, and returns the pause before it. Otherwise the result is 0.
func (h *healer) sessionEnded(st *state, s *session, why *failure.Failure) (pause time.Duration) {
	if len(st.pools.all()) == 0 {
		st.health.up = false
	}
	if s.opened.IsZero() {
		return 0 // broker.runOpen handles the end of a session that was never in use
	}
	st.health.setFault(why)
	switch {
	case st.pools.hasSession():
		return 0
	case h.spec.Isolation == PerCall:
		st.health.setFailed(Idle, why) // the next call opens another session
		return 0
	}
	return h.lastEnded(st, s, why)
}

// lastEnded records that the last session has ended by itself, and schedules the next attempt. It
// returns the pause before that attempt, or 0 if no attempt is scheduled.
func (h *healer) lastEnded(st *state, s *session, why *failure.Failure) (pause time.Duration) {
	st.health.opened = time.Time{}
	st.health.away()
	lived := time.Since(s.opened)
	if s.served.Load() {
		lived = max(lived, steady)
	}
	pause = st.health.fail(lived)
	st.health.notBefore, st.health.lastErr = time.Time{}, nil
	if st.health.backoff.Failures() > freeRestarts {
		st.health.notBefore = time.Now().Add(min(pause, maxCallPause))
		st.health.lastErr = h.endError(s, why)
	}
	if !st.health.kept {
		st.health.setFailed(Idle, why)
		return 0
	}
	st.health.setFailed(Broken, why)
	h.healLater(st, pause)
	return pause
}

// endError returns the error for calls that get no session because the sessions of the server
// end early.
func (c *core) endError(s *session, why *failure.Failure) *mcp.Error {
	word := "cut_off"
	if s.child != nil {
		word = "exited"
	}
	e := c.unavailable(s.server.Err(), word)
	c.explain(e, why)
	return e
}

// ready records that the session s has made the server ready, and logs how long this took. If
// each call has its own process, only the first start and starts after a failed attempt are logged
// at level info.
func (h *healer) ready(st *state, s *session) {
	st.health.notBefore, st.health.lastErr = time.Time{}, nil
	st.health.opened = time.Now()
	if st.health.awaySince.IsZero() {
		return
	}
	level := slog.LevelInfo
	if h.spec.Isolation == PerCall && st.health.starts > 0 && st.health.tries <= 1 {
		level = slog.LevelDebug
	}
	st.log(level, "server ready", "took", time.Since(st.health.awaySince).Round(time.Millisecond).String(), "attempts", st.health.tries, "for", s.steps.purpose)
	st.health.awaySince, st.health.tries = time.Time{}, 0
}

// explainEnd logs that a session has ended by itself, once more is known about the reason: the failure
// now replaces the failure before. pause is the result of sessionEnded.
func (h *healer) explainEnd(s *session, before, now *failure.Failure, pause time.Duration) {
	h.replaceFailure(before, now)
	h.logEnd(s, now, pause)
}

// replaceFailure replaces the failure before with the more detailed failure now: in the last fault,
// in the status, and in the error for later calls.
func (h *healer) replaceFailure(before, now *failure.Failure) {
	h.update(func(st *state) {
		if st.health.fault.Failure == before {
			st.health.fault.Text, st.health.fault.Failure = now.Sentence, now
		}
		if st.health.status.Failure == before {
			st.health.status.Reason, st.health.status.Failure = now.Sentence, now
		}
		var e *mcp.Error
		if errors.As(st.health.lastErr, &e) && e.Failure == before {
			later := *e
			h.explain(&later, now)
			st.health.lastErr = &later
		}
	})
}
