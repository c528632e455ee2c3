package oauth

import (
	"context"
	"crypto/ecdsa"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Means says how an issuer knows a client.
type Means string

// The means, in the order in which they are tried (AR).
const (
	Preregistered Means = "preregistered" // the operator configured it
	Document      Means = "document"      // client id metadata document: the id is its URL
	Registered    Means = "registered"    // dynamic client registration (RFC 7591)
)

// The methods of authentication at a token endpoint.
const (
	MethodNone  = "none"
	MethodBasic = "client_secret_basic"
	MethodPost  = "client_secret_post"
	MethodKey   = "private_key_jwt"
)

// Client is who we are to an issuer.
type Client struct {
	ID       string
	Secret   secret.Text
	Method   string    // one of the methods above; "" means that the issuer's metadata decides
	Key      *Key      // for MethodKey
	Redirect string    // the redirect URI, with its port
	Until    time.Time // when the secret expires; zero for never
	How      Means
	// Issuer is whose client this is. An Endpoint of another issuer refuses to use it (AR §Authorization
	// Server Binding). It's "" for a Document, which is good everywhere.
	Issuer string
}

// Key is a private key that signs assertions: ECDSA on P-256, so ES256.
type Key struct {
	key *ecdsa.PrivateKey
	id  string
}

// ParseKey reads a private key in PEM (PKCS #8 or SEC 1) or as a JWK. Errors don't show it.
func ParseKey(text secret.Text) (*Key, error) { return nil, nil }

// Public returns the public half as a JWK set, for a document of ours.
func (k *Key) Public() []byte { return nil }

// NewClient is what we want to register.
type NewClient struct {
	Name      string
	Redirects []string // exact, the one that we use first; loopback ones also without their port
	Scopes    []string // "" leaves it to the issuer
	URI       string   // client_uri; may be ""
	Device    bool     // also ask for the device grant
}

// Choose says which means is to be used with an issuer: preregistered if pre is not nil, document if there
// is one (a URL) and the issuer reads them, else registered; or the *Fault with the redirect URI that the
// operator has to register.
func Choose(is *Issuer, pre *Client, document, redirect string) (Means, error) { return "", nil }

// Register registers a client (RFC 7591, AR §Dynamic Client Registration). If the issuer refuses, it is
// tried once more with the other application_type. Nothing of an answer with a secret gets into an error.
func Register(ctx context.Context, d Doer, is *Issuer, n NewClient) (Client, error) {
	return Client{}, nil
}

// ReadRegistration reads the answer to a registration.
func ReadRegistration(raw []byte, redirect string) (Client, error) { return Client{}, nil }
