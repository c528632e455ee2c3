package authserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
)

// signer is a client that signs, and its host.
type signer struct {
	t     *testing.T
	kid   string
	key   any
	alg   jose.SignatureAlgorithm
	asked int
	gone  bool
}

func newSigner(t *testing.T) *signer {
	s := &signer{t: t, alg: jose.ES256}
	s.rotates("1")
	return s
}

func (s *signer) rotates(kid string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	s.kid, s.key = kid, key
}

// keys returns the set that the host publishes.
func (s *signer) keys() []byte {
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.(*ecdsa.PrivateKey).Public(), KeyID: s.kid, Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *signer) Do(context.Context, *http.Request) (*egress.Answer, error) {
	s.asked++
	if s.gone {
		return nil, &egress.Error{Reason: egress.Unreachable}
	}
	return &egress.Answer{Status: 200, Header: http.Header{}, Body: s.keys()}, nil
}

func (s *signer) signs(claims any) string {
	s.t.Helper()
	sig, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: jose.JSONWebKey{Key: s.key, KeyID: s.kid}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := jwt.Signed(sig).Claims(claims).Serialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// tokenURL is that of the tests.
const tokenURL = "https://mcp.example.com/token"

// judged is a client that signs, and a server that judges its assertions.
type judged struct {
	*signer
	server *Server
	number int
}

func newJudged(t *testing.T) *judged {
	host := newSigner(t)
	return &judged{signer: host, server: New(Options{PublicURL: "https://mcp.example.com", Documents: host})}
}

// claims returns good claims, of which change changes some.
func (j *judged) claims(change func(*jwt.Claims)) jwt.Claims {
	j.number++
	x := jwt.Claims{Issuer: vendor, Subject: vendor, Audience: jwt.Audience{tokenURL}, ID: fmt.Sprint(j.number), Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute))}
	if change != nil {
		change(&x)
	}
	return x
}

func (j *judged) judge(kind, assertion string) error {
	c := &Client{ID: vendor, Proof: proofKey, KeysURL: "https://vendor.example/keys"}
	return j.server.signed(httptest.NewRequest("POST", tokenURL, nil), c, kind, assertion)
}

func (j *judged) is(what string, assertion string, want bool) {
	j.t.Helper()
	if err := j.judge(assertionType, assertion); (err == nil) != want {
		j.t.Errorf("%s: %v", what, err)
	}
}

