package fake

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// visitor signs in at a fake server, by hand and step by step.
type visitor struct {
	t    *testing.T
	a    *OAuth
	base string
	c    *http.Client

	id, secret, access, refresh string
}

func visit(t *testing.T, name string, set ...string) *visitor {
	t.Helper()
	o := Options{Set: map[string]string{"revision": "2025-06-18"}}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		o.Set[k] = v
	}
	a, err := NewOAuth(name, o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(a.Handler())
	c := &http.Client{Transport: &http.Transport{}, Timeout: within, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		c.CloseIdleConnections()
		_ = a.Close()
		h.Close()
	})
	return &visitor{t: t, a: a, base: h.URL, c: c}
}

// send returns status, body and one header of an answer.
func (v *visitor) send(method, path, contentType, body, header string) (int, string, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if v.access != "" {
		r.Header.Set("Authorization", "Bearer "+v.access)
	}
	res, err := v.c.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header.Get(header)
}

const (
	aForm = "application/x-www-form-urlencoded"
	aJSON = "application/json"
)

// ping asks the MCP server for something, and returns the status with what the challenge says.
func (v *visitor) ping(method string) string {
	status, _, challenge := v.send(http.MethodPost, mcpPath, aJSON, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, "WWW-Authenticate")
	for _, word := range []string{"resource_metadata", "invalid_token", "insufficient_scope", scopeMore, scopeWrite} {
		if strings.Contains(challenge, word) {
			challenge += " " + word
		}
	}
	_, said, _ := strings.Cut(challenge, `" `)
	words := strings.Fields(said)
	words = slices.DeleteFunc(words, func(w string) bool { return strings.ContainsAny(w, `="`) })
	return strings.TrimSpace(fmt.Sprint(status, " ", strings.Join(words, " ")))
}

// document reads metadata and returns some of its members.
func (v *visitor) document(path string, members ...string) string {
	status, body, location := v.send(http.MethodGet, path, "", "", "Location")
	if status != http.StatusOK {
		return strings.TrimSpace(fmt.Sprint(status, " ", strings.NewReplacer("localhost", "HOST", v.base[strings.LastIndexByte(v.base, ':'):], "").Replace(location)))
	}
	var m map[string]any
	if json.Unmarshal([]byte(body), &m) != nil {
		return "a page"
	}
	var out []string
	for _, name := range members {
		out = append(out, strings.ReplaceAll(fmt.Sprint(m[name]), v.base, "BASE"))
	}
	return strings.Join(out, " ")
}

func (v *visitor) register(redirect string) string {
	status, body, _ := v.send(http.MethodPost, "/register", aJSON, `{"redirect_uris":["`+redirect+`"],"grant_types":["authorization_code","refresh_token"],"token_endpoint_auth_method":"client_secret_post"}`, "")
	var m struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Error  string
	}
	_ = json.Unmarshal([]byte(body), &m)
	v.id, v.secret = m.ID, m.Secret
	return strings.TrimSpace(fmt.Sprint(status, " ", m.Error))
}

const (
	aVerifier = "a-verifier-that-is-long-enough-for-the-specification"
	aRedirect = "http://127.0.0.1:7/callback"
)

