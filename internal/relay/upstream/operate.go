package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// An operator can stop, start, restart and probe a server. The methods in this file do not wait until
// the operation is complete. Upstream.Status shows the progress.
//
// stop and restart take the sessions out of service. Each session ends when its running calls have
// ended, or after operatorGrace. Calls that still run at that time fail. restart opens the server
// again only when all sessions have ended, because two processes of one server may not be able to
// run at the same time. Calls that arrive in the meantime wait for the restart.

// operatorGrace is how long running calls may continue when an operator stops or restarts the
// server.
const operatorGrace = 5 * time.Second

// operator stops, starts, restarts and closes the server.
type operator struct {
	*core
	broker interface {
		openHome(*state)
		outdate(st *state, s *session, cause error)
	}
	hub interface{ restore(*pool, *link) }
}

// operations is the state of the operator.
type operations struct {
	closed    bool
	stopped   bool
	operation uint64        // number of operations that took sessions out of service
	operating chan struct{} // closed when the old sessions have ended; nil if no restart is in progress
	opens     context.Context
	endOpens  context.CancelCauseFunc // cancels the opens in progress
}

// stop ends all sessions and keeps the server stopped. Calls then fail at once, and only Start,
// Restart or Probe opens the server again. If the server is already stopped, stop does nothing.
func (o *operator) stop(by string) error {
	return get(o.core, func(st *state) error {
		if err := o.operable(st); err != nil || st.ops.stopped {
			return err
		}
		st.ops.stopped = true
		leaving := o.takeDown(st, conn.ErrStopped)
		st.health.setFailed(Stopped, failure.Of(nil, failure.Facts{Server: o.spec.Name, Cause: "stopped", By: by}))
		o.work.Go(func() {
			o.awaitEnd(leaving, conn.ErrStopped)
			o.operatedBy("stopped by an operator", by)
		})
		st.log(slog.LevelInfo, "server stopped by an operator", "by", by)
		return nil
	})
}

// start opens a server that is stopped, idle or failed, without waiting for the next scheduled
// attempt. If the server has a session or is being restarted, start does nothing.
func (o *operator) start(by string) error {
	return get(o.core, func(st *state) error {
		if err := o.operable(st); err != nil || st.ops.operating != nil || st.pools.hasSession() {
			return err
		}
		st.clearBackoff()
		if st.ops.stopped {
			st.ops.stopped = false
			st.health.setState(Idle, "")
		}
		o.reopen(st)
		o.work.Go(func() { o.operatedBy("started by an operator", by) })
		st.log(slog.LevelInfo, "server started by an operator", "by", by)
		return nil
	})
}

// restart implements Restart and Probe. If forget is true, it also removes the stored revision and
// transport.
func (o *operator) restart(by string, forget bool) error {
	return get(o.core, func(st *state) error {
		if err := o.operable(st); err != nil {
			return err
		}
		st.ops.stopped = false
		leaving := o.takeDown(st, conn.ErrRestarted)
		if forget {
			st.dial.forget(o.spec.Adapter)
			st.health.status.Revision = mcp.Unknown
		}
		st.health.setState(Starting, "")
		if st.ops.operating == nil {
			st.ops.operating = make(chan struct{})
		}
		operation := st.ops.operation
		o.work.Go(func() {
			o.awaitEnd(leaving, conn.ErrRestarted)
			o.update(func(st *state) {
				if st.ops.operation != operation {
					return // a later operation has replaced this restart
				}
				close(st.ops.operating)
				st.ops.operating = nil
				if st.ops.closed {
					return
				}
				o.reopen(st)
				o.work.Go(func() {
					if forget {
						o.operatedBy("probed again by an operator", by)
					} else {
						o.operatedBy("restarted by an operator", by)
					}
				})
			})
		})
		if forget {
			st.log(slog.LevelInfo, "server probed again by an operator", "by", by)
		} else {
			st.log(slog.LevelInfo, "server restarted by an operator", "by", by)
		}
		return nil
	})
}

// errNotOperable is the error of an operation on a server that is being removed.
var errNotOperable = errors.New("the server is being removed")

// operable returns the reason why an operator cannot stop, start or restart the server, or
// nil if the operator can.
func (o *operator) operable(st *state) error {
	switch {
	case st.ops.closed:
		return errNotOperable
	case o.spec.Unusable != nil:
		return st.health.lastErr
	}
	return nil
}

// takeDown takes all sessions out of service, and cancels the opens in progress. It returns
// these sessions. Each session ends after its last call.
func (o *operator) takeDown(st *state, cause error) []*session {
	st.ops.operation++
	st.ops.endOpens(cause)
	st.ops.opens, st.ops.endOpens = context.WithCancelCause(o.life)
	st.clearBackoff()
	st.health.up, st.health.opened, st.health.awaySince, st.health.tries = false, time.Time{}, time.Time{}, 0
	if st.ops.stopped && st.ops.operating != nil {
		close(st.ops.operating) // callers that wait for the restart get an error that says that the server is stopped
		st.ops.operating = nil
	}
	for _, l := range st.pools.links {
		l.stopListen(cause)
	}
	all := slices.Clone(st.pools.all())
	for _, s := range all {
		s.stopCheck()
		s.stopPings()
		s.stopReap()
		if !s.outdated {
			o.broker.outdate(st, s, cause)
		}
	}
	return all
}

// clearBackoff ends all back-offs, so that the next attempt is made without a delay.
func (st *state) clearBackoff() {
	st.health.stopHealing()
	st.health.backoff.Reset()
	st.health.notBefore, st.health.lastErr = time.Time{}, nil
	for _, l := range st.pools.links {
		l.notBefore, l.lastErr = time.Time{}, nil
	}
}

// awaitEnd waits until the sessions and their child processes have ended. After operatorGrace, it
// ends the sessions that still have calls.
func (o *operator) awaitEnd(all []*session, cause error) {
	grace, stop := context.WithTimeout(o.life, operatorGrace)
	defer stop()
	for _, s := range all {
		select {
		case <-s.server.Gone():
		case <-grace.Done():
		}
	}
	for _, s := range all {
		o.work.Go(func() { s.shut(o.graceful, cause) })
	}
	for _, s := range all {
		s.shut(o.graceful, cause) // waits for the end of the process
	}
}

// If the server has no session, reopen opens the server and restores the subscriptions of its
// clients.
func (o *operator) reopen(st *state) {
	if st.pools.hasSession() {
		return
	}
	o.broker.openHome(st)
	for _, p := range st.pools.byKey {
		if p.watches() {
			o.work.Go(func() { o.hub.restore(p, nil) })
		}
	}
}

// operatedBy publishes an event about an operator's operation; see Upstream.Stop for by.
func (o *operator) operatedBy(what, by string) {
	o.opts.Events.Publish(event.Event{Kind: event.Lifecycle, Level: slog.LevelInfo, Server: o.spec.Name, Detail: what + " " + by})
	o.step("")
}

var errStopped = fmt.Errorf("%w, or Dragoman is stopping", conn.ErrRemoved)

// close ends all sessions and child processes, and waits until they have ended. When ctx ends,
// close kills the remaining children.
func (o *operator) close(ctx context.Context) {
	defer context.AfterFunc(ctx, o.kill)()
	o.update(func(st *state) {
		st.ops.closed = true
		for _, s := range st.pools.all() {
			if s.reap != nil {
				s.reap.Stop()
			}
			s.stopCheck()
			s.stopPings()
			o.work.Go(func() { s.shut(o.graceful, errStopped) })
		}
		o.work.Close()
	})
	o.end(errStopped)
	o.work.Wait()
	o.kill()
}
