package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Request is one authorization request.
type Request struct {
	State    string      // 256 random bits, see Random
	Verifier secret.Text // of PKCE, likewise
	Redirect string
	Resource string            // "" to leave it out, which only the configuration may ask for
	Scopes   []string          // nil to leave them out
	Params   map[string]string // more parameters; they can't replace ours
	Thumb    string            // dpop_jkt: the thumbprint of the Prover, or ""
}

// Random returns 256 random bits in base64url, 43 characters.
func Random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// AuthorizeURL returns the URL for the browser, always http or https and in printable ASCII without
// quotes or spaces, so that it's a harmless argument (TA28).
func (is *Issuer) AuthorizeURL(c Client, r Request) (string, error) {
	if err := is.Signs(); err != nil {
		return "", err
	}
	u, err := pageURL(is.Authorize)
	if err != nil {
		return "", fault(EndpointInvalid, is.Authorize, "the authorization_endpoint of %s can't be opened: %v", show(is.Issuer), err)
	}
	challenge := sha256.Sum256([]byte(r.Verifier.Reveal()))
	ours := url.Values{
		"response_type":         {"code"},
		"client_id":             {c.ID},
		"redirect_uri":          {r.Redirect},
		"state":                 {r.State},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}
	optional(ours, "resource", r.Resource)
	optional(ours, "scope", strings.Join(r.Scopes, " "))
	optional(ours, "dpop_jkt", r.Thumb)
	for name, value := range r.Params {
		if _, taken := ours[name]; taken || owned(name) {
			return "", fault(RequestInvalid, is.Authorize, "signIn.params must not set %s, which Dragoman sets itself", show(name))
		}
		ours.Set(name, value)
	}
	// An OpenID provider ignores offline_access unless it may ask for consent (OpenID Core §11).
	if slices.Contains(r.Scopes, offline) && !ours.Has("prompt") {
		ours.Set("prompt", "consent")
	}
	theirs, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", fault(EndpointInvalid, is.Authorize, "the authorization_endpoint of %s has a malformed query", show(is.Issuer))
	}
	for name, values := range theirs {
		// Its own query stays (RFC 6749 §3.1), but no parameter may come twice.
		if _, taken := ours[name]; taken || owned(name) || len(values) > 1 {
			return "", fault(EndpointInvalid, is.Authorize, "the authorization_endpoint of %s sets %s itself", show(is.Issuer), show(name))
		}
		ours[name] = values
	}
	u.RawQuery = ours.Encode()
	return u.String(), nil
}

// owned reports whether a parameter is ours even where we leave it out.
func owned(name string) bool {
	return slices.Contains([]string{"resource", "scope", "dpop_jkt", "response_mode", "request", "request_uri", "client_secret"}, name)
}

func optional(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

// Expected is what was recorded before the browser left.
type Expected struct {
	State   string
	Issuer  string // Issuer.Issuer
	SaysIss bool   // Issuer.SaysIss
}

// maxCode bounds a code in bytes. The specification sets no limit; Entra's have 1,500.
const maxCode = 8 << 10

// ReadCallback judges the parameters of an authorization response and returns its code. The state is
// compared first: [ErrNotOurs] means that the response belongs to no flow or to another, which goes on. Then
// the four rows of AU §Authorization Response Validation decide about iss; a *Fault says what they refused,
// and shows nothing of the response. Then an error of the issuer is an *Error, such as access_denied.
func ReadCallback(q url.Values, x Expected) (code secret.Text, err error) {
	state := q["state"]
	if len(state) != 1 || x.State == "" || subtle.ConstantTimeCompare([]byte(state[0]), []byte(x.State)) != 1 {
		return code, ErrNotOurs
	}
	// No comparison but byte for byte: RFC 9207 §2.4 and AU rule out every normalization. It comes before
	// anything else of the response is looked at, so that another issuer's error is never shown.
	switch iss := q["iss"]; {
	case len(iss) == 0 && x.SaysIss:
		return code, fault(IssMissing, x.Issuer, "the answer to the sign-in has no iss, which %s promises to send", show(x.Issuer)).
			next("sign in again; if it stays so, whoever runs the authorization server has to send iss or stop promising it")
	case len(iss) > 1 || len(iss) == 1 && iss[0] != x.Issuer:
		return code, fault(IssMismatch, x.Issuer, "the answer to the sign-in comes from another authorization server than %s, which was asked", show(x.Issuer)).
			next("don't repeat it on a page that sent you here; sign in again with `dragoman login`")
	}
	for _, name := range []string{"code", "error", "error_description"} {
		if len(q[name]) > 1 { // RFC 6749 §3.1
			return code, fault(CallbackInvalid, x.Issuer, "the answer to the sign-in has %s twice", name).next("sign in again")
		}
	}
	refused, text := q.Get("error"), q.Get("code")
	switch {
	case refused != "" && text != "", refused == "" && text == "":
		return code, fault(CallbackInvalid, x.Issuer, "the answer to the sign-in has neither a code nor an error, or both").next("sign in again")
	case refused != "" && !isCode(refused):
		return code, fault(CallbackInvalid, x.Issuer, "the answer to the sign-in has a malformed error").next("sign in again")
	case refused != "":
		return code, newError(x.Issuer, refused, q.Get("error_description"), 0)
	case !isVisible(text, maxCode):
		return code, fault(CallbackInvalid, x.Issuer, "the answer to the sign-in has a malformed code").next("sign in again")
	}
	return secret.New(text), nil
}

// isVisible reports whether s is printable ASCII (VSCHAR of RFC 6749) of at most limit bytes.
func isVisible(s string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// maxPasted bounds what a person may paste.
const maxPasted = 16 << 10

// ReadPasted returns the parameters of what a person has pasted: a redirect URL, its query, or
// code=…&state=…
func ReadPasted(text string) (url.Values, error) {
	text = strings.TrimSpace(text)
	query := strings.TrimPrefix(text, "?")
	if strings.Contains(text, "://") {
		_, after, _ := strings.Cut(text, "?")
		query, _, _ = strings.Cut(after, "#")
	}
	q, err := url.ParseQuery(query)
	if err != nil || len(text) > maxPasted || !q.Has("state") || !q.Has("code") && !q.Has("error") {
		// We show nothing of it: it may hold a code.
		return nil, fault(CallbackInvalid, "", "this isn't the address of the page that the sign-in ended on").
			next("paste the whole address from the browser's address bar, with its code= and state=")
	}
	return q, nil
}
