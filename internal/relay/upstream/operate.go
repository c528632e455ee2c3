package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// With the methods in this file, an operator can stop, start and restart a server. The methods do
// not wait until the operation is complete. Upstream.Status shows the progress.
//
// Stop and Restart take the sessions out of service. Each session ends when its running calls have
// ended, or after operatorGrace. Calls that still run at that time fail. Restart opens the server
// again only when all sessions have ended, because two processes of one server may not be able to
// run at the same time. Calls that arrive in the meantime wait for the restart.

// operatorGrace is how long running calls may continue when an operator stops or restarts the
// server.
const operatorGrace = 5 * time.Second

// operated contains the fields of Upstream for the operations of an operator. Upstream.mu guards
// them.
type operated struct {
	stopped   bool
	operation uint64        // number of operations that took sessions out of service
	operating chan struct{} // closed when the old sessions have ended; nil if no restart is in progress
	opens     context.Context
	endOpens  context.CancelCauseFunc // cancels the opens in progress
}

// Stop ends all sessions and keeps the server stopped. Calls then fail at once, and only Start,
// Restart or Probe opens the server again. If the server is already stopped, Stop does nothing.
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

// Start opens a server that is stopped, idle or failed, without waiting for the next scheduled
// attempt. If the server has a session or is being restarted, Start does nothing.
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

// Restart ends all sessions and then opens the server again, even if it was stopped.
func (u *Upstream) Restart() error {
	return u.restart(false)
}

// Probe does the same as Restart. It also removes the stored revision and transport of the server,
// so that Dragoman detects both again.
func (u *Upstream) Probe() error {
	return u.restart(true)
}

// restart implements Restart and Probe. If forget is true, it also removes the stored revision and
// transport.
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
			return // a later operation has replaced this restart
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

// operableLocked returns the reason why an operator cannot stop, start or restart the server, or
// nil if the operator can.
func (u *Upstream) operableLocked() error {
	switch {
	case u.closed:
		return errNotOperable
	case u.spec.Unusable != nil:
		return u.lastErr
	}
	return nil
}

// takeDownLocked takes all sessions out of service, and cancels the opens in progress. It returns
// these sessions. Each session ends after its last call.
func (u *Upstream) takeDownLocked(cause error) []*session {
	u.operation++
	u.endOpens(cause)
	u.opens, u.endOpens = context.WithCancelCause(u.life)
	u.clearBackoffLocked()
	u.up, u.opened, u.awaySince, u.tries = false, time.Time{}, time.Time{}, 0
	if u.stopped && u.operating != nil {
		close(u.operating) // callers that wait for the restart get an error that says that the server is stopped
		u.operating = nil
	}
	for _, l := range u.links {
		u.stopListenLocked(l, cause)
	}
	all := slices.Clone(u.sessionsLocked())
	for _, s := range all {
		s.stopCheck()
		s.stopPings()
		if s.reap != nil {
			s.reap.Stop()
			s.reap = nil
		}
		if !s.outdated {
			u.leaving = slices.DeleteFunc(u.leaving, func(x *session) bool { return x == s }) // a stalled session may already be in u.leaving; outdateLocked adds it again
			u.outdateLocked(s, cause)
		}
	}
	return all
}

// clearBackoffLocked ends all back-offs, so that the next attempt is made without a delay.
func (u *Upstream) clearBackoffLocked() {
	u.stopHealingLocked()
	u.backoff.Reset()
	u.notBefore, u.lastErr = time.Time{}, nil
	for _, l := range u.links {
		l.notBefore, l.lastErr = time.Time{}, nil
	}
}

// awaitEnd waits until the sessions and their child processes have ended. After operatorGrace, it
// ends the sessions that still have calls.
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
		s.shut(u.graceful, cause) // shut waits for the end of the process
	}
}

// supersededLocked discards the result of an open that began before an operator stopped or
// restarted the server.
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

// If the server has no session, reopenLocked opens the server and restores the subscriptions of its
// clients.
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

// operatedBy publishes an event about an operator's operation.
func (u *Upstream) operatedBy(what string) {
	u.opts.Events.Publish(event.Event{Kind: event.Lifecycle, Level: slog.LevelInfo, Server: u.spec.Name, Detail: what})
	u.step("")
}

func (u *Upstream) isStopped() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stopped
}
