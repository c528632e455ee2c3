package admin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// People is a page of people, sorted by name.
type People struct {
	People []Person `json:"people" doc:"the people of this page: those with a role in the project, and for the project default all"`
	Total  int      `json:"total" doc:"number of people on all pages"`
	Next   string   `json:"next,omitempty" doc:"the cursor of the next page"`
}

// Person is somebody who was invited.
type Person struct {
	ID       string        `json:"id" doc:"the person's id"`
	Name     string        `json:"name" doc:"the person's name, which nobody else has"`
	Roles    []PersonRoles `json:"roles" doc:"the person's roles in the project of the request, or in all projects if that is default"`
	Invited  *time.Time    `json:"invitedUntil,omitempty" doc:"until when the person's invitation can be used; left out if there is none"`
	Sessions int           `json:"sessions" doc:"number of browsers in which the person is signed in"`
	Seen     string        `json:"lastSeen,omitempty" doc:"the day, in UTC, on which one of them was last used"`
	Added    time.Time     `json:"added" doc:"when the person was invited first"`
	By       string        `json:"by" doc:"who invited the person first"`
}

// PersonRoles are the roles of a person in a project.
type PersonRoles struct {
	Project string   `json:"project" doc:"the project"`
	Roles   []string `json:"roles" doc:"caller uses the MCP endpoints; viewer, operator and admin use the console and this API, and each includes the one before"`
}

// InvitationRequest says who is invited.
type InvitationRequest struct {
	Name  string   `json:"name" doc:"the name of somebody who was not invited yet, 1 to 64 bytes"`
	Roles []string `json:"roles,omitempty" doc:"the person's roles in the project; without any, caller and viewer"`
}

// RolesRequest has the roles of a person in a project.
type RolesRequest struct {
	Roles []string `json:"roles" doc:"the roles that replace those of before; without any, the person has none in the project"`
	// Was is nil if it doesn't matter.
	Was []string `json:"was,omitempty" doc:"the roles that the person should have now: if they're others, nothing changes; none stands for no role"`
}

// NewInvitation is a person with a link.
type NewInvitation struct {
	Person
	Link    string    `json:"link" doc:"the link to give to the person, which nobody can get a second time; it opens one session, which lasts 30 days"`
	Expires time.Time `json:"expires" doc:"until when the link can be used"`
	Note    string    `json:"note,omitempty" doc:"a sentence if dragoman forgets the person when it ends"`
}

// SignedOut is the response of /people/{name}/sign-out.
type SignedOut struct {
	Person
	Ended int `json:"ended" doc:"number of sessions that were ended"`
}

// InvitationPath is the path of the page that a person's link opens, and InvitationQuery the query parameter with
// the token.
const (
	InvitationPath  = "/console/invitation"
	InvitationQuery = "token"
)

