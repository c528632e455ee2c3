//go:build unix

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
)

// surfer is a browser of the tests: it keeps cookies by host, follows redirects and pages that go on by themselves,
// and shows cookies with SameSite=Strict only to requests that its own site has begun.
type surfer struct {
	r       *rig
	cookies map[string]map[string]*http.Cookie // by host and name
	// at is the URL of the page that it shows, and page the page.
	at   *url.URL
	page answer
	seen []string // the URLs of all requests
	away string   // where it would have gone outside of serve
	head []string // of all requests
}

func newSurfer(r *rig) *surfer {
	r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &surfer{r: r, cookies: map[string]map[string]*http.Cookie{}, head: []string{"User-Agent", "Chrome/140.0.0.0"}}
}

var (
	refresh = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]*)"`)
	hidden  = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// home is the address of the person in a browser, which is another site than that of any client.
var home = &url.URL{Scheme: "https", Host: "client.example"}

// opens opens a URL, as a link on a page of another site does. A host other than ours ends the way.
func (b *surfer) opens(to string) *surfer {
	b.r.t.Helper()
	b.at, b.away = home, ""
	b.goes("GET", to, nil, "cross-site")
	return b
}

// types opens a URL as somebody who types it.
func (b *surfer) types(to string) *surfer {
	b.r.t.Helper()
	b.at, b.away = home, ""
	b.goes("GET", to, nil, "none")
	return b
}

func (b *surfer) ours(u *url.URL) bool {
	_, port, _ := strings.Cut(strings.TrimPrefix(b.r.base, "http://"), ":")
	return u.Host == publicName || u.Port() == port
}

func (b *surfer) goes(method, to string, form url.Values, site string) {
	b.r.t.Helper()
	for range 10 {
		u, err := b.at.Parse(to)
		if err != nil {
			b.r.t.Fatal(err)
		}
		if !b.ours(u) {
			b.away = u.String()
			return
		}
		header := append([]string{"Host", u.Host, "Sec-Fetch-Site", site, "Sec-Fetch-Dest", "document", "Accept", "text/html"}, b.head...)
		for _, c := range b.cookies[u.Host] {
			if site != "cross-site" || c.SameSite == http.SameSiteLaxMode && method == "GET" {
				header = append(header, "Cookie", c.Name+"="+c.Value)
			}
		}
		if method == "POST" {
			header = append(header, "Content-Type", "application/x-www-form-urlencoded", "Origin", b.at.Scheme+"://"+b.at.Host)
		}
		b.seen = append(b.seen, u.String())
		b.page = b.r.do(b.r.t.Context(), method, u.RequestURI(), strings.NewReader(form.Encode()), header...)
		for _, c := range (&http.Response{Header: b.page.header}).Cookies() {
			if b.cookies[u.Host] == nil {
				b.cookies[u.Host] = map[string]*http.Cookie{}
			}
			if b.cookies[u.Host][c.Name] = c; c.MaxAge < 0 {
				delete(b.cookies[u.Host], c.Name)
			}
		}
		method, form = "GET", nil
		if to = b.page.header.Get("Location"); to != "" {
			b.at = u
			continue
		}
		b.at = u
		m := refresh.FindStringSubmatch(b.page.body)
		if m == nil {
			return
		}
		to, site = html.UnescapeString(m[1]), "same-origin" // the page itself goes on
	}
	b.r.t.Fatal("the browser goes in circles")
}

