package admin

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// asked returns a request from a browser on this machine. header alternates names and values.
func asked(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:7300"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// enter opens a new link and returns the cookie that the response sets. It returns "" if the link
// is refused.
func enter(a *Access, link string) string {
	u, _ := url.Parse(link)
	w := httptest.NewRecorder()
	if !a.Enter(w, asked("GET", "/console/", "Host", a.Name()+":7300"), u.Query().Get(LinkQuery)) {
		return ""
	}
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	return cookie
}

// TestAccess checks which requests Access.Check allows.
func TestAccess(t *testing.T) {
	a := NewAccess(true)
	cookie := enter(a, a.Link("http://127.0.0.1:7300"))
	bearer := "Bearer " + a.Key()
	password := "Basic " + base64.StdEncoding.EncodeToString([]byte(PasswordUser+":"+passwordOf(t, a)))
	at := []string{"Host", a.Name() + ":7300"}
	named := func(method string, header ...string) *http.Request {
		return asked(method, "/x", append(at, header...)...)
	}
	for _, tt := range []struct {
		name   string
		r      *http.Request
		status int // the expected status; 0 means allowed
		kind   string
	}{
		{"the cookie", named("GET", "Cookie", cookie), 0, ""},
		{"the cookie, from our own page", named("POST", "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Origin", "http://"+a.Name()+":7300"), 0, ""},
		{"the key", asked("POST", "/x", "Authorization", bearer), 0, ""},
		{"the key at localhost", asked("POST", "/x", "Authorization", bearer, "Host", "localhost:7300"), 0, ""},
		{"the key at the name", named("POST", "Authorization", bearer), 0, ""},
		{"the password", asked("GET", "/x", "Authorization", password), 0, ""},
		{"the password, from our own page", asked("POST", "/x", "Authorization", password, "Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:7300"), 0, ""},
		{"the password at another port, the end of a tunnel", asked("GET", "/x", "Authorization", password, "Host", "[::1]:8080"), 0, ""},
		{"the password at localhost, which may be another program", asked("GET", "/x", "Authorization", password, "Host", "localhost:7300"), 401, "wrong-key"},
		{"the password at the name", named("GET", "Authorization", password), 401, "wrong-key"},
		{"the password as a cookie", named("GET", "Cookie", "dragoman_console_7300="+passwordOf(t, a)), 401, "no-access"},
		{"the cookie as a password", asked("GET", "/x", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(PasswordUser+":"+strings.TrimPrefix(cookie, "dragoman_console_7300=")))), 401, "wrong-key"},
		{"two passwords", asked("GET", "/x", "Authorization", password, "Authorization", password), 401, "wrong-key"},
		{"nothing", asked("GET", "/x"), 401, "no-access"},
		{"a made-up cookie", named("GET", "Cookie", "dragoman_console_7300=AAAA"), 401, "no-access"},
		{"the cookie at an address, where other ports get it", asked("GET", "/x", "Cookie", cookie), 401, "no-access"},
		{"the cookie at localhost", asked("GET", "/x", "Cookie", cookie, "Host", "localhost:7300"), 401, "no-access"},
		{"the cookie at another name", asked("GET", "/x", "Cookie", cookie, "Host", newName()+":7300"), 403, "local-only"},
		{"the cookie after as many as a browser keeps", named("GET", "Cookie", strings.Repeat("dragoman_console_7300=AAAA; ", 180)+cookie), 0, ""},
		{"the cookie after very many others", named("GET", "Cookie", strings.Repeat("dragoman_console_7300=AAAA; ", 300)+cookie), 401, "no-access"},
		{"the cookie of another port", named("GET", "Cookie", strings.Replace(cookie, "7300", "7301", 1)), 401, "no-access"},
		{"a wrong key", asked("GET", "/x", "Authorization", "Bearer x"), 401, "wrong-key"},
		{"a wrong key with the cookie", named("GET", "Authorization", "Bearer x", "Cookie", cookie), 401, "wrong-key"},
		{"the key in another scheme", asked("GET", "/x", "Authorization", "Basic "+a.Key()), 401, "wrong-key"},
		{"two keys", asked("GET", "/x", "Authorization", bearer, "Authorization", bearer), 401, "wrong-key"},
		{"the key in the query", asked("GET", "/x?key="+a.Key()), 401, "no-access"},
		{"a foreign host", asked("GET", "/x", "Cookie", cookie, "Host", "rebound.example:7300"), 403, "local-only"},
		{"a proxy", asked("GET", "/x", "Authorization", bearer, "X-Forwarded-For", "192.0.2.1"), 403, "local-only"},
		{"a proxy, at the name", named("GET", "Cookie", cookie, "X-Forwarded-For", "192.0.2.1"), 403, "local-only"},
		{"a proxy, RFC 7239", asked("GET", "/x", "Authorization", bearer, "Forwarded", "for=192.0.2.1"), 403, "local-only"},
		{"a post of another site", named("POST", "Cookie", cookie, "Sec-Fetch-Site", "cross-site"), 403, "foreign-page"},
		{"a post of another site with the password", asked("POST", "/x", "Authorization", password, "Sec-Fetch-Site", "cross-site"), 403, "foreign-page"},
		{"a post of another port with the password", asked("POST", "/x", "Authorization", password, "Sec-Fetch-Site", "same-site"), 403, "foreign-page"},
		{"a post of another port", named("POST", "Cookie", cookie, "Sec-Fetch-Site", "same-site"), 403, "foreign-page"},
		{"a post of another site, old browser", named("POST", "Cookie", cookie, "Origin", "https://evil.example"), 403, "foreign-page"},
		{"an embedding page of another port", named("GET", "Cookie", cookie, "Sec-Fetch-Site", "same-site", "Sec-Fetch-Dest", "script"), 403, "foreign-page"},
		{"a frame of another site", named("GET", "Cookie", cookie, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "iframe"), 403, "foreign-page"},
	} {
		who, err := a.Check(tt.r)
		denied, _ := err.(*Denied)
		switch {
		case (err == nil) != (who == identity.Local):
			t.Errorf("%s: %v %v", tt.name, who, err)
		case tt.status == 0 && err != nil:
			t.Errorf("%s: refused: %v", tt.name, err)
		case tt.status != 0 && (denied == nil || denied.Status != tt.status || denied.Kind != tt.kind):
			t.Errorf("%s: %+v, want %d %s", tt.name, err, tt.status, tt.kind)
		}
		if denied != nil && (strings.Contains(denied.Detail, a.Key()) || strings.Contains(denied.Detail, a.Name()) || denied.Detail == "") {
			t.Errorf("%s: %q", tt.name, denied.Detail)
		}
	}
	public := NewAccess(false)
	if _, err := public.Check(asked("GET", "/x", "Authorization", "Bearer "+public.Key())); err == nil || err.(*Denied).Status != 403 {
		t.Errorf("a listener that others can reach: %v", err)
	}
	for kind, r := range map[string]*http.Request{"cookie": named("POST", "Cookie", cookie), "password": asked("POST", "/x", "Authorization", password)} {
		a.Leave(httptest.NewRecorder(), r)
		if _, err := a.Check(r); err == nil {
			t.Errorf("a session with a %s goes on after its end", kind)
		}
	}
}

