package upstream

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// link is the connection to a modern server that the clients of one credential scope share. It
// includes the subscriptions of these clients. It belongs to the state.
type link struct {
	scope   string
	who     *mcp.ClientInfo // the client whose credentials Dragoman's own requests use; nil for the scope ""
	session *session        // the session with the server; nil if there is none

	listens

	// Until notBefore, calls in this scope fail with lastErr, because the server has refused the
	// credentials of the scope.
	notBefore time.Time
	lastErr   error
}

// link returns the link of a scope, and creates it if necessary. The link may have no
// session. f is a client of the scope, or nil.
func (r *registry) link(scope string, f *mcp.ClientInfo) *link {
	l := r.links[scope]
	if l == nil {
		r.dropUnusedLinks()
		l = &link{scope: scope}
		if scope != "" && f != nil {
			l.who = &mcp.ClientInfo{Revision: mcp.Latest, Who: f.Who}
		}
		r.links[scope] = l
	}
	return l
}

// listens is what the hub knows of a link.
type listens struct {
	listen      *listening // the newest subscriptions/listen request, or nil
	listenSet   listenSet  // all open subscriptions/listen requests
	relistening bool       // a goroutine is about to send a new subscriptions/listen request
}

// maxUnusedLinks is the number of links at which link begins to remove links without a
// session. A link has no session if the session has ended, or if the server has refused the
// credentials.
const maxUnusedLinks = 256

// dropUnusedLinks removes the links without a session if there are at least maxUnusedLinks
// links. It keeps links with a listen and links in a back-off.
func (r *registry) dropUnusedLinks() {
	if len(r.links) < maxUnusedLinks {
		return
	}
	now := time.Now()
	for scope, l := range r.links {
		if l.session == nil && l.listen == nil && now.After(l.notBefore) {
			delete(r.links, scope)
		}
	}
}

// current reports whether s is the session of its link.
func (s *session) current() bool { return s.link != nil && s.link.session == s }

// openLinks returns the links that have a session, sorted by scope.
func (r *registry) openLinks() []*link {
	var all []*link
	for _, l := range r.links {
		if l.session != nil {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *link) int { return cmp.Compare(a.scope, b.scope) })
	return all
}

// endIdleLink starts the timer that ends the idle session s of a link, and removes the link. Each
// user may have a credential scope, so Dragoman does not keep idle links, except the link of the
// scope "".
func (b *broker) endIdleLink(s *session) {
	l := s.link
	if l.scope == "" || !s.current() {
		return
	}
	s.reap = time.AfterFunc(homeIdle, func() {
		b.update(func(st *state) {
			if st.ops.closed || s.users > 0 || s.reap == nil || !s.current() {
				return
			}
			l.stopListen(errIdleSession)
			delete(st.pools.links, l.scope)
			l.session = nil
			b.work.Go(func() { s.shut(b.graceful, errIdleSession) })
		})
	})
}

// refusedScope handles a failed open in the scope of p. If err says that the server refused
// the credentials of the scope, it starts a back-off for this scope and returns true. The scope "" is one
// like the others if there are Credentials: those who have signed in don't wait for those who haven't.
func (b *broker) refusedScope(st *state, p *pool, f *mcp.ClientInfo, err error) bool {
	var e *handshake.Error
	refused := errors.As(err, &e) && e.Cause == handshake.CauseAuth || errors.Is(err, transport.ErrCredentials)
	if b.spec.Credentials == nil || !refused {
		return false
	}
	l := st.pools.link(p.scope, f)
	l.notBefore, l.lastErr = time.Now().Add(scopePause), err
	return true
}

// scopePause is the back-off after refused credentials.
const scopePause = 5 * time.Second
