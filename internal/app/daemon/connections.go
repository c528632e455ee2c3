package daemon

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/console"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// SignInAt implements admin.SignInDesk.
func (s *signIns) SignInAt(project, server string) *signin.Server {
	return s.at(project, server).Server
}

// LinkOf implements admin.SignInDesk. Where there's a public URL, the issuer sends every browser back there, and the local
// user has no session at it.
func (s *signIns) LinkOf(who *identity.Principal, f *signin.Flow) string {
	switch {
	case who.Key() != "":
		return s.link(f.ID())
	case s.public:
		return ""
	}
	return f.Link()
}

// Tallies implements admin.SignInDesk.
func (s *signIns) Tallies() map[store.SignIn]signin.Tally { return s.desk.Tallies() }

// SignOut implements admin.SignInDesk.
func (s *signIns) SignOut(ctx context.Context, actor string, of store.SignIn) (there, revoked bool, err error) {
	return s.desk.SignOut(ctx, actor, of)
}

// source returns s for the API, or nil if nobody signs in here.
func (s *signIns) source() admin.SignInDesk {
	if s.desk == nil {
		return nil
	}
	return s
}

// depart is console.Options.Depart. A browser that is at the public URL may bring the answer of the issuer, as if it had
// pressed the button on the page of the link. One at another address presses that button. Without a public URL, the answer
// comes to a port of this machine, from which we lead back to the name where the console is.
func (s *signIns) depart(p *connectPage) func(w http.ResponseWriter, r *http.Request, to admin.SignInLink, back string) {
	return func(w http.ResponseWriter, r *http.Request, to admin.SignInLink, back string) {
		next := to.Link
		switch {
		case s.public && p != nil && next == s.link(to.ID):
			if u, err := url.Parse(s.base); err == nil && u.Host == r.Host {
				if flow, ok, err := p.desk.Waiting(r.Context(), to.ID); ok && err == nil {
					p.cookies.Set(w, r, boundCookie+to.ID, url.QueryEscape(back))
					next = flow.Link
				}
			}
		case !s.public:
			if flow, ok, err := s.desk.Waiting(r.Context(), to.ID); ok && err == nil {
				next = flow.Link
			}
			if o, err := url.Parse(r.Header.Get("Origin")); err == nil && o.Scheme != "" && o.Host != "" {
				s.returns.keep(to.ID, o.Scheme+"://"+o.Host+back, to.Until)
			}
		}
		console.ShowSignIn(w, r, http.StatusOK, &authserver.Page{Title: "Going to " + to.Issuer, Texts: []string{"One moment."}, Onward: next})
	}
}

// finished answers a browser that has brought the answer of an issuer to the public URL. value is that of its cookie: if it
// has the page of the console where the sign-in began, the browser goes back there. Otherwise its person reads how the
// sign-in has ended.
func (p *connectPage) finished(w http.ResponseWriter, r *http.Request, value string, err error) {
	if back, bad := url.QueryUnescape(value); bad == nil && strings.HasPrefix(back, console.ConnectionsPath+"?") {
		http.Redirect(w, r, p.below+back, http.StatusSeeOther)
		return
	}
	status, title, text := signin.PageOf(err)
	if status == http.StatusBadGateway {
		says, next := signin.Explain(err)
		text = excerpt.Line("The sign-in has failed: "+says+".", 500)
		if next != "" {
			text += excerpt.Line(" The next step: "+next+".", 500)
		}
	}
	p.say(w, r, status, title, text)
}

// mostReturns is how many flows we remember whose browsers go back to the console.
const mostReturns = 256

// returns are where browsers go on after a sign-in. The zero value is ready to use.
type returns struct {
	mu  sync.Mutex
	all map[string]backTo
}

// backTo is where a browser goes on, if it comes before a time.
type backTo struct {
	url   string
	until time.Time
}

// keep remembers where the browser with the answer for a flow goes on.
func (x *returns) keep(flow, to string, until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = make(map[string]backTo)
	}
	for id, y := range x.all {
		if time.Now().After(y.until) {
			delete(x.all, id)
		}
	}
	if len(x.all) < mostReturns {
		x.all[flow] = backTo{to, until}
	}
}

// take returns where the browser with the answer for a flow goes on, or "", and forgets it.
func (x *returns) take(flow string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	to := x.all[flow]
	delete(x.all, flow)
	return to.url
}
