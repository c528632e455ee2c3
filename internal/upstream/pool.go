package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// pool holds the sessions that may serve the same clients. Its fields are
// guarded by Upstream.mu.
type pool struct {
	key      string
	seat     string        // whose they are, "" for whoever is nobody in particular
	scope    string        // of the credentials that its sessions use
	declared []byte        // the capabilities that its sessions are opened with
	sessions []*session    // home first
	opening  *opening      // the open that is under way, nil for none
	freed    chan struct{} // closed when a lane may have become free
	standing []*Subscriber
}

// opening is an open that several callers may wait for.
type opening struct {
	done chan struct{} // closed when it is over and err is set
	err  error
}

// maxLanes bounds the sessions of one pool; further calls wait for a free one.
const maxLanes = 16

// keyLocked returns the pool that a client's calls belong to: whose they are, and the
// canonical form of what it declares. A legacy server may start a process for each
// pool, so nothing decides that no server could act on: not white space, the order of
// members, or names that no revision knows. Where a client declares nothing that it
// could be asked for all are alike, the session that nobody has opened yet included.
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

// canon remembers the canonical form of the last few capabilities: those of a client
// are the same in each of its calls.
type canon struct {
	last [4]struct{ raw, canonical string }
	next int
}

// maxRemembered bounds the capabilities that a canon remembers, in bytes each.
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

// newPoolLocked makes the pool for a key; f may be nil.
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

// capabilities returns the capabilities that are declared to a legacy server on behalf
// of f. A session may serve other clients after f, and a capability that a client does
// not have must never be declared on its behalf. So it returns the canonical form,
// which all clients of the pool share. A server for one client alone gets that client's
// own bytes.
func (u *Upstream) capabilities(f *mcp.ClientInfo) []byte {
	switch {
	case f == nil:
		return nil
	case u.spec.OneClient && len(f.Capabilities) > 2 && len(f.Capabilities) <= mcp.MaxOwnCapabilities:
		return bytes.Clone(f.Capabilities)
	}
	return mcp.CanonicalCapabilities(f.Capabilities)
}

// canBeAsked reports whether a client has declared anything that a server may ask
// it for.
func canBeAsked(f *mcp.ClientInfo) bool { return mcp.Askable(f.Capabilities) }

// useModernLocked reports whether a client is served over the link to a modern
// server. A legacy client that can be asked keeps to its own era where the server
// has it too, since questions are live there; for the others there is no
// difference that they could see.
func (u *Upstream) useModernLocked(f *mcp.ClientInfo, scope string) bool {
	if l := u.links[scope]; l == nil || l.session == nil {
		return false
	}
	return f == nil || !f.Revision.Legacy() || u.noLegacy || !canBeAsked(f)
}

// acquire returns a session for a client, opening one when none fits. forCall
// says that a call will run on it: then a lane is chosen such that questions can
// be attributed. The caller must release the lease.
func (u *Upstream) acquire(ctx context.Context, f *mcp.ClientInfo, forCall bool) (*Lease, error) {
	scope := u.scopeOf(f)
	for {
		s, open, freed, err := u.pick(f, scope, forCall)
		if err != nil {
			return nil, err
		}
		if s != nil {
			return u.newLease(s, f, f != nil && forCall && s.pool != nil), nil
		}
		if open != nil {
			freed = open.done
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, u.unavailable(context.Cause(ctx), "cancelled")
		}
		if open != nil && open.err != nil {
			return nil, open.err
		}
	}
}

// pick returns a session, or what to wait for before trying again: an open, or a
// lane that becomes free.
func (u *Upstream) pick(f *mcp.ClientInfo, scope string, forCall bool) (s *session, open *opening, freed <-chan struct{}, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, nil, nil, u.unavailable(errStopped, "removed")
	}
	if u.useModernLocked(f, scope) {
		s := u.links[scope].session
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
		// Our own questions, about its tools say, need no session of their own.
		if q := u.anyLocked(); q != nil {
			p = q
		}
	}
	if p == nil {
		p = u.newPoolLocked(key, f, scope)
	}
	defer u.tidyLocked(p)
	if s := u.chooseLocked(p, f, forCall); s != nil {
		s.users++
		s.taken = true
		u.watchStallLocked(s)
		if s.reap != nil {
			s.reap.Stop()
			s.reap = nil
		}
		if f != nil && forCall {
			s.owner = f.Conversation
			s.calls++
		}
		return s, nil, nil, nil
	}
	if p.opening != nil {
		return nil, p.opening, nil, nil
	}
	if len(p.sessions) >= maxLanes && !u.retireKeptLocked(p) {
		return nil, nil, p.freed, nil
	}
	if !u.roomLocked(p) {
		return nil, nil, nil, &mcp.Error{
			Origin: mcp.FromGateway, Upstream: u.spec.Name, Cause: "overloaded", Outcome: mcp.NotSent, Retryable: true,
			RetryAfter: time.Second, Op: "open " + u.spec.Name,
			Message: fmt.Sprintf("server %q has as many sessions as it may have", u.spec.Name),
		}
	}
	if l := u.links[p.scope]; l != nil && l.lastErr != nil && time.Now().Before(l.notBefore) {
		return nil, nil, nil, l.lastErr
	}
	if wait := time.Until(u.notBefore); wait > 0 && u.lastErr != nil {
		return nil, nil, nil, u.lastErr
	}
	u.openLocked(p, f)
	return nil, p.opening, nil, nil
}

