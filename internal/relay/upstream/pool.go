package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
)

// broker lends sessions to calls. It chooses a session, or opens one, or lets the caller wait for one.
type broker struct {
	*core
	dialer interface {
		open(context.Context, target) (*session, error)
	}
	healer interface { // hears of attempts to open the server, and why there's no session
		opening(st *state, alone bool)
		ready(*state, *session)
		openFailed(*state, error, *failure.Failure)
		healLater(*state, time.Duration)
		scopeRefused(st *state, scope string, why *failure.Failure)
		sessionEnded(*state, *session, *failure.Failure) (pause time.Duration)
		explainEnd(s *session, before, now *failure.Failure, pause time.Duration)
	}
	watchdog interface { // hears of sessions that begin, and of their use
		startWatching(*state, *session)
		watchStall(*state, *session)
	}
	hub interface {
		relistenSoon(*state, *link)
		replayLevel(*session, *pool)
		restore(*pool, *link)
	}
	operator interface{ reopen(*state) }
}

// maxSessionsPerPool bounds the sessions of one pool. If the pool is full, calls wait for a free
// session.
const maxSessionsPerPool = 16

// key returns the key of the pool for a client's calls. The key consists of the credential
// scope, the seat, and the canonical form of the capabilities. Each pool of a legacy server may
// need a process, so the key ignores differences that do not affect a server: white space, the
// order of members, and unknown names. Anonymous clients that cannot get server requests share the
// key "" with Dragoman's own calls, unless they have credentials of their own. If the server asks for
// roots, the key also names the conversation; see roots.go.
func (b *broker) key(st *state, f *mcp.ClientInfo, scope string) string {
	return keyOf(b.base(st, f, scope), b.ownerOf(st, f))
}

// base returns the key without the conversation.
func (b *broker) base(st *state, f *mcp.ClientInfo, scope string) string {
	if f == nil {
		return ""
	}
	key := ""
	if b.spec.Isolation != Shared {
		key = st.pools.canon.of(f.Capabilities)
		if seat := f.Who.SeatKey(); seat != "" {
			key = seat + "\x00" + key
		}
	}
	if scope != "" {
		return scope + "\x00" + key
	}
	return key
}

// ownPool returns the pool of a client, and creates it if necessary.
func (b *broker) ownPool(st *state, f *mcp.ClientInfo, scope string) *pool {
	key := b.key(st, f, scope)
	if p := st.pools.byKey[key]; p != nil {
		return p
	}
	return b.newPool(st, key, f, scope)
}

// newPool creates the pool for a key. f may be nil.
func (b *broker) newPool(st *state, key string, f *mcp.ClientInfo, scope string) *pool {
	p := &pool{key: key, base: b.base(st, f, scope), owner: b.ownerOf(st, f), freed: make(chan struct{})}
	if f != nil {
		p.declared = b.capabilities(f)
		p.scope = scope
		if b.spec.Isolation != Shared {
			p.seat = f.Who.SeatKey()
		}
	}
	st.pools.byKey[key] = p
	st.pools.touched = append(st.pools.touched, p)
	return p
}

// capabilities returns the capabilities to declare to a legacy server on behalf of f. The session
// may serve other clients later, and must not declare a capability that these clients lack. So
// capabilities returns the canonical form, which all clients of the pool share. If Spec.OneClient
// is set, there are no other clients, so the result is the client's own bytes.
func (c *core) capabilities(f *mcp.ClientInfo) []byte {
	switch {
	case f == nil:
		return nil
	case c.spec.OneClient && len(f.Capabilities) > 2 && len(f.Capabilities) <= mcp.MaxOwnCapabilities:
		return bytes.Clone(f.Capabilities)
	}
	return mcp.CanonicalCapabilities(f.Capabilities)
}

// canBeAsked reports whether a client has declared a capability for server requests.
func canBeAsked(f *mcp.ClientInfo) bool { return mcp.Askable(f.Capabilities) }

// useModern reports whether the calls of a client use the link to a modern server. If the
// client is a legacy client that can be asked, and the server also supports the legacy era, a
// legacy session is better: there, the server can send requests during a call. For other clients,
// the era makes no visible difference.
func (st *state) useModern(f *mcp.ClientInfo, scope string) bool {
	if l := st.pools.links[scope]; l == nil || l.session == nil {
		return false
	}
	return f == nil || !f.Revision.Legacy() || st.dial.noLegacy || !canBeAsked(f)
}

