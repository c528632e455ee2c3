package fake

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// oauthClient is a registered client.
type oauthClient struct {
	id, secret, method string
	redirects          []string
	second             bool // the second authorization server of changed-issuer registered it
}

// oauthRequest is what a client asked a person for.
type oauthRequest struct {
	client, redirect, state, challenge, resource string
	scopes                                       []string
	person                                       string // "" until somebody has allowed it
	refused                                      bool
	device                                       string // the device code; "" for other requests
	issuer                                       string
}

// serveRegister registers a client (RFC 7591).
func (a *OAuth) serveRegister(w http.ResponseWriter, r *http.Request) {
	a.count("register")
	if a.odd.unregistrable {
		http.NotFound(w, r)
		return
	}
	var asked struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
		Grants    []string `json:"grant_types"`
		Name      string   `json:"client_name"`
		Type      string   `json:"application_type"`
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, maxMessage))
	if err != nil || json.Unmarshal(b, &asked) != nil {
		a.deny(w, "invalid_client_metadata", "the body is not a JSON object")
		return
	}
	for _, u := range asked.Redirects {
		if a.odd.noLoopback && loopback(u) {
			a.deny(w, "invalid_redirect_uri", "redirect URIs on loopback are not allowed here")
			return
		}
	}
	usesCode := len(asked.Grants) == 0 || slices.Contains(asked.Grants, "authorization_code")
	if usesCode && len(asked.Redirects) == 0 {
		a.wrong("register", "a client that uses codes has no redirect_uris")
		a.deny(w, "invalid_redirect_uri", "redirect_uris is missing")
		return
	}
	if asked.Type != "" && asked.Type != "native" && asked.Type != "web" {
		a.wrong("register", "application_type is %s", clip(asked.Type))
	}
	c := &oauthClient{method: asked.Method, redirects: asked.Redirects}
	if c.method == "" {
		c.method = "client_secret_basic" // RFC 7591 §2
	}
	if !a.keep(c) {
		a.deny(w, "invalid_client_metadata", "there are too many clients")
		return
	}
	out := map[string]any{
		"client_id": c.id, "redirect_uris": asked.Redirects, "token_endpoint_auth_method": c.method,
		"grant_types": asked.Grants, "client_name": asked.Name, "client_id_issued_at": 0,
	}
	if c.secret != "" {
		out["client_secret"], out["client_secret_expires_at"] = c.secret, 0
	}
	answer(w, http.StatusCreated, out)
}

func (a *OAuth) keep(c *oauthClient) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.s.clients) >= maxClients {
		return false
	}
	c.id, c.second = a.s.next("client"), a.s.moved
	if c.method != "none" {
		c.secret = a.s.next("secret")
	}
	a.s.clients[c.id] = c
	return true
}

// serveAuthorize shows what a client asks for, or redirects at once if no person has to agree.
func (a *OAuth) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	a.count("authorize")
	q := r.URL.Query()
	for name, values := range q {
		if len(values) > 1 && name != "resource" {
			a.wrong("authorize", "%s occurs %d times", clip(name), len(values)) // RFC 6749 §3.1
		}
	}
	req := &oauthRequest{
		client: q.Get("client_id"), redirect: q.Get("redirect_uri"), state: q.Get("state"), challenge: q.Get("code_challenge"),
		resource: q.Get("resource"), scopes: strings.Fields(q.Get("scope")),
		issuer: a.issuerOf(r, a.second()),
	}
	c := a.clientOf(req.client)
	switch {
	case c == nil:
		page(w, http.StatusBadRequest, "<h1>Unknown client</h1><p>Nobody is registered as this client.")
		return
	case !c.goesTo(req.redirect):
		a.wrong("authorize", "redirect_uri is not the registered one")
		page(w, http.StatusBadRequest, "<h1>Wrong redirect URI</h1>")
		return
	}
	if code, why := a.objection(q, req); code != "" {
		if q.Get("response_type") != "dragoman-doctor" { // with which doctor asks for a refusal
			a.wrong("authorize", "%s", why)
		}
		a.back(w, r, req, url.Values{"error": {code}, "error_description": {why}})
		return
	}
	if !a.consent {
		a.allow(w, r, req, "ann")
		return
	}
	a.mu.Lock()
	id := a.s.next("request")
	if len(a.s.requests) < maxTokens {
		a.s.requests[id] = req
	}
	a.mu.Unlock()
	askPage(w, "/authorize", id, req)
}

