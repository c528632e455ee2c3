package excerpt

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The following expressions and functions find the same secrets as Secrets. They are slower but
// simpler, so the tests compare Secrets with them.
var (
	slowBearer = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=-]{6,})`)
	// slowJSON matches a JSON member, and slowSet an assignment such as NAME=value, anywhere in a
	// text.
	slowJSON = regexp.MustCompile(`"([^"\\]{1,63})"\s*:\s*"((?:[^"\\]|\\.)+)|\\"([^"\\]{1,63})\\"\s*:\s*\\"((?:[^"\\]|\\[^"])+)`)
	slowSet  = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9_.-]{0,62})=([^\s"'&;,<>\\]{6,})`)
	// slowColon matches a name with a colon, as in YAML. The value must have a digit, because
	// otherwise it is probably a word of a sentence.
	slowColon = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9_.-]{0,62}):[ \t]+([^\s"'&;,<>\\]*[0-9][^\s"'&;,<>\\]*)`)
	// slowForms matches secrets that have a known form.
	slowForms = regexp.MustCompile(`(?:` + strings.Join([]string{
		`\bgh[pousr]_[A-Za-z0-9]{20,}`, `\bgithub_pat_[A-Za-z0-9_]{20,}`, `\bdrgk_[A-Za-z0-9_-]{32,}`, `\bglpat-[A-Za-z0-9_-]{16,}`,
		`\b[sp]k[-_][A-Za-z0-9_-]{16,}`, `\bxox[abeprs]-[A-Za-z0-9-]{10,}`, `\bAKIA[A-Z0-9]{16}\b`, `\bAIza[A-Za-z0-9_-]{30,}`,
		`\bnpm_[A-Za-z0-9]{30,}`, `\bhf_[A-Za-z0-9]{20,}`, `\bntn_[A-Za-z0-9]{20,}`, `\btvly-[A-Za-z0-9-]{16,}`, `\bASIA[A-Z0-9]{16}\b`, `\bya29\.[A-Za-z0-9_-]{20,}`,
		`\bdop_v1_[a-f0-9]{32,}`, `\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{20,}`, `\bey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
		`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`,
	}, "|") + `)`)
	slowUser = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)([^/\s"'@]+)@`)
)

// slowSecrets does the same as Secrets, but with regular expressions.
func slowSecrets(s string, with func(secret string) string) string {
	s = slowForms.ReplaceAllStringFunc(s, with)
	s = slowBearer.ReplaceAllStringFunc(s, func(m string) string {
		p := slowBearer.FindStringSubmatch(m)
		return p[1] + p[2] + with(p[3])
	})
	s = slowNamed(slowJSON, slowNamed(slowSet, slowNamed(slowColon, s, with), with), with)
	return slowUser.ReplaceAllStringFunc(s, func(m string) string {
		p := slowUser.FindStringSubmatch(m)
		return p[1] + with(p[2]) + "@"
	})
}

// slowNamed replaces each value whose name says that it is a secret. The groups of the pattern are
// pairs of a name and its value.
func slowNamed(pattern *regexp.Regexp, s string, with func(secret string) string) string {
	var out strings.Builder
	from := 0
	for next := 0; ; {
		at := pattern.FindStringSubmatchIndex(s[next:])
		if at == nil {
			break
		}
		for i := range at {
			at[i] += next
		}
		for g := 2; g < len(at); g += 4 {
			if at[g] < next {
				continue
			}
			next = at[g+2] // a value that is no secret may contain one
			if SecretText(s[at[g]:at[g+1]], s[at[g+2]:at[g+3]]) && (pattern != slowColon || at[g+3]-at[g+2] >= shortest) {
				out.WriteString(s[from:at[g+2]])
				out.WriteString(with(s[at[g+2]:at[g+3]]))
				from, next = at[g+3], at[g+3]
			}
			break
		}
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// sameSecrets fails the test unless Secrets and slowSecrets find the same secrets in s, in the same
// order.
func sameSecrets(t *testing.T, s string) {
	t.Helper()
	find := func(secrets func(string, func(string) string) string) (out string, found []string) {
		out = secrets(s, func(x string) string {
			found = append(found, x)
			return Mask
		})
		return out, found
	}
	got, found := find(Secrets)
	want, all := find(slowSecrets)
	if got != want || !slices.Equal(found, all) {
		t.Fatalf("%q became %q %q, want %q %q", s, got, found, want, all)
	}
}

// pieces are parts of texts that have or nearly have a secret.
var pieces = []string{
	`"`, `"`, `\"`, `\`, `\\`, ":", ": ", "=", "==", ",", "{", "}", " ", "  ", "\t", "\n", "\r", "\v", "\x00", "'", "&", ";", "<", ">", "@", "/", "://", ".", "-", "_", "+", "~", "\xff", "\xe2\x82", "é", "ſ", "K", "世",
	"token", "TOKEN", "password", "pwd", "PWD", "pw", "api_key", "API_KEY", "next_page_token", "name", "a", "B", "z9", "7", "0", "hunter22", "abcdef", "secret-value-1", "user:pw@host", "https://", "postgres://",
	"Bearer ", "bearer", "BEARER\t", "basic ", "Basic", "baſic ", "abcdefgh1234", "Kabcde",
	"ghp_", "gho_x", "drgk_", "github_pat_", "glpat-", "sk-", "pk_", "xoxb-", "AKIA", "ASIA", "AIza", "npm_", "ntn_", "hf_", "tvly-", "ya29.", "dop_v1_", "shpat_", "eyJhbGciOiJub25l", ".eyJzdWIiOiIx", ".sig",
	"ABCDEFGHIJKLMNOP", "abcdefghijklmnopqrst", "0123456789abcdef0123456789abcdef", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-----END PRIVATE KEY-----", "PRIVATE KEY-----",
	strings.Repeat("n", 62), strings.Repeat("é", 63),
}

// formPieces are parts of secrets that have a known form.
var formPieces = []string{
	"ghp_", "ghs_", "drgk_", "github_pat_", "glpat-", "sk-", "pk_", "xoxb-", "AKIA", "ASIA", "AIza", "npm_", "ntn_", "hf_", "tvly-", "ya29.", "dop_v1_", "shpat_", "shpss_", "ey", "ey-", ".", "-", "_", " ",
	"eyJhbGciOiJub25l", ".eyJzdWIiOiIx", ".sig", "hf_aaaaaaaaaaaaaaaaaaaa", "AKIAABCDEFGHIJKLMNOP", "ABCDEFGHIJKLMNOP", "abcdefghijklmnopqrst", "0123456789abcdef0123456789abcdef", "abcdef", "A", "é", "\xff",
	"-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN ", "-----END PRIVATE KEY-----", "-----END ", "PRIVATE KEY-----", "PRIVATE KEY", "-----", "ABC ", "\n",
}

// TestFindSecrets compares Secrets with slowSecrets, for texts that are random sequences of pieces
// or of formPieces, and for two large results.
func TestFindSecrets(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	rounds := 30_000
	if raceEnabled {
		rounds /= 10
	}
	for range rounds {
		var b strings.Builder
		for range 1 + random.IntN(14) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		sameSecrets(t, b.String())
	}
	for range 2 * rounds {
		var b strings.Builder
		for range 1 + random.IntN(14) {
			b.WriteString(formPieces[random.IntN(len(formPieces))])
		}
		sameSecrets(t, b.String())
	}
	for _, escaped := range []bool{false, true} {
		sameSecrets(t, largeResult(20_000, escaped))
	}
}

// FuzzFindSecrets compares Secrets with slowSecrets.
func FuzzFindSecrets(f *testing.F) {
	for _, p := range slices.Concat(pieces, formPieces) {
		f.Add(p)
	}
	f.Add("-ey-hf_aaaaaaaaaaaaaaaaaaaa-ey-eyJhbGciOiJub25l.eyJzdWIiOiIx.sig AKIAABCDEFGHIJKLMNOPQ")
	f.Add("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----------BEGIN PRIVATE KEY-----")
	f.Add(`{"token":"a\"b","pwd": "/x", \"password\": \"x\\\"}`)
	f.Add("Authorization: Bearer abcdefgh password: hunter22 pw=hunter22 https://u:p@h sk-abcdefghijklmnop0")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) < 4<<10 {
			sameSecrets(t, s)
		}
	})
}

// TestSecretsStayLinear searches hostile texts of one megabyte each. If the time grew with the
// square of the length, the test would exceed its timeout.
func TestSecretsStayLinear(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		`"`, `\"`, `"a"`, `"a" :`, "a=", "=", "a: ", "a:", "a://", "://", "bearer ", "basic\t", "ey", "ey-", "ghp_", "sk-", "a.", "\\", `"é`, "token=a", "-----BEGIN ",
		"a=aaaaaa=", "a=b?", `"a":"\"`, `"a":"\"b\":`, `"a":"b":`, `\"a\":\"b`, `\"a":"`, "-ey-hf_aaaaaaaaaaaaaaaaaaaa", "-ey-AKIAABCDEFGHIJKLMNOP", "-----BEGIN PRIVATE KEY----- ey-",
	} {
		MaskSecrets(strings.Repeat(p, 1<<19/len(p)) + strings.Repeat(" ", 1<<18) + strings.Repeat("a", 1<<18))
	}
}

// TestFormsTakeFewSteps checks that formFinder examines at most six characters for each character
// of a text. The texts repeat two formPieces.
func TestFormsTakeFewSteps(t *testing.T) {
	t.Parallel()
	const size = 8 << 10
	for _, a := range formPieces {
		for _, b := range formPieces {
			for _, between := range []string{"", "-", ".", " "} {
				text := strings.Repeat(between+a+between+b, size/(2*len(between)+len(a)+len(b)))
				for _, s := range []string{text, text + strings.Repeat("a", size), "ey" + strings.Repeat("a", size) + text} {
					var f formFinder
					for p, ok := f.next(s, 0); ok; p, ok = f.next(s, p.end) {
					}
					if f.steps > 6*len(s) {
						t.Fatalf("%d steps for %d characters of %q and %q with %q", f.steps, len(s), a, b, between)
					}
				}
			}
		}
	}
}
