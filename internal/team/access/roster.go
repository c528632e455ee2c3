package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Roster invites people, lets them in, gives them roles and removes them. It is safe for concurrent use.
type Roster struct {
	desk *Desk
	gate *Gate

	mu     sync.Mutex
	turn   sync.Mutex           // held while the gate gets other people, so that it never gets older ones
	noted  map[string]time.Time // the sessions that See has noted, and when
	looks  sync.Mutex           // held while look runs
	looked time.Time            // when the last look began; has the lock looks
}

// NewRoster returns a roster that keeps people where a desk keeps its keys, and tells a gate of each change.
func NewRoster(d *Desk, g *Gate) *Roster {
	return &Roster{desk: d, gate: g, noted: map[string]time.Time{}}
}

// How long people can use what they have.
const (
	InvitationLife = 7 * 24 * time.Hour
	OwnLinkLife    = 10 * time.Minute // of a link that somebody makes for another browser of their own
	SessionLife    = 30 * 24 * time.Hour
)

// Errors about people.
const (
	ErrNoPerson  = Mistake("nobody has this id")
	ErrNameTaken = Mistake("somebody has this name already")
	ErrNoLink    = Mistake("this invitation was used, has expired, or was never made")
	// ErrOtherRoles is what ChangeRoles says.
	ErrOtherRoles = Mistake("the person has other roles by now")
)

// CheckName returns a Mistake if nobody can have a name.
func CheckName(name string) error {
	const most = 64
	switch {
	case name == "" || len(name) > most || strings.TrimSpace(name) != name || !printable(name):
		return Mistake(fmt.Sprintf("a person needs a name of 1 to %d bytes, without control characters and without spaces around it", most))
	case strings.HasPrefix(name, "-") || strings.Contains(name, ":") || strings.Contains(name, mark):
		return Mistake("a person's name can't begin with -, and can't have a colon or an API key in it")
	case strings.EqualFold(name, identity.Local.Subject) || strings.EqualFold(name, Me):
		return Mistake(fmt.Sprintf("nobody can be named %s or %s, which is the user who runs dragoman", identity.Local.Subject, Me))
	}
	return nil
}

// Me is what people call themselves where a name is asked for.
const Me = "me"

// People returns the people in force.
func (r *Roster) People() *People { return r.gate.people.Load() }

// Refresh makes the people of the store's snapshot those in force, if they aren't yet. If there are none, it needs
// no vault. If it fails, nobody is in force.
func (r *Roster) Refresh(ctx context.Context) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	now := r.desk.safe.Store().Snapshot()
	if from := r.gate.people.Load().from; now.SamePeople(from) && now.SameSessions(from) {
		return nil
	}
	if len(now.People()) == 0 {
		r.gate.people.Store(&People{from: now})
		return nil
	}
	mac, err := r.desk.mac(ctx, "")
	if err != nil {
		r.gate.people.Store(&People{})
		return err
	}
	r.gate.people.Store(newPeople(newPeopleMACs(mac), now))
	return nil
}

// change makes a change of the store, and tells the gate. If there is nobody with the id that the change
// is about, the error is ErrNoPerson.
func (r *Roster) change(ctx context.Context, actor string, f func(*store.Tx) (bool, error)) error {
	err := r.desk.change(ctx, actor, f)
	if errors.Is(err, ErrNoKey) {
		return ErrNoPerson
	}
	if err == nil {
		err = r.Refresh(ctx)
	}
	return err
}

// Invite adds a person with roles in a project. token is the only copy of what opens the invitation.
func (r *Roster) Invite(ctx context.Context, actor, name, project string, roles []identity.Role) (token string, p store.Person, err error) {
	if err := CheckName(name); err != nil {
		return "", store.Person{}, err
	}
	if project == "" || len(roles) == 0 {
		return "", store.Person{}, Mistake("a person is invited to a project, with at least one role")
	}
	id := NewID().String()
	token, err = r.link(ctx, actor, id, project, func(t *store.Tx, m *peopleMACs) (bool, error) {
		free, err := t.AddPerson(id, name, m.ofPerson(id, name))
		if err == nil && !free {
			err = ErrNameTaken
		}
		if err != nil {
			return false, err
		}
		return t.SetRoles(id, project, roles, m.ofRoles(id, project, roles))
	})
	p, _ = r.People().Find(id)
	return token, p, err
}

