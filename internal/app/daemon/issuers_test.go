//go:build unix

package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/testkit/idptest"
)

// roles are those of the tests: users call, and admins also administrate.
var roles = config.Roles{Claim: "groups", Map: []config.MappedRole{{Value: "users", Project: "default", Role: identity.Caller}, {Value: "admins", Project: "default", Role: identity.Caller}, {Value: "admins", Project: "default", Role: identity.Admin}}}

// protected returns a serve on loopback that needs a key or a token of a provider, with a legacy server a.
func protected(t *testing.T, p *idptest.Provider, more ...func(*config.Snapshot)) *rig {
	t.Helper()
	s := snapshot(child(t, "a", "legacy"))
	s.Access = config.Access{LoopbackKeys: true, Issuers: []config.Issuer{{Issuer: p.URL, Audience: []string{"api://dragoman"}, Roles: roles}}}
	for _, f := range more {
		f(s)
	}
	return serve(t, s)
}

func bearer(token string, more ...string) []string {
	return append([]string{"Authorization", "Bearer " + token}, more...)
}

// wellKnownSpellings are 40 and more ways to ask for a document of OAuth.
func wellKnownSpellings() (all []string) {
	for _, of := range []string{"oauth-protected-resource", "oauth-authorization-server", "openid-configuration"} {
		for _, at := range []string{"", "/", "/mcp", "/mcp/", "/sse", "/s/a/mcp", "/p/default/mcp", "/p/default/s/a/mcp", "/x"} {
			all = append(all, "/.well-known/"+of+at)
		}
		for _, at := range []string{"/mcp", "/s/a/mcp", "/p/default/mcp", "/sse"} {
			all = append(all, at+"/.well-known/"+of)
		}
		all = append(all, "/.well-known/"+strings.ToUpper(of), "/%2ewell-known/"+of, "/.well%2dknown/"+of, "/.well-known/"+of+"?x=1", "/.well-known/"+of+".json")
	}
	return append(all, "/.well-known", "/.well-known/", "/oauth/client.json", "/oauth/jwks.json", "/authorize", "/token", "/register", "/revoke")
}

// TestTA06_NoDocumentsByAccident checks that without an authorization server nothing is at the places where clients
// look for one, and that no challenge names one: whether nobody needs a key, or everybody.
func TestTA06_NoDocumentsByAccident(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]config.Access{
		"no configuration": {}, "keys": {LoopbackKeys: true},
		"issuers, but everybody is let in": {Issuers: []config.Issuer{{Issuer: "https://id.example.com", Roles: roles}}},
		"a proxy's assertions alone":       {LoopbackKeys: true, Issuers: []config.Issuer{{Issuer: "https://id.example.com", Roles: roles, Header: "X-Assertion"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshot()
			s.Access = a
			r := serve(t, s)
			paths := wellKnownSpellings()
			if len(paths) < 40 {
				t.Fatalf("%d spellings", len(paths))
			}
			for _, path := range paths {
				for _, method := range []string{"GET", "HEAD", "POST"} {
					got := r.do(t.Context(), method, path, nil)
					if got.status != 404 || got.header.Get("WWW-Authenticate") != "" || got.header.Get("Access-Control-Allow-Origin") != "" {
						t.Errorf("%s %s: %d %v", method, path, got.status, got.header)
					}
				}
				if got := r.do(t.Context(), "GET", path, nil, "Origin", "https://evil.example"); got.status != 403 {
					t.Errorf("%s from a page: %d", path, got.status)
				}
			}
			for _, header := range [][]string{nil, bearer("drgk_x"), bearer("a.b.c"), bearer("opaque"), {"X-API-Key", "x"}, {"X-Assertion", "a.b.c"}} {
				a := r.post("/mcp", initializeBody("2025-11-25", "{}"), header...)
				if strings.Contains(a.header.Get("WWW-Authenticate"), "resource_metadata") {
					t.Errorf("%v: %v", header, a.header)
				}
				if name != "keys" && name != "a proxy's assertions alone" && a.status != 200 && !strings.Contains(fmt.Sprint(header), "drgk_") && len(header) > 0 && header[0] != "X-API-Key" {
					t.Errorf("%v: %d", header, a.status)
				}
			}
		})
	}
}

