package excerpt

import (
	"regexp"
	"slices"
	"strings"
)

// forms are secrets by their form, whatever they are called: the well-known prefixes
// of keys, signed tokens, private keys.
var forms = regexp.MustCompile(`(?:` + strings.Join([]string{
	`\bgh[pousr]_[A-Za-z0-9]{20,}`, `\bgithub_pat_[A-Za-z0-9_]{20,}`, `\bglpat-[A-Za-z0-9_-]{16,}`,
	`\b[sp]k[-_][A-Za-z0-9_-]{16,}`, `\bxox[abeprs]-[A-Za-z0-9-]{10,}`, `\bAKIA[A-Z0-9]{16}\b`, `\bAIza[A-Za-z0-9_-]{30,}`,
	`\bnpm_[A-Za-z0-9]{30,}`, `\bey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
	`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`,
}, "|") + `)`)

var (
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=-]{6,})`)
	// A member or a variable within a text, or in JSON that is none to us.
	inJSON   = regexp.MustCompile(`"([^"\\]{1,63})"\s*:\s*"((?:[^"\\]|\\.)+)|\\"([^"\\]{1,63})\\"\s*:\s*\\"((?:[^"\\]|\\[^"])+)`)
	setTo    = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9_.-]{0,62})=([^\s"'&;,<>\\]{6,})`)
	userinfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)([^/\s"'@]+)@`)
)

// Secrets returns s with what looks like a secret in it replaced by what with makes
// of it: keys with well-known prefixes, signed tokens, private keys, the credentials
// of an Authorization header or a URL, and what goes by a name that says so. with is
// given what it has made once more where two of these meet.
func Secrets(s string, with func(secret string) string) string {
	s = forms.ReplaceAllStringFunc(s, with)
	s = bearer.ReplaceAllStringFunc(s, func(m string) string {
		p := bearer.FindStringSubmatch(m)
		return p[1] + p[2] + with(p[3])
	})
	s = named(inJSON, named(setTo, s, with), with)
	return userinfo.ReplaceAllStringFunc(s, func(m string) string {
		p := userinfo.FindStringSubmatch(m)
		return p[1] + with(p[2]) + "@"
	})
}

// named replaces what is a secret by its name. Of the pattern's groups each first
// one of two is a name, and the second what goes by it.
func named(pattern *regexp.Regexp, s string, with func(secret string) string) string {
	var out strings.Builder
	from := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(s, -1) {
		for g := 2; g < len(at); g += 4 {
			if at[g] < 0 || !SecretName(s[at[g]:at[g+1]]) {
				continue
			}
			out.WriteString(s[from:at[g+2]])
			out.WriteString(with(s[at[g+2]:at[g+3]]))
			from = at[g+3]
		}
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// secretNames are names of members, parameters and headers whose text is a secret,
// in lower case and without separators.
var secretNames = map[string]bool{
	"password": true, "passwd": true, "passphrase": true, "secret": true, "clientsecret": true,
	"token": true, "accesstoken": true, "refreshtoken": true, "idtoken": true, "authtoken": true, "sessiontoken": true,
	"apikey": true, "accesskey": true, "secretkey": true, "privatekey": true, "authorization": true, "cookie": true,
	"credential": true, "credentials": true, "clientassertion": true, "codeverifier": true,
}

// secretEnds are what further such names end with: those of variables, mostly.
var secretEnds = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey"}

// positions are tokens that say where somebody is and let nobody in.
var positions = []string{"progresstoken", "pagetoken", "nexttoken", "continuationtoken", "cursortoken", "synctoken"}

// separators are what names are spelled with or without.
var separators = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

// SecretName reports whether the text of a member, parameter, variable or header of
// this name is a secret.
func SecretName(name string) bool {
	if len(name) >= 64 {
		return false
	}
	n := separators.Replace(strings.ToLower(name))
	ends := func(s string) bool { return strings.HasSuffix(n, s) }
	switch {
	case secretNames[n]:
		return true
	case slices.ContainsFunc(positions, ends):
		return false
	case strings.HasSuffix(name, "_KEY") && name == strings.ToUpper(name):
		return true
	}
	return slices.ContainsFunc(secretEnds, ends)
}
