package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// SignInDesk signs people in to the servers of all projects.
type SignInDesk interface {
	// SignInAt returns the sign-in at a server of a project, or nil if nobody signs in at it.
	SignInAt(project, server string) *signin.Server
	// LinkOf returns where somebody goes on with a sign-in, or "" if they can't from a browser of this process.
	LinkOf(who *identity.Principal, f *signin.Flow) string
	// Tallies returns how many have signed in at each server. The keys have no subject.
	Tallies() map[store.SignIn]signin.Tally
	SignOut(ctx context.Context, actor string, of store.SignIn) (there, revoked bool, err error)
}

// SignIns are the servers at which you can sign in, in all projects where you have a role.
type SignIns struct {
	SignIns []SignIn `json:"signIns" doc:"the servers that have asked for a sign-in, sorted by project, and in the order of the configuration"`
}

// SignIn is how far you are with the sign-in at a server.
type SignIn struct {
	Project string         `json:"project" doc:"the project that uses the server"`
	Server  string         `json:"server" doc:"the server's name"`
	URL     string         `json:"url" doc:"its address"`
	Shared  bool           `json:"shared" doc:"whether all use the same account, with which an operator signs in"`
	State   string         `json:"state" enum:"in,out,ended,waiting,failed" doc:"in: you can use the server; out: nobody has signed in; ended: there must be a new sign-in; waiting: a sign-in has begun, and waits for you; failed: the last sign-in has failed"`
	May     bool           `json:"may" doc:"whether you may sign in and out there"`
	Issuer  string         `json:"issuer,omitempty" doc:"the issuer at which somebody has signed in; left out if nobody has"`
	Scopes  []string       `json:"scopes" doc:"what the issuer has granted"`
	Until   *time.Time     `json:"until,omitempty" doc:"when the token ends; left out if nobody knows"`
	Renews  bool           `json:"renews" doc:"whether the token is renewed by itself"`
	Since   *time.Time     `json:"since,omitempty" doc:"when somebody has signed in; left out if nobody has"`
	Waits   *time.Time     `json:"waits,omitempty" doc:"until when a sign-in that has begun waits for you; left out if none does"`
	Failure *SignInFailure `json:"failure,omitempty" doc:"why the last sign-in has failed; left out if it hasn't"`
	People  *int           `json:"people,omitempty" doc:"how many people have signed in; only for operators, and left out if all use the same account"`
}

// SignInFailure is why a sign-in has failed.
type SignInFailure struct {
	Began time.Time    `json:"began" doc:"when the sign-in began"`
	Step  string       `json:"step" enum:"challenge,resource metadata,server metadata,registration,browser,token" doc:"the step that has failed"`
	Says  string       `json:"says" doc:"what has failed, and why"`
	Next  string       `json:"next,omitempty" doc:"what to do about it; left out if nobody knows"`
	Steps []SignInStep `json:"steps" doc:"the steps before it, as far as they are known"`
}

// SignInStep is a step that a sign-in has taken.
type SignInStep struct {
	Step string `json:"step" doc:"its name"`
	Got  string `json:"got" doc:"what came of it"`
}

// SignInLink is where a sign-in goes on.
type SignInLink struct {
	ID     string    `json:"id" doc:"the id of the sign-in"`
	Link   string    `json:"link" doc:"the address to open in a browser; for a person, it's a page of Dragoman that refuses everybody else"`
	Issuer string    `json:"issuer" doc:"the host that signs you in"`
	Scopes []string  `json:"scopes" doc:"what the issuer is asked for"`
	Until  time.Time `json:"until" doc:"when the link ends"`
}

// EndedSignIn is the response after somebody has signed out.
type EndedSignIn struct {
	Server  string `json:"server" doc:"the server's name"`
	Revoked bool   `json:"revoked" doc:"whether the issuer has revoked the tokens; otherwise they are forgotten here, and good until they end"`
}

var signInRoutes = []route{
	{
		method: http.MethodGet, path: "/signins", anywhere: true, process: true, people: true, least: identity.Viewer, name: "signIns", summary: "Where you are signed in, and where you can sign in",
		answer: SignIns{}, read: func(a *API, r *http.Request) (any, *Problem) {
			who, bad := a.signInAPI.visitor(r)
			if bad != nil {
				return nil, bad
			}
			return a.SignInsFor(who), nil
		},
	},
	{
		method: http.MethodPost, path: "/signins/{server}", people: true, least: identity.Viewer, name: "signIn", summary: "Begin to sign in to a server",
		answer: SignInLink{}, problems: []int{403, 404, 409, 502, 503}, read: func(a *API, r *http.Request) (any, *Problem) {
			who, bad := a.signInAPI.visitor(r)
			if bad != nil {
				return nil, bad
			}
			return result(a.BeginSignIn(r.Context(), who, a.project.name(), r.PathValue("server")))
		},
	},
	{
		method: http.MethodDelete, path: "/signins/{server}", people: true, least: identity.Viewer, name: "endSignIn", summary: "Sign out of a server: forget the tokens, and ask the issuer to revoke them",
		answer: EndedSignIn{}, problems: []int{403, 404, 409, 503}, read: func(a *API, r *http.Request) (any, *Problem) {
			who, bad := a.signInAPI.visitor(r)
			if bad != nil {
				return nil, bad
			}
			return result(a.SignOutOf(r.Context(), who, a.project.name(), r.PathValue("server")))
		},
	},
}

