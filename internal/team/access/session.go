package access

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// The ways in which a session of a person began.
const (
	ByInvitation = "invitation"
	ByLink       = "link" // one that the person has made in another browser
	ByProvider   = "provider"
)

// Arrival is where a session begins.
type Arrival struct {
	Browser, Address string   // see store.Session
	Before           []string // the sessions that the browser has had until now, by their ids; they end
}

// arrive adds to a new session what is known of its browser, whose former sessions end.
func (r *Roster) arrive(t *store.Tx, s *store.Session, at *Arrival) error {
	s.Browser, s.Address = at.Browser, at.Address
	now := r.People()
	for _, id := range at.Before {
		if g := now.seats[seatOfSession(id)]; g != nil {
			if _, err := t.EndSession(g.Person, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// seatOfSession returns the seat of the session with an id.
func seatOfSession(id string) string { return "s:" + id }

// Accept uses up the invitation with a token, and begins a session of its person. session is the only copy
// of the session's secret, and until is when the session ends. If the invitation can't be used, the error is ErrNoLink.
func (r *Roster) Accept(ctx context.Context, token string, at Arrival) (session string, until time.Time, err error) {
	x, p, ok := r.Invited(ctx, token)
	if !ok {
		return "", until, ErrNoLink
	}
	secret := NewSecret()
	sum := p.macs.sessions.Sum(&secret)
	s := store.Session{ID: NewID().String(), Sum: sum[:], Person: x.ID, Until: after(SessionLife), Way: ByInvitation}
	if Own(&x) {
		s.Way = ByLink
	}
	if !x.Open.Ends.IsZero() {
		s.Until = x.Open.Ends
	}
	s.Sum = append(s.Sum, p.macs.ofSession(&s)...)
	err = r.change(ctx, store.PersonSubject+x.ID, func(t *store.Tx) (bool, error) {
		if err := r.arrive(t, &s, &at); err != nil {
			return true, err
		}
		ok, err := t.Accept(x.Open.Sum, s)
		if err == nil && !ok {
			err = ErrNoLink
		}
		return ok, err
	})
	if err != nil {
		return "", until, err
	}
	return secret.text(), s.Until, nil
}

// Own reports whether the person themselves has made the open invitation.
func Own(x *store.Person) bool { return x.Open.Actor == store.PersonSubject+x.ID }

// OwnLink makes an invitation for another browser of the person whose session who is. It can be used for OwnLinkLife,
// and what it opens ends no later than this session. It replaces an invitation that is still open. The error is
// ErrNoPerson if who is no session of a person.
func (r *Roster) OwnLink(ctx context.Context, who *identity.Principal) (token string, until time.Time, err error) {
	g := r.People().of(who)
	if g == nil {
		return "", until, ErrNoPerson
	}
	until = after(OwnLinkLife)
	if g.Until.Before(until) {
		until = g.Until
	}
	x := store.Invitation{Until: until, Ends: g.Until}
	token, err = r.open(ctx, who.Subject, g.Person, x, func(*store.Tx, *peopleMACs) (bool, error) { return true, nil })
	return token, until, err
}

// Leave ends the session with a secret, if there is one.
func (r *Roster) Leave(ctx context.Context, secret string) error {
	if who := r.People().Session(secret, time.Now()); who != nil {
		return r.endSession(ctx, who.Subject, r.People().of(who))
	}
	return nil
}

// End ends a session of the person whose session who is, and reports whether there was one.
func (r *Roster) End(ctx context.Context, who *identity.Principal, id string) (bool, error) {
	if who == nil {
		return false, nil
	}
	return r.EndOf(ctx, who.Subject, strings.TrimPrefix(who.Subject, store.PersonSubject), id)
}

// EndOf ends a session of the person with an id, on behalf of actor, and reports whether there was one.
func (r *Roster) EndOf(ctx context.Context, actor, person, id string) (bool, error) {
	g := r.People().seats[seatOfSession(id)]
	if g == nil || g.Person != person {
		return false, nil
	}
	return true, r.endSession(ctx, actor, g)
}

func (r *Roster) endSession(ctx context.Context, actor string, g *guest) error {
	if g == nil {
		return nil
	}
	err := r.change(ctx, actor, func(t *store.Tx) (bool, error) { return t.EndSession(g.Person, g.ID) })
	if errors.Is(err, ErrNoPerson) { // it has just ended
		return nil
	}
	return err
}

// seeEvery is how often we note that a session is used.
const seeEvery = 10 * time.Minute

// See notes that a session is used now, from an address. Only one call in ten minutes takes time, at most two seconds.
// If the note can't be made, the session stays as it is.
func (r *Roster) See(ctx context.Context, who *identity.Principal, address string) {
	g, now := r.People().of(who), time.Now()
	if g == nil || now.Sub(g.Seen) < seeEvery || !r.note(g.ID, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = r.change(ctx, who.Subject, func(t *store.Tx) (bool, error) { return true, t.SeeSession(g.ID, address) })
}

// note reports whether a session wasn't noted in the last ten minutes.
func (r *Roster) note(id string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.noted[id]) < seeEvery {
		return false
	}
	for old, at := range r.noted {
		if now.Sub(at) >= seeEvery {
			delete(r.noted, old)
		}
	}
	r.noted[id] = now
	return true
}
