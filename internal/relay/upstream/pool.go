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
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

// pool contains the sessions that may serve the same clients. Upstream.mu guards it.
type pool struct {
	key         string
	seat        string        // the seat of the principal; "" for anonymous clients
	scope       string        // credential scope of the pool's sessions
	declared    []byte        // capabilities that the pool's sessions declare
	sessions    []*session    // the home session, followed by the exclusive sessions; see chooseLocked
	opening     *opening      // the open that is running, or nil
	freed       chan struct{} // closed when a session may be free for another call
	subscribers []*Subscriber
}

// opening is one attempt to open a session. Several callers may wait for it.
type opening struct {
	done chan struct{} // closed when err is set
	err  error
	turn *ticket // the place in the queue of starts
}

// maxSessionsPerPool bounds the sessions of one pool. If the pool is full, calls wait for a free
// session.
const maxSessionsPerPool = 16

// keyLocked returns the key of the pool for a client's calls. The key consists of the credential
// scope, the seat, and the canonical form of the capabilities. Each pool of a legacy server may
// need a process, so the key ignores differences that do not affect a server: white space, the
// order of members, and unknown names. Anonymous clients that cannot get server requests share the
// key "" with Dragoman's own calls, unless they have credentials of their own.
func (u *Upstream) keyLocked(f *mcp.ClientInfo, scope string) string {
	if f == nil {
		return ""
	}
	key := ""
	if u.spec.Isolation != Shared {
		key = u.canon.of(f.Capabilities)
		if seat := f.Who.SeatKey(); seat != "" {
			key = seat + "\x00" + key
		}
	}
	if scope != "" {
		return scope + "\x00" + key
	}
	return key
}

// canon caches the canonical forms of a few capabilities objects, because a client sends the same
// capabilities with each call.
type canon struct {
	last [4]struct{ raw, canonical string }
	next int
}

// maxRemembered is the maximum length in bytes of a capabilities object that a canon caches.
const maxRemembered = 2 << 10

func (c *canon) of(caps []byte) string {
	if len(caps) <= 2 {
		return ""
	}
	for i := range c.last {
		if c.last[i].raw == string(caps) {
			return c.last[i].canonical
		}
	}
	canonical := string(mcp.CanonicalCapabilities(caps))
	if len(caps) <= maxRemembered {
		c.last[c.next].raw, c.last[c.next].canonical = string(caps), canonical
		c.next = (c.next + 1) % len(c.last)
	}
	return canonical
}

// newPoolLocked creates the pool for a key. f may be nil.
func (u *Upstream) newPoolLocked(key string, f *mcp.ClientInfo, scope string) *pool {
	p := &pool{key: key, freed: make(chan struct{})}
	if f != nil {
		p.declared = u.capabilities(f)
		p.scope = scope
		if u.spec.Isolation != Shared {
			p.seat = f.Who.SeatKey()
		}
	}
	u.pools[key] = p
	return p
}

// capabilities returns the capabilities to declare to a legacy server on behalf of f. The session
// may serve other clients later, and must not declare a capability that these clients lack. So
// capabilities returns the canonical form, which all clients of the pool share. If Spec.OneClient
// is set, there are no other clients, so the result is the client's own bytes.
func (u *Upstream) capabilities(f *mcp.ClientInfo) []byte {
	switch {
	case f == nil:
		return nil
	case u.spec.OneClient && len(f.Capabilities) > 2 && len(f.Capabilities) <= mcp.MaxOwnCapabilities:
		return bytes.Clone(f.Capabilities)
	}
	return mcp.CanonicalCapabilities(f.Capabilities)
}

// canBeAsked reports whether a client has declared a capability for server requests.
func canBeAsked(f *mcp.ClientInfo) bool { return mcp.Askable(f.Capabilities) }

