package fake

import (
	"crypto/sha256"
	"encoding/base64"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// oauthToken is an access token and the refresh token that came with it.
type oauthToken struct {
	person, client, resource string
	scopes                   []string
	made                     time.Time
	signIn                   *oauthSignIn
	old                      *oauthToken // the token that was refreshed into this one; nil for the first
	used                     bool        // the access token has been used
	lost                     bool        // it is for no resource
}

// oauthSignIn is what a token has in common with those that it is refreshed into.
type oauthSignIn struct {
	over   bool // it is revoked, or its refresh token was used twice
	second bool // it was at the second authorization server of changed-issuer
}

// grants are the grants of the token endpoint, by name.
func grants() map[string]func(a *OAuth, c *oauthClient, f url.Values) (*oauthToken, *grantError) {
	return map[string]func(a *OAuth, c *oauthClient, f url.Values) (*oauthToken, *grantError){
		"authorization_code": (*OAuth).byCode,
		"refresh_token":      (*OAuth).byRefresh,
		"client_credentials": (*OAuth).byItself,
		deviceGrant:          (*OAuth).byDevice,
	}
}

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

func grantNames() iter.Seq[string] { return maps.Keys(grants()) }

// grantError is why there is no token. A request that breaks a rule is also a violation.
type grantError struct {
	code, why string
	violation bool
}

func denied(code, why string) *grantError { return &grantError{code, why, false} }
func broken(code, why string) *grantError { return &grantError{code, why, true} }

// serveToken is the token endpoint.
func (a *OAuth) serveToken(w http.ResponseWriter, r *http.Request) {
	f, ok := a.form(w, r, "token")
	if !ok {
		return
	}
	name := f.Get("grant_type")
	a.count(name)
	if a.delay > 0 && work.Sleep(r.Context(), a.delay) != nil {
		return
	}
	if a.fails(name) {
		page(w, http.StatusBadGateway, "<h1>502 Bad Gateway</h1>")
		return
	}
	c, bad := a.authenticated(r, f)
	if bad != nil {
		a.refuseGrant(w, bad)
		return
	}
	grant := grants()[name]
	if grant == nil {
		a.deny(w, "unsupported_grant_type", "there is no such grant")
		return
	}
	t, bad := grant(a, c, f)
	if bad != nil {
		a.refuseGrant(w, bad)
		return
	}
	a.issue(w, t, f.Get("refresh_token"))
}

func (a *OAuth) refuseGrant(w http.ResponseWriter, e *grantError) {
	if e.violation {
		a.wrong("token", "%s", e.why)
	}
	a.deny(w, e.code, e.why)
}

// fails reports whether a refresh has to fail.
func (a *OAuth) fails(grant string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if grant != "refresh_token" || a.s.failing == 0 {
		return false
	}
	a.s.failing--
	return true
}

// form reads a form. If there is none, it answers.
func (a *OAuth) form(w http.ResponseWriter, r *http.Request, where string) (url.Values, bool) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/x-www-form-urlencoded" {
		a.wrong(where, "the Content-Type is not application/x-www-form-urlencoded")
		a.deny(w, "invalid_request", "the body is not a form")
		return nil, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxMessage)
	if err := r.ParseForm(); err != nil {
		a.deny(w, "invalid_request", "the body is not a form")
		return nil, false
	}
	for name, values := range r.PostForm {
		if len(values) > 1 && name != "resource" {
			a.wrong(where, "%s occurs %d times", clip(name), len(values))
		}
	}
	return r.PostForm, true
}

