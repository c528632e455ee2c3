package issuers

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// TestTA04_ForgedOrBorrowed offers tokens to an endpoint: those that count, and those that were forged, were made for
// something else, or are past their time. A second person's token works all the while.
func TestTA04_ForgedOrBorrowed(t *testing.T) {
	p := newIDP()
	p.use["p384"] = "enc"
	s := setOf(t, p, func(x *Issuer) { x.Scopes = []string{"api://dragoman/mcp"} })
	keyless := setOf(t, newIDP(), func(x *Issuer) { x.Claim, x.Audience = "client_id", []string{"claude"} })
	now := time.Now().Unix()
	es := func(c any, header ...object) string {
		h := object{}
		for _, x := range header {
			h = x
		}
		return signed("p256", "ES256", c, h)
	}
	ok, part := "", base64.RawURLEncoding.EncodeToString
	jwk, _ := json.Marshal(jose.JSONWebKey{Key: pairs()["strange"].Public(), KeyID: "p256"})
	spki, _ := x509.MarshalPKIXPublicKey(pairs()["rsa"].Public())
	withHMAC := func(alg string, key []byte) string {
		text := part([]byte(`{"alg":"`+alg+`","kid":"rsa"}`)) + "." + part(mustJSON(good()))
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return text + "." + part(h.Sum(nil))
	}
	whole := es(good())
	head, rest, _ := strings.Cut(whole, ".")
	body, tail, _ := strings.Cut(rest, ".")
	rows := []struct {
		name, token, path string
		want              *httpdoor.Denied
	}{
		// Algorithms, and keys that fit them.
		{"RS256", signed("rsa", "RS256", good(), nil), "/mcp", nil},
		{"RS512", signed("rsa", "RS512", good(), nil), "/mcp", nil},
		{"PS256", signed("rsa", "PS256", good(), nil), "/mcp", nil},
		{"ES256", whole, "/mcp", nil},
		{"EdDSA", signed("ed", "EdDSA", good(), nil), "/mcp", nil},
		{"without a key id", signed("ed", "EdDSA", good(), object{"kid": nil}), "/mcp", nil},
		{"none", part([]byte(`{"alg":"none"}`)) + "." + part(mustJSON(good())) + ".", "/mcp", errMalformed},
		{"nOnE", part([]byte(`{"alg":"nOnE"}`)) + "." + part(mustJSON(good())) + ".", "/mcp", errMalformed},
		{"no algorithm", signed("p256", "ES256", good(), object{"alg": nil}), "/mcp", errMalformed},
		{"an HMAC with the public key", withHMAC("HS256", spki), "/mcp", errMalformed},
		{"an HMAC that says RS256", withHMAC("RS256", spki), "/mcp", errForged},
		{"ES512, which we don't take", signed("p521", "ES512", good(), nil), "/mcp", errMalformed},
		{"an RSA key for ES256", signed("p256", "ES256", good(), object{"kid": "rsa"}), "/mcp", errForged},
		{"a P-521 key for ES256", signed("p521", "ES256", good(), nil), "/mcp", errForged},
		{"a key that is for PS256 alone", signed("rsa-pss", "RS256", good(), nil), "/mcp", errForged},
		{"a key for encryption", signed("p384", "ES384", good(), nil), "/mcp", errForged},
		{"a key of 1,024 bits", signed("short", "RS256", good(), nil), "/mcp", errForged},
		{"an unknown key", signed("strange", "ES256", good(), nil), "/mcp", errForged},
		{"an unknown key with a known id", signed("strange", "ES256", good(), object{"kid": "p256"}), "/mcp", errForged},
		{"a key of its own", signed("strange", "ES256", good(), object{"kid": "p256", "jwk": json.RawMessage(jwk), "jku": "https://evil.example/keys"}), "/mcp", errForged},
		{"another body", head + "." + part(mustJSON(good(object{"sub": "bob"}))) + "." + tail, "/mcp", errForged},
		{"without a signature", head + "." + body + ".", "/mcp", errForged},
		// The header.
		{"JWT", es(good(), object{"typ": "JWT"}), "/mcp", nil},
		{"no typ", es(good(), object{"typ": nil}), "/mcp", nil},
		{"application/at+jwt", es(good(), object{"typ": "application/at+jwt"}), "/mcp", nil},
		{"an ID-JAG", es(good(), object{"typ": "oauth-id-jag+jwt"}), "/mcp", errMalformed},
		{"a logout token", es(good(), object{"typ": "logout+jwt"}), "/mcp", errMalformed},
		{"a DPoP proof", es(good(), object{"typ": "dpop+jwt"}), "/mcp", errMalformed},
		{"typ is no text", es(good(), object{"typ": 1}), "/mcp", errMalformed},
		{"crit", es(good(), object{"crit": []string{"exp"}, "exp": 1}), "/mcp", errMalformed},
		{"b64", es(good(), object{"crit": []string{"b64"}, "b64": false}), "/mcp", errMalformed},
		{"two alg", signedText("p256", "ES256", `{"alg":"none","alg":"ES256","kid":"p256"}`, string(mustJSON(good()))), "/mcp", errMalformed},
		{"a header in base64 of another kind", head + "=." + body + "." + tail, "/mcp", errMalformed},
		{"four parts", whole + ".x", "/mcp", errMalformed},
		{"two parts", head + "." + body, "/mcp", errMalformed},
		{"too long", es(good(object{"x": strings.Repeat("x", maxToken)})), "/mcp", errMalformed},
		{"an encrypted token", head + ".a.b.c.d", "/mcp", errMalformed},
		// Who it is from, whose it is, and until when.
		{"another issuer", es(good(object{"iss": "https://evil.example"})), "/mcp", errMalformed},
		{"the issuer with a slash", es(good(object{"iss": issuerURL + "/"})), "/mcp", errMalformed},
		{"the issuer in other letters", es(good(object{"iss": "https://ID.example.com"})), "/mcp", errMalformed},
		{"no issuer", es(without(good(), "iss")), "/mcp", errMalformed},
		{"two issuers", es(`{"iss":"https://evil.example","iss":"` + issuerURL + `","sub":"ada"}`), "/mcp", errMalformed},
		{"no subject", es(without(good(), "sub")), "/mcp", errNobody},
		{"the subject in other letters", es(without(good(object{"Sub": "ada"}), "sub")), "/mcp", errNobody},
		{"a number as the subject", es(good(object{"sub": 7})), "/mcp", errNobody},
		{"no exp", es(without(good(), "exp")), "/mcp", errNobody},
		{"exp is a text", es(good(object{"exp": "never"})), "/mcp", errMalformed},
		{"exp is null", es(good(object{"exp": nil})), "/mcp", errMalformed},
		{"exp far in the future", es(good(object{"exp": 1e10})), "/mcp", nil},
		{"exp without bounds", es(good(object{"exp": 1e300})), "/mcp", errMalformed},
		{"expired 30 s ago", es(good(object{"exp": now - 30})), "/mcp", nil},
		{"expired 90 s ago", es(good(object{"exp": now - 90})), "/mcp", errExpired},
		{"good in 30 s", es(good(object{"nbf": now + 30})), "/mcp", nil},
		{"good in 90 s", es(good(object{"nbf": now + 90})), "/mcp", errEarly},
		{"made in 30 s", es(good(object{"iat": now + 30})), "/mcp", nil},
		{"made in 90 s", es(good(object{"iat": now + 90})), "/mcp", errEarly},
		{"not JSON", es("7"), "/mcp", errMalformed},
		{"null", es("null"), "/mcp", errMalformed},
		// The audience.
		{"a configured one", es(good(object{"aud": "api://dragoman"})), "/mcp", nil},
		{"one of several", es(good(object{"aud": []string{"https://other.example", "https://mcp.example.com/mcp"}})), "/mcp", nil},
		{"the origin", es(good(object{"aud": "https://mcp.example.com"})), "/p/shop/s/git/sse", nil},
		{"the origin in other letters", es(good(object{"aud": "HTTPS://MCP.Example.com"})), "/mcp", nil},
		{"a slash at the end", es(good(object{"aud": "https://mcp.example.com/mcp/"})), "/mcp", nil},
		{"a parent", es(good(object{"aud": "https://mcp.example.com/p/shop"})), "/p/shop/s/git/mcp", nil},
		{"messages belong to sse", es(good(object{"aud": "https://mcp.example.com/s/git/sse"})), "/s/git/messages", nil},
		{"half a segment", es(good(object{"aud": "https://mcp.example.com/p/sh"})), "/p/shop/mcp", errAudience},
		{"another sign than the slash", es(good(object{"aud": "https://mcp.example.com/s/gitXmcp"})), "/s/git/mcp", errAudience},
		{"a child", es(good(object{"aud": "https://mcp.example.com/mcp/x"})), "/mcp", errAudience},
		{"a server's endpoint", es(good(object{"aud": "https://mcp.example.com/s/git/mcp"})), "/mcp", errAudience},
		{"another server's endpoint", es(good(object{"aud": "https://mcp.example.com/s/git/mcp"})), "/s/hub/mcp", errAudience},
		{"another transport", es(good(object{"aud": "https://mcp.example.com/mcp"})), "/sse", errAudience},
		{"the path in other letters", es(good(object{"aud": "https://mcp.example.com/MCP"})), "/mcp", errAudience},
		{"another host", es(good(object{"aud": "https://evil.example/mcp"})), "/mcp", errAudience},
		{"a host that begins alike", es(good(object{"aud": "https://mcp.example.com.evil.example/mcp"})), "/mcp", errAudience},
		{"a user before the host", es(good(object{"aud": "https://x@mcp.example.com/mcp"})), "/mcp", errAudience},
		{"another port", es(good(object{"aud": "https://mcp.example.com:444/mcp"})), "/mcp", errAudience},
		{"http", es(good(object{"aud": "http://mcp.example.com/mcp"})), "/mcp", errAudience},
		{"a query", es(good(object{"aud": "https://mcp.example.com/mcp?x"})), "/mcp", errAudience},
		{"the client", es(good(object{"aud": "claude"})), "/mcp", errAudience},
		{"none", es(without(good(), "aud")), "/mcp", errAudience},
		{"an empty list", es(good(object{"aud": []string{}})), "/mcp", errMalformed},
		{"an object", es(good(object{"aud": object{}})), "/mcp", errMalformed},
		// What it is for.
		{"bound to a key", es(good(object{"cnf": object{"jkt": "x"}})), "/mcp", errBound},
		{"an ID token", es(good(object{"nonce": "x"})), "/mcp", errForeign},
		{"an ID token with a hash", es(good(object{"at_hash": "x"})), "/mcp", errForeign},
		{"a refresh token of Keycloak", es(good(object{"typ": "Refresh"})), "/mcp", errForeign},
		{"a security event", es(good(object{"events": object{}})), "/mcp", errForeign},
		{"the scope", es(good(object{"scope": "openid api://dragoman/mcp"})), "/mcp", nil},
		{"the scope as Entra spells it", es(good(object{"scp": "mcp"})), "/mcp", nil},
		{"scopes in a list", es(good(object{"scp": []string{"api://dragoman/mcp"}})), "/mcp", nil},
		{"another scope", es(good(object{"scope": "openid"})), "/mcp", &httpdoor.Denied{Reason: "this access token lacks a scope"}},
		{"an empty scope", es(good(object{"scope": ""})), "/mcp", &httpdoor.Denied{Reason: "this access token lacks a scope"}},
	}
	for _, row := range rows {
		want := ok
		if row.want != nil {
			want = row.want.Reason
		}
		for range 2 { // the second time, a token that counts is remembered
			if got := judged(t, s, row.token, row.path); got != want {
				t.Errorf("%s: %q, want %q", row.name, got, want)
			}
		}
		if got := judged(t, s, es(good(object{"sub": "innocent"})), "/mcp"); got != ok {
			t.Fatalf("after %s, another person's token: %s", row.name, got)
		}
	}
	for name, row := range map[string]struct {
		token, want string
	}{
		"the client's claim, without aud": {es(without(good(), "aud")), ok},
		"another client":                  {es(without(good(object{"client_id": "evil"}), "aud")), errAudience.Reason},
		"an aud that isn't ours":          {es(good(object{"aud": "claude"})), errAudience.Reason},
	} {
		if got := judged(t, keyless, row.token, "/mcp"); got != row.want {
			t.Errorf("with a claim: %s: %q, want %q", name, got, row.want)
		}
	}
}

