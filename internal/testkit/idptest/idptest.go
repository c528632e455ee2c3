// Package idptest is an OpenID provider for tests: it publishes metadata and keys, signs tokens with the claims
// that a test wants, and signs in a person without asking anybody.
//
// It's as simple as such a provider can be: one ES256 key, which a test can replace, and codes that work once. It
// checks what it gets as strictly as the specifications allow, since tests of Dragoman rely on that: the redirect
// URI, the client's secret, and the verifier of PKCE. Faults are in the package fake.
package idptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// Claims are those of a token.
type Claims = map[string]any

// Provider is a running provider. Its fields may be changed only between requests.
type Provider struct {
	URL string // its issuer, too

	ClientID, Secret string // of the only client
	Person           Claims // who signs in, for ID tokens

	mu      sync.Mutex
	key     *ecdsa.PrivateKey
	kid     int
	fetched int
	codes   map[string]url.Values // the authorization requests
	t       testing.TB
	web     *httptest.Server
}

// Close ends the provider before the test does.
func (p *Provider) Close() { p.web.Close() }

// New starts a provider that ends with the test.
func New(t testing.TB) *Provider {
	p := &Provider{ClientID: "dragoman", Secret: "the client's secret", Person: Claims{"sub": "ada"}, codes: map[string]url.Values{}, t: t}
	p.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.metadata)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /introspect", p.introspect)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p.URL, p.web = s.URL, s
	return p
}

// Rotate replaces the key.
func (p *Provider) Rotate() {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = k, p.kid+1
}

// Fetched returns how often the keys were fetched.
func (p *Provider) Fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched
}

// Token returns an access token of Ada for an audience, with further claims.
func (p *Provider) Token(audience string, more ...Claims) string {
	now := time.Now().Unix()
	c := Claims{"iss": p.URL, "sub": "ada", "aud": audience, "iat": now, "exp": now + 600, "client_id": "a-client", "groups": []string{"users"}}
	for _, m := range more {
		maps.Copy(c, m)
	}
	return p.sign(c, "at+jwt")
}

func (p *Provider) sign(c Claims, typ string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: fmt.Sprint(p.kid)}}
	s, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		p.t.Error(err)
		return ""
	}
	body, _ := json.Marshal(c)
	signed, err := s.Sign(body)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	text, _ := signed.CompactSerialize()
	return text
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (p *Provider) metadata(w http.ResponseWriter, _ *http.Request) {
	answer(w, 200, Claims{
		"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"introspection_endpoint":   p.URL + "/introspect",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": true, "id_token_signing_alg_values_supported": []string{"ES256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	p.fetched++
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: fmt.Sprint(p.kid), Algorithm: "ES256", Use: "sig"}}}
	p.mu.Unlock()
	answer(w, 200, set)
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != p.ClientID || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" || q.Get("state") == "" {
		http.Error(w, "no authorization request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	to.RawQuery = url.Values{"code": {code}, "state": q["state"], "iss": {p.URL}}.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

// introspect says of each token that is no JWT that it is Ada's, if it begins with good-; what follows is its audience.
func (p *Provider) introspect(w http.ResponseWriter, r *http.Request) {
	if id, secret, _ := r.BasicAuth(); id != p.ClientID || secret != url.QueryEscape(p.Secret) {
		answer(w, 401, Claims{"error": "invalid_client"})
		return
	}
	aud, good := strings.CutPrefix(r.FormValue("token"), "good-")
	answer(w, 200, Claims{"active": good, "iss": p.URL, "sub": "ada", "aud": aud, "client_id": "a-client", "groups": []string{"users"}})
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	p.mu.Lock()
	q := p.codes[r.Form.Get("code")]
	delete(p.codes, r.Form.Get("code"))
	p.mu.Unlock()
	id, secret, ok := r.BasicAuth()
	if ok {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.Form.Get("client_id"), r.Form.Get("client_secret")
	}
	sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
	switch {
	case id != p.ClientID || secret != p.Secret:
		answer(w, 401, Claims{"error": "invalid_client"})
	case q == nil || q.Get("redirect_uri") != r.Form.Get("redirect_uri") || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]):
		answer(w, 400, Claims{"error": "invalid_grant"})
	default:
		now := time.Now().Unix()
		c := Claims{"iss": p.URL, "aud": p.ClientID, "iat": now, "exp": now + 300, "nonce": q.Get("nonce")}
		maps.Copy(c, p.Person)
		answer(w, 200, Claims{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "id_token": p.sign(c, "JWT")})
	}
}
