//go:build unix

package daemon

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
)

// connections opens the list of sign-ins as somebody who types its address.
func (b *surfer) connections() *surfer { return b.types(issuer + "/console/connections") }

// signsInThere presses the button of a server in the list.
func (b *surfer) signsInThere(server, do string) {
	b.r.t.Helper()
	b.away = ""
	b.goes("POST", "/console/connections", url.Values{"do": {do}, "project": {"default"}, "server": {server}}, "same-origin")
}

// TestTA34_Connections lets ada and bob sign in to a server in the list of the console. Each gets to the issuer and back
// to the list, and each calls with their own token. What one of them has been sent does nothing for the other, who is told
// so. An operator sees how many are signed in, and who isn't one doesn't.
func TestTA34_Connections(t *testing.T) {
	t.Parallel()
	x := serveConnected(t)
	soon(t, "the server has asked for a sign-in", func() bool { return strings.Contains(x.ownSignIn.ada.connections().page.body, ">gh") })
	for _, of := range []struct {
		caller      *guest
		own, others *surfer
	}{{x.ada, x.ownSignIn.ada, x.ownSignIn.bob}, {x.bob, x.ownSignIn.bob, x.ownSignIn.ada}} {
		of.own.connections().says("gh", "not signed in", "your own account")
		of.own.signsInThere("gh", "in")
		to, err := url.Parse(of.own.away)
		if err != nil || to.Query().Get("state") == "" {
			t.Fatalf("the browser is at %s, and went to %q: %s", of.own.at, of.own.away, of.own.page.body)
		}
		of.others.opens(issuer + "/connect/" + signin.FlowOf(to.Query().Get("state"))).says("This link is not for you")
		of.own.connections().says("waits for you until")
		of.own.types(issuer + "/console/questions").says("waits for you to sign in")
		back := atIssuer(t, to.String())
		of.others.opens(back).says("no sign-in of this browser")
		of.own.opens(back).says("Opening the console") // the page then loads itself again, and shows the cookie
		if want := "/console/connections?done=gh&in=default"; of.own.at.RequestURI() != want {
			t.Fatalf("the browser came back to %s", of.own.at)
		}
		of.own.types(of.own.at.String()).says("You are signed in to gh.", "renewed by itself")
		if got := of.caller.calls(false); !strings.Contains(got, " by ") {
			t.Errorf("the call: %s", got)
		}
		of.own.signsInThere("gh", "in")
		if of.own.page.status != http.StatusConflict {
			t.Errorf("a second time: %d", of.own.page.status)
		}
	}
	if people := regexp.MustCompile(`\d+ (person|people)`).FindString(x.ownSignIn.ada.connections().page.body); people != "" {
		t.Errorf("a viewer reads %s", people)
	}
	x.lets(invites(t, rosterAt(t, deskAt(t, x.database)), "otto", identity.Operator), x.ownSignIn.bob)
	x.ownSignIn.bob.connections().says("2 people are signed in", "not signed in")

	x.ownSignIn.ada.signsInThere("gh", "out")
	x.ownSignIn.ada.connections().says("not signed in")
	if got := x.ada.calls(false); !strings.Contains(got, "/connect/") {
		t.Errorf("after signing out, the call is answered with %s", got)
	}
	if n := x.gh.Counts(); n["authorize"] != 2 || n["authorization_code"] != 2 || n["revoke"] == 0 {
		t.Errorf("the issuer counts %v", n)
	}
}

// TestSharedConnection lets an operator sign in with the account that all use. Nobody else can, and they see no more of it
// than whether it works.
func TestSharedConnection(t *testing.T) {
	t.Parallel()
	a, c := secured(t, "ok")
	c.SignIn.Shared = true
	x := serveOwn(t, func(o *ServeOptions) { o.Config.Servers = append(o.Config.Servers, c) })
	otto := newSurfer(x.rig)
	x.lets(invites(t, rosterAt(t, deskAt(t, x.database)), "otto", identity.Operator), otto)
	soon(t, "the server has asked for a sign-in", func() bool { return strings.Contains(otto.connections().page.body, ">gh") })
	x.ada.connections().says("an operator signs in")
	if x.ada.signsInThere("gh", "in"); x.ada.page.status != http.StatusForbidden {
		t.Errorf("ada signs in: %d", x.ada.page.status)
	}
	otto.signsInThere("gh", "in")
	to, err := url.Parse(otto.away)
	if err != nil {
		t.Fatal(err)
	}
	link := issuer + "/connect/" + signin.FlowOf(to.Query().Get("state"))
	x.ada.opens(link).says("This link is not for you")
	otto.opens(link).says("everybody in the project default")
	otto.opens(atIssuer(t, to.String()))
	otto.connections().says("signed in", "renewed by itself")
	page := x.ada.connections()
	if page.says("one account for all", "signed in"); strings.Contains(page.page.body, "renewed") || strings.Contains(page.page.body, `value="out"`) {
		t.Errorf("ada reads %s", page.page.body)
	}
	if n := a.Counts(); n["authorize"] != 1 {
		t.Errorf("the issuer counts %v", n)
	}
}

