package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

// opening is one attempt to open a session. Several callers may wait for it.
type opening struct {
	target
	began time.Time
	turn  *ticket // the place in the queue of starts

	// These belong to the state.
	waiters int    // number of calls that wait for the result, or have not yet looked at it
	changed string // the party of a client whose roots have changed meanwhile, or ""

	life      context.Context // ends when an operator stops or restarts the server
	operation uint64          // the number of the operator's last operation at the beginning

	done chan struct{} // closed when err is set
	err  error
}

// beginOpen starts to open a session for the pool. The open continues if its first caller gives
// up, because other callers may also wait for it. The log shows the purpose of the first caller.
// left is what another process has left of a session with which this one goes on, or nil.
func (b *broker) beginOpen(st *state, p *pool, f *mcp.ClientInfo, purpose string, left []byte) {
	o := &opening{
		target: target{p, f.Own(), purpose, left}, began: time.Now(), turn: newTicket(st.classOfOpen(), b.spec.Name),
		life: st.ops.opens, operation: st.ops.operation, done: make(chan struct{}),
	}
	b.healer.opening(st, !st.pools.opening())
	p.opening = o
	b.work.Go(func() { b.runOpen(o) })
}

// classOfOpen returns the class of the next open of the server in the queue of starts.
func (st *state) classOfOpen() class {
	switch {
	case st.dial.hung:
		return afterHang
	case st.pools.opening() || slices.ContainsFunc(st.pools.all(), func(s *session) bool { return !s.aside && !s.outdated }):
		return furtherSession
	}
	return firstSession
}

// openResult is the result of an open: a session or an error.
type openResult struct {
	session *session
	err     error
	why     *failure.Failure // describes err for users
	hung    bool             // the attempt failed and took briefHold or longer
}

// runOpen opens a session, and puts it into service.
func (b *broker) runOpen(o *opening) {
	r := b.tryOpen(o)
	over, late := false, false
	b.update(func(st *state) {
		if over = r.err == nil && r.session.over; !over {
			late = b.finishOpen(st, o, r)
		}
	})
	if over {
		r.err = b.endedAtOnce(r.session)
		r.why = b.failureOf(r.err)
		b.update(func(st *state) { late = b.finishOpen(st, o, r) })
	}
	if late {
		r.session.shut(b.graceful, errStopped)
	}
}

// tryOpen opens a session when it is its turn.
func (b *broker) tryOpen(o *opening) (r openResult) {
	var leave func()
	leave, r.err = b.awaitStart(o.life, o.turn)
	starting := time.Now()
	if r.err == nil {
		r.session, r.err = b.dialer.open(o.life, o.target)
		leave()
	}
	if r.err != nil {
		r.hung, r.why = time.Since(starting) >= briefHold, b.failureOf(r.err)
		return r
	}
	b.hub.replayLevel(r.session, o.pool)
	b.awaitRoots(o, r.session)
	return r
}

// finishOpen puts the session of an open into service, or records why there is none. late says that
// the caller must end the session, because the server is being removed.
func (b *broker) finishOpen(st *state, o *opening, r openResult) (late bool) {
	p := o.pool
	if r.err == nil && st.ops.closed {
		r.err, r.why, late = b.unavailable(errStopped, "removed"), b.removed, true
	}
	if st.ops.operation != o.operation && !st.ops.closed {
		b.superseded(st, o, r)
		return late
	}
	failed := st.health.backoff.Failures() > 0
	st.dial.hung = r.hung
	if r.err == nil {
		r.session.from = o
		b.putIntoService(st, p, o.client, r.session)
		b.catchUp(st, o, r.session)
	} else if !o.inherits() {
		b.openFailed(st, o, r)
	}
	if o.inherits() {
		b.endInheriting(st, o, r)
	}
	p.opening = nil
	st.pools.touched = append(st.pools.touched, p)
	if r.err == nil && !st.health.up {
		st.health.up = true
		st.health.starts++
		// Clients that read the lists caused the first start, and read the lists now. So no
		// list is out of date after a first start, unless the start was slow or an earlier
		// attempt failed.
		changed := failed || st.health.starts > 1 || time.Since(o.began) > readersWait
		if changed && b.opts.Changed != nil {
			st.later(func() { b.opts.Changed("") })
		}
	}
	st.later(func() { close(o.done) })
	return late
}