// authenticated returns the client that sent a form, by the method with which it is registered.
func (a *OAuth) authenticated(r *http.Request, f url.Values) (*oauthClient, *grantError) {
	id, secret, basic := r.BasicAuth()
	if basic { // RFC 6749 §2.3.1: both are form-encoded
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	}
	method := "none"
	switch {
	case basic && f.Has("client_secret"):
		return nil, broken("invalid_request", "the client authenticates in two ways")
	case basic:
		method = "client_secret_basic"
	default:
		id, secret = f.Get("client_id"), f.Get("client_secret")
		if secret != "" {
			method = "client_secret_post"
		}
	}
	c := a.clientOf(id)
	switch {
	case c == nil:
		return nil, denied("invalid_client", "nobody is registered as this client")
	case c.method != method:
		return nil, broken("invalid_client", "the client is registered with "+clip(c.method)+", not "+method)
	case c.secret != secret:
		return nil, denied("invalid_client", "the secret is wrong")
	}
	return c, nil
}

// byCode redeems a code once (OAuth 2.1 §4.1.3).
func (a *OAuth) byCode(c *oauthClient, f url.Values) (*oauthToken, *grantError) {
	a.mu.Lock()
	req := a.s.codes[f.Get("code")]
	if req != nil && req.device == "" {
		delete(a.s.codes, f.Get("code"))
	}
	a.mu.Unlock()
	sum := sha256.Sum256([]byte(f.Get("code_verifier")))
	switch {
	case req == nil || req.device != "":
		return nil, denied("invalid_grant", "the code is unknown or used")
	case req.client != c.id:
		return nil, broken("invalid_grant", "the code is another client's")
	case f.Get("redirect_uri") != req.redirect:
		return nil, broken("invalid_grant", "redirect_uri is not that of the authorization request")
	case base64.RawURLEncoding.EncodeToString(sum[:]) != req.challenge:
		return nil, broken("invalid_grant", "code_verifier does not fit")
	case f.Get("resource") != req.resource:
		return nil, broken("invalid_target", "resource is not that of the authorization request")
	}
	return req.token(c), nil
}

func (r *oauthRequest) token(c *oauthClient) *oauthToken {
	return &oauthToken{person: r.person, client: r.client, resource: r.resource, scopes: r.scopes, signIn: &oauthSignIn{second: c.second}}
}

// byRefresh renews a token. The refresh token before the last one still works until the new access
// token is used, so that an answer may get lost; the profile no-grace has no such mercy.
func (a *OAuth) byRefresh(c *oauthClient, f url.Values) (*oauthToken, *grantError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.s.refresh[f.Get("refresh_token")]
	scopes := strings.Fields(f.Get("scope"))
	switch {
	case old == nil || old.signIn.over:
		return nil, denied("invalid_grant", "the refresh token is unknown or over")
	case old.client != c.id:
		return nil, broken("invalid_grant", "the refresh token is another client's")
	case a.odd.refusesRefresh && old.old != nil:
		return nil, denied("invalid_grant", "the sign-in is over")
	case f.Get("resource") != old.resource:
		return nil, broken("invalid_target", "resource is not that of the sign-in")
	}
	for _, s := range scopes {
		if !slices.Contains(old.scopes, s) {
			return nil, broken("invalid_scope", "a refresh asks for more than was granted")
		}
	}
	for _, t := range a.s.refresh {
		if t.old == old && (a.odd.once || t.used) {
			t.signIn.over = true
			return nil, broken("invalid_grant", "the refresh token was used twice")
		}
	}
	if len(scopes) == 0 {
		scopes = old.scopes
	}
	return &oauthToken{
		person: old.person, client: old.client, resource: old.resource, scopes: scopes, signIn: old.signIn,
		lost: a.odd.losesAudience, old: old,
	}, nil
}

// byItself gives a token to a client that isn't a person.
func (a *OAuth) byItself(c *oauthClient, f url.Values) (*oauthToken, *grantError) {
	if c.method == "none" {
		return nil, broken("unauthorized_client", "a client without a secret can't sign in as itself")
	}
	return &oauthToken{person: c.id, client: c.id, resource: f.Get("resource"), scopes: strings.Fields(f.Get("scope")), signIn: &oauthSignIn{second: c.second}}, nil
}

