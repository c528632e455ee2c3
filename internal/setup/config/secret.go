package config

import (
	"cmp"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

const mask = excerpt.Mask

// Secret is text that must not be shown. The zero Secret is the empty text.
type Secret = secret.Text

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret { return secret.New(text) }

// shortestSecret is the minimum length, in bytes, of a text that is masked. Shorter values are
// usually flags or levels, and masking them would make ordinary text unreadable.
const shortestSecret = 6

// secretVariable does the same as excerpt.SecretName for the name of an environment variable or of a
// header, which needs no other word to be clear.
func secretVariable(name string) bool {
	name = strings.ToUpper(name)
	return excerpt.SecretName(name) || name == "KEY" || name == "AUTH" || strings.HasSuffix(name, "_AUTH")
}

// withoutScheme returns the value of a header without the scheme that precedes a credential, such as
// Bearer (RFC 9110 §11.4). The scheme is no secret.
func withoutScheme(value string) string {
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok || strings.ContainsFunc(scheme, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return value
	}
	return strings.TrimSpace(rest)
}

// Secrets returns the secret texts of the server's configuration, longest first. The caller must mask
// these texts in all output of the server. The secret texts are:
//   - the values in Env and Header that have a name such as GITHUB_TOKEN or Authorization, or look
//     like credentials
//   - the values that replaced references in Args, Env, Header and URL
//   - the secret and the key with which we sign in
//   - arguments that have a name such as --token
//   - the password and the query in URL
//   - for a command: the inherited variables that have a name such as GITHUB_TOKEN, and the
//     passwords of proxies
//
// If a value has several words, each word is a secret text too. Texts shorter than six bytes are left
// out.
func (s Server) Secrets() []string {
	var all []string
	add := func(text string) {
		all = append(all, text)
		if words := strings.Fields(text); len(words) > 1 { // for example Bearer XYZ
			all = append(all, words...)
		}
	}
	for name, v := range s.Env {
		// Most variables are settings, such as NODE_ENV=production. Masking their values would make
		// errors unreadable.
		if value := v.Reveal(); secretVariable(name) || excerpt.Credential(value) {
			add(value)
		}
	}
	for _, h := range s.Header {
		// Many headers are settings, such as Accept-Language.
		value := h.Value.Reveal()
		if secretVariable(h.Name) || slices.ContainsFunc(strings.Fields(value), excerpt.Credential) || excerpt.Credential(value) {
			all = append(all, value)
			add(withoutScheme(value))
		}
	}
	for _, v := range s.outside {
		add(v.Reveal())
	}
	for _, v := range []Secret{s.SignIn.ClientSecret, s.SignIn.PrivateKey, s.SignIn.Provider.ClientSecret} {
		add(v.Reveal())
	}
	for _, text := range excerpt.SecretArguments(s.Args) {
		add(text)
	}
	for _, text := range s.inheritedSecrets(os.Environ()) {
		add(text)
	}
	if u, err := url.Parse(s.URL); err == nil {
		add(u.RawQuery)
		for _, values := range u.Query() {
			all = append(all, values...)
		}
		if password, ok := u.User.Password(); ok {
			add(password)
		}
	}
	all = slices.DeleteFunc(all, func(text string) bool {
		return len(text) < shortestSecret || text == "Bearer"
	})
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	return slices.Compact(all)
}