// anyLocked returns a pool of nobody in particular that has a session, nil when
// there is none.
func (u *Upstream) anyLocked() *pool {
	for _, p := range u.pools {
		if p.seat == "" && p.scope == "" && len(p.sessions) > 0 {
			return p
		}
	}
	return nil
}

// chooseLocked returns a session of the pool that may take the call, nil when a
// further one is needed.
func (u *Upstream) chooseLocked(p *pool, f *mcp.ClientInfo, forCall bool) *session {
	if u.spec.Isolation == PerCall {
		for _, s := range p.sessions {
			if !s.taken && !s.stuck {
				return s
			}
		}
		return nil
	}
	i := slices.IndexFunc(p.sessions, (*session).reads)
	if i < 0 {
		return nil
	}
	home := p.sessions[i]
	if !forCall || f == nil || !home.shared || u.spec.Isolation == Shared || !canBeAsked(f) {
		return home
	}
	// On a shared pipe a question belongs to the one client whose calls run there.
	// The home session comes first, since it holds what the server remembers; a
	// client that is a conversation stays with the session of its last call.
	var free *session
	for _, s := range p.sessions[i:] {
		switch {
		case s.stuck:
		case s.calls == 0 && (free == nil || f.Conversation != 0 && s.owner == f.Conversation):
			free = s
		case s.calls > 0 && f.Revision.Legacy() && s.owner == f.Conversation:
			// A legacy client hears questions for the whole of itself. A modern one
			// hears them as the answer to one call, so that call must be alone.
			return s
		}
	}
	return free
}

func (s *session) reads() bool { return !s.stuck }

// release gives back a session that was acquired; called says that it was for a call
// that counts in the session's lane, look that nothing was sent.
func (u *Upstream) release(s *session, called, look bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.users--
	if look && u.spec.Isolation == PerCall {
		s.taken = false // it is the next call's
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
		end, cause = s.users == 0, errEraChanged
	} else if end {
		p.removeLocked(s)
	} else if p != nil && s.users == 0 && s.reap == nil && !u.closed {
		// A session that has ended meanwhile is in its pool no more.
		if i := slices.Index(p.sessions, s); i >= 0 {
			wait := homeIdle
			if i > 0 || u.spec.Isolation == PerCall {
				wait = laneIdle
			}
			if spent {
				wait = kept
			}
			wait = max(wait, kept)
			s.reap = time.AfterFunc(wait, func() { u.reapIdle(s, wait) })
		}
	}
	if end {
		// Under the lock: Close finds the session in its pool, or waits for this.
		u.work.Go(func() { s.shut(u.polite, cause) })
	}
}

// How long sessions are kept that nobody uses: one beside the home session for the
// next call that needs one, and a home session, which holds the server's state,
// for its clients to come back to.
const (
	laneIdle = time.Minute
	homeIdle = 15 * time.Minute
)

// maxSessions bounds the sessions of one server over all pools: pools are keyed by
// what clients say of themselves. Of these one principal may have maxPerPrincipal,
// so that whoever says many different things of itself keeps nobody else out. Where
// nobody has to say who they are there is but one, and only the first bound.
const (
	maxSessions     = 64
	maxPerPrincipal = 24
)

// reapIdle ends a session that has been idle. A home session that somebody stands
// at is looked at again later; a pool without sessions is forgotten.
func (u *Upstream) reapIdle(s *session, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := s.pool
	if u.closed || s.users > 0 || s.reap == nil || p == nil {
		return
	}
	if len(p.standing) > 0 && len(p.sessions) > 0 && p.sessions[0] == s && u.spec.Isolation != PerCall {
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
	u.work.Go(func() { s.shut(u.polite, errIdleSession) })
}

// tidyLocked forgets a pool that nobody needs: its key is what a client says of
// itself, as long as a message.
func (u *Upstream) tidyLocked(p *pool) {
	if len(p.sessions) == 0 && len(p.standing) == 0 && p.opening == nil && u.pools[p.key] == p {
		delete(u.pools, p.key)
	}
}

// retireKeptLocked ends that session of a full pool which is there for its tasks
// alone and has the shortest time to live; false when there is none. Who asks for
// many tasks keeps nobody from calls.
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
	u.work.Go(func() { u.lost("tasks", "a session that held some had to make room for calls") })
	u.retireLocked(soonest)
	return true
}