// authorize has a person agree, and returns the parameters of the redirect to the client.
func (v *visitor) authorize(answer string, change ...string) url.Values {
	v.t.Helper()
	sum := sha256.Sum256([]byte(aVerifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {v.id}, "redirect_uri": {"http://127.0.0.1:9/callback"}, "state": {"s"}, "scope": {scopeBasic},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {v.base + mcpPath},
	}
	for _, kv := range change {
		name, value, _ := strings.Cut(kv, "=")
		q.Set(name, value)
	}
	status, body, to := v.send(http.MethodGet, "/authorize?"+q.Encode(), "", "", "Location")
	if status == http.StatusOK {
		id := regexp.MustCompile(`name=request value="([^"]*)"`).FindStringSubmatch(body)
		if id == nil {
			v.t.Fatalf("no form in %s", body)
		}
		status, body, to = v.send(http.MethodPost, "/authorize", aForm, url.Values{"request": {id[1]}, "person": {"bob"}, "answer": {answer}}.Encode(), "Location")
	}
	u, err := url.Parse(to)
	if err != nil || status != http.StatusFound {
		v.t.Fatalf("authorize: %d %s", status, body)
	}
	return u.Query()
}

func (v *visitor) token(fields ...string) string {
	f := url.Values{"client_id": {v.id}, "client_secret": {v.secret}, "resource": {v.base + mcpPath}}
	for _, kv := range fields {
		name, value, _ := strings.Cut(kv, "=")
		if f.Set(name, value); value == "" {
			f.Del(name)
		}
	}
	status, body, _ := v.send(http.MethodPost, "/token", aForm, f.Encode(), "")
	var m struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Error   string
	}
	if json.Unmarshal([]byte(body), &m) != nil {
		return fmt.Sprint(status, " a page")
	}
	if m.Access != "" {
		v.access = m.Access
	}
	if m.Refresh != "" {
		v.refresh = m.Refresh
	}
	return strings.TrimSpace(fmt.Sprint(status, " ", m.Error))
}

// TestOAuth signs in at each profile and looks at what differs from the one that does everything right.
func TestOAuth(t *testing.T) {
	const openMetadata, serverMetadata = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
	right := map[string]string{
		"before": "401 resource_metadata", "resource": "BASE/mcp [BASE]", "server": "BASE BASE/token [S256] BASE/register", "elsewhere": "404",
		"register": "201", "iss": "BASE", "code": "200", "after": "200", "call": "400", "refresh": "200", "again": "200", "then": "200", "once more": "200",
	}
	differs := map[string]map[string]string{
		"ok": {}, "slow-token": {},
		"step-up":                {"call": "403 resource_metadata insufficient_scope mcp:write"},
		"no-metadata":            {"before": "401", "resource": "404", "server": "404", "iss": ""},
		"no-rotation":            {},
		"bare-challenge":         {"before": "401"},
		"changed-issuer":         {"call": "401 resource_metadata invalid_token", "refresh": "401 invalid_client", "again": "401 invalid_client", "then": "401 resource_metadata invalid_token", "once more": "401 invalid_client"},
		"duplicate-members":      {},
		"endless-scope":          {"after": "403 resource_metadata insufficient_scope mcp:admin", "call": "403 resource_metadata insufficient_scope mcp:admin", "then": "403 resource_metadata insufficient_scope mcp:admin"},
		"every-path":             {"elsewhere": "a page"},
		"forgets-clients":        {"refresh": "401 invalid_client", "again": "401 invalid_client", "once more": "401 invalid_client"},
		"html-errors":            {"refresh": "502 a page", "again": "502 a page"},
		"huge-metadata":          {},
		"iss-missing":            {"iss": ""},
		"issuer-slash":           {"server": "BASE/ BASE/token [S256] BASE/register", "iss": "BASE/"},
		"moved-metadata":         {"resource": "307 http://HOST/moved" + openMetadata, "server": "307 http://HOST/moved" + serverMetadata},
		"no-grace":               {"again": "400 invalid_grant", "then": "401 resource_metadata invalid_token", "once more": "400 invalid_grant"},
		"no-loopback":            {"register": "400 invalid_redirect_uri"},
		"no-pkce":                {"server": "BASE BASE/token <nil> BASE/register"},
		"no-registration":        {"server": "BASE BASE/token [S256] <nil>", "register": "404"},
		"no-second-refresh":      {"once more": "400 invalid_grant"},
		"refresh-drops-resource": {"then": "401 resource_metadata invalid_token"},
		"resource-mismatch":      {"resource": "https://other.example/mcp [BASE]"},
		"wrong-issuer":           {"server": "https://other.example BASE/token [S256] BASE/register", "iss": "https://other.example"},
	}
	for _, p := range OAuthProfiles() {
		t.Run(p.Name, func(t *testing.T) {
			v := visit(t, p.Name, "ms=1")
			got := map[string]string{
				"before":    v.ping("initialize"),
				"resource":  v.document(openMetadata, "resource", "authorization_servers"),
				"server":    v.document(serverMetadata, "issuer", "token_endpoint", "code_challenge_methods_supported", "registration_endpoint"),
				"elsewhere": v.document("/.well-known/openid-configuration"),
				"register":  v.register(aRedirect),
			}
			if v.id != "" {
				back := v.authorize("allow")
				got["iss"] = strings.ReplaceAll(back.Get("iss"), v.base, "BASE")
				got["code"] = v.token("grant_type=authorization_code", "code="+back.Get("code"), "code_verifier="+aVerifier, "redirect_uri=http://127.0.0.1:9/callback")
				got["after"], got["call"] = v.ping("initialize"), v.ping("tools/call")
				first := v.refresh
				got["refresh"] = v.token("grant_type=refresh_token", "refresh_token="+first)
				got["again"] = v.token("grant_type=refresh_token", "refresh_token="+first)
				got["then"] = v.ping("initialize")
				got["once more"] = v.token("grant_type=refresh_token", "refresh_token="+v.refresh)
			}
			for step, want := range right {
				if other, ok := differs[p.Name][step]; ok {
					want = other
				}
				if v.id == "" && got[step] == "" {
					continue
				}
				if got[step] != want {
					t.Errorf("%s: %q, want %q", step, got[step], want)
				}
			}
			if _, ok := differs[p.Name]; !ok {
				t.Error("the test doesn't know this profile")
			}
		})
	}
}