// TestTA06_Documents checks what a client is told at each endpoint: a document whose resource is, byte for byte, what
// the client has typed, and a challenge that leads to it.
func TestTA06_Documents(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	r := protected(t, p, func(s *config.Snapshot) { s.Access.Issuers[0].Scopes = []string{"api://dragoman/mcp", "x"} })
	for _, path := range []string{"/mcp", "/sse", "/s/a/mcp", "/s/none/sse", "/p/default/mcp", "/p/no-such.project/mcp", "/p/default/s/a/mcp", "/p/x/s/y/sse", ""} {
		doc := readDocument(t, r, "/.well-known/oauth-protected-resource"+path)
		if doc["resource"] != r.base+path || fmt.Sprint(doc["authorization_servers"]) != "["+p.URL+"]" || fmt.Sprint(doc["scopes_supported"]) != "[api://dragoman/mcp x]" ||
			fmt.Sprint(doc["bearer_methods_supported"]) != "[header]" || doc["resource_name"] != "dragoman" {
			t.Errorf("%s: %v", path, doc)
		}
		if path == "" {
			continue
		}
		const scope = `, scope="api://dragoman/mcp x"`
		metadata := `resource_metadata="` + r.base + "/.well-known/oauth-protected-resource" + path + `"` + scope
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if a := r.do(t.Context(), method, path, nil); a.status != 401 || a.header.Get("WWW-Authenticate") != "Bearer "+metadata {
				t.Errorf("%s %s: %d %v", method, path, a.status, a.header)
			}
			a := r.do(t.Context(), method, path, nil, bearer("a.b.c")...)
			if a.status == 429 {
				continue
			}
			if want := `Bearer error="invalid_token", error_description="this access token is malformed, or comes from an issuer that is not accepted here", ` + metadata; a.status != 401 || a.header.Get("WWW-Authenticate") != want {
				t.Errorf("%s %s with a bad token: %d %v", method, path, a.status, a.header)
			}
		}
	}
	if a := r.post("/messages?sessionId=x", "{}"); !strings.Contains(a.header.Get("WWW-Authenticate"), "oauth-protected-resource/sse\"") {
		t.Errorf("messages: %v", a.header)
	}
	for _, path := range wellKnownSpellings() {
		a := r.do(t.Context(), "GET", path, nil)
		is := regexp.MustCompile(`^/(\.|%2e)well(-|%2d)known/oauth-protected-resource(/mcp|/sse|/s/a/mcp|/p/default/mcp|/p/default/s/a/mcp)?$`).MatchString(path)
		if (a.status == 200) != is || !is && (a.status != 404 || a.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
	}
	// Pages of every origin may read the documents, and nothing else.
	for _, method := range []string{"GET", "OPTIONS"} {
		a := r.do(t.Context(), method, "/.well-known/oauth-protected-resource/mcp", nil, "Origin", "https://inspector.example", "Access-Control-Request-Headers", "mcp-protocol-version")
		if a.status/100 != 2 || a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s from a page: %d %v", method, a.status, a.header)
		}
	}
	for _, path := range []string{"/mcp", "/healthz", "/.well-known/oauth-protected-resourceX"} {
		if a := r.do(t.Context(), "GET", path, nil, "Origin", "https://inspector.example"); a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s from a page: %d %v", path, a.status, a.header)
		}
	}
	if a := r.do(t.Context(), "GET", "/.well-known/oauth-protected-resource/mcp", nil, "Host", "evil.example"); a.status != 403 {
		t.Errorf("a foreign Host: %d", a.status)
	}
	// What isn't an endpoint, and what looks like a key, starts no sign-in.
	for _, x := range [][]string{{"/s/a"}, {"/mcp/x"}, {"/metrics"}, {"/mcp", "Authorization", "Bearer drgk_x"}, {"/mcp", "X-API-Key", "a.b.c"}} {
		if a := r.do(t.Context(), "GET", x[0], nil, x[1:]...); a.status != 401 && a.status != 429 || strings.Contains(a.header.Get("WWW-Authenticate"), "resource_metadata") {
			t.Errorf("%v: %d %v", x, a.status, a.header)
		}
	}
}

func readDocument(t *testing.T, r *rig, path string, header ...string) map[string]any {
	t.Helper()
	a := r.do(t.Context(), "GET", path, nil, header...)
	doc := map[string]any{}
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil || a.status != 200 || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d %v %s", path, a.status, err, a.body)
	}
	return doc
}