// useModernLocked reports whether the calls of a client use the link to a modern server. If the
// client is a legacy client that can be asked, and the server also supports the legacy era, a
// legacy session is better: there, the server can send requests during a call. For other clients,
// the era makes no visible difference.
func (u *Upstream) useModernLocked(f *mcp.ClientInfo, scope string) bool {
	if l := u.links[scope]; l == nil || l.session == nil {
		return false
	}
	return f == nil || !f.Revision.Legacy() || u.noLegacy || !canBeAsked(f)
}

// acquire returns a lease on a session for a client, and opens a session if necessary. If
// need.ForCall is set, acquire chooses a session on which Dragoman can attribute server requests to
// the call. acquire ignores need.Session. The caller must release the lease.
func (u *Upstream) acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (*Lease, error) {
	scope := u.Scope(f)
	for {
		s, open, freed, err := u.pick(ctx, f, scope, need)
		if err != nil {
			return nil, err
		}
		if s != nil {
			return u.newLease(s, f, f != nil && need.ForCall && s.pool != nil), nil
		}
		if open != nil {
			freed = open.done
		}
		select {
		case <-freed:
		case <-ctx.Done():
			if open != nil {
				u.opts.Starts.forsake(open.turn, waiterOf(ctx, f, need))
			}
			return nil, u.gaveUp(context.Cause(ctx), open != nil)
		}
		if open != nil && open.err != nil {
			return nil, open.err
		}
	}
}

// pick returns a session. If no session is available yet, it returns what the caller must wait for:
// the result of an open, or a channel that is closed when the caller must try again. It uses ctx
// only to find the purpose of an open, and who waits for it.
func (u *Upstream) pick(ctx context.Context, f *mcp.ClientInfo, scope string, need mcp.Need) (s *session, open *opening, freed <-chan struct{}, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, nil, nil, u.unavailable(errStopped, "removed")
	}
	if u.spec.Unusable != nil {
		return nil, nil, nil, u.lastErr
	}
	if u.stopped {
		return nil, nil, nil, u.unavailable(conn.ErrStopped, "stopped")
	}
	if u.operating != nil {
		return nil, nil, u.operating, nil
	}
	if u.useModernLocked(f, scope) {
		s := u.links[scope].session
		if err := u.hungLocked(s, nil); err != nil {
			return nil, nil, nil, err
		}
		s.users++
		if s.reap != nil {
			s.reap.Stop()
			s.reap = nil
		}
		u.watchStallLocked(s)
		return s, nil, nil, nil
	}
	key := u.keyLocked(f, scope)
	p := u.pools[key]
	if f == nil && (p == nil || len(p.sessions) == 0) {
		// Dragoman's own requests, such as those for the tool list, can use the sessions of any
		// anonymous pool.
		if q := u.anyLocked(); q != nil {
			p = q
		}
	}
	if q := u.soloPoolLocked(p, f, scope); q != nil {
		p = q
	}
	if p == nil {
		p = u.newPoolLocked(key, f, scope)
	}
	defer u.tidyLocked(p)
	if s := u.chooseLocked(p, f, need.ForCall); s != nil {
		if err := u.hungLocked(s, p); err != nil {
			return nil, nil, nil, err
		}
		s.users++
		s.taken = s.taken || need.ForCall
		u.watchStallLocked(s)
		if s.reap != nil {
			s.reap.Stop()
			s.reap = nil
		}
		if f != nil && need.ForCall {
			s.owner = f.Conversation
			s.calls++
		}
		return s, nil, nil, nil
	}
	if p.opening != nil {
		u.opts.Starts.hurry(p.opening.turn, waiterOf(ctx, f, need))
		return nil, p.opening, nil, nil
	}
	if err := u.hungLocked(nil, p); err != nil {
		return nil, nil, nil, err
	}
	if len(p.sessions) >= maxSessionsPerPool && !u.retireKeptLocked(p) {
		return nil, nil, p.freed, nil
	}
	if !u.roomLocked(p) {
		return nil, nil, nil, &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.spec.Name, Cause: "overloaded", Outcome: mcp.NotSent, Retryable: true,
			RetryAfter: time.Second, Op: "open " + u.spec.Name,
			Message: fmt.Sprintf("server %q cannot open more sessions: the limit is reached", u.spec.Name),
		}
	}
	if l := u.links[p.scope]; l != nil && l.lastErr != nil && time.Now().Before(l.notBefore) {
		return nil, nil, nil, l.lastErr
	}
	if wait := time.Until(u.notBefore); wait > 0 && u.lastErr != nil {
		return nil, nil, nil, u.lastErr
	}
	u.openLocked(p, f, purposeOf(ctx, need))
	u.opts.Starts.hurry(p.opening.turn, waiterOf(ctx, f, need))
	return nil, p.opening, nil, nil
}

