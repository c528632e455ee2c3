//go:build unix

package daemon

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// registers makes a client register, and returns it.
func (o *ownSignIn) registers(body string) *relier {
	o.t.Helper()
	status, out := o.postsJSON("/register", body)
	id, _ := out["client_id"].(string)
	if status != 201 || id == "" {
		o.t.Fatal(status, out)
	}
	uris, _ := out["redirect_uris"].([]any)
	c := o.client(issuer, id, uris[0].(string))
	c.secret, _ = out["client_secret"].(string)
	return c
}

func (o *ownSignIn) postsJSON(path, body string, header ...string) (status int, out map[string]any) {
	o.t.Helper()
	a := o.post(path, body, append([]string{"Host", publicName, "Origin", "https://inspector.example"}, header...)...)
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		o.t.Errorf("%s: %d %s", path, a.status, a.body)
	}
	return a.status, out
}

// TestTA12ForeignHost asks for each of the authorization server's routes by a name that was bound to our address.
func TestTA12ForeignHost(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	c := o.client(issuer, claude, claudeBack)
	_, query, _ := strings.Cut(c.link(), "?")
	for _, path := range []string{"/authorize?" + query, "/consent?" + query, "/token", "/register", "/revoke", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			for _, host := range []string{"evil.example", publicName + ".evil.example", "evil." + publicName} {
				if a := o.do(t.Context(), method, path, nil, "Host", host); a.status != 403 || a.header.Get("Set-Cookie") != "" {
					t.Errorf("%s %s for %s: %d", method, path, host, a.status)
				}
			}
		}
	}
	c.signsIn(o.ada) // an innocent one
}

