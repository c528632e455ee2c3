package oauth

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func FuzzChallenges(f *testing.F) {
	for _, s := range []string{
		`Bearer resource_metadata="https://h/x", scope="a b", error="invalid_token"`, `DPoP algs="ES256", error="use_dpop_nonce", Bearer`,
		`Bearer scope="a\"b`, "Negotiate abc==, Bearer realm=x", `Bearer a=b, a=c, , ,DPoP`, `bearer =, "`, "Bearer error_description=\"\xff\\",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		all := Challenges((&transport.StatusError{Authenticate: []string{field}}).Challenges())
		for _, c := range all {
			if c.Scheme != "Bearer" && c.Scheme != "DPoP" || len(c.Scopes) > len(field) || strings.Contains(c.Error, "\n") && !strings.Contains(field, "\\\n") {
				t.Errorf("%+v", c)
			}
			for _, s := range c.Scopes {
				if strings.TrimSpace(s) != s || s == "" {
					t.Errorf("the scope %q", s)
				}
			}
		}
		// What goes before doesn't change what comes after.
		if more := Challenges([]string{"Bearer =", field}); len(more) != len(Challenges([]string{field})) {
			t.Errorf("%d challenges, not %d", len(more), len(all))
		}
	})
}

// same checks that a text that we read is the one that encoding/json reads, which is laxer in all else.
func same(t *testing.T, raw []byte, members map[string]string) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%q is accepted, but is no JSON object: %v", raw, err)
	}
	for name, text := range members {
		if got, _ := m[name].(string); got != text {
			t.Errorf("%s of %q is %q, not %q", name, raw, got, text)
		}
	}
}

func FuzzResource(f *testing.F) {
	for _, s := range []string{
		`{"resource":"https://h/a/mcp","authorization_servers":["https://i"],"scopes_supported":["a"],"dpop_bound_access_tokens_required":true}`,
		`{"resource":"https:\/\/h/a","authorization_servers":null}`, `{"resource":"https://h/a/../b"}`, `{"resource":1}`, `{}`, `[]`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ReadResource(raw, "https://h/x", "https://h/a/mcp")
		if clean(t, err); err != nil {
			return
		}
		if !Covers(r.Resource, "https://h/a/mcp") {
			t.Errorf("%q is accepted for another server", r.Resource)
		}
		same(t, raw, map[string]string{"resource": r.Resource})
	})
}

func FuzzIssuer(f *testing.F) {
	for _, s := range []string{
		`{"issuer":"https://i","authorization_endpoint":"https://i/a","token_endpoint":"https://i/t","code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":true}`,
		`{"issuer":"https://i/","token_endpoint":"https://i/t","registration_endpoint":"http://i/r"}`, `{"issuer":"https://i","issuer":"https://j"}`, `{"issuer":"https://i","token_endpoint":"javascript:x"}`, `x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		is, err := readIssuer(raw, "https://i/x", "https://i")
		if clean(t, err); err != nil {
			return
		}
		if is.Issuer != "https://i" && is.Issuer != "https://i/" {
			t.Errorf("the issuer %q is accepted", is.Issuer)
		}
		for _, endpoint := range []string{is.Authorize, is.Token, is.Register, is.Revoke, is.Device, is.Introspect, is.Keys} {
			if u, err := url.Parse(endpoint); endpoint != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "") {
				t.Errorf("the endpoint %q is accepted", endpoint)
			}
		}
		same(t, raw, map[string]string{"issuer": is.Issuer, "token_endpoint": is.Token, "authorization_endpoint": is.Authorize})
		if at, err := is.AuthorizeURL(Client{ID: "x"}, request()); err == nil && (!strings.HasPrefix(at, "https://") || strings.ContainsAny(at, " \"'`$\n")) {
			t.Errorf("the browser would get %q", at)
		}
	})
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{
		`{"access_token":"CANARY","token_type":"Bearer","expires_in":3600,"refresh_token":"CANARY","scope":"a b"}`, `{"access_token":"CANARY","token_type":"DPoP","expires_in":"60"}`,
		`{"access_token":"CANARY\n","token_type":"N_A"}`, `{"error":"invalid_grant"}`, `{"access_token":["CANARY"]}`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		now := time.Unix(1e9, 0)
		tok, err := ReadToken(raw, now)
		if clean(t, err, "CANARY"); err != nil {
			return
		}
		if !isHeader(tok.Access.Reveal()) || tok.Life < 0 || !tok.Until.IsZero() && !tok.Until.After(now) {
			t.Errorf("%+v", tok)
		}
		same(t, raw, map[string]string{"access_token": tok.Access.Reveal(), "refresh_token": tok.Refresh.Reveal(), "id_token": tok.ID.Reveal()})
	})
}

func FuzzRegistration(f *testing.F) {
	for _, s := range []string{
		`{"client_id":"a","client_secret":"CANARY","client_secret_expires_at":0,"redirect_uris":["http://127.0.0.1:1234/callback"]}`, `{"client_id":"a","token_endpoint_auth_method":"none"}`,
		`{"client_id":"a","redirect_uris":["https://evil.example/CANARY"]}`, `{"client_id":["CANARY"]}`, `{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := readRegistration(raw, redirect)
		if clean(t, err, "CANARY"); err != nil {
			return
		}
		if c.ID == "" || c.Redirect != redirect || (c.Method == MethodBasic || c.Method == MethodPost) && c.Secret.Reveal() == "" {
			t.Errorf("%+v", c)
		}
		same(t, raw, map[string]string{"client_id": c.ID, "client_secret": c.Secret.Reveal()})
	})
}

func FuzzDevice(f *testing.F) {
	f.Add([]byte(`{"device_code":"CANARY","user_code":"WDJB-MJHT","verification_uri":"https://i/d","expires_in":600,"interval":5}`))
	f.Add([]byte(`{"device_code":"CANARY","user_code":"\u202e","verification_url":"javascript:x","expires_in":1e9}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		now := time.Unix(1e9, 0)
		d, err := readDevice(raw, now)
		if clean(t, err, "CANARY"); err != nil {
			return
		}
		if _, err := pageURL(d.Page); err != nil || !isVisible(d.User, 64) || d.Interval < time.Second || d.Interval > maxInterval || !d.Until.After(now) || d.Until.After(now.Add(maxDevice)) {
			t.Errorf("%+v", d)
		}
	})
}

func FuzzCallback(f *testing.F) {
	for _, s := range []string{"state=S&code=C&iss=https://i", "state=S&error=access_denied", "state=S&state=S", "http://127.0.0.1/cb?code=C&state=S#x", "iss=https%3a//i/&state=S&code=%0a"} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, says bool) {
		q, err := ReadPasted(text)
		if err != nil {
			return
		}
		code, err := ReadCallback(q, Expected{State: "S", Issuer: "https://i", SaysIss: says})
		if err == nil && (len(q["state"]) != 1 || q.Get("state") != "S" || !isVisible(code.Reveal(), maxCode) || says && q.Get("iss") != "https://i" || q.Has("iss") && q.Get("iss") != "https://i") {
			t.Errorf("%q is accepted", text)
		}
	})
}
