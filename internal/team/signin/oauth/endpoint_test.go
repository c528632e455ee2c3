package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

const tokenOK = `200 {"access_token":"A","token_type":"bearer","expires_in":3600,"refresh_token":"R2"}`

func endpoint(w *web) *Endpoint {
	is := issuer()
	is.Revoke, is.Device = "https://i/revoke", "https://i/device"
	return &Endpoint{Doer: w, Issuer: is, Client: Client{ID: "me", Issuer: "https://i"}}
}

// TestRequests has the form of each request to a token endpoint: its grant, resource and scope, and who asks.
func TestRequests(t *testing.T) {
	ask := map[string]struct {
		do   func(e *Endpoint) (Token, error)
		want string
	}{
		"code": {func(e *Endpoint) (Token, error) { return e.Code(t.Context(), secret.New("C"), request()) },
			"client_id=me&code=C&code_verifier=VERIFIER&grant_type=authorization_code&redirect_uri=http://127.0.0.1:1234/callback&resource=https://h/mcp"},
		"refresh": {func(e *Endpoint) (Token, error) {
			return e.Refresh(t.Context(), secret.New("R"), "https://h/mcp", []string{"a", "b"})
		}, "client_id=me&grant_type=refresh_token&refresh_token=R&resource=https://h/mcp&scope=a b"},
		"refresh, no scopes and no resource": {func(e *Endpoint) (Token, error) { return e.Refresh(t.Context(), secret.New("R"), "", nil) },
			"client_id=me&grant_type=refresh_token&refresh_token=R"},
		"client credentials": {func(e *Endpoint) (Token, error) {
			return e.ClientCredentials(t.Context(), "https://h/mcp", []string{"a"})
		}, "client_id=me&grant_type=client_credentials&resource=https://h/mcp&scope=a"},
		"assertion": {func(e *Endpoint) (Token, error) {
			return e.Assertion(t.Context(), secret.New("J"), "https://h/mcp", nil)
		}, "assertion=J&client_id=me&grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&resource=https://h/mcp"},
		"exchange": {func(e *Endpoint) (Token, error) {
			return e.Exchange(t.Context(), Exchange{Subject: secret.New("I"), SubjectType: TypeID, Audience: "https://as/", Resource: "https://h/mcp"})
		}, "audience=https://as/&client_id=me&grant_type=urn:ietf:params:oauth:grant-type:token-exchange&resource=https://h/mcp&subject_token=I&subject_token_type=urn:ietf:params:oauth:token-type:id_token"},
	}
	for name, c := range ask {
		w := &web{pages: map[string]any{"https://i/token": tokenOK}}
		tok, err := c.do(endpoint(w))
		if err != nil || tok.Access.Reveal() != "A" || tok.Type != "Bearer" || tok.Refresh.Reveal() != "R2" || tok.Life != time.Hour {
			t.Errorf("%s: %+v, %v", name, tok, err)
		}
		if got, _ := url.QueryUnescape(w.forms[0].Encode()); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
		if h := w.heads[0]; h.Get("Content-Type") != "application/x-www-form-urlencoded" || h.Get("Accept") != "application/json" || len(h) != 2 {
			t.Error(name, h)
		}
	}
}