// TestTA04_AnotherHeader sends a proxy's assertion as a bearer token, and a bearer token as an assertion.
func TestTA04_AnotherHeader(t *testing.T) {
	token := signed("p256", "ES256", good(), nil)
	for _, header := range []string{"Cf-Access-Jwt-Assertion", "Authorization"} {
		s := setOf(t, newIDP(), func(x *Issuer) { x.Header = header })
		for _, sent := range []string{"Cf-Access-Jwt-Assertion", "Authorization", "Cf-Access-Jwt-Assertion"} {
			if _, err := s.Principal(t.Context(), sent, token, at("/mcp")); (err == nil) != (sent == header) {
				t.Errorf("a token that belongs in %s, in %s: %v", header, sent, err)
			}
		}
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// FuzzTA04Header reads headers of JWTs. What is accepted has one of our algorithms, and reads the same twice.
func FuzzTA04Header(f *testing.F) {
	for _, s := range []string{`{"alg":"ES256","kid":"a","typ":"at+jwt"}`, `{"alg":"none"}`, `{"alg":"HS256"}`, `{"alg":"RS256","crit":["b64"],"b64":false}`, `{"alg":["ES256"]}`, `{"alg":"ES256","ALG":"none"}`, `{}`, `null`, `[`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := readHeader(b)
		if !ok {
			return
		}
		again, _ := readHeader(b)
		signed := false
		for _, a := range algorithms {
			signed = signed || a == h.alg
		}
		if !signed || again != h || !json.Valid(b) {
			t.Errorf("%q is read as %+v", b, h)
		}
	})
}
