package tape

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
)

// TestOneListOfSecretNames checks that every output masks values with the same names, in each form
// in which they occur. The names are those of package excerpt:
//
//   - tapes (record) and transcripts use the redactor of this package
//   - calls, the API and the pages of the console use calls.Masker
//   - logs, status, failures, dragoman bug and the evidence of doctor use excerpt.MaskSecrets
//   - the messages of handshakes use excerpt.MaskHead
func TestOneListOfSecretNames(t *testing.T) {
	const value = "correct-horse-7"
	outputs := map[string]func(text string) string{
		"tape, text":    func(s string) string { return newRedactor(nil).text(s) },
		"tape, JSON":    func(s string) string { return string(newRedactor(nil).json([]byte(s))) },
		"calls, text":   func(s string) string { return calls.NewMasker(nil).Text("", s) },
		"calls, JSON":   func(s string) string { b, _ := calls.NewMasker(nil).Message([]byte(s)); return string(b) },
		"log":           excerpt.MaskSecrets,
		"bug":           func(s string) string { return excerpt.MaskSecrets(excerpt.MaskSecrets(s)) },
		"a handshake":   func(s string) string { return excerpt.MaskHead([]byte(s), len(s), excerpt.MaskSecrets) },
		"a result":      func(s string) string { return excerpt.MaskJSON(s, excerpt.MaskSecrets) },
		"known to none": func(s string) string { return calls.NewMasker([]string{"another-secret"}).Text("", s) },
	}
	forms := map[string]func(name string) string{
		"a member":             func(name string) string { return `{"x":1,"` + name + `": "` + value + `"}` },
		"an argument":          func(name string) string { return `{"params":{"arguments":{"` + name + `":"` + value + `"}}}` },
		"JSON in a text":       func(name string) string { return `{"text":"{\"` + name + `\":\"` + value + `\"}"}` },
		"a variable in a text": func(name string) string { return `{"text":"run with ` + name + "=" + value + ` now"}` },
		"a query":              func(name string) string { return `{"uri":"https://example.com/a?b=c&` + name + "=" + value + `"}` },
		"a URL in a variable":  func(name string) string { return "url=https://example.com/a?" + name + "=" + value },
		"a line":               func(name string) string { return "starting with " + name + "=" + value + " at 7" },
		"a header in a line":   func(name string) string { return "sent " + name + ": " + value },
	}
	secret := strings.Fields("password passwd passwort kennwort passphrase passcode pwd pw pass secret token jwt otp pin auth " +
		"db_password dbPasswort smtp-pass API_KEY api-key apiKey x-api-key access_token accessToken client_secret CLIENT_SECRET " +
		"Authorization proxy-authorization Cookie credential GITHUB_TOKEN TOKEN_GITHUB MY_PIN user.auth sig")
	open := strings.Fields("max_tokens tokens keyboard passage author authority opinion pinned pins has_token page_token nextToken " +
		"first_pass token_url TOKEN_URL public_key compass option monkey key name")
	for name, mask := range outputs {
		for form, text := range forms {
			if strings.HasSuffix(name, "text") && strings.Contains(form, "JSON") {
				continue // these functions get plain text
			}
			for _, key := range secret {
				if got := mask(text(key)); strings.Contains(got, value) {
					t.Errorf("%s shows %s as %s: %s", name, key, form, got)
				}
			}
			for _, key := range open {
				if got := mask(text(key)); !strings.Contains(got, value) {
					t.Errorf("%s hides %s as %s: %s", name, key, form, got)
				}
			}
		}
	}
}

// TestKnownSecrets checks that tapes and calls mask a known secret in the same places: also encoded,
// but not inside a longer word. Both find the encoded forms themselves.
func TestKnownSecrets(t *testing.T) {
	known := []string{"server", "open/sesame-1001"}
	outputs := map[string]func(string) string{
		"tape":  func(s string) string { return newRedactor(known).text(s) },
		"calls": func(s string) string { return calls.NewMasker(known).Text("", s) },
	}
	for name, mask := range outputs {
		for text, hidden := range map[string]bool{
			"the servers and a serverless thing":   false,
			"role server here":                     true,
			"at open/sesame-1001.":                 true,
			"?p=open%2Fsesame-1001":                true,
			"Zm9vOm9wZW4vc2VzYW1lLTEwMDE= (Basic)": true,
			"b3Blbi9zZXNhbWUtMTAwMQ":               true,
		} {
			if got := mask(text); (got != text) != hidden {
				t.Errorf("%s: %q became %q", name, text, got)
			}
		}
	}
}