// TestAuthenticate has how a client says who it is: in one way, and with both halves encoded in basic (RFC
// 6749 §2.3.1).
func TestAuthenticate(t *testing.T) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := x509.MarshalPKCS8PrivateKey(k)
	key, err := ParseKey(secret.New(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c Client, is func(*Issuer)) (url.Values, http.Header, error) {
		w := &web{pages: map[string]any{"https://i/token": tokenOK}}
		e := endpoint(w)
		e.Client = c
		is(e.Issuer)
		_, err := e.ClientCredentials(t.Context(), "", nil)
		if err != nil {
			return nil, nil, err
		}
		w.forms[0].Del("grant_type")
		return w.forms[0], w.heads[0], nil
	}
	same := func(*Issuer) {}
	form, head, _ := ask(Client{ID: "a:b&c", Secret: secret.New("s/ é")}, same)
	pair, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(head.Get("Authorization"), "Basic "))
	if string(pair) != "a%3Ab%26c:s%2F+%C3%A9" || len(form) > 0 {
		t.Errorf("basic: %q, %v", pair, form)
	}
	form, head, _ = ask(Client{ID: "a", Secret: secret.New("s"), Method: MethodPost}, same)
	if form.Encode() != "client_id=a&client_secret=s" || head.Get("Authorization") != "" {
		t.Error("post:", form, head)
	}
	form, head, _ = ask(Client{ID: "a", Key: key}, same)
	claims := verify(t, form.Get("client_assertion"), k.Public(), "JWT")
	if form.Del("client_assertion"); form.Encode() != "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer" || head.Get("Authorization") != "" {
		t.Error("key:", form, head)
	}
	if claims["iss"] != "a" || claims["sub"] != "a" || claims["aud"] != "https://i" || claims["exp"].(float64)-claims["iat"].(float64) != 120 || claims["jti"] == "" {
		t.Error("key:", claims)
	}
	for name, c := range map[string]struct {
		client Client
		is     func(*Issuer)
	}{
		"another issuer's client": {Client{ID: "a", Issuer: "https://other"}, same},
		"basic without a secret":  {Client{ID: "a", Method: MethodBasic}, same},
		"a key that isn't there":  {Client{ID: "a", Method: MethodKey}, same},
		"another algorithm":       {Client{ID: "a", Key: key}, func(is *Issuer) { is.Algs = []string{"RS256"} }},
	} {
		if _, _, err := ask(c.client, c.is); codeOf(err) != "client_mismatch" {
			t.Errorf("%s: %v", name, err)
		}
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(key.Public(), &set); err != nil || len(set.Keys) != 1 || !set.Keys[0].IsPublic() || set.Keys[0].Algorithm != "ES256" {
		t.Errorf("%s, %v", key.Public(), err)
	}
}

func TestParseKey(t *testing.T) {
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	sec1, _ := x509.MarshalECPrivateKey(p256)
	other, _ := x509.MarshalPKCS8PrivateKey(p384)
	jwk, _ := jose.JSONWebKey{Key: p256, KeyID: "k1"}.MarshalJSON()
	public, _ := jose.JSONWebKey{Key: p256.Public()}.MarshalJSON()
	for name, c := range map[string]struct {
		text string
		ok   bool
	}{
		"SEC 1":       {string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1})), true},
		"a JWK":       {" " + string(jwk) + "\n", true},
		"P-384":       {string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: other})), false},
		"public":      {string(public), false},
		"empty":       {"", false},
		"text":        {"CANARY", false},
		"broken JSON": {"{CANARY", false},
		"broken PEM":  {"-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n", false},
	} {
		k, err := ParseKey(secret.New(c.text))
		if (err == nil) != c.ok || c.ok && name == "a JWK" && k.jwk.KeyID != "k1" {
			t.Errorf("%s: %v", name, err)
		}
		clean(t, err, "CANARY")
	}
}

// TestJudge tells a refusal by the issuer from weather, which signs nobody out.
func TestJudge(t *testing.T) {
	for page, want := range map[string]string{
		tokenOK: "",
		`400 {"error":"invalid_grant","error_description":"gone"}`:      "refused invalid_grant",
		`401 {"error":"invalid_client"}`:                                "refused invalid_client",
		`200 {"error":"bad_verification_code","error_description":"x"}`: "refused bad_verification_code",
		`400 {"error":"temporarily_unavailable"}`:                       "weather",
		`400 {"error":"server_error"}`:                                  "weather",
		`500 {"error":"invalid_grant"}`:                                 "weather",
		`429 {"error":"invalid_grant"}`:                                 "weather",
		`503 `:                                                          "weather",
		`408 `:                                                          "weather",
		`400 <html>invalid_grant</html>`:                                "weather",
		`400 invalid_grant`:                                             "weather",
		`400 {"error":{"message":"invalid_grant"}}`:                     "weather",
		`400 {"error":"invalid_grant","error":"x"}`:                     "weather",
		`400 {"error":"invalid grant \u001b"}`:                          "weather",
		`403 `:                                                          "weather",
		`302 Location: https://login.example`:                           "weather",
		`200 <html>please sign in to the hotel's network</html>`:        "weather",
		`200 Content-Type: text/html` + "\nx":                           "weather",
		`200 {}`:                                                        "answer_invalid",
		`200 {"access_token":"A"}`:                                      "answer_invalid",
		`200 {"access_token":"A","token_type":"DPoP"}`:                  "answer_invalid",
		`200 {"access_token":"A","token_type":"N_A"}`:                   "answer_invalid",
	} {
		w := &web{pages: map[string]any{"https://i/token": page}}
		_, err := endpoint(w).Refresh(t.Context(), secret.New("CANARY"), "", nil)
		if codeOf(err) != want || len(w.asked) != 1 {
			t.Errorf("%s: %v, want %q", page, err, want)
		}
		clean(t, err, "CANARY")
	}
	for _, cause := range []error{errors.New("dial tcp: timeout"), http.ErrHandlerTimeout} {
		w := &web{pages: map[string]any{"https://i/token": cause}}
		if _, err := endpoint(w).Refresh(t.Context(), secret.New("CANARY"), "", nil); !Weather(err) || !errors.Is(err, cause) {
			t.Error(err)
		}
	}
	w := &web{pages: map[string]any{"https://i/token": "429 Retry-After: 17\nx"}}
	var trouble *Trouble
	if _, err := endpoint(w).Refresh(t.Context(), secret.New("R"), "", nil); !errors.As(err, &trouble) || trouble.Retry != 17*time.Second {
		t.Error(err)
	}
}