// hold keeps a session for its owner until it is released. It is the inner part of a Lease, and all
// that Dragoman's own requests need.
type hold struct {
	b       *broker
	s       *session // nil after release
	counted bool     // the hold is counted in session.calls; see use
	unused  bool     // no call was sent yet; with isolation "call", the next call can then use the session
}

// release gives the session back. Further calls of release have no effect.
func (h *hold) release() {
	if s := h.s; s != nil {
		h.s = nil
		h.b.release(s, h.counted, h.unused)
	}
}

// acquire holds a session for a client, and opens a session if necessary. If need.ForCall is set,
// acquire chooses a session on which Dragoman can attribute server requests to the call. acquire
// ignores need.Session. The caller must release the hold.
func (b *broker) acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (hold, error) {
	scope := b.scopeOf(f)
	var c choice
	for {
		var err error
		b.update(func(st *state) {
			c.stopWaiting()
			c, err = b.pick(ctx, st, f, scope, need)
		})
		if err != nil {
			return hold{}, err
		}
		if c.session != nil {
			return hold{b: b, s: c.session, counted: c.counted}, nil
		}
		freed := c.freed
		if c.opening != nil {
			freed = c.opening.done
		}
		select {
		case <-freed:
		case <-ctx.Done():
			if c.opening != nil {
				b.opts.Starts.forsake(c.opening.turn, waiterOf(ctx, f, need))
			}
			b.update(func(*state) { c.stopWaiting() })
			return hold{}, b.gaveUp(context.Cause(ctx), c.opening != nil)
		}
		if c.opening != nil && c.opening.err != nil {
			return hold{}, c.opening.err
		}
	}
}

// choice is what pick has found for a call: a session, or else what the call must wait for.
type choice struct {
	session *session
	counted bool            // see hold.counted
	opening *opening        // the call needs the result of this open
	freed   <-chan struct{} // closed when the call must try again
}

func (c choice) stopWaiting() {
	if c.opening != nil {
		c.opening.waiters--
	}
}

// pick chooses a session, and opens one if necessary and possible. It uses ctx only to find the
// purpose of an open, and who waits for it.
func (b *broker) pick(ctx context.Context, st *state, f *mcp.ClientInfo, scope string, need mcp.Need) (choice, error) {
	switch {
	case st.ops.closed:
		return choice{}, b.unavailable(errStopped, "removed")
	case b.spec.Unusable != nil:
		return choice{}, st.health.lastErr
	case st.ops.stopped:
		return choice{}, b.unavailable(conn.ErrStopped, "stopped")
	case st.ops.operating != nil:
		return choice{freed: st.ops.operating}, nil
	}
	var p *pool
	var s *session
	if st.useModern(f, scope) {
		s = st.pools.links[scope].session
	} else {
		p = b.poolFor(st, f, scope, need)
		if !p.opening.inherits() {
			s = b.choose(st, p, f, need.ForCall)
		}
	}
	if s != nil {
		if err := b.refuseHung(st, s, p); err != nil {
			return choice{}, err
		}
		return choice{session: s, counted: b.use(st, s, f, need)}, nil
	}
	if p.opening == nil {
		if err := b.refuseHung(st, nil, p); err != nil {
			return choice{}, err
		}
		if len(p.sessions) >= maxSessionsPerPool && !b.retireKept(st, p) {
			return choice{freed: p.freed}, nil
		}
		if err := st.backingOff(p); err != nil {
			return choice{}, err
		}
		if !b.makeRoom(st, p) {
			return choice{}, b.overloaded()
		}
		b.beginOpen(st, p, f, purposeOf(ctx, need), nil)
	}
	p.opening.waiters++
	b.opts.Starts.hurry(p.opening.turn, waiterOf(ctx, f, need))
	return choice{opening: p.opening}, nil
}

// poolFor returns the pool for the calls of a client, and creates it if necessary. f may be nil.
func (b *broker) poolFor(st *state, f *mcp.ClientInfo, scope string, need mcp.Need) *pool {
	key := b.key(st, f, scope)
	p := st.pools.byKey[key]
	if f != nil && f.Conversation == 0 && need.List() {
		if q := st.pools.listPool(p, key); q != nil {
			return q
		}
	}
	if f == nil && (p == nil || len(p.sessions) == 0) {
		// Dragoman's own requests, such as those for the tool list, can use the sessions of any
		// anonymous pool.
		if q := st.pools.anonymous(); q != nil {
			p = q
		}
	}
	if q := b.soloPool(st, p, f, scope); q != nil {
		p = q
	}
	if p == nil {
		p = b.newPool(st, key, f, scope)
	}
	return p
}

