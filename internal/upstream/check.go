package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// A server over HTTP can be gone without anybody noticing: there is no pipe that ends. So
// the sessions of a server that is kept open are checked by a ping, once a minute while
// they are idle, and soon after a call failed or a stream of the server ended. A session
// that fails two checks in a row is ended, and the server is opened again in the background.

const (
	checkEvery   = time.Minute
	checkTimeout = 10 * time.Second
	// checkGap is the shortest time between two checks of a session, as servers may end
	// their streams as often as they like. Between the two failures of a session it is
	// checkAgain.
	checkGap   = 5 * time.Second
	checkAgain = time.Second
)

// errNoAnswer is the cause of the end of a session that failed its checks.
var errNoAnswer = errors.New("it does not answer a ping")

// checkLaterLocked plans a check of a session in place of an earlier plan, if the server is
// kept open and over HTTP.
func (u *Upstream) checkLaterLocked(s *session, after time.Duration) {
	if s.pipe || s.over || !u.kept || u.closed {
		return
	}
	s.stopCheck()
	s.check = time.AfterFunc(after, func() { u.work.Go(func() { u.check(s) }) })
}

// stopCheck cancels the planned check. Upstream.mu must be held.
func (s *session) stopCheck() {
	if s.check != nil {
		s.check.Stop()
		s.check = nil
	}
}

// checkSoon plans an early check, because something failed on the session.
func (u *Upstream) checkSoon(s *session) {
	if s.pipe {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.check != nil {
		u.checkLaterLocked(s, max(checkGap-time.Since(s.checked), 0))
	}
}

// check pings the server, unless calls run: they show by themselves whether it answers.
func (u *Upstream) check(s *session) {
	u.mu.Lock()
	s.checked = time.Now()
	skip := s.server.Running() > 0
	if skip {
		u.checkLaterLocked(s, checkEvery)
	}
	skip = skip || s.over || s.outdated || u.closed || !u.kept
	u.mu.Unlock()
	if skip {
		return
	}
	err := u.pingFails(s)
	if err != nil && work.Sleep(u.life, checkAgain) == nil {
		err = u.pingFails(s)
	}
	if u.life.Err() != nil {
		return
	}
	if err != nil && s.server.Running() == 0 {
		u.drop(s, fmt.Errorf("%w: %w", errNoAnswer, err))
		for _, other := range u.others(s) {
			u.checkSoon(other)
		}
		return
	}
	u.mu.Lock()
	u.checkLaterLocked(s, checkEvery)
	u.mu.Unlock()
}

func (u *Upstream) others(s *session) (all []*session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.sessionsLocked() {
		if x != s {
			all = append(all, x)
		}
	}
	return all
}

// pingFails pings the server and returns why it is of no use to calls, nil if it answers.
// Any answer will do, also one that says that there have been too many requests.
func (u *Upstream) pingFails(s *session) error {
	ctx, stop := context.WithTimeout(u.life, checkTimeout)
	defer stop()
	_, err := s.server.Call(ctx, u.ownCall(pingMethod(s), nil, nil), mcp.NoCaller{})
	var status *transport.StatusError
	if errors.As(err, &status) && status.Status == http.StatusTooManyRequests {
		return nil
	}
	return err
}

// pingMethod returns the method by which a server shows that it answers. The modern
// revisions have no ping (2026-07-28 §Changelog); all modern servers have server/discover.
func pingMethod(s *session) string {
	if s.server.Revision().Modern() {
		return mcp.MethodDiscover
	}
	return mcp.MethodPing
}
