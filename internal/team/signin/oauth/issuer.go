package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Issuer is the metadata of an authorization server (RFC 8414, OpenID Discovery) that has been found good,
// or what AU03 says where there is none.
type Issuer struct {
	Issuer string // as the document spells it; iss is compared with it byte for byte

	// Endpoints; "" for none.
	Authorize, Token, Register, Revoke, Device, Introspect, Keys string

	Scopes          []string
	Challenges      []string // code_challenge_methods_supported
	Methods         []string // token_endpoint_auth_methods_supported; nil if it doesn't say
	Algs            []string // token_endpoint_auth_signing_alg_values_supported
	Grants          []string // grant_types_supported; nil if it doesn't say
	DPoPAlgs        []string // dpop_signing_alg_values_supported
	ClientDocuments bool     // client_id_metadata_document_supported
	SaysIss         bool     // authorization_response_iss_parameter_supported
	Guessed         bool     // made by guess; nothing of it was published
	Slash           bool     // the document's issuer differs from the expected one by the slash at its end
	At              string   // the URL of the document; "" if guessed
}

const issuerDocument = "the authorization server's metadata"

// FindIssuer finds the metadata of an issuer in the order of AD §Authorization Server Metadata Discovery. A
// place that answers 4xx leads on to the next; a document that is there and wrong is a *Fault.
func FindIssuer(ctx context.Context, d Doer, issuer string) (*Issuer, error) {
	u, err := issuerURL(issuer)
	if err != nil {
		return nil, err
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{wellKnown(u, "oauth-authorization-server", path), wellKnown(u, "openid-configuration", path)}
	if path != "" {
		places = append(places, transport.Origin(u)+path+"/.well-known/openid-configuration")
	}
	for _, at := range places {
		raw, missing, err := get(ctx, d, at, issuerDocument)
		switch {
		case err != nil:
			return nil, err
		case !missing:
			return readIssuer(raw, at, issuer)
		}
	}
	return nil, fault(IssuerMissing, issuer, "the authorization server %s publishes no metadata", show(issuer)).
		next("ask whoever runs it to serve " + show(places[0]) + "; until then set signIn.authorizationURL and signIn.tokenURL")
}

// readIssuer reads the document that was found at a URL for this issuer. Its issuer must be identical; only
// the slash at the end of a URL without a path may differ.
func readIssuer(raw []byte, at, issuer string) (*Issuer, error) {
	d, err := parse(raw)
	if err != nil {
		return nil, broken(at, issuerDocument, err)
	}
	is := &Issuer{
		Issuer:          d.text("issuer"),
		Authorize:       d.text("authorization_endpoint"),
		Token:           d.text("token_endpoint"),
		Register:        d.text("registration_endpoint"),
		Revoke:          d.text("revocation_endpoint"),
		Device:          d.text("device_authorization_endpoint"),
		Introspect:      d.text("introspection_endpoint"),
		Keys:            d.text("jwks_uri"),
		Scopes:          d.list("scopes_supported"),
		Challenges:      d.list("code_challenge_methods_supported"),
		Methods:         d.list("token_endpoint_auth_methods_supported"),
		Algs:            d.list("token_endpoint_auth_signing_alg_values_supported"),
		Grants:          d.list("grant_types_supported"),
		DPoPAlgs:        d.list("dpop_signing_alg_values_supported"),
		ClientDocuments: d.flag("client_id_metadata_document_supported"),
		SaysIss:         d.flag("authorization_response_iss_parameter_supported"),
		At:              at,
	}
	switch {
	case d.err != nil:
		return nil, broken(at, issuerDocument, d.err)
	case is.Issuer == "":
		return nil, broken(at, issuerDocument, errors.New("it has no issuer"))
	case is.Token == "":
		return nil, broken(at, issuerDocument, errors.New("it has no token_endpoint"))
	}
	var same bool
	if is.Slash, same = sameIssuer(is.Issuer, issuer); !same {
		// RFC 8414 §3.3, OpenID Discovery §4.3; AD: MUST NOT use the metadata.
		return nil, fault(IssuerMismatch, at, "the metadata at %s is of the issuer %s, but we asked for that of %s", show(at), show(is.Issuer), show(issuer)).
			next("whoever runs the server has to make authorization_servers and issuer the same")
	}
	return is, is.checkEndpoints()
}

// sameIssuer reports whether an issuer in a document is the one that was expected, and whether they differ
// by a slash. That is allowed where the URL has no path: both spellings lead to the same metadata URL (RFC
// 8414 §3.1), and Google's servers publish one against the other.
func sameIssuer(published, expected string) (slash, same bool) {
	if published == expected {
		return false, true
	}
	u, err := url.Parse(published)
	slash = err == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" &&
		(published+"/" == expected || published == expected+"/")
	return slash, slash
}

// SameIssuer reports whether two texts name the same issuer. They may differ by a slash as those in FindIssuer may.
func SameIssuer(a, b string) bool {
	_, same := sameIssuer(a, b)
	return same
}

// issuerURL reads an issuer identifier: a URL without query and fragment (RFC 8414 §2).
func issuerURL(issuer string) (*url.URL, error) {
	u, err := parseURL(issuer)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = errors.New("it has a query")
	}
	if err == nil && dotted(u.Path) {
		err = errors.New("it has dots as a path segment")
	}
	if err != nil {
		return nil, fault(IssuerInvalid, issuer, "%s can't be an authorization server: %v", show(issuer), err)
	}
	return u, nil
}

