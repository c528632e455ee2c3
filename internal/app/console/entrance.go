package console

import (
	"bytes"
	"cmp"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// headers sets the header fields that every response has.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers post forms with "Origin: null"
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}

// passwordPath is where a link can be exchanged for a password. signInPath makes the browser ask for
// the password. Browsers then send it with all requests below /console/ (RFC 7617 §2.2). signOutPath
// ends the session.
const (
	passwordPath = prefix + "/password"
	signInPath   = prefix + "/signin"
	signOutPath  = prefix + "/signout"
)

// eventsPath is where the pages get their live values.
const eventsPath = prefix + "/events"

// passwordQuery is the query parameter of a link that asks for a password.
const passwordQuery = "password"

// door decides who enters the console: it signs browsers in and out, and refuses requests.
type door struct {
	off     string // why the console is off; "" if it is on
	access  *admin.Access
	program string // the command that a user types to start Dragoman
	// next is Options.Return, which may be nil.
	next func(http.ResponseWriter, *http.Request) string
}

// nextQuery is the query parameter of a link that has what Options.Return returned at another host.
const nextQuery = "next"

// after returns where a browser goes that has just signed in, on this host.
func (d *door) after(w http.ResponseWriter, r *http.Request) string {
	if next := r.URL.Query().Get(nextQuery); strings.HasPrefix(next, "/authorize?") || strings.HasPrefix(next, "/connect/") {
		return next
	}
	if d.next != nil {
		if next := d.next(w, r); next != "" {
			return next
		}
	}
	return prefix + "/"
}

// withNext adds to a link to the console's name where the browser goes from there.
func (d *door) withNext(w http.ResponseWriter, r *http.Request, link string) string {
	if d.next != nil {
		if next := d.next(w, r); next != "" {
			link += "&" + nextQuery + "=" + url.QueryEscape(next)
		}
	}
	return link
}

// admit returns for whom the response to a request is, and in which session. If the request belongs to no session, or
// if it is about the session itself, admit writes the response, and ok is false.
func (d *door) admit(w http.ResponseWriter, r *http.Request) (who *identity.Principal, session admin.Browser, ok bool) {
	if !d.admitSite(w, r) || d.admitStranger(w, r) {
		return nil, session, false
	}
	who, session = d.access.Browsing(r)
	switch {
	case who != nil && r.URL.Path == signInPath:
		http.Redirect(w, r, prefix+"/", http.StatusSeeOther)
	case who != nil && r.URL.Path == signOutPath && r.Method == http.MethodPost:
		d.signOut(w, r)
	case who != nil:
		d.access.See(r, who, session)
		return who, session, true
	default:
		d.refuse(w, r)
	}
	return nil, session, false
}

// admitStranger answers a request that needs no session, because it begins one. It returns false if the request is
// another one.
func (d *door) admitStranger(w http.ResponseWriter, r *http.Request) bool {
	if token := r.URL.Query().Get(admin.LinkQuery); token != "" && r.URL.Path == prefix+"/" {
		d.enter(w, r, token)
		return true
	}
	if r.URL.Path == admin.InvitationPath {
		d.invitation(w, r)
		return true
	}
	if r.URL.Path == passwordPath && r.Method == http.MethodPost && !d.access.Remote(r) {
		d.enterWithPassword(w, r)
		return true
	}
	return false
}

// refuse answers a request that needs a session and has none.
func (d *door) refuse(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" && (d.access.AtName(r) || d.access.Remote(r)):
		// A browser does not send a cookie with SameSite=Strict when another site opens the page.
		// The browser sends the cookie when the page reloads itself.
		gate(w, r, http.StatusOK, gatePage{Title: "Opening the console", Text: "One moment.", Again: true})
		return
	case d.access.Remote(r):
		d.uninvited(w, r, http.StatusUnauthorized)
		return
	case r.URL.Path == signInPath && !d.access.AtName(r):
		w.Header().Set("WWW-Authenticate", `Basic realm="Dragoman console", charset="UTF-8"`)
	}
	gate(w, r, http.StatusUnauthorized, gatePage{
		Title: "Open the console with a link", Text: "This browser has not opened a link to the console yet, or its session has ended. Run this command in a terminal, as the user who started Dragoman. The command opens the console with a new link, or prints the link if it cannot start a browser. If you were invited, ask an admin for another link instead.",
		Command: d.openCommand(r),
	})
}

