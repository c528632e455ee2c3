package oauth

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Endpoint asks the endpoints of an issuer on behalf of a client. The zero value is of no use.
type Endpoint struct {
	Doer   Doer
	Issuer *Issuer
	Client Client
	Prover *Prover // for tokens bound to a key; nil for bearer tokens
}

// The grant types.
const (
	grantCode        = "authorization_code"
	grantRefresh     = "refresh_token"
	grantCredentials = "client_credentials"
	grantDevice      = "urn:ietf:params:oauth:grant-type:device_code"
	grantAssertion   = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantExchange    = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// Code redeems a code. r is the request that it came of.
func (e *Endpoint) Code(ctx context.Context, code secret.Text, r Request) (Token, error) {
	return e.token(ctx, grantCode, r.Scopes, formOf(r.Resource, nil, "code", code.Reveal(), "redirect_uri", r.Redirect, "code_verifier", r.Verifier.Reveal()))
}

// Refresh asks for a new token. Scopes are those that were granted, or nil. If the answer has no new
// refresh token, Refresh of the result is the old one.
func (e *Endpoint) Refresh(ctx context.Context, refresh secret.Text, resource string, scopes []string) (Token, error) {
	t, err := e.token(ctx, grantRefresh, scopes, formOf(resource, scopes, "refresh_token", refresh.Reveal()))
	if err == nil && t.Refresh.Reveal() == "" {
		t.Refresh = refresh // RFC 6749 §6
	}
	return t, err
}

// ClientCredentials asks for a token for the client itself (RFC 6749 §4.4).
func (e *Endpoint) ClientCredentials(ctx context.Context, resource string, scopes []string) (Token, error) {
	return e.token(ctx, grantCredentials, scopes, formOf(resource, scopes))
}

// Assertion asks for a token with an assertion as the grant (RFC 7523 §2.1): that of a workload's platform,
// or what an exchange gave.
func (e *Endpoint) Assertion(ctx context.Context, assertion secret.Text, resource string, scopes []string) (Token, error) {
	return e.token(ctx, grantAssertion, scopes, formOf(resource, scopes, "assertion", assertion.Reveal()))
}

// Exchange is a token exchange (RFC 8693 §2.1).
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
)

// Exchange exchanges a token for another. If one of a certain type was requested, no other is accepted: an
// access token must not be sent to another issuer as if it were an ID-JAG.
func (e *Endpoint) Exchange(ctx context.Context, x Exchange) (Token, error) {
	form := formOf(x.Resource, x.Scopes, "subject_token", x.Subject.Reveal(), "subject_token_type", x.SubjectType, "requested_token_type", x.Requested, "audience", x.Audience)
	t, err := e.token(ctx, grantExchange, x.Scopes, form)
	if err == nil && x.Requested != "" && t.Issued != x.Requested {
		return Token{}, fault(AnswerInvalid, e.Issuer.Token, "%s gave a token of another type than we asked for", show(e.Issuer.Issuer))
	}
	return t, err
}

// formOf returns the form of a token request, of names and values. Empty values are left out, and so are scopes for a code,
// whose scopes are settled.
func formOf(resource string, scopes []string, pairs ...string) url.Values {
	form := url.Values{}
	// AU §Resource Parameter Implementation: at authorize and at token, and a refresh is a token request.
	optional(form, "resource", resource)
	optional(form, "scope", strings.Join(scopes, " "))
	for i := 0; i < len(pairs); i += 2 {
		optional(form, pairs[i], pairs[i+1])
	}
	return form
}

// token asks the token endpoint. asked has the scopes that the request goes back to.
func (e *Endpoint) token(ctx context.Context, grant string, asked []string, form url.Values) (Token, error) {
	form.Set("grant_type", grant)
	a, err := e.send(ctx, e.Issuer.Token, form)
	if err != nil {
		return Token{}, err
	}
	t, err := ReadToken(a.Body, time.Now())
	switch {
	case err != nil:
		return Token{}, err
	case t.Type == "DPoP" && e.Prover == nil:
		return Token{}, fault(AnswerInvalid, e.Issuer.Token, "%s gave a token that is bound to a key, which we didn't ask for", show(e.Issuer.Issuer))
	case t.Type == "N_A" && grant != grantExchange:
		return Token{}, fault(AnswerInvalid, e.Issuer.Token, "%s gave something that is not an access token", show(e.Issuer.Issuer))
	case !t.ScopesSaid:
		t.Scopes = asked // RFC 6749 §5.1
	}
	return t, nil
}

// Revoke revokes a token (RFC 7009). It does nothing if the issuer has no endpoint for that. The hint is
// access_token or refresh_token.
func (e *Endpoint) Revoke(ctx context.Context, token secret.Text, hint string) error {
	if e.Issuer.Revoke == "" || token.Reveal() == "" {
		return nil
	}
	_, err := e.send(ctx, e.Issuer.Revoke, url.Values{"token": {token.Reveal()}, "token_type_hint": {hint}})
	return err
}

