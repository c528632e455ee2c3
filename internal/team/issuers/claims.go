package issuers

import (
	"math"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json" // unlike encoding/json, it refuses a name that is there twice, and tells cases apart
)

// leeway is by how much the clock of an issuer may differ from ours.
const leeway = time.Minute

// maxText is the longest text that identifies somebody, in bytes.
const maxText = 1024

// algorithms are those of signatures that we accept. There is no HMAC among them, whose key an issuer would have
// to share with everybody who checks tokens, and no "none".
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.EdDSA,
}

// header is what we read of a JWT's header (RFC 7515 §4.1). What else stands there, such as keys or where to find
// some, plays no part.
type header struct {
	alg jose.SignatureAlgorithm
	kid string // "" if there is none
}

// readHeader reads the header of a JWT: the first of its parts, decoded.
func readHeader(b []byte) (header, bool) {
	raw, ok := readObject(b)
	if !ok {
		return header{}, false
	}
	c := claims{raw: raw}
	h := header{alg: jose.SignatureAlgorithm(c.text("alg")), kid: c.text("kid")}
	_, critical := raw["crit"]
	_, has := raw["typ"]
	switch typ := strings.TrimPrefix(strings.ToLower(c.text("typ")), "application/"); {
	case critical, len(h.kid) > maxText, has && typ != "at+jwt" && typ != "jwt":
		return header{}, false
	}
	for _, a := range algorithms {
		if h.alg == a {
			return h, true
		}
	}
	return header{}, false
}

// readObject reads a JSON object.
func readObject(b []byte) (raw map[string]json.RawMessage, ok bool) {
	return raw, json.Unmarshal(b, &raw) == nil && raw != nil
}

// claims are what an issuer says of a token, in the JWT or in the answer to a question about it.
type claims struct {
	raw             map[string]json.RawMessage
	issuer, subject string
	audience        []string
	expires         time.Time
	before, issued  time.Time // zero if the issuer doesn't say
}

// readClaims reads claims. It doesn't judge them, but refuses those that it can't read.
func readClaims(b []byte) (*claims, bool) {
	raw, ok := readObject(b)
	if !ok {
		return nil, false
	}
	c := &claims{raw: raw}
	c.issuer, c.subject, c.audience = c.text("iss"), c.text("sub"), c.texts("aud")
	for name, into := range map[string]*time.Time{"exp": &c.expires, "nbf": &c.before, "iat": &c.issued} {
		if raw, ok := c.raw[name]; ok && !moment(raw, into) {
			return nil, false
		}
	}
	if raw, ok := c.raw["aud"]; ok && len(c.audience) == 0 && string(raw) != "null" {
		return nil, false // neither a text nor a list of texts
	}
	return c, true
}

// moment reads seconds since 1970 (RFC 7519 §2, NumericDate).
func moment(raw json.RawMessage, into *time.Time) bool {
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || string(raw) == "null" || math.IsNaN(n) || n <= 0 || n > 1e11 {
		return false
	}
	*into = time.Unix(0, 0).Add(time.Duration(n) * time.Second)
	if n > 9e9 { // a time.Duration can't count so far
		*into = time.Unix(int64(n), 0)
	}
	return true
}

// text returns a claim that is a text, and "" if it's none.
func (c *claims) text(name string) (s string) {
	if raw, ok := c.raw[name]; ok && json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// texts returns a claim that is a text or a list of texts. A name such as realm_access.roles leads into objects,
// unless there is a claim with the whole name.
func (c *claims) texts(name string) []string {
	raw, ok := c.raw[name]
	for at := c.raw; !ok; {
		first, rest, more := strings.Cut(name, ".")
		if !more {
			return nil
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(at[first], &inner) != nil {
			return nil
		}
		at, name = inner, rest
		raw, ok = at[name]
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(raw, &one) != nil || one == "" {
		return nil
	}
	return []string{one}
}

// scopes returns the scopes of a token. said is false if it names none, not even none.
func (c *claims) scopes() (all []string, said bool) {
	for _, name := range []string{"scope", "scp"} { // RFC 8693 §4.2; scp is Entra's and Okta's
		if _, ok := c.raw[name]; !ok {
			continue
		}
		for _, s := range c.texts(name) {
			all = append(all, strings.Fields(s)...)
		}
		said = true
	}
	return all, said
}

// client returns the OAuth client that a token was issued to.
func (c *claims) client() string {
	for _, name := range []string{"client_id", "azp", "appid", "cid"} {
		if s := c.text(name); s != "" {
			return s
		}
	}
	return ""
}

// has reports whether there is a claim with one of some names, which isn't null.
func (c *claims) has(names ...string) bool {
	for _, name := range names {
		if raw, ok := c.raw[name]; ok && string(raw) != "null" {
			return true
		}
	}
	return false
}

// foreign reports whether the claims are those of a token of another kind, which says the truth but wasn't made
// to use anything with: an ID token (OpenID Connect Core §2), a logout token, or an event (RFC 8417).
func (c *claims) foreign() bool {
	switch c.text("typ") { // as Keycloak has it, whose tokens all have the same header
	case "ID", "Refresh", "Offline", "Logout":
		return true
	}
	return c.has("nonce", "at_hash", "c_hash", "s_hash", "events")
}
