package oauth

import "context"

// Issuer is the metadata of an authorization server (RFC 8414, OpenID Discovery) that has been found good,
// or what AU03 says where there is none.
type Issuer struct {
	Issuer                                                       string // as the document spells it; iss is compared with it byte for byte
	Authorize, Token, Register, Revoke, Device, Introspect, Keys string // endpoints; "" for none
	Scopes                                                       []string
	Methods                                                      []string // token_endpoint_auth_methods_supported; nil if it doesn't say
	Algs                                                         []string // token_endpoint_auth_signing_alg_values_supported
	Grants                                                       []string // grant_types_supported; nil if it doesn't say
	DPoPAlgs                                                     []string
	ClientDocuments                                              bool   // client_id_metadata_document_supported
	SaysIss                                                      bool   // authorization_response_iss_parameter_supported
	Guessed                                                      bool   // made by Guess; nothing of it was published
	Slash                                                        bool   // the document's issuer differs from the expected one by the slash at its end
	At                                                           string // the URL of the document; "" if guessed
}

// FindIssuer finds the metadata of an issuer in the order of AD §Authorization Server Metadata Discovery. A
// place that answers 4xx, or with no JSON, leads on to the next; a document that is there and wrong is a *Fault.
func FindIssuer(ctx context.Context, d Doer, issuer string) (*Issuer, error) { return nil, nil }

// ReadIssuer reads the document that was found at a URL for this issuer. Its issuer must be identical; only
// the slash at the end of a URL without a path may differ.
func ReadIssuer(raw []byte, at, issuer string) (*Issuer, error) { return nil, nil }

// FindLegacy finds the issuer of a server that publishes no resource metadata: the document at the server's
// origin, or without one what Guess says (AU03 §Server Metadata Discovery and its fallback).
func FindLegacy(ctx context.Context, d Doer, server string) (*Issuer, error) { return nil, nil }

// Guess returns the endpoints that AU03 §Fallbacks for Servers without Metadata Discovery gives to a server.
func Guess(server string) (*Issuer, error) { return nil, nil }

// Scopes returns what to ask for at first (AU §Scope Selection Strategy): the configured scopes, else those
// of the challenge, else those of the resource, else none. offline_access joins others where the issuer
// lists it.
func Scopes(configured []string, c Challenge, r *Resource, is *Issuer) []string { return nil }

// Union returns the scopes that were requested before and those of a new challenge, each once (AU §Step-Up
// Authorization Flow, 2).
func Union(before, more []string) []string { return nil }
