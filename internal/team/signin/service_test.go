package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// machine is an MCP server at /mcp, with an authorization server that gives tokens to machines, and with the provider of
// an organisation at /idp.
type machine struct {
	*httptest.Server

	mu     sync.Mutex
	life   int
	refuse string // the error of the token endpoint; "" for none
	broken bool   // the token endpoint answers with a page
	deaf   bool   // the server takes no token
	wants  string // a scope that it wants in addition
	asked  []string
}

func newMachine(t *testing.T) *machine {
	m := &machine{life: 3600}
	token := func(w http.ResponseWriter, r *http.Request, kind, more string) {
		_ = r.ParseForm()
		id, hidden, _ := r.BasicAuth()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked = append(m.asked, strings.TrimPrefix(r.PostFormValue("grant_type"), "urn:ietf:params:oauth:grant-type:")+" "+id+r.PostFormValue("client_id")+" "+hidden+" "+
			r.PostFormValue("assertion")+r.PostFormValue("subject_token")+" "+r.PostFormValue("resource")+" "+r.PostFormValue("scope"))
		switch {
		case m.broken:
			http.Error(w, "<html>", http.StatusBadGateway)
		case m.refuse != "":
			answer(w, 400, map[string]any{"error": m.refuse})
		default:
			answer(w, 200, map[string]any{"access_token": fmt.Sprint("T", len(m.asked)), "token_type": kind, "expires_in": m.life, "issued_token_type": oauth.TypeAccess[:len(oauth.TypeAccess)-len("access_token")] + more})
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case m.deaf || r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", `Bearer scope="a", resource_metadata="`+m.URL+`/.well-known/oauth-protected-resource/mcp"`)
			w.WriteHeader(http.StatusUnauthorized)
		case m.wants != "":
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+m.wants+`"`)
			w.WriteHeader(http.StatusForbidden)
		}
	})
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"resource": m.URL + "/mcp", "authorization_servers": []string{m.URL}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"issuer": m.URL, "token_endpoint": m.URL + "/token", "scopes_supported": []string{"offline_access"}})
	})
	mux.HandleFunc("/idp/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, map[string]any{"issuer": m.URL + "/idp", "token_endpoint": m.URL + "/idp/token"})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) { token(w, r, "Bearer", "access_token") })
	mux.HandleFunc("/idp/token", func(w http.ResponseWriter, r *http.Request) { token(w, r, "N_A", "id-jag") })
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

// requests returns what the token endpoints were asked for, and forgets it.
func (m *machine) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.asked
	m.asked = nil
	return all
}

func (m *machine) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// use returns a Server with settings, and a function that makes one call.
func (m *machine) use(t *testing.T, settings Settings) (*Server, func() (int, error)) {
	d := New(Options{
		Open:   func(context.Context) (*store.Safe, error) { return nil, errors.New("nobody needs a store") },
		Egress: egress.New(egress.Options{}),
	})
	t.Cleanup(d.Close)
	s, err := d.Server("default", "srv", m.URL+"/mcp", settings)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() (int, error) { return call(t.Context(), s, "", m.URL+"/mcp") }
}

// TestServices has each way to a token without a person: what the issuer is asked, and that no store is needed.
func TestServices(t *testing.T) {
	m := newMachine(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("ASSERTION\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := " " + m.URL + "/mcp"
	for how, c := range map[How]struct {
		settings Settings
		want     []string
	}{
		ClientOnly: {Settings{ClientID: "me", ClientSecret: secret.New("hidden")}, []string{"client_credentials me hidden " + r + " a"}},
		Workload:   {Settings{ClientID: "me", Assertion: file, Scopes: []string{"b", "c"}}, []string{"jwt-bearer me  ASSERTION" + r + " b c"}},
		Exchanged:  {Settings{Assertion: file, Resource: "omit"}, []string{"token-exchange   ASSERTION  a"}},
		Enterprise: {Settings{ClientID: "me", ClientSecret: secret.New("hidden"), Assertion: file, Provider: Provider{Issuer: m.URL + "/idp", ClientID: "us"}},
			[]string{"token-exchange us  ASSERTION" + r + " a", "jwt-bearer me hidden T1" + r + " a"}},
	} {
		t.Run(string(how), func(t *testing.T) {
			c.settings.How = how
			s, call := m.use(t, c.settings)
			if h, g, err := s.Sign(t.Context(), "", "POST", ""); h != nil || g != 0 || err != nil || s.Scope(nil) != "" || s.Person() {
				t.Error("before anything:", h, g, err)
			}
			for range 3 {
				if status, err := call(); status != 200 || err != nil {
					t.Errorf("%d, %v", status, err)
				}
			}
			if got := m.requests(); !slices.Equal(got, c.want) {
				t.Errorf("asked %q\nwant  %q", got, c.want)
			}
			if _, err := s.Begin(t.Context(), s.Of(nil), false); err == nil {
				t.Error("somebody can sign in")
			}
		})
	}
}

// TestServiceRenews lets tokens expire while 20 calls are made at once: one request each time.
func TestServiceRenews(t *testing.T) {
	m := newMachine(t)
	s, call := m.use(t, Settings{How: ClientOnly, ClientID: "me", ClientSecret: secret.New("hidden")})
	for range 3 {
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				if status, err := call(); status != 200 || err != nil {
					t.Errorf("%d, %v", status, err)
				}
			})
		}
		calls.Wait()
		if got := m.requests(); len(got) != 1 {
			t.Errorf("%d requests: %q", len(got), got)
		}
		old := *s.service.now.Load()
		old.renewAt, old.deadAt = time.Now(), time.Now()
		s.service.now.Store(&old)
	}
}

// TestServiceRefused has issuers and servers that refuse. A refusal isn't repeated and leads to no other grant, whatever
// asks; another assertion is another question. Weather is tried again.
func TestServiceRefused(t *testing.T) {
	m := newMachine(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("CANARY1")
	m.refuse = "unauthorized_client"
	s, call := m.use(t, Settings{How: Workload, ClientID: "me", Assertion: file})
	soon := func() {
		s.service.mu.Lock()
		s.service.later.notBefore = time.Time{}
		s.service.mu.Unlock()
	}
	for range 3 {
		_, err := call()
		var facts failure.Facts
		var source failure.Source
		if !oauth.Refused(err, "unauthorized_client") || !errors.As(err, &source) || strings.Contains(err.Error(), "CANARY") {
			t.Fatal(err)
		}
		if source.DescribeFailure(&facts); facts.Class != failure.Unauthorized || !strings.Contains(facts.Sentence, `"srv"`) {
			t.Errorf("%+v", facts)
		}
		soon()
	}
	if got := m.requests(); len(got) != 1 {
		t.Errorf("a refusal was repeated: %q", got)
	}
	write("CANARY2")
	m.change(func() { m.refuse, m.broken = "", true })
	if _, err := call(); !oauth.Weather(err) {
		t.Error(err)
	}
	if _, err := call(); !oauth.Weather(err) || len(m.requests()) != 1 {
		t.Error("no pause:", err)
	}
	soon()
	m.change(func() { m.broken = false })
	if status, err := call(); status != 200 || err != nil || len(m.requests()) != 1 {
		t.Error(status, err)
	}
	// The server refuses what its issuer gave, for good or for want of a scope: nobody asks for more.
	m.change(func() { m.wants = "more" })
	if _, err := call(); err == nil || !strings.Contains(err.Error(), "more") {
		t.Error(err)
	}
	m.change(func() { m.deaf = true })
	if _, err := call(); err == nil || len(m.requests()) != 0 {
		t.Error(err)
	}
}
