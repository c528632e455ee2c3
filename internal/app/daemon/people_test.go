//go:build unix

package daemon

import (
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// publicName is where a proxy of the tests has the console, with https.
const publicName = "mcp.example.com"

// behindProxy makes clients need keys, and lets the proxy of publicName pass on requests.
func behindProxy(database string) func(*ServeOptions) {
	return func(o *ServeOptions) {
		c := *o.Config
		c.PublicURL, c.Access.LoopbackKeys = "https://"+publicName, true
		o.Config, o.Database = &c, database
	}
}

// rosterAt returns a roster with the same database as a serve, as another process would have it.
func rosterAt(t testing.TB, d *access.Desk) *access.Roster {
	t.Helper()
	r := access.NewRoster(d, access.NewGate(false))
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// invited is a person whose browser has the console at publicName.
type invited struct {
	id, token string
	header    []string // of the browser's requests
	cookie    *http.Cookie
}

// invites returns somebody who has an invitation.
func invites(t testing.TB, from *access.Roster, name string, roles ...identity.Role) *invited {
	t.Helper()
	return invitesTo(t, from, "default", name, roles...)
}

func invitesTo(t testing.TB, from *access.Roster, project, name string, roles ...identity.Role) *invited {
	t.Helper()
	token, p, err := from.Invite(t.Context(), "local", name, project, roles)
	if err != nil {
		t.Fatal(err)
	}
	return &invited{id: p.ID, token: token, header: []string{"Host", publicName}}
}

// accepts sends the form of the invitation.
func (p *invited) accepts(r *rig, more ...string) answer {
	r.t.Helper()
	header := append([]string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Origin", "https://" + publicName}, p.header...)
	r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return r.do(r.t.Context(), "POST", "/console/invitation", strings.NewReader("token="+url.QueryEscape(p.token)), append(header, more...)...)
}

// enters opens the console with the invitation.
func (p *invited) enters(r *rig) {
	r.t.Helper()
	a := p.accepts(r)
	cookies := (&http.Response{Header: a.header}).Cookies()
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/console/" || len(cookies) != 1 {
		r.t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	p.cookie = cookies[0]
	p.header = append(p.header, "Cookie", p.cookie.Name+"="+p.cookie.Value)
}

// sees returns the status of the console's first page.
func (p *invited) sees(r *rig) int {
	r.t.Helper()
	return r.do(r.t.Context(), "GET", "/console/", nil, p.header...).status
}

// follows opens the page's stream of live values.
func (p *invited) follows(r *rig) *stream {
	r.t.Helper()
	s := r.open("GET", "/console/events?page=/console/", "", append(p.header, "Accept", "text/event-stream")...)
	if s.resp.StatusCode != 200 {
		r.t.Fatal(s.resp.Status)
	}
	return s
}

// TestTA15Invitations opens an invitation in all the ways that must not use it up, then accepts it, and tries it
// again. Neither the log nor another site gets the token. Bob's invitation stays good.
func TestTA15Invitations(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(), behindProxy(database))
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	ada, bob := invites(t, roster, "ada", identity.Caller, identity.Viewer), invites(t, roster, "bob", identity.Viewer)
	page := "/console/invitation?token=" + ada.token
	for _, more := range [][]string{nil, {"Sec-Purpose", "prefetch"}, {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"}} {
		for _, method := range []string{"GET", "HEAD"} {
			a := r.do(t.Context(), method, page, nil, append(more, ada.header...)...)
			if a.status != 200 || a.header.Get("Set-Cookie") != "" || a.header.Get("Referrer-Policy") != "same-origin" || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %v: %d %v", method, more, a.status, a.header)
			}
			if method == "GET" && !strings.Contains(a.body, "The user who runs this Dragoman invites you to the project default, as caller and viewer") {
				t.Errorf("the page says %s", a.body)
			}
		}
	}
	for name, path := range map[string]string{"none": "/console/invitation", "made up": "/console/invitation?token=" + strings.Repeat("A", 43), "long": "/console/invitation?token=" + strings.Repeat("A", 4000)} {
		if a := r.do(t.Context(), "GET", path, nil, ada.header...); a.status != 403 || !strings.Contains(a.body, "does not work any more") {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	ada.enters(r)
	if a := ada.accepts(r); a.status != 403 || a.header.Get("Set-Cookie") != "" {
		t.Errorf("a second use: %d", a.status)
	}
	if got := ada.sees(r); got != 200 {
		t.Errorf("ada sees %d", got)
	}
	bob.enters(r)
	for _, secret := range []string{ada.token, bob.token, ada.cookie.Value} {
		if strings.Contains(r.log.String(), secret) {
			t.Error("the log has a token or a session")
		}
	}
}

// TestTA13ForeignForms posts what pages of other sites could post with the browser of somebody who is signed in or
// was invited: nothing happens.
func TestTA13ForeignForms(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(), behindProxy(database))
	roster := rosterAt(t, deskAt(t, database))
	ada, bob := invites(t, roster, "ada", identity.Admin), invites(t, roster, "bob", identity.Viewer)
	ada.enters(r)
	for _, more := range [][]string{{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, {"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example.com"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, {"Sec-Fetch-Site", "", "Origin", "null"}} {
		for _, path := range []string{"/console/signout", "/console/servers/add", "/console/theme", "/api/v1/people", "/api/v1/keys"} {
			if a := r.post(path, `{"name":"x"}`, append(more, ada.header...)...); a.status != 403 || a.header.Get("Set-Cookie") != "" {
				t.Errorf("%s with %v: %d %s", path, more, a.status, a.body)
			}
		}
		if a := bob.accepts(r, more...); a.status != 403 || a.header.Get("Set-Cookie") != "" {
			t.Errorf("bob is signed in by a page with %v: %d", more, a.status)
		}
	}
	if got := ada.sees(r); got != 200 {
		t.Errorf("ada sees %d", got)
	}
	bob.enters(r)
}

// TestTA14CookiesOfPeople checks the cookie of a person, and that it opens no MCP endpoint, nor another dragoman on the
// same host, while Ada's key opens no page.
func TestTA14CookiesOfPeople(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(newWeb(t, true).as(t, "new")), behindProxy(database))
	other := serve(t, snapshot(), behindProxy(filepath.Join(t.TempDir(), "other.db")))
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	ada, bob := invites(t, roster, "ada", identity.Caller, identity.Admin), invites(t, roster, "bob", identity.Viewer)
	ada.enters(r)
	bob.enters(r)
	key, _ := makeKey(t, desk, access.Wish{Name: "laptop", Owner: "p:" + ada.id, Project: "default", Role: identity.Caller})
	c := ada.cookie
	if !strings.HasPrefix(c.Name, "__Host-") || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || !thirtyDays(c) {
		t.Errorf("the cookie is %+v", c)
	}
	for _, path := range []string{"/mcp", "/s/new/mcp", "/sse", "/p/default/mcp"} {
		if a := r.modern(path, "1", "tools/list", "", "", ada.header...); a.status != 401 {
			t.Errorf("the cookie at %s: %d %s", path, a.status, a.body)
		}
	}
	soon(t, "ada's key counts", func() bool { return r.modern("/mcp", "1", "tools/list", "", "", key...).status == 200 })
	for _, path := range []string{"/console/", "/console/calls", "/console/settings"} {
		if a := r.do(t.Context(), "GET", path, nil, append(key, "Host", publicName)...); a.status != 401 {
			t.Errorf("the key at %s: %d", path, a.status)
		}
		if a := other.do(t.Context(), "GET", path, nil, ada.header...); a.status != 401 {
			t.Errorf("another dragoman at %s: %d", path, a.status)
		}
	}
	for name, header := range map[string][]string{
		"at an address": {"Cookie", c.Name + "=" + c.Value}, "without TLS": {"Host", publicName + ":80", "Cookie", c.Name + "=" + c.Value},
		"with the name of the local cookie": {"Host", publicName, "Cookie", strings.TrimPrefix(c.Name, "__Host-") + "=" + c.Value},
	} {
		if a := r.do(t.Context(), "GET", "/console/", nil, header...); a.status == 200 {
			t.Errorf("the cookie %s opens the console", name)
		}
	}
	if ada.sees(r) != 200 || bob.sees(r) != 200 {
		t.Error("ada or bob is out")
	}
}

// thirtyDays reports whether a cookie lasts as long as the session of somebody who has just accepted an invitation.
func thirtyDays(c *http.Cookie) bool { return c.MaxAge > 30*24*3600-60 && c.MaxAge <= 30*24*3600 }

// TestTA16NamesOfPeople invites somebody whose name is a script. No page runs it, and no page lets itself be framed.
func TestTA16NamesOfPeople(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(), behindProxy(database))
	roster := rosterAt(t, deskAt(t, database))
	const name = `<img src=x onerror=alert(1)>"'`
	odd := invites(t, roster, name, identity.Viewer)
	page := "/console/invitation?token=" + odd.token
	invitation := r.do(t.Context(), "GET", page, nil, odd.header...)
	odd.enters(r)
	me := r.do(t.Context(), "GET", "/console/me", nil, odd.header...)
	err := roster.SetRoles(t.Context(), "p:"+odd.id, odd.id, "default", []identity.Role{identity.Caller})
	if err != nil {
		t.Fatal(err)
	}
	soon(t, "the role is gone", func() bool { return odd.sees(r) == 403 })
	for what, a := range map[string]answer{"invitation": invitation, "me": me, "refusal": r.do(t.Context(), "GET", "/console/", nil, odd.header...)} {
		if strings.Contains(a.body, "<img") || what != "refusal" && !strings.Contains(a.body, "&lt;img src=x onerror") ||
			a.header.Get("X-Frame-Options") != "DENY" || !strings.Contains(a.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v %s", what, a.header, a.body)
		}
	}
}

// TestTA11People takes from Ada one thing after the other: the role in another process, the session, and all. Within a
// second her pages are refused, also at a second serve with the same database, and her stream and her key's
// session end. Bob, who has the same, goes on, and is still signed in after a restart.
func TestTA11People(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	few := func(s *webServer) { s.tools = `{"name":"echo","inputSchema":{"type":"object"}}` }
	c := snapshot(newWeb(t, true, few).as(t, "new"))
	r, replica := serve(t, c, behindProxy(database)), serve(t, c, behindProxy(database))
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	ada, bob := invites(t, roster, "ada", identity.Caller, identity.Viewer), invites(t, roster, "bob", identity.Caller, identity.Viewer)
	ada.enters(r)
	bob.enters(r)
	soon(t, "the sessions count at the replica", func() bool { return ada.sees(replica) == 200 && bob.sees(replica) == 200 })
	sessions, streams := map[string][]string{}, map[string]*stream{}
	for name, p := range map[string]*invited{"ada": ada, "bob": bob} {
		key, _ := makeKey(t, desk, access.Wish{Name: name, Owner: "p:" + p.id, Project: "default", Role: identity.Caller})
		soon(t, name+"'s key counts", func() bool { return r.modern("/mcp", "1", "tools/list", "", "", key...).status == 200 })
		a := r.post("/mcp", initializeBody("2025-11-25", "{}"), key...)
		sessions[name] = append([]string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}, key...)
		r.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sessions[name]...)
		streams[name] = r.open(http.MethodGet, "/mcp", "", append([]string{"Accept", "text/event-stream"}, sessions[name]...)...)
	}
	calls := func(name string) answer { return r.post("/mcp", toolCall("7", "new__echo", "{}"), sessions[name]...) }
	if a := calls("ada"); a.status != 200 || a.code(t) != 0 {
		t.Fatalf("ada calls: %d %s", a.status, a.body)
	}
	bobs := bob.follows(r)
	set := func(roles ...identity.Role) {
		t.Helper()
		if err := roster.SetRoles(t.Context(), "local", ada.id, "default", roles); err != nil {
			t.Fatal(err)
		}
	}

	adas := ada.follows(r)
	set(identity.Viewer)
	soon(t, "the role caller is gone", func() bool { return calls("ada").status == 401 })
	ended(t, streams["ada"])
	if a := calls("ada"); !strings.Contains(a.body, "may not use it any more") {
		t.Errorf("ada's key is refused with %s", a.body)
	}
	if ada.sees(r) != 200 || !goesOn(adas) {
		t.Error("ada, who is a viewer, is out")
	}
	set(identity.Caller)
	began := time.Now()
	soon(t, "the role viewer is gone", func() bool { return ada.sees(r) == 403 && ada.sees(replica) == 403 })
	endsWithin(t, "without the role", 2*time.Second-time.Since(began), adas)

	set(identity.Caller, identity.Viewer)
	soon(t, "ada is a viewer again", func() bool { return ada.sees(r) == 200 })
	adas = ada.follows(r)
	if a := r.post("/console/signout", "", append(ada.header, "Sec-Fetch-Site", "same-origin")...); a.status != 200 || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") || !strings.Contains(a.body, "ask an admin") {
		t.Errorf("ada signs out: %d %v %s", a.status, a.header, a.body)
	}
	endsWithin(t, "after signing out", 2*time.Second, adas)
	soon(t, "ada is out at the replica, too", func() bool { return ada.sees(r) == 401 && ada.sees(replica) == 401 })

	var err error
	if ada.token, _, err = roster.Link(t.Context(), "local", ada.id, "default"); err != nil {
		t.Fatal(err)
	}
	ada.header = ada.header[:2]
	ada.enters(r)
	adas = ada.follows(r)
	soon(t, "ada's key works again", func() bool { return r.modern("/mcp", "1", "tools/list", "", "", sessions["ada"][4:]...).status == 200 })
	if err := roster.Remove(t.Context(), "local", ada.id); err != nil {
		t.Fatal(err)
	}
	soon(t, "ada is removed", func() bool { return ada.sees(r) == 401 && ada.sees(replica) == 401 && refused(calls("ada")) })
	endsWithin(t, "after the removal", 2*time.Second, adas)

	if a := calls("bob"); a.status != 200 || a.code(t) != 0 {
		t.Errorf("bob calls: %d %s", a.status, a.body)
	}
	if bob.sees(r) != 200 || bob.sees(replica) != 200 || !goesOn(bobs) {
		t.Error("bob is out, too")
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := serve(t, c, behindProxy(database))
	if bob.sees(again) != 200 || ada.sees(again) != 401 {
		t.Error("after a restart, bob is out or ada in")
	}
}

// TestTA10PeopleAndKeys checks that two keys of one person, and those of two people, have sessions of their own.
func TestTA10PeopleAndKeys(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(), behindProxy(database))
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	ada, bob := invites(t, roster, "ada", identity.Caller), invites(t, roster, "bob", identity.Caller)
	keys := map[string][]string{}
	for name, p := range map[string]*invited{"laptop": ada, "phone": ada, "bob": bob} {
		keys[name], _ = makeKey(t, desk, access.Wish{Name: name, Owner: "p:" + p.id, Project: "default", Role: identity.Caller})
	}
	ids := map[string]string{}
	for name, key := range keys {
		soon(t, name+"'s key counts", func() bool {
			ids[name] = r.post("/mcp", initializeBody("2025-11-25", "{}"), key...).header.Get("Mcp-Session-Id")
			return ids[name] != ""
		})
	}
	for name, id := range ids {
		for other, key := range keys {
			a := r.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, append([]string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}, key...)...)
			if want := map[bool]int{true: 200, false: 404}[name == other]; a.status != want {
				t.Errorf("the session of %s with the key of %s: %d %s", name, other, a.status, a.body)
			}
		}
	}
}

