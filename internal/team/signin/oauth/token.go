package oauth

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Token is the answer of a token endpoint.
type Token struct {
	Access, Refresh, ID secret.Text // Refresh and ID reveal "" if there is none
	Type                string      // "Bearer" or "DPoP", spelled so
	Issued              string      // issued_token_type of an exchange
	Life                time.Duration
	Until               time.Time // when Access expires; zero if the answer doesn't say
	Scopes              []string  // what was granted; what was asked for if the answer doesn't say
	ScopesSaid          bool      // the answer names the scopes
}

// Endpoint asks the endpoints of an issuer on behalf of a client. The zero value is of no use.
type Endpoint struct {
	Doer   Doer
	Issuer *Issuer
	Client Client
	Prover *Prover          // for tokens bound to a key; nil for bearer tokens
	Now    func() time.Time // nil for time.Now
}

// Code redeems a code. r is the request that it came of.
func (e *Endpoint) Code(ctx context.Context, code secret.Text, r Request) (Token, error) {
	return Token{}, nil
}

// Refresh asks for a new token. Scopes are those that were granted, or nil. If the answer has no new
// refresh token, Refresh of the result is the old one.
func (e *Endpoint) Refresh(ctx context.Context, refresh secret.Text, resource string, scopes []string) (Token, error) {
	return Token{}, nil
}

// ClientCredentials asks for a token for the client itself (RFC 6749 §4.4).
func (e *Endpoint) ClientCredentials(ctx context.Context, resource string, scopes []string) (Token, error) {
	return Token{}, nil
}

// Assertion asks for a token with an assertion as the grant (RFC 7523 §2.1).
func (e *Endpoint) Assertion(ctx context.Context, assertion secret.Text, resource string, scopes []string) (Token, error) {
	return Token{}, nil
}

// Exchange is a token exchange (RFC 8693).
type Exchange struct {
	Subject     secret.Text
	SubjectType string // see the Type constants
	Requested   string // "" leaves it to the issuer
	Audience    string
	Resource    string
	Scopes      []string
}

// The token types of exchanges.
const (
	TypeAccess = "urn:ietf:params:oauth:token-type:access_token"
	TypeID     = "urn:ietf:params:oauth:token-type:id_token"
	TypeIDJAG  = "urn:ietf:params:oauth:token-type:id-jag"
	TypeJWT    = "urn:ietf:params:oauth:token-type:jwt"
)

// Exchange exchanges a token for another.
func (e *Endpoint) Exchange(ctx context.Context, x Exchange) (Token, error) { return Token{}, nil }

// Revoke revokes a token (RFC 7009). It does nothing if the issuer has no endpoint for that. The hint is
// access_token or refresh_token.
func (e *Endpoint) Revoke(ctx context.Context, token secret.Text, hint string) error { return nil }

// Device is an answer of a device authorization endpoint (RFC 8628 §3.2).
type Device struct {
	Code     secret.Text
	User     string        // the code for the person, safe to print
	Page     string        // where they type it
	Whole    string        // the page with the code in it; "" if there is none
	Until    time.Time     // when both expire
	Interval time.Duration // how long to wait between polls
}

// StartDevice starts a device flow.
func (e *Endpoint) StartDevice(ctx context.Context, resource string, scopes []string) (Device, error) {
	return Device{}, nil
}

// AwaitDevice polls until the person is done, the code expires, or ctx ends.
func (e *Endpoint) AwaitDevice(ctx context.Context, dev Device, resource string) (Token, error) {
	return Token{}, nil
}

// ReadToken reads the answer of a token endpoint that came at a time.
func ReadToken(raw []byte, now time.Time) (Token, error) { return Token{}, nil }
