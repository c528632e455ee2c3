package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// strict is an MCP server at /mcp with the issuer that protects it. It forgives nothing: a code and a refresh token are
// good once, a second use of either revokes all that came of the first, and resource is required everywhere.
type strict struct {
	*httptest.Server

	mu      sync.Mutex
	now     func() time.Time
	life    time.Duration                    // of a token
	slow    time.Duration                    // before the token endpoint answers
	broken  func(w http.ResponseWriter) bool // answers in place of the token endpoint
	silent  bool                             // doesn't say who it is in answers
	deny    bool
	issuer  string   // another issuer that protects /mcp
	server  string   // another server that this issuer protects
	needs   string   // a scope that /mcp needs
	grants  string   // the scopes that it grants, whatever was asked for
	asked   []string // the scopes of each authorization
	offers  []string
	device  bool
	read    func(id string) []byte // fetches the document of a client
	methods []string               // of authentication; nil means none alone
	clients map[string][]string    // redirect URIs
	codes   map[string]*grant
	access  map[string]*grant
	refresh map[string]*grant
	devices map[string]*grant
	tabs    []string
	keys    map[string]string // where the keys of a client are, by its id
	counts  map[string]int    // by what happened
}

// grant is a consent, and what came of it.
type grant struct {
	client, redirect, challenge, resource, scope, who string
	until                                             time.Time
	used, revoked, approved                           bool
	parent                                            *grant
}

func (g *grant) root() *grant {
	for g.parent != nil {
		g = g.parent
	}
	return g
}

func newStrict(t *testing.T) *strict {
	s := &strict{
		now: time.Now, life: time.Hour, clients: map[string][]string{}, codes: map[string]*grant{}, access: map[string]*grant{},
		refresh: map[string]*grant{}, devices: map[string]*grant{}, counts: map[string]int{}, keys: map[string]string{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.mcp)
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{cmp.Or(s.issuer, s.URL)}, "scopes_supported": s.offers})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		s.count("metadata")
		m := map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token", "registration_endpoint": s.URL + "/register",
			"revocation_endpoint": s.URL + "/revoke", "code_challenge_methods_supported": []string{"S256"}, "response_types_supported": []string{"code"},
			"token_endpoint_auth_methods_supported": append([]string{"none"}, s.methods...), "authorization_response_iss_parameter_supported": !s.silent,
			"client_id_metadata_document_supported": s.read != nil,
		}
		if s.device {
			m["device_authorization_endpoint"] = s.URL + "/device"
		}
		answer(w, 200, m)
	})
	mux.HandleFunc("/register", s.register)
	mux.HandleFunc("/authorize", s.authorize)
	mux.HandleFunc("/device", s.startDevice)
	mux.HandleFunc("/token", s.token)
	mux.HandleFunc("/revoke", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts["revoke "+r.FormValue("token_type_hint")]++
		for _, m := range []map[string]*grant{s.access, s.refresh} {
			if g := m[r.FormValue("token")]; g != nil {
				g.root().revoked = true
			}
		}
	})
	// A process of the test says here that it has opened a tab.
	mux.HandleFunc("/tab", func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tabs = append(s.tabs, r.FormValue("link"))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *strict) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// counted returns how often something happened.
func (s *strict) counted(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[what]
}

func answer(w http.ResponseWriter, status int, x any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(x)
}

func refuse(w http.ResponseWriter, status int, code string) {
	answer(w, status, map[string]string{"error": code})
}

func (s *strict) mcp(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	g := s.access[text]
	where := `Bearer resource_metadata="` + s.URL + `/.well-known/oauth-protected-resource/mcp"`
	switch {
	case g == nil || g.root().revoked || !s.now().Before(g.until):
		s.counts["401"]++
		w.Header().Set("WWW-Authenticate", where)
		w.WriteHeader(401)
	case s.needs != "" && !slices.Contains(strings.Fields(g.scope), s.needs):
		s.counts["403"]++
		w.Header().Set("WWW-Authenticate", where+`, error="insufficient_scope", scope="`+s.needs+`"`)
		w.WriteHeader(403)
	default:
		s.counts["call"]++
		s.counts["call of "+g.who]++
	}
}

