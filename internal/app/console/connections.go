package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
)

// ConnectionsPath is the path of the page about the sign-ins of its viewer.
const ConnectionsPath = prefix + "/connections"

// SignInSource has the sign-ins of people at servers. Only BeginSignIn and SignOutOf may block.
type SignInSource interface {
	// SignInsFor returns where somebody can sign in, in all projects, and WaitingSignIns which sign-ins in this project
	// have begun and wait for them.
	SignInsFor(who *identity.Principal) admin.SignIns
	WaitingSignIns(who *identity.Principal) []admin.SignIn
	BeginSignIn(ctx context.Context, who *identity.Principal, project, server string) (admin.SignInLink, *admin.Problem)
	SignOutOf(ctx context.Context, who *identity.Principal, project, server string) (admin.EndedSignIn, *admin.Problem)
}

// connectionsView has the values of the page about the sign-ins of its viewer.
type connectionsView struct {
	Rows    []connection
	Pager   pager
	All     int
	Key     string
	Failed  []connection // those whose last sign-in has failed
	Done    string       // what has become of the sign-in from which the browser has come back
	Class   string       // of Done
	Problem string       // why the form did nothing
}

// connection is a server that wants a sign-in, as a row of the page.
type connection struct {
	admin.SignIn
	Several bool // there are others in another project
	Next    bool // its button gets the focus
}

// ID returns the id of the row, which is that of the section with its steps too.
func (c connection) ID() string { return fmt.Sprintf("c-%x", c.Project+"/"+c.Server) }

// Class returns the class of the text that Word returns.
func (c connection) Class() string {
	return "st " + map[string]string{"in": "ok quiet", "out": "idle", "ended": "warn", "waiting": "busy", "failed": "bad"}[c.State]
}

// Word returns how far the sign-in is.
func (c connection) Word() string {
	switch c.State {
	case "in":
		return "signed in"
	case "ended":
		return "ended, sign in again"
	case "waiting":
		return "waits for you until " + c.Waits.Local().Format("15:04")
	case "failed":
		return "failed at " + c.Failure.Step
	}
	return "not signed in"
}

// Lasts returns until when the sign-in is good.
func (c connection) Lasts() string {
	switch {
	case !c.May || c.State != "in":
		return ""
	case c.Renews:
		return "renewed by itself"
	case c.Until == nil:
		return "until the issuer ends it"
	}
	return "until " + when(*c.Until)
}

// Others returns how many people are signed in, for operators.
func (c connection) Others() string {
	switch {
	case c.People == nil:
		return ""
	case *c.People == 1:
		return "1 person is signed in"
	}
	return number(*c.People) + " people are signed in"
}

// Host returns the host of the issuer.
func (c connection) Host() string {
	if u, err := url.Parse(c.Issuer); err == nil && u.Host != "" {
		return u.Host
	}
	return c.Issuer
}

// Begin returns the text of the button that signs in, or "" if there is none.
func (c connection) Begin() string {
	switch {
	case !c.May || c.State == "in" && c.Waits == nil:
		return ""
	case c.Waits != nil:
		return "Go on"
	}
	return "Sign in"
}

// Ends reports whether there is something to sign out of.
func (c connection) Ends() bool { return c.May && (c.Since != nil || c.Waits != nil) }

// signInStep is a step of a sign-in that has failed.
type signInStep struct{ Class, Name, Text, Next string }

// Steps returns all steps: those that were taken, the one that has failed, and those that weren't reached.
func (c connection) Steps() (all []signInStep) {
	failed := slices.Index(signin.Steps, signin.Step(c.Failure.Step))
	for i, step := range signin.Steps {
		x := signInStep{Class: "ok", Name: string(step)}
		switch at := slices.IndexFunc(c.Failure.Steps, func(s admin.SignInStep) bool { return s.Step == string(step) }); {
		case i == failed:
			x.Class, x.Text, x.Next = "bad", c.Failure.Says, c.Failure.Next
		case i > failed:
			x.Class, x.Text = "no", "not reached"
		case at >= 0:
			x.Text = c.Failure.Steps[at].Got
		default:
			x.Text = "done"
		}
		all = append(all, x)
	}
	return all
}

// connectionPages are where people sign in to the servers that want to know who they are, and see until when. Operators
// also do it for the accounts that all share. Nobody sees the account or the tokens of anybody else.
type connectionPages struct {
	frame  *frame
	source SignInSource
	depart func(w http.ResponseWriter, r *http.Request, to admin.SignInLink, back string) // see Options.Depart
}