// ranked returns the roles of a principal whose subject is the name of a role, and all roles for the
// local user.
func ranked(who *identity.Principal, _ string) []identity.Role {
	for _, r := range []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin} {
		if who.Subject == r.String() {
			return []identity.Role{r}
		}
	}
	return localRoles(who, "")
}

// routeRoles is the least role of each route. A route with "open" needs no credential on this machine.
const routeRoles = `
GET /openapi.json viewer open
GET /status viewer open
GET /logs viewer open
GET /logs/stream viewer open
GET /calls viewer open
GET /calls/stream viewer open
POST /console/link admin
GET /calls/{number} viewer
GET /calls/{number}/transcript viewer
GET /recording viewer
POST /recording operator
GET /servers viewer open
GET /servers/{name} viewer open
GET /servers/{name}/handshake viewer
GET /servers/{name}/tools viewer open
GET /servers/{name}/tools/{tool} viewer open
GET /servers/{name}/resources viewer open
GET /servers/{name}/resource-templates viewer open
GET /servers/{name}/prompts viewer open
GET /servers/{name}/log viewer open
POST /servers/{name}/start operator
POST /servers/{name}/stop operator
POST /servers/{name}/restart operator
POST /servers/{name}/probe operator
GET /tools viewer open
GET /clients viewer open
GET /clients/{id} viewer open
GET /servers/{name}/settings viewer
POST /reload admin
POST /servers/{name}/runs operator
POST /runs operator
GET /runs viewer
GET /runs/{id} viewer
GET /runs/{id}/result viewer
DELETE /runs/{id} operator
GET /runs/{id}/stream viewer
POST /runs/{id}/answers operator
GET /examples viewer
GET /examples/{id} viewer
POST /examples operator
POST /examples/{id}/runs operator
DELETE /examples/{id} operator
POST /servers/{name}/doctor operator
GET /servers/{name}/doctor viewer
DELETE /servers/{name}/doctor operator
GET /servers/{name}/doctor/stream viewer
GET /matrix viewer open
GET /client-files admin
POST /drafts admin
GET /drafts/{id} admin
POST /drafts/{id} admin
DELETE /drafts/{id} admin
POST /drafts/{id}/keep admin
POST /servers/{name}/edits admin
POST /servers/{name}/edits/keep admin
GET /keys viewer people
POST /keys viewer people
GET /keys/{id} viewer people
POST /keys/{id}/rotate viewer people
DELETE /keys/{id} viewer people
POST /keys/{id}/look admin
GET /people admin
POST /people admin
GET /people/{name} admin
PUT /people/{name}/roles admin
POST /people/{name}/invitation admin
GET /people/{name}/sessions admin
DELETE /people/{name}/sessions/{session} admin
POST /people/{name}/sign-out admin
DELETE /people/{name} admin
GET /grants viewer
DELETE /grants/{id} viewer
DELETE /grants admin
GET /audit operator
GET /audit/lines operator
GET /audit/verify admin
GET /secrets operator
PUT /secrets/{name} admin
DELETE /secrets/{name} admin
POST /secrets/rotate-key admin
GET /prompts viewer
GET /prompts/{name} viewer
GET /prompts/{name}/instructions viewer
POST /prompts operator
POST /prompts/{name}/publish operator
POST /prompts/{name}/activate operator
POST /prompts/{name}/off operator
GET /pins viewer open
POST /pins/approve operator
POST /pins/reject operator
GET /rules viewer
PUT /rules operator
GET /rules/who admin
GET /rules/for admin
GET /questions viewer people
GET /questions/{id} viewer people
POST /questions/{id}/answer viewer people
GET /signins viewer people
POST /signins/{server} viewer people
DELETE /signins/{server} viewer people
GET /projects viewer
GET /projects/{name} operator
PUT /projects/{name} operator
POST /projects/{name}/preview operator
DELETE /projects/{name} admin
`

