package oauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

const redirect = "http://127.0.0.1:1234/callback"

func TestRegister(t *testing.T) {
	const ok, refused = `201 {"client_id":"ID"}`, `400 {"error":"invalid_redirect_uri","error_description":"no"}`
	for _, c := range []struct {
		name, redirect string
		answers        map[string]string // by application_type
		want           string            // the types that were tried, and the outcome
	}{
		{"a loopback redirect is native", redirect, map[string]string{"native": ok}, "native ID"},
		{"a private scheme too", "com.example:/cb", map[string]string{"native": ok}, "native ID"},
		{"https is web", "https://me.example/callback", map[string]string{"web": ok}, "web ID"},
		{"the other type, once", redirect, map[string]string{"native": refused, "web": ok}, "native web ID"},
		{"and no third time", redirect, map[string]string{"native": refused, "web": refused}, "native web registration_refused"},
		{"a refusal that no type changes", redirect, map[string]string{"native": `401 {"error":"invalid_token"}`}, "native registration_refused"},
		{"a refusal without a body", redirect, map[string]string{"native": "403 "}, "native registration_refused"},
		{"a refusal in plain text", redirect, map[string]string{"native": "400 bad redirect", "web": ok}, "native web ID"},
		{"weather", redirect, map[string]string{"native": "502 <html>"}, "native weather"},
		{"too many", redirect, map[string]string{"native": `429 {"error":"slow"}`}, "native weather"},
		{"no client_id", redirect, map[string]string{"native": `201 {}`}, "native answer_invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			w := &web{pages: map[string]any{"https://i/reg": func(body string, req *http.Request) string {
				var m map[string]any
				if err := json.Unmarshal([]byte(body), &m); err != nil || req.Header.Get("Content-Type") != "application/json" {
					t.Error(body, err)
				}
				if m["client_name"] != "Dragoman" || m["token_endpoint_auth_method"] != "none" || !reflect.DeepEqual(m["grant_types"], []any{"authorization_code", "refresh_token"}) ||
					!reflect.DeepEqual(m["redirect_uris"], []any{c.redirect, "http://127.0.0.1/callback"}) {
					t.Error(body)
				}
				kind, _ := m["application_type"].(string)
				got = append(got, kind)
				return c.answers[kind]
			}}}
			n := NewClient{Name: "Dragoman", Redirects: []string{c.redirect, "http://127.0.0.1/callback"}}
			client, err := Register(t.Context(), w, issuer(), n)
			got = append(got, client.ID+codeOf(err))
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %q, want %q (%v)", s, c.want, err)
			}
			if err == nil && (client.Issuer != "https://i" || client.How != Registered || client.Redirect != c.redirect) {
				t.Errorf("%+v", client)
			}
			var f *Fault
			if errors.As(err, &f) && !strings.Contains(f.Next, c.redirect) {
				t.Errorf("the next step %q doesn't name the redirect URI", f.Next)
			}
		})
	}
}