// TestTA37Echo has issuers that repeat what they were sent when they refuse it. The refusal counts, and nothing of what
// is a secret gets to whoever reads the error, which a log and a client do.
func TestTA37Echo(t *testing.T) {
	text := secret.New("CANARY-sent")
	for name, do := range map[string]func(*Endpoint) error{
		"code": func(e *Endpoint) error { _, err := e.Code(t.Context(), text, Request{}); return err },
		"verifier": func(e *Endpoint) error {
			_, err := e.Code(t.Context(), secret.New("C"), Request{Verifier: text})
			return err
		},
		"refresh": func(e *Endpoint) error { _, err := e.Refresh(t.Context(), text, "", nil); return err },
		"client": func(e *Endpoint) error {
			e.Client.Secret = text
			_, err := e.ClientCredentials(t.Context(), "", nil)
			return err
		},
		"workload": func(e *Endpoint) error { _, err := e.Assertion(t.Context(), text, "", nil); return err },
		"exchange": func(e *Endpoint) error { _, err := e.Exchange(t.Context(), Exchange{Subject: text}); return err },
		"revoke":   func(e *Endpoint) error { return e.Revoke(t.Context(), text, "refresh_token") },
	} {
		for page, want := range map[string]string{
			`400 {"error":"invalid_grant","error_description":"the token \u0043ANARY-sent is bad"}`:            "refused invalid_grant",
			`401 {"error":"invalid_client","error_description":"` + strings.Repeat("x", 290) + `CANARY-sent"}`: "refused invalid_client",
			`200 {"error":"bad_verification_code","error_description":"CANARY-sent"}`:                          "refused bad_verification_code",
			`400 {"error":"CANARY-sent"}`: "weather",
		} {
			w := &web{pages: map[string]any{"https://i/token": page, "https://i/revoke": page}}
			err := do(endpoint(w))
			if codeOf(err) != want {
				t.Errorf("%s, %s: %v, want %q", name, page, err, want)
			}
			clean(t, err, "CANARY")
		}
	}
	w := &web{pages: map[string]any{"https://i/token": `400 {"error":"invalid_grant","error_description":"the code is too old"}`}}
	if _, err := endpoint(w).Code(t.Context(), text, request()); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("what the issuer says is lost: %v", err)
	}
}