// TestRolesOfRoutes asks each route as every role, as a principal without a role, and as nobody. Who
// has too low a role gets 403, nobody gets 401 where a credential is needed, and the local user, who
// asks after each of them, has every role.
func TestRolesOfRoutes(t *testing.T) {
	t.Parallel()
	r := serving(t)
	access := r.api.Access()
	access.RolesFrom(ranked)
	at := access.Name() + ":7300"
	cookies := map[string]string{}
	for _, name := range []string{"caller", "viewer", "operator", "admin", "guest"} {
		cookies[name] = enter(access, access.LinkFor(identity.Named(name), ""))
	}
	var table strings.Builder
	for _, x := range routes() {
		fmt.Fprintf(&table, "\n%s %s %s", x.method, x.path, x.least)
		if x.open {
			table.WriteString(" open")
		}
		if x.people {
			table.WriteString(" people")
		}
		path := apiRoot + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(x.path, "1")
		refused := func(header ...string) (status int, kind string) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			resp := r.open(ctx, x.method, path, "", header...)
			defer resp.Body.Close()
			if resp.StatusCode == 401 || resp.StatusCode == 403 {
				var p Problem
				if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || resp.Header.Get("Content-Type") != "application/problem+json" || p.Status != resp.StatusCode || p.Detail == "" {
					t.Errorf("%s %s %v: %d %v %+v", x.method, path, header, resp.StatusCode, err, p)
				}
				return resp.StatusCode, strings.TrimPrefix(p.Type, problemURI)
			}
			return 0, ""
		}
		for name, cookie := range cookies {
			status, kind := refused("Cookie", cookie, "Host", at)
			may := slices.ContainsFunc(ranked(identity.Named(name), ""), func(have identity.Role) bool { return have.Includes(x.least) || x.people && have == identity.Caller })
			if x.named && name == "guest" { // to whom the project doesn't exist
				if kind != "" {
					t.Errorf("%s %s as %s: %d %s", x.method, path, name, status, kind)
				}
				continue
			}
			if (kind == "role") == may || kind == "role" && status != 403 || status == 401 {
				t.Errorf("%s %s as %s: %d %s", x.method, path, name, status, kind)
			}
			if status, kind := refused("Authorization", r.key()); status != 0 {
				t.Errorf("%s %s as the local user: %d %s", x.method, path, status, kind)
			}
		}
		if status, kind := refused(); x.open != (status == 0) || !x.open && (status != 401 || kind != "no-access") {
			t.Errorf("%s %s as nobody: %d %s", x.method, path, status, kind)
		}
	}
	if table.String()+"\n" != routeRoles {
		t.Errorf("the routes and their roles have changed:%s", table.String())
	}
}