// roomLocked reports whether the pool may open one more session, and makes room by
// ending an idle one: of the same principal where that one has its share, otherwise
// of anybody. A home session goes only after all lanes, and none that somebody
// stands at; the one that has been idle for longest goes first.
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
			if s.users > 0 || home && len(q.standing) > 0 {
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

// sooner reports whether an idle session is to go before another.
func sooner(s *session, home bool, than *session, thanHome bool) bool {
	if held := s.keep.After(time.Now()); held != than.keep.After(time.Now()) {
		return !held // tasks would end with it
	}
	if home != thanHome {
		return thanHome
	}
	return s.idle.Before(than.idle)
}

var errIdleSession = errors.New("the session was idle")

var errCallOver = errors.New("the call is over and the session was for it alone")

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

// openLocked starts an open for the pool. It goes on when its first caller gives
// up, since others may wait for it too.
func (u *Upstream) openLocked(p *pool, f *mcp.ClientInfo) {
	o := &opening{done: make(chan struct{})}
	p.opening = o
	f = f.Own()
	u.setStateLocked(Starting, "")
	u.work.Go(func() {
		s, err := u.open(u.life, p, f, false)
		if err == nil {
			u.replayLevel(s, p)
		}
		why := ""
		if err != nil {
			why = u.opts.Clean(reasonOf(err))
		}
		u.mu.Lock()
		if err == nil && u.closed {
			err = u.unavailable(errStopped, "removed")
			why = reasonOf(err)
			defer s.shut(u.polite, errStopped)
		}
		failed := u.failures > 0
		if err != nil {
			// It is for those who wait, not for whoever comes later.
			if !u.refusedScopeLocked(p, f, err) {
				u.failedLocked(err, why)
			}
			o.err = err
		} else {
			u.openedLocked(p, f, s)
		}
		p.opening = nil
		u.tidyLocked(p)
		changed := false
		if err == nil && !u.up {
			u.up = true
			u.starts++
			// Who reads its lists for the first time has made it start and reads them now;
			// nothing that was read before can have changed.
			changed = failed || u.starts > 1
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
	u.failures, u.lastErr, u.notBefore = 0, nil, time.Time{}
	s.opened = time.Now()
	s.idle = s.opened
	opened := s.server.Opening()
	u.status.Revision = opened.Revision
	if opened.Remember() && (opened.Revision.Modern() || !s.legacyFirst) {
		u.era = opened.Revision
	}
	u.setStateLocked(Ready, "")
	if slices.ContainsFunc(opened.Findings, func(f handshake.Finding) bool { return f.Code == handshake.FoundSilentProbe }) {
		// It took long, and told nothing; what initialize is refused with still may.
		u.silent = true
	}
	if opened.Revision.Modern() {
		// What a server lists is not what it does: one that was offered initialize
		// first, and is modern all the same, has refused it.
		u.noLegacy = s.legacyFirst || !offersLegacy(opened.Hello.Versions)
		s.pool = nil
		scope := ""
		if p != nil {
			scope = p.scope
		}
		l := u.linkLocked(scope, f)
		l.notBefore, l.lastErr = time.Time{}, nil
		if l.session != nil {
			// Another open was faster; one link is enough.
			u.work.Go(func() { s.shut(u.polite, errSpare) })
			return
		}
		l.session, s.link = s, l
		u.relistenSoonLocked(l)
		return
	}
	s.pool = p
	p.sessions = append(p.sessions, s)
}

var errSpare = errors.New("another connection to the server was opened first")

// offersLegacy reports whether a modern server says that it speaks the old era
// too.
func offersLegacy(versions []string) bool {
	for _, v := range versions {
		if r, ok := mcp.ParseRevision(v); ok && r.Legacy() {
			return true
		}
	}
	return false
}

// failedLocked starts the back-off: 1, 2, 4 … 60 s after failures in a row. why is for
// people, without secrets.
func (u *Upstream) failedLocked(err error, why string) {
	u.failures++
	wait := time.Second << min(u.failures-1, 6)
	u.notBefore = time.Now().Add(min(wait, time.Minute))
	u.lastErr = err
	u.faultLocked(why)
	u.setStateLocked(Broken, why)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		// It is nothing of this server; one line says so for all.
		u.lines = append(u.lines, logLine{slog.LevelWarn, "file descriptors have run out: servers cannot be started or dialled until some are closed; raise the limit (ulimit -n)", nil})
		return
	}
	u.sayLocked(slog.LevelWarn, "server could not be opened", "cause", why, "tried again after", min(wait, time.Minute).String())
}

// drop takes a session out of service; its calls fail by themselves.
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

// unavailable is the error of a call that found no session.
func (u *Upstream) unavailable(cause error, word string) *mcp.Error {
	return &mcp.Error{
		Origin: mcp.FromGateway, Upstream: u.spec.Name, Outcome: mcp.NotSent, Cause: word,
		Message: fmt.Sprintf("server %q is not available", u.spec.Name), Retryable: word != "removed",
		Op: "open " + u.spec.Name, Err: cause,
	}
}
