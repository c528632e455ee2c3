package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// PeopleDesk invites people, shows them, and gives and takes what they have. *admin.API implements PeopleDesk. A project
// of "" is the API's own.
type PeopleDesk interface {
	PeopleFor(*identity.Principal) ([]admin.Person, *admin.Problem)
	PersonFor(ctx context.Context, who *identity.Principal, name string) (admin.PersonDetails, *admin.Problem)
	InviteFor(r *http.Request, who *identity.Principal, project string, q admin.InvitationRequest) (admin.NewInvitation, *admin.Problem)
	InviteAgainFor(r *http.Request, who *identity.Principal, name string) (admin.NewInvitation, *admin.Problem)
	SetRolesFor(ctx context.Context, who *identity.Principal, name, project string, q admin.RolesRequest) (admin.Person, *admin.Problem)
	EndSessionFor(ctx context.Context, who *identity.Principal, name, session string) (admin.PersonSession, *admin.Problem)
	SignOutFor(ctx context.Context, who *identity.Principal, name string) (admin.SignedOut, *admin.Problem)
	RemovePersonFor(ctx context.Context, who *identity.Principal, name string) (admin.RemovedPerson, *admin.Problem)
}

// removeWord is what somebody types who removes a person, since that can't be undone.
const removeWord = "remove"

// peoplePages are the list of people, with the form that invites somebody, and the page of each. A link is in one
// response only.
type peoplePages struct {
	frame  *frame
	source PeopleDesk
	forms  forms
}

func (p *peoplePages) register(f *frame) {
	f.add(p.listPage())
	f.add(p.personPage())
	f.handleSure("POST /people", identity.Admin, accessWords, p.invite)
	f.handleSure("POST /people/{id}", identity.Admin, accessWords, p.act)
}

func (p *peoplePages) listPage() Page {
	return Page{
		Path: "/people", Least: identity.Admin, Personal: true, Template: "people.html", Sheet: "second.css", Nav: "People", Group: accesses, Key: "U",
		View: func(r *http.Request) (*View, error) {
			return p.list(r, &peopleList{Chosen: []string{identity.Caller.String(), identity.Viewer.String()}})
		},
	}
}

func (p *peoplePages) personPage() Page {
	return Page{Path: "/people/{id}", Least: identity.Admin, Personal: true, Template: "person.html", Sheet: "second.css", View: func(r *http.Request) (*View, error) { return p.person(r, &personView{}) }}
}

// personRow is a person in the list.
type personRow struct{ admin.Person }

// Path returns the path of the person's page.
func (x personRow) Path() string { return pathOf("people", x.ID) }

// Signed says whether the person is signed in somewhere.
func (x personRow) Signed() string {
	switch {
	case x.Sessions > 0:
		return plural(x.Sessions, "browser")
	case x.Invited != nil:
		return "invited"
	}
	return "nowhere"
}

// peopleList has the values of the list.
type peopleList struct {
	Q            url.Values
	Search       string
	All          int
	Several      bool // there are several projects
	Roles, In    []choice
	Rows         []personRow
	Pager        pager
	Key          string
	Number, Sure string
	Problem      string
	Errors       []form.Error
	Name         string
	Project      string
	Projects     []choice
	Chosen       []string
	Made         *admin.NewInvitation // nil unless somebody was just invited
	Held         []roleBox
}

// roleBox is a role that can be chosen.
type roleBox struct {
	Role    string
	Checked bool
}

func roleBoxes(chosen []string) (all []roleBox) {
	for _, r := range []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin} {
		all = append(all, roleBox{r.String(), slices.Contains(chosen, r.String())})
	}
	return all
}

// projectsOf returns the names of all projects, or none if there's only one.
func projectsOf(r *http.Request) []string {
	if all := statusOf(r).Projects; len(all) > 1 {
		return all
	}
	return nil
}

