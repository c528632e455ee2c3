package signin

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// These paths are below the public URL. A document has the address of one of the first two with ".json". An issuer
// that doesn't say who it is has a redirect URI of its own, and then ID stands before ".json" as well as behind
// callbackPath; see Server.apart.
const (
	clientPath   = "/oauth/client"       // the client has no secret
	keyedPath    = "/oauth/keyed-client" // the client proves with our key who it is
	keysPath     = "/oauth/jwks.json"
	callbackPath = "/oauth/callback"
)

// DocumentPaths are the patterns of the paths at which Desk.Document may have something, for a http.ServeMux.
var DocumentPaths = []string{clientPath + ".json", clientPath + "/{issuer}", keyedPath + ".json", keyedPath + "/{issuer}", keysPath}

var documentPaths = regexp.MustCompile(`^(/oauth/client|/oauth/keyed-client)(/[0-9a-f]{32})?\.json$`)

// clientDocument is what we publish about ourselves (2026-07-28 §Client Registration, "Client ID Metadata Documents").
type clientDocument struct {
	ID        string   `json:"client_id"`
	Name      string   `json:"client_name"`
	URI       string   `json:"client_uri"`
	Redirects []string `json:"redirect_uris"`
	Grants    []string `json:"grant_types"`
	Responses []string `json:"response_types"`
	Kind      string   `json:"application_type"`
	Method    string   `json:"token_endpoint_auth_method"`
	Alg       string   `json:"token_endpoint_auth_signing_alg,omitempty"`
	Keys      string   `json:"jwks_uri,omitempty"`
}

// HasDocuments reports whether issuers can read about us at the public URL. Client ids that are URLs must be https.
func (d *Desk) HasDocuments() bool { return strings.HasPrefix(d.o.Public, "https://") }

// Document returns the document at a path below the public URL, or nil if there is none. What needs our key is there
// once a sign-in has used the key: a stranger's look makes none.
func (d *Desk) Document(ctx context.Context, path string) ([]byte, error) {
	m := documentPaths.FindStringSubmatch(path)
	if !d.HasDocuments() || m == nil && path != keysPath {
		return nil, nil
	}
	x := clientDocument{
		ID: d.o.Public + path, Name: ourName, URI: d.o.Public, Kind: "web", Method: oauth.MethodNone,
		Grants: []string{"authorization_code", "refresh_token"}, Responses: []string{"code"},
	}
	if path == keysPath || m[1] == keyedPath {
		safe, err := d.open(ctx)
		if err != nil {
			return nil, err
		}
		k, err := ourKey(ctx, safe)
		if k == nil || err != nil {
			return nil, err
		}
		if path == keysPath {
			return k.Public(), nil
		}
		x.Method, x.Alg, x.Keys = oauth.MethodKey, signingAlg, d.o.Public+keysPath
	}
	x.Redirects = []string{d.o.Public + callbackPath + m[2]}
	return json.Marshal(x)
}

// documented returns the client that a document describes to an issuer: the configured document, or else one of ours.
// The client has no ID if there is none.
func (s *Server) documented(ctx context.Context, safe *store.Safe, f found, redirect string) (c oauth.Client, err error) {
	d, is := s.d, f.issuer
	c = oauth.Client{ID: s.settings.ClientMetadataURL, Method: oauth.MethodNone, Redirect: redirect, How: oauth.Document}
	switch {
	case c.ID != "":
		return c, s.settings.sign(&c)
	case !is.ClientDocuments || s.settings.Callback != "" || !d.HasDocuments() || !s.readable(ctx, is):
		return oauth.Client{}, nil
	}
	base := clientPath
	if slices.Contains(is.Methods, oauth.MethodKey) && (is.Algs == nil || slices.Contains(is.Algs, signingAlg)) {
		base, c.Method = keyedPath, oauth.MethodKey
		if c.Key, err = d.makeOurKey(ctx, safe); err != nil {
			return oauth.Client{}, err
		}
	}
	c.Redirect = s.apart(is, redirect)
	c.ID = d.o.Public + base + strings.TrimPrefix(c.Redirect, redirect) + ".json"
	return c, nil
}

// readable reports whether an issuer can be expected to reach us, which it can't if we lie nearer than the issuer, as
// in an organisation's network. There we register, for which only we have to reach the issuer.
func (s *Server) readable(ctx context.Context, is *oauth.Issuer) bool {
	e := s.d.o.Egress
	ours, err := e.Nearest(ctx, s.d.o.Public)
	if err != nil || ours == egress.Public {
		return err == nil
	}
	theirs, err := e.Trusting(s.settings.cas()).Near(ctx, is.Token)
	return err == nil && ours <= theirs
}

const (
	// clientKeyKey is the name of the sealed key among the values of the house.
	clientKeyKey = "client-key"
	signingAlg   = "ES256"
)

// ourKey returns the key with which our documents say that we prove who we are, or nil if nobody has needed it yet.
func ourKey(ctx context.Context, safe *store.Safe) (*oauth.Key, error) {
	text, ok, err := safe.OfHouse(ctx, clientKeyKey)
	if !ok || err != nil {
		return nil, err
	}
	return oauth.ParseKey(text)
}

// makeOurKey returns the same, and makes it at its first use. All processes with the store have the same one.
func (d *Desk) makeOurKey(ctx context.Context, safe *store.Safe) (*oauth.Key, error) {
	for {
		if k, err := ourKey(ctx, safe); k != nil || err != nil {
			return k, err
		}
		k, err := oauth.NewKey()
		if err != nil {
			return nil, err
		}
		if err := safe.Begin(ctx, d.me, clientKeyKey, []byte(k.Secret().Reveal())); err != nil {
			return nil, err
		}
	}
}
