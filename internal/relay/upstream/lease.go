package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
)

// Lease reserves a session of the server for one call. The facts that its methods return are about
// this session. Only one goroutine at a time may use a lease. The caller must release the lease
// while it waits for a user or polls a task, since a pool has few sessions.
type Lease struct {
	hold   // s is nil after Release
	u      *Upstream
	client *mcp.ClientInfo
	need   mcp.Need
	rev    mcp.Revision
	tasks  mcp.TaskForm

	released func() // the function that was passed to OnRelease, or nil
}

// Acquire returns a lease on a session for the client f, and opens a session if necessary. If the
// pool is full and no session is free, Acquire waits until a session is free or ctx ends. The
// caller must call Release.
func (u *Upstream) Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (*Lease, error) {
	l := &Lease{u: u, client: f, need: need}
	if need.Session != 0 {
		if h, ok := u.broker.acquireSession(f, need); ok {
			l.take(h)
			return l, nil
		}
		if u.spec.piped() {
			return nil, u.sessionOver()
		}
		// An HTTP server may know the task in its other sessions too.
	}
	h, err := u.broker.acquire(ctx, f, need)
	if err != nil {
		return nil, err
	}
	h.unused = true
	l.take(h)
	return l, nil
}

// sessionOver returns the error for a request about a task whose session has ended.
func (c *core) sessionOver() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: fmt.Sprintf("Task not found: the session of server %q that ran the task has ended", c.spec.Name)}
}

func (l *Lease) take(h hold) {
	l.hold = h
	l.rev, l.tasks = h.s.server.Revision(), h.s.tasks
}

// Revision returns the revision of the session.
func (l *Lease) Revision() mcp.Revision { return l.rev }

// Tasks returns the form in which the server supports tasks in this session.
func (l *Lease) Tasks() mcp.TaskForm { return l.tasks }

// Tool returns what the server's tool list says about a tool. If Dragoman does not have the list
// yet, Tool reads the list through the lease's session.
func (l *Lease) Tool(ctx context.Context, name string) mcp.ToolFacts {
	var info mcp.ToolFacts
	l.u.lister.lookUpTool(ctx, l.client, l.s, func(t *toolSpecs) bool {
		info.Params, info.Known = t.params[name]
		info.Support = t.tasks[name]
		return info.Known || info.Support != mcp.TaskForbidden
	})
	return info
}

// OnRelease sets the function that the first call of Release runs. OnRelease must be called before
// the lease is used. The function f must not block.
func (l *Lease) OnRelease(f func()) { l.released = f }

// Release gives the session back. Further calls of Release have no effect.
func (l *Lease) Release() {
	l.hold.release()
	if f := l.released; f != nil {
		l.released = nil
		f()
	}
}

// Call sends a call and waits for its answer; see conn.Conn.Call. If the call certainly did not
// arrive at the server, or if it is read-only, Call retries it once, in another session if the first
// one is over. The lease then keeps the session of the retry. If the attempt does not fit the new session, the error is
// mcp.ErrChanged.
func (l *Lease) Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	l.unused = false
	if l.need.Session != 0 {
		return l.callInSession(ctx, a, k)
	}
	for try := 0; ; try++ {
		s := l.s
		reply, err := l.send(ctx, a, k)
		switch {
		case try == 0 && maybeOtherEra(s, reply, err):
			l.hold.release()
			if !l.u.dialer.eraChanged(ctx, s) || !notExecuted(s, a.Call, reply) {
				return reply, err
			}
		case err == nil:
			return reply, nil
		default:
			var more bool
			if more, err = l.mayRetry(ctx, s, err, try); !more {
				return nil, err
			}
		}
		if err := l.again(ctx); err != nil {
			return nil, err
		}
	}
}

// send sends a call in the lease's session, and tells the parts of the upstream what the answer shows.
func (l *Lease) send(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	u, s := l.u, l.s
	u.hub.raiseLevel(ctx, s, a)
	if reply := u.hub.answerListen(s, a.Msg.Method); reply != nil {
		return reply, nil
	}
	u.watchdog.watch(s)
	began := time.Now()
	reply, err := s.server.Call(ctx, a, u.broker.callerOf(s, a, k))
	if err == nil && u.missesHeader(s, a, reply) {
		// The tool's schema has changed since Dragoman read the tool list. Read the list again
		// and repeat the call (2026-07-28 §Streamable HTTP, "Client Behavior").
		u.lister.forgetTools("")
		reply, err = s.server.Call(ctx, a, k)
	}
	if err != nil {
		return reply, err
	}
	s.served.Store(true)
	if s.unanswered.Load() {
		u.watchdog.answered(s)
	}
	u.broker.remember(s, a, reply)
	u.hub.noteListen(s, a.Msg.Method, reply)
	u.lister.seeReply(l.client, began, a, reply)
	return reply, nil
}