func (p *connectionPages) register(f *frame) {
	f.add(p.page())
	f.register("POST /connections", allowed{personal: true}, p.change)
}

func (p *connectionPages) page() Page {
	return Page{
		Path: "/connections", Personal: true, Whole: true, Template: "connections.html", Sheet: "second.css", Nav: "Connections", Group: accesses, Key: "H",
		View: func(r *http.Request) (*View, error) { return p.view(r, &connectionsView{}) },
	}
}

// view returns the page, and sets the remaining values of v.
func (p *connectionPages) view(r *http.Request, v *connectionsView) (*View, error) {
	all := p.source.SignInsFor(stateOf(r).viewer.who).SignIns
	several := slices.ContainsFunc(all, func(x admin.SignIn) bool { return x.Project != all[0].Project })
	moving := false
	var rows []connection
	for _, x := range all {
		c := connection{SignIn: x, Several: several}
		moving = moving || x.Waits != nil
		if x.Failure != nil {
			v.Failed = append(v.Failed, c)
		}
		rows = append(rows, c)
		v.Key += fmt.Sprint(x.Project, "/", x.Server, x.State, x.Scopes, x.Until, x.Waits, x.Failure != nil)
	}
	v.back(r.URL.Query(), rows)
	v.All = len(rows)
	v.Rows, v.Pager = paged(rows, r.URL.Query())
	return &View{Title: "Connections", Data: v, Moving: moving}, nil
}

// doneQuery and inQuery are the query parameters with the server to which the browser comes from, and its project.
const doneQuery, inQuery = "done", "in"

// back says what has become of the sign-in from which the browser has come back, and lets the next one have the focus.
func (v *connectionsView) back(q url.Values, rows []connection) {
	at := slices.IndexFunc(rows, func(c connection) bool { return c.Server == q.Get(doneQuery) && c.Project == q.Get(inQuery) })
	if at < 0 {
		return
	}
	switch c := rows[at]; {
	case c.State == "in":
		v.Done, v.Class = "You are signed in to "+excerpt.Line(c.Server, 80)+".", "ok"
	case c.Failure != nil:
		v.Done, v.Class = "You are not signed in to "+excerpt.Line(c.Server, 80)+". "+c.Failure.Says+".", "bad"
	default:
		v.Done, v.Class = "You are not signed in to "+excerpt.Line(c.Server, 80)+" yet.", "warn"
	}
	for i := range rows {
		if c := &rows[(at+1+i)%len(rows)]; c.Begin() != "" {
			c.Next = true
			return
		}
	}
}

// change handles the forms of the page.
func (p *connectionPages) change(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	project, server := r.PostForm.Get("project"), r.PostForm.Get("server")
	who, ctx := stateOf(r).viewer.who, r.Context()
	v := &connectionsView{}
	status := http.StatusBadRequest
	switch r.PostForm.Get("do") {
	case "in":
		to, bad := p.source.BeginSignIn(ctx, who, project, server)
		if bad == nil {
			p.leave(w, r, to, ConnectionsPath+"?"+url.Values{doneQuery: {server}, inQuery: {project}}.Encode())
			return
		}
		v.Problem, status = bad.Error(), bad.Status
	case "out":
		out, bad := p.source.SignOutOf(ctx, who, project, server)
		if bad == nil {
			if name := excerpt.Line(server, 80); out.Revoked {
				say(w, "You are signed out of "+name+".")
			} else {
				sayLonger(w, "You are signed out of "+name+". The issuer couldn't be asked to revoke the tokens, so they stay good until they expire. End the access on the issuer's page if somebody else may have them.")
			}
			http.Redirect(w, r, ConnectionsPath, http.StatusSeeOther)
			return
		}
		v.Problem, status = bad.Error(), bad.Status
	default:
		v.Problem = "The form can't be read. Load the page again."
	}
	p.frame.again(w, r, p.page(), func(r *http.Request) (*View, error) {
		view, err := p.view(r, v)
		if view != nil {
			view.Status = status
		}
		return view, err
	})
}

// leave sends the browser to the issuer, from where it comes back to a page of ours.
func (p *connectionPages) leave(w http.ResponseWriter, r *http.Request, to admin.SignInLink, back string) {
	if p.depart != nil {
		p.depart(w, r, to, back)
		return
	}
	ShowSignIn(w, r, http.StatusOK, &authserver.Page{Title: "Going to " + to.Issuer, Texts: []string{"One moment."}, Onward: to.Link})
}