// TestTA13ForgedConsents posts the consent form as other sites and other people could.
func TestTA13ForgedConsents(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	c := o.client(issuer, claude, claudeBack)
	form := func(b *surfer) url.Values {
		v := url.Values{"answer": {"allow"}}
		for _, m := range hidden.FindAllStringSubmatch(b.opens(c.link()).asks().page.body, -1) {
			v.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
		}
		return v
	}
	ada, bob := form(o.ada), form(o.bob)
	cookies := func(b *surfer, but string) (all []string) {
		for name, c := range b.cookies[publicName] {
			if but == "" || !strings.Contains(name, but) {
				all = append(all, "Cookie", name+"="+c.Value)
			}
		}
		return all
	}
	changed := func(name, value string) url.Values {
		v := url.Values{}
		for k, x := range ada {
			v[k] = x
		}
		v.Set(name, value)
		return v
	}
	same := []string{"Sec-Fetch-Site", "same-origin", "Origin", issuer}
	for name, x := range map[string]struct {
		form    url.Values
		cookies []string
		header  []string
		want    int
	}{
		"from another site":          {ada, cookies(o.ada, ""), []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403},
		"from a sister site":         {ada, cookies(o.ada, ""), []string{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example.com"}, 403},
		"without Sec-Fetch":          {ada, cookies(o.ada, ""), []string{"Origin", "https://evil.example"}, 403},
		"without the flow's cookie":  {ada, cookies(o.ada, "flow"), same, 403},
		"without a session":          {ada, cookies(o.ada, "console"), same, 401},
		"bob's form":                 {bob, cookies(o.ada, ""), same, 403},
		"ada's form in bob's place":  {ada, cookies(o.bob, ""), same, 403},
		"bob's flow":                 {ada, append(cookies(o.bob, "console"), cookies(o.ada, "flow")...), same, 403},
		"without a token":            {changed("token", ""), cookies(o.ada, ""), same, 403},
		"older":                      {changed("made", "1000000000"), cookies(o.ada, ""), same, 403},
		"another request":            {changed("query", strings.Replace(ada.Get("query"), "state+of", "other", 1)), cookies(o.ada, ""), same, 403},
		"another client's challenge": {changed("query", strings.Replace(ada.Get("query"), challenge(c.verifier), challenge("x"), 1)), cookies(o.ada, ""), same, 403},
	} {
		a := o.do(t.Context(), "POST", "/consent", strings.NewReader(x.form.Encode()), append(append([]string{"Host", publicName, "Content-Type", "application/x-www-form-urlencoded"}, x.cookies...), x.header...)...)
		if a.status != x.want || a.header.Get("Location") != "" || strings.Contains(a.body, "drgc_") {
			t.Errorf("%s: %d %s", name, a.status, a.header.Get("Location"))
		}
	}
	// A link of another site to the page itself gets nothing either: that site's request has no session.
	stranger := newSurfer(o.rig)
	stranger.opens(strings.Replace(c.link(), "/authorize", "/consent", 1))
	if stranger.page.status != 403 || stranger.away != "" {
		t.Errorf("a link to the consent page: %d", stranger.page.status)
	}
	if a := o.do(t.Context(), "POST", "/consent", strings.NewReader(ada.Encode()), append(append([]string{"Host", publicName, "Content-Type", "application/x-www-form-urlencoded"}, cookies(o.ada, "")...), same...)...); a.status != 303 {
		t.Errorf("ada's own form: %d", a.status)
	}
}

// TestTA14CookiesOfSignIn checks the cookies of a sign-in, and that they, a session and a token each open only what they
// are for.
func TestTA14CookiesOfSignIn(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	c := o.client(issuer, claude, claudeBack)
	stranger := newSurfer(o.rig).opens(c.link())
	stranger.says("Sign in first", "Open the link of your invitation")
	if stranger.page.status != 401 || len(stranger.cookies[publicName]) != 2 {
		t.Fatalf("%d %v", stranger.page.status, stranger.cookies)
	}
	for name, x := range stranger.cookies[publicName] {
		if !strings.HasPrefix(name, "__Host-dragoman_") || !x.HttpOnly || !x.Secure || x.SameSite != http.SameSiteLaxMode || x.MaxAge != 600 || x.Domain != "" || x.Path != "/" {
			t.Errorf("%+v", x)
		}
	}
	if stranger.types(issuer + "/console/"); stranger.page.status != 401 {
		t.Errorf("the flow's cookies open the console: %d", stranger.page.status)
	}
	c.signsIn(o.ada)
	cookie := []string{"Host", publicName, "Cookie", o.adaIs.cookie.Name + "=" + o.adaIs.cookie.Value}
	if got := o.modern("/mcp", "1", "tools/list", "", "", cookie...).status; got != 401 {
		t.Errorf("a session opens an endpoint: %d", got)
	}
	token := []string{"Host", publicName, "Authorization", "Bearer " + c.access}
	for path, want := range map[string]int{"/console/": 401, "/api/v1/status": 403, "/api/v1/keys": 403, "/metrics": 401} {
		if got := o.do(t.Context(), "GET", path, nil, token...).status; got != want && got != 401 {
			t.Errorf("a token at %s: %d", path, got)
		}
	}
	whole := o.client(issuer, claude, claudeBack)
	whole.resource = "" // for all endpoints
	whole.signsIn(o.ada)
	for path, want := range map[string]int{"/mcp": 200, "/s/a/mcp": 200, "/p/default/mcp": 200, "/p/other/mcp": 404, "/metrics": 403, "/api/v1/status": 401} {
		method := "POST"
		if !strings.HasSuffix(path, "mcp") {
			method = "GET"
		}
		got := 0
		if method == "POST" {
			got = whole.enters(whole.access, path)
		} else {
			got = o.do(t.Context(), method, path, nil, "Host", publicName, "Authorization", "Bearer "+whole.access).status
		}
		if got != want {
			t.Errorf("a token for all endpoints at %s: %d, want %d", path, got, want)
		}
	}
}

// TestTA15SignInGoesOn lets somebody accept an invitation while a sign-in waits: it goes on, once, and looking at the pages
// or prefetching them makes no code, also where consent is remembered.
func TestTA15SignInGoesOn(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	roster := rosterAt(t, deskAt(t, o.database))
	cyn := invites(t, roster, "cyn", identity.Caller)
	b, c := newSurfer(o.rig), o.client(issuer, claude, claudeBack)
	b.opens(c.link()).says("Sign in first")
	soon(t, "the invitation counts", func() bool {
		return o.do(t.Context(), "GET", "/console/invitation?token="+cyn.token, nil, cyn.header...).status == 200
	})
	b.goes("POST", "/console/invitation", url.Values{"token": {cyn.token}}, "same-origin")
	code, problem := c.back(b.asks("cyn").answers("allow"))
	if problem += c.redeems(code); problem != "" {
		t.Fatal(problem)
	}
	// Consent is remembered from now on.
	for _, more := range [][]string{{"Sec-Purpose", "prefetch"}, {"Sec-Purpose", "prefetch;prerender"}} {
		b.head = append([]string{"User-Agent", "Chrome/140.0.0.0"}, more...)
		b.opens(c.link())
		if b.away != "" || b.page.header.Get("Location") != "" {
			t.Errorf("%v: the browser went to %s", more, b.away)
		}
		if b.page.header.Get("Cache-Control") != "no-store" || b.page.header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%v", b.page.header)
		}
	}
	b.head = []string{"User-Agent", "Chrome/140.0.0.0"}
	b.opens(c.link())
	if code, _ := c.back(b); code == "" {
		t.Error("consent is not remembered")
	}
	if b.types(issuer + "/console/"); strings.Contains(b.at.Path, "authorize") || strings.Contains(b.at.Path, "consent") {
		t.Errorf("a sign-in that is over goes on at %s", b.at)
	}
	log := o.log.String()
	for _, secret := range []string{code, c.access, c.refreshToken, cyn.token, c.verifier} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// TestTA16HostileNames shows clients whose names are markup or turn the direction of text, and checks the policy of each
// page.
func TestTA16HostileNames(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	for _, name := range []string{"<img src=x onerror=alert(1)>", "\u202egro.evil", "A\u200bB", "\"><script>alert(1)</script>", "{{.}}", strings.Repeat("W", 100)} {
		body, _ := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{"https://evil.example/'; script-src *"[:21], "http://localhost/x"}})
		c := o.registers(string(body))
		c.redirect = "https://evil.example/"
		b := o.ada.opens(c.link()).asks("An unverified client asks for access")
		raw := b.page.body
		if strings.Contains(raw, "<img") || strings.Contains(raw, "<script") || strings.Contains(raw, "\u202e") || strings.Contains(raw, "\u200b") {
			t.Errorf("%q: %s", name, raw)
		}
		csp := b.page.header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "form-action 'self' https://evil.example;") || !strings.Contains(csp, "default-src 'none'") || b.page.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s", csp)
		}
	}
	for _, path := range []string{"/authorize", "/authorize?client_id=" + url.QueryEscape(claude), "/consent", "/consent?x"} {
		a := o.do(t.Context(), "GET", path, nil, "Host", publicName)
		if !strings.Contains(a.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || !strings.Contains(a.header.Get("Content-Security-Policy"), "form-action 'self';") || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
	}
}