// TestTA39Token has hostile token answers. Nothing of one is shown.
func TestTA39Token(t *testing.T) {
	const hidden = "CANARY"
	for name, raw := range map[string]string{
		"nothing":            "",
		"a list":             `["` + hidden + `"]`,
		"a token twice":      `{"access_token":"` + hidden + `","access_token":"x","token_type":"Bearer"}`,
		"a line feed":        `{"access_token":"` + hidden + `\nX: y","token_type":"Bearer"}`,
		"a space":            `{"access_token":"` + hidden + ` x","token_type":"Bearer"}`,
		"é":                  `{"access_token":"` + hidden + `é","token_type":"Bearer"}`,
		"too long":           `{"access_token":"` + hidden + strings.Repeat("x", maxToken) + `","token_type":"Bearer"}`,
		"a token of a list":  `{"access_token":["` + hidden + `"],"token_type":"Bearer"}`,
		"no type":            `{"access_token":"` + hidden + `"}`,
		"another type":       `{"access_token":"` + hidden + `","token_type":"mac"}`,
		"a refresh with ESC": `{"access_token":"` + hidden + `","refresh_token":"` + hidden + `\u001b","token_type":"Bearer"}`,
		"a negative life":    `{"access_token":"` + hidden + `","token_type":"Bearer","expires_in":-1}`,
		"a life of a word":   `{"access_token":"` + hidden + `","token_type":"Bearer","expires_in":"soon"}`,
		"a fractional life":  `{"access_token":"` + hidden + `","token_type":"Bearer","expires_in":1.5}`,
		"a scope of a list":  `{"access_token":"` + hidden + `","token_type":"Bearer","scope":["a"]}`,
		"a scope with ESC":   `{"access_token":"` + hidden + `","token_type":"Bearer","scope":"a \u001bb"}`,
	} {
		_, err := ReadToken([]byte(raw), time.Now())
		if codeOf(err) != "answer_invalid" {
			t.Errorf("%s: %v", name, err)
		}
		clean(t, err, hidden)
	}
	now := time.Unix(1e9, 0)
	for raw, life := range map[string]time.Duration{
		`{"access_token":"a","token_type":"BEARER","expires_in":60,"scope":"a a b"}`:         time.Minute,
		`{"access_token":"a","token_type":"Bearer","expires_in":"60"}`:                       time.Minute,
		`{"access_token":"a","token_type":"Bearer","expires_in":0}`:                          0,
		`{"access_token":"a","token_type":"Bearer","expires_in":null,"x":[{}]}`:              0,
		`{"access_token":"a","token_type":"dpop","expires_in":9223372036854775807}`:          maxLife,
		`{"access_token":"a","token_type":"n_a","issued_token_type":"urn:x","id_token":"b"}`: 0,
	} {
		tok, err := ReadToken([]byte(raw), now)
		if err != nil || tok.Life != life || tok.Until.IsZero() != (life == 0) || life > 0 && !tok.Until.Equal(now.Add(life)) {
			t.Errorf("%s: %+v, %v", raw, tok, err)
		}
		if strings.Contains(raw, "scope") != tok.ScopesSaid || tok.ScopesSaid && len(tok.Scopes) != 2 {
			t.Errorf("%s: %v", raw, tok.Scopes)
		}
	}
}

// TestRefreshKeeps keeps the old refresh token where there is no new one, and the scopes that were asked for
// where the answer names none.
func TestRefreshKeeps(t *testing.T) {
	w := &web{pages: map[string]any{"https://i/token": `200 {"access_token":"A","token_type":"Bearer"}`}}
	tok, err := endpoint(w).Refresh(t.Context(), secret.New("R"), "", []string{"a"})
	if err != nil || tok.Refresh.Reveal() != "R" || len(tok.Scopes) != 1 || tok.ScopesSaid || !tok.Until.IsZero() {
		t.Errorf("%+v, %v", tok, err)
	}
}

func TestExchange(t *testing.T) {
	for page, want := range map[string]string{
		`200 {"access_token":"J","token_type":"N_A","issued_token_type":"` + TypeIDJAG + `"}`:     "",
		`200 {"access_token":"J","token_type":"Bearer","issued_token_type":"` + TypeAccess + `"}`: "answer_invalid",
		`200 {"access_token":"J","token_type":"Bearer"}`:                                          "answer_invalid",
	} {
		w := &web{pages: map[string]any{"https://i/token": page}}
		_, err := endpoint(w).Exchange(t.Context(), Exchange{Subject: secret.New("I"), SubjectType: TypeID, Requested: TypeIDJAG})
		if codeOf(err) != want {
			t.Errorf("%s: %v", page, err)
		}
	}
}

func TestRevoke(t *testing.T) {
	w := &web{pages: map[string]any{"https://i/revoke": "200 "}}
	e := endpoint(w)
	if err := e.Revoke(t.Context(), secret.New("R"), "refresh_token"); err != nil || w.forms[0].Encode() != "client_id=me&token=R&token_type_hint=refresh_token" {
		t.Error(w.forms, err)
	}
	w.pages["https://i/revoke"] = `400 {"error":"unsupported_token_type"}`
	if err := e.Revoke(t.Context(), secret.New("R"), "access_token"); !Refused(err, "unsupported_token_type") {
		t.Error(err)
	}
	e.Issuer.Revoke = ""
	if err := errors.Join(e.Revoke(t.Context(), secret.New("R"), "access_token"), e.Revoke(t.Context(), secret.Text{}, "x")); err != nil || len(w.asked) != 2 {
		t.Error(w.asked, err)
	}
}

