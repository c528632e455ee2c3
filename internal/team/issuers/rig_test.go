package issuers

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// pairs are the keys of the tests, by key id; "strange" is in no key set.
var pairs = sync.OnceValue(func() map[string]crypto.Signer {
	all := map[string]crypto.Signer{}
	all["rsa"], _ = rsa.GenerateKey(rand.Reader, 2048)
	all["rsa-pss"], _ = rsa.GenerateKey(rand.Reader, 2048)
	all["short"], _ = rsa.GenerateKey(rand.Reader, 1024)
	all["p256"], _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	all["p384"], _ = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	all["p521"], _ = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	_, all["ed"], _ = ed25519.GenerateKey(rand.Reader)
	all["strange"], _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return all
})

// idp is an issuer of the tests. It's an oauth.Doer.
type idp struct {
	mu       sync.Mutex
	kids     []string
	only     map[string]string // the algorithms that keys name
	use      map[string]string
	down     bool
	cache    string
	fetches  int
	asked    int                       // about tokens
	opaque   map[string]map[string]any // what it says of tokens
	hold     chan struct{}             // if it isn't nil, answers wait until it is closed
	metadata oauth.Issuer
	idToken  string // what the token endpoint answers with
}

const issuerURL = "https://id.example.com"

func newIDP() *idp {
	return &idp{
		kids: []string{"rsa", "rsa-pss", "short", "p256", "p384", "p521", "ed"}, only: map[string]string{"rsa-pss": "PS256"}, use: map[string]string{},
		metadata: oauth.Issuer{Issuer: issuerURL, Authorize: issuerURL + "/authorize", Token: issuerURL + "/token", Keys: issuerURL + "/keys", Introspect: issuerURL + "/introspect"}, opaque: map[string]map[string]any{},
	}
}

func (p *idp) Do(ctx context.Context, r *http.Request) (*oauth.Answer, error) {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/keys") {
		p.fetches++
	}
	if p.down {
		return nil, errors.New("connection refused")
	}
	if strings.HasSuffix(r.URL.Path, "/token") {
		b, _ := json.Marshal(object{"access_token": "x", "token_type": "Bearer", "id_token": p.idToken})
		return &oauth.Answer{Status: 200, Body: b, Header: http.Header{"Content-Type": {"application/json"}}}, nil
	}
	if strings.HasSuffix(r.URL.Path, "/introspect") {
		p.asked++
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		if id, password, _ := r.BasicAuth(); id != "dragoman" || password != "its+secret" {
			return &oauth.Answer{Status: 401}, nil
		}
		says := p.opaque[form.Get("token")]
		if says == nil {
			says = map[string]any{"active": false}
		}
		b, _ := json.Marshal(says)
		return &oauth.Answer{Status: 200, Body: b}, nil
	}
	var set jose.JSONWebKeySet
	for _, kid := range p.kids {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: pairs()[kid].Public(), KeyID: kid, Algorithm: p.only[kid], Use: p.use[kid]})
	}
	b, _ := json.Marshal(set)
	b = append([]byte(`{"keys":[{"kty":"OKP","crv":"X9","x":"AA"},{"kty":"oct","kid":"hmac","k":"c2VjcmV0"},`), b[len(`{"keys":[`):]...)
	return &oauth.Answer{Status: 200, Body: b, Header: http.Header{"Cache-Control": {p.cache}}}, nil
}

func (p *idp) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *idp) counted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

// setOf returns a set with one issuer, which change may change.
func setOf(t testing.TB, p *idp, change ...func(*Issuer)) *Set {
	x := Issuer{
		Issuer: issuerURL, Audience: []string{"api://dragoman"}, RolesClaim: "groups",
		Roles: map[string][]Grant{"users": {{"default", identity.Caller}}, "admins": {{"default", identity.Admin}, {"shop", identity.Viewer}}},
	}
	for _, f := range change {
		f(&x)
	}
	s := New(Options{
		Issuers: []Issuer{x},
		Reach:   func(context.Context, string) (oauth.Doer, error) { return p, nil },
		Find: func(context.Context, oauth.Doer, string) (*oauth.Issuer, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.down {
				return nil, errors.New("down")
			}
			return &p.metadata, nil
		},
	})
	t.Cleanup(s.Close)
	return s
}

func withClient(x *Issuer) { x.Client = Client{"dragoman", secret.New("its secret")} }

type object = map[string]any

// good are the claims of a token that is accepted.
func good(more ...object) object {
	now := time.Now().Unix()
	c := object{"iss": issuerURL, "sub": "ada", "aud": "https://mcp.example.com/mcp", "exp": now + 600, "iat": now, "client_id": "claude", "groups": []string{"users"}}
	for _, m := range more {
		maps.Copy(c, m)
	}
	return c
}

// without returns claims without some.
func without(c object, names ...string) object {
	for _, n := range names {
		delete(c, n)
	}
	return c
}

// signed returns a JWT. kid is the key that signs; header replaces or adds members of the header, and removes
// those that are nil.
func signed(kid, alg string, c any, header object) string {
	h := object{"alg": alg, "kid": kid, "typ": "at+jwt"}
	for k, v := range header {
		if h[k] = v; v == nil {
			delete(h, k)
		}
	}
	body, ok := c.(string)
	if !ok {
		b, _ := json.Marshal(c)
		body = string(b)
	}
	head, _ := json.Marshal(h)
	return signedText(kid, alg, string(head), body)
}

func signedText(kid, alg, head, body string) string {
	part := base64.RawURLEncoding.EncodeToString
	text := part([]byte(head)) + "." + part([]byte(body))
	return text + "." + part(signature(kid, alg, text))
}

func signature(kid, alg, text string) []byte {
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[alg[max(0, len(alg)-3):]]
	if hash == 0 {
		hash = crypto.SHA256
	}
	h := hash.New()
	h.Write([]byte(text))
	digest := h.Sum(nil)
	switch k := pairs()[kid].(type) {
	case *rsa.PrivateKey:
		if strings.HasPrefix(alg, "PS") {
			b, _ := rsa.SignPSS(rand.Reader, k, hash, digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
			return b
		}
		b, _ := rsa.SignPKCS1v15(rand.Reader, k, hash, digest)
		return b
	case *ecdsa.PrivateKey:
		r, s, _ := ecdsa.Sign(rand.Reader, k, digest)
		n := (k.Curve.Params().BitSize + 7) / 8
		b := make([]byte, 2*n)
		r.FillBytes(b[:n])
		s.FillBytes(b[n:])
		return b
	case ed25519.PrivateKey:
		return ed25519.Sign(k, []byte(text))
	}
	return nil
}

// at returns the target of a path at the public URL of the tests.
func at(path string) httpdoor.Target {
	return httpdoor.TargetOf(&http.Request{URL: &url.URL{Path: path}}, httpdoor.Target{Scheme: "https", Host: "mcp.example.com"})
}

// judged returns what a set says of a token at /mcp: "" or the reason why not.
func judged(t testing.TB, s *Set, token, path string) string {
	who, err := s.Principal(t.Context(), "Authorization", token, at(path))
	var d *httpdoor.Denied
	switch {
	case err == nil && who != nil:
		return ""
	case who != nil:
		t.Errorf("a principal with an error: %v", err)
	case !errors.As(err, &d):
		t.Errorf("the error is no Denied: %v", err)
	}
	return err.Error()
}