// TestSessionsHaveTheirPrincipal checks that a session is its link's owner, whichever way the browser
// came in, and that Leave ends one session alone.
func TestSessionsHaveTheirPrincipal(t *testing.T) {
	a := NewAccess(true)
	a.UseName()
	ann, bob := identity.Named("ann"), identity.Named("bob")
	token := func(link string) string { u, _ := url.Parse(link); return u.Query().Get(LinkQuery) }
	forwarded, ok := a.Forward(asked("GET", "/", "User-Agent", "Chrome/1"), token(a.LinkFor(bob, "")))
	if !ok {
		t.Fatal("the link is not forwarded")
	}
	hers, his := enter(a, a.LinkFor(ann, "")), enter(a, forwarded)
	password, _ := a.EnterWithPassword(asked("POST", "/console/password"), token(a.LinkFor(ann, "")))
	named := func(cookie string) *http.Request {
		return asked("GET", "/x", "Cookie", cookie, "Host", a.Name()+":7300")
	}
	withPassword := asked("GET", "/x", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(PasswordUser+":"+password)))
	is := func(r *http.Request, want *identity.Principal) {
		t.Helper()
		if who, err := a.Check(r); who != want || (err == nil) != (want != nil) {
			t.Errorf("%v %v, want %v", who, err, want)
		}
	}
	is(named(hers), ann)
	is(named(his), bob)
	is(withPassword, ann)
	a.Leave(httptest.NewRecorder(), named(his))
	is(named(his), nil)
	is(named(hers), ann)
	for _, who := range []*identity.Principal{nil, ann, {Subject: "local", Seat: "local", Via: "none"}} {
		if a.May(who, "default", identity.Viewer) == nil || a.May(who, "default", identity.Caller) == nil {
			t.Errorf("%v has a role", who)
		}
	}
	for _, least := range []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin} {
		if err := a.May(identity.Local, "default", least); err != nil {
			t.Errorf("the local user is no %s: %v", least, err)
		}
	}
}

// passwordOf exchanges a new link for a password.
func passwordOf(t *testing.T, a *Access) string {
	u, _ := url.Parse(a.Link("http://127.0.0.1:7300"))
	password, ok := a.EnterWithPassword(asked("POST", "/console/password"), u.Query().Get(LinkQuery))
	if _, again := a.EnterWithPassword(asked("POST", "/console/password"), u.Query().Get(LinkQuery)); !ok || again {
		t.Error("a link gives", ok, "and once more", again)
	}
	return password
}