// Link makes another invitation for a person, for another browser or after the session has ended. It replaces
// one that is still open.
func (r *Roster) Link(ctx context.Context, actor, id, project string) (token string, p store.Person, err error) {
	token, err = r.link(ctx, actor, id, project, func(*store.Tx, *peopleMACs) (bool, error) { return true, nil })
	p, _ = r.People().Find(id)
	return token, p, err
}

func (r *Roster) link(ctx context.Context, actor, id, project string, before func(*store.Tx, *peopleMACs) (bool, error)) (token string, err error) {
	return r.open(ctx, actor, id, store.Invitation{Project: project, Until: after(InvitationLife)}, before)
}

// open gives the person with an id an invitation, which has no Sum yet, and returns its token.
func (r *Roster) open(ctx context.Context, actor, id string, x store.Invitation, before func(*store.Tx, *peopleMACs) (bool, error)) (token string, err error) {
	mac, err := r.desk.mac(ctx, actor)
	if err != nil {
		return "", err
	}
	macs, secret := newPeopleMACs(mac), NewSecret()
	s := macs.links.Sum(&secret)
	x.Sum = s[:]
	x.Sum = append(x.Sum, macs.ofInvitation(id, &x)...)
	err = r.change(ctx, actor, func(t *store.Tx) (bool, error) {
		if there, err := before(t, &macs); !there || err != nil {
			return there, err
		}
		return t.Invite(id, x)
	})
	if err != nil {
		return "", err
	}
	return secret.text(), nil
}

// Invited returns the person whose invitation has a token, and the people in force then, if it can still be used.
// Another process may have made it a moment ago, so an unknown one is looked up in the database, for at most ten
// seconds: the database may be slow, and a good invitation must not look like a bad one. Whoever asks while somebody else does shares the answer, so strangers make one read at a time.
func (r *Roster) Invited(ctx context.Context, token string) (store.Person, *People, bool) {
	p := r.People()
	x, ok := p.Invited(token, time.Now())
	if _, shaped := secretOf(token); ok || !shaped {
		return x, p, ok
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r.look(ctx)
	p = r.People()
	x, ok = p.Invited(token, time.Now())
	return x, p, ok
}

// look makes the people in force those that the database has now.
func (r *Roster) look(ctx context.Context) {
	asked := time.Now()
	r.looks.Lock()
	defer r.looks.Unlock()
	if r.looked.After(asked) || ctx.Err() != nil {
		return // somebody has begun to look since
	}
	r.looked = time.Now()
	if r.desk.safe.Store().Refresh(ctx) == nil {
		_ = r.Refresh(ctx) // if it fails, nobody is in force
	}
}

// SetRoles replaces the roles of a person in a project; none takes the person out of it.
func (r *Roster) SetRoles(ctx context.Context, actor, id, project string, roles []identity.Role) error {
	return r.setRoles(ctx, actor, id, project, roles, func(*store.Tx) error { return nil })
}

// ChangeRoles does the same as SetRoles if the person has the roles was in the project, as RolesNamed returns them. If
// they are others, the error is ErrOtherRoles.
func (r *Roster) ChangeRoles(ctx context.Context, actor, id, project string, was, roles []identity.Role) error {
	return r.setRoles(ctx, actor, id, project, roles, func(t *store.Tx) error {
		now, err := t.Roles(id, project)
		slices.Sort(now)
		if err == nil && !slices.Equal(now, was) {
			err = ErrOtherRoles
		}
		return err
	})
}

func (r *Roster) setRoles(ctx context.Context, actor, id, project string, roles []identity.Role, before func(*store.Tx) error) error {
	mac, err := r.desk.mac(ctx, actor)
	if err != nil {
		return err
	}
	macs := newPeopleMACs(mac)
	return r.change(ctx, actor, func(t *store.Tx) (bool, error) {
		if err := before(t); err != nil {
			return false, err
		}
		return t.SetRoles(id, project, roles, macs.ofRoles(id, project, roles))
	})
}

// Remove removes a person with their roles, sessions and keys.
func (r *Roster) Remove(ctx context.Context, actor, id string) error {
	return r.change(ctx, actor, func(t *store.Tx) (bool, error) { return t.RemovePerson(id) })
}

// SignOut ends all sessions of a person, and their open invitation. It returns the number of sessions.
func (r *Roster) SignOut(ctx context.Context, actor, id string) (n int, err error) {
	err = r.change(ctx, actor, func(t *store.Tx) (there bool, err error) {
		n, there, err = t.EndSessions(id)
		return there, err
	})
	return n, err
}