// TestTA39Registration has hostile answers to a registration. None is accepted, and nothing of one is shown.
func TestTA39Registration(t *testing.T) {
	const hidden = "CANARY-SECRET"
	for name, raw := range map[string]string{
		"nothing":             "",
		"a page":              "<html>" + hidden,
		"a name twice":        `{"client_id":"a","client_secret":"` + hidden + `","client_id":"b"}`,
		"an id of a number":   `{"client_id":1,"client_secret":"` + hidden + `"}`,
		"no id":               `{"client_secret":"` + hidden + `"}`,
		"an id with a line":   `{"client_id":"a\nb","client_secret":"` + hidden + `"}`,
		"a secret of a list":  `{"client_id":"a","client_secret":["` + hidden + `"]}`,
		"a secret with ESC":   `{"client_id":"a","client_secret":"` + hidden + `\u001b"}`,
		"a long id":           `{"client_id":"` + strings.Repeat("x", 5000) + `","client_secret":"` + hidden + `"}`,
		"another method":      `{"client_id":"a","token_endpoint_auth_method":"` + hidden + `"}`,
		"a method too many":   `{"client_id":"a","token_endpoint_auth_method":"private_key_jwt"}`,
		"basic, no secret":    `{"client_id":"a","token_endpoint_auth_method":"client_secret_basic"}`,
		"another redirect":    `{"client_id":"a","client_secret":"` + hidden + `","redirect_uris":["https://evil.example/` + hidden + `"]}`,
		"an expiry of a word": `{"client_id":"a","client_secret":"` + hidden + `","client_secret_expires_at":"never"}`,
		"a redirect of a map": `{"client_id":"a","redirect_uris":{}}`,
	} {
		_, err := readRegistration([]byte(raw), redirect)
		if codeOf(err) != "answer_invalid" {
			t.Errorf("%s: %v", name, err)
		}
		clean(t, err, hidden)
	}
	w := &web{pages: map[string]any{"https://i/reg": `400 {"error":"invalid_client_metadata","error_description":"` + hidden + `","client_secret":"` + hidden + `"}`}}
	_, err := Register(t.Context(), w, issuer(), NewClient{Redirects: []string{redirect}})
	if clean(t, err, hidden); err == nil {
		t.Error("a refusal with a secret in it is accepted")
	}
	for raw, want := range map[string]Client{
		`{"client_id":"a","client_secret":"s","client_secret_expires_at":0,"redirect_uris":["http://127.0.0.1/callback"],"x":{}}`:       {ID: "a"},
		`{"client_id":"a","client_secret":"s","client_secret_expires_at":1800000000,"token_endpoint_auth_method":"client_secret_post"}`: {ID: "a", Method: MethodPost, Until: time.Unix(1800000000, 0)},
		`{"client_id":"a","client_secret":"s","client_secret_expires_at":9223372036854775807}`:                                          {ID: "a", Until: time.Unix(lastSecond, 0)},
		`{"client_id":"a","client_secret":null,"token_endpoint_auth_method":"none","redirect_uris":["` + redirect + `"]}`:               {ID: "a", Method: MethodNone},
	} {
		c, err := readRegistration([]byte(raw), redirect)
		want.Redirect, want.How = redirect, Registered
		if hidden := c.Secret.Reveal(); hidden != "" && hidden != "s" {
			t.Errorf("%s: the secret is %q", raw, hidden)
		}
		if c.Secret = (secret.Text{}); err != nil || !reflect.DeepEqual(c, want) {
			t.Errorf("%s: %+v, %v", raw, c, err)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*Issuer)
		pre      *Client
		document string
		want     string
	}{
		{"pre-registered first", func(is *Issuer) { is.ClientDocuments = true }, &Client{ID: "p", Issuer: "https://i"}, "https://me/c.json", "preregistered"},
		{"pre-registered for whatever issuer", func(*Issuer) {}, &Client{ID: "p"}, "", "preregistered"},
		{"pre-registered, with a slash too many", func(*Issuer) {}, &Client{ID: "p", Issuer: "https://i/"}, "", "preregistered"},
		{"pre-registered elsewhere", func(*Issuer) {}, &Client{ID: "p", Issuer: "https://old"}, "", "client_mismatch"},
		{"a document", func(is *Issuer) { is.ClientDocuments = true }, nil, "https://me/c.json", "document"},
		{"a document that nobody reads", func(*Issuer) {}, nil, "https://me/c.json", "registered"},
		{"documents, but we have none", func(is *Issuer) { is.ClientDocuments = true }, nil, "", "registered"},
		{"no way", func(is *Issuer) { is.Register = "" }, nil, "", "registration_missing"},
		{"no PKCE", func(is *Issuer) { is.Challenges = nil }, &Client{ID: "p"}, "", "pkce_missing"},
		{"plain alone", func(is *Issuer) { is.Challenges = []string{"plain"} }, nil, "", "pkce_missing"},
		{"no page", func(is *Issuer) { is.Authorize = "" }, nil, "", "endpoint_missing"},
		{"guessed, where nothing is promised", func(is *Issuer) { is.Challenges, is.Guessed = nil, true }, nil, "", "registered"},
	} {
		is := issuer()
		c.change(is)
		got, err := Choose(is, c.pre, c.document, redirect)
		if string(got)+codeOf(err) != c.want {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		var f *Fault
		if errors.As(err, &f) && f.Code == RegistrationMissing && !strings.Contains(f.Next, redirect) {
			t.Errorf("the next step %q doesn't name the redirect URI", f.Next)
		}
	}
}

func TestMethod(t *testing.T) {
	withSecret, key := Client{ID: "x", Secret: secret.New("s")}, Client{ID: "x", Key: &Key{}}
	said := withSecret
	said.Method = MethodPost
	for _, c := range []struct {
		client  Client
		methods []string
		want    string
	}{
		{Client{ID: "x"}, nil, MethodNone}, {Client{ID: "x"}, []string{MethodBasic}, MethodNone},
		{withSecret, nil, MethodBasic}, {withSecret, []string{MethodPost}, MethodPost}, {withSecret, []string{MethodPost, MethodBasic}, MethodBasic},
		{withSecret, []string{MethodNone}, MethodNone}, {withSecret, []string{"tls_client_auth"}, MethodBasic},
		{said, []string{MethodBasic}, MethodPost}, {key, nil, MethodKey},
	} {
		if got := c.client.method(&Issuer{Methods: c.methods}); got != c.want {
			t.Errorf("%v: %s, not %s", c.methods, got, c.want)
		}
	}
}
