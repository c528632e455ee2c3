package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Browser is a session of the console, as its own user sees it.
type Browser struct {
	ID      string // names the session, and opens nothing
	Name    string // such as "Firefox on Linux"; "" if it isn't known
	Address string // from where the session was last used; "" if that isn't known
	Way     string // how it began: one of access.ByInvitation and its like, or WayTerminal
	Began   time.Time
	Seen    time.Time // when it was last used, to about ten minutes
	Until   time.Time
}

// WayTerminal is how sessions of the local user begin: with a link that a terminal got.
const WayTerminal = "terminal"

// youngFor is how long after a sign-in a session may do what others have to confirm; see Young.
const youngFor = 10 * time.Minute

// session returns whose session a request belongs to, and which one it is. who is nil if there is none.
func (a *Access) session(r *http.Request) (who *identity.Principal, s Browser) {
	given, now := a.given(r), time.Now()
	if who, s = a.ours(given, now); who != nil {
		return who, s
	}
	if who = a.guest(given, now); who != nil {
		x, _ := a.roster.People().SessionOf(who)
		return who, Browser{x.ID, x.Browser, x.Address, x.Way, x.Began, x.Seen, x.Until}
	}
	return nil, s
}

// Browsing returns whose session a request belongs to, and which one; see SignedIn.
func (a *Access) Browsing(r *http.Request) (*identity.Principal, Browser) { return a.session(r) }

// Young reports whether somebody has signed in so recently that we needn't ask whether it's them.
func (b Browser) Young() bool { return time.Since(b.Began) < youngFor }

// Browsers returns the sessions of who, the one that was used last first.
func (a *Access) Browsers(who *identity.Principal) (all []Browser) {
	if who == nil {
		return nil
	}
	now := time.Now()
	a.mu.Lock()
	for i := range a.sessions {
		if t := &a.sessions[i]; t.who.Subject == who.Subject && now.Before(t.until) {
			all = append(all, t.browser())
		}
	}
	a.mu.Unlock()
	if id, ok := a.personOf(who); ok {
		for _, x := range a.roster.People().Sessions(id) {
			all = append(all, Browser{x.ID, x.Browser, x.Address, x.Way, x.Began, x.Seen, x.Until})
		}
	}
	slices.SortFunc(all, func(a, b Browser) int { return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.ID, b.ID)) })
	return all
}

// personOf returns the id of the person whose session who is.
func (a *Access) personOf(who *identity.Principal) (id string, ok bool) {
	if a.roster == nil {
		return "", false
	}
	s, ok := a.roster.People().SessionOf(who)
	return s.Person, ok
}

// EndBrowser ends a session of who, and reports whether there was one. The error is one of the database.
func (a *Access) EndBrowser(ctx context.Context, who *identity.Principal, id string) (bool, error) {
	a.mu.Lock()
	before := len(a.sessions)
	a.sessions = slices.DeleteFunc(a.sessions, func(t ticket) bool { return t.id == id && who != nil && t.who.Subject == who.Subject })
	ended := len(a.sessions) < before
	a.mu.Unlock()
	if ended || a.roster == nil {
		return ended, nil
	}
	return a.roster.End(ctx, who, id)
}

// OwnLink returns a link with which who, whose session has sent r, signs in another browser, and until when it works.
func (a *Access) OwnLink(r *http.Request, who *identity.Principal) (link string, until time.Time, err error) {
	base := "http://" + Address(r)
	if a.Remote(r) {
		base = "https://" + r.Host
	}
	if _, ok := a.personOf(who); !ok {
		if a.Remote(r) || who == nil {
			return "", until, access.ErrNoPerson // such a link doesn't work there
		}
		return a.LinkFor(who, base), time.Now().Add(linkLife), nil
	}
	token, until, err := a.roster.OwnLink(r.Context(), who)
	if err != nil {
		return "", until, err
	}
	return base + InvitationPath + "?" + InvitationQuery + "=" + token, until, nil
}

