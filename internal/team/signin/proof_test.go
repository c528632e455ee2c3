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