// list returns the list, and sets the remaining values of v.
func (p *peoplePages) list(r *http.Request, v *peopleList) (*View, error) {
	q := r.URL.Query()
	all, bad := p.source.PeopleFor(stateOf(r).viewer.who)
	if bad != nil {
		return nil, problemError(bad, Crumb{})
	}
	v.Q, v.Search, v.All, v.Held = q, q.Get("q"), len(all), roleBoxes(v.Chosen)
	v.Number, v.Sure = formNumber(), sureWords(r, accessWords)
	v.Roles = choices(q.Get("role"), "any role", "caller", "caller", "viewer", "viewer", "operator", "operator", "admin", "admin", "none", "none")
	projects := projectsOf(r)
	v.Several = projects != nil
	pairs := []string{}
	for _, name := range projects {
		pairs = append(pairs, name, name)
		v.Projects = append(v.Projects, choice{name, name, name == v.Project})
	}
	v.In = choices(q.Get("project"), "any project", pairs...)
	var rows []personRow
	for _, x := range all {
		if row := (personRow{x}); row.fits(q) {
			rows = append(rows, row)
		}
	}
	sorted(rows, q, "name", map[string]func(a, b personRow) int{
		"name":  func(a, b personRow) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) },
		"seen":  func(a, b personRow) int { return strings.Compare(a.Seen, b.Seen) },
		"in":    func(a, b personRow) int { return cmp.Compare(a.Sessions, b.Sessions) },
		"added": func(a, b personRow) int { return a.Added.Compare(b.Added) },
	})
	v.Rows, v.Pager = paged(rows, q)
	for _, x := range v.Rows {
		v.Key += fmt.Sprintln(x.ID, x.Roles, x.Sessions, x.Seen, x.Invited != nil)
	}
	return &View{Title: "People", Data: v}, nil
}

// fits reports whether the list shows a person with a filter.
func (x personRow) fits(q url.Values) bool {
	role, project := q.Get("role"), q.Get("project")
	has := func(in admin.PersonRoles) bool {
		return (project == "" || in.Project == project) && (role == "" || role == "none" || slices.Contains(in.Roles, role))
	}
	if found := slices.ContainsFunc(x.Roles, has); (role != "" || project != "") && found == (role == "none") {
		return false
	}
	return matches(q.Get("q"), x.Name, x.ID)
}

// personDone is what became of a form about people: a sentence, a problem, or a link that isn't kept.
type personDone struct {
	id, done string
	bad      *admin.Problem
}

// invite handles the form that invites somebody.
func (p *peoplePages) invite(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	f, number := r.PostForm, r.PostForm.Get("number")
	v := &peopleList{Name: strings.TrimSpace(f.Get("name")), Project: f.Get("project"), Chosen: f["role"]}
	show := func(status int) {
		p.frame.again(w, r, p.listPage(), func(r *http.Request) (*View, error) {
			view, err := p.list(r, v)
			if view != nil {
				view.Status = status
			}
			return view, err
		})
	}
	if err := access.CheckName(v.Name); err != nil {
		v.Errors = append(v.Errors, form.Error{ID: "i-name", Name: "Name:", Text: err.Error()})
	}
	if len(v.Chosen) == 0 {
		v.Errors = append(v.Errors, form.Error{ID: "i-roles", Name: "Roles:", Text: "somebody without a role can do nothing, so choose one at least"})
	}
	switch {
	case number == "":
		p.frame.fail(w, r, unreadable(allPeople.Path))
		return
	case v.Errors != nil:
		show(http.StatusUnprocessableEntity)
		return
	case !sure(r, accessWords):
		v.Problem = unsure(accessWords)
		show(http.StatusForbidden)
		return
	}
	p.link(w, r, number, func(r *http.Request, who *identity.Principal) (admin.NewInvitation, *admin.Problem) {
		return p.source.InviteFor(r, who, v.Project, admin.InvitationRequest{Name: v.Name, Roles: v.Chosen})
	}, func(x *admin.NewInvitation) {
		*v = peopleList{Made: x, Chosen: []string{identity.Caller.String(), identity.Viewer.String()}}
		show(http.StatusOK)
	}, func(bad *admin.Problem) {
		if v.Problem = bad.Error(); bad.Type == "person-exists" {
			v.Problem, v.Errors = "", []form.Error{{ID: "i-name", Name: "Name:", Text: strings.TrimSuffix(bad.Error(), ".")}}
		}
		show(bad.Status)
	})
}

var allPeople = Crumb{"Show all people", pathOf("people")}

