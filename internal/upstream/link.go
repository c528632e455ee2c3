package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Credentials say with what the requests of a principal to one server are signed. They are
// safe for concurrent use, and for servers over HTTP only.
type Credentials interface {
	// Scope returns the key of what a principal's requests share: sessions, subscriptions
	// and lists are never shared between two scopes. "" is what all share who have no
	// credentials of their own. It is called several times for each call.
	Scope(p *identity.Principal) string
	// Headers returns the headers of one request in a scope, which replace the configured
	// ones of the same name. It is called for each HTTP request and may block, as long as
	// ctx. An error says that the request is not sent.
	Headers(ctx context.Context, scope string) ([]transport.HeaderField, error)
}

// link is the one conversation with a modern server that all clients of a credential scope
// share, with its subscriptions. Upstream.mu guards it.
type link struct {
	scope   string
	who     *mcp.ClientInfo // stands for the scope in requests of our own; nil for ""
	session *session        // nil while there is none

	listen      *listening // the newest
	hearing     hearing    // all that are open
	relistening bool       // a goroutine is about to bring listen in line

	// The back-off of credentials that the server refuses: others are not held up.
	notBefore time.Time
	lastErr   error
}

// scopeOf returns the credential scope of a client, "" for nobody in particular.
func (u *Upstream) scopeOf(f *mcp.ClientInfo) string {
	if u.spec.Credentials == nil || f == nil || u.spec.piped() {
		return ""
	}
	return u.spec.Credentials.Scope(f.Who)
}

// linkLocked returns the link of a scope, which may have no session; f is a client of it.
func (u *Upstream) linkLocked(scope string, f *mcp.ClientInfo) *link {
	l := u.links[scope]
	if l == nil {
		u.dropUnusedLinksLocked()
		l = &link{scope: scope}
		if scope != "" && f != nil {
			l.who = &mcp.ClientInfo{Revision: mcp.Latest, Who: f.Who}
		}
		u.links[scope] = l
	}
	return l
}

// maxUnusedLinks bounds the links without a session: of scopes that were refused, or that
// nobody has used for a while.
const maxUnusedLinks = 256

// dropUnusedLinksLocked makes room for a further link: those go that hold nothing.
func (u *Upstream) dropUnusedLinksLocked() {
	if len(u.links) < maxUnusedLinks {
		return
	}
	now := time.Now()
	for scope, l := range u.links {
		if l.session == nil && l.listen == nil && now.After(l.notBefore) {
			delete(u.links, scope)
		}
	}
}

// current reports whether a session is the one of its link. Upstream.mu is held.
func (s *session) current() bool { return s.link != nil && s.link.session == s }

// leaveLink takes a session out of its link. Upstream.mu is held.
func (s *session) leaveLink() {
	if s.current() {
		s.link.session = nil
	}
}

// linksLocked returns the links that have a session, in the order of their scopes.
func (u *Upstream) linksLocked() []*link {
	var all []*link
	for _, l := range u.links {
		if l.session != nil {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *link) int {
		if a.scope < b.scope {
			return -1
		}
		return 1
	})
	return all
}

// endIdleLinkLocked ends the link of a scope that nobody has used for a while: there may
// be as many scopes as people.
func (u *Upstream) endIdleLinkLocked(s *session) {
	l := s.link
	if l == nil || l.scope == "" || s.users > 0 || s.reap != nil || u.closed || !s.current() {
		return
	}
	s.reap = time.AfterFunc(homeIdle, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.closed || s.users > 0 || s.reap == nil || !s.current() {
			return
		}
		u.stopListenLocked(l, errIdleSession)
		delete(u.links, l.scope)
		l.session = nil
		u.work.Go(func() { s.shut(u.polite, errIdleSession) })
	})
}

// refusedScopeLocked keeps a scope whose credentials the server refuses from trying again
// at once, and reports whether err says so. The server itself is not at fault, and the
// other scopes are not held up.
func (u *Upstream) refusedScopeLocked(p *pool, f *mcp.ClientInfo, err error) bool {
	var e *handshake.Error
	refused := errors.As(err, &e) && e.Cause == handshake.CauseAuth || errors.Is(err, transport.ErrCredentials)
	if p.scope == "" || !refused {
		return false
	}
	l := u.linkLocked(p.scope, f)
	l.notBefore, l.lastErr = time.Now().Add(scopePause), err
	if u.status.State == Starting {
		u.setStateLocked(Idle, "")
		if len(u.sessionsLocked()) > 0 {
			u.setStateLocked(Ready, "")
		}
	}
	return true
}

// scopePause is how long credentials that were refused are not tried again.
const scopePause = 5 * time.Second
