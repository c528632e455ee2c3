package signin

import (
	"crypto/x509"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Settings are what the configuration says about the sign-in at one server. The zero value works.
type Settings struct {
	// How says where tokens come from. Unless it is Person, nobody signs in, and all share one token.
	How How
	// Assertion is the path or the URL of what Workload, Enterprise and Exchange start from.
	Assertion string
	// Provider is where Enterprise exchanges the ID token of a person.
	Provider Provider
	// Shared means that one credential is for all. Otherwise each person has their own.
	Shared bool
	// Scopes are asked for instead of those that the server names.
	Scopes []string
	// ClientID and the following say who we are to the issuer, if somebody has registered us there.
	ClientID     string
	ClientSecret secret.Text
	PrivateKey   secret.Text
	// Issuer is which of several issuers is used, or the one where the server names none.
	Issuer string
	// AuthorizationURL and TokenURL are the endpoints where there is no metadata.
	AuthorizationURL, TokenURL string
	// ClientMetadataURL is the address of a document about us, for issuers that read such documents.
	ClientMetadataURL string
	// Callback is the redirect URI. "" means our own.
	Callback string
	// Resource is what we call the server to the issuer: "" or "auto" for what the server's metadata says, "omit"
	// for nothing, or a URI.
	Resource string
	// Params are more parameters of the authorization URL.
	Params map[string]string
	// CAs returns the authorities that the server's certificate may come from; nil means those of the system, as a
	// nil result does. It may read a file.
	CAs func() *x509.CertPool
}

func (s *Settings) cas() *x509.CertPool {
	if s.CAs == nil {
		return nil
	}
	return s.CAs()
}

// How says where the tokens for a server come from.
type How string

// The values of How.
const (
	Person     How = ""                   // a person signs in
	ClientOnly How = "client-credentials" // the client itself has a secret or a key (RFC 6749 §4.4)
	Workload   How = "workload"           // the platform asserts who the machine is (RFC 7523)
	Enterprise How = "enterprise"         // a person has signed in to the organisation's provider
	Exchanged  How = "exchange"           // another token is exchanged (RFC 8693)
)

// Provider is an organisation's identity provider, and who we are to it.
type Provider struct {
	Issuer, ClientID string
	ClientSecret     secret.Text
}

// shared reports whether one credential is for all.
func (s *Settings) shared() bool { return s.Shared || s.How != Person }

// fits reports whether a stored credential is one that these settings would lead to.
func (s *Settings) fits(x *store.Credential) bool {
	return (s.ClientID == "" || s.ClientID == x.Client) &&
		(s.Issuer == "" || oauth.SameIssuer(s.Issuer, x.Issuer)) &&
		(!s.fixedResource() || s.resource() == x.Resource)
}

// leadTo reports whether a flow that is under way is one that these settings would begin. What they leave open fits
// whatever another process has found.
func (s *Settings) leadTo(k *keptFlow) bool {
	if s.ClientID != "" && (s.ClientSecret.Reveal() != k.Client.Secret || s.Callback != "" && s.Callback != k.Redirect) {
		return false
	}
	return s.fits(&store.Credential{Client: k.Client.ID, Issuer: k.Issuer.Issuer, Resource: k.Resource})
}

func (s *Settings) fixedResource() bool { return s.Resource != "" && s.Resource != "auto" }

// resource returns the configured resource, which is "" if none shall be sent.
func (s *Settings) resource() string {
	if s.Resource == "omit" {
		return ""
	}
	return s.Resource
}

// client returns the client that somebody has registered for us at an issuer, or nil.
func (s *Settings) client(issuer, redirect string) (*oauth.Client, error) {
	if s.ClientID == "" {
		return nil, nil
	}
	c := &oauth.Client{ID: s.ClientID, Secret: s.ClientSecret, Redirect: redirect, How: oauth.Preregistered, Issuer: issuer}
	return c, s.sign(c)
}

// sign adds the private key to a client, if there is one.
func (s *Settings) sign(c *oauth.Client) (err error) {
	if s.PrivateKey.Reveal() == "" {
		return nil
	}
	c.Method = oauth.MethodKey
	c.Key, err = oauth.ParseKey(s.PrivateKey)
	return err
}

// within reports whether all of some scopes are among others.
func within(some, among []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(among, s) })
}
