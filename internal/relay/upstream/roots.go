package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// A server that reads a client's roots may work in these folders from then on; the official filesystem
// server does so right after the handshake. Two windows of one editor declare the same capabilities but
// have different roots, so they must not share such a server's session. Most servers never ask, though,
// and a process per window would be a waste. So clients share sessions until a legacy server asks for
// roots the first time. After that, each conversation with roots has a pool of its own, and only its
// roots get there. The pool that exists at that moment becomes the pool of one of its conversations.
//
// Clients of 2026-07-28 over HTTP have no conversation. They answer in the result of a call, and share
// a session without an owner. So do the lists that the catalog keeps for all clients of one kind.

const reasonRoots = "the server asks for roots, so each client that has roots gets a session of its own"

// separatesRoots reports whether conversations with roots get pools of their own once the server has
// asked for roots.
func (c *core) separatesRoots(st *state) bool { return !c.shares(st) && !c.spec.OneClient }

// ownerOf returns the conversation whose own pool serves the client f, or 0 if f shares a pool.
func (b *broker) ownerOf(st *state, f *mcp.ClientInfo) uint64 {
	if f == nil || !st.pools.rooted || f.Conversation == 0 || b.spec.Isolation == Shared || !mcp.DeclaresRoots(f.Capabilities) {
		return 0
	}
	return f.Conversation
}

// keyOf returns the key of an owner's pool. Neither a scope nor a seat is just a number sign and a number,
// so the key is not the base of another pool.
func keyOf(base string, owner uint64) string {
	if owner == 0 {
		return base
	}
	return base + "\x00#" + strconv.FormatUint(owner, 10)
}

// listPool returns a pool whose session can read lists for all clients of the pool p, which has no
// session, and whose key is key. It prefers one that has a session. It returns nil if there is none.
func (r *registry) listPool(p *pool, key string) (found *pool) {
	if !r.rooted || p != nil && len(p.sessions) > 0 {
		return nil
	}
	for _, q := range r.byKey {
		if q.owner == 0 || q.base != key || len(q.sessions) == 0 && len(q.subscribers) == 0 {
			continue
		}
		if open := len(q.sessions) > 0; found == nil || open && len(found.sessions) == 0 ||
			open == (len(found.sessions) > 0) && q.key < found.key {
			found = q
		}
	}
	return found
}

// main reports whether s is the session that a new owner of the pool keeps: the home session, or the
// only one. A session that is about to be put into service counts too.
func (b *broker) main(p *pool, s *session) bool {
	return len(p.sessions) == 0 || p.sessions[0] == s && (b.spec.Isolation != PerCall || len(p.sessions) == 1)
}

// user returns the conversation that a pool without an owner should belong to: the one that last used its
// home session, or has it opened, or else the only one that can be asked.
func (r *registry) user(p *pool) uint64 {
	switch {
	case len(p.sessions) > 0 && p.sessions[0].owner != 0:
		return p.sessions[0].owner
	case len(p.sessions) > 0 && p.sessions[0].opener != 0 && !p.sessions[0].taken:
		return p.sessions[0].opener
	case len(p.sessions) == 0 && p.opening != nil && p.opening.client != nil && p.opening.client.Conversation != 0:
		return p.opening.client.Conversation
	}
	if all := r.askersLike(p); len(all) == 1 {
		return all[0].info.Conversation
	}
	return 0
}

// askersLike returns the subscribers that can be asked, in all pools with the base of p.
func (r *registry) askersLike(p *pool) (all []*Subscriber) {
	for _, q := range r.byKey {
		if q.base != p.base {
			continue
		}
		for _, w := range q.subscribers {
			if w.asker != nil {
				all = append(all, w)
			}
		}
	}
	return all
}

