package upstream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// A server at the other end of a pipe can be there and do nothing: stopped, swapped
// out, caught in a loop. Its calls end with their deadlines. While calls run on a
// session and nothing at all is heard from it, it is asked whether it is there; one
// that does not answer is said to be unresponsive until it says anything. When it
// has been silent for twice as long as a call may be, it is ended, its process group
// with it, and the next call starts it anew.

const (
	// defaultSilence and two thirds of it for the answer to a ping are 25 s.
	defaultSilence = 15 * time.Second
	defaultIdle    = 60 * time.Second // conn.Options.Idle, where it is 0
	reasonDeaf     = "calls wait, nothing is heard from it, and it does not answer a ping"
)

var errDeaf = errors.New("it did not answer any more")

func (u *Upstream) silence() time.Duration {
	if u.spec.Silence > 0 {
		return u.spec.Silence
	}
	return defaultSilence
}

// watch sees to it that a session is looked at on which a call is about to run. The
// timer goes on by itself for as long as calls run, so that those in a row share it.
func (u *Upstream) watch(s *session) {
	if !s.shared || s.watched.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.watch == nil && !u.closed {
		s.watched.Store(true)
		s.watchedFrom = time.Now()
		s.watch = time.AfterFunc(u.silence(), func() { u.look(s) })
	}
}

func (u *Upstream) unwatchLocked(s *session) {
	if s.watch != nil {
		s.watch.Stop()
		s.watch = nil
	}
	s.watched.Store(false)
}

// look is what the timer does.
func (u *Upstream) look(s *session) {
	u.mu.Lock()
	defer u.unlock()
	silent, known := u.silentLocked(s)
	switch {
	case s.watch == nil || u.closed || !known || s.server.Err() != nil:
		u.unwatchLocked(s)
	case silent < u.silence():
		u.hearsLocked(s)
		u.againLocked(s, u.silence()-silent)
	case s.server.Running() == 0 && s.deaf.IsZero():
		u.againLocked(s, u.silence())
	case !s.deaf.IsZero() && u.lastsTooLong(silent):
		u.unwatchLocked(s)
		u.work.Go(func() { u.drop(s, errDeaf) })
	default:
		u.work.Go(func() { u.probe(s) })
	}
}

// silentLocked returns for how long the server has said nothing that it could have
// said to a call: not since before somebody looked.
func (u *Upstream) silentLocked(s *session) (time.Duration, bool) {
	silent, known := s.server.Silence()
	return min(silent, time.Since(s.watchedFrom)), known
}

// againLocked has the session looked at again, unless no call runs there or is about
// to: whoever holds it may have found it watched and relies on that.
func (u *Upstream) againLocked(s *session, after time.Duration) {
	if s.server.Running() == 0 && s.deaf.IsZero() {
		if s.users == 0 {
			u.unwatchLocked(s)
			return
		}
		s.watchedFrom = time.Now() // nothing is owed so far
	}
	s.watch.Reset(after)
}

func (u *Upstream) hearsLocked(s *session) {
	if !s.deaf.IsZero() {
		s.deaf = time.Time{}
		u.sayLocked(slog.LevelInfo, "server answers again")
	}
}

// lastsTooLong reports whether every call that could have waited for so long has
// given up. One that waits for the result of a task has no deadline of its own: it
// ends with the session then.
func (u *Upstream) lastsTooLong(silent time.Duration) bool {
	idle := u.times.Load().Idle
	if idle == 0 {
		idle = defaultIdle
	}
	return idle > 0 && silent >= 2*idle
}

// probe asks the server whether it is there; any answer will do. The modern
// revisions have no ping (2026-07-28 §Changelog), and every server of theirs has
// server/discover.
func (u *Upstream) probe(s *session) {
	method := mcp.MethodPing
	if s.server.Revision().Modern() {
		method = mcp.MethodDiscover
	}
	ctx, stop := context.WithTimeout(u.life, u.silence()*2/3)
	defer stop()
	_, err := s.server.Call(ctx, u.ownCall(method, nil, nil), mcp.NoCaller{})
	u.mu.Lock()
	defer u.unlock()
	silent, _ := u.silentLocked(s)
	switch {
	case s.watch == nil || u.closed || s.server.Err() != nil:
		return
	case err == nil || silent < u.silence():
		u.hearsLocked(s)
	case s.deaf.IsZero():
		s.deaf = time.Now()
		u.faultLocked(reasonDeaf)
		u.sayLocked(slog.LevelWarn, "server does not answer", "silent for", silent.Round(time.Millisecond).String())
	}
	u.againLocked(s, u.silence()/3)
}