// TestTA30Credentials has a client of one issuer that meets another: nothing of it is sent, whatever is asked.
func TestTA30Credentials(t *testing.T) {
	w := &web{}
	e := endpoint(w)
	e.Issuer.Issuer = "https://new.example"
	e.Client.Secret = secret.New("CANARY")
	_, err1 := e.Code(t.Context(), secret.New("CANARY"), request())
	_, err2 := e.Refresh(t.Context(), secret.New("CANARY"), "", nil)
	_, err3 := e.StartDevice(t.Context(), "", nil)
	_, err4 := e.Exchange(t.Context(), Exchange{Subject: secret.New("CANARY")})
	for _, err := range []error{err1, err2, err3, err4, e.Revoke(t.Context(), secret.New("CANARY"), "x")} {
		if clean(t, err, "CANARY"); codeOf(err) != "client_mismatch" || len(w.asked) > 0 {
			t.Errorf("%v, asked %v", err, w.asked)
		}
	}
	// A document is a client everywhere (AR §Authorization Server Binding).
	w.pages = map[string]any{"https://i/token": tokenOK}
	e.Client = Client{ID: "https://me.example/client.json", How: Document}
	if _, err := e.Refresh(t.Context(), secret.New("R"), "", nil); err != nil {
		t.Error(err)
	}
}

func TestDevice(t *testing.T) {
	const ok = `200 {"device_code":"D","user_code":"WDJB-MJHT","verification_uri":"https://i/d","verification_uri_complete":"https://i/d?c=1","expires_in":600,"interval":5}`
	synctest.Test(t, func(t *testing.T) {
		answers := []string{`400 {"error":"authorization_pending"}`, `400 {"error":"slow_down"}`, "502 <html>", tokenOK}
		begin := time.Now()
		var at []time.Duration
		w := &web{pages: map[string]any{"https://i/device": ok}}
		w.pages["https://i/token"] = func(string, *http.Request) string {
			at = append(at, time.Since(begin))
			next := answers[0]
			answers = answers[1:]
			return next
		}
		e := endpoint(w)
		dev, err := e.StartDevice(t.Context(), "https://h/mcp", []string{"a"})
		if err != nil || dev.User != "WDJB-MJHT" || w.forms[0].Encode() != "client_id=me&resource=https%3A%2F%2Fh%2Fmcp&scope=a" {
			t.Fatal(dev, w.forms, err)
		}
		tok, err := e.AwaitDevice(t.Context(), dev, "https://h/mcp", []string{"a"})
		if err != nil || tok.Access.Reveal() != "A" || len(tok.Scopes) != 1 || w.forms[1].Get("device_code") != "D" || w.forms[1].Get("resource") != "https://h/mcp" {
			t.Error(tok, w.forms, err)
		}
		if want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}; len(at) != 4 || at[0] != want[0] || at[1] != want[1] || at[2] != want[2] || at[3] != want[3] {
			t.Error("polled at", at)
		}
		w.pages["https://i/token"] = `400 {"error":"authorization_pending"}`
		if _, err := e.AwaitDevice(t.Context(), dev, "", nil); !Refused(err, "expired_token") {
			t.Error(err)
		}
		w.pages["https://i/token"] = `400 {"error":"access_denied"}`
		dev.Until = time.Now().Add(time.Hour)
		if _, err := e.AwaitDevice(t.Context(), dev, "", nil); !Refused(err, "access_denied") {
			t.Error(err)
		}
	})
	for _, raw := range []string{
		"", `{}`, strings.TrimPrefix(strings.Replace(ok, "https://i/d\"", "javascript:x\"", 1), "200 "), strings.TrimPrefix(strings.Replace(ok, "WDJB-MJHT", `a\u001b`, 1), "200 "),
		strings.TrimPrefix(strings.Replace(ok, "600", "0", 1), "200 "), strings.TrimPrefix(strings.Replace(ok, "600", `"x"`, 1), "200 "), strings.TrimPrefix(strings.Replace(ok, `"D"`, "1", 1), "200 "),
	} {
		if _, err := readDevice([]byte(raw), time.Now()); codeOf(err) != "answer_invalid" {
			t.Errorf("%s: %v", raw, err)
		}
	}
	w := &web{pages: map[string]any{"https://i/device": strings.Replace(ok, "https://i/d\"", "http://i/d\"", 1)}}
	if _, err := endpoint(w).StartDevice(t.Context(), "", nil); codeOf(err) != "answer_invalid" {
		t.Error(err)
	}
	e := endpoint(w)
	e.Issuer.Device = ""
	if _, err := e.StartDevice(t.Context(), "", nil); codeOf(err) != "endpoint_missing" {
		t.Error(err)
	}
}

// verify checks a signature with go-jose, as an issuer would, and returns the claims.
func verify(t *testing.T, text string, key any, typ string) (claims map[string]any) {
	t.Helper()
	signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.Verify(key)
	if err != nil || signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType] != typ {
		t.Fatal(err, signed.Signatures[0].Header)
	}
	if err := json.Unmarshal(raw, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}