var peopleRoutes = []route{
	{
		method: http.MethodGet, path: "/people", house: true, least: identity.Admin, name: "people", summary: "The project's people with their roles; of the project `default`, everybody",
		query: pageParameters, answer: People{}, problems: []int{400, 409}, read: func(a *API, r *http.Request) (any, *Problem) { return a.readPeople(r) },
	},
	{
		method: http.MethodPost, path: "/people", house: true, least: identity.Admin, name: "invite", summary: "Invite somebody to the project; only this answer has the link",
		body: InvitationRequest{}, answer: NewInvitation{}, status: http.StatusCreated, problems: slices.Concat([]int{400, 413, 415, 422}, houseProblems),
		read: withBody(maxPersonBody, func(a *API, r *http.Request, q InvitationRequest) (NewInvitation, *Problem) {
			return byWhom(&a.peopleAPI.house, r, func(who *identity.Principal) (NewInvitation, *Problem) {
				return a.InviteFor(r, who, a.project.name(), q)
			})
		}),
	},
	{
		method: http.MethodGet, path: "/people/{name}", house: true, least: identity.Admin, name: "person", summary: "Somebody with their sessions, keys and sign-ins; the sender needs the role in each of the person's projects, or in `default`",
		answer: PersonDetails{}, problems: []int{400, 403, 404, 409}, read: aboutPerson((*API).PersonFor),
	},
	{
		method: http.MethodPut, path: "/people/{name}/roles", house: true, least: identity.Admin, name: "setRoles", summary: "Replace a person's roles in the project; the person is named by name or id",
		body: RolesRequest{}, answer: Person{}, problems: slices.Concat([]int{400, 404, 413, 415, 422}, houseProblems),
		read: withBody(maxPersonBody, func(a *API, r *http.Request, q RolesRequest) (Person, *Problem) {
			return byWhom(&a.peopleAPI.house, r, func(who *identity.Principal) (Person, *Problem) {
				return a.SetRolesFor(r.Context(), who, r.PathValue("name"), a.project.name(), q)
			})
		}),
	},
	{
		method: http.MethodPost, path: "/people/{name}/invitation", house: true, least: identity.Admin, name: "inviteAgain", summary: "Make a link for somebody who was invited before; the sender needs the role in each of the person's projects, or in `default`",
		answer: NewInvitation{}, problems: slices.Concat([]int{400, 403, 404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) {
			return result(byWhom(&a.peopleAPI.house, r, func(who *identity.Principal) (NewInvitation, *Problem) {
				return a.InviteAgainFor(r, who, r.PathValue("name"))
			}))
		},
	},
	{
		method: http.MethodGet, path: "/people/{name}/sessions", house: true, least: identity.Admin, name: "sessions", summary: "The browsers in which somebody is signed in; the sender needs the role in each of the person's projects, or in `default`",
		answer: PersonSessions{}, problems: []int{400, 403, 404, 409}, read: aboutPerson(func(a *API, ctx context.Context, who *identity.Principal, name string) (PersonSessions, *Problem) {
			p, bad := a.PersonFor(ctx, who, name)
			return PersonSessions{p.Browsers}, bad
		}),
	},
	{
		method: http.MethodDelete, path: "/people/{name}/sessions/{session}", house: true, least: identity.Admin, name: "endSession", summary: "End one of somebody's sessions; the sender needs the role in each of the person's projects, or in `default`",
		answer: PersonSession{}, problems: slices.Concat([]int{400, 403, 404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) {
			return result(byWhom(&a.peopleAPI.house, r, func(who *identity.Principal) (PersonSession, *Problem) {
				return a.EndSessionFor(r.Context(), who, r.PathValue("name"), r.PathValue("session"))
			}))
		},
	},
	{
		method: http.MethodPost, path: "/people/{name}/sign-out", house: true, least: identity.Admin, name: "signOut", summary: "End a person's sessions, and make an unused link useless; the sender needs the role in each of the person's projects, or in `default`",
		answer: SignedOut{}, problems: slices.Concat([]int{400, 403, 404}, houseProblems), read: aboutPerson((*API).SignOutFor),
	},
	{
		method: http.MethodDelete, path: "/people/{name}", process: true, least: identity.Admin, name: "removePerson", summary: "Remove a person with their roles in all projects, their sessions, and the API keys that act for them",
		answer: RemovedPerson{}, problems: slices.Concat([]int{400, 404}, houseProblems), read: aboutPerson((*API).RemovePersonFor),
	},
}

// aboutPerson returns a route's read function that calls do with the sender of a request and the person in its path.
func aboutPerson[T any](do func(a *API, ctx context.Context, who *identity.Principal, name string) (T, *Problem)) func(*API, *http.Request) (any, *Problem) {
	return func(a *API, r *http.Request) (any, *Problem) {
		return result(byWhom(&a.peopleAPI.house, r, func(who *identity.Principal) (T, *Problem) { return do(a, r.Context(), who, r.PathValue("name")) }))
	}
}

// maxPersonBody is the maximum size in bytes of a request about a person.
const maxPersonBody = 4 << 10

// peopleAPI invites people to a project, and gives and takes their roles in it.
type peopleAPI struct {
	house
	base     func(*http.Request) (string, *Problem) // the URL that links begin with
	projects func() []string                        // the names of all projects
	inUse    func(name string) *runtime.Project     // the project with a name, or nil
}

// readPeople answers GET /people.
func (a *peopleAPI) readPeople(r *http.Request) (any, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	all := a.shown()
	p, bad := pageOf(r, all, func(p *store.Person) string { return strings.ToLower(p.Name) + "\x00" + p.ID })
	if bad != nil {
		return nil, bad
	}
	return People{People: a.showAll(p.items), Total: len(all), Next: p.next}, nil
}

// PeopleFor returns all people that an admin of the project may see, sorted by name.
func (a *peopleAPI) PeopleFor(who *identity.Principal) ([]Person, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	if !a.is(who, a.project.name(), identity.Admin) {
		return nil, notAll()
	}
	return a.showAll(a.shown()), nil
}

func (a *peopleAPI) shown() []store.Person {
	return slices.DeleteFunc(a.roster.People().All(), func(p store.Person) bool { return !a.shows(&p) })
}

func (a *peopleAPI) showAll(people []store.Person) []Person {
	out, sessions := make([]Person, 0, len(people)), a.roster.People().AllSessions()
	for i := range people {
		out = append(out, a.showWith(&people[i], sessions[people[i].ID]))
	}
	return out
}

// shows reports whether the admins of the project may see a person.
func (a *peopleAPI) shows(p *store.Person) bool {
	return a.project.name() == event.DefaultProject || len(p.Roles[a.project.name()]) > 0
}

// InviteFor invites somebody to a project; "" is that of the API. Who invites must be an admin of it, or of the default
// project.
func (a *peopleAPI) InviteFor(r *http.Request, who *identity.Principal, project string, q InvitationRequest) (NewInvitation, *Problem) {
	project = cmp.Or(project, a.project.name())
	if bad := a.adminOf(who, project); bad != nil {
		return NewInvitation{}, bad
	}
	base, bad := a.base(r)
	if bad != nil {
		return NewInvitation{}, bad
	}
	if len(q.Roles) == 0 {
		q.Roles = []string{identity.Caller.String(), identity.Viewer.String()}
	}
	roles, err := access.RolesNamed(q.Roles)
	if err != nil {
		return NewInvitation{}, a.problem(err)
	}
	token, p, err := a.roster.Invite(r.Context(), who.Subject, q.Name, project, roles)
	if err != nil {
		return NewInvitation{}, a.problem(err)
	}
	return a.invitation(base, token, &p), nil
}

// adminOf returns a problem unless who may invite people to a project and give them roles there.
func (a *peopleAPI) adminOf(who *identity.Principal, project string) *Problem {
	switch {
	case a.closed() != nil:
		return a.closed()
	case !a.is(who, project, identity.Admin):
		return notAll()
	case project != a.project.name() && !slices.Contains(a.projects(), project):
		return noProject(project)
	}
	return nil
}

// InviteAgainFor makes another link for somebody.
func (a *peopleAPI) InviteAgainFor(r *http.Request, who *identity.Principal, name string) (NewInvitation, *Problem) {
	p, bad := a.whole(who, name)
	if bad != nil {
		return NewInvitation{}, bad
	}
	base, bad := a.base(r)
	if bad != nil {
		return NewInvitation{}, bad
	}
	token, q, err := a.roster.Link(r.Context(), who.Subject, p.ID, a.project.name())
	if err != nil {
		return NewInvitation{}, a.problem(err)
	}
	return a.invitation(base, token, &q), nil
}

func (a *peopleAPI) invitation(base, token string, p *store.Person) NewInvitation {
	return NewInvitation{
		Person: a.show(p), Link: base + InvitationPath + "?" + InvitationQuery + "=" + url.QueryEscape(token), Expires: p.Open.Until.UTC(), Note: a.note(),
	}
}

// SetRolesFor replaces somebody's roles in a project. The person may be in other projects only: so somebody comes into
// a second project. "" is the project of the API.
func (a *peopleAPI) SetRolesFor(ctx context.Context, who *identity.Principal, name, project string, q RolesRequest) (Person, *Problem) {
	project = cmp.Or(project, a.project.name())
	if bad := a.adminOf(who, project); bad != nil {
		return Person{}, bad
	}
	p, bad := a.person(name)
	if bad != nil {
		return Person{}, bad
	}
	roles, err := access.RolesNamed(q.Roles)
	if err == nil && len(roles) == 0 && len(p.Roles[project]) == 0 && a.access.May(who, event.DefaultProject, identity.Admin) != nil {
		return Person{}, noPerson() // who isn't in the project is nobody there
	}
	if err == nil && q.Was == nil {
		err = a.roster.SetRoles(ctx, who.Subject, p.ID, project, roles)
	} else if err == nil {
		var was []identity.Role
		if was, err = access.RolesNamed(slices.DeleteFunc(slices.Clone(q.Was), func(s string) bool { return s == "none" })); err == nil {
			err = a.roster.ChangeRoles(ctx, who.Subject, p.ID, project, was, roles)
		}
	}
	if errors.Is(err, access.ErrOtherRoles) {
		now := "no role"
		if has := a.now(&p).Roles[project]; len(has) > 0 {
			now = "the roles " + strings.Join(roleNames(has), " and ")
		}
		return Person{}, conflict("person-changed", "Somebody else has changed the roles", excerpt.Line(p.Name, maxName)+" has "+now+" in the project "+project+" by now. Nothing has changed; choose again.")
	}
	if err != nil {
		return Person{}, a.problem(err)
	}
	return a.show(a.now(&p)), nil
}

// SignOutFor ends all sessions of somebody, and makes an unused link useless.
func (a *peopleAPI) SignOutFor(ctx context.Context, who *identity.Principal, name string) (SignedOut, *Problem) {
	p, bad := a.whole(who, name)
	if bad != nil {
		return SignedOut{}, bad
	}
	n, err := a.roster.SignOut(ctx, who.Subject, p.ID)
	if err != nil {
		return SignedOut{}, a.problem(err)
	}
	return SignedOut{a.show(a.now(&p)), n}, nil
}

// now returns a person as a change has left them.
func (a *peopleAPI) now(p *store.Person) *store.Person {
	if x, ok := a.roster.People().Find(p.ID); ok {
		return &x
	}
	return p
}

// RemovePersonFor removes somebody. The route is one of the process, so who must be an admin of the default project.
func (a *peopleAPI) RemovePersonFor(ctx context.Context, who *identity.Principal, name string) (RemovedPerson, *Problem) {
	if bad := a.adminOf(who, event.DefaultProject); bad != nil {
		return RemovedPerson{}, bad
	}
	p, bad := a.person(name)
	if bad != nil {
		return RemovedPerson{}, bad
	}
	out := RemovedPerson{Person: a.show(&p), Keys: len(a.keysOfPerson(&p)), SignIns: len(a.signInsOf(&p))}
	if err := a.roster.Remove(ctx, who.Subject, p.ID); err != nil {
		return RemovedPerson{}, a.problem(err)
	}
	return out, nil
}

// person returns the person with a name or an id.
func (h *house) person(name string) (store.Person, *Problem) {
	if p, ok := h.roster.People().Find(name); ok {
		return p, nil
	}
	return store.Person{}, noPerson()
}

// whole returns the person with a name or an id, if who may decide about them as a whole, and not only in the project:
// whoever makes a link could open it, too.
func (a *peopleAPI) whole(who *identity.Principal, name string) (p store.Person, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return p, bad
	}
	p, bad = a.person(name)
	switch {
	case bad != nil:
		return p, bad
	case !a.shows(&p):
		return p, noPerson()
	case !a.decides(who, &p):
		return p, notAll()
	}
	return p, nil
}

// decides reports whether who is an admin of the default project, or of each project of a person.
func (h *house) decides(who *identity.Principal, p *store.Person) bool {
	is := func(project string) bool { return h.access.May(who, project, identity.Admin) == nil }
	for project := range p.Roles {
		if !is(project) {
			return is(event.DefaultProject)
		}
	}
	return len(p.Roles) > 0 || is(event.DefaultProject)
}

// notAll is the problem of whoever doesn't decide about a person.
func notAll() *Problem {
	return &Problem{Type: kindRole, Title: "Your role does not allow this", Status: http.StatusForbidden, Detail: "The person has roles in projects of which you aren't an admin. Ask an admin of the project " + event.DefaultProject + "."}
}

func noPerson() *Problem {
	return &Problem{Type: "no-such-person", Title: "No such person", Status: http.StatusNotFound, Detail: "Nobody has this name or id. GET " + apiRoot + "/people lists the people."}
}

// PublicConsole returns what links to the console begin with that lead to a public URL. It returns "" if people can't
// open the console there, since that needs https, and a host of its own.
func PublicConsole(public string) string {
	u, err := url.Parse(public)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return ""
	}
	return "https://" + u.Host
}

