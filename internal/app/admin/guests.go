package admin

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// guest returns whose session one of the secrets of a request is, or nil if none is the session of a person.
func (a *Access) guest(given []ticket, now time.Time) *identity.Principal {
	if a.roster == nil {
		return nil
	}
	for _, g := range given {
		if who := a.roster.People().Session(g.secret, now); who != nil {
			return who
		}
	}
	return nil
}

// NameOf returns the name of an invited person, or "" if who is somebody else.
func (a *Access) NameOf(who *identity.Principal) string {
	if a.roster == nil || who == nil {
		return ""
	}
	if name := a.roster.People().Name(who.Subject); name != who.Subject {
		return name
	}
	return ""
}

// Invited returns the person whose invitation has a token, and who invites: the name of a person, or a subject.
// It does not use up the invitation.
func (a *Access) Invited(ctx context.Context, token string) (p store.Person, by string, ok bool) {
	if a.roster == nil {
		return p, "", false
	}
	p, people, ok := a.roster.Invited(ctx, token)
	if ok {
		by = people.Name(p.Open.Actor)
	}
	return p, by, ok
}

// Entered is how a browser goes on that has accepted an invitation.
type Entered struct {
	To       string // where it goes
	Password string // if it can open no name: the password of the session, which begins at To
}

// Accept uses up the invitation with a token, and begins a session of its person. Where cookies are safe, it sets
// one. If not, the browser gets a link to the console's name, or a password if it can't open the name. The
// error is access.ErrNoLink if the invitation can't be used.
func (a *Access) Accept(w http.ResponseWriter, r *http.Request, token string) (Entered, error) {
	if a.roster == nil {
		return Entered{}, access.ErrNoLink
	}
	session, until, err := a.roster.Accept(r.Context(), token, a.arrival(r))
	switch {
	case err != nil:
		return Entered{}, err
	case a.Remote(r), a.AtName(r):
		a.end(r.Context(), a.given(r)) // one that is in memory
		a.setCookie(w, r, session, secondsUntil(until))
		return Entered{To: "/console/"}, nil
	case a.named.Load() && resolvesNames(r.UserAgent()):
		return Entered{To: a.carry(session, until, "http://"+net.JoinHostPort(a.name, portOf(r)))}, nil
	}
	return Entered{To: "http://" + Address(r), Password: session}, nil
}

// secondsUntil returns how long a browser keeps the cookie of a session that ends at a time.
func secondsUntil(end time.Time) int { return max(1, int(time.Until(end)/time.Second)) }

// carry returns a link that opens a session of a person that has begun already, once and within ten minutes.
// Until then, we have the session's secret itself.
func (a *Access) carry(session string, ends time.Time, base string) string {
	token := secret()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.links = added(a.links, ticket{hash: sha256.Sum256([]byte(token)), secret: session, ends: ends}, linkLife, mostLinks)
	return base + "/console/?" + LinkQuery + "=" + token
}

// enterAsGuest sets the cookie of a session that a link carries. It returns false if the link has another purpose.
func (a *Access) enterAsGuest(w http.ResponseWriter, r *http.Request, token string) bool {
	hash, now := sha256.Sum256([]byte(token)), time.Now()
	session, ends := "", now
	a.mu.Lock()
	for i, l := range a.links {
		if l.hash == hash && l.who == nil && now.Before(l.until) {
			session, ends = l.secret, l.ends
			a.links = append(a.links[:i], a.links[i+1:]...)
			break
		}
	}
	a.mu.Unlock()
	if session != "" {
		a.end(r.Context(), a.given(r))
		a.setCookie(w, r, session, secondsUntil(ends))
	}
	return session != ""
}

// leaveAsGuest ends the sessions of people that a request has.
func (a *Access) leaveAsGuest(ctx context.Context, given []ticket) {
	if a.roster == nil {
		return
	}
	for _, g := range given {
		_ = a.roster.Leave(ctx, g.secret) // the cookie goes in any case
	}
}
