package oauth

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// TestProof checks proofs against RFC 9449 §4.3 with the key that they carry, as a server would.
func TestProof(t *testing.T) {
	p := NewProver()
	again, err := ProverOf(p.Secret())
	if err != nil || again.Thumbprint() != p.Thumbprint() {
		t.Fatal("the key doesn't survive being kept:", err)
	}
	seen := map[string]bool{}
	for range 2 {
		proof, err := again.Proof("POST", "https://H.example:443/mcp?x=1#y", secret.New("TOKEN"))
		if err != nil {
			t.Fatal(err)
		}
		signed, err := jose.ParseSignedCompact(proof, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		jwk := signed.Signatures[0].Header.JSONWebKey
		if jwk == nil || !jwk.IsPublic() {
			t.Fatal("the proof has no key, or a private one")
		}
		sum, _ := jwk.Thumbprint(crypto.SHA256)
		claims := verify(t, proof, jwk, "dpop+jwt")
		ath := sha256.Sum256([]byte("TOKEN"))
		if base64.RawURLEncoding.EncodeToString(sum) != p.Thumbprint() || claims["htm"] != "POST" || claims["htu"] != "https://h.example/mcp" ||
			claims["ath"] != base64.RawURLEncoding.EncodeToString(ath[:]) || claims["nonce"] != nil || seen[claims["jti"].(string)] {
			t.Error(claims)
		}
		seen[claims["jti"].(string)] = true
	}
	for _, key := range []string{"", "x", base64.RawURLEncoding.EncodeToString([]byte("CANARY"))} {
		_, err := ProverOf(secret.New(key))
		if clean(t, err, "CANARY"); err == nil {
			t.Errorf("the key %q is accepted", key)
		}
	}
}

// TestNonces has the nonces of both sides: kept apart by origin, sent once more where the issuer wants one,
// and no third time.
func TestNonces(t *testing.T) {
	nonce := func(h http.Header) any {
		proof := h.Get("DPoP")
		signed, err := jose.ParseSignedCompact(proof, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		return verify(t, proof, signed.Signatures[0].Header.JSONWebKey, "dpop+jwt")["nonce"]
	}
	want := "n1"
	w := &web{pages: map[string]any{"https://i/token": func(_ string, req *http.Request) string {
		if nonce(req.Header) != want {
			return "400 DPoP-Nonce: " + want + "\n" + `{"error":"use_dpop_nonce"}`
		}
		return "200 DPoP-Nonce: n2\n" + strings.TrimPrefix(strings.Replace(tokenOK, "bearer", "DPoP", 1), "200 ")
	}}}
	e := endpoint(w)
	e.Prover = NewProver()
	tok, err := e.Refresh(t.Context(), secret.New("R"), "", nil)
	if err != nil || tok.Type != "DPoP" || len(w.asked) != 2 || nonce(w.heads[0]) != nil {
		t.Fatal(tok, err, w.asked)
	}
	// The nonce of a success is the next one's.
	want = "n2"
	if _, err = e.Refresh(t.Context(), secret.New("R"), "", nil); err != nil || len(w.asked) != 3 {
		t.Error(err, w.asked)
	}
	// The server's nonce isn't the issuer's.
	if !e.Prover.Learn("https://h/mcp", "s1") || e.Prover.Learn("https://H:443/other", "s1") || e.Prover.Learn("https://h", "a\nb") || e.Prover.Learn("https://h", "") {
		t.Error("Learn")
	}
	proof, _ := e.Prover.Proof("GET", "https://h/mcp", secret.New("T"))
	if nonce(http.Header{"Dpop": {proof}}) != "s1" {
		t.Error("the server's nonce isn't sent")
	}
	w.pages["https://i/token"] = func(_ string, req *http.Request) string {
		return "400 DPoP-Nonce: " + Random() + "\n" + `{"error":"use_dpop_nonce"}`
	}
	w.asked = nil
	if _, err = e.Refresh(t.Context(), secret.New("R"), "", nil); !Refused(err, "use_dpop_nonce") || len(w.asked) != 2 {
		t.Error("endless nonces:", err, w.asked)
	}
}

func BenchmarkProof(b *testing.B) {
	p, token := NewProver(), secret.New(strings.Repeat("t", 800))
	for b.Loop() {
		if _, err := p.Proof("POST", "https://h.example/mcp", token); err != nil {
			b.Fatal(err)
		}
	}
}