// TestName checks that only a valid link reveals the name of the console, and only to a browser
// that resolves the name itself.
func TestName(t *testing.T) {
	const chromium, firefox, safari = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15"
	a, b := NewAccess(true), NewAccess(true)
	if a.Name() == b.Name() || !b.AtFormerName(asked("GET", "/", "Host", a.Name()+":7300")) || a.AtFormerName(asked("GET", "/", "Host", a.Name())) || a.AtFormerName(asked("GET", "/", "Host", "x.localhost")) {
		t.Errorf("%s %s", a.Name(), b.Name())
	}
	token := func(link string) string { u, _ := url.Parse(link); return u.Query().Get(LinkQuery) }
	link := token(a.Link(""))
	if to, ok := a.Forward(asked("GET", "/", "User-Agent", chromium), link); ok || !a.Waits(link) {
		t.Errorf("another program may listen at one of the addresses: %s", to)
	}
	a.UseName()
	for agent, want := range map[string]bool{chromium: true, firefox: true, safari: false, "": false} {
		r, link := asked("GET", "/", "User-Agent", agent, "Host", "127.0.0.1:8080"), token(a.Link(""))
		to, ok := a.Forward(r, link)
		if ok != want || strings.HasPrefix(to, "http://"+a.Name()+":8080/console/?link=") != want || a.Waits(link) == want || a.Waits(token(to)) != want || token(to) == link {
			t.Errorf("%s: %s %t", agent, to, ok)
		}
		if _, again := a.Forward(r, link); again {
			t.Errorf("%s: the link reveals the name twice", agent)
		}
	}
}

// TestLinks checks that a link works once and expires, and that the numbers of links and
// sessions are bounded.
func TestLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAccess(true)
		link := a.Link("http://127.0.0.1:7300")
		if !strings.HasPrefix(link, "http://127.0.0.1:7300/console/?link=") || strings.Contains(link, a.Key()) {
			t.Error(link)
		}
		cookie := enter(a, link)
		if cookie == "" || enter(a, link) != "" {
			t.Error("a link works", cookie, "and once more")
		}
		late := a.Link("http://127.0.0.1:7300")
		time.Sleep(linkLife)
		if enter(a, late) != "" {
			t.Error("a link works after its time")
		}
		signedIn := func(cookie string) bool {
			return a.SignedIn(asked("GET", "/console/", "Cookie", cookie, "Host", a.Name()+":7300")) != nil
		}
		time.Sleep(sessionLife - linkLife - time.Second)
		if !signedIn(cookie) {
			t.Error("the session ended early")
		}
		time.Sleep(time.Second)
		if signedIn(cookie) {
			t.Error("the session does not end")
		}
		first := a.Link("")
		for range mostLinks {
			a.Link("")
		}
		if enter(a, first) != "" {
			t.Error("there are too many links")
		}
		oldest := enter(a, a.Link(""))
		for range mostBrowser {
			enter(a, a.Link(""))
		}
		if signedIn(oldest) || len(a.sessions) != mostBrowser || len(a.links) > mostLinks {
			t.Errorf("%d sessions, %d links", len(a.sessions), len(a.links))
		}
	})
}

// TestCookie checks the attributes of the session cookie.
func TestCookie(t *testing.T) {
	a := NewAccess(true)
	u, _ := url.Parse(a.Link("http://127.0.0.1:7300"))
	w := httptest.NewRecorder()
	if token := u.Query().Get(LinkQuery); a.Enter(w, asked("GET", "/console/"), token) || len(w.Header()) > 0 || !a.Waits(token) {
		t.Errorf("a cookie at an address, where other ports get it: %v", w.Header())
	}
	a.Enter(w, asked("GET", "/console/", "Host", a.Name()+":7300"), u.Query().Get(LinkQuery))
	c := w.Result().Cookies()[0]
	if c.Name != "dragoman_console_7300" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*60*60 || len(c.Value) < 43 {
		t.Errorf("%+v", c)
	}
}