// answers presses a button of the consent page.
func (b *surfer) answers(button string) *surfer {
	b.r.t.Helper()
	form := url.Values{"answer": {button}}
	for _, m := range hidden.FindAllStringSubmatch(b.page.body, -1) {
		form.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	b.away = ""
	b.goes("POST", "/consent", form, "same-origin")
	return b
}

// asks fails the test unless the browser shows the consent page with some texts.
func (b *surfer) asks(texts ...string) *surfer {
	b.r.t.Helper()
	if b.page.status != 200 || !strings.Contains(b.page.body, `value="allow"`) || b.away != "" {
		b.r.t.Fatalf("no consent page at %s (%s): %d %s", b.at, b.away, b.page.status, b.page.body)
	}
	b.says(texts...)
	return b
}

var anyTag = regexp.MustCompile(`<[^>]*>`)

// says fails the test unless the page has some texts.
func (b *surfer) says(texts ...string) {
	b.r.t.Helper()
	plain := html.UnescapeString(anyTag.ReplaceAllString(b.page.body, ""))
	for _, text := range texts {
		if !strings.Contains(plain, text) {
			b.r.t.Errorf("the page at %s does not say %q: %s", b.at, text, plain)
		}
	}
}

// relier is a client of our authorization server.
type relier struct {
	r                    *rig
	issuer               string
	host                 []string // the header of its requests
	id, secret           string
	redirect             string
	resource             string
	state, verifier      string
	access, refreshToken string
}

// client returns a client with an id and a redirect URI.
func (r *rig) client(issuer, id, redirect string) *relier {
	u, err := url.Parse(issuer)
	if err != nil {
		r.t.Fatal(err)
	}
	return &relier{r: r, issuer: issuer, host: []string{"Host", u.Host}, id: id, redirect: redirect, resource: issuer + "/mcp", state: "state of " + id, verifier: strings.Repeat("v", 43)}
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// link returns the authorization URL. more has names and values that differ; "" leaves one out.
func (c *relier) link(more ...string) string {
	q := url.Values{
		"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {c.redirect}, "state": {c.state}, "scope": {"mcp openid"},
		"code_challenge": {challenge(c.verifier)}, "code_challenge_method": {"S256"}, "resource": {c.resource},
	}
	return c.issuer + "/authorize?" + change(q, more).Encode()
}

func change(q url.Values, more []string) url.Values {
	for i := 0; i+1 < len(more); i += 2 {
		if q.Set(more[i], more[i+1]); more[i+1] == "" {
			q.Del(more[i])
		}
	}
	return q
}

// back reads where a browser was sent, and returns the code or the error.
func (c *relier) back(b *surfer) (code, problem string) {
	c.r.t.Helper()
	rest, ok := strings.CutPrefix(b.away, c.redirect+"?")
	q, err := url.ParseQuery(rest)
	if !ok || err != nil || q.Get("state") != c.state || q.Get("iss") != c.issuer {
		c.r.t.Fatalf("the browser went to %q, with the page %d %s", b.away, b.page.status, b.page.body)
	}
	return q.Get("code"), q.Get("error")
}

// posts sends a form.
func (c *relier) posts(path string, form url.Values) (status int, out map[string]any) {
	c.r.t.Helper()
	a := c.r.do(context.Background(), "POST", path, strings.NewReader(form.Encode()), append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "https://inspector.example"}, c.host...)...)
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Access-Control-Allow-Origin") != "*" {
		c.r.t.Errorf("%s: %v", path, a.header)
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		c.r.t.Errorf("%s: %d %s", path, a.status, a.body)
	}
	return a.status, out
}

// redeems exchanges a code for tokens, or returns the error.
func (c *relier) redeems(code string, more ...string) string {
	c.r.t.Helper()
	q := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {c.redirect}, "client_id": {c.id}, "code_verifier": {c.verifier}, "resource": {c.resource}}
	return c.gets(c.posts("/token", change(c.proved(q), more)))
}

func (c *relier) proved(q url.Values) url.Values {
	if c.secret != "" {
		q.Set("client_secret", c.secret)
	}
	return q
}

func (c *relier) refreshes(token string, more ...string) string {
	c.r.t.Helper()
	return c.gets(c.posts("/token", change(c.proved(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {c.id}}), more)))
}

