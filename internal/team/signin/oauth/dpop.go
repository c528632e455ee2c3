package oauth

import (
	"crypto/ecdsa"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Prover makes the proofs of possession of a credential (RFC 9449), with an ES256 key, and remembers the
// latest nonce of each origin.
type Prover struct {
	key    *ecdsa.PrivateKey
	mu     sync.Mutex
	nonces map[string]string // by origin
}

// NewProver makes one with a new key.
func NewProver() *Prover { return nil }

// ProverOf returns the Prover with a key that Secret has given.
func ProverOf(key secret.Text) (*Prover, error) { return nil, nil }

// Secret returns the key, to be sealed.
func (p *Prover) Secret() secret.Text { return secret.Text{} }

// Thumbprint returns the JWK thumbprint of the key (RFC 7638), for dpop_jkt.
func (p *Prover) Thumbprint() string { return "" }

// Proof makes the value of the header DPoP for one request. access is the token that goes with it, or the
// zero Text for a token endpoint.
func (p *Prover) Proof(method, url string, access secret.Text) (string, error) { return "", nil }

// Learn remembers the nonce in the DPoP-Nonce header of an answer from url, and reports whether it is new.
func (p *Prover) Learn(url, nonce string) (changed bool) { return false }