// admitSite reports whether there is a console where a request has come to, and no page of another site has sent it.
// If not, it writes the response.
func (d *door) admitSite(w http.ResponseWriter, r *http.Request) bool {
	var denied *admin.Denied
	switch off := cmp.Or(d.off, d.access.NoConsole(r)); {
	case d.off == "" && errors.As(d.access.CheckOrigin(r), &denied):
		gate(w, r, denied.Status, gatePage{Title: "The console refused this request", Text: denied.Detail})
	case off != "":
		gate(w, r, http.StatusForbidden, gatePage{Title: "The console is off", Text: off})
	default:
		return true
	}
	return false
}

// uninvited answers a browser of another machine that has no session.
func (d *door) uninvited(w http.ResponseWriter, r *http.Request, status int) {
	if host := d.access.LoginHost(r); host != "" {
		gate(w, r, status, signInPage(host))
		return
	}
	gate(w, r, status, gatePage{
		Title: "The console needs an invitation", Text: "At this address, the console is open to people who have been invited. Open the link that you were sent. If it was used, or your 30 days are over, ask an admin for another one. Programs can use the API with an API key.",
	})
}

// openCommand returns the command that opens the console of this process, which may not be the one
// that the command would find by itself.
func (d *door) openCommand(r *http.Request) string {
	return d.program + " console --open" + admin.Flag(r)
}

// enter handles a one-time link with the token. At the console's name it signs the browser in, and
// redirects it to a URL without the token. At another host it exchanges the link for one at the name.
// If the browser cannot open the name, it offers a password.
func (d *door) enter(w http.ResponseWriter, r *http.Request, token string) {
	if r.Method != http.MethodGet || r.Header.Get("Sec-Purpose") != "" {
		w.WriteHeader(http.StatusForbidden) // keep the link valid until a person follows it
		return
	}
	switch {
	case d.access.Enter(w, r, token):
		http.Redirect(w, r, d.after(w, r), http.StatusSeeOther)
	case d.access.Remote(r):
		d.uninvited(w, r, http.StatusForbidden)
	case !d.access.AtName(r) && d.access.Waits(token): // without a valid link, nobody learns the name
		if !r.URL.Query().Has(passwordQuery) {
			if to, ok := d.access.Forward(r, token); ok {
				http.Redirect(w, r, d.withNext(w, r, to), http.StatusSeeOther)
				return
			}
		}
		gate(w, r, http.StatusOK, gatePage{
			Title: "Open the console with a password", Text: "Usually the browser opens the console at an address that other programs on this machine do not know. This is not possible here, so the console asks for a password instead.",
			Link: token,
		})
	default:
		d.deadLink(w, r)
	}
}

// enterWithPassword exchanges a link for a password, and shows the password.
func (d *door) enterWithPassword(w http.ResponseWriter, r *http.Request) {
	password, ok := d.access.EnterWithPassword(r, r.PostFormValue(admin.LinkQuery))
	if !ok {
		d.deadLink(w, r)
		return
	}
	gate(w, r, http.StatusOK, gatePage{
		Title: "Open the console with a password", Text: "Copy the password. When you open the console, the browser asks for the user and for the password. They are valid for 12 hours.",
		Password: password, SignIn: "http://" + admin.Address(r) + signInPath,
	})
}

func (d *door) deadLink(w http.ResponseWriter, r *http.Request) {
	gate(w, r, http.StatusForbidden, gatePage{
		Title: "This link does not work any more", Text: "A link opens the console once, within 10 minutes. Run this command to open the console with a new link.",
		Command: d.openCommand(r), SignedIn: d.access.SignedIn(r) != nil,
	})
}

// invitation shows an invitation, and lets in who accepts it. Only a POST uses it up: programs that look at links
// in messages send none.
func (d *door) invitation(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		token := r.URL.Query().Get(admin.InvitationQuery)
		p, by, ok := d.access.Invited(r.Context(), token)
		if !ok {
			deadInvitation(w, r)
			return
		}
		gate(w, r, http.StatusOK, gatePage{Title: invitationTitle(&p), Text: invitationText(&p, by), Invitation: token, Name: p.Name})
	case http.MethodPost:
		to, err := d.access.Accept(w, r, r.PostFormValue(admin.InvitationQuery))
		switch {
		case errors.Is(err, access.ErrNoLink):
			deadInvitation(w, r)
		case err != nil:
			gate(w, r, http.StatusServiceUnavailable, gatePage{Title: "This is not possible now", Text: "Dragoman can't use its database, so you are not signed in. Your link still works; try again later."})
		case to.Password != "":
			gate(w, r, http.StatusOK, gatePage{
				Title: "Open the console with a password", Text: "Copy the password. When you open the console, the browser asks for the user and for the password. They are valid for 30 days.",
				Password: to.Password, SignIn: to.To + signInPath,
			})
		case strings.HasPrefix(to.To, "/"):
			http.Redirect(w, r, d.after(w, r), http.StatusSeeOther)
		default: // another host: the policy of pages keeps forms from being redirected there
			gate(w, r, http.StatusOK, gatePage{Title: "Opening the console", Text: "One moment.", Onward: d.withNext(w, r, to.To)})
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		gate(w, r, http.StatusMethodNotAllowed, gatePage{Title: "The console refused this request", Text: "An invitation is opened with GET, and accepted with POST."})
	}
}