// mayRetry reports whether a call that failed with err in the session s is sent again, in another
// session. If not, the second result is the error for the caller. The parameter try counts the
// attempts before this one. mayRetry takes s out of service if it cannot be used any more.
func (l *Lease) mayRetry(ctx context.Context, s *session, err error, try int) (bool, error) {
	u := l.u
	var e *mcp.Error
	if errors.As(err, &e) && e.Origin == mcp.FromGateway {
		u.watchdog.checkSoon(s)
	}
	if e == nil || try > 0 || ctx.Err() != nil {
		return false, u.withRemains(s, err)
	}
	switch {
	case isOver(err):
		u.broker.replace(s, 1, err)
	case errors.Is(err, conn.ErrWriteFailed):
		u.broker.replaceBroken(ctx, s, err)
	}
	if !errors.Is(err, conn.ErrSessionLost) && e.Outcome != mcp.NotSent && !(e.Retryable && (e.Cause == "exited" || e.Cause == "cut_off" || e.Cause == "stalled")) {
		return false, u.withRemains(s, err)
	}
	if e.Cause == "auth_required" || e.Cause == "overloaded" {
		return false, err
	}
	u.opts.Log.Info("retrying call", "server", u.spec.Name, "cause", e.Cause)
	return true, nil
}

// again replaces the lease's failed session with another session. If the attempt does not fit that
// session, again returns mcp.ErrChanged.
func (l *Lease) again(ctx context.Context) error {
	l.hold.release()
	next, err := l.u.broker.acquire(ctx, l.client, l.need)
	if err != nil {
		return err
	}
	rev, tasks := l.rev, l.tasks
	l.take(next)
	if l.rev.Modern() != rev.Modern() || l.tasks != tasks {
		return mcp.ErrChanged
	}
	return nil
}

// brokenGrace is how long replaceBroken waits for the session to end.
const brokenGrace = 100 * time.Millisecond

// replaceBroken takes a session out of service after a failed write, so that no other call gets it.
// Usually the server has exited, and the session ends when the pipe closes. If the session does not
// end, it stays open for calls that still wait for their answers.
func (b *broker) replaceBroken(ctx context.Context, s *session, err error) {
	t := time.NewTimer(brokenGrace)
	defer t.Stop()
	select {
	case <-s.server.Gone():
	case <-t.C:
	case <-ctx.Done():
	}
	b.replace(s, 1, err)
}

// callInSession sends a call in the session with the number l.need.Session, such as the session of
// a task. If this session has ended, a server on a pipe no longer has the task, and the call fails.
// An HTTP server may know the task in another session, so callInSession then uses another session,
// except for tools/call.
func (l *Lease) callInSession(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	u := l.u
	for try := 0; ; try++ {
		s := l.s
		u.watchdog.watch(s)
		reply, err := s.server.Call(ctx, a, u.broker.callerOf(s, a, k))
		u.broker.remember(s, a, reply)
		if err == nil {
			return reply, nil
		}
		if isOver(err) {
			u.broker.replace(s, 1, err)
		}
		if try > 0 || ctx.Err() != nil || !errors.Is(err, conn.ErrSessionLost) {
			return nil, err
		}
		l.hold.release()
		next, ok := u.broker.acquireSession(l.client, l.need)
		if !ok {
			if u.spec.piped() || a.Msg.Method == mcp.MethodCallTool {
				return nil, u.sessionOver()
			}
			if next, err = u.broker.acquire(ctx, l.client, l.need); err != nil {
				return nil, err
			}
		}
		l.take(next)
	}
}

// Call acquires a session, sends one call and releases the session. It is for calls that do not
// need a particular session. If Lease.Call returns mcp.ErrChanged, Call builds a new attempt and
// sends it.
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

// isOver reports whether the error of a call says that the session does not accept more calls. Over
// HTTP, where each call has a connection of its own, only a lost session does.
func isOver(err error) bool { return errors.Is(err, conn.ErrSessionLost) || pipeEnded(err) }

// pipeEnded reports whether the error of a call says that the pipe has ended, with all its calls.
func pipeEnded(err error) bool {
	var e *mcp.Error
	return errors.Is(err, conn.ErrLinkOver) || errors.As(err, &e) && e.Cause == "exited"
}

// missesHeader reports whether a modern server refused a call because a mirrored header was missing
// or wrong. Such a call was not executed.
func (c *core) missesHeader(s *session, a *mcp.Attempt, r *mcp.Reply) bool {
	return r.Code() == mcp.CodeHeaderMismatch && a.Msg.Method == mcp.MethodCallTool &&
		s.server.Revision().Can(mcp.MirroredHeaders) && c.spec.Command == ""
}
