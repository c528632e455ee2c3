package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// TestOwnDocuments lets two people sign in through a serve that has a public URL, at issuers of all kinds. Where the issuer
// reads documents, and can reach ours, nothing is registered, and the client is the document. Where it takes keys, the client
// proves who it is, also at a refresh. And an issuer that doesn't say who it is has a redirect URI of its own (TA29).
func TestOwnDocuments(t *testing.T) {
	t.Parallel()
	const public = "https://dragoman.example/mcp"
	silent := func(to *strict) string { return "/" + flowID(to.URL)[:32] }
	for _, c := range []struct {
		name     string
		public   string
		at       string // where the name of the public URL leads
		settings Settings
		change   func(*strict)
		client   string // the document with ISSUER for the issuer's part; "" if we register
		redirect string
		method   string
	}{
		{"public client", public, "127.0.0.1", Settings{}, nil, public + "/oauth/client.json", public + "/oauth/callback", "none"},
		{"with a key", public, "127.0.0.1", Settings{}, func(to *strict) { to.methods = []string{"private_key_jwt"} }, public + "/oauth/keyed-client.json", public + "/oauth/callback", "private_key_jwt"},
		{"silent", public, "127.0.0.1", Settings{}, func(to *strict) { to.silent = true }, public + "/oauth/clientISSUER.json", public + "/oauth/callbackISSUER", "none"},
		{"silent with a key", public, "127.0.0.1", Settings{}, func(to *strict) { to.silent, to.methods = true, []string{"private_key_jwt"} }, public + "/oauth/keyed-clientISSUER.json", public + "/oauth/callbackISSUER", "private_key_jwt"},
		{"no documents", public, "127.0.0.1", Settings{}, func(to *strict) { to.read = nil }, "", public + "/oauth/callback", ""},
		{"farther issuer", public, "", Settings{}, nil, "", public + "/oauth/callback", ""},
		{"http", "http://127.0.0.1:1", "", Settings{}, nil, "", "http://127.0.0.1:1/oauth/callback", ""},
		{"another callback", public, "127.0.0.1", Settings{Callback: "https://elsewhere.example/callback"}, nil, "", "https://elsewhere.example/callback", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			to := newStrict(t)
			r := newRig(t, file(t), to, c.settings, func(o *Options) {
				o.Public, o.Alone, o.Known = c.public, false, true
				o.Egress = egress.New(egress.Options{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
					if c.at == "" || host != "dragoman.example" {
						return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
					}
					return []netip.Addr{netip.MustParseAddr(c.at)}, nil
				}})
			})
			to.read = func(id string) []byte {
				path, ours := strings.CutPrefix(id, c.public)
				text, err := r.Document(t.Context(), path)
				if !ours || err != nil {
					t.Errorf("%s: %v", id, err)
				}
				return text
			}
			if c.change != nil {
				c.change(to)
			}
			fill := func(s string) string { return strings.ReplaceAll(s, "ISSUER", silent(to)) }
			for _, who := range []string{"p:ada", "p:bob"} {
				of := store.SignIn{Project: "default", Server: r.s.id, Subject: who}
				f, err := r.s.Begin(t.Context(), of, false)
				if err != nil {
					t.Fatal(err)
				}
				back, err := to.consent(t.Context(), f.Link(), who)
				if err != nil {
					t.Fatal(err)
				}
				u, _ := url.Parse(back)
				q := u.Query()
				u.RawQuery = ""
				if u.String() != fill(c.redirect) {
					t.Errorf("%s is sent to %s", who, u)
				}
				if to.silent { // somebody else's answer comes to the other address
					if err := r.Finish(t.Context(), pathOf(c.public+callbackPath), q); err != oauth.ErrNotOurs {
						t.Errorf("at the common address: %v", err)
					}
				}
				if err := r.Finish(t.Context(), u.Path, q); err != nil {
					t.Fatal(err)
				}
				safe := r.safe.Load()
				row := safe.Store().Snapshot().Credentials(of)[0]
				if c.client != "" && row.Client != fill(c.client) {
					t.Errorf("%s has the client %s", who, row.Client)
				}
				if a := r.s.account(who); c.method != "" {
					now, err := a.current(t.Context(), safe)
					if err == nil {
						_, err = a.renewForced(t.Context(), safe, now)
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
			registered, proofs := 1, 0
			if c.client != "" {
				registered = 0
			}
			if c.method == "private_key_jwt" {
				proofs = 4
			}
			if n := to.counted("register"); n != registered {
				t.Errorf("%d registrations", n)
			}
			if n := to.counted("proof"); n != proofs {
				t.Errorf("%d proofs", n)
			}
			if n := to.counted("refresh_token"); c.method != "" && n != 2 {
				t.Errorf("%d renewals", n)
			}
		})
	}
}

// TestDocuments checks what is public: nothing without a public URL, and with one nothing that needs the key before
// somebody has used it. No document has a part of the key that is private.
func TestDocuments(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0a", 16)
	plain := []string{"/oauth/client.json", "/oauth/client/" + id + ".json"}
	keyed := []string{"/oauth/keyed-client.json", "/oauth/keyed-client/" + id + ".json", "/oauth/jwks.json"}
	never := []string{"", "/", "/oauth/", "/oauth/client", "/oauth/client/", "/oauth/client/.json", "/oauth/client/" + id, "/oauth/client/" + id + "/x.json", "/oauth/client/../client.json", "/oauth/client/" + strings.ToUpper(id) + ".json", "/oauth/client.json/", "/oauth/jwks.json/" + id}
	to := newStrict(t)
	for _, public := range []string{"", "http://dragoman.example", "https://dragoman.example"} {
		r := newRig(t, file(t), to, Settings{}, func(o *Options) { o.Public = public })
		exist := func(want bool, paths ...string) {
			t.Helper()
			for _, path := range paths {
				text, err := r.Document(t.Context(), path)
				if err != nil || (text != nil) != want {
					t.Errorf("%q %s: %s %v", public, path, text, err)
				}
				if bytes.Contains(text, []byte(`"d"`)) {
					t.Errorf("%s shows the key", path)
				}
				var m clientDocument
				if want && !strings.Contains(path, "jwks") && (json.Unmarshal(text, &m) != nil || m.ID != public+path || len(m.Redirects) != 1 || m.Name == "") {
					t.Errorf("%s: %s", path, text)
				}
			}
		}
		https := strings.HasPrefix(public, "https")
		exist(https, plain...)
		exist(false, keyed...)
		exist(false, never...)
		safe, err := r.open(t.Context())
		if err == nil {
			_, err = r.makeOurKey(t.Context(), safe)
		}
		if err != nil {
			t.Fatal(err)
		}
		exist(https, append(plain, keyed...)...)
	}
}
