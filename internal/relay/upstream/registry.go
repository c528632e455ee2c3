package upstream

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// registry is the state of the broker: all sessions of the server.
type registry struct {
	byKey   map[string]*pool // the pools of a legacy server; broker.key returns the keys
	links   map[string]*link // the links to a modern server, by credential scope
	leaving []*session       // sessions that are out of service and in no pool, but have not ended yet
	solo    bool             // the server can only run once; see goSolo
	rooted  bool             // the server has asked for roots; see roots.go
	early   habit            // whether the server asks for roots right after the handshake
	canon   canon
	touched []*pool // pools that may have become empty since the last settle
}

// pool contains the sessions that may serve the same clients. It belongs to the state.
type pool struct {
	key         string
	base        string        // the key without the owner
	owner       uint64        // the only conversation that the pool serves, because of its roots; 0 for all with its key
	seat        string        // the seat of the principal; "" for anonymous clients
	scope       string        // credential scope of the pool's sessions
	declared    []byte        // capabilities that the pool's sessions declare
	sessions    []*session    // the home session, followed by the exclusive sessions; see broker.choose
	opening     *opening      // the open that is running, or nil
	freed       chan struct{} // closed when a session may be free for another call
	subscribers []*Subscriber
}

// all returns all sessions.
func (r *registry) all() []*session {
	var all []*session
	for _, l := range r.openLinks() {
		all = append(all, l.session)
	}
	for _, p := range r.byKey {
		all = append(all, p.sessions...)
	}
	return append(all, r.leaving...)
}

// hasSession reports whether a link or a pool has a session. In a pool, it may be set aside.
func (r *registry) hasSession() bool {
	if len(r.openLinks()) > 0 {
		return true
	}
	for _, p := range r.byKey {
		if len(p.sessions) > 0 {
			return true
		}
	}
	return false
}

// opening reports whether an open is in progress.
func (r *registry) opening() bool {
	for _, p := range r.byKey {
		if p.opening != nil {
			return true
		}
	}
	return false
}

// anonymous returns a pool that is anonymous, uses no client credentials, and has a session. It
// returns nil if there is no such pool.
func (r *registry) anonymous() *pool {
	for _, p := range r.byKey {
		if p.seat == "" && p.scope == "" && len(p.sessions) > 0 {
			return p
		}
	}
	return nil
}

// remove takes a session out of its pool or link. settle then removes the pool, if nobody needs it.
func (r *registry) remove(s *session) {
	s.stopReap()
	if s.current() {
		s.link.session = nil
	}
	if p := s.pool; p != nil {
		p.sessions = slices.DeleteFunc(slices.Clone(p.sessions), func(x *session) bool { return x == s })
		r.touched = append(r.touched, p)
	}
}

// settle removes the touched pools that are no longer needed, and returns their keys. A pool may use much memory,
// because its key can be as long as a message.
func (r *registry) settle() (removed []string) {
	for _, p := range r.touched {
		if len(p.sessions) == 0 && len(p.subscribers) == 0 && p.opening == nil && r.byKey[p.key] == p {
			delete(r.byKey, p.key)
			removed = append(removed, p.key)
		}
	}
	r.touched = nil
	return removed
}

// wake lets the callers that wait for a session of the pool choose again.
func (p *pool) wake() {
	close(p.freed)
	p.freed = make(chan struct{})
}

// leave removes a subscriber from its pool. It may change the order of the other subscribers.
func (r *registry) leave(w *Subscriber) {
	p := w.pool
	r.touched = append(r.touched, p)
	last := len(p.subscribers) - 1
	if w.index > last || p.subscribers[w.index] != w {
		return
	}
	p.subscribers[w.index] = p.subscribers[last]
	p.subscribers[w.index].index = w.index
	p.subscribers[last] = nil
	p.subscribers = p.subscribers[:last]
}

// watches reports whether any subscriber of the pool watches a resource.
func (p *pool) watches() bool {
	return slices.ContainsFunc(p.subscribers, func(w *Subscriber) bool { return len(w.want.URIs) > 0 })
}

// watched reports whether any subscriber of the pool watches a resource.
func (p *pool) watched(uri string) bool {
	for _, w := range p.subscribers {
		if w.want.URIs[uri] {
			return true
		}
	}
	return false
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

// hasLink reports whether there is a connection in the modern era. A server of both eras may also have
// legacy sessions, for clients that it can ask; what it speaks must not depend on which of them came last.
func (r *registry) hasLink() bool {
	for _, l := range r.links {
		if l.session != nil {
			return true
		}
	}
	return false
}
