package admin

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

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
		read: withBody(maxPersonBody, func(a *API, r *http.Request, q InvitationRequest) (NewInvitation, *Problem) { return a.invite(r, q) }),
	},
	{
		method: http.MethodPut, path: "/people/{name}/roles", house: true, least: identity.Admin, name: "setRoles", summary: "Replace a person's roles in the project; the person is named by name or id",
		body: RolesRequest{}, answer: Person{}, problems: slices.Concat([]int{400, 404, 413, 415, 422}, houseProblems),
		read: withBody(maxPersonBody, func(a *API, r *http.Request, q RolesRequest) (Person, *Problem) { return a.setRoles(r, q) }),
	},
	{
		method: http.MethodPost, path: "/people/{name}/invitation", house: true, least: identity.Admin, name: "inviteAgain", summary: "Make a link for somebody who was invited before; the sender needs the role in each of the person's projects, or in `default`",
		answer: NewInvitation{}, problems: slices.Concat([]int{400, 403, 404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.inviteAgain(r)) },
	},
	{
		method: http.MethodPost, path: "/people/{name}/sign-out", house: true, least: identity.Admin, name: "signOut", summary: "End a person's sessions, and make an unused link useless; the sender needs the role in each of the person's projects, or in `default`",
		answer: SignedOut{}, problems: slices.Concat([]int{400, 403, 404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.signOut(r)) },
	},
	{
		method: http.MethodDelete, path: "/people/{name}", process: true, least: identity.Admin, name: "removePerson", summary: "Remove a person with their roles in all projects, their sessions, and the API keys that act for them",
		answer: Person{}, problems: slices.Concat([]int{400, 404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.removePerson(r)) },
	},
}

// maxPersonBody is the maximum size in bytes of a request about a person.
const maxPersonBody = 4 << 10

// peopleAPI invites people to a project, and gives and takes their roles in it.
type peopleAPI struct {
	house
	base func(*http.Request) (string, *Problem) // the URL that links begin with
}

// readPeople answers GET /people.
func (a *peopleAPI) readPeople(r *http.Request) (any, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	all := slices.DeleteFunc(a.roster.People().All(), func(p store.Person) bool { return !a.shows(&p) })
	p, bad := pageOf(r, all, func(p *store.Person) string { return strings.ToLower(p.Name) + "\x00" + p.ID })
	if bad != nil {
		return nil, bad
	}
	out := People{People: make([]Person, 0, len(p.items)), Total: len(all), Next: p.next}
	for i := range p.items {
		out.People = append(out.People, a.show(&p.items[i]))
	}
	return out, nil
}

// shows reports whether the admins of the project may see a person.
func (a *peopleAPI) shows(p *store.Person) bool {
	return a.project.name() == event.DefaultProject || len(p.Roles[a.project.name()]) > 0
}

// invite answers POST /people.
func (a *peopleAPI) invite(r *http.Request, q InvitationRequest) (NewInvitation, *Problem) {
	who, bad := a.sender(r)
	if bad != nil {
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
	token, p, err := a.roster.Invite(r.Context(), who.Subject, q.Name, a.project.name(), roles)
	if err != nil {
		return NewInvitation{}, a.problem(err)
	}
	return a.invitation(base, token, &p), nil
}

// inviteAgain answers POST /people/{name}/invitation.
func (a *peopleAPI) inviteAgain(r *http.Request) (NewInvitation, *Problem) {
	who, p, bad := a.whole(r)
	if bad != nil {
		return NewInvitation{}, bad
	}
	base, bad := a.base(r)
	if bad != nil {
		return NewInvitation{}, bad
	}
	token, q, err := a.roster.Link(r.Context(), who, p.ID, a.project.name())
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

// setRoles answers PUT /people/{name}/roles. The person may be in other projects only: so somebody comes into
// a second project.
func (a *peopleAPI) setRoles(r *http.Request, q RolesRequest) (Person, *Problem) {
	who, p, bad := a.about(r)
	if bad != nil {
		return Person{}, bad
	}
	roles, err := access.RolesNamed(q.Roles)
	if err == nil {
		err = a.roster.SetRoles(r.Context(), who.Subject, p.ID, a.project.name(), roles)
	}
	if err != nil {
		return Person{}, a.problem(err)
	}
	return a.show(a.now(&p)), nil
}

// signOut answers POST /people/{name}/sign-out.
func (a *peopleAPI) signOut(r *http.Request) (SignedOut, *Problem) {
	who, p, bad := a.whole(r)
	if bad != nil {
		return SignedOut{}, bad
	}
	n, err := a.roster.SignOut(r.Context(), who, p.ID)
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

// removePerson answers DELETE /people/{name}. The route is one of the process, so the sender is an admin of
// the default project.
func (a *peopleAPI) removePerson(r *http.Request) (Person, *Problem) {
	who, p, bad := a.about(r)
	if bad != nil {
		return Person{}, bad
	}
	out := a.show(&p)
	if err := a.roster.Remove(r.Context(), who.Subject, p.ID); err != nil {
		return Person{}, a.problem(err)
	}
	return out, nil
}

// about returns who sent a request, and the person that its path names.
func (a *peopleAPI) about(r *http.Request) (who *identity.Principal, p store.Person, bad *Problem) {
	if who, bad = a.sender(r); bad == nil {
		p, bad = a.person(r.PathValue("name"))
	}
	return who, p, bad
}

// person returns the person with a name or an id.
func (h *house) person(name string) (store.Person, *Problem) {
	if p, ok := h.roster.People().Find(name); ok {
		return p, nil
	}
	return store.Person{}, noPerson()
}

// whole returns the person that the path of a request names, and the subject of its sender, if the sender may
// decide about this person as a whole, and not only in the project: whoever makes a link could open it, too.
func (a *peopleAPI) whole(r *http.Request) (who string, p store.Person, bad *Problem) {
	sender, p, bad := a.about(r)
	switch {
	case bad != nil:
		return "", p, bad
	case !a.shows(&p):
		return "", p, noPerson()
	case !a.decides(sender, &p):
		return "", p, notAll()
	}
	return sender.Subject, p, nil
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
	out := Person{ID: p.ID, Name: p.Name, Roles: []PersonRoles{}, Added: p.Added.UTC(), By: a.nameOf(p.Actor)}
	for _, project := range slices.Sorted(maps.Keys(p.Roles)) {
		if a.project.name() != event.DefaultProject && project != a.project.name() {
			continue
		}
		x := PersonRoles{Project: project}
		for _, r := range p.Roles[project] {
			x.Roles = append(x.Roles, r.String())
		}
		out.Roles = append(out.Roles, x)
	}
	if until := p.Open.Until.UTC(); p.Open.Sum != nil && time.Now().Before(until) {
		out.Invited = &until
	}
	if all := a.roster.People().Sessions(p.ID); len(all) > 0 {
		out.Sessions, out.Seen = len(all), all[0].Seen.UTC().Format(time.DateOnly)
	}
	return out
}