// TestTA14RemoteSessions opens links over https, as a browser of another machine does: at our own TLS, and at the host of
// a proxy. The cookie is bound to that host, and a session of one place opens no other. The local user's links,
// sessions and key mean nothing there.
func TestTA14RemoteSessions(t *testing.T) {
	ann, at := identity.Named("ann"), []string{"Host", "mcp.example.com"}
	secure := func(r *http.Request) *http.Request {
		r.TLS = &tls.ConnectionState{}
		return r
	}
	proxied := func(r *http.Request) *http.Request {
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		return r
	}
	for name, p := range map[string]struct {
		local bool
		url   string
		way   func(*http.Request) *http.Request
	}{
		"network with TLS":         {false, "", secure},
		"network behind a proxy":   {false, "https://mcp.example.com", proxied},
		"loopback behind a proxy":  {true, "https://mcp.example.com", proxied},
		"a proxy without a header": {true, "https://mcp.example.com", func(r *http.Request) *http.Request { return r }},
	} {
		a := NewAccess(p.local)
		a.UsePublicURL(p.url)
		ask := func(method string, header ...string) *http.Request {
			return p.way(asked(method, "/console/", append(at, header...)...))
		}
		token := func(who *identity.Principal) string {
			u, _ := url.Parse(a.LinkFor(who, ""))
			return u.Query().Get(LinkQuery)
		}
		owner, w := token(identity.Local), httptest.NewRecorder()
		if a.Enter(w, ask("GET"), owner) || !a.Waits(owner) || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: the local user's link", name)
		}
		if !a.Enter(w, ask("GET"), token(ann)) {
			t.Fatalf("%s: ann's link is refused", name)
		}
		if c := w.Header().Get("Set-Cookie"); !regexp.MustCompile(`^__Host-dragoman_console_80=[\w-]{43}; Path=/; Max-Age=\d+; HttpOnly; Secure; SameSite=Strict$`).MatchString(c) {
			t.Errorf("%s: %s", name, c)
		}
		cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
		if who, err := a.Check(ask("POST", "Cookie", cookie, "Origin", "https://mcp.example.com", "Sec-Fetch-Site", "same-origin")); who != ann {
			t.Errorf("%s: ann is %v, %v", name, who, err)
		}
		value := cookie[strings.IndexByte(cookie, '=')+1:]
		for what, r := range map[string]*http.Request{
			"without the prefix":         ask("GET", "Cookie", "dragoman_console_80="+value),
			"another site":               ask("POST", "Cookie", cookie, "Sec-Fetch-Site", "cross-site"),
			"another host":               asked("GET", "/x", "Cookie", cookie, "Host", "evil.example"),
			"at the console's name":      asked("GET", "/x", "Cookie", "dragoman_console_7300="+value, "Host", a.Name()+":7300"),
			"with a prefix at the name":  asked("GET", "/x", "Cookie", "__Host-dragoman_console_7300="+value, "Host", a.Name()+":7300"),
			"the key of the process":     ask("GET", "Authorization", "Bearer "+a.Key()),
			"as a password":              ask("GET", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(PasswordUser+":"+value))),
			"a local password":           ask("GET", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(PasswordUser+":"+passwordOf(t, a)))),
			"a cookie of the local user": ask("GET", "Cookie", "__Host-dragoman_console_80="+strings.TrimPrefix(enter(a, a.Link("")), "dragoman_console_7300=")),
		} {
			if who, err := a.Check(r); err == nil {
				t.Errorf("%s: %s: %v", name, what, who)
			}
		}
		a.Leave(w, ask("POST", "Cookie", cookie))
		if _, err := a.Check(ask("GET", "Cookie", cookie)); err == nil {
			t.Errorf("%s: the session goes on after its end", name)
		}
	}
}