// send posts a form to an endpoint of the issuer. A nonce that the issuer wants in our proof is sent with a
// second request, once (RFC 9449 §8).
func (e *Endpoint) send(ctx context.Context, at string, form url.Values) (*Answer, error) {
	if e.Client.isOthers(e.Issuer) {
		return nil, otherIssuer(e.Client, e.Issuer)
	}
	for again := e.Prover != nil; ; again = false {
		req, err := e.request(ctx, at, form)
		if err != nil {
			return nil, err
		}
		a, err := e.Doer.Do(ctx, req)
		if err != nil {
			return nil, undone(at, AnswerInvalid, err)
		}
		fresh := e.Prover != nil && e.Prover.Learn(at, a.Header.Get("DPoP-Nonce"))
		if err = e.hush(judge(a, at), a, form); err == nil {
			return a, nil
		}
		if !again || !fresh || !Refused(err, "use_dpop_nonce") {
			return nil, err
		}
	}
}

// sealed are the parameters of requests whose values are secrets.
var sealed = []string{"code", "code_verifier", "refresh_token", "token", "assertion", "subject_token", "device_code"}

// hush takes out of a refusal what repeats a secret that the issuer was sent: the error gets to logs and to clients. If
// not even its code is without one, it isn't a refusal.
func (e *Endpoint) hush(err error, a *Answer, form url.Values) error {
	refused, ok := err.(*Error)
	if !ok {
		return err
	}
	d, bad := parse(a.Body)
	if bad != nil {
		return err
	}
	description, _ := d.v.Get("error_description").Text() // the whole one, before anything was cut off
	for _, hidden := range append([]string{e.Client.Secret.Reveal()}, values(form, sealed)...) {
		switch {
		case hidden == "":
		case strings.Contains(refused.Code, hidden):
			return trouble(a.URL, a)
		case strings.Contains(description, hidden):
			refused.Description = ""
		}
	}
	return err
}

func values(form url.Values, names []string) (all []string) {
	for _, name := range names {
		all = append(all, form[name]...)
	}
	return all
}

// judge returns the error of an answer, if it is one. There are issuers, GitHub among them, that refuse with
// a status of 200.
func judge(a *Answer, at string) error {
	if a.Status != http.StatusOK {
		return refusal(a, at)
	}
	if isMarkup(a) {
		return trouble(at, a)
	}
	if d, err := parse(a.Body); err == nil && d.v.Get("access_token").Absent() {
		if e := d.refusal(at, a.Status); e != nil {
			return e
		}
	}
	return nil
}

func (e *Endpoint) request(ctx context.Context, at string, form url.Values) (*http.Request, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	body := url.Values{}
	for name, values := range form {
		body[name] = values
	}
	if err := e.authenticate(header, body); err != nil {
		return nil, err
	}
	if e.Prover != nil {
		proof, err := e.Prover.Proof(http.MethodPost, at, secret.Text{})
		if err != nil {
			return nil, err
		}
		header["Dpop"] = []string{proof}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(body.Encode()))
	if err != nil {
		return nil, fault(EndpointInvalid, at, "the endpoint %s is not a URL", show(at))
	}
	req.Header = header
	return req, nil
}

// authenticate adds who we are to a request: in one way only (RFC 6749 §2.3).
func (e *Endpoint) authenticate(header http.Header, body url.Values) error {
	c, hidden := &e.Client, e.Client.Secret.Reveal()
	method := c.method(e.Issuer)
	if (method == MethodBasic || method == MethodPost) && hidden == "" || method == MethodKey && c.Key == nil {
		return fault(ClientMismatch, e.Issuer.At, "%s wants the client to authenticate with %s, for which we have nothing", show(e.Issuer.Issuer), method).
			next("set signIn.clientSecret or signIn.privateKey")
	}
	switch method {
	case MethodBasic:
		// RFC 6749 §2.3.1: both halves are encoded as in a form first.
		pair := http.Request{Header: http.Header{}}
		pair.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(hidden))
		header["Authorization"] = pair.Header["Authorization"]
	case MethodPost:
		body.Set("client_id", c.ID)
		body.Set("client_secret", hidden)
	case MethodKey:
		if len(e.Issuer.Algs) > 0 && !slices.Contains(e.Issuer.Algs, "ES256") {
			return fault(ClientMismatch, e.Issuer.At, "%s takes no assertions that are signed with ES256", show(e.Issuer.Issuer)).
				next("use a client secret instead")
		}
		assertion, err := c.Key.assertion(c.ID, e.Issuer.Issuer)
		if err != nil {
			return err
		}
		// The assertion says who we are, so there is no client_id (RFC 7521 §4.2).
		body.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		body.Set("client_assertion", assertion)
	default:
		optional(body, "client_id", c.ID) // an assertion may say who asks (RFC 7523 §3.1)
	}
	return nil
}