// See notes that the session of a request is used now.
func (a *Access) See(r *http.Request, who *identity.Principal, s Browser) {
	now, address := time.Now(), httpdoor.Remote(r)
	a.mu.Lock()
	for i := range a.sessions {
		if t := &a.sessions[i]; t.id == s.ID {
			t.seen, t.address = now, address
		}
	}
	a.mu.Unlock()
	if a.roster != nil {
		a.roster.See(r.Context(), who, address)
	}
}

// arrival returns what is known of the browser that has sent a request, for a session that begins.
func (a *Access) arrival(r *http.Request) access.Arrival {
	at := access.Arrival{Browser: browserName(r.UserAgent()), Address: httpdoor.Remote(r)}
	if who, s := a.session(r); who != nil {
		at.Before = []string{s.ID}
	}
	return at
}

// renew ends the session that a browser has had until now, and returns a new one in its place.
func (a *Access) renew(r *http.Request, t ticket) ticket {
	at, now := a.arrival(r), time.Now()
	a.end(r.Context(), a.given(r))
	t.id, t.name, t.address, t.began, t.seen = rand.Text()[:12], at.Browser, at.Address, now, now
	return t
}

// end ends the sessions that have some secrets.
func (a *Access) end(ctx context.Context, given []ticket) {
	if len(given) == 0 {
		return
	}
	a.mu.Lock()
	a.sessions = slices.DeleteFunc(a.sessions, func(t ticket) bool { return t.among(given) })
	a.mu.Unlock()
	a.leaveAsGuest(ctx, given)
}

// browser returns a session in memory as its user sees it.
func (t *ticket) browser() Browser {
	return Browser{t.id, t.name, t.address, WayTerminal, t.began, t.seen, t.until}
}

// RoleIn returns the highest role of the console that who has in a project, or none.
func (a *Access) RoleIn(who *identity.Principal, project string) identity.Role {
	for _, r := range []identity.Role{identity.Admin, identity.Operator, identity.Viewer} {
		if a.May(who, project, r) == nil {
			return r
		}
	}
	return 0
}

// ProjectRoles are the roles that somebody has in a project.
type ProjectRoles struct {
	Project string
	Roles   []identity.Role
}

// RolesOf returns the roles of an invited person, by project. all is true for the local user, who has every role
// in every project.
func (a *Access) RolesOf(who *identity.Principal) (list []ProjectRoles, all bool) {
	if who == identity.Local {
		return nil, true
	}
	if id, ok := a.personOf(who); ok {
		p, _ := a.roster.People().Find(id)
		for project, roles := range p.Roles {
			list = append(list, ProjectRoles{project, roles})
		}
		slices.SortFunc(list, func(a, b ProjectRoles) int { return cmp.Compare(a.Project, b.Project) })
	}
	return list, false
}

// Holders returns the names of the people who have a role that includes least in a project. It tells only those who
// have a role there themselves.
func (a *Access) Holders(who *identity.Principal, project string, least identity.Role) (names []string) {
	if a.roster == nil || who == nil || len(a.roles(who, project)) == 0 {
		return nil
	}
	for _, p := range a.roster.People().All() {
		if slices.ContainsFunc(p.Roles[project], func(r identity.Role) bool { return r.Includes(least) }) {
			names = append(names, p.Name)
		}
	}
	return names
}

// browserName returns what a browser is called, from its User-Agent. It says only what is in our own tables, so a
// browser can't put text of its own into anybody's page.
func browserName(agent string) string {
	find := func(table []string) string {
		for i := 0; i < len(table); i += 2 {
			if strings.Contains(agent, table[i]) {
				return table[i+1]
			}
		}
		return ""
	}
	// Most browsers also call themselves what stands further down.
	name := find([]string{"Edg/", "Edge", "EdgA/", "Edge", "OPR/", "Opera", "Firefox/", "Firefox", "FxiOS/", "Firefox", "CriOS/", "Chrome", "Chrome/", "Chrome", "Safari/", "Safari"})
	system := find([]string{"Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "CrOS", "ChromeOS", "Windows", "Windows", "Mac OS X", "macOS", "Linux", "Linux"})
	if name == "" || system == "" {
		return name
	}
	return name + " on " + system
}
