package access

import (
	"context"
	"net/http"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// someTokens knows one token.
type someTokens struct {
	text string
	who  *identity.Principal
	seen *httpdoor.Target
}

func (s *someTokens) Principal(_ context.Context, header, text string, at httpdoor.Target) (*identity.Principal, error) {
	*s.seen = at
	if text != s.text {
		return nil, &httpdoor.Denied{Code: "invalid_token", Reason: "no", Guessed: text == "guessed", Usual: text == "expired"}
	}
	return s.who, nil
}

func (s *someTokens) Roles(who *identity.Principal, project string) []identity.Role {
	if who != s.who || project != "default" {
		return nil
	}
	return []identity.Role{identity.Caller}
}

// TestTokens checks which of several kinds of tokens is asked, and what the gate makes of the answer.
func TestTokens(t *testing.T) {
	r := newRig(false)
	var seen httpdoor.Target
	own := &someTokens{"drga_1", &identity.Principal{Subject: "p:own", Seat: "own", Via: "token"}, &seen}
	others := &someTokens{"other", &identity.Principal{Subject: "p:other", Seat: "other", Via: "token"}, &seen}
	r.gate.Accept("drga_", own)
	r.gate.Accept("", others, "X-Assertion")
	res := NewResources("https://mcp.example.com/tools", "dragoman")
	res.UseOwn("mcp")
	res.UseIssuers([]string{"https://id.example.com"}, []string{"x"})
	r.gate.Protect(res)
	const metadata = `resource_metadata="https://mcp.example.com/tools/.well-known/oauth-protected-resource/p/a/s/b/sse", scope="mcp"`
	for name, x := range map[string]struct {
		header    []string
		who       *identity.Principal
		status    int
		challenge string
	}{
		"ours":                    {[]string{"Authorization", "Bearer drga_1"}, own.who, 200, ""},
		"ours, unknown":           {[]string{"Authorization", "Bearer drga_2"}, nil, 401, `Bearer error="invalid_token", error_description="no", ` + metadata},
		"another's":               {[]string{"Authorization", "Bearer other"}, others.who, 200, ""},
		"an assertion":            {[]string{"X-Assertion", "other"}, others.who, 200, ""},
		"ours as an assertion":    {[]string{"X-Assertion", "drga_1"}, nil, 401, `Bearer error="invalid_token", error_description="no", ` + metadata},
		"a token in X-API-Key":    {[]string{"X-API-Key", "other"}, nil, 401, challengeWrong},
		"a key":                   {[]string{"Authorization", "Bearer " + r.good}, nil, 200, ""},
		"a wrong key":             {[]string{"Authorization", "Bearer " + r.foreign}, nil, 401, challengeWrong},
		"a key as an assertion":   {[]string{"X-Assertion", r.foreign}, nil, 401, challengeWrong},
		"nothing":                 {nil, nil, 401, "Bearer " + metadata},
		"two":                     {[]string{"Authorization", "Bearer other", "X-Assertion", "other"}, nil, 400, ""},
		"two assertions":          {[]string{"X-Assertion", "other", "X-Assertion", "other"}, nil, 400, ""},
		"Basic and nothing else":  {[]string{"Authorization", "Basic eDp5"}, nil, 401, "Bearer " + metadata},
		"an assertion of nothing": {[]string{"X-Assertion", ""}, nil, 401, "Bearer " + metadata},
	} {
		who, err := r.gate.Principal(request("/p/a/s/b/messages", x.header...))
		challenge := ""
		if d, ok := err.(*httpdoor.Denied); ok {
			challenge = d.Challenge
		}
		if status(err) != x.status || x.who != nil && who != x.who || challenge != x.challenge {
			t.Errorf("%s: %v, %v, %s", name, who, err, challenge)
		}
	}
	if seen.Path() != "/p/a/s/b/sse" || seen.Base() != "https://mcp.example.com/tools" {
		t.Errorf("the target is %+v", seen)
	}
	for _, project := range []string{"default", "shop"} {
		if _, ok := r.gate.Reach(others.who, project); ok != (project == "default") || (len(r.gate.Roles(own.who, project)) == 1) != ok {
			t.Errorf("in %s: %t", project, ok)
		}
	}
	stranger := &identity.Principal{Subject: "p:other", Seat: "other", Via: "token"}
	if _, ok := r.gate.Reach(stranger, "default"); ok {
		t.Error("somebody whom no token has named reaches a project")
	}
	for range 20 {
		_, _ = r.gate.Principal(request("/mcp", "Authorization", "Bearer expired"))
	}
	if _, err := r.gate.Principal(request("/mcp", "Authorization", "Bearer expired")); status(err) != http.StatusUnauthorized {
		t.Errorf("after many tokens that have expired: %v", err) // or clients would never sign in again
	}
	for range 20 {
		_, _ = r.gate.Principal(request("/mcp", "Authorization", "Bearer guessed"))
	}
	if _, err := r.gate.Principal(request("/mcp", "Authorization", "Bearer guessed")); status(err) != http.StatusTooManyRequests {
		t.Errorf("after many guesses: %v", err)
	}
	good := request("/p/a/mcp", "Authorization", "Bearer other")
	if n := testing.AllocsPerRun(100, func() { _, _ = r.gate.Principal(good) }); n != 0 {
		t.Errorf("a request with a token allocates %v times at the gate", n)
	}
}

// TestWrongTokensAreTold checks that refused tokens are told of as refused keys are, with the reason and nothing of the
// token, but not those that have only expired, and those of one address only until it has sent too many.
func TestWrongTokensAreTold(t *testing.T) {
	r := newRig(false)
	r.gate.Accept("", &someTokens{"other", &identity.Principal{Subject: "p:other", Seat: "other", Via: "token"}, new(httpdoor.Target)})
	told := map[string]int{}
	r.gate.Tell(func(_ *http.Request, why string, who *identity.Principal) {
		if told[why]++; who != nil {
			t.Errorf("%s: of %+v", why, who)
		}
	})
	for _, token := range []string{"other", "expired", "of-another-audience", "guessed", r.foreign} {
		_, _ = r.gate.Principal(request("/mcp", "Authorization", "Bearer "+token))
	}
	if told["a wrong token: no"] != 2 || told["a wrong credential"] != 1 || len(told) != 2 {
		t.Errorf("%v", told)
	}
	for range 100 {
		_, _ = r.gate.Principal(request("/mcp", "Authorization", "Bearer guessed"))
		_, _ = r.gate.Principal(request("/mcp", "Authorization", "Bearer of-another-audience"))
	}
	if n := told["a wrong token: no"]; n > 2*triesPerMinute {
		t.Errorf("one address has %d lines", n)
	}
}

// TestDocumentsAreOff checks that resources without anybody to sign in at have neither documents nor challenges.
func TestDocumentsAreOff(t *testing.T) {
	r := NewResources("https://mcp.example.com", "dragoman")
	r.UseIssuers(nil, []string{"x"})
	for _, x := range []*Resources{r, nil} {
		if x.On() || x.Challenge(request("/mcp"), "", "", nil) != "" || x.IsDocument(wellKnown) {
			t.Error("OAuth is on")
		}
	}
}
