package daemon

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/console"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// These are the paths of the page on which a person goes on to the issuer of a server, and of the one to which
// the issuer sends them back. Both are below the path of the public URL.
const (
	connectPath  = "/connect/"
	callbackPath = "/oauth/callback"
)

// connectPage is the page behind a link that a client shows to its person. The link is ours, and not the issuer's,
// because we have to know that whoever opens it is whoever has called (2025-11-25 §Elicitation, "Phishing").
// Otherwise somebody could send their link to others, and use what these are signed in to.
type connectPage struct {
	desk    *signin.Desk
	public  string // the public URL without a slash at the end, or ""
	below   string // its path
	cookies authserver.Cookies
	who     func(*http.Request) *identity.Principal
	// operates reports whether somebody may sign in for the services of a project.
	operates func(who *identity.Principal, project string) bool
	command  func(*http.Request) string // opens the console of this process
	log      *slog.Logger
	denied   access.Denials
	cross    *http.CrossOriginProtection
}

// routes registers the handlers with mux.
func (p *connectPage) routes(mux *http.ServeMux) {
	if p == nil {
		return
	}
	mux.HandleFunc(connectPath, p.connect)
	if p.public != "" {
		mux.HandleFunc(callbackPath, p.callback)
		mux.HandleFunc(callbackPath+"/", p.callback)
	}
	if p.desk.HasDocuments() {
		for _, path := range signin.DocumentPaths {
			mux.HandleFunc(path, p.document)
		}
	}
}

// paths returns the beginnings of the paths that people open.
func (p *connectPage) paths() []string {
	if p == nil {
		return nil
	}
	return []string{connectPath}
}

// flowIDs are the IDs of flows; see signin.Flow.ID.
var flowIDs = regexp.MustCompile(`^[0-9a-f]{64}$`)

// hereQuery says that our own page leads to a page, so that the browser shows us the session.
const hereQuery = "here"

// connect shows who signs in to what, and on the press of a button goes to the issuer. Nothing changes before.
func (p *connectPage) connect(w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, connectPath)
	flow, ok, err := signin.Waiting{}, false, error(nil)
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		httpdoor.RefuseMethod(w, "GET, HEAD, POST")
		return
	case r.Method == http.MethodPost && p.cross.Check(r) != nil:
		p.say(w, r, http.StatusForbidden, "This request was refused", "A page of another site has sent it.")
		return
	case r.Method != http.MethodPost && !r.URL.Query().Has(hereQuery) && flowIDs.MatchString(id):
		// Another site may have led here, and then the browser doesn't show us the cookie of its session. So this
		// page, which is the same for all, leads to the next one.
		console.ShowSignIn(w, r, http.StatusOK, &authserver.Page{Title: "Signing in", Texts: []string{"One moment."}, Onward: p.below + connectPath + id + "?" + hereQuery})
		return
	case flowIDs.MatchString(id):
		flow, ok, err = p.desk.Waiting(r.Context(), id)
	}
	who := p.who(r)
	switch {
	case err != nil:
		p.log.Warn("the sign-ins could not be read", "cause", err.Error())
		p.say(w, r, http.StatusServiceUnavailable, "This is not possible now", "Dragoman can't use its database. Try again later.")
	case who == nil:
		p.enter(w, r, id)
	case !ok:
		p.say(w, r, http.StatusNotFound, "This link is no longer good", "It was used, or it is older than 10 minutes. Call again in your client to get another one.")
	case !p.may(who, &flow):
		p.log.Warn("a sign-in link was opened by somebody else", "server", excerpt.Line(flow.Server, 200), "of", flow.Subject, "by", who.Subject)
		p.denied(r, "a sign-in link of somebody else", who)
		p.say(w, r, http.StatusForbidden, "This link is not for you", "It belongs to somebody else, who is still able to use it. If somebody has sent it to you, don't sign in for them: they would use the server as you.")
	case r.Method == http.MethodPost && r.PostFormValue("answer") == "allow":
		// A page leads to the issuer, and no redirect: browsers apply the page's policy for forms to all redirects
		// that follow, and we don't know to which hosts the issuer leads.
		p.cookies.Set(w, r, boundCookie+id, "1") // so this browser may bring the answer of the issuer
		console.ShowSignIn(w, r, http.StatusOK, &authserver.Page{Title: "Going to " + flow.Issuer, Texts: []string{"One moment."}, Onward: flow.Link})
	case r.Method == http.MethodPost:
		p.say(w, r, http.StatusOK, "You are not signed in", "You can close this page. The link stays good for a while, if you change your mind.")
	default:
		p.ask(w, r, id, who, &flow)
	}
}

// may reports whether somebody is who has called, or an operator, if that was a service or if all use the same account.
func (p *connectPage) may(who *identity.Principal, flow *signin.Waiting) bool {
	forAll := flow.Subject == store.Shared || strings.HasPrefix(flow.Subject, access.KeySubject)
	return who.Subject == flow.Subject || forAll && p.operates(who, flow.Project)
}

