package console

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// viewer is for whom a response is made.
type viewer struct {
	who     *identity.Principal // nil in a feed that several people share
	session admin.Browser       // the zero value in such a feed
	role    identity.Role       // the highest role of the console in the project that the pages show, or none
	main    identity.Role       // the same in the project default, for pages about the whole process
	caller  bool                // the viewer may call the project's tools, with or without another role
	waits   int                 // how many sign-ins wait for the viewer, and calls of the viewer for an answer; of operators, who see the calls of all, only the sign-ins
}

// anyone is what a page or a form needs instead of a role if everybody with a session may use it.
const anyone identity.Role = 0

// subject returns who the viewer is; "" for several people.
func (v *viewer) subject() string {
	if v.who == nil {
		return ""
	}
	return v.who.Subject
}

// may reports whether the viewer may use what needs at least the role least. What needs the role caller is for all who
// have any role in the project.
func (v *viewer) may(least identity.Role) bool {
	return least == anyone || v.role.Includes(least) || least == identity.Caller && (v.caller || v.role != 0)
}

// class says who gets the same bytes: those with the same role and the same number beside Questions, or on pages about
// the viewer this session alone.
func (v *viewer) class(personal bool) string {
	switch {
	case personal && v.who != nil:
		return fmt.Sprint(v.role, " ", v.caller, " ", v.who.Seat, " ", v.session.ID)
	case v.waits > 0:
		return fmt.Sprint(v.role, ", asked ", v.waits)
	}
	return v.role.String()
}

// shared returns the viewer for whom a feed is computed that all of the class get.
func (v *viewer) shared(personal bool) viewer {
	if personal {
		return *v
	}
	return viewer{role: v.role, waits: v.waits}
}

// forbidden returns the error for a request that needs another role than the viewer has.
func (s *state) forbidden(r *http.Request, least identity.Role) error {
	what := "This page"
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		what = "This"
	}
	project := s.from.project
	has := "You have no role of the console in the project " + project + "."
	if s.viewer.role != 0 {
		has = "Your role in the project " + project + " is " + s.viewer.role.String() + "."
	}
	return &pageError{
		Status: http.StatusForbidden, Title: what + " needs the role " + least.String(), Closed: true,
		Text: has + " " + askWho(s.from.access.Holders(s.viewer.who, project, least)),
		Next: Crumb{"Show your roles and sessions", mePath},
	}
}

// askWho says which people have a role, and whom to ask if they aren't known.
func askWho(names []string) string {
	const most = 5
	switch n := len(names); {
	case n == 0:
		return "Ask the user who runs this Dragoman, or whoever has invited you."
	case n == 1:
		return "Ask " + names[0] + ", who has it."
	case n > most:
		return "Ask one of those who have it: " + strings.Join(names[:most], ", ") + " and " + number(n-most) + " more."
	default:
		return "Ask " + strings.Join(names[:n-1], ", ") + " or " + names[n-1] + ", who have it."
	}
}