// use notes that a session is held for the client f. It reports whether the hold is counted in
// session.calls.
func (b *broker) use(st *state, s *session, f *mcp.ClientInfo, need mcp.Need) (counted bool) {
	s.users++
	s.from = nil
	s.stopReap()
	b.watchdog.watchStall(st, s)
	if s.pool == nil {
		return false
	}
	s.taken = s.taken || need.ForCall
	if f == nil || !need.ForCall {
		return false
	}
	s.owner = f.Conversation
	s.calls++
	return true
}

// refuseHung returns the error for a call that gets no session because the server is unresponsive. It
// returns nil if the call may use a session or open one. The parameter s is the session that the call
// would use, or nil if it would open one for the pool p.
func (b *broker) refuseHung(st *state, s *session, p *pool) error {
	if s != nil {
		if s.unresponsiveSince.IsZero() || !s.pipe || !b.shares(st) || time.Since(s.unresponsiveSince) < sharedPatience {
			return nil
		}
		return b.hungError(s.unresponsive)
	}
	hung := 0
	for _, x := range st.pools.all() {
		switch {
		case x.pool != p && (x.link == nil || x.link.scope != p.scope):
		case !x.aside && !x.outdated:
			return nil
		case x.aside && !x.unresponsiveSince.IsZero():
			x.missed = true
			hung++
			s = x
		}
	}
	if hung < hungSessions {
		return nil
	}
	return b.hungError(s.unresponsive)
}

func (b *broker) hungError(why *failure.Failure) error {
	e := b.unavailable(errUnresponsive, "unresponsive")
	b.explain(e, why)
	return e
}

// overloaded returns the error for a call that needs another session when makeRoom has found no room.
func (b *broker) overloaded() error {
	return &mcp.Error{
		Origin: mcp.FromGateway, Upstream: b.spec.Name, Cause: "overloaded", Outcome: mcp.NotSent, Retryable: true,
		RetryAfter: time.Second, Op: "open " + b.spec.Name,
		Message: fmt.Sprintf("server %q cannot open more sessions: the limit is reached", b.spec.Name),
	}
}

// backingOff returns the last failure to open the server, if it's too early to try again for a pool.
func (st *state) backingOff(p *pool) error {
	if l := st.pools.links[p.scope]; l != nil && l.lastErr != nil && time.Now().Before(l.notBefore) {
		return l.lastErr
	}
	if st.health.lastErr != nil && time.Now().Before(st.health.notBefore) {
		return st.health.lastErr
	}
	return nil
}

// choose returns a session of the pool that may take a call of the client f. It returns nil
// if none of the sessions may take the call.
func (b *broker) choose(st *state, p *pool, f *mcp.ClientInfo, forCall bool) *session {
	if b.spec.Isolation == PerCall {
		for _, s := range p.sessions {
			if !s.taken && !s.aside {
				return s
			}
		}
		return nil
	}
	i := slices.IndexFunc(p.sessions, (*session).inService)
	if i < 0 {
		return nil
	}
	home := p.sessions[i]
	if !forCall || f == nil || !home.shared || b.shares(st) || !canBeAsked(f) {
		return home
	}
	// On a shared pipe, Dragoman attributes a server request to the client whose calls run on the
	// pipe. So only one client at a time may have calls there. The home session is the first
	// choice, because it holds the server's state. If possible, a client with a conversation gets
	// the session of its last call again.
	var free *session
	for _, s := range p.sessions[i:] {
		switch {
		case s.aside:
		case s.calls == 0 && (free == nil || f.Conversation != 0 && s.owner == f.Conversation):
			free = s
		case s.calls > 0 && f.Revision.Legacy() && s.owner == f.Conversation:
			// The calls of one legacy client may share a session, because server requests may reach
			// the client during any of these calls. A modern client gets server requests in the
			// result of one particular call, so no other call may use its session.
			return s
		}
	}
	return free
}

// inService reports whether new calls may use the session.
func (s *session) inService() bool { return !s.aside }

