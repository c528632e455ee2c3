package upstream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/failure"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// A server on a pipe may be running but not answer: the process may be suspended, swapped out, or
// in an endless loop. Then its calls time out. If a session has calls in flight and nothing arrives
// from the server, Dragoman pings the server. If the server does not answer the ping, its state is
// Unresponsive until it sends a message. If it sends nothing for twice the idle timeout of a call,
// Dragoman ends its process. If the server is kept open, Dragoman restarts it in the background.
// Otherwise the next call restarts it.

const (
	// defaultSilence is the default of Spec.Silence. The ping that follows may take another two
	// thirds of this time, so the state becomes Unresponsive after 25 s.
	defaultSilence     = 15 * time.Second
	defaultIdle        = 60 * time.Second // default of conn.Options.Idle
	reasonUnresponsive = "calls are waiting, but the server does not send anything and does not answer a ping"
)

var errUnresponsive = errors.New("the server stopped responding")

func (u *Upstream) silence() time.Duration {
	if u.spec.Silence > 0 {
		return u.spec.Silence
	}
	return defaultSilence
}

// watch starts the watch timer of a session that is about to run a call. The timer is restarted
// while calls run, so it also serves the calls that follow.
func (u *Upstream) watch(s *session) {
	if !s.shared || s.watched.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.watch == nil && !u.closed {
		s.watched.Store(true)
		s.watchedFrom = time.Now()
		s.watch = time.AfterFunc(u.silence(), func() { u.checkSilence(s) })
	}
}

func (u *Upstream) unwatchLocked(s *session) {
	if s.watch != nil {
		s.watch.Stop()
		s.watch = nil
	}
	s.watched.Store(false)
}

// checkSilence runs when the watch timer fires. It pings a server that has been silent for too
// long. If an unresponsive server has been silent for twice the idle timeout of a call, it ends the
// session.
func (u *Upstream) checkSilence(s *session) {
	u.mu.Lock()
	defer u.unlock()
	silent, known := u.silentLocked(s)
	switch {
	case s.watch == nil || u.closed || !known || s.server.Err() != nil:
		u.unwatchLocked(s)
	case silent < u.silence():
		u.markResponsiveLocked(s)
		u.rewatchLocked(s, u.silence()-silent)
	case s.server.Running() == 0 && s.unresponsiveSince.IsZero():
		u.rewatchLocked(s, u.silence())
	case !s.unresponsiveSince.IsZero() && u.lastsTooLong(silent):
		u.unwatchLocked(s)
		u.work.Go(func() { u.drop(s, errUnresponsive) })
	default:
		u.work.Go(func() { u.probe(s) })
	}
}

// silentLocked returns how long the server has sent nothing, but at most the time since
// s.watchedFrom. The second result is false if the time is not known.
func (u *Upstream) silentLocked(s *session) (time.Duration, bool) {
	silent, known := s.server.Silence()
	return min(silent, time.Since(s.watchedFrom)), known
}

// rewatchLocked restarts the watch timer. It stops the timer if the server is responsive and the
// session has no running calls and no leases.
func (u *Upstream) rewatchLocked(s *session, after time.Duration) {
	if s.server.Running() == 0 && s.unresponsiveSince.IsZero() {
		if s.users == 0 {
			u.unwatchLocked(s)
			return
		}
		s.watchedFrom = time.Now() // no call is running, so the server does not have to send anything
	}
	s.watch.Reset(after)
}

func (u *Upstream) markResponsiveLocked(s *session) {
	if !s.unresponsiveSince.IsZero() {
		s.unresponsiveSince, s.unresponsive = time.Time{}, nil
		s.unanswered.Store(false)
		u.tellLocked(slog.LevelInfo, "server answers again", "answers again")
	}
}

// markUnresponsiveLocked records and logs that the server does not answer on the session s. The
// parameter why describes the reason for users.
func (u *Upstream) markUnresponsiveLocked(s *session, why *failure.Failure, attrs ...any) {
	if !s.unresponsiveSince.IsZero() {
		return
	}
	s.unresponsiveSince, s.unresponsive = time.Now(), why
	s.unanswered.Store(true)
	u.faultLocked(why)
	u.tellLocked(slog.LevelWarn, "server does not answer", "does not answer: "+why.Sentence, attrs...)
}

// lastsTooLong reports whether a silence has lasted for twice the idle timeout of a call. Every
// call that was running when the silence began has then timed out, except tasks/result, which has
// no timeout. If calls have no idle timeout, lastsTooLong returns false.
func (u *Upstream) lastsTooLong(silent time.Duration) bool {
	idle := u.times.Load().Idle
	if idle == 0 {
		idle = defaultIdle
	}
	return idle > 0 && silent >= 2*idle
}

// probe pings the server. Any answer, even an error, shows that the server is responsive.
func (u *Upstream) probe(s *session) {
	ctx, stop := context.WithTimeout(u.life, u.silence()*2/3)
	defer stop()
	_, err := s.server.Call(ctx, u.ownCall(pingMethod(s), nil, nil), mcp.NoCaller{})
	u.mu.Lock()
	defer u.unlock()
	silent, _ := u.silentLocked(s)
	switch {
	case s.watch == nil || u.closed || s.server.Err() != nil:
		return
	case err == nil || silent < u.silence():
		u.markResponsiveLocked(s)
	case s.unresponsiveSince.IsZero():
		u.markUnresponsiveLocked(s, u.unresponsive, "silent_for", silent.Round(time.Millisecond).String())
	}
	u.rewatchLocked(s, u.silence()/3)
}