// checkEndpoints checks that each endpoint is an https URL (AS §Communication Security), or an http URL on
// the host of an issuer that is itself http. How far such an issuer may be away is the Doer's decision.
func (is *Issuer) checkEndpoints() error {
	issuer, err := issuerURL(is.Issuer)
	if err != nil {
		return err
	}
	for _, e := range []struct {
		name, url string
		read      func(string) (*url.URL, error)
	}{
		{"authorization_endpoint", is.Authorize, pageURL}, {"token_endpoint", is.Token, parseURL},
		{"registration_endpoint", is.Register, parseURL}, {"revocation_endpoint", is.Revoke, parseURL},
		{"device_authorization_endpoint", is.Device, parseURL}, {"introspection_endpoint", is.Introspect, parseURL},
		{"jwks_uri", is.Keys, parseURL},
	} {
		if e.url == "" {
			continue
		}
		u, err := e.read(e.url)
		if err == nil && u.Scheme == "http" && (issuer.Scheme != "http" || !strings.EqualFold(u.Hostname(), issuer.Hostname())) {
			err = errors.New("it isn't https")
		}
		if err != nil {
			return fault(EndpointInvalid, is.At, "the %s of %s can't be used: %v", e.name, show(is.Issuer), err)
		}
	}
	return nil
}

// Signs reports why nobody can sign in at the issuer with a browser: it has no page for that, or its document
// doesn't promise PKCE with S256 (AS §Authorization Code Protection: MUST refuse). What guess returns
// promises nothing and is tried.
func (is *Issuer) Signs() error {
	switch {
	case is.Authorize == "":
		return fault(EndpointMissing, is.At, "the authorization server %s has no authorization_endpoint, so nobody can sign in there", show(is.Issuer))
	case !is.Guessed && !slices.Contains(is.Challenges, "S256"):
		return fault(PKCEMissing, is.At, "the authorization server %s doesn't promise PKCE with S256, so a sign-in there could be stolen", show(is.Issuer)).
			next("ask whoever runs it to support S256 and to list it in code_challenge_methods_supported")
	}
	return nil
}

// FindLegacy finds the issuer of a server that publishes no resource metadata: the document at the server's
// origin, or without one what guess says (AU03 §Server Metadata Discovery and its fallback).
func FindLegacy(ctx context.Context, d Doer, server string) (*Issuer, error) {
	is, err := guess(server)
	if err != nil {
		return nil, err
	}
	at := is.Issuer + "/.well-known/oauth-authorization-server"
	raw, missing, err := get(ctx, d, at, issuerDocument)
	switch {
	case err != nil:
		return nil, err
	case missing:
		return is, nil
	}
	return readIssuer(raw, at, is.Issuer)
}

// guess returns the endpoints that AU03 §Fallbacks for Servers without Metadata Discovery gives to a server.
func guess(server string) (*Issuer, error) {
	u, err := parseURL(server)
	if err != nil {
		return nil, fault(IssuerInvalid, server, "the server's URL can't be used for a sign-in: %v", err)
	}
	base := transport.Origin(u)
	return &Issuer{Issuer: base, Authorize: base + "/authorize", Token: base + "/token", Register: base + "/register", Guessed: true}, nil
}

// Configured returns the issuer whose endpoints the operator has written down, as the last resort.
func Configured(issuer, authorize, token string) (*Issuer, error) {
	is := &Issuer{Issuer: issuer, Authorize: authorize, Token: token, Guessed: true}
	if u, err := parseURL(token); err != nil {
		return nil, fault(EndpointInvalid, token, "signIn.tokenURL can't be used: %v", err)
	} else if issuer == "" {
		is.Issuer = transport.Origin(u)
	}
	return is, is.checkEndpoints()
}

const offline = "offline_access"

// Scopes returns what to ask for at first (AU §Scope Selection Strategy): the configured scopes, else those
// of the challenge, else those of the resource, else none. offline_access joins others where the issuer
// lists it (AU §Refresh Tokens). It never stands alone, because the issuer's default scopes would go.
func Scopes(configured []string, c Challenge, r *Resource, is *Issuer) []string {
	if len(configured) > 0 {
		return configured
	}
	all := c.Scopes
	if len(all) == 0 && r != nil {
		all = r.Scopes
	}
	if len(all) > 0 && slices.Contains(is.Scopes, offline) {
		return Union(all, []string{offline})
	}
	return all
}

// Union returns the scopes that were requested before and those of a new challenge, each once (AU §Step-Up
// Authorization Flow, 2).
func Union(before, more []string) []string {
	return words(fmt.Sprint(strings.Join(before, " "), " ", strings.Join(more, " ")))
}
