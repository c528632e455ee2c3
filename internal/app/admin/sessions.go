package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// PersonDetails is a person with all that is theirs, as far as the admins of the project may see it.
type PersonDetails struct {
	Person
	Browsers []PersonSession `json:"browsers" doc:"the browsers in which the person is signed in, the one that was used last first"`
	Keys     []APIKey        `json:"keys" doc:"the API keys that act for the person, in the project of the request, or in all projects if that is default"`
	SignIns  []PersonSignIn  `json:"signIns" doc:"the servers at which the person is signed in, in the same projects"`
}

// PersonSessions are the sessions of a person.
type PersonSessions struct {
	Sessions []PersonSession `json:"sessions" doc:"the browsers in which the person is signed in, the one that was used last first"`
}

// PersonSession is a session of a person.
type PersonSession struct {
	ID      string    `json:"id" doc:"the session's id, which opens nothing"`
	Browser string    `json:"browser,omitempty" doc:"such as Firefox on Linux; left out if it isn't known"`
	Address string    `json:"address,omitempty" doc:"from where it was last used; left out if that isn't known"`
	Way     string    `json:"way,omitempty" doc:"how it began: invitation, link (one that the person has made) or provider; left out if that isn't known"`
	Began   time.Time `json:"began" doc:"when the person signed in there"`
	Seen    time.Time `json:"lastUsed" doc:"when it was last used, to about ten minutes"`
	Until   time.Time `json:"until" doc:"when it ends"`
}

// PersonSignIn says that a person is signed in at a server. It has neither tokens nor names of accounts.
type PersonSignIn struct {
	Project string    `json:"project" doc:"the project"`
	Server  string    `json:"server,omitempty" doc:"the server's name; left out if the project has no such server any more"`
	Since   time.Time `json:"since" doc:"since when"`
	Ended   bool      `json:"ended" doc:"whether the person has to sign in again"`
}

// RemovedPerson is a person who was removed.
type RemovedPerson struct {
	Person
	Keys    int `json:"keys" doc:"number of API keys that ended with the person"`
	SignIns int `json:"signIns" doc:"number of servers at which the person was signed in"`
}

// PersonFor returns somebody with all that is theirs, for who may decide about them as a whole.
func (a *API) PersonFor(ctx context.Context, who *identity.Principal, name string) (out PersonDetails, bad *Problem) {
	p, bad := a.whole(who, name)
	if bad != nil {
		return out, bad
	}
	out = PersonDetails{a.peopleAPI.show(&p), []PersonSession{}, a.keyAPI.showKeys(ctx, who, a.keysOfPerson(&p)), a.signInsOf(&p)}
	for _, s := range a.opts.Roster.People().Sessions(p.ID) {
		out.Browsers = append(out.Browsers, showSession(&s))
	}
	return out, nil
}

func showSession(s *store.Session) PersonSession {
	return PersonSession{s.ID, s.Browser, s.Address, s.Way, s.Began.UTC(), s.Seen.UTC(), s.Until.UTC()}
}

// EndSessionFor ends a session of somebody, for who may decide about them as a whole.
func (a *peopleAPI) EndSessionFor(ctx context.Context, who *identity.Principal, name, id string) (PersonSession, *Problem) {
	p, bad := a.whole(who, name)
	if bad != nil {
		return PersonSession{}, bad
	}
	all := a.roster.People().Sessions(p.ID)
	i := slices.IndexFunc(all, func(s store.Session) bool { return s.ID == id })
	ended, err := false, error(nil)
	if i >= 0 {
		ended, err = a.roster.EndOf(ctx, who.Subject, p.ID, id)
	}
	switch {
	case err != nil:
		return PersonSession{}, a.problem(err)
	case !ended:
		return PersonSession{}, &Problem{Type: "no-such-session", Title: "There is no such session", Status: http.StatusNotFound, Detail: "It has ended already, or was never one of this person. GET " + apiRoot + "/people/{name}/sessions lists those that there are."}
	}
	return showSession(&all[i]), nil
}

// keysOfPerson returns the keys that act for a person, as far as the project may see them.
func (a *peopleAPI) keysOfPerson(p *store.Person) []store.Key {
	return slices.DeleteFunc(a.safe.Store().Snapshot().Keys(), func(k store.Key) bool {
		return k.Owner != store.PersonSubject+p.ID || !a.reaches(k.Project)
	})
}

// reaches reports whether the admins of the project may see what somebody has in another one.
func (a *peopleAPI) reaches(project string) bool {
	return project == a.project.name() || a.project.name() == event.DefaultProject
}

// signInsOf returns at which servers a person is signed in.
func (a *peopleAPI) signInsOf(p *store.Person) []PersonSignIn {
	out, last := []PersonSignIn{}, store.SignIn{}
	for _, x := range a.safe.Store().Snapshot().AllCredentials() {
		if x.Subject == store.PersonSubject+p.ID && x.SignIn != last && a.reaches(x.Project) { // the newest comes first
			out, last = append(out, PersonSignIn{x.Project, a.serverAt(x.SignIn), x.Since.UTC(), x.Spent}), x.SignIn
		}
	}
	return out
}

// serverAt returns the name of the server that a sign-in is for, or "" if its project has none any more.
func (a *peopleAPI) serverAt(x store.SignIn) string {
	p := a.project.Project
	if x.Project != a.project.name() {
		p = a.inUse(x.Project)
	}
	if p == nil {
		return ""
	}
	var servers []config.Server
	if now := p.Current(); now != nil {
		servers = now.Servers
	}
	for i := range servers {
		if id, err := oauth.Canonical(servers[i].URL); servers[i].URL != "" && err == nil && id == x.Server {
			return servers[i].Name
		}
	}
	return ""
}
