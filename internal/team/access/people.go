package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// People are those who were invited, with their roles and the sessions of their browsers. They are
// immutable. The zero value knows nobody.
type People struct {
	macs     peopleMACs
	known    map[string]*store.Person // by subject
	sessions map[sum]*guest
	seats    map[string]*guest
	links    map[sum]*store.Person // those with an invitation
}

type sum = [sha256.Size]byte

// guest is a session of a person.
type guest struct {
	store.Session
	who identity.Principal
}

// peopleMACs are the keys for the sums of people's secrets. They differ from each other and from that of the API
// keys, so that nobody can turn a row of one kind into a row of another.
type peopleMACs struct{ sessions, links MACKey }

func newPeopleMACs(k MACKey) (m peopleMACs) {
	for use, into := range map[string]*MACKey{"sessions of people": &m.sessions, "invitations of people": &m.links} {
		h := hmac.New(sha256.New, k[:])
		_, _ = h.Write([]byte(use)) // never fails
		h.Sum(into[:0])
	}
	return m
}

// newPeople returns the people of a snapshot. Sessions and invitations that aren't ours are left out.
func newPeople(m peopleMACs, s *store.Snapshot) *People {
	p := &People{macs: m, known: map[string]*store.Person{}, sessions: map[sum]*guest{}, seats: map[string]*guest{}, links: map[sum]*store.Person{}}
	for _, x := range s.People() {
		p.known[store.PersonSubject+x.ID] = &x
		if len(x.Open.Sum) == len(sum{}) {
			p.links[sum(x.Open.Sum)] = &x
		}
	}
	for _, x := range s.Sessions() {
		subject := store.PersonSubject + x.Person
		if p.known[subject] == nil || len(x.Sum) != len(sum{}) {
			continue
		}
		g := &guest{x, identity.Principal{Subject: subject, Seat: "s:" + x.ID, Via: "link", Until: x.Until}}
		p.sessions[sum(x.Sum)], p.seats[g.who.Seat] = g, g
	}
	return p
}

// Any reports whether anybody was invited.
func (p *People) Any() bool { return len(p.known) > 0 }

// Name returns the name of the person with a subject. For other subjects, it returns the subject.
func (p *People) Name(subject string) string {
	if x := p.known[subject]; x != nil {
		return x.Name
	}
	return subject
}

// Named returns the person with a name, in which case doesn't count.
func (p *People) Named(name string) (store.Person, bool) {
	for _, x := range p.known {
		if strings.EqualFold(x.Name, name) {
			return *x, true
		}
	}
	return store.Person{}, false
}

// Session returns whose session has a secret, or nil if no session in force has it.
func (p *People) Session(secret string, now time.Time) *identity.Principal {
	s, ok := secretOf(secret)
	if !ok || len(p.sessions) == 0 {
		return nil
	}
	g := p.sessions[p.macs.sessions.Sum(&s)]
	if g == nil || !now.Before(g.Until) {
		return nil
	}
	return &g.who
}

// Invited returns the person whose invitation has a token, if it can still be used.
func (p *People) Invited(token string, now time.Time) (store.Person, bool) {
	s, ok := secretOf(token)
	if !ok || len(p.links) == 0 {
		return store.Person{}, false
	}
	x := p.links[p.macs.links.Sum(&s)]
	if x == nil || !now.Before(x.Open.Until) {
		return store.Person{}, false
	}
	return *x, true
}

// of returns the session that a principal stands for, or nil if it's no session of a person or has ended.
func (p *People) of(who *identity.Principal) *guest {
	if who == nil {
		return nil
	}
	g := p.seats[who.Seat]
	if g == nil || g.who.Subject != who.Subject || g.who.Via != who.Via || !time.Now().Before(g.Until) {
		return nil
	}
	return g
}

// roles returns the roles of the person with a subject in a project.
func (p *People) roles(subject, project string) []identity.Role {
	if x := p.known[subject]; x != nil {
		return x.Roles[project]
	}
	return nil
}

// role returns the role of a key in its project: its own, and if it acts for a person, never more than that
// person has now. It is none if that person has no role that includes any of it, or was removed.
func (p *People) role(k *Key) identity.Role {
	if !strings.HasPrefix(k.Owner, store.PersonSubject) {
		return k.Role
	}
	best := identity.Role(0)
	for _, has := range p.roles(k.Owner, k.Project) {
		switch {
		case has.Includes(k.Role):
			return k.Role
		case k.Role.Includes(has):
			best = max(best, has)
		}
	}
	return best
}

// bars reports whether a key acts for a person who may not use it.
func (p *People) bars(k *Key) bool { return k.Role != 0 && p.role(k) == 0 }

// secretOf returns the secret of a text that Secret.text returned.
func secretOf(text string) (s Secret, ok bool) {
	if len(text) != textSize {
		return Secret{}, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(s[:], []byte(text))
	return s, err == nil && n == len(s)
}

func (s Secret) text() string { return base64.RawURLEncoding.EncodeToString(s[:]) }

// RolesNamed returns the roles with some names, without those that others include. The error is a Mistake.
func RolesNamed(names []string) ([]identity.Role, error) {
	var all []identity.Role
	for _, name := range names {
		r, ok := identity.RoleOf(name)
		if !ok {
			return nil, Mistake("the roles are caller, viewer, operator and admin; write each by itself")
		}
		all = append(all, r)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(slices.Clone(all), func(r identity.Role) bool {
		return slices.ContainsFunc(all, func(other identity.Role) bool { return other != r && other.Includes(r) })
	}), nil
}