// TestTA17ConfusedDeputy replays the attack of the security best practices: somebody has agreed to one client, and
// follows the link of another, or of the same with another redirect URI.
func TestTA17ConfusedDeputy(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	c := o.client(issuer, claude, claudeBack)
	c.signsIn(o.ada)
	if o.ada.opens(c.link()); o.ada.away == "" {
		t.Fatal("consent is not remembered")
	}
	if o.bob.opens(c.link()).asks(); o.bob.away != "" {
		t.Error("ada's consent counts for bob")
	}
	evil := o.registers(`{"client_name":"Claude","redirect_uris":["https://evil.example/back"]}`)
	o.ada.opens(evil.link()).asks("An unverified client asks for access", "evil.example")
	stolen := o.client(issuer, claude, "https://evil.example/back")
	if o.ada.opens(stolen.link()); o.ada.away != "" || o.ada.page.status != 400 {
		t.Errorf("%s %d", o.ada.away, o.ada.page.status)
	}
	o.ada.opens(c.link("resource", issuer+"/s/a/mcp")).asks("https://" + publicName + "/s/a/mcp") // another resource asks, too
	local := o.client(issuer, claudeCode, claudeCodeBack)
	local.signsIn(o.ada)
	o.ada.opens(local.link()).asks("A program asks for access", "The answer goes to a program on the machine with this browser")
}

// TestTA18OpenRedirect follows links with bad clients, redirect URIs and requests: nobody is sent anywhere.
func TestTA18OpenRedirect(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	c := o.client(issuer, claude, claudeBack)
	evil := o.registers(`{"redirect_uris":["https://evil.example/back"]}`)
	for name, link := range map[string]string{
		"no client":            c.link("client_id", ""),
		"an unknown client":    c.link("client_id", "client-x"),
		"no document":          c.link("client_id", "https://evil.example/client"),
		"no redirect URI":      c.link("redirect_uri", ""),
		"another":              c.link("redirect_uri", "https://evil.example/"),
		"a relative one":       c.link("redirect_uri", "//evil.example/"),
		"a client twice":       c.link() + "&client_id=x",
		"a redirect URI twice": c.link() + "&redirect_uri=" + url.QueryEscape("https://evil.example/"),
		"a bad query":          c.link() + "&%zz",
		"a long query":         c.link("state", strings.Repeat("x", 4000)),
		"a control character":  c.link("state", "a\nb"),
		"of a stranger":        evil.link("response_type", "token"),
		"of a stranger, plain": evil.link("code_challenge_method", "plain"),
	} {
		for _, b := range []*surfer{o.ada, newSurfer(o.rig)} {
			if b.opens(link); b.away != "" || b.page.header.Get("Location") != "" || !strings.Contains(b.page.body, "This sign-in is not possible") {
				t.Errorf("%s: %q %d %s", name, b.away, b.page.status, b.page.body)
			}
		}
	}
	for name, more := range map[string][]string{
		"unsupported_response_type": {"response_type", "token"}, "invalid_target": {"resource", "https://evil.example/mcp"},
		"invalid_request": {"code_challenge", ""}, "request_not_supported": {"request", "x"}, "request_uri_not_supported": {"request_uri", "https://x"}, "interaction_required": {"prompt", "none"},
	} {
		if code, problem := c.back(o.ada.opens(c.link(more...))); code != "" || problem != name {
			t.Errorf("%v: %q %q", more, code, problem)
		}
	}
}