// give makes p the pool of one conversation. It reports whether it could: if the conversation has a
// session in another pool, it stays there, and a pool that nobody needs any more is nobody's.
func (b *broker) give(st *state, p *pool, to uint64) bool {
	if st.pools.byKey[p.key] != p {
		return false // the pool's last session is about to end
	}
	key := keyOf(p.base, to)
	if q := st.pools.byKey[key]; q != nil {
		if len(q.sessions) > 0 || q.opening != nil {
			return false
		}
		for len(q.subscribers) > 0 {
			st.pools.move(q.subscribers[0], p)
		}
		q.wake()
	}
	delete(st.pools.byKey, p.key)
	p.key, p.owner = key, to
	st.pools.byKey[key] = p
	for i, s := range p.sessions {
		// The calls of others that run on exclusive sessions end there.
		if i > 0 && s.owner != to && !b.spentBy(s) && !s.hasTasks() {
			b.outdate(st, s, errOthersRoots)
		}
	}
	st.pools.endForsaken(p) // the conversation may have left before the server asked
	p.wake()
	return true
}

// spentBy reports whether the session ends after its one call, so that s.owner is its only client.
func (b *broker) spentBy(s *session) bool { return b.spec.Isolation == PerCall && s.taken }

// move moves a subscriber to another pool.
func (r *registry) move(w *Subscriber, to *pool) {
	r.leave(w)
	w.pool, w.index = to, len(to.subscribers)
	to.subscribers = append(to.subscribers, w)
}

// separate notes that the server asks for roots. It gives each pool with roots to the conversation that
// uses it, except the pool not, and moves the other conversations to pools of their own. Their calls open
// sessions there.
func (b *broker) separate(st *state, not *pool) {
	if st.pools.rooted {
		return
	}
	st.pools.rooted = true
	st.logEvent(slog.LevelInfo, "server asks for roots", reasonRoots, "effect", "each client that has roots gets a session of its own")
	var shared []*pool
	for _, p := range st.pools.byKey {
		if mcp.DeclaresRoots(p.declared) {
			shared = append(shared, p)
		}
	}
	for _, p := range shared {
		if to := st.pools.user(p); to != 0 && p != not {
			b.give(st, p, to)
		}
	}
	for _, p := range shared {
		for _, w := range append([]*Subscriber(nil), p.subscribers...) {
			q := b.ownPool(st, w.info, p.scope)
			if q == p {
				continue
			}
			first := len(w.want.URIs) > 0 && !q.watches()
			st.pools.move(w, q)
			if first && !st.ops.closed {
				b.work.Go(func() { b.hub.restore(q, nil) })
			}
		}
		p.wake()
	}
}

// inCall decides about a roots/list that a legacy server sends in a call of the conversation c, in the
// session s. c is 0 for a client without a conversation. inCall returns an error if another conversation
// owns the session.
func (b *broker) inCall(s *session, c uint64) (err error) {
	b.update(func(st *state) {
		p := s.pool
		if !b.separatesRoots(st) || s.outdated {
			return
		}
		if b.spentBy(s) || s.over {
			b.separate(st, nil)
			return
		}
		if p.owner == 0 {
			var not *pool
			if b.main(p, s) {
				if s.owner = c; c == 0 {
					not = p
				}
			}
			b.separate(st, not)
			if p.owner == 0 && c != 0 && b.main(p, s) {
				b.give(st, p, c)
			}
		}
		switch {
		case p.owner == c || s.outdated:
		case p.owner == 0 && !s.hasTasks():
			// Clients without a conversation go on to use the pool.
			b.outdate(st, s, errOthersRoots)
		default:
			err = mcp.SeveralAsk
		}
	})
	return err
}

// outsideCalls returns who may answer a roots/list that a server has sent outside calls in the session s,
// which is in p or is about to be put there.
func (b *broker) outsideCalls(st *state, p *pool, s *session) (all []*Subscriber, err error) {
	if s.roots.asked.Store(true); !s.served.Load() {
		st.pools.early = always
	}
	owned, contested := p.owner != 0, s.calls > 1 // if only one call ran, the request would belong to it
	b.separate(st, nil)
	switch {
	case b.spentBy(s):
		return slices.DeleteFunc(st.pools.askersLike(p), func(w *Subscriber) bool { return w.info.Conversation != s.owner }), nil
	case s.outdated && s.owner != p.owner:
		return nil, mcp.SeveralAsk // calls of others end here
	case contested && !owned:
		if !s.outdated && !s.over && !s.hasTasks() {
			b.outdate(st, s, errOthersRoots)
		}
		return nil, mcp.SeveralAsk
	}
	if who := st.pools.user(p); p.owner == 0 && who != 0 && b.main(p, s) {
		b.give(st, p, who)
	}
	if p.owner == 0 && len(st.pools.askersLike(p)) > 0 {
		return nil, mcp.SharedLists
	}
	return p.subscribers, nil // if there are none, askSubscriber waits for a client
}