// TestConnectionsOnThisMachine signs the local user in. The answer of the issuer comes to a port of this machine, from
// which the browser goes back to the name where it has the console.
func TestConnectionsOnThisMachine(t *testing.T) {
	t.Parallel()
	_, gh := secured(t, "ok")
	_, broken := secured(t, "no-registration")
	broken.Name = "broken"
	var link func() string
	r := serve(t, snapshot(), func(o *ServeOptions) {
		c := *o.Config
		c.Servers = append(c.Servers, gh, broken)
		o.Config, o.Database, o.Console = &c, t.TempDir()+"/dragoman.db", func(c Console) { link = c.Link }
	})
	b := newSurfer(r)
	b.types(link())
	at := b.at.Scheme + "://" + b.at.Host
	soon(t, "both servers have asked for a sign-in", func() bool {
		body := b.types(at + "/console/connections").page.body
		return strings.Contains(body, ">gh") && strings.Contains(body, ">broken")
	})
	if b.signsInThere("broken", "in"); b.page.status != http.StatusBadGateway {
		t.Errorf("an issuer that registers nobody: %d", b.page.status)
	}
	b.types(at+"/console/connections").says("broken: the last sign-in has failed", "failed at registration", "lets no client register by itself", "not reached")
	b.signsInThere("gh", "in")
	back := atIssuer(t, b.away)
	if !strings.HasPrefix(back, "http://127.0.0.1:") {
		t.Fatalf("the issuer leads to %s", back)
	}
	if home := atIssuer(t, back); home != at+"/console/connections?done=gh&in=default" {
		t.Errorf("the browser goes back to %s", home)
	}
	b.types(at + "/console/connections?done=gh&in=default").says("You are signed in to gh.")
	if !strings.Contains(b.page.body, `aria-label="Sign in: broken" autofocus`) {
		t.Error("the next server has no focus")
	}
}

// TestSignInsOfTheAPI lists, begins and ends sign-ins with the API, as the console does. A key of a project sees only that
// project's servers.
func TestSignInsOfTheAPI(t *testing.T) {
	t.Parallel()
	_, gh := secured(t, "ok")
	database := t.TempDir() + "/dragoman.db"
	r := serve(t, snapshot(), func(o *ServeOptions) {
		c := *o.Config
		c.Servers, c.Access.LoopbackKeys = append([]config.Server{}, append(c.Servers, gh)...), true
		o.Config, o.Database = &c, database
	})
	key, _ := makeKey(t, deskAt(t, database), access.Wish{Name: "viewer", Project: "default", Role: identity.Viewer})
	soon(t, "the server has asked for a sign-in", func() bool {
		return strings.Contains(r.do(t.Context(), "GET", "/api/v1/signins", nil, key...).body, `"server": "gh"`)
	})
	got := r.do(t.Context(), "POST", "/api/v1/signins/gh", nil, key...)
	if got.status != 200 || !strings.Contains(got.body, `"link": "`+r.base+"/connect/") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.do(t.Context(), "GET", "/api/v1/signins", nil, key...); !strings.Contains(got.body, `"state": "waiting"`) || strings.Contains(got.body, `"people"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.do(t.Context(), "POST", "/api/v1/signins/nope", nil, key...); got.status != 404 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.do(t.Context(), "DELETE", "/api/v1/signins/gh", nil, key...); got.status != 409 {
		t.Errorf("nobody is signed in, and yet: %d %s", got.status, got.body)
	}
	if got := r.do(t.Context(), "POST", "/api/v1/signins/gh", nil); got.status != 401 {
		t.Errorf("without a key: %d %s", got.status, got.body)
	}
}