// link makes a link, and shows it in this response and no other.
func (p *peoplePages) link(w http.ResponseWriter, r *http.Request, number string, act func(*http.Request, *identity.Principal) (admin.NewInvitation, *admin.Problem), done func(*admin.NewInvitation), failed func(*admin.Problem)) {
	var made admin.NewInvitation
	answer, again := p.forms.once(r, number, func() any {
		who, x := stateOf(r).viewer.who, personDone{}
		made, x.bad = act(r, who)
		x.id = made.ID
		return x
	})
	switch x, known := answer.(personDone); {
	case known && x.bad != nil:
		failed(x.bad)
		p.forms.forget(r, number)
	case again:
		e := &pageError{Status: http.StatusConflict, Title: "This form was sent before", Text: "It acted once, and the link was shown once, in the answer to the first sending. If nobody has kept it, make another one; it takes the place of this one.", Next: allPeople}
		if known && x.id != "" {
			e.Next = Crumb{"Show the person", pathOf("people", x.id)}
		}
		p.frame.fail(w, r, e)
	default:
		done(&made)
	}
}

// personView has the values of a person's page.
type personView struct {
	admin.PersonDetails
	In           []projectRoles // the projects, those in which the person has a role first
	Sessions     []meSession
	Owned        []keyRow
	Here         string // the viewer's own session
	Self         bool   // the person is the viewer
	Gone         bool   // somebody has removed the person, while the page was open
	Made         *admin.NewInvitation
	Number, Sure string
	Word         string
	Problem      string
	Errors       []form.Error
}

// projectRoles are a person's roles in a project, with what can be chosen.
type projectRoles struct {
	Index        int
	Project, Was string
	Named        bool // there are several projects, so each is named
	Boxes        []roleBox
}

// Path returns the path of the person's page.
func (v *personView) Path() string { return pathOf("people", v.ID) }

// Mark changes when what the page says of the person does.
func (v *personView) Mark() string {
	if v.Gone {
		return "gone"
	}
	out := fmt.Sprint(v.ID, v.Roles, v.Invited != nil, v.SignIns)
	for i := range v.Sessions {
		out += v.Sessions[i].ID + v.Sessions[i].Address
	}
	for i := range v.Owned {
		out += v.Owned[i].ID + v.Owned[i].Word()
	}
	return out
}

// Ends says what ends with the person.
func (v *personView) Ends() string {
	return plural(len(v.Sessions), "session") + ", " + plural(len(v.Owned), "key") + " that " + map[bool]string{true: "acts", false: "act"}[len(v.Owned) == 1] + " for them, and " + plural(len(v.SignIns), "sign-in") + " at servers"
}

// person returns the page of a person, and sets the remaining values of v.
func (p *peoplePages) person(r *http.Request, v *personView) (*View, error) {
	who := stateOf(r).viewer.who
	x, bad := p.source.PersonFor(r.Context(), who, r.PathValue("id"))
	switch {
	case bad != nil && stateOf(r).feed:
		return &View{Data: &personView{Gone: true}}, nil // the page loads again, and says so
	case bad != nil:
		return nil, &pageError{Status: bad.Status, Title: bad.Title, Text: "Nobody has this id, or an admin has removed the person.", Next: allPeople}
	}
	v.PersonDetails, v.Number, v.Sure, v.Word = x, formNumber(), sureWords(r, accessWords), removeWord
	v.Here, v.Self = stateOf(r).viewer.session.ID, who != nil && guestOf(r) == x.Name
	for _, s := range x.Browsers {
		v.Sessions = append(v.Sessions, meSession{admin.Browser{ID: s.ID, Name: s.Browser, Address: s.Address, Way: s.Way, Began: s.Began, Seen: s.Seen, Until: s.Until}, sessionWays[s.Way]})
	}
	for _, k := range x.Keys {
		v.Owned = append(v.Owned, keyRow{k})
	}
	for _, in := range x.Roles {
		v.In = append(v.In, projectRoles{Project: in.Project, Was: strings.Join(in.Roles, " "), Boxes: roleBoxes(in.Roles)})
	}
	others := projectsOf(r)
	if others == nil && len(v.In) == 0 {
		others = []string{""} // the only one
	}
	for _, name := range others {
		if !slices.ContainsFunc(v.In, func(in projectRoles) bool { return in.Project == name }) {
			v.In = append(v.In, projectRoles{Project: name, Was: "none", Boxes: roleBoxes(nil)})
		}
	}
	for i := range v.In {
		v.In[i].Index, v.In[i].Named = i, v.In[i].Project != "" && (len(v.In) > 1 || projectsOf(r) != nil)
	}
	return &View{Title: excerpt.Line(x.Name, 100), Crumbs: []Crumb{{"People", pathOf("people")}}, Data: v, Stream: v.Path()}, nil
}