// TestTA48_NamesOfOneEndpoint asks under each of the three loopback names, and below a public URL with a path. The
// documents, the challenges and the audiences of tokens have what the client has typed.
func TestTA48_NamesOfOneEndpoint(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	r := protected(t, p)
	port := r.base[strings.LastIndexByte(r.base, ':'):]
	names := []string{"localhost" + port, "127.0.0.1" + port, "[::1]" + port}
	for _, name := range names {
		if doc := readDocument(t, r, "/.well-known/oauth-protected-resource/s/a/mcp", "Host", name); doc["resource"] != "http://"+name+"/s/a/mcp" {
			t.Errorf("%s: %v", name, doc)
		}
		a := r.post("/s/a/mcp", "{}", "Host", name)
		if want := `Bearer resource_metadata="http://` + name + `/.well-known/oauth-protected-resource/s/a/mcp"`; a.header.Get("WWW-Authenticate") != want {
			t.Errorf("%s: %v", name, a.header)
		}
		for _, other := range names {
			a := r.post("/s/a/mcp", initializeBody("2025-11-25", "{}"), bearer(p.Token("http://"+name+"/s/a/mcp"), "Host", other)...)
			if (a.status == 200) != (name == other) {
				t.Errorf("a token for %s at %s: %d %s", name, other, a.status, a.body)
			}
		}
	}

	const public = "https://Gateway.example/tools/mcp"
	const root = "https://Gateway.example/tools"
	r = protected(t, p, func(s *config.Snapshot) { s.PublicURL = root })
	for _, path := range []string{
		"/tools/.well-known/oauth-protected-resource/mcp", // where the challenge leads, at a proxy that leaves the path
		"/.well-known/oauth-protected-resource/mcp",       // the same at one that removes it
		"/.well-known/oauth-protected-resource/tools/mcp", // what the proxy has to forward (RFC 9728 §3.1)
	} {
		if doc := readDocument(t, r, path, "Host", "gateway.example", "X-Forwarded-Host", "evil.example"); doc["resource"] != public {
			t.Errorf("%s: %v", path, doc)
		}
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/tools", "/tools/.well-known/oauth-protected-resource"} {
		if doc := readDocument(t, r, path, "Host", "gateway.example"); doc["resource"] != root {
			t.Errorf("%s: %v", path, doc)
		}
	}
	for _, path := range []string{"/tools/mcp", "/mcp"} {
		a := r.post(path, "{}", "Host", "gateway.example")
		if want := `Bearer resource_metadata="` + root + `/.well-known/oauth-protected-resource/mcp"`; a.header.Get("WWW-Authenticate") != want {
			t.Errorf("%s: %v", path, a.header)
		}
		for aud, want := range map[string]int{public: 200, root: 200, "https://gateway.example": 200, "https://gateway.example/mcp": 401, "https://gateway.example/tool": 401, "https://gateway.example/tools/s/a/mcp": 401} {
			if a := r.post(path, initializeBody("2025-11-25", "{}"), bearer(p.Token(aud), "Host", "gateway.example")...); a.status != want {
				t.Errorf("a token for %s at %s: %d %s", aud, path, a.status, a.body)
			}
		}
	}
}