// TestTA19ConsentPhishing checks that a client that says something else about itself asks anew, and that programs on
// loopback always ask.
func TestTA19ConsentPhishing(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	const id, back = "https://vendor.example/client", "https://vendor.example/back"
	document := func(name, more string) string {
		return `{"client_id":"` + id + `","client_name":"` + name + `","redirect_uris":["` + back + `"` + more + `]}`
	}
	o.documents.publish(id, document("Vendor", ""))
	o.client(issuer, id, back).signsIn(o.ada)
	session := o.ada.cookies
	again := func(what, body string, asks bool) {
		t.Helper()
		if err := o.stop(); err != nil {
			t.Fatal(err)
		}
		o.rig = serve(t, snapshot(child(t, "a", "legacy")), behindProxy(o.database), func(s *ServeOptions) {
			s.Config.Access.Own.On, s.documents = true, o.documents
		})
		o.documents.publish(id, body)
		b := newSurfer(o.rig)
		b.cookies = session
		b.opens(o.client(issuer, id, back).link())
		if asked := b.away == ""; asked != asks {
			t.Errorf("%s: asked %t", what, asked)
		}
		if asks {
			b.asks("vendor.example asks for access").answers("allow")
		}
	}
	again("unchanged", document("Vendor", ""), false)
	again("another name", document("Claude", ""), true)
	again("the same name again", document("Claude", ""), false)
	again("another redirect URI", document("Claude", `,"https://vendor.example/other"`), true)
}