// byDevice answers a device that waits for its person (RFC 8628 §3.5).
func (a *OAuth) byDevice(c *oauthClient, f url.Values) (*oauthToken, *grantError) {
	code := f.Get("device_code")
	a.mu.Lock()
	defer a.mu.Unlock()
	req := a.s.codes[code]
	switch {
	case req == nil || req.device != code:
		return nil, denied("invalid_grant", "the device code is unknown or used")
	case req.client != c.id:
		return nil, broken("invalid_grant", "the device code is another client's")
	case req.refused:
		return nil, denied("access_denied", "the person refused")
	case req.person == "":
		return nil, denied("authorization_pending", "the person has not answered")
	}
	delete(a.s.codes, code)
	return req.token(c), nil
}

// issue gives out a token. It ends what the profile says has to end with it.
func (a *OAuth) issue(w http.ResponseWriter, t *oauthToken, refreshedBy string) {
	a.mu.Lock()
	t.made = time.Now()
	access, refresh := a.s.next("access"), a.s.next("refresh")
	if len(a.s.access) < maxTokens {
		a.s.access[access] = t
		if t.old == nil || !a.odd.keepsRefresh {
			a.s.refresh[refresh] = t
		}
	}
	if a.odd.forgets {
		clear(a.s.clients)
	}
	a.mu.Unlock()
	out := map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(a.life.Seconds()), "refresh_token": refresh,
		"scope": strings.Join(t.scopes, " "),
	}
	if t.old != nil && a.odd.keepsRefresh || t.person == t.client {
		delete(out, "refresh_token")
	}
	answer(w, http.StatusOK, out)
}

// serveRevoke ends a token (RFC 7009). It answers 200 for unknown tokens too.
func (a *OAuth) serveRevoke(w http.ResponseWriter, r *http.Request) {
	f, ok := a.form(w, r, "revoke")
	if !ok {
		return
	}
	a.count("revoke")
	c, bad := a.authenticated(r, f)
	if bad != nil {
		a.refuseGrant(w, bad)
		return
	}
	a.mu.Lock()
	for _, all := range []map[string]*oauthToken{a.s.access, a.s.refresh} {
		if t := all[f.Get("token")]; t != nil && t.client == c.id {
			t.signIn.over = true
		}
	}
	a.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

// serveDeviceAuthorization begins a sign-in on a device (RFC 8628 §3.1).
func (a *OAuth) serveDeviceAuthorization(w http.ResponseWriter, r *http.Request) {
	f, ok := a.form(w, r, "device_authorization")
	if !ok {
		return
	}
	a.count("device_authorization")
	c, bad := a.authenticated(r, f)
	if bad != nil {
		a.refuseGrant(w, bad)
		return
	}
	req := &oauthRequest{client: c.id, resource: f.Get("resource"), scopes: strings.Fields(f.Get("scope"))}
	a.mu.Lock()
	req.device = a.s.next("device")
	user := strings.ToUpper(a.s.next("code"))
	if len(a.s.codes) < maxTokens {
		a.s.codes[req.device], a.s.requests[user] = req, req
	}
	a.mu.Unlock()
	at := originOf(r) + "/device"
	answer(w, http.StatusOK, map[string]any{
		"device_code": req.device, "user_code": user, "verification_uri": at, "verification_uri_complete": at + "?user_code=" + user,
		"expires_in": 600, "interval": 1,
	})
}

// serveDevice asks for the code on the device, and then what the code's request asks for.
func (a *OAuth) serveDevice(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("user_code")
	a.mu.Lock()
	req := a.s.requests[code]
	a.mu.Unlock()
	if req == nil {
		page(w, http.StatusOK, `<h1>Your device</h1><form action="/device"><label>Code <input name=user_code></label> <button>Go on</button></form>`)
		return
	}
	askPage(w, "/authorize", code, req)
}