// release gives back an acquired session. For the parameters counted and unused, see hold.
func (b *broker) release(s *session, counted, unused bool) {
	b.update(func(st *state) {
		s.users--
		if unused && counted && b.spec.Isolation == PerCall {
			s.taken = false // the next call may use the session
		}
		if counted {
			s.calls--
		}
		if s.users == 0 {
			s.idle = time.Now()
		}
		p := s.pool
		if p != nil && s.calls == 0 {
			p.wake()
		}
		end, cause := s.users == 0 && p != nil && b.spentBy(s) && !s.hasTasks(), errCallOver
		switch {
		case s.outdated:
			end, cause = s.users == 0, s.outdatedBy
		case end:
			st.pools.remove(s)
		default:
			b.rest(st, s)
		}
		if end {
			// Start this goroutine inside update, so that Close either finds the session in its pool or
			// waits for this goroutine.
			b.work.Go(func() { s.shut(b.graceful, cause) })
		}
	})
}

// rest starts the timer that ends a session, unless somebody holds the session. Whoever puts a session into
// service calls it too: the caller for which we have opened the session may have given up meanwhile.
func (b *broker) rest(st *state, s *session) {
	if s.users > 0 || s.reap != nil || st.ops.closed {
		return
	}
	if s.link != nil {
		b.endIdleLink(s)
		return
	}
	i := slices.Index(s.pool.sessions, s)
	if i < 0 {
		return // the session has ended
	}
	wait := homeIdle
	switch {
	case b.spentBy(s):
		wait = 0 // only its tasks keep it
	case i > 0 || b.spec.Isolation == PerCall || st.pools.forsaken(s):
		wait = exclusiveIdle
	}
	wait = max(wait, time.Until(s.keep))
	s.reap = time.AfterFunc(wait, func() { b.reapIdle(s, wait) })
}

// exclusiveIdle is how long an idle exclusive session stays open for other calls. homeIdle is the
// same time for a home session. It is longer, because a home session holds the server's state.
const (
	exclusiveIdle = time.Minute
	homeIdle      = 15 * time.Minute
)

// maxSessions bounds the sessions of one server in all pools together, because clients can cause
// many pools to be created. maxPerPrincipal bounds the sessions of one principal, so that a
// principal with many sets of capabilities does not use up maxSessions. It does not apply to
// anonymous clients.
const (
	maxSessions     = 64
	maxPerPrincipal = 24
)

// reapIdle ends an idle session, and removes the pool if the pool is no longer needed. If the
// session has tasks, or is a home session with subscribers, reapIdle does not end it, but checks it
// again later.
func (b *broker) reapIdle(s *session, wait time.Duration) {
	b.update(func(st *state) {
		p := s.pool
		if st.ops.closed || s.users > 0 || s.reap == nil || p == nil {
			return
		}
		if len(p.subscribers) > 0 && len(p.sessions) > 0 && p.sessions[0] == s && b.spec.Isolation != PerCall {
			s.reap.Reset(wait)
			return
		}
		if kept := time.Until(s.keep); kept > 0 {
			s.reap.Reset(kept)
			return
		}
		b.retire(st, s)
	})
}

func (b *broker) retire(st *state, s *session) {
	st.pools.remove(s)
	b.work.Go(func() { s.shut(b.graceful, errIdleSession) })
}

// retireKept makes room in a full pool, so that tasks do not prevent calls of other clients.
// It ends a session that is kept open only for its tasks. If there are several, it ends the session
// whose tasks would be kept for the shortest time. If there is no such session, it returns false.
func (b *broker) retireKept(st *state, p *pool) bool {
	var soonest *session
	for _, s := range p.sessions {
		if s.users == 0 && b.spec.Isolation == PerCall && (soonest == nil || s.keep.Before(soonest.keep)) {
			soonest = s
		}
	}
	if soonest == nil {
		return false
	}
	b.work.Go(func() { b.publishLoss("tasks", "closed a session with tasks, because calls need a session") })
	b.retire(st, soonest)
	return true
}

// makeRoom reports whether the pool may open one more session. If a limit has been reached, it
// ends an idle session first. If the limit is maxPerPrincipal, this is a session of the same
// principal. It uses sooner to choose the session. It never chooses a session that its first call is
// about to take, and no home session with subscribers, except that of a conversation which has it alone and watches no resources. Otherwise
// 64 open windows would leave none to the next one.
func (b *broker) makeRoom(st *state, p *pool) bool {
	all, own := 0, 0
	var idle, ownIdle *session
	var idleIsHome, ownIsHome bool
	for _, q := range st.pools.byKey {
		mine := q.seat == p.seat
		n := len(q.sessions)
		if q.opening != nil {
			n++
		}
		all += n
		if mine {
			own += n
		}
		for i, s := range q.sessions {
			home := i == 0
			if s.users > 0 || s.awaited() || home && len(q.subscribers) > 0 && (q.owner == 0 || q.watches()) {
				continue
			}
			if idle == nil || sooner(s, home, idle, idleIsHome) {
				idle, idleIsHome = s, home
			}
			if mine && (ownIdle == nil || sooner(s, home, ownIdle, ownIsHome)) {
				ownIdle, ownIsHome = s, home
			}
		}
	}
	switch {
	case p.seat != "" && own >= maxPerPrincipal:
		idle = ownIdle
	case all < maxSessions:
		return true
	}
	if idle == nil {
		return false
	}
	b.retire(st, idle)
	return true
}