// TestConsoleLink checks who gets a link from the API.
func TestConsoleLink(t *testing.T) {
	for _, off := range []string{"", "--no-console was given."} {
		a := New(Options{Local: true, ConsoleOff: off})
		mux := http.NewServeMux()
		a.Routes(mux)
		ask := func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			return w.Result()
		}
		cookie, at := enter(a.Access(), a.Access().Link("")), a.Access().Name()+":7300"
		password := "Basic " + base64.StdEncoding.EncodeToString([]byte(PasswordUser+":"+passwordOf(t, a.Access())))
		bearer := "Bearer " + a.Access().Key()
		for _, tt := range []struct {
			r      *http.Request
			status int
		}{
			{asked("GET", "/api/v1/console/link", "Authorization", bearer), 405},
			{asked("POST", "/api/v1/console/link"), 401},
			{asked("POST", "/api/v1/console/link", "Cookie", cookie, "Host", at), 403},
			{asked("POST", "/api/v1/console/link", "Authorization", password), 403},
			{asked("POST", "/api/v1/console/link", "Authorization", bearer, "X-Forwarded-For", "192.0.2.1"), 403},
		} {
			if got := ask(tt.r); got.StatusCode != tt.status || got.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s %v: %d %v", tt.r.Method, tt.r.Header, got.StatusCode, got.Header)
			}
		}
		got := ask(asked("POST", "/api/v1/console/link", "Authorization", bearer))
		body, _ := io.ReadAll(got.Body)
		if off != "" {
			if got.StatusCode != 409 || !strings.Contains(string(body), off) {
				t.Errorf("%d %s", got.StatusCode, body)
			}
			continue
		}
		var link ConsoleLink
		if err := json.Unmarshal(body, &link); err != nil || got.StatusCode != 200 || enter(a.Access(), link.URL) == "" {
			t.Errorf("%d %s", got.StatusCode, body)
		}
	}
}

// TestKeyFile checks that ReadKeys finds the key that WriteKey wrote, and that only the current user
// can read the key file. A process removes a key file only if the process wrote this file.
func TestKeyFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "dragoman")
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	folders := []string{filepath.Join(blocked, "dragoman"), folder}
	path, remove, err := WriteKey(folders, "127.0.0.1:7300", "the-key")
	if err != nil || path != filepath.Join(folder, "serve-127.0.0.1-7300.key") {
		t.Fatal(path, err)
	}
	info, err := os.Stat(path)
	inside, err2 := os.Stat(folder)
	if err != nil || err2 != nil || runtime.GOOS != "windows" && (info.Mode().Perm() != 0o600 || inside.Mode().Perm() != 0o700) {
		t.Errorf("%v %v %v %v", info.Mode(), inside.Mode(), err, err2)
	}
	for address, want := range map[string]int{"127.0.0.1:7300": 1, "localhost:7300": 1, "[::ffff:127.0.0.1]:7300": 1, "127.0.0.1:7301": 0, "[::1]:7300": 0, "nonsense": 0} {
		if keys, err := ReadKeys(folders, address); len(keys) != want || (err == nil) != (want > 0) || want > 0 && keys[0] != "the-key" {
			t.Errorf("%s: %v %v", address, keys, err)
		}
	}
	if _, other, err := WriteKey(folders, "127.0.0.1:7300", "newer"); err != nil {
		t.Fatal(err)
	} else {
		remove()
		if keys, _ := ReadKeys(folders, "127.0.0.1:7300"); len(keys) != 1 {
			t.Error("removing a key removed that of another process")
		}
		other()
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	if _, _, err := WriteKey(nil, "127.0.0.1:7300", "x"); err == nil {
		t.Error("a key was written into no folder")
	}
}