// TestTA09_TM06_ForwardingHeaders sends the headers in which proxies say who and where somebody is, in both spellings.
// They change neither what a document says nor who somebody is.
func TestTA09_TM06_ForwardingHeaders(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	r := protected(t, p, func(s *config.Snapshot) {
		s.Access.Issuers = append(s.Access.Issuers, config.Issuer{Issuer: p.URL, Audience: []string{"api://dragoman"}, Roles: roles, Header: "Cf-Access-Jwt-Assertion"})
	})
	token := p.Token("api://dragoman")
	var spoofed []string
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For", "Forwarded", "X-Forwarded-Prefix", "X-Real-Ip", "X-Original-Url"} {
		spoofed = append(spoofed, name, "evil.example", strings.ReplaceAll(name, "-", "_"), "evil.example")
	}
	for _, name := range []string{"X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-User", "Remote-User", "X-Remote-User", "Cf-Access-Authenticated-User-Email"} {
		spoofed = append(spoofed, name, "admin", strings.ReplaceAll(name, "-", "_"), "admin")
	}
	spoofed = append(spoofed, "Cf_Access_Jwt_Assertion", token, "X-Forwarded-Access-Token", token)
	plain, with := r.post("/mcp", "{}"), r.post("/mcp", "{}", spoofed...)
	if with.status != 401 || with.header.Get("WWW-Authenticate") != plain.header.Get("WWW-Authenticate") || with.body != plain.body {
		t.Errorf("with the headers: %d %v %s", with.status, with.header, with.body)
	}
	if a, b := readDocument(t, r, "/.well-known/oauth-protected-resource/mcp"), readDocument(t, r, "/.well-known/oauth-protected-resource/mcp", spoofed...); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("the document: %v, and with the headers %v", a, b)
	}
	hello := initializeBody("2025-11-25", "{}")
	for name, x := range map[string]struct {
		header []string
		want   int
	}{
		"Connection: Authorization":             {bearer(token, "Connection", "Authorization"), 200},
		"Connection: Authorization, no token":   {[]string{"Connection", "Authorization"}, 401},
		"a proxy's assertion":                   {[]string{"Cf-Access-Jwt-Assertion", token}, 200},
		"a proxy's assertion and a token":       {bearer(token, "Cf-Access-Jwt-Assertion", token), 400},
		"a proxy's assertion and a key":         {[]string{"X-API-Key", "drgk_x", "Cf-Access-Jwt-Assertion", token}, 400},
		"a name in the header of the assertion": {[]string{"Cf-Access-Jwt-Assertion", "admin"}, 401},
		"a foreign assertion":                   {[]string{"Cf-Access-Jwt-Assertion", idptest.New(t).Token("api://dragoman")}, 401},
	} {
		if a := r.post("/mcp", hello, x.header...); a.status != x.want {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// TestTokensOfIssuers lets people in with tokens of a provider, in both eras, and checks what is theirs: sessions by
// person and client, whatever token they have, and what their groups allow. Somebody with a key goes on all the while.
func TestTokensOfIssuers(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	s := snapshot(child(t, "a", "legacy"))
	s.Access = config.Access{LoopbackKeys: true, Issuers: []config.Issuer{{Issuer: p.URL, Audience: []string{"api://dragoman"}, Scopes: []string{"mcp"}, Roles: roles}}}
	r := serve(t, s, func(o *ServeOptions) { o.Database = database })
	key, _ := makeKey(t, deskAt(t, database), access.Wish{Name: "k", Project: "default", Role: identity.Caller})
	soon(t, "the key counts", func() bool { return r.modern("/mcp", "1", "tools/list", "", "", key...).status == 200 })
	ada, bob := p.Token("api://dragoman"), p.Token(r.base+"/mcp", idptest.Claims{"sub": "bob"})

	open := func(who []string) []string {
		a := r.post("/mcp", initializeBody("2025-11-25", "{}"), who...)
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return []string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
	}
	session := open(bearer(ada))
	ping := `{"jsonrpc":"2.0","id":8,"method":"ping"}`
	for name, x := range map[string]struct {
		who  []string
		want int
	}{
		"the same token":            {bearer(ada), 200},
		"a rotated token":           {bearer(p.Token(r.base+"/mcp", idptest.Claims{"jti": "2"})), 200},
		"another client":            {bearer(p.Token("api://dragoman", idptest.Claims{"client_id": "other"})), 404},
		"another person":            {bearer(bob), 404},
		"a key":                     {key, 404},
		"nobody":                    {nil, 401},
		"an expired token":          {bearer(p.Token("api://dragoman", idptest.Claims{"exp": 1000})), 401},
		"a token without the scope": {bearer(p.Token("api://dragoman", idptest.Claims{"scope": "openid"})), 403},
	} {
		if a := r.post("/mcp", ping, append(slices.Clone(session), x.who...)...); a.status != x.want {
			t.Errorf("%s in ada's session: %d %s", name, a.status, a.body)
		}
	}
	if a := r.post("/mcp", ping, bearer(p.Token("api://dragoman", idptest.Claims{"scope": "openid"}))...); a.header.Get("WWW-Authenticate") != `Bearer error="insufficient_scope", error_description="this access token lacks a scope", resource_metadata="`+r.base+`/.well-known/oauth-protected-resource/mcp", scope="mcp"` {
		t.Errorf("without a scope: %v", a.header)
	}
	// A batch of the revision that has them is judged whole, before anything of it runs.
	batch := `[` + ping + `,{"jsonrpc":"2.0","method":"notifications/initialized"}]`
	if a := r.post("/mcp", batch, "MCP-Protocol-Version", "2025-03-26"); a.status != 401 || strings.HasPrefix(a.body, "[") || strings.Contains(a.body, `"id"`) {
		t.Errorf("a batch: %d %s", a.status, a.body)
	}
	for name, who := range map[string][]string{"ada": bearer(ada), "bob": bearer(bob), "a key": key} {
		if a := r.modern("/mcp", "1", "tools/call", "a__echo", `"name":"a__echo","arguments":{"v":1}`, who...); a.status != 200 || !strings.Contains(a.body, `\"v\":1`) {
			t.Errorf("%s calls: %d %s", name, a.status, a.body)
		}
	}
	// Without a mapped group nobody may do anything, and isn't told what is there.
	nobody := bearer(p.Token("api://dragoman", idptest.Claims{"sub": "eve", "groups": []string{"Users", "admin"}}))
	if a, b := r.post("/mcp", ping, nobody...), r.post("/p/nowhere/mcp", ping, nobody...); a.status != 404 || b.status != 404 {
		t.Errorf("without a group: %d %s, %d", a.status, a.body, b.status)
	}
	// The API asks for a role, and a token that is for it; the console wants a session.
	admins := idptest.Claims{"groups": []string{"admins"}, "sub": "root"}
	for name, x := range map[string]struct {
		token string
		want  int
	}{
		"a caller": {ada, 403}, "an admin": {p.Token("api://dragoman", admins), 200}, "an admin's token for the origin": {p.Token(r.base, admins), 200},
		"an admin's token for MCP": {p.Token(r.base+"/mcp", admins), 401}, "a bad token": {"a.b.c", 401},
	} {
		if a := r.do(t.Context(), "GET", "/api/v1/keys", nil, bearer(x.token)...); a.status != x.want && (a.status != 429 || x.token != "a.b.c") {
			t.Errorf("%s at the API: %d %s", name, a.status, a.body)
		}
		if a := r.do(t.Context(), "GET", "/console/", nil, bearer(x.token)...); a.status != 401 {
			t.Errorf("%s at the console: %d", name, a.status)
		}
	}
	// The provider replaces its key.
	p.Rotate()
	if a := r.post("/mcp", ping, append(slices.Clone(session), bearer(ada)...)...); a.status != 200 {
		t.Errorf("a remembered token after the rotation: %d", a.status)
	}
	if n := p.Fetched(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	for _, secret := range []string{ada, bob, strings.SplitN(ada, ".", 3)[2]} {
		if strings.Contains(r.log.String(), secret) {
			t.Error("the log has a token")
		}
	}
}

// TestIssuersLetServeStart checks that serve starts at a network address with nobody but an issuer, and that its
// clients then need a token.
func TestIssuersLetServeStart(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	s := snapshot()
	s.PublicURL = "https://mcp.example.com"
	s.Access.Issuers = []config.Issuer{{Issuer: p.URL, Roles: roles}}
	r := serve(t, s, func(o *ServeOptions) { o.Listen = "0.0.0.0:0" })
	_, port, _ := strings.Cut(r.base, "://0.0.0.0:")
	if port == "" {
		port = r.base[strings.LastIndexByte(r.base, ':')+1:]
	}
	r.base = "http://127.0.0.1:" + port
	for token, want := range map[string]int{"": 401, p.Token("https://mcp.example.com/mcp"): 200, p.Token("https://mcp.example.com"): 200, p.Token(r.base + "/mcp"): 401} {
		var who []string
		if token != "" {
			who = bearer(token)
		}
		if a := r.post("/mcp", initializeBody("2025-11-25", "{}"), who...); a.status != want {
			t.Errorf("%.20s: %d %s", token, a.status, a.body)
		}
	}
	if a := r.do(t.Context(), http.MethodGet, "/.well-known/oauth-protected-resource/mcp", nil, "Host", "mcp.example.com"); a.status != 200 || !strings.Contains(a.body, `"https://mcp.example.com/mcp"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
