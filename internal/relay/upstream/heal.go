package upstream

import (
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
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

// KeepOpen sets whether the server is kept open; see the start of this file. KeepOpen does not open
// a server that no client has needed yet.
func (u *Upstream) KeepOpen(keep bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kept == keep {
		return
	}
	u.kept = keep
	if !keep {
		u.stopHealingLocked()
		return
	}
	for _, s := range u.sessionsLocked() {
		u.checkInAMinuteLocked(s)
	}
	if (u.status.State == Broken || u.status.Reason != "") && !u.hasSessionLocked() {
		u.healLaterLocked(max(time.Until(u.notBefore), 0))
	}
}

// hasSessionLocked reports whether the server has a session that calls may use.
func (u *Upstream) hasSessionLocked() bool {
	if len(u.linksLocked()) > 0 {
		return true
	}
	for _, p := range u.pools {
		if len(p.sessions) > 0 {
			return true
		}
	}
	return false
}

func (u *Upstream) hasSession() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hasSessionLocked()
}

// healLaterLocked schedules the next attempt in the background, to start after the given pause. It
// cancels an attempt that is already scheduled.
func (u *Upstream) healLaterLocked(pause time.Duration) {
	if !u.kept || u.closed || u.stopped || u.operating != nil || u.spec.Unusable != nil {
		return
	}
	u.stopHealingLocked()
	u.nextTry = time.Now().Add(pause)
	u.healTimer = time.AfterFunc(pause, func() { u.work.Go(u.heal) })
}

func (u *Upstream) stopHealingLocked() {
	if u.healTimer != nil {
		u.healTimer.Stop()
		u.healTimer = nil
	}
	u.nextTry = time.Time{}
}

// heal opens the home session of a server that is kept open and has no session.
func (u *Upstream) heal() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed || u.stopped || u.operating != nil || !u.kept || u.hasSessionLocked() {
		return
	}
	u.openHomeLocked()
}

// openHomeLocked opens the home session of clients without capabilities. It does nothing if another
// open without client credentials is in progress.
func (u *Upstream) openHomeLocked() {
	for _, p := range u.pools {
		if p.opening != nil && p.scope == "" {
			return // if this open fails, failedLocked schedules the next attempt
		}
	}
	p := u.pools[""]
	if p == nil {
		p = u.newPoolLocked("", nil, "")
	}
	if p.opening == nil {
		u.openLocked(p, nil, purposeKeepOpen)
	}
}

// failLocked counts a failure and returns the pause before the next attempt. The parameter lived is
// how long the server was ready before the failure, or 0 if it was not ready.
func (u *Upstream) failLocked(lived time.Duration) time.Duration {
	if lived >= steady {
		u.backoff.Reset()
	}
	return u.backoff.Fail()
}

// awayLocked records since when the server has been needed but not ready.
func (u *Upstream) awayLocked() {
	if u.awaySince.IsZero() {
		u.awaySince, u.tries = time.Now(), 0
	}
}

// failedLocked records that an open has failed with err, and schedules the next attempt. The
// parameter why describes err for users.
func (u *Upstream) failedLocked(err error, why *failure.Failure) {
	var lived time.Duration
	if !u.opened.IsZero() {
		lived = time.Since(u.opened)
		u.opened = time.Time{}
	}
	pause := u.failLocked(lived)
	var e *mcp.Error
	asked := time.Duration(0)
	if errors.As(err, &e) {
		asked = min(e.RetryAfter, maxRetryAfter)
	}
	pause = max(pause, asked)
	u.lastErr = err
	u.notBefore = time.Now().Add(max(min(pause, maxCallPause), asked))
	repeated := u.backoff.Failures() > 1 && u.fault.same(why)
	u.faultLocked(why)
	if u.hasSessionLocked() {
		u.setStateLocked(Ready, "") // the server has other sessions, so it is still ready
	} else {
		u.awayLocked()
		u.setFailedLocked(Broken, why)
		u.healLaterLocked(pause)
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		// The server did not cause this failure, so the log line is the same for all servers.
		u.lines = append(u.lines, logLine{level: slog.LevelWarn, text: "no free file descriptors: servers cannot be started or connected to; raise the limit of open files (ulimit -n)"})
		return
	}
	if repeated {
		u.logLocked(slog.LevelInfo, "server could still not be opened", "class", string(why.Class), "attempts", u.backoff.Failures(), "retry_in", shownPause(pause))
		return
	}
	u.logLocked(slog.LevelWarn, "server could not be opened", append(why.Attrs(), "attempt", u.backoff.Failures(), "retry_after", shownPause(pause))...)
}

// shownPause formats a pause for the log.
func shownPause(pause time.Duration) string {
	return pause.Round(100 * time.Millisecond).String()
}

// endedLocked records that the last session has ended by itself, and schedules the next
// attempt. It returns the pause before that attempt, or 0 if no attempt is scheduled.
func (u *Upstream) endedLocked(s *session, why *failure.Failure) (pause time.Duration) {
	u.opened = time.Time{}
	u.awayLocked()
	lived := time.Since(s.opened)
	if s.served.Load() {
		lived = max(lived, steady)
	}
	pause = u.failLocked(lived)
	u.notBefore, u.lastErr = time.Time{}, nil
	if u.backoff.Failures() > freeRestarts {
		u.notBefore = time.Now().Add(min(pause, maxCallPause))
		u.lastErr = u.endError(s, why)
	}
	if !u.kept {
		u.setFailedLocked(Idle, why)
		return 0
	}
	u.setFailedLocked(Broken, why)
	u.healLaterLocked(pause)
	return pause
}

// endError returns the error for calls that get no session because the sessions of the server
// end early.
func (u *Upstream) endError(s *session, why *failure.Failure) *mcp.Error {
	e := u.unavailable(s.server.Err(), "exited")
	u.explain(e, why)
	return e
}

// readyLocked records that the session s has made the server ready, and logs how long this took. If
// each call has its own process, only the first start and starts after a failed attempt are logged
// at level info.
func (u *Upstream) readyLocked(s *session) {
	u.notBefore, u.lastErr = time.Time{}, nil
	u.opened = time.Now()
	u.stopHealingLocked()
	if u.awaySince.IsZero() {
		return
	}
	level := slog.LevelInfo
	if u.spec.Isolation == PerCall && u.starts > 0 && u.tries <= 1 {
		level = slog.LevelDebug
	}
	u.logLocked(level, "server ready", "took", time.Since(u.awaySince).Round(time.Millisecond).String(), "attempts", u.tries, "for", s.steps.purpose)
	u.awaySince, u.tries = time.Time{}, 0
}
