package issuers

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
)

// TestIDTokens comes back from a provider with ID tokens that count, and with those that don't.
func TestIDTokens(t *testing.T) {
	p := newIDP()
	l := NewLogin(Provider{Issuer: issuerURL, Client: Client{"dragoman", secret.New("x")}, RolesClaim: "groups", Roles: map[string][]Grant{"staff": {{"default", identity.Viewer}}}}, Options{
		Reach: func(context.Context, string) (oauth.Doer, error) { return p, nil },
		Find:  func(context.Context, oauth.Doer, string) (*oauth.Issuer, error) { return &p.metadata, nil },
	})
	defer l.Close()
	now := time.Now().Unix()
	es := func(c object) string { return signed("p256", "ES256", c, object{"typ": "JWT"}) }
	for _, row := range []struct {
		name   string
		change object
		token  string // "" for one with the claims
		want   error
	}{
		{"good", nil, "", nil},
		{"two audiences", object{"aud": []string{"dragoman", "x"}, "azp": "dragoman"}, "", nil},
		{"another client's", object{"aud": "x"}, "", ErrProvider},
		{"issued to another client", object{"aud": []string{"dragoman", "x"}, "azp": "x"}, "", ErrProvider},
		{"another issuer's", object{"iss": "https://evil.example"}, "", ErrProvider},
		{"another nonce", object{"nonce": "x"}, "", ErrProvider},
		{"no nonce", object{"nonce": ""}, "", ErrProvider},
		{"no subject", object{"sub": ""}, "", ErrProvider},
		{"expired 30 s ago", object{"exp": now - 30}, "", nil},
		{"expired 2 hours ago", object{"exp": now - 7200}, "", ErrClock},
		{"made in 2 hours", object{"iat": now + 7200}, "", ErrClock},
		{"valid in 2 hours", object{"nbf": now + 7200}, "", ErrClock},
		{"without an end", object{"exp": nil}, "", ErrProvider},
		{"an audience that contains ours", object{"aud": "dragoman2"}, "", ErrProvider},
		{"an audience of a number", object{"aud": 7}, "", ErrProvider},
		{"an unknown key", nil, "strange", ErrProvider},
		{"a key of another kind", nil, "rsa", ErrProvider},
		{"two parts", nil, "e30.e30", ErrProvider},
		{"no algorithm", nil, "eyJhbGciOiJub25lIn0.e30.", ErrProvider},
		{"no token", nil, "none", ErrProvider},
	} {
		page, flow, err := l.Begin(t.Context(), "https://mcp.example.com/login/callback")
		if err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(page)
		if q := u.Query(); q.Get("nonce") != flow.Nonce || q.Get("state") != flow.State || q.Get("scope") != "openid profile" || q.Get("code_challenge_method") != "S256" || q.Has("resource") {
			t.Errorf("the browser goes to %s", page)
		}
		c := object{"iss": issuerURL, "aud": "dragoman", "sub": "ada", "name": "Ada", "exp": now + 300, "iat": now, "nonce": flow.Nonce, "groups": []string{"staff"}}
		for k, v := range row.change {
			c[k] = v
		}
		switch p.idToken = es(c); row.token {
		case "strange":
			p.idToken = signed("strange", "ES256", c, object{"kid": "p256"})
		case "rsa":
			p.idToken = signed("p256", "RS256", c, object{"kid": "rsa"})
		case "none":
			p.idToken = ""
		case "":
		default:
			p.idToken = row.token
		}
		q := url.Values{"code": {"x"}, "state": {flow.State}}
		who, err := l.Finish(t.Context(), flow, "https://mcp.example.com/login/callback", q)
		if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
		if err == nil && (who.ID != personID(issuerURL, "ada") || len(who.Roles["default"]) != 1) || err != nil && who.ID != "" {
			t.Errorf("%s: %+v", row.name, who)
		}
		flow.Until = time.Now()
		if _, err := l.Finish(t.Context(), flow, "https://mcp.example.com/login/callback", q); !errors.Is(err, ErrNotBegun) {
			t.Errorf("after ten minutes: %v", err)
		}
	}
}

// TestLoginSteps lets a provider fail at each step, and checks that people hear at which one.
func TestLoginSteps(t *testing.T) {
	for step, want := range map[string]string{
		"metadata": "doesn't answer with its metadata", "token": "doesn't answer with a token", "keys": "doesn't answer with its keys",
		"nonce": "has sent an answer that can't be used",
	} {
		p := newIDP()
		now := time.Now().Unix()
		c := object{"iss": issuerURL, "aud": "dragoman", "sub": "ada", "exp": now + 300, "iat": now, "nonce": "another"}
		p.idToken = signed("p256", "ES256", c, object{"typ": "JWT"})
		l := NewLogin(Provider{Issuer: issuerURL, Client: Client{"dragoman", secret.New("x")}}, Options{
			Reach: func(context.Context, string) (oauth.Doer, error) {
				return doer(func(ctx context.Context, r *http.Request) (*oauth.Answer, error) {
					if step == "token" && r.Method == http.MethodPost || step == "keys" && r.Method == http.MethodGet {
						return nil, errors.New("down")
					}
					return p.Do(ctx, r)
				}), nil
			},
			Find: func(context.Context, oauth.Doer, string) (*oauth.Issuer, error) {
				if step == "metadata" {
					return nil, errors.New("down")
				}
				return &p.metadata, nil
			},
		})
		_, flow, err := l.Begin(t.Context(), "https://mcp.example.com/login/callback")
		if err == nil {
			_, err = l.Finish(t.Context(), flow, "https://mcp.example.com/login/callback", url.Values{"code": {"x"}, "state": {flow.State}})
		}
		if l.Close(); err == nil || Step(err) != want {
			t.Errorf("%s: %v, %q", step, err, Step(err))
		}
	}
}

// doer is an oauth.Doer.
type doer func(context.Context, *http.Request) (*oauth.Answer, error)

func (d doer) Do(ctx context.Context, r *http.Request) (*oauth.Answer, error) { return d(ctx, r) }

// TestManyLogins begins many sign-ins at a provider that takes its time and then fails, and at one that answers: nobody
// waits for more than one attempt, and what is known isn't asked again. Strangers can begin as many as they like.
func TestManyLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, down := newIDP(), true
		var reached, found atomic.Int32
		l := NewLogin(Provider{Issuer: issuerURL, Client: Client{"dragoman", secret.New("x")}}, Options{
			Reach: func(context.Context, string) (oauth.Doer, error) { reached.Add(1); return p, nil },
			Find: func(context.Context, oauth.Doer, string) (*oauth.Issuer, error) {
				found.Add(1)
				if time.Sleep(10 * time.Second); down {
					return nil, errors.New("down")
				}
				return &p.metadata, nil
			},
		})
		defer l.Close()
		const many = 50
		all := func(want bool, most time.Duration) {
			t.Helper()
			var group sync.WaitGroup
			began := time.Now()
			for range many {
				group.Go(func() {
					if _, _, err := l.Begin(t.Context(), "https://mcp.example.com/login/callback"); (err == nil) != want {
						t.Errorf("begun: %v", err)
					}
				})
			}
			if group.Wait(); time.Since(began) > most {
				t.Errorf("somebody has waited for %s", time.Since(began))
			}
		}
		all(false, 10*time.Second)
		down = false
		time.Sleep(firstAgain)
		all(true, 10*time.Second)
		all(true, 0)
		if reached.Load() != 2 || found.Load() != 2 {
			t.Errorf("the provider was reached %d times, and its metadata were read %d times", reached.Load(), found.Load())
		}
	})
}
