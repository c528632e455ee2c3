package access

import (
	"cmp"
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
	all      []*store.Person          // sorted by name
	known    map[string]*store.Person // the same by subject
	sessions map[sum]*guest
	seats    map[string]*guest
	links    map[sum]*store.Person // those with an invitation
	forged   int                   // see Forged
	from     *store.Snapshot       // nil for the zero value
}

type sum = [sha256.Size]byte

// guest is a session of a person.
type guest struct {
	store.Session
	who identity.Principal
}

// peopleMACs are the keys for the sums of people's secrets, and for the signatures of their rows. They differ from
// each other and from that of the API keys, so that nobody can turn a row of one kind into a row of another.
type peopleMACs struct{ sessions, links, rows MACKey }

func newPeopleMACs(k MACKey) (m peopleMACs) {
	for use, into := range map[string]*MACKey{"sessions of people": &m.sessions, "invitations of people": &m.links, "rows of people": &m.rows} {
		h := hmac.New(sha256.New, k[:])
		_, _ = h.Write([]byte(use)) // never fails
		h.Sum(into[:0])
	}
	return m
}

// newPeople returns the people of a snapshot. It leaves out what we haven't signed: people, roles, invitations and
// sessions that somebody has written into the database.
func newPeople(m peopleMACs, s *store.Snapshot) *People {
	p := &People{macs: m, known: map[string]*store.Person{}, sessions: map[sum]*guest{}, seats: map[string]*guest{}, links: map[sum]*store.Person{}, from: s}
	for _, x := range s.People() {
		if !hmac.Equal(x.Sum, m.ofPerson(x.ID, x.Name)) {
			p.forged++
			continue
		}
		roles := x.Roles
		x.Roles = map[string][]identity.Role{}
		for project, list := range roles {
			if hmac.Equal(x.Sums[project], m.ofRoles(x.ID, project, list)) {
				x.Roles[project] = list
			} else {
				p.forged++
			}
		}
		if first, ok := signedSum(x.Open.Sum, m.ofInvitation(x.ID, &x.Open)); ok {
			p.links[first] = &x
		} else if x.Open.Sum != nil {
			p.forged++
			x.Open = store.Invitation{}
		}
		p.all = append(p.all, &x)
		p.known[store.PersonSubject+x.ID] = &x
	}
	for _, x := range s.Sessions() {
		subject := store.PersonSubject + x.Person
		first, ok := signedSum(x.Sum, m.ofSession(&x))
		if !ok || p.known[subject] == nil {
			p.forged++
			continue
		}
		g := &guest{x, identity.Principal{Subject: subject, Name: p.known[subject].Name, Seat: seatOfSession(x.ID), Via: "link", Until: x.Until}}
		p.sessions[first], p.seats[g.who.Seat] = g, g
	}
	return p
}

// Forged returns how many rows about people somebody else has written into the database.
func (p *People) Forged() int { return p.forged }

// All returns all people, sorted by name.
func (p *People) All() []store.Person {
	all := make([]store.Person, 0, len(p.all))
	for _, x := range p.all {
		all = append(all, *x)
	}
	return all
}

// Sessions returns the sessions of the person with an id that have not ended, the one that was used last first.
func (p *People) Sessions(id string) (all []store.Session) {
	for _, g := range p.seats {
		if g.Person == id && time.Now().Before(g.Until) {
			all = append(all, g.Session)
		}
	}
	slices.SortFunc(all, lastUsed)
	return all
}

// AllSessions returns the sessions of everybody by the ids of the people, as Sessions does.
func (p *People) AllSessions() map[string][]store.Session {
	all, now := map[string][]store.Session{}, time.Now()
	for _, g := range p.seats {
		if now.Before(g.Until) {
			all[g.Person] = append(all[g.Person], g.Session)
		}
	}
	for _, list := range all {
		slices.SortFunc(list, lastUsed)
	}
	return all
}

// lastUsed orders sessions by when they were used, the last one first.
func lastUsed(a, b store.Session) int {
	return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.ID, b.ID))
}

// SessionOf returns the session that a principal stands for, and whether there is one.
func (p *People) SessionOf(who *identity.Principal) (store.Session, bool) {
	if g := p.of(who); g != nil {
		return g.Session, true
	}
	return store.Session{}, false
}

// The signatures of rows are like those of keys; see sign.go. That of a session or an invitation stands behind the
// sum of its secret.

func (m *peopleMACs) ofPerson(id, name string) []byte { return m.rows.over("person", id, name) }

func (m *peopleMACs) ofRoles(id, project string, roles []identity.Role) []byte {
	parts := []string{"roles", id, project}
	for _, r := range roles {
		parts = append(parts, r.String())
	}
	return m.rows.over(parts...)
}

func (m *peopleMACs) ofInvitation(id string, x *store.Invitation) []byte {
	parts := []string{"invitation", id, string(firstSum(x.Sum)), x.Project, moment(x.Until)}
	if !x.Ends.IsZero() {
		parts = append(parts, moment(x.Ends))
	}
	return m.rows.over(parts...)
}

func (m *peopleMACs) ofSession(x *store.Session) []byte {
	return m.rows.over("session", x.ID, x.Person, string(firstSum(x.Sum)), moment(x.Until))
}

// firstSum returns the sum of the secret, with which the sum of a row begins.
func firstSum(all []byte) []byte { return all[:min(len(all), len(sum{}))] }

// signedSum returns the sum of the secret from that of a row, if the rest is the signature.
func signedSum(all, signature []byte) (first sum, ok bool) {
	if len(all) != len(sum{})+len(signature) || !hmac.Equal(all[len(sum{}):], signature) {
		return sum{}, false
	}
	return sum(all[:len(sum{})]), true
}

// Any reports whether anybody was invited.
func (p *People) Any() bool { return len(p.all) > 0 }

// Name returns the name of the person with a subject. For other subjects, it returns the subject.
func (p *People) Name(subject string) string {
	if x := p.known[subject]; x != nil {
		return x.Name
	}
	return subject
}

// Find returns the person with a name, in which case doesn't count, or with an id.
func (p *People) Find(name string) (store.Person, bool) {
	for _, x := range p.all {
		if strings.EqualFold(x.Name, name) {
			return *x, true
		}
	}
	if x := p.known[store.PersonSubject+name]; x != nil {
		return *x, true
	}
	return store.Person{}, false
}

// Regraded returns the projects in which somebody has other roles than before.
func (p *People) Regraded(before *People) map[string]bool {
	projects := map[string]bool{}
	for subject, x := range p.known {
		was := before.known[subject]
		if was == nil || was == x {
			continue // whoever is new has no client yet
		}
		for project, roles := range x.Roles {
			if !slices.Equal(roles, was.Roles[project]) {
				projects[project] = true
			}
		}
		for project := range was.Roles {
			if len(x.Roles[project]) == 0 {
				projects[project] = true
			}
		}
	}
	return projects
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