// sooner reports whether the idle session s should end before the idle session than. Sessions
// without tasks end before sessions with tasks. If this does not decide, exclusive sessions end
// before home sessions. Otherwise, the session that has been idle for longer ends first.
func sooner(s *session, home bool, than *session, thanHome bool) bool {
	if held := s.hasTasks(); held != than.hasTasks() {
		return !held // ending the session would also end its tasks
	}
	if home != thanHome {
		return thanHome
	}
	return s.idle.Before(than.idle)
}

var errIdleSession = errors.New("the session was not used for a while")

var errCallOver = errors.New("the session was opened for one call, and the call has ended")

var errNotNeeded = errors.New("another connection to the server was opened first")

// drop takes a session out of service and ends it. The session's running calls fail with cause.
func (b *broker) drop(s *session, cause error) {
	b.update(func(st *state) {
		st.pools.remove(s)
	})
	s.server.End(cause)
}

// reopenPause is the pause before a server that is kept open, and whose last session was replaced, is
// opened in the background. A call usually opens it sooner.
const reopenPause = time.Second

// replace takes a session out of service that accepts no more calls because of cause. The session ends
// after the calls of others in it, which may still be answered: an HTTP server that has lost a session
// goes on with what it has accepted. holds is how many holds of the session the caller has.
func (b *broker) replace(s *session, holds int, cause error) {
	over := get(b.core, func(st *state) bool {
		if s.server.Err() != nil || pipeEnded(cause) || s.users <= holds {
			st.pools.remove(s)
			return true
		}
		if p, link := s.pool, s.link; !s.outdated {
			b.outdate(st, s, cause)
			b.work.Go(func() { b.hub.restore(p, link) })
			b.healer.healLater(st, reopenPause)
		}
		return false
	})
	if over {
		s.server.End(cause)
	}
}

// outdate takes a session out of service. The session ends with cause after its last
// call.
func (b *broker) outdate(st *state, s *session, cause error) {
	s.outdated, s.outdatedBy = true, cause
	st.pools.remove(s)
	if s.pool != nil {
		s.pool.wake() // callers that wait for an exclusive session choose another session
	}
	if !slices.Contains(st.pools.leaving, s) { // a session of a link that is set aside is there already
		st.pools.leaving = append(st.pools.leaving, s)
	}
	if s.users == 0 {
		b.work.Go(func() { s.shut(b.graceful, cause) })
	}
}

// setAside takes a session out of service until the server reads and answers again; see
// putBack.
func (b *broker) setAside(st *state, s *session) {
	if s.aside {
		return
	}
	s.aside = true
	st.later(s.server.Withdraw)
	switch p := s.pool; {
	case s.current():
		s.link.session = nil
		st.pools.leaving = append(st.pools.leaving, s)
		s.link.stopListen(errStalled) // the next session of the link starts its own listen
	case p != nil:
		p.wake() // callers that wait for an exclusive session choose another session
	}
	if !slices.ContainsFunc(st.pools.all(), func(x *session) bool { return !x.aside && !x.outdated }) {
		st.health.up = false // the next session counts as a restart
	}
}

// putBack puts a session that was set aside back into service, if the server reads and answers
// again. If its link already has another session, the session ends after its last call.
func (b *broker) putBack(st *state, s *session) {
	if !s.aside || s.stuck || !s.unresponsiveSince.IsZero() {
		return
	}
	s.aside = false
	if i := slices.Index(st.pools.leaving, s); i >= 0 && !s.outdated {
		st.pools.leaving = slices.Delete(st.pools.leaving, i, i+1)
		if s.link.session != nil {
			b.outdate(st, s, errNotNeeded)
			return
		}
		s.link.session = s
		b.hub.relistenSoon(st, s.link)
	} else if p := s.pool; p != nil {
		p.wake()
	}
	st.health.up = true
	if st.health.status.State == Broken || st.health.status.State == Idle {
		st.health.setState(Ready, "")
	}
}