// TestOAuthRefuses checks what a client may not do, and that it is recorded.
func TestOAuthRefuses(t *testing.T) {
	redeem := []string{"grant_type=authorization_code", "code_verifier=" + aVerifier, "redirect_uri=http://127.0.0.1:9/callback"}
	for _, tc := range []struct {
		name   string
		ask    []string // changes of the authorization request
		redeem []string // changes of the token request
		want   string   // the answer of the token endpoint, or the error of the redirect
		wrong  string   // a part of the violation
	}{
		{"no challenge", []string{"code_challenge="}, nil, "invalid_request", "code_challenge"},
		{"plain", []string{"code_challenge_method=plain"}, nil, "invalid_request", "S256"},
		{"another response type", []string{"response_type=token"}, nil, "unsupported_response_type", "response_type"},
		{"a question of doctor", []string{"response_type=dragoman-doctor"}, nil, "unsupported_response_type", ""},
		{"no state", []string{"state="}, nil, "invalid_request", "state"},
		{"no resource", []string{"resource="}, nil, "invalid_target", "resource"},
		{"another verifier", nil, []string{"code_verifier=x"}, "400 invalid_grant", "code_verifier"},
		{"another redirect", nil, []string{"redirect_uri=" + aRedirect}, "400 invalid_grant", "redirect_uri"},
		{"no resource at the token", nil, []string{"resource="}, "400 invalid_target", "resource"},
		{"another method", nil, []string{"client_secret="}, "401 invalid_client", "registered with"},
		{"an unknown code", nil, []string{"code=x"}, "400 invalid_grant", ""},
		{"an unknown grant", nil, []string{"grant_type=password"}, "400 unsupported_grant_type", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := visit(t, "ok")
			v.register(aRedirect)
			back := v.authorize("allow", tc.ask...)
			got := back.Get("error")
			if got == "" {
				got = v.token(slices.Concat(redeem, []string{"code=" + back.Get("code")}, tc.redeem)...)
			}
			if all := strings.Join(v.a.Violations(), "\n"); got != tc.want || tc.wrong == "" != (all == "") || !strings.Contains(all, tc.wrong) {
				t.Errorf("%q, violations %q; want %q, %q", got, all, tc.want, tc.wrong)
			}
		})
	}
	v := visit(t, "ok")
	v.register(aRedirect)
	if back := v.authorize("refuse"); back.Get("error") != "access_denied" || back.Get("code") != "" || back.Get("state") != "s" {
		t.Errorf("a person who refuses: %v", back)
	}
	code := v.authorize("allow").Get("code")
	if a, b := v.token(append(redeem, "code="+code)...), v.token(append(redeem, "code="+code)...); a != "200" || b != "400 invalid_grant" {
		t.Errorf("a code twice: %s, %s", a, b)
	}
	if _, err := NewOAuth("oks", Options{}); err == nil || !strings.Contains(err.Error(), "wrong-issuer") {
		t.Errorf("an unknown profile: %v", err)
	}
	if _, err := NewOAuth("ok", Options{Set: map[string]string{"life": "0"}}); err == nil {
		t.Error("a life of 0 is allowed")
	}
}

