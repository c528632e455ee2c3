package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Key is a private key that signs assertions: ECDSA on P-256, so ES256.
type Key struct {
	text   secret.Text
	jwk    jose.JSONWebKey
	signer jose.Signer
}

// NewKey makes a new key. Its id is its thumbprint (RFC 7638).
func NewKey() (*Key, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	jwk := jose.JSONWebKey{Key: k}
	sum, err := thumbprint(jwk)
	if err != nil {
		return nil, err
	}
	jwk.KeyID = base64.RawURLEncoding.EncodeToString(sum)
	text, err := jwk.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return ParseKey(secret.New(string(text)))
}

var errKey = errors.New("it is not a private key of the kind ES256 (ECDSA on P-256), in PEM or as a JWK")

// ParseKey reads a private key in PEM (PKCS #8 or SEC 1) or as a JWK. Errors don't show it.
func ParseKey(text secret.Text) (*Key, error) {
	raw := strings.TrimSpace(text.Reveal())
	var jwk jose.JSONWebKey
	if strings.HasPrefix(raw, "{") {
		if jwk.UnmarshalJSON([]byte(raw)) != nil {
			return nil, errKey
		}
	} else if block, _ := pem.Decode([]byte(raw)); block == nil {
		return nil, errKey
	} else if k, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		jwk.Key = k
	} else if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		jwk.Key = k
	}
	k, ok := jwk.Key.(*ecdsa.PrivateKey)
	if !ok || k.Curve != elliptic.P256() {
		return nil, errKey
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: k, KeyID: jwk.KeyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, errKey
	}
	return &Key{text: text, jwk: jose.JSONWebKey{Key: k, KeyID: jwk.KeyID}, signer: signer}, nil
}

// Secret returns the text of the key, for ParseKey.
func (k *Key) Secret() secret.Text { return k.text }

// Public returns the public half as a JWK set, for a document of ours.
func (k *Key) Public() []byte {
	public := k.jwk.Public()
	public.Algorithm, public.Use = string(jose.ES256), "sig"
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	if err != nil {
		panic("a public key could not be written: " + err.Error())
	}
	return raw
}

// ReadKeys reads a JWK set of a peer (RFC 7517 §5). It leaves out keys that we can't use and those that sign nothing, and
// fails if no public key is left.
func ReadKeys(set []byte) ([]jose.JSONWebKey, error) {
	d, err := parse(set)
	if err != nil {
		return nil, fmt.Errorf("the JWK set cannot be read: %w", err)
	}
	var keys []jose.JSONWebKey
	for v := range d.v.Get("keys").Elements() {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(v.Raw()) == nil && (k.Use == "" || k.Use == "sig") && k.IsPublic() && k.Valid() {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the JWK set has no public key that can be used")
	}
	return keys, nil
}

// assertionLife is how long a client assertion is good: long enough for a clock that is a little wrong.
const assertionLife = 2 * time.Minute

// assertion makes the assertion with which a client proves who it is (RFC 7523 §2.2). Its audience is the
// issuer and nothing else, since an audience that another issuer would take too could be replayed there
// (draft-ietf-oauth-rfc7523bis).
func (k *Key) assertion(client, issuer string) (string, error) {
	now := time.Now()
	return sign(k.signer, map[string]any{
		"iss": client, "sub": client, "aud": issuer, "jti": Random(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
}

func sign(signer jose.Signer, claims map[string]any) (string, error) {
	raw, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(raw)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// thumbprint returns the thumbprint of a public key (RFC 7638).
func thumbprint(k jose.JSONWebKey) ([]byte, error) { return k.Thumbprint(crypto.SHA256) }
