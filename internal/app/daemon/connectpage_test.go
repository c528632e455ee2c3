//go:build unix

package daemon

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// guest is a client of one person at a server that wants a sign-in.
type guest struct {
	*relier
	state string // of the last answer
}

// calls calls a tool and returns the answer. With retry, it answers the question about a sign-in.
func (c *guest) calls(retry bool) string {
	c.r.t.Helper()
	more := ""
	if retry {
		more = `,"inputResponses":{"user_sign_in":{"action":"accept"}},"requestState":` + c.state
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gh__whoami","arguments":{}` + more + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `",
		"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}}}`
	got := c.r.post("/mcp", body, append(append(modernHeader("tools/call", "gh__whoami"), "Authorization", "Bearer "+c.access), c.host...)...).body
	if _, rest, ok := strings.Cut(got, `"requestState":`); ok {
		c.state = rest[:strings.IndexAny(rest, `,}`)]
	}
	return got
}

// link returns the link in an answer.
func linkIn(t *testing.T, got string) string {
	t.Helper()
	_, rest, ok := strings.Cut(got, `"url":"`)
	if !ok {
		t.Fatalf("no link in %s", got)
	}
	return rest[:strings.Index(rest, `"`)]
}

// presses presses a button of the page behind a link.
func (b *surfer) presses(button string) {
	b.r.t.Helper()
	b.away = ""
	b.goes("POST", b.at.Path, url.Values{"answer": {button}}, "same-origin")
}

// atIssuer opens the page of the issuer to which a browser was sent, and returns where that sends it.
func atIssuer(t *testing.T, to string) string {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode/100 != 3 {
		t.Fatalf("%s: %d %s", to, resp.StatusCode, text)
	}
	return resp.Header.Get("Location")
}

// connected is a serve with two people and a server that wants a sign-in of each.
type connected struct {
	*ownSignIn
	gh       *fake.OAuth
	ada, bob *guest
}

func serveConnected(t *testing.T) *connected {
	t.Helper()
	a, c := secured(t, "ok")
	x := &connected{gh: a}
	x.ownSignIn = serveOwn(t, func(o *ServeOptions) { o.Config.Servers = append(o.Config.Servers, c) })
	x.ada = &guest{relier: x.client(issuer, claude, claudeBack)}
	x.bob = &guest{relier: x.client(issuer, claudeCode, claudeCodeBack)}
	x.ada.signsIn(x.ownSignIn.ada)
	x.bob.signsIn(x.ownSignIn.bob)
	return x
}

// TestTA33_OnlyTheCallerCanUseTheirLink lets ada and bob call a server that wants a sign-in. The link of one does
// nothing for the other, who is told so, nor for somebody without a session; the right one goes on with it, and
// the call with them. Each calls with their own token.
func TestTA33_OnlyTheCallerCanUseTheirLink(t *testing.T) {
	t.Parallel()
	x := serveConnected(t)
	for _, of := range []struct {
		caller      *guest
		own, others *surfer
	}{{x.ada, x.ownSignIn.ada, x.ownSignIn.bob}, {x.bob, x.ownSignIn.bob, x.ownSignIn.ada}} {
		before := x.gh.Counts()
		link := linkIn(t, of.caller.calls(false))
		id := strings.TrimPrefix(link, issuer+"/connect/")
		if len(id) != 64 || strings.ContainsAny(id, "?&=") {
			t.Fatalf("the link is %s", link)
		}
		nobody := newSurfer(x.rig)
		nobody.opens(link).says("Sign in first")
		of.others.opens(link).says("This link is not for you")
		of.others.away = ""
		of.others.goes("POST", "/connect/"+id, url.Values{"answer": {"allow"}}, "same-origin")
		if of.others.page.status != http.StatusForbidden || of.others.away != "" {
			t.Errorf("another person presses the button: %d, %s", of.others.page.status, of.others.away)
		}
		of.own.at, of.own.away = home, ""
		of.own.goes("POST", link, url.Values{"answer": {"allow"}}, "cross-site")
		if of.own.page.status != http.StatusForbidden || of.own.away != "" {
			t.Errorf("a page of another site presses the button: %d, %s", of.own.page.status, of.own.away)
		}
		if now := x.gh.Counts(); now["authorize"] != before["authorize"] {
			t.Error("somebody got to the issuer")
		}

		of.own.opens(link).says("Sign in to", "You are", "Go on")
		of.own.presses("deny")
		of.own.opens(link).presses("allow")
		if of.own.away == "" || strings.Contains(of.own.page.header.Get("Referrer-Policy"), "unsafe") {
			t.Fatalf("the browser is at %s: %s", of.own.at, of.own.page.body)
		}
		back := atIssuer(t, of.own.away)
		if !strings.HasPrefix(back, issuer+"/oauth/callback") {
			t.Fatalf("the issuer leads to %s", back)
		}
		of.others.opens(back).says("no sign-in of this browser")
		of.own.opens(back).says("You are signed in")
		if got := of.caller.calls(true); !strings.Contains(got, " by ") || strings.Contains(got, "input_required") {
			t.Errorf("the call goes on with %s", got)
		}
		of.own.opens(back).says("no sign-in of this browser")
		of.own.opens(link).says("no longer good")
	}
	if n := x.gh.Counts(); n["authorize"] != 2 || n["authorization_code"] != 2 || n["register"] != 1 {
		t.Errorf("the issuer counts %v", n)
	}
}

// TestConnectOnLoopback signs a person and a service in where clients need keys and there's no public URL. The link leads to
// an address of this machine, where a browser has no session, and says how to get to the console's name, which neither the
// client nor that page may learn: cookies ignore ports, so whoever knows the name could get the session.
func TestConnectOnLoopback(t *testing.T) {
	t.Parallel()
	_, gh := secured(t, "ok")
	database := t.TempDir() + "/dragoman.db"
	var link func() string
	r := serve(t, snapshot(), func(o *ServeOptions) {
		c := *o.Config
		c.Servers, c.Access.LoopbackKeys = append(c.Servers, gh), true
		o.Config, o.Database, o.Console = &c, database, func(c Console) { link = c.Link }
	})
	desk := deskAt(t, database)
	ada := invites(t, rosterAt(t, desk), "ada", identity.Caller)
	for name, owner := range map[string]string{"a service": "", "a person": store.PersonSubject + ada.id} {
		key, _ := makeKey(t, desk, access.Wish{Name: name, Owner: owner, Project: "default", Role: identity.Caller})
		c, b := &guest{relier: &relier{r: r, access: strings.TrimPrefix(key[1], "Bearer ")}}, newSurfer(r)
		soon(t, name+" is let in", func() bool { return r.modern("/mcp", "1", "tools/list", "", "", key...).status == 200 })
		to := linkIn(t, c.calls(false))
		b.opens(to).says("Sign in first", "dragoman console --open", "dragoman people link NAME")
		if b.page.status != 401 || strings.Contains(to+b.page.body, ".localhost") || !strings.HasPrefix(b.page.header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: %s: %d %v %s", name, to, b.page.status, b.page.header, b.page.body)
		}
		if owner == "" {
			b.types(link())
		} else {
			b.types(r.base + "/console/invitation?token=" + ada.token)
			b.goes("POST", "/console/invitation", url.Values{"token": {ada.token}}, "same-origin")
		}
		b.says("Sign in to", "Go on")
		b.presses("allow")
		if err := visit(t.Context(), b.away); err != nil {
			t.Fatal(err)
		}
		if got := c.calls(true); !strings.Contains(got, " by ") {
			t.Errorf("%s: the call goes on with %s", name, got)
		}
	}
}

// TestStatusOfAServerWithoutASignIn asks for the status of servers at which nobody has signed in. The operator reads who
// has to: everybody for themselves, or an operator for all.
func TestStatusOfAServerWithoutASignIn(t *testing.T) {
	t.Parallel()
	_, gh := secured(t, "ok")
	common := gh
	common.Name, common.SignIn.Shared = "common", true
	database := t.TempDir() + "/dragoman.db"
	s := snapshot()
	s.Servers = append(s.Servers, gh, common)
	s.Access.LoopbackKeys = true
	r := serve(t, s, func(o *ServeOptions) { o.Database = database })
	key, _ := makeKey(t, deskAt(t, database), access.Wish{Name: "operator", Project: "default", Role: identity.Operator})
	for _, want := range []string{`server \"gh\" needs a sign-in by each person`, "dragoman login gh --as NAME", "an operator must sign in with `dragoman login common`"} {
		soon(t, "the status has "+want, func() bool {
			return strings.Contains(r.do(t.Context(), "GET", "/api/v1/status", nil, key...).body, want)
		})
	}
}

// TestConnectGoesOnAfterTheInvitation opens a link in a browser without a session. The invitation that is opened
// there leads back to the link, once.
func TestConnectGoesOnAfterTheInvitation(t *testing.T) {
	t.Parallel()
	x := serveConnected(t)
	link := linkIn(t, x.ada.calls(false))
	b := newSurfer(x.rig)
	b.opens(link).says("Sign in first")
	cookie := b.cookies[publicName]["__Host-"+returnCookie]
	if cookie == nil || cookie.SameSite != http.SameSiteLaxMode || !cookie.HttpOnly || !cookie.Secure {
		t.Fatalf("the cookie is %+v", cookie)
	}
	eve := invites(t, rosterAt(t, deskAt(t, x.database)), "eve", identity.Caller)
	got := eve.accepts(x.rig, "Cookie", cookie.Name+"="+cookie.Value)
	if to := issuer + got.header.Get("Location"); to != link || !strings.Contains(strings.Join(got.header["Set-Cookie"], "\n"), cookie.Name+"=;") {
		t.Errorf("the invitation leads to %s: %v", to, got.header)
	}
}

// TestNoConnectWithoutNeed checks that a serve where everybody is local has neither the page nor the callback, and that
// unknown links say nothing.
func TestNoConnectWithoutNeed(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot())
	id := strings.Repeat("0", 64)
	for _, path := range []string{"/connect/" + id, "/oauth/callback?state=x", "/oauth/callback/x?state=x"} {
		if got := r.do(t.Context(), "GET", path, nil); got.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	x := serveOwn(t)
	for _, path := range []string{"/connect/" + id, "/connect/x", "/connect/"} {
		x.ada.types(issuer + path).says("This link is no longer good")
		if x.ada.page.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, x.ada.page.status)
		}
	}
}