// rootsCaller is the Caller of a call in a legacy session that declares roots.
type rootsCaller struct {
	mcp.Caller
	b      *broker
	s      *session
	client uint64
}

func (r rootsCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if m.Method == mcp.MethodListRoots {
		if err := r.b.inCall(r.s, r.client); err != nil {
			return nil, err
		}
	}
	return r.Caller.Ask(ctx, m)
}

// callerOf returns the Caller to use for an attempt in the session s, instead of k.
func (b *broker) callerOf(s *session, a *mcp.Attempt, k mcp.Caller) mcp.Caller {
	if f := a.Client; s.pool != nil && f != nil && !b.spec.OneClient &&
		mcp.DeclaresRoots(s.pool.declared) && mcp.DeclaresRoots(f.Capabilities) {
		k = rootsCaller{k, b, s, f.Conversation}
	}
	return s.related(a.Trail, k)
}

// habit is what we know about something that a server may do.
type habit int

const (
	unknown habit = iota
	always
	never
)

// rootsRound is the first question for roots of a session.
type rootsRound struct {
	asked    atomic.Bool
	once     sync.Once
	answered chan struct{} // closed when the server has its answer
}

func newRootsRound() *rootsRound { return &rootsRound{answered: make(chan struct{})} }

func (r *rootsRound) settle() { r.once.Do(func() { close(r.answered) }) }

// rootsPatience is how long a new session waits for the server to ask for roots and get them. rootsGrace is
// how long it then leaves the server to look at the folders, which servers do beside their other work.
const (
	rootsPatience = time.Second
	rootsGrace    = 100 * time.Millisecond
)

// awaitRoots waits until the server has the roots of the client, if it usually asks for them right after
// the handshake. Otherwise a call that opens a process would run before the roots are there, and fail.
// A client that talks to its servers directly opens them long before it calls them.
func (b *broker) awaitRoots(o *opening, s *session) {
	if !get(b.core, func(st *state) bool {
		return st.pools.rooted && st.pools.early != never && o.pool.owner != 0 && b.separatesRoots(st) &&
			s.server.Revision().Legacy() && slices.ContainsFunc(o.pool.subscribers, func(w *Subscriber) bool { return w.asker != nil })
	}) {
		return
	}
	t := time.NewTimer(rootsPatience)
	defer t.Stop()
	select {
	case <-s.roots.answered:
		_ = work.Sleep(o.life, rootsGrace)
	case <-s.server.Gone():
	case <-o.life.Done():
	case <-t.C:
		if !s.roots.asked.Load() {
			b.update(func(st *state) { st.pools.early = never })
		}
	}
}

// forsaken reports whether a home session is of no use to anybody for long: its owner has left, or it has
// only read lists, which the sessions of owners can read too.
func (r *registry) forsaken(s *session) bool {
	p := s.pool
	return p.owner != 0 && len(p.subscribers) == 0 || p.owner == 0 && r.rooted && !s.taken && mcp.DeclaresRoots(p.declared)
}

// endForsaken lets the idle sessions of a pool end soon if its owner has left.
func (r *registry) endForsaken(p *pool) {
	for _, s := range p.sessions {
		if s.reap != nil && p.owner != 0 && len(p.subscribers) == 0 {
			s.reap.Reset(exclusiveIdle)
		}
	}
}

var errOthersRoots = errors.New("the server asks for roots, and the session is that of another client")

// reportRoots adds the reason to the status if clients have sessions of their own because of their roots.
func (r *registry) reportRoots(to *Status) {
	own := 0
	for _, p := range r.byKey {
		if p.owner != 0 && len(p.sessions) > 0 {
			own++
		}
	}
	if own > 1 && to.State == Ready && to.Reason == "" {
		to.Reason = reasonRoots
	}
}
