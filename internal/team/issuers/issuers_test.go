package issuers

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestWhoseATokenIs checks subjects, seats and roles: a rotated token is the same seat, another client another one,
// and another person or another issuer another subject.
func TestWhoseATokenIs(t *testing.T) {
	s := setOf(t, newIDP())
	whose := func(more object) *identity.Principal {
		who, err := s.Principal(t.Context(), "Authorization", signed("p256", "ES256", good(more), nil), at("/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		return who
	}
	first, again := whose(nil), whose(object{"jti": "2"})
	if first == again || first.Subject != again.Subject || first.Seat != again.Seat || first.Via != "token" || first.Until.IsZero() {
		t.Errorf("a rotated token: %+v, %+v", first, again)
	}
	if x := whose(object{"client_id": "codex"}); x.Subject != first.Subject || x.Seat == first.Seat {
		t.Errorf("another client: %+v", x)
	}
	if x := whose(object{"sub": "adac", "client_id": "laude"}); x.Subject == first.Subject || x.Seat == first.Seat {
		t.Errorf("another person: %+v", x)
	}
	if first.Subject != "p:"+personID(issuerURL, "ada") || personID(issuerURL, "ada") == personID(issuerURL+"a", "da") {
		t.Errorf("the subject is %s", first.Subject)
	}
	if strings.Contains(first.Seat+first.Subject, "ada") {
		t.Errorf("the issuer's name of the person is in %+v", first)
	}
	for name, want := range map[string]string{"Ada L.": "Ada L.", "\u202eada": "", strings.Repeat("x", 65): ""} {
		if x := whose(object{"name": name}); x.Name != want {
			t.Errorf("%q is called %q", name, x.Name)
		}
	}

	roles := func(more object, project string) []identity.Role { return s.Roles(whose(more), project) }
	later := func(n int64) int64 { return time.Now().Unix() + n }
	for name, x := range map[string]struct {
		claims  object
		project string
		want    []identity.Role
	}{
		"a mapped group":      {object{"sub": "1"}, "default", []identity.Role{identity.Caller}},
		"another project":     {object{"sub": "2"}, "shop", nil},
		"two groups":          {object{"sub": "3", "groups": []string{"users", "x", "admins"}}, "default", []identity.Role{identity.Caller, identity.Admin}},
		"a role in a project": {object{"sub": "4", "groups": "admins"}, "shop", []identity.Role{identity.Viewer}},
		"no group":            {object{"sub": "5", "groups": nil}, "default", nil},
		"unmapped groups":     {object{"sub": "6", "groups": []string{"Users", "admin"}}, "default", nil},
		"groups of a number":  {object{"sub": "7", "groups": []any{"users", 7}}, "default", nil},
	} {
		if got := roles(x.claims, x.project); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
	old := whose(object{"sub": "8", "iat": later(-30), "groups": []string{"admins"}})
	whose(object{"sub": "8", "iat": later(-20), "groups": []string{}})
	if got := s.Roles(old, "default"); got != nil {
		t.Errorf("after a newer token without groups, the seat has %v", got)
	}
	whose(object{"sub": "8", "iat": later(-30), "groups": []string{"admins"}, "jti": "x"})
	if got := s.Roles(old, "default"); got != nil {
		t.Errorf("an older token brings back %v", got)
	}
	if got := s.Roles(&identity.Principal{Seat: "t:unknown", Via: "token"}, "default"); got != nil {
		t.Errorf("an unknown seat has %v", got)
	}
}

// TestTA04_RolesOfARefusedToken shows newer tokens of the same person and client that aren't for us, as another service
// of the issuer has them: they neither give the seat roles nor take any from it.
func TestTA04_RolesOfARefusedToken(t *testing.T) {
	s := setOf(t, newIDP(), func(x *Issuer) { x.Scopes = []string{"mcp"} })
	now := time.Now().Unix()
	token := func(more object) string {
		return signed("p256", "ES256", good(object{"scope": "mcp", "iat": now - 30}, more), nil)
	}
	who, err := s.Principal(t.Context(), "Authorization", token(nil), at("/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	has := func(when string, want ...identity.Role) {
		t.Helper()
		if got := s.Roles(who, "default"); !slices.Equal(got, want) {
			t.Errorf("%s, the seat has %v, want %v", when, got, want)
		}
	}
	has("at first", identity.Caller)
	for name, more := range map[string]object{
		"for another service, with the group of admins": {"aud": "https://other.example/mcp", "iat": now, "groups": "admins"},
		"for another service, without groups":           {"aud": "https://other.example/mcp", "iat": now, "groups": nil},
		"for another endpoint":                          {"aud": "https://mcp.example.com/s/git/mcp", "iat": now, "groups": "admins"},
		"without the scope":                             {"scope": "other", "iat": now, "groups": "admins"},
	} {
		if judged(t, s, token(more), "/mcp") == "" {
			t.Errorf("a token %s lets somebody in", name)
		}
		has("after a token "+name, identity.Caller)
	}
	if why := judged(t, s, token(object{"aud": "https://mcp.example.com/s/git/mcp", "iat": now, "groups": "admins"}), "/s/git/mcp"); why != "" {
		t.Error(why)
	}
	has("after the same token at its endpoint", identity.Admin)
}

// TestNestedClaim finds roles below a claim, as Keycloak has them, and in one whose name has a dot.
func TestNestedClaim(t *testing.T) {
	for name, more := range map[string]object{
		"realm_access.roles":      {"realm_access": object{"roles": []string{"users"}}},
		"https://x.example/roles": {"https://x.example/roles": "users"},
	} {
		s := setOf(t, newIDP(), func(x *Issuer) { x.RolesClaim = name })
		who, err := s.Principal(t.Context(), "Authorization", signed("p256", "ES256", good(more), nil), at("/mcp"))
		if err != nil || len(s.Roles(who, "default")) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpaqueTokens asks an issuer about tokens that are no JWTs: once for all who wait, again after a minute, and
// by the rules for JWTs.
func TestOpaqueTokens(t *testing.T) {
	pairs()
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		s := setOf(t, p, withClient)
		defer s.Close()
		say := func(token string, more object) {
			p.set(func() { p.opaque[token] = good(object{"active": true}, more) })
		}
		say("ada's", nil)
		say("bound", object{"cnf": object{"x5t#S256": "x"}})
		say("dpop", object{"token_type": "DPoP"})
		say("elsewhere", object{"aud": "https://evil.example"})
		say("foreign", object{"iss": "https://evil.example"})
		say("nobody's", object{"sub": ""})
		say("expired", object{"exp": time.Now().Add(-time.Hour).Unix()})
		say("revoked", object{"active": false})
		say("odd", object{"active": "true"})
		say("with no iss and exp", object{"iss": nil, "exp": nil})
		p.set(func() { delete(p.opaque["with no iss and exp"], "iss"); delete(p.opaque["with no iss and exp"], "exp") })
		for token, want := range map[string]string{
			"ada's": "", "bound": errBound.Reason, "dpop": errBound.Reason, "elsewhere": errAudience.Reason, "foreign": errMalformed.Reason,
			"nobody's": errNobody.Reason, "expired": errExpired.Reason, "revoked": errInactive.Reason, "unknown": errInactive.Reason,
			"odd": errWeather.Reason, "line\nbreak": errMalformed.Reason, "": errMalformed.Reason,
		} {
			if got := judged(t, s, strings.ReplaceAll(token, " ", "-"), "/mcp"); got != want && token != "ada's" {
				t.Errorf("%s: %q, want %q", token, got, want)
			}
		}
		before := p.asked
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got := judged(t, s, "ada's", "/mcp"); got != "" {
					t.Error(got)
				}
			})
		}
		all.Wait()
		if n := p.asked - before; n > 1 {
			t.Errorf("asked %d times about one token", n)
		}
		say("ada's", object{"active": false})
		time.Sleep(askAgain - time.Second)
		p.set(func() { p.down = true })
		if got := judged(t, s, "ada's", "/mcp"); got != "" {
			t.Errorf("within a minute: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := judged(t, s, "ada's", "/mcp"); got != errWeather.Reason {
			t.Errorf("while the issuer is down: %q", got)
		}
		p.set(func() { p.down = false })
		if got := judged(t, s, "ada's", "/mcp"); got != errInactive.Reason {
			t.Errorf("after it was revoked: %q", got)
		}
		if unasked := setOf(t, p); judged(t, unasked, "ada's", "/mcp") != errMalformed.Reason {
			t.Error("an issuer is asked that the configuration doesn't let us ask")
		}
	})
}

// TestTA05_OpaqueFlood lets strangers show texts that nobody knows, as fast as they can, while an issuer doesn't answer. Whoever
// has been let in before is asked about beside them, and their number in memory is bounded.
func TestTA05_OpaqueFlood(t *testing.T) {
	pairs()
	synctest.Test(t, func(t *testing.T) {
		p := newIDP()
		s := setOf(t, p, withClient)
		defer s.Close()
		p.set(func() { p.opaque["ada's"] = good(object{"active": true, "exp": time.Now().Add(time.Hour).Unix()}) })
		if why := judged(t, s, "ada's", "/mcp"); why != "" {
			t.Fatal(why)
		}
		time.Sleep(askAgain + time.Second)
		hold := make(chan struct{})
		p.set(func() { p.hold = hold })
		var strangers sync.WaitGroup
		for i := range 2 * mostWaiting {
			strangers.Go(func() {
				if judged(t, s, fmt.Sprint("guess-", i), "/mcp") == "" {
					t.Error("a guess lets somebody in")
				}
			})
		}
		synctest.Wait()
		a := s.all[0].asks
		if a.mu.Lock(); len(a.all) != mostWaiting {
			t.Errorf("%d questions wait", len(a.all))
		}
		a.mu.Unlock()
		p.set(func() { p.hold = nil }) // for requests that come now: those before stay with the issuer
		began := time.Now()
		if why := judged(t, s, "ada's", "/mcp"); why != "" || time.Since(began) > 0 {
			t.Errorf("Ada is told %q after %s", why, time.Since(began))
		}
		strangers.Wait()
	})
}

// TestRememberedIsBounded remembers more tokens than there is room for.
func TestRememberedIsBounded(t *testing.T) {
	m, s := remembered{all: map[sum]*bearer{}}, seats{all: map[string]*bearer{}}
	for i := range 3 * mostTokens {
		b := &bearer{until: time.Now().Add(time.Hour)}
		b.who.Seat, b.who.Until = fmt.Sprint(i), b.until
		m.put(sumOf(fmt.Sprint(i)), b)
		s.put(b)
		if got, old := m.get(sumOf(fmt.Sprint(i)), time.Now()); got != b || old || s.get(b.who.Seat) != b {
			t.Fatalf("the token %d isn't remembered", i)
		}
	}
	if len(m.all) > mostTokens || len(s.all) > mostTokens || len(m.all) < mostTokens/2 {
		t.Errorf("%d tokens, %d seats", len(m.all), len(s.all))
	}
}

// BenchmarkRemembered measures a request with a token that is remembered. The goal is 2 µs, without an allocation.
func BenchmarkRemembered(b *testing.B) {
	s := setOf(b, newIDP())
	token, target := signed("rsa", "RS256", good(object{"x": strings.Repeat("x", 300)}), nil), at("/mcp")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Principal(b.Context(), "Authorization", token, target); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRememberedAllocatesNothing holds the budget of BenchmarkRemembered.
func TestRememberedAllocatesNothing(t *testing.T) {
	s := setOf(t, newIDP())
	token, target, ctx := signed("rsa", "RS256", good(), nil), at("/mcp"), t.Context()
	ask := func() {
		if _, err := s.Principal(ctx, "Authorization", token, target); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	if n := testing.AllocsPerRun(100, ask); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
