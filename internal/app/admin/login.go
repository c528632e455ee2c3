package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/issuers"
)

// LoginPath is where people begin to sign in at an OpenID provider, and LoginCallback where it sends them back to.
const (
	LoginPath     = "/login"
	LoginCallback = LoginPath + "/callback"
)

// login is how people sign in at a provider. The zero value is of no use.
type login struct {
	at       *issuers.Login
	redirect string
}

// LoginAt lets people sign in at a provider, unless it is nil, and be sent back to the public URL. LoginAt must be
// called before the Access is used.
func (a *Access) LoginAt(l *issuers.Login, publicURL string) {
	if l != nil {
		a.login = &login{l, publicURL + LoginCallback}
	}
}

// HasLogin reports whether people can sign in at a provider.
func (a *Access) HasLogin() bool { return a.login != nil && a.roster != nil }

// LoginHost returns the host of the provider at which the sender of a request can sign in, or "". That works only at
// the public URL, to which the provider sends them back.
func (a *Access) LoginHost(r *http.Request) string {
	if !a.HasLogin() || !a.Remote(r) || !a.public.is(r) {
		return ""
	}
	return a.login.at.Host()
}

// BeginLogin begins a sign-in of the browser that has sent r. It returns where the browser goes.
func (a *Access) BeginLogin(w http.ResponseWriter, r *http.Request) (page string, err error) {
	page, flow, err := a.login.at.Begin(r.Context(), a.login.redirect)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(begun{flow, a.arrival(r).Before})
	if err != nil {
		return "", err
	}
	sealed, err := a.roster.Seal(r.Context(), LoginPath, plain)
	if err == nil {
		a.setFlow(w, r, sealed, int(issuers.FlowLife/time.Second))
	}
	return page, err
}

// FinishLogin begins the session of whoever has signed in at the provider and comes back with r. The error is one of
// package issuers, access.ErrNoRole, or one of the database. The browser has to begin anew in any case, unless the
// request belongs to no sign-in of this browser.
func (a *Access) FinishLogin(w http.ResponseWriter, r *http.Request) error {
	cookies := r.CookiesNamed(a.flowName(r))
	if len(cookies) != 1 {
		return issuers.ErrNotBegun
	}
	var flow begun
	plain, ok := a.roster.Open(r.Context(), LoginPath, cookies[0].Value)
	if !ok || json.Unmarshal(plain, &flow) != nil {
		return issuers.ErrNotBegun
	}
	q := r.URL.Query()
	if q.Get("state") != flow.State {
		return issuers.ErrNotBegun // another tab's, or nobody's; ours goes on
	}
	a.setFlow(w, r, "", -1)
	p, err := a.login.at.Finish(r.Context(), flow.Flow, a.login.redirect, q)
	if err != nil {
		return err
	}
	at := a.arrival(r)
	at.Before = append(at.Before, flow.Before...)
	session, err := a.roster.SignIn(r.Context(), p.ID, p.Name, p.Roles, at)
	if err != nil {
		return err
	}
	a.setCookie(w, r, session, int(access.LoginLife/time.Second))
	return nil
}

// begun is a sign-in that has begun. The browser comes back from another site, without the cookie of the session that
// it has had until then.
type begun struct {
	issuers.Flow
	Before []string `json:",omitempty"`
}

// setFlow sets the cookie of a sign-in for so many seconds. Its browser comes back from another site, so it can't be
// SameSite=Strict; it opens nothing by itself.
func (a *Access) setFlow(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: a.flowName(r), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: true})
}

// flowName is the name of the cookie of a sign-in, which browsers take only from the host itself.
func (a *Access) flowName(r *http.Request) string { return "__Host-dragoman_login_" + portOf(r) }
