package signin

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
)

// TestNonceOfTheServer has a server that wants its nonce in proofs: the request is sent again with it, nobody is asked
// to sign in, and another person's token learns nothing.
func TestNonceOfTheServer(t *testing.T) {
	d := New(Options{})
	defer d.Close()
	s, err := d.Server("default", "srv", "https://h/mcp", Settings{})
	if err != nil {
		t.Fatal(err)
	}
	proof := map[string]func() string{}
	for _, who := range []string{"ann", "ben"} {
		bound := &token{prover: oauth.NewProver(), access: secret.New("A"), kind: "DPoP"}
		s.account(who).view.Store(&view{t: bound})
		proof[who] = func() string {
			h, err := bound.sign("POST", "https://h/mcp")
			if err != nil || len(h) != 2 || h[0].Value != "DPoP A" || h[1].Name != "DPoP" {
				t.Fatal(h, err)
			}
			claims, _ := base64.RawURLEncoding.DecodeString(strings.Split(h[1].Value, ".")[1])
			return string(claims)
		}
	}
	s.Nonce("ann", "https://h/mcp", "N1")
	again, err := s.Refused(t.Context(), "ann", 1, []string{`Bearer resource_metadata="https://h/x"`, `DPoP error="use_dpop_nonce"`})
	if !again || err != nil || !strings.Contains(proof["ann"](), `"nonce":"N1"`) || strings.Contains(proof["ben"](), "N1") {
		t.Error(again, err, proof["ann"](), proof["ben"]())
	}
	s.Nonce("nobody", "https://h/mcp", "N2")
}

// TestBound checks when a token is bound to a key: an issuer that could is not enough, because a server that
// understands Bearer alone would refuse it.
func TestBound(t *testing.T) {
	able, other := []string{"EdDSA", "ES256"}, []string{"RS256"}
	for _, tt := range []struct {
		name     string
		scheme   string
		resource *oauth.Resource
		issuer   []string
		want     bool
	}{
		{"nobody says anything", "Bearer", nil, nil, false},
		{"the issuer alone", "Bearer", &oauth.Resource{}, able, false},
		{"the challenge", "DPoP", nil, able, true},
		{"the metadata", "Bearer", &oauth.Resource{DPoPAlgs: able}, able, true},
		{"the metadata insists", "Bearer", &oauth.Resource{DPoPBound: true}, able, true},
		{"another algorithm at the server", "Bearer", &oauth.Resource{DPoPAlgs: other}, able, false},
		{"another algorithm at the issuer", "DPoP", &oauth.Resource{DPoPAlgs: able}, other, false},
	} {
		f := found{resource: tt.resource, issuer: &oauth.Issuer{DPoPAlgs: tt.issuer}}
		if got := f.bound(oauth.Challenge{Scheme: tt.scheme}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