// linkBase returns what the links of people begin with: the public URL if the console is there, and otherwise the
// address of the request if it's this machine's or has come over https.
func linkBase(o *Options) func(*http.Request) (string, *Problem) {
	return func(r *http.Request) (string, *Problem) {
		public := PublicConsole(o.PublicURL)
		switch {
		case public != "":
			return public, nil
		case o.Local:
			return "http://" + Address(r), nil
		case r.TLS != nil:
			return "https://" + r.Host, nil
		}
		return "", conflict("no-public-url", "There is no address for the link", "Set dragoman.publicURL to the URL at which people open the console. It begins with https:// and has no path.")
	}
}

// problem returns the problem for an error of the roster, the safe or the store.
func (a *peopleAPI) problem(err error) *Problem {
	var mistake access.Mistake
	switch {
	case errors.Is(err, access.ErrNoPerson):
		return noPerson()
	case errors.Is(err, access.ErrNameTaken):
		return conflict("person-exists", "Somebody has this name", "Somebody has this name already. Give this person roles in the project, or make another link for them; or invite somebody by another name.")
	case errors.As(err, &mistake):
		return &Problem{Type: "person", Title: "There can be no such person", Status: http.StatusUnprocessableEntity, Detail: sentence(err.Error(), "")}
	}
	return a.house.problem(err)
}

// show returns a person as the admins of the project may see them.
func (a *peopleAPI) show(p *store.Person) Person {
	return a.showWith(p, a.roster.People().Sessions(p.ID))
}

// showWith does the same for a person with some sessions, the one that was used last first.
func (a *peopleAPI) showWith(p *store.Person, sessions []store.Session) Person {
	out := Person{ID: p.ID, Name: p.Name, Roles: []PersonRoles{}, Added: p.Added.UTC(), By: a.nameOf(p.Actor)}
	for _, project := range slices.Sorted(maps.Keys(p.Roles)) {
		if a.project.name() != event.DefaultProject && project != a.project.name() {
			continue
		}
		out.Roles = append(out.Roles, PersonRoles{project, roleNames(p.Roles[project])})
	}
	if until := p.Open.Until.UTC(); p.Open.Sum != nil && time.Now().Before(until) {
		out.Invited = &until
	}
	if len(sessions) > 0 {
		out.Sessions, out.Seen = len(sessions), sessions[0].Seen.UTC().Format(time.DateOnly)
	}
	return out
}

func roleNames(roles []identity.Role) (names []string) {
	for _, r := range roles {
		names = append(names, r.String())
	}
	return names
}
