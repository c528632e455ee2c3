package oauth

import "context"

// Resource is protected resource metadata (RFC 9728) that has been found good for a server.
type Resource struct {
	Resource  string   // as it was published; this is what we send as resource
	Servers   []string // the issuers, at least one
	Scopes    []string // scopes_supported; nil if the document doesn't say
	DPoPAlgs  []string // dpop_signing_alg_values_supported
	DPoPBound bool     // dpop_bound_access_tokens_required
	At        string   // the URL of the document
}

// FindResource finds the metadata of the server at this URL: where the challenge says, which is metadata,
// or if that is "" at the well-known URL of the server's path and then at that of its origin (AD §Protected
// Resource Metadata Discovery Requirements). It returns nil and no error if the well-known URLs answer 404
// or their like; then AU03 holds, see [FindLegacy]. A document that is there and wrong is a *Fault.
func FindResource(ctx context.Context, d Doer, server, metadata string) (*Resource, error) {
	return nil, nil
}

// ReadResource reads the document that was found at a URL, for the server at server.
func ReadResource(raw []byte, at, server string) (*Resource, error) { return nil, nil }

// Covers reports whether resource, an absolute URL, is the server's URL or a parent of it: the same
// origin, and a path that the server's path begins with, segment by segment. A slash at the end doesn't
// count.
func Covers(resource, server string) bool { return false }

// Canonical returns the URL of a server as the identifier that we send when no metadata names one: lower
// case scheme and host, no default port, no fragment, no slash as the only path (AU §Canonical Server URI).
func Canonical(server string) (string, error) { return "", nil }