func (s *strict) register(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Redirects []string `json:"redirect_uris"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || len(in.Redirects) == 0 {
		refuse(w, 400, "invalid_redirect_uri")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts["register"]++
	id := "client-" + rand.Text()
	s.clients[id] = in.Redirects
	answer(w, 201, map[string]any{"client_id": id, "redirect_uris": in.Redirects, "token_endpoint_auth_method": "none"})
}

// authorize is the page that a person sees: whoever opens it agrees at once.
func (s *strict) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	back := url.Values{"state": {q.Get("state")}}
	s.asked = append(s.asked, q.Get("scope"))
	if !s.silent {
		back.Set("iss", s.URL)
	}
	if s.read != nil && strings.HasPrefix(q.Get("client_id"), "https:") {
		s.learn(q.Get("client_id"))
	}
	switch {
	case !slices.Contains(s.clients[q.Get("client_id")], q.Get("redirect_uri")):
		http.Error(w, "unknown client or redirect", 400)
		return
	case q.Get("resource") != cmp.Or(s.server, s.URL)+"/mcp" || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" || len(q.Get("state")) < 43:
		back.Set("error", "invalid_request")
	case s.deny:
		back.Set("error", "access_denied")
	default:
		code := "code-" + rand.Text()
		s.codes[code] = &grant{
			client: q.Get("client_id"), redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), resource: q.Get("resource"),
			scope: q.Get("scope"), who: q.Get("who"), until: s.now().Add(time.Minute),
		}
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// learn reads the document of a client. The caller holds s.mu.
func (s *strict) learn(id string) {
	var m struct {
		ID        string   `json:"client_id"`
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
		Keys      string   `json:"jwks_uri"`
	}
	if json.Unmarshal(s.read(id), &m) != nil || m.ID != id {
		return
	}
	s.counts["document "+m.Method]++
	s.clients[id] = m.Redirects
	if m.Method == "private_key_jwt" {
		s.keys[id] = m.Keys
	}
}

// client returns who sends a request: whoever the form names, or has signed the assertion in it (RFC 7523 §3). It returns ""
// if that isn't proved. The caller holds s.mu.
func (s *strict) client(r *http.Request) string {
	text := r.FormValue("client_assertion")
	if id := r.FormValue("client_id"); text == "" && s.keys[id] == "" {
		return id
	}
	var said, proved jwt.Claims
	var set jose.JSONWebKeySet
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || token.UnsafeClaimsWithoutVerification(&said) != nil || json.Unmarshal(s.read(s.keys[said.Subject]), &set) != nil {
		return ""
	}
	want := jwt.Expected{Issuer: said.Subject, AnyAudience: jwt.Audience{s.URL}, Time: s.now()}
	if token.Claims(&set, &proved) != nil || proved.Validate(want) != nil || proved.Subject != said.Subject {
		return ""
	}
	s.counts["proof"]++
	return proved.Subject
}

func (s *strict) startDevice(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := "device-" + rand.Text()
	s.devices[code] = &grant{client: r.FormValue("client_id"), resource: r.FormValue("resource"), scope: r.FormValue("scope"), until: s.now().Add(time.Minute)}
	answer(w, 200, map[string]any{"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": s.URL + "/activate", "expires_in": 60, "interval": 1})
}

func (s *strict) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	slow, broken := s.slow, s.broken
	s.mu.Unlock()
	time.Sleep(slow)
	if broken != nil && broken(w) {
		s.count("broken")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := r.FormValue("grant_type")
	s.counts[kind]++
	var g *grant
	code := "invalid_grant"
	switch kind {
	case "authorization_code":
		g = s.codes[r.FormValue("code")]
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if g != nil && (g.redirect != r.FormValue("redirect_uri") || g.challenge != base64.RawURLEncoding.EncodeToString(sum[:])) {
			g = nil
		}
	case "refresh_token":
		g = s.refresh[r.FormValue("refresh_token")]
	case "urn:ietf:params:oauth:grant-type:device_code":
		if g = s.devices[r.FormValue("device_code")]; g != nil && !g.approved {
			refuse(w, 400, "authorization_pending")
			return
		}
	}
	client := s.client(r)
	if _, known := s.clients[client]; !known {
		refuse(w, 401, "invalid_client")
		return
	}
	switch {
	case g == nil || g.root().revoked || g.client != client || kind != "refresh_token" && !s.now().Before(g.until):
	case g.used:
		g.root().revoked = true // a replay
	case r.FormValue("resource") != g.resource:
		code = "invalid_target"
	default:
		g.used = true
		s.issue(w, g)
		return
	}
	s.counts[code]++
	refuse(w, 400, code)
}

// issue gives tokens for a grant.
func (s *strict) issue(w http.ResponseWriter, g *grant) {
	next := *g
	next.parent, next.used, next.until, next.scope = g, false, s.now().Add(s.life), cmp.Or(s.grants, g.scope)
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	s.access[access] = &next
	again := next
	s.refresh[refresh] = &again
	answer(w, 200, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(s.life.Seconds()), "refresh_token": refresh, "scope": next.scope})
}

// consent opens a link as a browser does, for somebody, and returns where the issuer sends the browser.
func (s *strict) consent(ctx context.Context, link, who string) (back string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link+"&who="+url.QueryEscape(who), nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		return "", fmt.Errorf("the issuer's page has the status %d", resp.StatusCode)
	}
	return resp.Header.Get("Location"), nil
}

// visit opens a link for somebody and follows it to its end. As long as nobody listens at the callback, it loads the
// page again. It returns the status of the last page, and how long nobody was there.
func (s *strict) visit(ctx context.Context, link, who string) (status int, away time.Duration, err error) {
	back, err := s.consent(ctx, link, who)
	for began := time.Now(); err == nil; {
		var req *http.Request
		if req, err = http.NewRequestWithContext(ctx, http.MethodGet, back, nil); err != nil {
			break
		}
		resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
			return resp.StatusCode, away, nil
		}
		if away = time.Since(began); away > 30*time.Second || ctx.Err() != nil {
			return 0, away, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return 0, away, err
}

// call sends a request to the server as httplink does: it's signed, and after a refusal it's signed and sent again.
func call(ctx context.Context, s *Server, scope, to string) (status int, err error) {
	for range 3 {
		h, generation, err := s.Sign(ctx, scope, http.MethodPost, to)
		if err != nil {
			return 0, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, nil)
		if err != nil {
			return 0, err
		}
		for _, f := range h {
			req.Header.Set(f.Name, f.Value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		_ = resp.Body.Close()
		status = resp.StatusCode
		if status != http.StatusUnauthorized && status != http.StatusForbidden {
			return status, nil
		}
		again, err := s.Refused(ctx, scope, generation, resp.Header.Values("WWW-Authenticate"))
		if err != nil || !again {
			return status, err
		}
	}
	return status, nil
}

// needed returns the error as a *Needed.
func needed(t *testing.T, err error) *Needed {
	t.Helper()
	var n *Needed
	if !errors.As(err, &n) {
		t.Fatalf("no sign-in is needed: %v", err)
	}
	return n
}