func (p *connectPage) ask(w http.ResponseWriter, r *http.Request, id string, who *identity.Principal, flow *signin.Waiting) {
	page := &authserver.Page{
		Title: "Sign in to " + flow.Host,
		Texts: []string{"One of your clients has called a server that wants to know who you are. You go on at " + flow.Issuer + "."},
		Facts: []authserver.Fact{{Name: "You are", Value: authserver.NameOf(who)}, {Name: "Server", Value: flow.URL}, {Name: "Signs you in", Value: flow.Issuer}},
		Ask:   &authserver.Ask{Path: p.below + connectPath + id, Deny: "Not now", Allow: "Go on"},
	}
	switch {
	case flow.Subject == store.Shared:
		page.Texts = []string{"All use the account with which you sign in at " + flow.Issuer + "."}
		page.Facts = append(page.Facts, authserver.Fact{Name: "For", Value: "everybody in the project " + flow.Project})
	case who.Subject != flow.Subject:
		page.Facts = append(page.Facts, authserver.Fact{Name: "For", Value: "a service of the project " + flow.Project})
	}
	if len(flow.Scopes) > 0 {
		page.Facts = append(page.Facts, authserver.Fact{Name: "It may", Value: strings.Join(flow.Scopes, " ")})
	}
	console.ShowSignIn(w, r, http.StatusOK, page)
}

// enter tells somebody without a session how to get one. They then go on with the link.
func (p *connectPage) enter(w http.ResponseWriter, r *http.Request, id string) {
	if flowIDs.MatchString(id) {
		p.cookies.Set(w, r, returnCookie, id)
	}
	page := &authserver.Page{Title: "Sign in first", Texts: []string{
		"This browser is not signed in to Dragoman. Open the link of your invitation in it, within 10 minutes, and this sign-in goes on. If your link was used, ask an admin for another one.",
	}}
	if p.public == "" {
		// We can't lead to the console's name, where the browser may have a session: nobody else may learn it, since
		// cookies reach programs at all ports of a name. Browsers that can't open that name have a password instead.
		w.Header().Set("WWW-Authenticate", `Basic realm="Dragoman console", charset="UTF-8"`)
		page.Texts = []string{
			"This browser has no session of the console here. Run this command in a terminal, as the user who started Dragoman, and this sign-in goes on.",
			"If your client's key is a person's, it's `dragoman people link NAME` instead. Open the link that it prints in this browser.",
		}
		page.Command = p.command(r)
	}
	console.ShowSignIn(w, r, http.StatusUnauthorized, page)
}

func (p *connectPage) say(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	console.ShowSignIn(w, r, status, &authserver.Page{Title: title, Texts: []string{text}})
}

// callback answers a browser that an issuer has sent back. Only the browser that has pressed the button may bring
// the answer: with another one's, somebody could make people sign in for them (TA34).
func (p *connectPage) callback(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id := signin.FlowOf(q.Get("state"))
	bound := p.cookies.All(r, boundCookie+id)
	switch {
	case r.Method != http.MethodGet:
		httpdoor.RefuseMethod(w, "GET")
	case q.Get("state") == "" || len(bound) == 0:
		p.denied(r, "an answer for a sign-in of another browser", p.who(r))
		p.say(w, r, http.StatusForbidden, "This page belongs to no sign-in of this browser", "Start again with the link that your client shows.")
	default:
		p.cookies.Set(w, r, boundCookie+id, "")
		p.finished(w, r, bound[0].Value, p.desk.Finish(r.Context(), p.below+r.URL.Path, q))
	}
}

// document answers the issuers that read who we are. All get the same, whatever else they send.
func (p *connectPage) document(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		httpdoor.RefuseMethod(w, "GET, HEAD")
		return
	}
	text, err := p.desk.Document(r.Context(), r.URL.Path)
	switch {
	case err != nil:
		p.log.Warn("the sign-ins could not be read", "cause", err.Error())
		http.Error(w, "Dragoman can't use its database.", http.StatusServiceUnavailable)
	case text == nil:
		httpdoor.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(text)
	}
}

// The cookie of a flow says that this browser has pressed the button for it, and returnCookie has the link with which the
// browser goes on when its person has signed in.
const (
	boundCookie  = "dragoman_connect_"
	returnCookie = "dragoman_connect"
)

// back returns the link with which a browser goes on that has just signed in, or "". It forgets that. p may be
// nil.
func (p *connectPage) back(w http.ResponseWriter, r *http.Request) string {
	if p == nil {
		return ""
	}
	for _, c := range p.cookies.All(r, returnCookie) {
		if flowIDs.MatchString(c.Value) {
			p.cookies.Set(w, r, returnCookie, "")
			return connectPath + c.Value
		}
	}
	return ""
}