func (c *relier) gets(status int, out map[string]any) string {
	c.r.t.Helper()
	if status != 200 {
		code, _ := out["error"].(string)
		if (status == 401) != (code == "invalid_client") || status != 401 && status != 400 || code == "" || out["error_description"] == "" {
			c.r.t.Errorf("%d %v", status, out)
		}
		return code
	}
	c.access, _ = out["access_token"].(string)
	c.refreshToken, _ = out["refresh_token"].(string)
	if out["token_type"] != "Bearer" || out["scope"] != "mcp" || out["expires_in"].(float64) < 1700 || !strings.HasPrefix(c.access, "drga_") || !strings.HasPrefix(c.refreshToken, "drgr_") {
		c.r.t.Errorf("%v", out)
	}
	return ""
}

// signsIn lets a browser allow the client everything, and gets tokens.
func (c *relier) signsIn(b *surfer) {
	c.r.t.Helper()
	b.opens(c.link()).asks().answers("allow")
	code, problem := c.back(b)
	if problem += c.redeems(code); problem != "" {
		c.r.t.Fatal(problem)
	}
}

// enters returns the status of a request with an access token.
func (c *relier) enters(token, path string) int {
	c.r.t.Helper()
	return c.r.modern(path, "1", "tools/list", "", "", append([]string{"Authorization", "Bearer " + token}, c.host...)...).status
}

// pages are the documents of clients, by their addresses. The others can't be fetched.
type pages struct {
	mu  sync.Mutex
	all map[string]*egress.Answer
}

func (p *pages) Do(_ context.Context, req *http.Request) (*egress.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.all[req.URL.String()]; a != nil {
		return a, nil
	}
	return &egress.Answer{Status: http.StatusForbidden, Header: http.Header{}}, nil
}

// publish makes a document be at an address.
func (p *pages) publish(at, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]*egress.Answer{}
	}
	p.all[at] = &egress.Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
}

// ownSignIn is serve behind a proxy with https, with its authorization server and two people.
type ownSignIn struct {
	*rig
	documents *pages
	database  string
	ada, bob  *surfer
	adaIs     *invited
	bobIs     *invited
}

const issuer = "https://" + publicName

// The clients of the tests: one that Dragoman knows without its document, and one on loopback.
const (
	claude         = "https://claude.ai/oauth/mcp-oauth-client-metadata"
	claudeBack     = "https://claude.ai/api/mcp/auth_callback"
	claudeCode     = "https://claude.ai/oauth/claude-code-client-metadata"
	claudeCodeBack = "http://localhost:41234/callback"
)

func serveOwn(t *testing.T, more ...func(*ServeOptions)) *ownSignIn {
	t.Helper()
	o := &ownSignIn{documents: &pages{}, database: t.TempDir() + "/dragoman.db"}
	o.rig = serve(t, snapshot(child(t, "a", "legacy")), append([]func(*ServeOptions){behindProxy(o.database), func(s *ServeOptions) {
		s.Config.Access.Own.On, s.documents = true, o.documents
	}}, more...)...)
	roster := rosterAt(t, deskAt(t, o.database))
	o.adaIs, o.bobIs = invites(t, roster, "ada", identity.Caller, identity.Viewer), invites(t, roster, "bob", identity.Caller)
	o.ada, o.bob = newSurfer(o.rig), newSurfer(o.rig)
	o.lets(o.adaIs, o.ada)
	o.lets(o.bobIs, o.bob)
	return o
}

// lets gives a person's session to a browser.
func (o *ownSignIn) lets(p *invited, b *surfer) {
	o.t.Helper()
	p.enters(o.rig)
	c := *p.cookie
	c.SameSite = http.SameSiteStrictMode
	b.cookies[publicName] = map[string]*http.Cookie{c.Name: &c}
}

// ended reports whether a stream has ended. It forgets messages that came before.
func (s *stream) ended() bool {
	for {
		select {
		case _, more := <-s.next:
			if !more {
				return true
			}
		default:
			return false
		}
	}
}