// TestTA21CodeTheft uses a stolen code in all the ways in which it is worth nothing, and then twice.
func TestTA21CodeTheft(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	c, other := o.client(issuer, claudeCode, claudeCodeBack), o.client(issuer, claude, claudeBack)
	other.signsIn(o.bob)
	code, _ := c.back(o.ada.opens(c.link()).asks().answers("allow"))
	another := code[:len(code)-1] + "x"
	if another == code {
		another = code[:len(code)-1] + "y"
	}
	for name, x := range map[string]struct {
		more []string
		want string
	}{
		"no verifier":      {[]string{"code_verifier", ""}, "invalid_grant"},
		"another verifier": {[]string{"code_verifier", strings.Repeat("w", 43)}, "invalid_grant"},
		"the challenge":    {[]string{"code_verifier", challenge(c.verifier)}, "invalid_grant"},
		"another client":   {[]string{"client_id", claude}, "invalid_grant"},
		"another redirect": {[]string{"redirect_uri", "http://localhost:1/callback"}, "invalid_grant"},
		"another resource": {[]string{"resource", issuer + "/s/a/mcp"}, "invalid_target"},
		"all endpoints":    {[]string{"resource", issuer}, "invalid_target"},
		"a foreign one":    {[]string{"resource", "https://evil.example/mcp"}, "invalid_target"},
		"no client":        {[]string{"client_id", ""}, "invalid_client"},
		"unknown client":   {[]string{"client_id", "client-x"}, "invalid_client"},
		"another code":     {[]string{"code", another}, "invalid_grant"},
		"no code":          {[]string{"code", ""}, "invalid_grant"},
		"as a refresh":     {[]string{"grant_type", "refresh_token", "refresh_token", code}, "invalid_grant"},
		"no grant type":    {[]string{"grant_type", ""}, "invalid_request"},
		"a password":       {[]string{"grant_type", "password"}, "unsupported_grant_type"},
	} {
		if got := c.redeems(code, x.more...); got != x.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := c.redeems(code, "redirect_uri", "", "resource", ""); got != "" {
		t.Fatalf("what a client may leave out: %q", got)
	}
	stream := o.open("GET", "/mcp", "", append([]string{"Authorization", "Bearer " + c.access, "Accept", "text/event-stream", "Mcp-Session-Id", c.begins()}, c.host...)...)
	if stream.resp.StatusCode != 200 {
		t.Fatal(stream.resp.Status)
	}
	if got := c.redeems(code); got != "invalid_grant" || c.enters(c.access, "/mcp") != 401 {
		t.Errorf("a second use: %q, and then %d", got, c.enters(c.access, "/mcp"))
	}
	soon(t, "the stream of the stolen token ends", stream.ended)
	if got := c.refreshes(c.refreshToken); got != "invalid_grant" {
		t.Errorf("its refresh token: %q", got)
	}
	if other.enters(other.access, "/mcp") != 200 {
		t.Error("another client's token ended")
	}
	if !strings.Contains(o.log.String(), "code=grant_replayed") {
		t.Error("the log doesn't say it")
	}
}

// begins starts a session, and returns its id.
func (c *relier) begins() string {
	c.r.t.Helper()
	a := c.r.post("/mcp", initializeBody("2025-11-25", "{}"), append([]string{"Authorization", "Bearer " + c.access}, c.host...)...)
	id := a.header.Get("Mcp-Session-Id")
	if a.status != 200 || id == "" {
		c.r.t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	return id
}

// TestTA23Stranded checks that a client whose grant or registration is gone hears exactly what makes it begin anew.
func TestTA23Stranded(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	c := o.registers(`{"client_name":"Cursor","redirect_uris":["cursor://anysphere.cursor-mcp/oauth/callback","http://localhost:8787/callback"],"token_endpoint_auth_method":"client_secret_post","grant_types":["authorization_code","refresh_token","implicit"],"scope":"openid"}`)
	c.redirect = "http://localhost:8787/callback"
	innocent := o.client(issuer, claude, claudeBack)
	innocent.signsIn(o.bob)
	c.signsIn(o.ada)
	secret := c.secret
	for name, use := range map[string]string{"no": "", "a wrong": "x"} {
		if c.secret = use; c.refreshes(c.refreshToken) != "invalid_client" {
			t.Errorf("%s secret is accepted", name)
		}
	}
	c.secret = secret
	if got := c.refreshes(c.refreshToken); got != "" {
		t.Errorf("the right secret: %q", got)
	}
	for name, token := range map[string]string{"none": "", "nonsense": "x", "an access token": c.access, "a changed one": c.refreshToken + "x", "another client's": innocent.refreshToken} {
		if got := c.refreshes(token); got != "invalid_grant" {
			t.Errorf("%s: %q", name, got)
		}
	}
	a := o.do(t.Context(), "POST", "/token", strings.NewReader("{}"), "Content-Type", "application/json", "Host", publicName)
	if a.status != 400 || !strings.Contains(a.body, `"invalid_request"`) {
		t.Errorf("JSON: %d %s", a.status, a.body)
	}
	if a := o.do(t.Context(), "GET", "/token?grant_type=refresh_token", nil, "Host", publicName); a.status != 405 {
		t.Errorf("GET: %d", a.status)
	}
	ledger := ledgerAt(t, o.database)
	if there, err := ledger.RemoveClient(t.Context(), "local", c.id); !there || err != nil {
		t.Fatal(there, err)
	}
	if got := c.refreshes(c.refreshToken); got != "invalid_client" {
		t.Errorf("a removed client: %q", got)
	}
	soon(t, "its tokens end", func() bool { return c.enters(c.access, "/mcp") == 401 })
	again := o.registers(`{"redirect_uris":["http://localhost:8787/callback"]}`)
	again.signsIn(o.ada)
	if again.enters(again.access, "/mcp") != 200 || innocent.enters(innocent.access, "/mcp") != 200 || innocent.refreshes(innocent.refreshToken) != "" {
		t.Error("a client that registered anew, or an innocent one, can't come in")
	}
}

func ledgerAt(t *testing.T, database string) *access.Ledger {
	t.Helper()
	return access.NewLedger(deskAt(t, database), access.NewGate(false))
}

// TestTA24RegistrationFlood registers more clients than an address may, and checks that nobody sees any of them.
func TestTA24RegistrationFlood(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	first := o.registers(`{"client_name":"flood","redirect_uris":["http://localhost/callback"]}`)
	for i := range 25 {
		status, out := o.postsJSON("/register", `{"client_name":"flood","redirect_uris":["http://localhost/callback"]}`)
		if i >= 19 && status != 429 || i < 19 && status != 201 {
			t.Errorf("registration %d: %d %v", i, status, out)
		}
	}
	if o.ada.types(issuer + "/console/clients"); o.ada.page.status != 200 || strings.Contains(o.ada.page.body, "flood") {
		t.Errorf("the console shows it: %d", o.ada.page.status)
	}
	first.signsIn(o.ada) // those that were there before go on
	for name, body := range map[string]string{
		"long": `{"redirect_uris":["http://localhost/"],"x":"` + strings.Repeat("x", 17<<10) + `"}`, "no JSON": "x", "no redirect": `{}`, "a bad one": `{"redirect_uris":["javascript:alert(1)"]}`,
	} {
		fresh := serveOwn(t)
		status, out := fresh.postsJSON("/register", body)
		if want := map[string]int{"long": 413}[name]; status != want && (status != 400 || want != 0) || out["error"] == "" {
			t.Errorf("%s: %d %v", name, status, out)
		}
	}
}

// TestTA11EndedPeople removes a person whose client has a stream: it ends, and the client's tokens are dead, also on
// another replica.
func TestTA11EndedPeople(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	replica := serve(t, snapshot(child(t, "a", "legacy")), behindProxy(o.database), func(s *ServeOptions) {
		s.Config.Access.Own.On, s.documents = true, o.documents
	})
	c, innocent := o.client(issuer, claude, claudeBack), o.client(issuer, claudeCode, claudeCodeBack)
	c.signsIn(o.ada)
	innocent.signsIn(o.bob)
	there := replica.client(issuer, claude, claudeBack)
	if got := there.enters(c.access, "/mcp"); got != 200 {
		t.Errorf("a replica does not know a new token: %d", got)
	}
	there.access = c.access
	stream := replica.open("GET", "/mcp", "", append([]string{"Authorization", "Bearer " + c.access, "Accept", "text/event-stream", "Mcp-Session-Id", there.begins()}, c.host...)...)
	roster := rosterAt(t, deskAt(t, o.database))
	if err := roster.Remove(t.Context(), "local", o.adaIs.id); err != nil {
		t.Fatal(err)
	}
	soon(t, "the stream ends", stream.ended)
	soon(t, "the tokens are dead", func() bool { return c.enters(c.access, "/mcp") == 401 && there.enters(c.access, "/mcp") == 401 })
	if got := c.refreshes(c.refreshToken); got != "invalid_grant" {
		t.Errorf("refresh: %q", got)
	}
	if innocent.enters(innocent.access, "/mcp") != 200 {
		t.Error("bob's client can't come in")
	}
	s, err := store.Open(t.Context(), store.Options{Database: o.database})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := len(s.Snapshot().Grants()); n != 1 {
		t.Errorf("%d grants are left", n)
	}
}

// TestTA06OwnDocuments checks which documents exist with our own authorization server, and that a serve without it has
// none.
func TestTA06OwnDocuments(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	plain := serve(t, snapshot(), behindProxy(t.TempDir()+"/dragoman.db"))
	var m struct {
		Issuer string
	}
	a := o.do(t.Context(), "GET", "/.well-known/oauth-authorization-server", nil, "Host", publicName, "Origin", "https://inspector.example")
	if err := json.Unmarshal([]byte(a.body), &m); err != nil || a.status != 200 || m.Issuer != issuer || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d %s %v", a.status, a.body, err)
	}
	if a := o.modern("/mcp", "1", "tools/list", "", "", "Host", publicName); a.status != 401 || a.header.Get("WWW-Authenticate") != `Bearer resource_metadata="`+issuer+`/.well-known/oauth-protected-resource/mcp", scope="mcp"` {
		t.Errorf("%d %s", a.status, a.header.Get("WWW-Authenticate"))
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/openid-configuration/mcp", "/mcp/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/mcp", "/.well-known/oauth-authorization-server/", "/mcp/.well-known/oauth-authorization-server"} {
		if a := o.do(t.Context(), "GET", path, nil, "Host", publicName); a.status != 404 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	for _, path := range []string{"/authorize", "/consent", "/token", "/register", "/revoke", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		for _, method := range []string{"GET", "POST"} {
			if a := plain.do(t.Context(), method, path, nil, "Host", publicName); a.status != 404 {
				t.Errorf("without it, %s %s: %d", method, path, a.status)
			}
		}
	}
}