// signInAPI signs people in to servers.
type signInAPI struct {
	house
	desk     SignInDesk // nil if nobody signs in here
	projects func() []project
}

// SignInsFor returns where somebody can sign in. They see only the projects where they have a role, and of these no
// servers that the rules keep from them.
func (a *signInAPI) SignInsFor(who *identity.Principal) SignIns {
	out := SignIns{SignIns: []SignIn{}}
	if a.desk == nil {
		return out
	}
	all := a.desk.Tallies()
	for _, p := range a.projects() {
		for _, s := range a.servers(who, p) {
			at := s.at.Of(nil)
			at.Subject = ""
			n := all[at]
			if !s.at.Wanted() && n.All == 0 {
				continue
			}
			x := a.show(who, s)
			if s.operates && !x.Shared {
				x.People = &n.People
			}
			out.SignIns = append(out.SignIns, x)
		}
	}
	return out
}

// WaitingSignIns returns the sign-ins in this project that have begun and wait for somebody.
func (a *signInAPI) WaitingSignIns(who *identity.Principal) (all []SignIn) {
	if a.desk == nil || who == nil || a.safe == nil || !a.safe.Store().Snapshot().Waits(time.Now(), who.Subject, store.Shared) {
		return nil // at once, since each page asks
	}
	for _, s := range a.servers(who, a.project) {
		if x := a.show(who, s); x.May && x.Waits != nil {
			all = append(all, x)
		}
	}
	return all
}

// serverAt is a server at which people sign in, and a project that uses it.
type serverAt struct {
	project
	config.Server
	at       *signin.Server
	operates bool // whoever asks is an operator of the project that has the server
}

// servers returns the servers of a project at which people sign in, and that somebody may see.
func (a *signInAPI) servers(who *identity.Principal, p project) (all []serverAt) {
	if a.access.May(who, p.name(), identity.Viewer) != nil && a.access.May(who, p.name(), identity.Caller) != nil {
		return nil
	}
	s := p.Current()
	if s == nil {
		return nil
	}
	asker := p.Asker(who)
	for _, c := range s.Servers {
		home := p.name()
		if c.Shared {
			home = event.DefaultProject
		}
		at := a.desk.SignInAt(home, c.Name)
		if c.Disabled || at == nil || !at.Person() {
			continue
		}
		operates := a.access.May(who, home, identity.Operator) == nil
		if d := p.Decide(asker, catalog.KindServer, c.Name, ""); d.Rule != nil && d.Do == policy.Deny && !operates {
			continue
		}
		all = append(all, serverAt{p, c, at, operates})
	}
	return all
}

// show returns how far somebody is at a server.
func (a *signInAPI) show(who *identity.Principal, s serverAt) SignIn {
	clean := s.Clean(s.Name)
	text := func(text string) string { return excerpt.Line(cleanHead(text, clean), maxTitle) }
	of := s.at.Of(who)
	out := SignIn{Project: s.project.name(), Server: s.Name, URL: s.Describe(), Shared: of.Subject == store.Shared, State: "out", Scopes: []string{}}
	out.May = !out.Shared || s.operates
	state, err := s.at.State(context.Background(), of)
	if err != nil {
		says, next := signin.Explain(err)
		out.State, out.Failure = "failed", &SignInFailure{Step: string(signin.StepToken), Says: text(says), Next: text(next), Steps: []SignInStep{}}
		return out
	}
	if state.Signed {
		since := state.Since.UTC()
		out.State, out.Issuer, out.Scopes, out.Renews, out.Since = "in", text(state.Issuer), append(out.Scopes, state.Scopes...), state.Renews, &since
		if !state.Until.IsZero() {
			until := state.Until.UTC()
			out.Until = &until
		}
	}
	if !out.May { // what happens to it is the operators' business
		if out.Issuer, out.Scopes, out.Renews, out.Until = "", []string{}, false, nil; state.Spent {
			out.State = "ended"
		}
		return out
	}
	switch f := state.Failure; {
	case !state.Waits.IsZero():
		waits := state.Waits.UTC()
		if out.Waits = &waits; out.State != "in" || state.Spent {
			out.State = "waiting"
		}
	case f != nil:
		out.Failure = &SignInFailure{Began: f.Began.UTC(), Step: string(f.Step), Says: text(f.Says), Next: text(f.Next), Steps: []SignInStep{}}
		for _, x := range state.Passed {
			if x.Step == f.Step {
				break
			}
			out.Failure.Steps = append(out.Failure.Steps, SignInStep{string(x.Step), text(x.Text)})
		}
		if out.State != "in" || state.Spent {
			out.State = "failed"
		}
	case state.Spent:
		out.State = "ended"
	}
	return out
}

