package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Prover makes the proofs of possession of a credential (RFC 9449), with an ES256 key, and remembers the
// latest nonce of each origin.
type Prover struct {
	key    *ecdsa.PrivateKey
	signer jose.Signer
	thumb  string

	mu     sync.Mutex
	nonces map[string]string // by origin; there are two, the issuer's and the server's
}

// NewProver makes one with a new key.
func NewProver() *Prover {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("no key for proofs of possession: " + err.Error()) // only without randomness
	}
	p, err := proverOf(key)
	if err != nil {
		panic("no signer for proofs of possession: " + err.Error())
	}
	return p
}

// ProverOf returns the Prover with a key that Secret has given.
func ProverOf(key secret.Text) (*Prover, error) {
	bad := errors.New("the key of the credential can't be read")
	raw, err := base64.RawURLEncoding.DecodeString(key.Reveal())
	if err != nil {
		return nil, bad
	}
	k, err := x509.ParsePKCS8PrivateKey(raw)
	if err != nil {
		return nil, bad
	}
	private, ok := k.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, bad
	}
	return proverOf(private)
}

func proverOf(key *ecdsa.PrivateKey) (*Prover, error) {
	thumb, err := thumbprint(jose.JSONWebKey{Key: key.Public()})
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		return nil, err
	}
	return &Prover{key: key, signer: signer, thumb: base64.RawURLEncoding.EncodeToString(thumb), nonces: map[string]string{}}, nil
}

// Secret returns the key, to be sealed.
func (p *Prover) Secret() secret.Text {
	raw, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		panic("a key of ours could not be written: " + err.Error())
	}
	return secret.New(base64.RawURLEncoding.EncodeToString(raw))
}

// Thumbprint returns the JWK thumbprint of the key (RFC 7638), for dpop_jkt.
func (p *Prover) Thumbprint() string { return p.thumb }

// Proof makes the value of the header DPoP for one request (RFC 9449 §4.2). access is the token that goes with
// it, or the zero Text for a token endpoint. Each proof is good once.
func (p *Prover) Proof(method, at string, access secret.Text) (string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	// htu has neither query nor fragment.
	claims := map[string]any{"jti": Random(), "htm": method, "htu": transport.Origin(u) + u.EscapedPath(), "iat": time.Now().Unix()}
	if token := access.Reveal(); token != "" {
		hash := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(hash[:])
	}
	p.mu.Lock()
	nonce := p.nonces[transport.Origin(u)]
	p.mu.Unlock()
	if nonce != "" {
		claims["nonce"] = nonce
	}
	return sign(p.signer, claims)
}

// maxNonces bounds the origins that a Prover knows, and maxNonce a nonce in bytes.
const (
	maxNonces = 16
	maxNonce  = 1024
)

// Learn remembers the nonce in the DPoP-Nonce header of an answer from at, and reports whether it is new, so
// that a refused request is worth another try (RFC 9449 §8, §9).
func (p *Prover) Learn(at, nonce string) (changed bool) {
	u, err := url.Parse(at)
	if err != nil || !isVisible(nonce, maxNonce) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := transport.Origin(u)
	if _, known := p.nonces[key]; !known && len(p.nonces) >= maxNonces {
		clear(p.nonces)
	}
	changed = p.nonces[key] != nonce
	p.nonces[key] = nonce
	return changed
}