// TestInvitationOnLoopback accepts invitations at an address of this machine: Chromium goes to the console's name,
// and another browser gets a password. Both are signed in as the person.
func TestInvitationOnLoopback(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(), func(o *ServeOptions) { o.Database = database })
	roster := rosterAt(t, deskAt(t, database))
	at := strings.TrimPrefix(r.base, "http://")
	for agent, who := range map[string]*invited{"Chrome/140.0.0.0": invites(t, roster, "ada", identity.Viewer), "Version/26.0 Safari/605.1.15": invites(t, roster, "bob", identity.Viewer)} {
		who.header = []string{"Host", at, "User-Agent", agent, "Origin", r.base}
		a := who.accepts(r)
		header := []string(nil)
		if strings.HasPrefix(agent, "Chrome") {
			onward := regexp.MustCompile(`http-equiv="refresh" content="0; url=(http://dragoman-[^"]+)"`).FindStringSubmatch(a.body)
			if onward == nil || a.status != 200 || a.header.Get("Set-Cookie") != "" {
				t.Fatalf("%d %v %s", a.status, a.header, a.body)
			}
			to, err := url.Parse(onward[1])
			if err != nil {
				t.Fatal(err)
			}
			in := r.do(t.Context(), "GET", to.RequestURI(), nil, "Host", to.Host)
			cookies := (&http.Response{Header: in.header}).Cookies()
			if len(cookies) != 1 || !thirtyDays(cookies[0]) || !cookies[0].HttpOnly {
				t.Fatalf("%d %v", in.status, in.header)
			}
			header = []string{"Host", to.Host, "Cookie", cookies[0].Name + "=" + cookies[0].Value}
			if again := r.do(t.Context(), "GET", to.RequestURI(), nil, "Host", to.Host); again.header.Get("Set-Cookie") != "" {
				t.Error("the way to the console's name works twice")
			}
		} else {
			found := regexp.MustCompile(`Password</dt><dd class="wrap"><code>([^<]+)`).FindStringSubmatch(a.body)
			if found == nil || !strings.Contains(a.body, `href="`+r.base+`/console/signin"`) {
				t.Fatalf("no password: %d %s", a.status, a.body)
			}
			req, _ := http.NewRequest("GET", "/", nil)
			req.SetBasicAuth("dragoman", found[1])
			header = []string{"Authorization", req.Header.Get("Authorization")}
		}
		if a := r.do(t.Context(), "GET", "/console/me", nil, header...); a.status != 200 || !strings.Contains(a.body, map[bool]string{true: "<h1><bdi>ada</bdi>", false: "<h1><bdi>bob</bdi>"}[strings.HasPrefix(agent, "Chrome")]) {
			t.Errorf("%s: %d %s", agent, a.status, a.body)
		}
		if a := r.do(t.Context(), "POST", "/api/v1/keys", strings.NewReader(`{"name":"x"}`), header...); a.status != 403 {
			t.Errorf("a viewer makes a key: %d %s", a.status, a.body)
		}
	}
}