// find returns a server at which somebody may sign in and out.
func (a *signInAPI) findSignIn(who *identity.Principal, inProject, server string) (serverAt, *Problem) {
	if a.desk != nil {
		for _, p := range a.projects() {
			if p.name() != inProject {
				continue
			}
			for _, s := range a.servers(who, p) {
				switch {
				case s.Name != server:
				case s.at.Of(who).Subject == store.Shared && !s.operates:
					return s, &Problem{Type: "role", Title: "Operators sign in there", Status: http.StatusForbidden, Detail: "All use the same account at " + excerpt.Quote(server, maxName) + ", so an operator signs in."}
				default:
					return s, nil
				}
			}
		}
	}
	return serverAt{}, &Problem{Type: "no-such-signin", Title: "Nobody signs in there", Status: http.StatusNotFound, Detail: "The project has no server " + excerpt.Quote(server, maxName) + " at which people sign in, or you can't use it."}
}

// BeginSignIn begins the sign-in of somebody at a server, or joins the one that is under way.
func (a *signInAPI) BeginSignIn(ctx context.Context, who *identity.Principal, inProject, server string) (SignInLink, *Problem) {
	s, bad := a.findSignIn(who, inProject, server)
	if bad != nil {
		return SignInLink{}, bad
	}
	f, err := s.at.Begin(ctx, s.at.Of(who), false)
	var own *store.Error
	switch {
	case errors.As(err, &own):
		return SignInLink{}, &Problem{Type: "store", Title: "The database cannot be used", Status: http.StatusServiceUnavailable, Detail: sentence(own.Text, own.Next)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, signin.ErrClosed):
		return SignInLink{}, &Problem{Type: "signin", Title: "The sign-in has not begun", Status: http.StatusServiceUnavailable, Detail: "The request ended before the issuer was found."}
	case err != nil:
		clean := s.Clean(s.Name)
		says, next := signin.Explain(err)
		return SignInLink{}, &Problem{Type: "signin", Title: "The sign-in has failed", Status: http.StatusBadGateway, Detail: sentence(excerpt.Line(cleanHead(says, clean), maxTitle), excerpt.Line(next, maxTitle))}
	case f.Link() == "":
		return SignInLink{}, conflict("signed-in", "You are signed in", "There is a sign-in at "+excerpt.Quote(server, maxName)+" already. Sign out first to sign in as somebody else.")
	}
	link := a.desk.LinkOf(who, f)
	if link == "" {
		return SignInLink{}, conflict("elsewhere", "This browser can't sign in", "The issuer would send it to the public URL, where you have no session. Run `dragoman login "+server+"` in a terminal of this machine.")
	}
	return SignInLink{ID: f.ID(), Link: link, Issuer: f.Issuer(), Scopes: append([]string{}, f.Scopes()...), Until: f.Until().UTC()}, nil
}

// inPerson returns a problem if who is a key or a token that acts for the person whose sign-in it is. What only its owner
// can give back isn't for whoever has got hold of a key; see [keyAPI.own].
func (a *signInAPI) inPerson(who *identity.Principal, of store.SignIn) *Problem {
	if !strings.HasPrefix(of.Subject, store.PersonSubject) || a.roster == nil || a.signedIn(who) {
		return nil
	}
	return &Problem{
		Type: kindRole, Title: "A key can't sign its owner out", Status: http.StatusForbidden,
		Detail: "Whoever the sign-in is of ends it, signed in to the console, on the page Connections. On the machine of serve, `dragoman logout NAME --as PERSON` does it, too.",
	}
}

// SignOutOf signs somebody out of a server.
func (a *signInAPI) SignOutOf(ctx context.Context, who *identity.Principal, inProject, server string) (EndedSignIn, *Problem) {
	s, bad := a.findSignIn(who, inProject, server)
	if bad == nil {
		bad = a.inPerson(who, s.at.Of(who))
	}
	if bad != nil {
		return EndedSignIn{}, bad
	}
	there, revoked, err := a.desk.SignOut(ctx, who.Subject, s.at.Of(who))
	switch {
	case err != nil:
		says, next := signin.Explain(err)
		return EndedSignIn{}, &Problem{Type: "store", Title: "The database cannot be used", Status: http.StatusServiceUnavailable, Detail: sentence(strings.TrimSuffix(says, "."), next)}
	case !there:
		return EndedSignIn{}, conflict("not-signed-in", "Nobody is signed in", "There is no sign-in at "+excerpt.Quote(server, maxName)+" to end.")
	}
	return EndedSignIn{Server: server, Revoked: revoked}, nil
}