// objection returns the error code and the reason why a request is refused (OAuth 2.1 §4.1.1, RFC 8707).
func (a *OAuth) objection(q url.Values, req *oauthRequest) (code, why string) {
	switch {
	case q.Get("response_type") != "code":
		return "unsupported_response_type", "response_type is not code"
	case req.challenge == "" || q.Get("code_challenge_method") != "S256":
		return "invalid_request", "there is no code_challenge with S256"
	case req.state == "":
		return "invalid_request", "there is no state"
	case req.resource == "" && !a.odd.nothingKnown:
		return "invalid_target", "there is no resource"
	case strings.Contains(req.resource, "#"):
		return "invalid_target", "resource has a fragment"
	}
	return "", ""
}

// askPage asks a person.
func askPage(w http.ResponseWriter, action, id string, req *oauthRequest) {
	e := html.EscapeString
	page(w, http.StatusOK, fmt.Sprintf(`<h1>Sign in</h1>
<p>%s asks for: %s</p>
<form method=post action="%s"><input type=hidden name=request value="%s">
<p><label>Your name <input name=person value=ann></label></p>
<button name=answer value=allow>Allow</button> <button name=answer value=refuse>Refuse</button></form>`,
		e(req.client), e(strings.Join(req.scopes, " ")), action, e(id)))
}

// serveConsent takes a person's answer.
func (a *OAuth) serveConsent(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxMessage)
	id := r.PostFormValue("request")
	a.mu.Lock()
	req := a.s.requests[id]
	delete(a.s.requests, id)
	a.mu.Unlock()
	if req == nil {
		page(w, http.StatusNotFound, "<h1>Nothing to answer</h1>")
		return
	}
	person := r.PostFormValue("person")
	if person == "" {
		person = "ann"
	}
	allowed := r.PostFormValue("answer") == "allow"
	switch {
	case req.device != "":
		a.mu.Lock()
		req.person, req.refused = person, !allowed
		a.mu.Unlock()
		page(w, http.StatusOK, "<h1>Done</h1><p>Go back to your device.")
	case !allowed:
		a.back(w, r, req, url.Values{"error": {"access_denied"}, "error_description": {"the person refused"}})
	default:
		a.allow(w, r, req, person)
	}
}

func (a *OAuth) allow(w http.ResponseWriter, r *http.Request, req *oauthRequest, person string) {
	a.mu.Lock()
	req.person = person
	code := a.s.next("code")
	if len(a.s.codes) < maxTokens {
		a.s.codes[code] = req
	}
	a.mu.Unlock()
	a.back(w, r, req, url.Values{"code": {code}})
}

// back sends the browser to the client, with iss (RFC 9207) and the client's own state.
func (a *OAuth) back(w http.ResponseWriter, r *http.Request, req *oauthRequest, with url.Values) {
	to, err := url.Parse(req.redirect)
	if err != nil {
		page(w, http.StatusBadRequest, "<h1>Wrong redirect URI</h1>")
		return
	}
	q := to.Query()
	for name := range with {
		q.Set(name, with.Get(name))
	}
	if req.state != "" {
		q.Set("state", req.state)
	}
	if !a.odd.issUnsaid && !a.odd.nothingKnown {
		q.Set("iss", req.issuer)
	}
	to.RawQuery = q.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

// clientOf returns a client, or nil. The URL of a document is a client too, if the setting allows it.
func (a *OAuth) clientOf(id string) *oauthClient {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.s.clients[id]; c != nil && c.second == a.s.moved {
		return c
	}
	if a.documents && strings.HasPrefix(id, "https://") {
		return &oauthClient{id: id, method: "none"}
	}
	return nil
}

// goesTo reports whether a redirect URI belongs to the client. On loopback the port may differ (RFC 8252 §7.3).
func (c *oauthClient) goesTo(redirect string) bool {
	if strings.HasPrefix(c.id, "https://") {
		// A document isn't fetched, so its client may be any program on this machine, or the document's own origin.
		own, err := url.Parse(c.id)
		to, bad := url.Parse(redirect)
		return loopback(redirect) || err == nil && bad == nil && transport.Origin(own) == transport.Origin(to)
	}
	return slices.ContainsFunc(c.redirects, func(u string) bool {
		return u == redirect || loopback(u) && loopback(redirect) && withoutPort(u) == withoutPort(redirect)
	})
}

func loopback(u string) bool {
	p, err := url.Parse(u)
	return err == nil && p.Scheme == "http" && transport.IsLoopback(p.Hostname())
}

func withoutPort(u string) string {
	p, err := url.Parse(u)
	if err != nil {
		return u
	}
	p.Host = p.Hostname()
	return p.String()
}

// wrong records what a client did wrong.
func (a *OAuth) wrong(where, format string, args ...any) { a.resource.violate(where, format, args...) }

// deny answers with an error of RFC 6749 §5.2.
func (a *OAuth) deny(w http.ResponseWriter, code, why string) {
	status := http.StatusBadRequest
	if code == "invalid_client" {
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Basic realm="token"`)
	}
	answer(w, status, map[string]string{"error": code, "error_description": why})
}