// TestTA06_ClientDocuments asks a serve that has a public URL, and one that has none, for the documents by which issuers know
// us, in all ways and with all credentials: everybody gets the same, and there's no challenge.
func TestTA06_ClientDocuments(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0a", 16)
	x := serveOwn(t)
	private := serve(t, snapshot())
	here, gone := []string{"/oauth/client.json", "/oauth/client/" + id + ".json"}, []string{
		"/oauth/keyed-client.json", "/oauth/keyed-client/" + id + ".json", "/oauth/jwks.json", // nobody has used the key
		"/oauth/", "/oauth/client", "/oauth/client/", "/oauth/client/x.json", "/oauth/client/" + id, "/oauth/client.json/", "/.well-known/jwks.json",
	}
	for _, path := range append(here, gone...) {
		exists := slices.Contains(here, path)
		var first string
		for _, credential := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"X-API-Key", "wrong"}, {"Cookie", "__Host-dragoman_console=wrong"}} {
			got := x.do(t.Context(), "GET", path, nil, append([]string{"Host", publicName}, credential...)...)
			first = cmp.Or(first, got.body)
			if exists != (got.status == 200) || !exists && got.status != 404 || got.header.Get("WWW-Authenticate") != "" || got.body != first {
				t.Errorf("%s with %q: %d %s", path, credential, got.status, got.body)
			}
			if exists && (!strings.Contains(got.body, `"client_id":"`+issuer+path+`"`) || got.header.Get("Content-Type") != "application/json" || got.header.Get("Set-Cookie") != "") {
				t.Errorf("%s: %v %s", path, got.header, got.body)
			}
		}
		if got := private.do(t.Context(), "GET", path, nil); got.status != 404 {
			t.Errorf("without a public URL, %s: %d", path, got.status)
		}
		if got := x.do(t.Context(), "GET", path, nil, "Host", "other.example"); got.status != 403 {
			t.Errorf("at another name, %s: %d", path, got.status)
		}
	}
	for _, method := range []string{"POST", "DELETE", "PUT", "OPTIONS"} {
		if got := x.do(t.Context(), method, here[0], nil, "Host", publicName); got.status != 405 || got.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %v", method, got.status, got.header)
		}
	}
}