// TestWhoOperates lets an operator stop a server in the console, and a program start and stop it with its key. The
// log and the status say who it was.
func TestWhoOperates(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(newWeb(t, true).as(t, "new")), behindProxy(database))
	desk := deskAt(t, database)
	ada := invites(t, rosterAt(t, desk), "Ada", identity.Operator)
	ada.enters(r)
	if a := r.post("/console/servers/new/stop", "", append(ada.header, "Sec-Fetch-Site", "same-origin")...); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.body)
	}
	key, _ := makeKey(t, desk, access.Wish{Name: "nightly", Project: "default", Role: identity.Operator})
	for _, op := range []string{"start", "restart", "probe", "stop"} {
		soon(t, op+" with the key", func() bool { return r.post("/api/v1/servers/new/"+op, "", key...).status == http.StatusAccepted })
	}
	for _, want := range []string{
		`msg="server stopped by an operator" server=new by="in the console (Ada)"`,
		"msg=\"server started by an operator\" server=new by=\"with `dragoman start` or the admin API (nightly)\"",
		"msg=\"server restarted by an operator\" server=new by=\"with `dragoman restart` or the admin API (nightly)\"",
		"msg=\"server probed again by an operator\" server=new by=\"with `dragoman probe` or the admin API (nightly)\"",
	} {
		if r.log.count(want) != 1 {
			t.Errorf("the log doesn't have %s:\n%s", want, r.log.String())
		}
	}
	if a := r.do(t.Context(), "GET", "/api/v1/servers/new", nil, key...); !strings.Contains(a.body, "was stopped by an operator with `dragoman stop` or the admin API (nightly)") {
		t.Errorf("the status says %s", a.body)
	}
}