// openFailed records the error of an open. Callers that wait for this open get o.err. For later
// callers, the healer or refusedScope stores an error.
func (b *broker) openFailed(st *state, o *opening, r openResult) {
	switch {
	case b.goSolo(st, o.pool, r.err, r.why):
		return // the callers share the session that the server has
	case !b.refusedScope(st, o.pool, o.client, r.err):
		b.healer.openFailed(st, r.err, r.why)
	default:
		b.healer.scopeRefused(st, o.pool.scope, r.why)
	}
	o.err = r.err
}

// superseded discards the result of an open that began before an operator stopped or restarted the
// server.
func (b *broker) superseded(st *state, o *opening, r openResult) {
	cause := conn.ErrRestarted
	if st.ops.stopped {
		cause = conn.ErrStopped
		o.err = b.unavailable(conn.ErrStopped, "stopped")
	}
	if r.err == nil {
		b.work.Go(func() { r.session.shut(b.graceful, cause) })
	}
	o.pool.opening = nil
	st.pools.touched = append(st.pools.touched, o.pool)
	if !st.ops.stopped && st.ops.operating == nil {
		b.operator.reopen(st)
	}
	st.later(func() { close(o.done) })
}

// putIntoService lets calls use a new session.
func (b *broker) putIntoService(st *state, p *pool, f *mcp.ClientInfo, s *session) {
	b.healer.ready(st, s)
	s.opened = time.Now()
	s.idle = s.opened
	b.watchdog.startWatching(st, s)
	how := s.server.Opening()
	if how.Revision.Modern() || !st.pools.hasLink() {
		st.health.status.Revision = how.Revision
	}
	if how.Remember() && (how.Revision.Modern() || !s.legacyFirst) {
		st.dial.era = how.Revision
	}
	st.health.setState(Ready, "")
	if slices.ContainsFunc(how.Findings, func(f handshake.Finding) bool { return f.Code == handshake.FoundSilentProbe }) {
		// The server did not answer the probe in time. The next handshake begins with initialize.
		// An error response to initialize may still show the era of the server.
		st.dial.silent = true
	}
	if how.Revision.Modern() {
		// If the handshake began with initialize, the server has refused initialize. Then it does
		// not support the legacy era, even if it lists a legacy version. A pinned revision leaves no other era to us.
		st.dial.noLegacy = s.legacyFirst || b.spec.Pin != mcp.Unknown || !offersLegacy(how.Hello.Versions)
		s.pool = nil
		scope := ""
		if p != nil {
			scope = p.scope
		}
		l := st.pools.link(scope, f)
		l.notBefore, l.lastErr = time.Time{}, nil
		if l.session != nil {
			// Another open was faster. One link is enough.
			b.work.Go(func() { s.shut(b.graceful, errNotNeeded) })
			return
		}
		l.session, s.link = s, l
		b.rest(st, s)
		b.hub.relistenSoon(st, l)
		return
	}
	if p.owner != 0 && len(p.sessions) > 0 && f != nil && f.Conversation != p.owner {
		// The pool got its owner meanwhile, and the client for which we have opened this session has
		// another pool now.
		b.work.Go(func() { s.shut(b.graceful, errNotNeeded) })
		return
	}
	s.pool = p
	if f != nil {
		s.opener = f.Conversation
	}
	p.sessions = append(p.sessions, s)
	b.rest(st, s)
}

// openHome opens the home session of clients without capabilities. It does nothing if another
// open without client credentials is in progress.
func (b *broker) openHome(st *state) {
	for _, p := range st.pools.byKey {
		if p.opening != nil && p.scope == "" {
			return // if this open fails, healer.openFailed schedules the next attempt
		}
	}
	p := st.pools.byKey[""]
	if p == nil {
		p = b.newPool(st, "", nil, "")
	}
	if p.opening == nil {
		b.beginOpen(st, p, nil, purposeKeepOpen, nil)
	}
}

// endedAtOnce returns the error of an open whose session has ended before its first use. It waits
// for the end of the child process.
func (b *broker) endedAtOnce(s *session) error {
	cause, exit := s.server.Err(), ""
	if s.child != nil {
		exit = b.exitOf(s.child, exitGrace)
	}
	s.shut(b.graceful, cause)
	return b.endError(s, b.endFailure(s, cause, exit))
}

// offersLegacy reports whether a modern server lists a legacy version.
func offersLegacy(versions []string) bool {
	for _, v := range versions {
		if r, ok := mcp.ParseRevision(v); ok && r.Legacy() {
			return true
		}
	}
	return false
}