func deadInvitation(w http.ResponseWriter, r *http.Request) {
	gate(w, r, http.StatusForbidden, gatePage{Title: "This invitation does not work any more", Text: "An invitation works once, within seven days, and only until there is a newer one. Ask who invited you for another link."})
}

func invitationTitle(p *store.Person) string {
	if access.Own(p) {
		return "Sign in here"
	}
	return "You are invited"
}

// invitationText says who invites a person to what.
func invitationText(p *store.Person, by string) string {
	roles := make([]string, 0, 2)
	for _, r := range p.Roles[p.Open.Project] {
		roles = append(roles, r.String())
	}
	switch {
	case by == identity.Local.Subject:
		by = "The user who runs this Dragoman"
	case by == p.Open.Actor: // it has no name
		by = "An admin"
	}
	if access.Own(p) {
		return "This link signs in one more browser as " + p.Name + ", until the session ends in which it was made. It works once. Go on only if you have made it yourself."
	}
	text := by + " invites you to the project " + p.Open.Project
	if len(roles) > 0 {
		text += ", as " + strings.Join(roles, " and ")
	}
	return text + ". The link works once: it signs in this browser for 30 days. Go on only if it was sent to you."
}

// serveFormer answers a request for a page of the console at the name that the console had before a
// restart, which bookmarks and open pages may have. It returns false if the request is another one.
func (d *door) serveFormer(w http.ResponseWriter, r *http.Request) bool {
	if !d.access.AtFormerName(r) || !strings.HasPrefix(r.URL.Path, prefix+"/") {
		return false
	}
	if name, ok := strings.CutPrefix(r.URL.Path, prefix+"/static/"); ok {
		r.SetPathValue("name", name)
		serveAsset(w, r)
		return true
	}
	headers(w.Header())
	gate(w, r, http.StatusForbidden, gatePage{
		Title: "Open the console with a link", Text: "The console has a new address, because Dragoman was started again. Run this command in a terminal, as the user who started Dragoman. If you were invited, ask an admin for another link instead.",
		Command: d.openCommand(r),
	})
	return true
}

// signOut ends the session of the browser.
func (d *door) signOut(w http.ResponseWriter, r *http.Request) {
	p := gatePage{Title: "The session has ended", Text: "Run this command to open the console again.", Command: d.openCommand(r)}
	if d.access.NameOf(d.access.SignedIn(r)) != "" {
		p.Text, p.Command = "To sign in again, ask an admin for another link.", ""
	}
	if p.Login = d.access.LoginHost(r); p.Login != "" {
		p.Text, p.Command = "This browser is signed out here. At "+p.Login+", you may still be signed in.", ""
	}
	d.access.Leave(w, r)
	gate(w, r, http.StatusOK, p)
}

// gatePage has the values of the page for a browser that is not signed in, or whose request the
// console refuses.
type gatePage struct {
	Title, Text, Command string
	Again                bool   // the page reloads itself at once
	SignedIn             bool   // the browser is signed in already
	Link                 string // the token of a link that can be exchanged for a password
	Invitation, Name     string // the token of an invitation, and whom it is for
	Onward, OnwardText   string // the URL to which the page goes at once, and the text of its button; "" for the console
	Login                string // the host of the provider at which people can sign in
	Password, SignIn     string // the password of a new session, and the URL at which the browser asks for it
	Theme                string
}

// User returns the user to whom the password belongs.
func (gatePage) User() string { return admin.PasswordUser }

// gate responds with a page for a browser that is not signed in, or whose request the console refuses.
func gate(w http.ResponseWriter, r *http.Request, status int, p gatePage) {
	p.Theme = themeOf(r)
	respond(w, status, gateTemplate(), p.Title, p)
}

// respond responds with a page, or with its title if it can't be made.
func respond(w http.ResponseWriter, status int, t *template.Template, title string, page any) {
	var body bytes.Buffer
	if err := t.Execute(&body, page); err != nil {
		http.Error(w, title, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}
