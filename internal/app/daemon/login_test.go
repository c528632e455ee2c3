//go:build unix

package daemon

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/idptest"
)

// consoleRoles are those of people who sign in to the console.
var consoleRoles = config.Roles{Claim: "groups", Map: []config.MappedRole{{Value: "staff", Project: "default", Role: identity.Viewer}, {Value: "admins", Project: "default", Role: identity.Admin}}}

// signedInAt returns a serve behind a proxy at mcp.example.com, to whose console people come by way of a provider.
func signedInAt(t *testing.T, p *idptest.Provider) *rig {
	t.Helper()
	s := snapshot()
	s.PublicURL = "https://mcp.example.com"
	s.Access = config.Access{LoopbackKeys: true, Login: &config.Login{Issuer: p.URL, ClientID: p.ClientID, ClientSecret: config.NewSecret(p.Secret), Scopes: []string{"groups"}, Roles: consoleRoles}}
	return serve(t, s)
}

// visitor is a browser at mcp.example.com.
type visitor struct {
	*rig
	cookies map[string]string
}

func newVisitor(r *rig) *visitor { return &visitor{r, map[string]string{}} }

// ask sends a request as the browser does, and keeps the cookies of the answer.
func (v *visitor) ask(method, path, site string, header ...string) answer {
	v.t.Helper()
	var cookies []string
	for name, value := range v.cookies {
		if site != "cross-site" || strings.Contains(name, "login") { // Strict ones don't come from another site
			cookies = append(cookies, name+"="+value)
		}
	}
	header = append([]string{"Host", "mcp.example.com", "Sec-Fetch-Site", site, "Sec-Fetch-Dest", "document", "Cookie", strings.Join(cookies, "; ")}, header...)
	if method == "POST" && site == "same-origin" {
		header = append(header, "Origin", "https://mcp.example.com")
	}
	v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a := v.do(v.t.Context(), method, path, nil, header...)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if v.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(v.cookies, c.Name)
		}
	}
	return a
}

// jar returns all cookies of the browser.
func (v *visitor) jar() string {
	var all []string
	for name, value := range v.cookies {
		all = append(all, name+"="+value)
	}
	return strings.Join(all, "; ")
}

var onward = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]+)"`)