// TestCallbackBelowAPath ends a sign-in at a public URL with a path, which the proxy removes or leaves.
func TestCallbackBelowAPath(t *testing.T) {
	t.Parallel()
	for _, removes := range []bool{true, false} {
		const public = "https://dragoman.example/tools"
		_, c := secured(t, "ok")
		safe := safeAt(t, t.TempDir()+"/dragoman.db")
		desk := signin.New(signin.Options{Open: func(context.Context) (*store.Safe, error) { return safe, nil }, Known: true, Egress: egress.New(egress.Options{}), Public: public})
		t.Cleanup(desk.Close)
		s, err := desk.Server("default", "gh", c.URL, signin.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.Begin(t.Context(), store.SignIn{Project: "default", Server: s.Of(nil).Server, Subject: "p:ada"}, false)
		if err != nil {
			t.Fatal(err)
		}
		page := &connectPage{desk: desk, public: public, below: "/tools", cookies: authserver.Cookies{PublicURL: public}, log: slog.New(slog.DiscardHandler), denied: func(*http.Request, string, *identity.Principal) {}, cross: http.NewCrossOriginProtection()}
		mux := http.NewServeMux()
		page.routes(mux)
		back, err := url.Parse(atIssuer(t, f.Link()))
		if err != nil {
			t.Fatal(err)
		}
		if removes {
			back.Path = strings.TrimPrefix(back.Path, "/tools")
		}
		r := httptest.NewRequestWithContext(t.Context(), "GET", back.String(), nil)
		r.AddCookie(&http.Cookie{Name: "__Host-" + boundCookie + f.ID(), Value: "1"})
		w := httptest.NewRecorder()
		underPrefix("/tools", mux).ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "You are signed in") {
			t.Errorf("%s: %d %s", back.Path, w.Code, w.Body)
		}
	}
}
