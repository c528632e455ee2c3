package oauth

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Resource is protected resource metadata (RFC 9728) that has been found good for a server.
type Resource struct {
	Resource  string   // as it was published; this is what we send as resource
	Servers   []string // the issuers; see Issuer
	Scopes    []string // scopes_supported; nil if the document doesn't say
	DPoPAlgs  []string // dpop_signing_alg_values_supported
	DPoPBound bool     // dpop_bound_access_tokens_required
	At        string   // the URL of the document
}

const resourceDocument = "the protected resource metadata"

// FindResource finds the metadata of the server at this URL: where the challenge says, which is metadata,
// or if that is "" at the well-known URL of the server's path and then at that of its origin (AD §Protected
// Resource Metadata Discovery Requirements). It returns nil and no error if the well-known URLs answer 404
// or their like; then AU03 holds, see [FindLegacy]. A document that is there and wrong is a *Fault.
func FindResource(ctx context.Context, d Doer, server, metadata string) (*Resource, error) {
	places := []string{metadata}
	if metadata == "" {
		s, err := parseURL(server)
		if err != nil {
			return nil, fault(ResourceMismatch, server, "the server's URL can't be used for a sign-in: %v", err)
		}
		places = places[:0]
		// A server without a path has one place. A query belongs to the path (RFC 9728 §3.1).
		path := s.EscapedPath()
		if path == "/" {
			path = ""
		}
		if s.RawQuery != "" {
			path += "?" + s.RawQuery
		}
		if path != "" {
			places = append(places, wellKnown(s, "oauth-protected-resource", path))
		}
		places = append(places, wellKnown(s, "oauth-protected-resource", ""))
	} else if _, err := parseURL(metadata); err != nil {
		return nil, fault(ResourceMissing, metadata, "the server's challenge names %s as its metadata, but %v", show(metadata), err)
	}
	for _, at := range places {
		raw, missing, err := get(ctx, d, at, resourceDocument)
		switch {
		case err != nil:
			return nil, err
		case !missing:
			return ReadResource(raw, at, server)
		case metadata != "":
			return nil, fault(ResourceMissing, at, "the server's challenge names %s as its metadata, but there is none", show(at)).
				next("ask whoever runs the server to serve its protected resource metadata there")
		}
	}
	return nil, nil
}

// ReadResource reads the document that was found at a URL, for the server at server.
func ReadResource(raw []byte, at, server string) (*Resource, error) {
	d, err := parse(raw)
	if err != nil {
		return nil, broken(at, resourceDocument, err)
	}
	r := &Resource{
		Resource:  d.text("resource"),
		Servers:   d.list("authorization_servers"),
		Scopes:    d.list("scopes_supported"),
		DPoPAlgs:  d.list("dpop_signing_alg_values_supported"),
		DPoPBound: d.flag("dpop_bound_access_tokens_required"),
		At:        at,
	}
	switch {
	case d.err != nil:
		return nil, broken(at, resourceDocument, d.err)
	case r.Resource == "":
		return nil, broken(at, resourceDocument, fmt.Errorf("it has no resource"))
	case !areScopes(r.Scopes):
		return nil, broken(at, resourceDocument, fmt.Errorf("its scopes_supported has text that is not a scope"))
	case !Covers(r.Resource, server):
		// RFC 9728 §3.3: if they differ, the metadata must not be used.
		return nil, fault(ResourceMismatch, at, "the metadata at %s is for %s, which is not this server", show(at), show(r.Resource)).
			next("check the server's URL; if it is right, whoever runs the server has to mend resource in that document")
	}
	return r, nil
}

// Issuer returns which of the issuers to ask: the configured one, which must be among them, or else the first
// (RFC 9728 §7.6 leaves the choice to us). r may be nil if an issuer is configured.
func (r *Resource) Issuer(configured string) (string, error) {
	switch {
	case r == nil || len(r.Servers) == 0 && configured != "":
		return configured, nil
	case len(r.Servers) == 0:
		// AD §Authorization Server Location: the document MUST name one.
		return "", fault(ResourceNoIssuer, r.At, "the server's metadata at %s names no authorization server", show(r.At)).
			next("set signIn.issuer, or ask whoever runs the server to add authorization_servers")
	case configured == "":
		return r.Servers[0], nil
	}
	if i := slices.IndexFunc(r.Servers, func(s string) bool { return SameIssuer(s, configured) }); i >= 0 {
		return r.Servers[i], nil
	}
	return "", fault(ResourceNoIssuer, r.At, "the server takes no tokens of %s; its metadata names %s", show(configured), show(strings.Join(r.Servers, ", "))).
		next("set signIn.issuer to one that the server names")
}

// areScopes reports whether each text is a scope (RFC 6749 §3.3).
func areScopes(all []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool {
		return s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
	})
}