// TestPlantedKeyFile puts other text, a folder or a symbolic link where a key file should be. It
// checks that ReadKeys returns no key, and that WriteKey replaces the link instead of writing to its
// target.
func TestPlantedKeyFile(t *testing.T) {
	folder, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	path := filepath.Join(folder, "serve-127.0.0.1-7300.key")
	if err := os.WriteFile(target, []byte("private"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(what string) {
		t.Helper()
		if keys, err := ReadKeys([]string{folder}, "127.0.0.1:7300"); len(keys) > 0 || err == nil {
			t.Errorf("%s: %q", what, keys)
		}
	}
	for _, text := range []string{"two\nlines", "root:x:0:0", "a b", "é", ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		none(text)
	}
	_ = os.Remove(path)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	none("a folder")
	_ = os.Remove(path)
	if err := os.Symlink(target, path); err != nil {
		t.Skip("links are not permitted here")
	}
	none("a link")
	if _, remove, err := WriteKey([]string{folder}, "127.0.0.1:7300", "the-key"); err != nil {
		t.Error(err)
	} else if keys, err := ReadKeys([]string{folder}, "127.0.0.1:7300"); len(keys) != 1 {
		t.Error(keys, err)
	} else {
		remove()
	}
	if b, err := os.ReadFile(target); string(b) != "private" || err != nil {
		t.Errorf("the target of the link is now %q %v", b, err)
	}
}

// TestKeyFolders checks which folders are used for keys.
func TestKeyFolders(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("the folders of Linux")
	}
	run := t.TempDir()
	of := func(pairs ...string) []string {
		return KeyFolders(func(name string) (string, bool) {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1], true
				}
			}
			return "", false
		})
	}
	for _, tt := range []struct{ got, want []string }{
		{of(), nil},
		{of("HOME", "/home/a"), []string{"/home/a/.cache/dragoman"}},
		{of("HOME", "/home/a", "XDG_CACHE_HOME", "/c", "XDG_RUNTIME_DIR", run), []string{run + "/dragoman", "/c/dragoman"}},
		{of("HOME", "/home/a", "XDG_RUNTIME_DIR", "/not/there"), []string{"/home/a/.cache/dragoman"}},
		{of("XDG_CACHE_HOME", "relative"), nil},
	} {
		if strings.Join(tt.got, " ") != strings.Join(tt.want, " ") {
			t.Errorf("%v, want %v", tt.got, tt.want)
		}
	}
}

// TestProxyHeaders checks that forwarded recognises the headers of common proxies. Each name in
// proxyHeaders must have the form of keys in http.Header. Otherwise it would never match.
func TestProxyHeaders(t *testing.T) {
	for _, name := range append([]string{"X-Forwarded-For", "X-Forwarded-Ssl", "X-Forwarded", "x-forwarded-uri"}, proxyHeaders...) {
		if r := asked("GET", "/x", name, "1"); !forwarded(r) {
			t.Errorf("a request with %s counts as direct", name)
		}
	}
	if forwarded(asked("GET", "/x", "User-Agent", "x", "X-Forward", "1")) {
		t.Error("a direct request counts as forwarded")
	}
}

// TestStreamsEndWithTheRole checks that a stream ends when its reader loses the role, and that another
// reader's goes on.
func TestStreamsEndWithTheRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, mux := New(Options{Local: true}), http.NewServeMux()
		a.Routes(mux)
		access := a.Access()
		var lost atomic.Bool // anna's role
		access.RolesFrom(func(who *identity.Principal, _ string) []identity.Role {
			if who.Subject == "anna" && lost.Load() {
				return []identity.Role{identity.Caller}
			}
			return []identity.Role{identity.Viewer}
		})
		ended := map[string]chan struct{}{"anna": make(chan struct{}), "ben": make(chan struct{})}
		for who, done := range ended {
			r := asked("GET", "/api/v1/calls/stream", "Host", access.Name()+":7300", "Cookie", enter(access, access.LinkFor(identity.Named(who), "")))
			go func() {
				defer close(done)
				mux.ServeHTTP(httptest.NewRecorder(), r)
			}()
		}
		open := func(who string) bool {
			synctest.Wait()
			select {
			case <-ended[who]:
				return false
			default:
				return true
			}
		}
		time.Sleep(time.Minute)
		if !open("anna") || !open("ben") {
			t.Error("a stream has ended too early")
		}
		lost.Store(true)
		time.Sleep(5 * time.Second)
		if open("anna") || !open("ben") {
			t.Errorf("the streams of anna and ben are open: %t, %t", open("anna"), open("ben"))
		}
		a.Drain()
		<-ended["ben"]
	})
}
