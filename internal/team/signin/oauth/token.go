package oauth

import (
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Token is the answer of a token endpoint.
type Token struct {
	Access, Refresh, ID secret.Text // Refresh and ID reveal "" if there is none
	Type                string      // "Bearer" or "DPoP", spelled so, or "N_A" for what an exchange gave
	Issued              string      // issued_token_type of an exchange
	Life                time.Duration
	Until               time.Time // when Access expires; zero if the answer doesn't say
	Scopes              []string  // what was granted; what was asked for if the answer doesn't say
	ScopesSaid          bool      // the answer names the scopes
}

// Bounds of a token answer. Tokens go into headers, and servers take 8 to 64 KiB of them.
const (
	maxToken = 32 << 10
	maxLife  = 10 * 365 * 24 * time.Hour
)

// ReadToken reads the answer of a token endpoint that came at a time. Errors show nothing of it.
func ReadToken(raw []byte, now time.Time) (Token, error) {
	bad := func(why string) (Token, error) {
		return Token{}, fault(AnswerInvalid, "", "the authorization server's token answer can't be used: %s", why).
			next("ask whoever runs the authorization server")
	}
	d, err := parse(raw)
	if err != nil {
		return bad("it is not a valid JSON object")
	}
	access, refresh, id := d.text("access_token"), d.text("refresh_token"), d.text("id_token")
	t := Token{Type: d.text("token_type"), Issued: d.text("issued_token_type"), Scopes: words(d.text("scope"))}
	life, timed := d.seconds("expires_in")
	switch {
	case d.err != nil:
		return bad(d.err.Error())
	case access == "":
		return bad("it has no access_token")
	case !isHeader(access), refresh != "" && !isVisible(refresh, maxToken), id != "" && !isHeader(id):
		return bad("a token in it is too long, or has characters that a token can't have")
	case life < 0:
		return bad("its expires_in is negative")
	case !areScopes(t.Scopes):
		return bad("its scope is malformed")
	}
	var ok bool
	if t.Type, ok = tokenType(t.Type); !ok {
		return bad("its token_type is missing or unknown")
	}
	t.Access, t.ScopesSaid = secret.New(access), t.Scopes != nil
	if refresh != "" {
		t.Refresh = secret.New(refresh)
	}
	if id != "" {
		t.ID = secret.New(id)
	}
	// A life of 0 is how some say that it doesn't end.
	if timed && life > 0 {
		t.Life = min(time.Duration(min(life, int64(maxLife/time.Second)))*time.Second, maxLife)
		t.Until = now.Add(t.Life)
	}
	return t, nil
}

// tokenType spells a token type as it stands in a header. Types are case-insensitive (RFC 6749 §7.1).
func tokenType(s string) (string, bool) {
	for _, known := range []string{"Bearer", "DPoP", "N_A"} {
		if strings.EqualFold(s, known) {
			return known, true
		}
	}
	return "", false
}

// isHeader reports whether s can stand in an Authorization header.
func isHeader(s string) bool { return isVisible(s, maxToken) && !strings.Contains(s, " ") }