// TestAssertions judges assertions of a client that signs. Those of another client, another key or another
// time count for nothing, and each counts once.
func TestAssertions(t *testing.T) {
	j := newJudged(t)
	for what, x := range map[string]struct {
		change func(*jwt.Claims)
		want   bool
	}{
		"good":                 {nil, true},
		"for the issuer":       {func(x *jwt.Claims) { x.Audience = jwt.Audience{"https://mcp.example.com"} }, true},
		"for several":          {func(x *jwt.Claims) { x.Audience = jwt.Audience{"x", tokenURL} }, true},
		"expired a moment ago": {func(x *jwt.Claims) { x.Expiry = jwt.NewNumericDate(time.Now().Add(-30 * time.Second)) }, true},
		"expired":              {func(x *jwt.Claims) { x.Expiry = jwt.NewNumericDate(time.Now().Add(-2 * time.Minute)) }, false},
		"good for a day":       {func(x *jwt.Claims) { x.Expiry = jwt.NewNumericDate(time.Now().Add(24 * time.Hour)) }, false},
		"without an end":       {func(x *jwt.Claims) { x.Expiry = nil }, false},
		"not yet":              {func(x *jwt.Claims) { x.NotBefore = jwt.NewNumericDate(time.Now().Add(2 * time.Minute)) }, false},
		"without an id":        {func(x *jwt.Claims) { x.ID = "" }, false},
		"of another client":    {func(x *jwt.Claims) { x.Issuer, x.Subject = "https://evil.example/x", "https://evil.example/x" }, false},
		"about another client": {func(x *jwt.Claims) { x.Subject = "https://evil.example/x" }, false},
		"for another server":   {func(x *jwt.Claims) { x.Audience = jwt.Audience{"https://other.example/token"} }, false},
		"for our registration": {func(x *jwt.Claims) { x.Audience = jwt.Audience{"https://mcp.example.com/register"} }, false},
		"for nobody":           {func(x *jwt.Claims) { x.Audience = nil }, false},
	} {
		j.is(what, j.signs(j.claims(x.change)), x.want)
	}
	once := j.signs(j.claims(nil))
	j.is("once", once, true)
	j.is("twice", once, false)
	j.is("changed", once[:len(once)-4]+"AAAA", false)
	j.is("nothing", "", false)
	j.is("unsigned", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", false)
	if err := j.judge("urn:ietf:params:oauth:client-assertion-type:saml2-bearer", j.signs(j.claims(nil))); err == nil {
		t.Error("another type of assertion")
	}
	shared := &signer{t: t, kid: "1", key: make([]byte, 32), alg: jose.HS256}
	j.is("with a shared secret", shared.signs(j.claims(nil)), false)
	j.is("with another key of the same name", newSigner(t).signs(j.claims(nil)), false)
}

// TestAssertionKeys gives a client another key, and takes its host away: the new key is fetched, but not more often than
// once a minute, and without keys nobody is refused for good.
func TestAssertionKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, evil := newJudged(t), newSigner(t)
		j.is("at first", j.signs(j.claims(nil)), true)
		j.rotates("2")
		time.Sleep(leastFetch)
		j.is("with a new key", j.signs(j.claims(nil)), true)
		for range 10 {
			j.is("with an unknown key", evil.signs(j.claims(nil)), false)
		}
		if j.asked != 2 {
			t.Errorf("the keys were fetched %d times", j.asked)
		}
		j.gone = true
		j.is("while the host is down", j.signs(j.claims(nil)), true)
		time.Sleep(leastKept)
		if p, _ := j.judge(assertionType, j.signs(j.claims(nil))).(*problem); p == nil || p.status != 503 {
			t.Errorf("without keys: %+v", p)
		}
	})
}

// TestAssertionsInMemory checks that clients can't fill the memory with assertions.
func TestAssertionsInMemory(t *testing.T) {
	var s seen
	now := time.Unix(1e9, 0)
	for i := range 3 * mostSeen {
		if !s.first(fmt.Sprint(i), now.Add(time.Minute), now) || s.first(fmt.Sprint(i), now.Add(time.Minute), now) {
			t.Fatal(i)
		}
	}
	if len(s.all) > mostSeen {
		t.Errorf("%d are kept", len(s.all))
	}
}

// TestKeysOfClients checks which keys a client that signs may have.
func TestKeysOfClients(t *testing.T) {
	good := string(newSigner(t).keys())
	for what, x := range map[string]struct {
		more string
		want bool
	}{
		"in the document":   {`,"jwks":` + good, true},
		"on its origin":     {`,"jwks_uri":"https://vendor.example/keys"`, true},
		"on another":        {`,"jwks_uri":"https://evil.example/keys"`, false},
		"without https":     {`,"jwks_uri":"http://vendor.example/keys"`, false},
		"nowhere":           {``, false},
		"no keys":           {`,"jwks":{"keys":[]}`, false},
		"a shared secret":   {`,"jwks":{"keys":[{"kty":"oct","k":"AAAA"}]}`, false},
		"not an object":     {`,"jwks":[]`, false},
		"with a wrong type": {`,"jwks":{"keys":{}}`, false},
	} {
		c, err := parseDocument(vendor, []byte(document(vendor, `,"token_endpoint_auth_method":"private_key_jwt"`+x.more)))
		if (err == nil) != x.want || err == nil && c.Proof != proofKey {
			t.Errorf("%s: %+v %v", what, c, err)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if keys, err := parseKeys(body); err == nil && (len(keys) == 0 || len(keys) > mostKeys) {
			t.Errorf("%d keys", len(keys))
		}
	})
}
