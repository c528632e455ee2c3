package oauth

import (
	"net/url"

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
func Random() string { return "" }

// AuthorizeURL returns the URL for the browser, always http or https and in printable ASCII without
// quotes or spaces, so that it's a harmless argument (TA28).
func (is *Issuer) AuthorizeURL(c Client, r Request) (string, error) { return "", nil }

// Expected is what was recorded before the browser left.
type Expected struct {
	State   string
	Issuer  string // Issuer.Issuer
	SaysIss bool   // Issuer.SaysIss
}

// ReadCallback judges the parameters of an authorization response and returns its code. The state is
// compared first: [ErrNotOurs] means that the response belongs to no flow or to another, which goes on. Then
// the four rows of AU §Authorization Response Validation decide about iss; a *Fault says what they refused,
// and shows nothing of the response. Then an error of the issuer is an *Error, such as access_denied.
func ReadCallback(q url.Values, x Expected) (code secret.Text, err error) {
	return secret.Text{}, nil
}

// ReadPasted returns the parameters of what a person has pasted: a redirect URL, its query, or
// code=…&state=…
func ReadPasted(text string) (url.Values, error) { return nil, nil }
