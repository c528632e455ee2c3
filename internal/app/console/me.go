package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// mePath is the path of the page about its viewer.
const mePath = prefix + "/me"

// linkWords are what somebody types who makes a link for another browser; see sure.
const linkWords = "let me in"

// meView has the values of the page about its viewer.
type meView struct {
	Name    string // the name of an invited person; "" for the local user
	Every   bool   // the viewer has every role in every project
	Roles   []admin.ProjectRoles
	Means   []roleMeaning
	Here    meSession
	Others  []meSession
	Key     string // changes when the sessions or the roles do
	Number  string // of the forms; see forms
	Sure    string // see sureWords
	Link    string // a link for another browser; "" if the form hasn't been sent
	Until   time.Time
	Problem string // why the form did nothing
	Near    bool   // a link works only on this machine
	NoLink  string // why no link can be made here; "" if one can
}

// meSession is a session, as a row of the page.
type meSession struct {
	admin.Browser
	Way string
}

// Title returns what the browser is called.
func (s meSession) Title() string { return cmp.Or(s.Name, "A browser") }

// roleMeaning says what somebody with a role may do.
type roleMeaning struct{ Role, Text string }

var roleMeanings = []struct {
	role identity.Role
	text string
}{
	{identity.Caller, "uses the MCP endpoints, with a key"},
	{identity.Viewer, "sees these pages"},
	{identity.Operator, "also starts and stops servers, and runs their tools"},
	{identity.Admin, "also changes servers, keys, secrets and people"},
}

// sessionWays say how a session began.
var sessionWays = map[string]string{
	access.ByInvitation: "by an invitation", access.ByLink: "by a link of yours", access.ByProvider: "at the identity provider", admin.WayTerminal: "by a link from the terminal",
}

// mePage shows people who they are here, what they may do, and where they are signed in.
type mePage struct {
	frame  *frame
	access *admin.Access
	forms  forms
}

func (p *mePage) register(f *frame) {
	f.add(p.page())
	f.register("POST /me", allowed{personal: true, sure: linkWords}, p.change)
}

func (p *mePage) page() Page {
	return Page{Path: "/me", Personal: true, Whole: true, Template: "me.html", Sheet: "second.css", Nav: "You", Group: accesses, Key: "Y", View: func(r *http.Request) (*View, error) { return p.view(r, &meView{}) }}
}

// view returns the page and sets the remaining values of v.
func (p *mePage) view(r *http.Request, v *meView) (*View, error) {
	me := stateOf(r).viewer
	v.Name, v.Number, v.Sure = p.access.NameOf(me.who), formNumber(), sureWords(r, linkWords)
	v.Roles, v.Every = p.access.RolesOf(me.who)
	for _, m := range roleMeanings {
		if slices.ContainsFunc(v.Roles, func(x admin.ProjectRoles) bool {
			return slices.ContainsFunc(x.Roles, func(r identity.Role) bool { return r.Includes(m.role) })
		}) {
			v.Means = append(v.Means, roleMeaning{m.role.String(), m.text})
		}
	}
	v.Here = meSession{me.session, sessionWays[me.session.Way]}
	for _, s := range p.access.Browsers(me.who) {
		if s.ID != me.session.ID {
			v.Others = append(v.Others, meSession{s, sessionWays[s.Way]})
		}
		v.Key += s.ID + s.Address + "\n"
	}
	v.Key += fmt.Sprint(v.Name, v.Roles)
	if v.Near = !p.access.Remote(r); v.Name == "" && !v.Near {
		v.NoLink = "A link for another browser can be made only on the machine where Dragoman runs."
	}
	return &View{Title: "You", Data: v}, nil
}

// change handles the forms of the page.
func (p *mePage) change(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	v, status := &meView{}, 0
	switch do, id := r.PostForm.Get("do"), r.PostForm.Get("session"); {
	case do == "end":
		if v.Problem = p.end(r, id); v.Problem == "" {
			say(w, "The session has ended.")
			http.Redirect(w, r, mePath, http.StatusSeeOther)
			return
		}
		status = http.StatusConflict
	case do == "link" && !sure(r, linkWords):
		v.Problem, status = unsure(linkWords), http.StatusForbidden
	case do == "link" && r.PostForm.Get("number") != "":
		status = p.link(r, v)
	default:
		v.Problem, status = "The form can't be read. Load the page again.", http.StatusBadRequest
	}
	p.frame.again(w, r, p.page(), func(r *http.Request) (*View, error) {
		view, err := p.view(r, v)
		if view != nil {
			view.Status = status
		}
		return view, err
	})
}

// end ends another session of the viewer, and returns why it can't.
func (p *mePage) end(r *http.Request, id string) string {
	switch ended, err := p.access.EndBrowser(r.Context(), stateOf(r).viewer.who, id); {
	case err != nil:
		return "The session has not ended, because Dragoman can't use its database now. Try again later."
	case !ended:
		return "This session has ended already."
	}
	return ""
}

// made is a link for another browser.
type made struct {
	link  string
	until time.Time
}

// link makes a link, and returns the status of the response.
func (p *mePage) link(r *http.Request, v *meView) int {
	answer, _ := p.forms.once(r, r.PostForm.Get("number"), func() any {
		link, until, err := p.access.OwnLink(r, stateOf(r).viewer.who)
		if err != nil {
			return err
		}
		return made{link, until}
	})
	switch x := answer.(type) {
	case made:
		v.Link, v.Until = x.link, x.until
		return http.StatusOK
	case error:
		v.Problem = "There is no link, because Dragoman can't use its database now. Try again later."
		return http.StatusServiceUnavailable
	}
	v.Problem = "This form was sent before, and its link is shown only once. Make another one."
	return http.StatusConflict
}