// act handles the forms of a person's page.
func (p *peoplePages) act(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	f, id, number, v := r.PostForm, r.PathValue("id"), r.PostForm.Get("number"), &personView{}
	show := func(status int) {
		p.frame.again(w, r, p.personPage(), func(r *http.Request) (*View, error) {
			view, err := p.person(r, v)
			if view != nil {
				view.Status = status
			}
			return view, err
		})
	}
	failed := func(bad *admin.Problem) {
		if bad.Type == "no-such-person" {
			p.frame.fail(w, r, &pageError{Status: http.StatusNotFound, Title: "There is no such person", Text: "An admin has removed them meanwhile. Nothing has changed now.", Next: allPeople})
			return
		}
		v.Problem = bad.Error()
		show(bad.Status)
	}
	do, confirmed := f.Get("do"), strings.EqualFold(strings.TrimSpace(f.Get("confirm")), removeWord)
	switch change := p.change(do, id, f); {
	case number == "" || change == nil && do != "link":
		p.frame.fail(w, r, unreadable(allPeople.Path))
	case !sure(r, accessWords):
		failed(&admin.Problem{Status: http.StatusForbidden, Detail: unsure(accessWords)})
	case do == "remove" && !confirmed:
		v.Errors = []form.Error{{ID: "confirm", Name: "Remove:", Text: "nothing has been done yet, since that can't be undone. Type “" + removeWord + "” into the field and send the form again"}}
		show(http.StatusUnprocessableEntity)
	case do == "link":
		p.link(w, r, number, func(r *http.Request, who *identity.Principal) (admin.NewInvitation, *admin.Problem) {
			return p.source.InviteAgainFor(r, who, id)
		}, func(x *admin.NewInvitation) {
			v.Made = x
			show(http.StatusOK)
		}, failed)
	default:
		p.finish(w, r, number, change, failed)
	}
}

// change returns what a form of a person's page does, or nil if that's nothing we know.
func (p *peoplePages) change(do, id string, f url.Values) func(context.Context, *identity.Principal) personDone {
	switch do {
	case "roles":
		return func(ctx context.Context, who *identity.Principal) personDone {
			x, bad := p.source.SetRolesFor(ctx, who, id, f.Get("project"), admin.RolesRequest{Roles: f["role"], Was: strings.Fields(f.Get("was"))})
			return personDone{id, "The roles of " + excerpt.Line(x.Name, 100) + " count from now on, also in open pages.", bad}
		}
	case "end":
		return func(ctx context.Context, who *identity.Principal) personDone {
			_, bad := p.source.EndSessionFor(ctx, who, id, f.Get("session"))
			return personDone{id, "The session has ended. Its pages and streams end within 5 s.", bad}
		}
	case "sign-out":
		return func(ctx context.Context, who *identity.Principal) personDone {
			x, bad := p.source.SignOutFor(ctx, who, id)
			return personDone{id, "Signed " + excerpt.Line(x.Name, 100) + " out of " + plural(x.Ended, "browser") + ". An unused link doesn't work any more.", bad}
		}
	case "remove":
		return func(ctx context.Context, who *identity.Principal) personDone {
			x, bad := p.source.RemovePersonFor(ctx, who, id)
			return personDone{"", excerpt.Line(x.Name, 100) + " is removed, and with them " + plural(x.Sessions, "session") + ", " + plural(x.Keys, "key") + " and " + plural(x.SignIns, "sign-in") + " at servers.", bad}
		}
	}
	return nil
}

// finish makes a change once, and goes on to the page that shows it.
func (p *peoplePages) finish(w http.ResponseWriter, r *http.Request, number string, change func(context.Context, *identity.Principal) personDone, failed func(*admin.Problem)) {
	answer, _ := p.forms.once(r, number, func() any {
		who := stateOf(r).viewer.who
		return change(r.Context(), who)
	})
	x, known := answer.(personDone)
	switch {
	case !known:
		p.frame.fail(w, r, &pageError{Status: http.StatusConflict, Title: "This form was sent before", Text: "It acted once. Look at what there is now.", Next: allPeople})
		return
	case x.bad != nil:
		failed(x.bad)
		p.forms.forget(r, number)
		return
	}
	say(w, x.done)
	to := pathOf("people")
	if x.id != "" {
		to = pathOf("people", x.id)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
