package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/conn"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// An operator can stop, start and restart a server. The methods return at once, and the
// status says how far it is. Sessions end in order: they get no new calls, and end with
// their running calls, or after operatorGrace, when what still runs fails with the reason. A
// restart opens the server again when all of them have ended, because two processes of one
// server may not be able to run side by side. Calls that come meanwhile wait for it.

// operatorGrace is how long running calls may go on when an operator stops or restarts the
// server.
const operatorGrace = 5 * time.Second

// operated is what an operator has done. Guarded by Upstream.mu.
type operated struct {
	stopped   bool
	operation uint64        // counts the operations that take sessions out of service
	operating chan struct{} // closed when the sessions have ended; nil if no restart is in progress
	opens     context.Context
	endOpens  context.CancelCauseFunc // ends the opens in progress
}

// Stop ends all sessions and keeps the server stopped: calls fail at once, and nothing but
// Start, Restart or Probe opens it. Stopping a stopped server does nothing.
func (u *Upstream) Stop() error {
	u.mu.Lock()
	defer u.unlock()
	if err := u.operableLocked(); err != nil || u.stopped {
		return err
	}
	u.stopped = true
	leaving := u.takeDownLocked(conn.ErrStopped)
	u.setFailedLocked(Stopped, u.stoppedFailure)
	u.work.Go(func() {
		u.awaitEnd(leaving, conn.ErrStopped)
		u.operatedBy("stopped by an operator")
	})
	u.logLocked(slog.LevelInfo, "server stopped by an operator")
	return nil
}

// Start opens a server that is stopped, idle or failed, without waiting for the next planned
// attempt. A server that is ready or being opened is left alone.
func (u *Upstream) Start() error {
	u.mu.Lock()
	defer u.unlock()
	if err := u.operableLocked(); err != nil || u.operating != nil || u.hasSessionLocked() {
		return err
	}
	u.clearBackoffLocked()
	if u.stopped {
		u.stopped = false
		u.setStateLocked(Idle, "")
	}
	u.reopenLocked()
	u.work.Go(func() { u.operatedBy("started by an operator") })
	u.logLocked(slog.LevelInfo, "server started by an operator")
	return nil
}

// Restart ends all sessions and then opens the server again, also if it was stopped.
func (u *Upstream) Restart() error {
	return u.restart(false)
}

// Probe is Restart that also forgets what was learned about the server's revision and
// transport, so that the handshake begins from nothing.
func (u *Upstream) Probe() error {
	return u.restart(true)
}

// restart restarts the server. forget also forgets what was learned about it.
func (u *Upstream) restart(forget bool) error {
	u.mu.Lock()
	defer u.unlock()
	if err := u.operableLocked(); err != nil {
		return err
	}
	u.stopped = false
	leaving := u.takeDownLocked(conn.ErrRestarted)
	if forget {
		u.era, u.noLegacy, u.skipProbe, u.silent, u.sse = mcp.Unknown, false, false, false, false
		u.adapter = u.spec.Adapter
		u.eraChecks, u.nextEraCheck = 0, time.Time{}
		u.status.Revision = mcp.Unknown
	}
	u.setStateLocked(Starting, "")
	if u.operating == nil {
		u.operating = make(chan struct{})
	}
	operation := u.operation
	u.work.Go(func() {
		u.awaitEnd(leaving, conn.ErrRestarted)
		u.mu.Lock()
		defer u.unlock()
		if u.operation != operation {
			return // another operation has taken over
		}
		close(u.operating)
		u.operating = nil
		if u.closed {
			return
		}
		u.reopenLocked()
		u.work.Go(func() {
			if forget {
				u.operatedBy("probed again by an operator")
			} else {
				u.operatedBy("restarted by an operator")
			}
		})
	})
	if forget {
		u.logLocked(slog.LevelInfo, "server probed again by an operator")
	} else {
		u.logLocked(slog.LevelInfo, "server restarted by an operator")
	}
	return nil
}

// errNotOperable is the error of an operation on a server that is being removed.
var errNotOperable = errors.New("the server is being removed")

// operableLocked returns why the server cannot be operated, nil if it can.
func (u *Upstream) operableLocked() error {
	switch {
	case u.closed:
		return errNotOperable
	case u.spec.Unusable != nil:
		return u.lastErr
	}
	return nil
}

// takeDownLocked takes all sessions out of service, and ends the opens in progress. It
// returns the sessions, which end with their calls.
func (u *Upstream) takeDownLocked(cause error) []*session {
	u.operation++
	u.endOpens(cause)
	u.opens, u.endOpens = context.WithCancelCause(u.life)
	u.clearBackoffLocked()
	u.up, u.opened, u.awaySince, u.tries = false, time.Time{}, time.Time{}, 0
	if u.stopped && u.operating != nil {
		close(u.operating) // those who wait for the restart learn that the server is stopped
		u.operating = nil
	}
	for _, l := range u.links {
		u.stopListenLocked(l, cause)
	}
	all := slices.Clone(u.sessionsLocked())
	for _, s := range all {
		s.stopCheck()
		if s.reap != nil {
			s.reap.Stop()
			s.reap = nil
		}
		if !s.outdated {
			u.leaving = slices.DeleteFunc(u.leaving, func(x *session) bool { return x == s }) // it was set aside
			u.outdateLocked(s, cause)
		}
	}
	return all
}

// clearBackoffLocked forgets earlier failures, so that the next attempt is made at once.
func (u *Upstream) clearBackoffLocked() {
	u.stopHealingLocked()
	u.backoff.Reset()
	u.notBefore, u.lastErr = time.Time{}, nil
	for _, l := range u.links {
		l.notBefore, l.lastErr = time.Time{}, nil
	}
}

// awaitEnd waits until sessions have ended. It ends those that still have calls after
// operatorGrace.
func (u *Upstream) awaitEnd(all []*session, cause error) {
	late := time.NewTimer(operatorGrace)
	defer late.Stop()
	for i, s := range all {
		select {
		case <-s.server.Gone():
		case <-u.life.Done():
		case <-late.C:
			for _, s := range all[i:] {
				u.work.Go(func() { s.shut(u.graceful, cause) })
			}
			late.Reset(0)
			<-s.server.Gone()
		}
		s.shut(u.graceful, cause) // waits for the process
	}
}

// supersededLocked ends an open that an operator's operation has overtaken.
func (u *Upstream) supersededLocked(p *pool, o *opening, s *session, err error) {
	cause := conn.ErrRestarted
	if u.stopped {
		cause = conn.ErrStopped
		o.err = u.unavailable(conn.ErrStopped, "stopped")
	}
	if err == nil {
		u.work.Go(func() { s.shut(u.graceful, cause) })
	}
	p.opening = nil
	u.tidyLocked(p)
	if !u.stopped && u.operating == nil {
		u.reopenLocked()
	}
}

// reopenLocked opens the server, and restores the subscriptions of its legacy clients.
func (u *Upstream) reopenLocked() {
	if u.hasSessionLocked() {
		return
	}
	u.openHomeLocked()
	for _, p := range u.pools {
		if p.watchesLocked() {
			u.work.Go(func() { u.restore(p, nil) })
		}
	}
}

// operatedBy publishes what an operator has done.
func (u *Upstream) operatedBy(what string) {
	u.opts.Events.Publish(event.Event{Kind: event.Lifecycle, Level: slog.LevelInfo, Server: u.spec.Name, Name: what})
}

func (u *Upstream) isStopped() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stopped
}