// TestOAuthDevice signs in on a device without a browser.
func TestOAuthDevice(t *testing.T) {
	v := visit(t, "ok")
	v.register(aRedirect)
	f := url.Values{"client_id": {v.id}, "client_secret": {v.secret}, "resource": {v.base + mcpPath}, "scope": {scopeBasic}}
	_, body, _ := v.send(http.MethodPost, "/device_authorization", aForm, f.Encode(), "")
	var d struct {
		Code string `json:"device_code"`
		User string `json:"user_code"`
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil || d.Code == "" || d.User == "" {
		t.Fatalf("%v in %s", err, body)
	}
	poll := func() string { return v.token("grant_type="+deviceGrant, "device_code="+d.Code) }
	if got := poll(); got != "400 authorization_pending" {
		t.Errorf("before: %s", got)
	}
	if _, page, _ := v.send(http.MethodGet, "/device?user_code="+d.User, "", "", ""); !strings.Contains(page, d.User) {
		t.Errorf("the page has no form: %s", page)
	}
	v.send(http.MethodPost, "/authorize", aForm, url.Values{"request": {d.User}, "answer": {"allow"}}.Encode(), "")
	if a, b := poll(), poll(); a != "200" || b != "400 invalid_grant" {
		t.Errorf("after: %s, then %s", a, b)
	}
}

// TestOAuthEnds checks that a token ends after its life, by revocation, and for clients after a restart.
func TestOAuthEnds(t *testing.T) {
	signIn := func(v *visitor) {
		v.register(aRedirect)
		if got := v.token("grant_type=client_credentials", "scope="+scopeBasic); got != "200" || v.ping("initialize") != "200" {
			t.Fatal(got)
		}
	}
	v := visit(t, "ok", "life=1")
	signIn(v)
	v.a.mu.Lock()
	for _, tok := range v.a.s.access {
		tok.made = tok.made.Add(-2 * time.Second)
	}
	v.a.mu.Unlock()
	if got := v.ping("initialize"); got != "401 resource_metadata invalid_token" {
		t.Errorf("after its life: %s", got)
	}
	v = visit(t, "ok")
	signIn(v)
	v.send(http.MethodPost, "/revoke", aForm, url.Values{"client_id": {v.id}, "client_secret": {v.secret}, "token": {v.access}}.Encode(), "")
	if got := v.ping("initialize"); got != "401 resource_metadata invalid_token" {
		t.Errorf("revoked: %s", got)
	}
	v.a.Restart()
	if got := v.token("grant_type=client_credentials"); got != "401 invalid_client" {
		t.Errorf("after a restart: %s", got)
	}
	if n := v.a.Counts(); n["register"] != 1 || n["client_credentials"] != 2 || n["revoke"] != 1 || n["401"] != 1 {
		t.Errorf("counts: %v", n)
	}
}

// TestOAuthDocuments checks to which addresses the URL of a document, as a client, may lead browsers.
func TestOAuthDocuments(t *testing.T) {
	v := visit(t, "ok", "documents=yes")
	for redirect, want := range map[string]int{
		"http://127.0.0.1:9/callback": 200, "https://app.example/oauth/callback": 200,
		"https://app.example:8443/oauth/callback": 400, "http://app.example/oauth/callback": 400, "https://other.example/oauth/callback": 400,
	} {
		q := url.Values{
			"client_id": {"https://app.example/oauth/client.json"}, "redirect_uri": {redirect}, "response_type": {"code"}, "state": {"s"},
			"code_challenge": {strings.Repeat("x", 43)}, "code_challenge_method": {"S256"}, "resource": {v.base + v.a.Path()},
		}
		if status, body, _ := v.send(http.MethodGet, "/authorize?"+q.Encode(), "", "", ""); status != want {
			t.Errorf("%s: %d %s", redirect, status, body)
		}
	}
}