// anyLocked returns a pool that is anonymous, uses no client credentials, and has a session. It
// returns nil if there is no such pool.
func (u *Upstream) anyLocked() *pool {
	for _, p := range u.pools {
		if p.seat == "" && p.scope == "" && len(p.sessions) > 0 {
			return p
		}
	}
	return nil
}

// chooseLocked returns a session of the pool that may take a call of the client f. It returns nil
// if none of the sessions may take the call.
func (u *Upstream) chooseLocked(p *pool, f *mcp.ClientInfo, forCall bool) *session {
	if u.spec.Isolation == PerCall {
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
	if !forCall || f == nil || !home.shared || u.sharesLocked() || !canBeAsked(f) {
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

// inService reports whether new calls may use the session. The caller must hold Upstream.mu.
func (s *session) inService() bool { return !s.aside }

// release gives back an acquired session. The parameter called says whether the lease was counted
// in s.calls. The parameter unused says that no call was sent.
func (u *Upstream) release(s *session, called, unused bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.users--
	if unused && called && u.spec.Isolation == PerCall {
		s.taken = false // the next call may use the session
	}
	if called {
		s.calls--
	}
	if s.users == 0 {
		s.idle = time.Now()
	}
	p := s.pool
	if p != nil && s.calls == 0 {
		close(p.freed)
		p.freed = make(chan struct{})
	}
	u.endIdleLinkLocked(s)
	kept := time.Until(s.keep)
	spent := u.spec.Isolation == PerCall && s.taken
	end := spent && s.users == 0 && p != nil && kept <= 0
	cause := errCallOver
	if s.outdated {
		end, cause = s.users == 0, s.outdatedBy
	} else if end {
		p.removeLocked(s)
	} else if p != nil && s.users == 0 && s.reap == nil && !u.closed {
		// If the session has ended, it is no longer in p.sessions.
		if i := slices.Index(p.sessions, s); i >= 0 {
			wait := homeIdle
			if i > 0 || u.spec.Isolation == PerCall {
				wait = exclusiveIdle
			}
			if spent {
				wait = kept
			}
			wait = max(wait, kept)
			s.reap = time.AfterFunc(wait, func() { u.reapIdle(s, wait) })
		}
	}
	if end {
		// Start this goroutine under mu, so that Close either finds the session in its pool or
		// waits for this goroutine.
		u.work.Go(func() { s.shut(u.graceful, cause) })
	}
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
func (u *Upstream) reapIdle(s *session, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := s.pool
	if u.closed || s.users > 0 || s.reap == nil || p == nil {
		return
	}
	if len(p.subscribers) > 0 && len(p.sessions) > 0 && p.sessions[0] == s && u.spec.Isolation != PerCall {
		s.reap.Reset(wait)
		return
	}
	if kept := time.Until(s.keep); kept > 0 {
		s.reap.Reset(kept)
		return
	}
	u.retireLocked(s)
}

func (u *Upstream) retireLocked(s *session) {
	p := s.pool
	p.removeLocked(s)
	if s.reap != nil {
		s.reap.Stop()
		s.reap = nil
	}
	u.tidyLocked(p)
	u.work.Go(func() { s.shut(u.graceful, errIdleSession) })
}

// tidyLocked removes a pool that is no longer needed. A pool may use much memory, because its key
// can be as long as a message.
func (u *Upstream) tidyLocked(p *pool) {
	if len(p.sessions) == 0 && len(p.subscribers) == 0 && p.opening == nil && u.pools[p.key] == p {
		delete(u.pools, p.key)
	}
}

// retireKeptLocked makes room in a full pool, so that tasks do not prevent calls of other clients.
// It ends a session that is kept open only for its tasks. If there are several, it ends the session
// whose tasks would be kept for the shortest time. If there is no such session, it returns false.
func (u *Upstream) retireKeptLocked(p *pool) bool {
	var soonest *session
	for _, s := range p.sessions {
		if s.users == 0 && u.spec.Isolation == PerCall && (soonest == nil || s.keep.Before(soonest.keep)) {
			soonest = s
		}
	}
	if soonest == nil {
		return false
	}
	u.work.Go(func() { u.publishLoss("tasks", "closed a session with tasks, because calls need a session") })
	u.retireLocked(soonest)
	return true
}

// roomLocked reports whether the pool may open one more session. If a limit has been reached, it
// ends an idle session to make room. If the limit is maxPerPrincipal, this is a session of the same
// principal. It uses sooner to choose the session, and never chooses a home session with
// subscribers.
func (u *Upstream) roomLocked(p *pool) bool {
	all, own := 0, 0
	var idle, ownIdle *session
	var idleIsHome, ownIsHome bool
	for _, q := range u.pools {
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
			if s.users > 0 || home && len(q.subscribers) > 0 {
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
	u.retireLocked(idle)
	return true
}

// sooner reports whether the idle session s should end before the idle session than. Sessions
// without tasks end before sessions with tasks. If this does not decide, exclusive sessions end
// before home sessions. Otherwise, the session that has been idle for longer ends first.
func sooner(s *session, home bool, than *session, thanHome bool) bool {
	if held := s.keep.After(time.Now()); held != than.keep.After(time.Now()) {
		return !held // ending the session would also end its tasks
	}
	if home != thanHome {
		return thanHome
	}
	return s.idle.Before(than.idle)
}

var errIdleSession = errors.New("the session was not used for a while")

var errCallOver = errors.New("the session was opened for one call, and the call has ended")

func (p *pool) removeLocked(s *session) {
	if s.reap != nil {
		s.reap.Stop()
		s.reap = nil
	}
	for i, x := range p.sessions {
		if x == s {
			p.sessions = append(p.sessions[:i:i], p.sessions[i+1:]...)
			break
		}
	}
}

// openingLocked reports whether an open is in progress.
func (u *Upstream) openingLocked() bool {
	for _, p := range u.pools {
		if p.opening != nil {
			return true
		}
	}
	return false
}

// openLocked starts to open a session for the pool. The open continues if its first caller gives
// up, because other callers may also wait for it. The log shows the purpose of the first caller.
func (u *Upstream) openLocked(p *pool, f *mcp.ClientInfo, purpose string) {
	o := &opening{done: make(chan struct{}), turn: newTicket(u.hung)}
	alone := !u.openingLocked()
	p.opening = o
	f = f.Own()
	if u.status.State != Broken && !u.hasSessionLocked() {
		// If the server already has a session, its state does not change.
		u.setStateLocked(Starting, "")
	}
	began := time.Now()
	if !u.hasSessionLocked() {
		u.awayLocked()
		if alone {
			u.tries++
		}
	}
	u.nextTry = time.Time{}
	life, operation := u.opens, u.operation
	u.work.Go(func() {
		var s *session
		leave, err := u.awaitStart(life, o.turn)
		starting := time.Now()
		if err == nil {
			s, err = u.open(life, p, f, purpose)
			leave()
		}
		hung := err != nil && time.Since(starting) >= briefHold
		if err == nil {
			u.replayLevel(s, p)
		}
		var why *failure.Failure
		if err != nil {
			why = u.failureOf(err)
		}
		u.mu.Lock()
		if err == nil && s.over {
			u.mu.Unlock()
			err = u.endedAtOnce(s)
			why = u.failureOf(err)
			u.mu.Lock()
		}
		if err == nil && u.closed {
			err, why = u.unavailable(errStopped, "removed"), u.removed
			defer s.shut(u.graceful, errStopped)
		}
		if u.operation != operation && !u.closed {
			u.supersededLocked(p, o, s, err)
			u.mu.Unlock()
			close(o.done)
			return
		}
		failed := u.backoff.Failures() > 0
		u.hung = hung
		if err != nil {
			// Callers that wait for this open get o.err. For later callers, failedLocked or
			// refusedScopeLocked stores an error.
			o.err = err
			switch {
			case u.goSoloLocked(p, err, why):
				o.err = nil // the callers share the session that the server has
			case !u.refusedScopeLocked(p, f, err):
				u.failedLocked(err, why)
			case u.backoff.Failures() > 0 && !u.hasSessionLocked():
				u.healLaterLocked(max(time.Until(u.notBefore), 0))
			}
		} else {
			u.openedLocked(p, f, s)
		}
		p.opening = nil
		u.tidyLocked(p)
		changed := false
		if err == nil && !u.up {
			u.up = true
			u.starts++
			// Clients that read the lists caused the first start, and read the lists now. So no
			// list is out of date after a first start, unless the start was slow or an earlier
			// attempt failed.
			changed = failed || u.starts > 1 || time.Since(began) > readersWait
		}
		lines := u.takeLinesLocked()
		u.mu.Unlock()
		if changed && u.opts.Changed != nil {
			u.opts.Changed("")
		}
		close(o.done)
		u.write(lines)
	})
}

func (u *Upstream) openedLocked(p *pool, f *mcp.ClientInfo, s *session) {
	u.readyLocked(s)
	s.opened = time.Now()
	s.idle = s.opened
	u.startPingsLocked(s)
	u.checkInAMinuteLocked(s)
	opened := s.server.Opening()
	u.status.Revision = opened.Revision
	if opened.Remember() && (opened.Revision.Modern() || !s.legacyFirst) {
		u.era = opened.Revision
	}
	u.setStateLocked(Ready, "")
	if slices.ContainsFunc(opened.Findings, func(f handshake.Finding) bool { return f.Code == handshake.FoundSilentProbe }) {
		// The server did not answer the probe in time. The next handshake begins with initialize.
		// An error response to initialize may still show the era of the server.
		u.silent = true
	}
	if opened.Revision.Modern() {
		// If the handshake began with initialize, the server has refused initialize. Then it does
		// not support the legacy era, even if it lists a legacy version.
		u.noLegacy = s.legacyFirst || !offersLegacy(opened.Hello.Versions)
		s.pool = nil
		scope := ""
		if p != nil {
			scope = p.scope
		}
		l := u.linkLocked(scope, f)
		l.notBefore, l.lastErr = time.Time{}, nil
		if l.session != nil {
			// Another open was faster. One link is enough.
			u.work.Go(func() { s.shut(u.graceful, errNotNeeded) })
			return
		}
		l.session, s.link = s, l
		u.relistenSoonLocked(l)
		return
	}
	s.pool = p
	p.sessions = append(p.sessions, s)
}

var errNotNeeded = errors.New("another connection to the server was opened first")

// offersLegacy reports whether a modern server lists a legacy version.
func offersLegacy(versions []string) bool {
	for _, v := range versions {
		if r, ok := mcp.ParseRevision(v); ok && r.Legacy() {
			return true
		}
	}
	return false
}

// drop takes a session out of service and ends it. The session's running calls fail with cause.
func (u *Upstream) drop(s *session, cause error) {
	u.mu.Lock()
	s.leaveLink()
	if s.pool != nil {
		s.pool.removeLocked(s)
		u.tidyLocked(s.pool)
	}
	u.mu.Unlock()
	s.server.End(cause)
}
