package oauth

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// TestEnterprise has the two requests of the extension, and that the ID token goes to the provider alone.
func TestEnterprise(t *testing.T) {
	w := &web{pages: map[string]any{
		"https://idp/token": `200 {"access_token":"JAG","token_type":"N_A","issued_token_type":"` + TypeIDJAG + `"}`,
		"https://i/token":   tokenOK,
	}}
	idp := &Endpoint{Doer: w, Issuer: &Issuer{Issuer: "https://idp", Token: "https://idp/token"}, Client: Client{ID: "us-there"}}
	tok, err := endpoint(w).Enterprise(t.Context(), idp, secret.New("ID-TOKEN"), "https://h/mcp", []string{"a"})
	if err != nil || tok.Access.Reveal() != "A" {
		t.Fatal(tok, err)
	}
	for i, want := range []string{
		"audience=https://i&client_id=us-there&grant_type=urn:ietf:params:oauth:grant-type:token-exchange&requested_token_type=" + TypeIDJAG +
			"&resource=https://h/mcp&scope=a&subject_token=ID-TOKEN&subject_token_type=" + TypeID,
		"assertion=JAG&client_id=me&grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&resource=https://h/mcp&scope=a",
	} {
		if got, _ := url.QueryUnescape(w.forms[i].Encode()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	// An access token in the place of the assertion goes nowhere.
	w.pages["https://idp/token"] = tokenOK
	if _, err = endpoint(w).Enterprise(t.Context(), idp, secret.New("ID-TOKEN"), "https://h/mcp", nil); codeOf(err) != "answer_invalid" || len(w.asked) != 3 {
		t.Error(err, w.asked)
	}
}

func TestReadAssertion(t *testing.T) {
	w := &web{pages: map[string]any{
		"http://127.0.0.1:1/token": "200 ey.J.1\n", "https://h/html": "200 <html>CANARY", "https://h/no": "403 CANARY",
		"https://h/later": "503 CANARY", "https://h/down": errors.New("no route"),
	}}
	file := filepath.Join(t.TempDir(), "token")
	for place, want := range map[string]string{
		file: "ey.J.2", "http://127.0.0.1:1/token": "ey.J.1", "https://h/html": "request_invalid", "https://h/no": "request_invalid", "https://h/later": "weather",
		"https://h/down": "weather", file + "x": "request_invalid", filepath.Dir(file): "request_invalid", "http://h/ x": "request_invalid",
	} {
		if err := os.WriteFile(file, []byte("ey.J.2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadAssertion(t.Context(), w, place)
		if got.Reveal()+codeOf(err) != want {
			t.Errorf("%s: %v, want %s", place, err, want)
		}
		clean(t, err, "CANARY")
	}
	for _, text := range []string{"", "CANARY\nCANARY", "CANARY \x1b", strings.Repeat("C", maxToken+1)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadAssertion(t.Context(), w, file)
		if clean(t, err, "CANARY"); codeOf(err) != "request_invalid" {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
