package console

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/issuers"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
)

// login answers the requests of people who sign in at an OpenID provider. A form of ours begins, so no other site can
// begin for them, and a page of ours ends it: a browser that follows a redirect from another site sends no cookie with
// SameSite=Strict.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	headers(w.Header())
	d := c.door
	if !d.admitSite(w, r) {
		return
	}
	host := d.access.LoginHost(r)
	switch {
	case host == "":
		gate(w, r, http.StatusNotFound, gatePage{Title: "Nobody can sign in here", Text: "The identity provider sends people back to the public URL of this Dragoman. Open the console there."})
	case r.URL.Path == admin.LoginCallback && r.Method == http.MethodGet:
		if err := d.access.FinishLogin(w, r); err != nil {
			loginFailed(w, r, c.log, host, err)
			return
		}
		gate(w, r, http.StatusOK, gatePage{Title: "You are signed in", Text: "One moment.", Onward: d.after(w, r), OnwardText: "Go on"})
	case r.URL.Path == admin.LoginPath && r.Method == http.MethodPost:
		page, err := d.access.BeginLogin(w, r)
		if err != nil {
			loginFailed(w, r, c.log, host, err)
			return
		}
		gate(w, r, http.StatusOK, gatePage{Title: "Signing in", Text: "One moment.", Onward: page, OnwardText: "Go on to " + host})
	case r.URL.Path == admin.LoginPath && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		gate(w, r, http.StatusOK, signInPage(host))
	default:
		w.Header().Set("Allow", "GET, POST")
		gate(w, r, http.StatusMethodNotAllowed, gatePage{Title: "The console refused this request", Text: "A sign-in begins with POST " + admin.LoginPath + ", and ends with GET " + admin.LoginCallback + "."})
	}
}

// signInPage is for a browser whose user can sign in at a provider.
func signInPage(host string) gatePage {
	return gatePage{Title: "Sign in to the console", Text: "At this address, the console is open to people who sign in at " + host + ", and to those who have been invited with a link.", Login: host}
}

// loginFailed says why nobody is signed in, and lets people try again.
func loginFailed(w http.ResponseWriter, r *http.Request, log *slog.Logger, host string, err error) {
	p, status := gatePage{Title: "You are not signed in", Login: host}, http.StatusBadGateway
	var refused *oauth.Error
	switch {
	case errors.Is(err, issuers.ErrNotBegun):
		status, p.Text = http.StatusBadRequest, "A sign-in works once, within ten minutes, and in the browser that has begun it. Begin again here."
	case errors.Is(err, issuers.ErrDeclined):
		status, p.Text = http.StatusForbidden, host+" did not sign you in."
		if errors.As(err, &refused) {
			p.Text = host + " did not sign you in; its answer is " + refused.Code + "."
		}
	case errors.Is(err, access.ErrNoRole):
		status, p.Text = http.StatusForbidden, "You have an account at "+host+", but none of its groups gives you a role here. Ask an admin to add you to one that does."
	case errors.Is(err, issuers.ErrClock):
		p.Text = "The clock of " + host + " and that of Dragoman differ too much. Ask whoever runs Dragoman to set its clock."
	default:
		p.Text = host + " can't sign you in now: it " + issuers.Step(err) + ". Try again later; the log of Dragoman says what is wrong."
	}
	if status == http.StatusBadGateway {
		log.Warn("nobody can sign in at the identity provider", "provider", host, "cause", err.Error())
	}
	gate(w, r, status, p)
}
