package access

import (
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// localRoles are all roles: each of viewer, operator and admin includes the one before.
var localRoles = []identity.Role{identity.Caller, identity.Admin}

// Roles returns the roles that who has now in a project: a person has those that were given to them, and a key
// has its own in the project that it was made for, or less if it acts for a person who has less. Who has a token has
// what its issuer says. The local user has them all, so who asks must know that nobody else can be the local user there; [Gate.Visitor] never says so.
func (g *Gate) Roles(who *identity.Principal, project string) []identity.Role {
	if who.IsLocal() {
		return localRoles
	}
	if who != nil && who.Via == viaToken {
		return g.rolesOfToken(who, project)
	}
	if k := g.keys.Load().Of(who); k != nil && k.Project == project && k.InForce(time.Now()) {
		if r := g.people.Load().role(k); r != 0 {
			return []identity.Role{r}
		}
		return nil
	}
	if p := g.people.Load(); p.of(who) != nil {
		return p.roles(who.Subject, project)
	}
	return nil
}

// inProject separates a seat and a project in what Seats returns.
const inProject = " in "

// SeatOf returns the seat that a text of Seats is about.
func SeatOf(text string) string {
	seat, _, _ := strings.Cut(text, inProject)
	return seat
}

// Seats returns the seats of the keys and grants that let somebody in now, and when the first of them expires,
// which is zero if none will. Each grant has a further text for each project that its person may use, so that
// its seat ends when one of them is gone; see SeatOf.
func (g *Gate) Seats(now time.Time) (seats map[string]bool, next time.Time) {
	k, p := g.keys.Load(), g.people.Load()
	seats, next = k.InForce(now)
	for _, x := range k.byID {
		if p.bars(&x.Key) {
			delete(seats, x.who.Seat)
		}
	}
	next = g.grants.Load().addSeats(seats, next, now, p, g.own != "")
	return seats, next
}
