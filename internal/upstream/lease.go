package upstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/conn"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Lease is a session of the server for one call: what it says of the server and the call
// are of the same session. It belongs to one goroutine at a time. It is not held while a
// person is waited for or a task is polled, since a pool has few sessions.
type Lease struct {
	u      *Upstream
	s      *session // nil once it is released
	client *mcp.ClientInfo
	need   mcp.Need
	lane   bool // it counts among the calls of the session's lane
	look   bool // nothing was sent, so that a session of isolation "call" is as new
	rev    mcp.Revision
	tasks  mcp.TaskForm

	released func() // see OnRelease; nil for none
}

// Acquire returns a session for the client f, opening one where none fits. It waits while
// all are in use, as long as ctx. The caller must call Release.
func (u *Upstream) Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (*Lease, error) {
	if need.Session != 0 {
		if l := u.acquireSession(f, need); l != nil {
			return l, nil
		}
		if u.spec.piped() {
			return nil, u.sessionOver()
		}
		// What is behind HTTP may still have the task.
	}
	l, err := u.acquire(ctx, f, need.ForCall)
	if err != nil {
		return nil, err
	}
	l.need, l.look = need, true
	return l, nil
}

// sessionOver is the error of a request about a task whose session is over: a process has
// ended with it, and its tasks.
func (u *Upstream) sessionOver() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: fmt.Sprintf("Task not found: the session of server %q that had it is over", u.spec.Name)}
}

// newLease returns a lease of a session that was acquired.
func (u *Upstream) newLease(s *session, f *mcp.ClientInfo, lane bool) *Lease {
	l := &Lease{u: u, client: f}
	l.take(s, lane)
	return l
}

func (l *Lease) take(s *session, lane bool) {
	l.s, l.lane = s, lane
	l.rev, l.tasks = s.server.Revision(), s.tasks
}

// Revision returns what the session speaks.
func (l *Lease) Revision() mcp.Revision { return l.rev }

// Tasks returns in which form the server has tasks in this session.
func (l *Lease) Tasks() mcp.TaskForm { return l.tasks }

// Tool returns what the server's list says of a tool. Where the list is not known it is
// read through this session.
func (l *Lease) Tool(ctx context.Context, name string) mcp.ToolFacts {
	var facts mcp.ToolFacts
	l.u.lookUpTool(ctx, l.client, l.s, func(t *toolSpecs) bool {
		facts.Params, facts.Known = t.params[name]
		facts.Support = t.tasks[name]
		return facts.Known || facts.Support != mcp.TaskForbidden
	})
	return facts
}

// OnRelease sets what the first Release calls. It must be set before the lease is used, and
// must not block.
func (l *Lease) OnRelease(f func()) { l.released = f }

// Release gives the session back. It may be called several times.
func (l *Lease) Release() {
	l.giveBack()
	if f := l.released; f != nil {
		l.released = nil
		f()
	}
}

func (l *Lease) giveBack() {
	if s := l.s; s != nil {
		l.s = nil
		l.u.release(s, l.lane, l.look)
	}
}

// Call sends a call and waits for its answer; see conn.Conn.Call. One that provably did
// not arrive, or that is read-only, is sent once more through another session, which the
// lease has from then on; the error is mcp.ErrChanged where the attempt does not fit that
// one.
func (l *Lease) Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	l.look = false
	if l.need.Session != 0 {
		return l.callInSession(ctx, a, k)
	}
	u := l.u
	for try := 0; ; try++ {
		s := l.s
		u.raiseLevel(ctx, s, a)
		if reply := u.answerListen(s, a.Msg.Method); reply != nil {
			return reply, nil
		}
		u.watch(s)
		reply, err := s.server.Call(ctx, a, s.related(a.Trail, k))
		if err == nil && u.missesHeader(s, a, reply) {
			// Its tool's schema has changed since we read it (2026-07-28 §Streamable
			// HTTP, "Client Behavior").
			u.forgetTools()
			reply, err = s.server.Call(ctx, a, k)
		}
		if err == nil {
			u.remember(s, a, reply)
			u.noteListen(s, a.Msg.Method, reply)
		}
		if try == 0 && foreign(s, reply, err) {
			l.giveBack()
			if !u.eraChanged(ctx, s) || !notExecuted(s, a.Call, reply) {
				return reply, err
			}
			if err := l.again(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil {
			return reply, nil
		}
		var e *mcp.Error
		if !errors.As(err, &e) || try > 0 || ctx.Err() != nil {
			return nil, err
		}
		if isOver(err) {
			u.drop(s, err)
		}
		if !errors.Is(err, conn.ErrSessionLost) && e.Outcome != mcp.NotSent && !(e.Retryable && (e.Cause == "exited" || e.Cause == "stalled")) {
			return nil, err
		}
		if e.Cause == "auth_required" || e.Cause == "overloaded" {
			return nil, err
		}
		u.opts.Log.Info("call is sent again", "server", u.spec.Name, "cause", e.Cause)
		if err := l.again(ctx); err != nil {
			return nil, err
		}
	}
}

// again takes another session in place of the one that could not answer.
func (l *Lease) again(ctx context.Context) error {
	l.giveBack()
	next, err := l.u.acquire(ctx, l.client, l.need.ForCall)
	if err != nil {
		return err
	}
	rev, tasks := l.rev, l.tasks
	l.take(next.s, next.lane)
	if l.rev.Modern() != rev.Modern() || l.tasks != tasks {
		return mcp.ErrChanged
	}
	return nil
}

// callInSession sends a call that only one session can answer. Where it is over a
// process has ended with it, and its tasks; what is behind HTTP may still have them.
func (l *Lease) callInSession(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	u := l.u
	for try := 0; ; try++ {
		s := l.s
		u.watch(s)
		reply, err := s.server.Call(ctx, a, s.related(a.Trail, k))
		u.remember(s, a, reply)
		if err == nil {
			return reply, nil
		}
		if isOver(err) {
			u.drop(s, err)
		}
		if try > 0 || ctx.Err() != nil || !errors.Is(err, conn.ErrSessionLost) {
			return nil, err
		}
		l.giveBack()
		next := u.acquireSession(l.client, l.need)
		if next == nil {
			if u.spec.piped() || a.Msg.Method == mcp.MethodCallTool {
				return nil, u.sessionOver()
			}
			if next, err = u.acquire(ctx, l.client, l.need.ForCall); err != nil {
				return nil, err
			}
		}
		l.take(next.s, next.lane)
	}
}

// Call acquires a session, sends one call through it and gives it back: for what needs
// to know nothing of the session before. The call is made anew, once, where the server
// has changed in between.
func (u *Upstream) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	l, err := u.Acquire(ctx, c.Client, mcp.NeedOf(c))
	if err != nil {
		return nil, err
	}
	defer l.Release()
	reply, err := l.Call(ctx, mcp.NewAttempt(c), k)
	if errors.Is(err, mcp.ErrChanged) {
		reply, err = l.Call(ctx, mcp.NewAttempt(c), k)
	}
	return reply, err
}