// begin begins to sign in, and returns the URL at which the provider then sends the browser back.
func (v *visitor) begin() *url.URL {
	v.t.Helper()
	a := v.ask("POST", "/login", "same-origin")
	to := onward.FindStringSubmatch(a.body)
	if a.status != 200 || to == nil {
		v.t.Fatalf("POST /login: %d %s", a.status, a.body)
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(html.UnescapeString(to[1]))
	if err != nil {
		v.t.Fatal(err)
	}
	resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || back.Scheme+"://"+back.Host+back.Path != "https://mcp.example.com/login/callback" {
		v.t.Fatalf("the provider: %d %v", resp.StatusCode, resp.Header)
	}
	return back
}

// back comes back from the provider.
func (v *visitor) back(u *url.URL) answer { return v.ask("GET", u.RequestURI(), "cross-site") }

// in reports whether the browser is in the console.
func (v *visitor) in() bool { return v.ask("GET", "/console/", "same-origin").status == 200 }

// TestSignInAtAProvider signs people in at an OpenID provider, whose groups say what they may do, each time anew.
func TestSignInAtAProvider(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	r := signedInAt(t, p)
	ada := newVisitor(r)
	if a := ada.ask("GET", "/console/", "none"); a.status != 401 || !strings.Contains(a.body, "Sign in with "+strings.TrimPrefix(p.URL, "http://")) {
		t.Errorf("the console: %d %s", a.status, a.body)
	}
	p.Person = idptest.Claims{"sub": "ada", "name": "Ada", "groups": []string{"staff"}}
	if a := ada.back(ada.begin()); a.status != 200 || !strings.Contains(a.body, "url=/console/") || !ada.in() {
		t.Fatalf("ada: %d %s", a.status, a.body)
	}
	if a := ada.ask("GET", "/api/v1/people", "same-origin"); a.status != 403 {
		t.Errorf("a viewer reads who there is: %d", a.status)
	}
	bob := newVisitor(r)
	p.Person = idptest.Claims{"sub": "bob", "name": "Ada", "groups": []string{"admins"}}
	if a := bob.back(bob.begin()); a.status != 200 || !bob.in() {
		t.Fatalf("bob: %d %s", a.status, a.body)
	}
	if a := bob.ask("GET", "/api/v1/people", "same-origin"); a.status != 200 || !strings.Contains(a.body, `"Ada"`) || !strings.Contains(a.body, `"Ada 2"`) {
		t.Errorf("an admin reads who there is: %d %s", a.status, a.body)
	}
	// Another browser, and other groups: what the provider says last counts in all of them.
	again := newVisitor(r)
	p.Person = idptest.Claims{"sub": "ada", "name": "Ada", "groups": []string{"admins"}}
	if again.back(again.begin()); !again.in() || ada.ask("GET", "/api/v1/people", "same-origin").status != 200 {
		t.Error("ada isn't an admin after the provider has said so")
	}
	for _, groups := range []any{nil, []string{"Staff"}, 7, "x"} {
		p.Person = idptest.Claims{"sub": "ada", "groups": groups}
		other := newVisitor(r)
		if a := other.back(other.begin()); a.status != 403 || !strings.Contains(a.body, "none of its groups") || other.in() || ada.in() || again.in() {
			t.Errorf("with the groups %v: %d %s", groups, a.status, a.body)
		}
	}
	if !bob.in() {
		t.Error("bob is out")
	}
	if a := bob.ask("POST", "/console/signout", "same-origin"); a.status != 200 || bob.in() {
		t.Errorf("signing out: %d", a.status)
	}
	if text := r.log.String(); strings.Contains(text, p.Secret) || strings.Contains(text, "code=") && strings.Contains(text, "callback?") {
		t.Error("the log has a secret or a code")
	}
}

// TestTA12_ForeignHostsOfTheLogin asks for the pages of the sign-in under names that aren't ours.
func TestTA12_ForeignHostsOfTheLogin(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	p.Person = idptest.Claims{"sub": "ada", "groups": []string{"staff"}}
	r := signedInAt(t, p)
	v := newVisitor(r)
	back := v.begin()
	for _, host := range []string{"evil.example", "mcp.example.com.evil.example", "mcp.example.com:444", "127.0.0.1", "localhost"} {
		for _, x := range [][2]string{{"GET", "/login"}, {"POST", "/login"}, {"GET", back.RequestURI()}} {
			a := v.do(t.Context(), x[0], x[1], nil, "Host", host, "Cookie", "__Host-dragoman_login_80="+v.cookies["__Host-dragoman_login_80"])
			if a.status != 403 && a.status != 404 || len(a.header["Set-Cookie"]) > 0 {
				t.Errorf("%s %s at %s: %d %v", x[0], x[1], host, a.status, a.header)
			}
		}
	}
	if a := v.back(back); a.status != 200 || len(v.cookies) == 0 {
		t.Errorf("at the right one: %d %s", a.status, a.body)
	}
}

// TestTA13_LoginCSRF lets another site begin or end a sign-in, and mixes up those of two browsers. Nobody gets a
// session, and an innocent person signs in all the while.
func TestTA13_LoginCSRF(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	p.Person = idptest.Claims{"sub": "ada", "groups": []string{"staff"}}
	r := signedInAt(t, p)
	for _, x := range [][]string{{"cross-site"}, {"same-site"}, {"cross-site", "Origin", "https://evil.example"}, {"", "Origin", "null"}} {
		v := newVisitor(r)
		if a := v.ask("POST", "/login", x[0], x[1:]...); a.status != 403 || len(v.cookies) > 0 {
			t.Errorf("POST from %v: %d %v", x, a.status, v.cookies)
		}
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} { // what previews and prefetchers send begins nothing
		v := newVisitor(r)
		if v.ask(method, "/login", "none"); len(v.cookies) > 0 {
			t.Errorf("%s /login begins a sign-in", method)
		}
	}
	attacker := newVisitor(r)
	theirs := attacker.begin()
	refused := func(what string, v *visitor, u *url.URL) {
		t.Helper()
		if a := v.back(u); a.status != 400 || v.cookies["__Host-dragoman_console_80"] != "" || v.in() {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	refused("without the cookie of a flow", newVisitor(r), theirs)
	victim := newVisitor(r)
	own := victim.begin()
	refused("with the cookie of another flow", victim, theirs)
	with := func(u *url.URL, change func(url.Values)) *url.URL {
		q := u.Query()
		change(q)
		next := *u
		next.RawQuery = q.Encode()
		return &next
	}
	refused("without state", victim, with(own, func(q url.Values) { q.Del("state") }))
	refused("the code of another with our state", newVisitor(r), with(own, func(q url.Values) { q.Set("code", theirs.Query().Get("code")) }))
	if a := victim.back(own); a.status != 200 || !victim.in() {
		t.Fatalf("the victim's own flow: %d %s", a.status, a.body)
	}
	victim = newVisitor(r)
	own = victim.begin()
	refused("the code of another with our state and cookie", victim, with(own, func(q url.Values) { q.Set("code", theirs.Query().Get("code")) }))
	for what, change := range map[string]func(url.Values){
		"another issuer": func(q url.Values) { q.Set("iss", "https://evil.example") }, "no issuer": func(q url.Values) { q.Del("iss") },
		"two codes": func(q url.Values) { q.Add("code", "x") }, "an error": func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") },
	} {
		v := newVisitor(r)
		if a := v.back(with(v.begin(), change)); a.status < 400 || v.in() || strings.Contains(a.body, "evil.example") {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	innocent := newVisitor(r)
	if a := innocent.back(innocent.begin()); a.status != 200 || !innocent.in() {
		t.Errorf("the innocent: %d %s", a.status, a.body)
	}
}

// TestTA14_CookiesOfTheLogin checks the cookies of a sign-in: what they are like, and that each opens only what it is
// for.
func TestTA14_CookiesOfTheLogin(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	p.Person = idptest.Claims{"sub": "ada", "groups": []string{"admins"}}
	r := signedInAt(t, p)
	v := newVisitor(r)
	a := v.ask("POST", "/login", "same-origin")
	set := a.header["Set-Cookie"]
	if len(set) != 1 || !strings.HasPrefix(set[0], "__Host-dragoman_login_80=") || !strings.HasSuffix(set[0], "; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("the flow's cookie: %v", set)
	}
	back := v.begin()
	flow := v.cookies["__Host-dragoman_login_80"]
	a = v.back(back)
	session := v.cookies["__Host-dragoman_console_80"]
	if set := strings.Join(a.header["Set-Cookie"], "\n"); !regexp.MustCompile(`__Host-dragoman_login_80=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax\n__Host-dragoman_console_80=[^;]+; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict$`).MatchString(set) {
		t.Errorf("the session's cookie: %s", set)
	}
	for _, cookie := range []string{"__Host-dragoman_console_80=" + flow, "__Host-dragoman_login_80=" + session, "__Host-dragoman_login_80=" + flow} {
		for _, path := range []string{"/console/", "/api/v1/people", "/mcp", "/p/default/mcp", "/sse", back.RequestURI()} {
			a := r.do(t.Context(), "GET", path, nil, "Host", "mcp.example.com", "Cookie", cookie)
			if a.status < 400 {
				t.Errorf("%s with %.40s…: %d", path, cookie, a.status)
			}
		}
	}
	if a := r.do(t.Context(), "GET", "/mcp", nil, "Host", "mcp.example.com", "Cookie", "__Host-dragoman_console_80="+session); a.status != 401 {
		t.Errorf("the session opens an endpoint: %d", a.status)
	}
	other := signedInAt(t, p) // with a database of its own
	if a := other.do(t.Context(), "GET", back.RequestURI(), nil, "Host", "mcp.example.com", "Cookie", "__Host-dragoman_login_80="+flow); a.status != 400 {
		t.Errorf("another serve takes the flow: %d", a.status)
	}
}

// TestTA15_LoginReplayed comes back twice, also with the cookie that the browser had before.
func TestTA15_LoginReplayed(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	p.Person = idptest.Claims{"sub": "ada", "groups": []string{"staff"}}
	r := signedInAt(t, p)
	v := newVisitor(r)
	back := v.begin()
	flow := v.cookies["__Host-dragoman_login_80"]
	if a := v.back(back); a.status != 200 || a.header.Get("Referrer-Policy") != "same-origin" || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	for _, cookie := range []string{"", flow} {
		thief := newVisitor(r)
		if cookie != "" {
			thief.cookies["__Host-dragoman_login_80"] = cookie
		}
		if a := thief.back(back); a.status != 400 || thief.in() {
			t.Errorf("again: %d %s", a.status, a.body)
		}
	}
	if !v.in() {
		t.Error("the person is out")
	}
}

// TestNoLogin checks that without a provider nothing is at its paths, and what people see if the provider is down.
func TestNoLogin(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot())
	for _, path := range []string{"/login", "/login/callback?code=x&state=y", "/login/x"} {
		for _, method := range []string{"GET", "POST"} {
			if a := r.do(t.Context(), method, path, nil); a.status != 404 {
				t.Errorf("%s %s: %d", method, path, a.status)
			}
		}
	}
	p := idptest.New(t)
	r = signedInAt(t, p)
	p.Close()
	v := newVisitor(r)
	if a := v.ask("POST", "/login", "same-origin"); a.status != 502 || !strings.Contains(a.body, "sign you in now: it doesn&#39;t answer with its metadata") || !strings.Contains(r.log.String(), "code=login_failed") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestSignInForAClient lets a client send somebody who has no session yet: they sign in at the provider, and go on where
// they were. Without the role caller, a client can do nothing for them.
func TestSignInForAClient(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	roles := config.Roles{Claim: "groups", Map: append([]config.MappedRole{{Value: "staff", Project: "default", Role: identity.Caller}}, consoleRoles.Map...)}
	o := serveOwn(t, func(o *ServeOptions) {
		o.Config.Access.Login = &config.Login{Issuer: p.URL, ClientID: p.ClientID, ClientSecret: config.NewSecret(p.Secret), Roles: roles}
	})
	through := func(groups string, web *relier) *surfer {
		p.Person = idptest.Claims{"sub": groups, "groups": groups}
		b := newSurfer(o.rig)
		b.opens(web.link()).says("Sign in with " + strings.TrimPrefix(p.URL, "http://"))
		b.goes("POST", "/login", nil, "same-origin")
		resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(b.away)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return b.opens(resp.Header.Get("Location"))
	}
	web := o.client(issuer, claude, claudeBack)
	b := through("staff", web).asks("claude.ai asks for access").answers("allow")
	code, problem := web.back(b)
	if problem += web.redeems(code); problem != "" || web.enters(web.access, "/mcp") != 200 {
		t.Errorf("the client: %s", problem)
	}
	through("admins", o.client(issuer, claude, claudeBack)).says("Your role does not allow this")
	// Whom the provider gives no role any more loses what their clients have.
	p.Person = idptest.Claims{"sub": "staff"}
	v := newVisitor(o.rig)
	if a := v.back(v.begin()); a.status != 403 || web.enters(web.access, "/mcp") != 401 {
		t.Errorf("without a group: %d, and the client gets %d", a.status, web.enters(web.access, "/mcp"))
	}
}
