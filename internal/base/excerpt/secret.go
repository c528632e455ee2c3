package excerpt

import (
	"slices"
	"strings"
	"unicode"
)

// shortest is the minimum length of a value that nextSet or nextBearer finds.
const shortest = 6

// Mask is the text that MaskSecrets puts in place of a secret.
const Mask = "***"

// MaskSecrets returns s with Mask in place of each apparent secret; see Secrets.
func MaskSecrets(s string) string { return Secrets(s, func(string) string { return Mask }) }

// Secrets returns s with each apparent secret replaced by with(secret). It finds keys with
// well-known prefixes, signed tokens, private keys, the credentials of an Authorization header or a
// URL, and values with names of secrets (see SecretText). If two of these overlap, the function
// with may get a text that contains its own earlier result.
func Secrets(s string, with func(secret string) string) string {
	all := func(string, string) bool { return true }
	s = replaceParts(s, new(formFinder).next, all, with)
	s = replaceParts(s, nextBearer, all, with)
	names := knownNames{}
	s = replaceParts(s, nextColon, func(name, value string) bool { return len(value) >= shortest && names.secret(name, value) }, with)
	s = replaceParts(s, new(setFinder).next, names.secret, with)
	s = replaceParts(s, nextJSON, names.secret, with)
	return replaceParts(s, nextUser, all, with)
}

// replaceParts replaces each value that the function next finds, if the function secret returns
// true for it. It also searches the other values, because a value such as a URL or JSON within a
// string may contain a name and a secret.
func replaceParts(s string, next func(s string, from int) (part, bool), secret func(name, value string) bool, with func(secret string) string) string {
	var out strings.Builder
	from := 0
	for p, ok := next(s, 0); ok; {
		at := p.value
		if secret(s[p.name:p.nameEnd], s[p.value:p.end]) {
			out.WriteString(s[from:p.value])
			out.WriteString(with(s[p.value:p.end]))
			from, at = p.end, p.end
		}
		p, ok = next(s, at)
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// knownNames caches results of SecretName, because a name often occurs more than once in a text.
type knownNames map[string]bool

// maxKnown bounds the names of knownNames.
const maxKnown = 256

// secret does the same as SecretText.
func (k knownNames) secret(name, value string) bool {
	if len(name) == len("pwd") {
		return SecretText(name, value)
	}
	yes, ok := k[name]
	if !ok {
		if yes = SecretName(name); len(k) < maxKnown {
			k[name] = yes
		}
	}
	return yes
}

// These lists decide whether a name is the name of a secret. Tapes, evidence, logs, the status and
// the configuration all use them through SecretName or SecretText.
var (
	// secretWords lists words that make a name the name of a secret if the name ends with them: pw,
	// dbPass, SMTP_PASSWORD.
	secretWords    = set("password passwd passwort kennwort passphrase passcode pwd pw pass secret token jwt otp pin auth")
	numericSecrets = set("password passwd passwort kennwort passphrase passcode pwd pw otp pin")
	// secretNames lists complete names of secrets, without separators.
	secretNames = set("authorization proxyauthorization cookie setcookie credential credentials clientassertion codeverifier " +
		"authcode authorizationcode devicecode connectionstring sig xamzsignature")
	// secretEnds lists the ends of longer names of secrets, without separators, as in accesstoken.
	secretEnds = strings.Fields("password passwd passphrase passcode secret token apikey accesskey secretkey privatekey signingkey " +
		"encryptionkey masterkey accountkey sharedkey authkey sessionkey sshkey servicekey servicerolekey deploykey subscriptionkey appkey")

	// positions lists words before "token". A token with such a name is a position or a part of a
	// text, and not a credential. positionEnds lists the ends of such names, without separators.
	positions = set("progress page paging pagination next previous prev continuation continue cursor sync resume skip delta scroll " +
		"position offset marker change cancel cancellation idempotency start stop end first last partial max min " +
		"eos bos pad unk sep cls mask special design syntax")
	positionEnds = strings.Fields("progresstoken pagetoken nexttoken paginationtoken continuationtoken cursortoken synctoken resumetoken")

	// questions and rounds list words that change the meaning of a word of secretWords after them:
	// has_token is a flag, show_password an action, second_pass a round.
	questions = set("is has no needs requires show hide forgot")
	rounds    = set("first second third single multi two render")
	// openKeys lists words before "key" in names of keys that are not secret, as in PUBLIC_KEY.
	openKeys = set("public primary foreign sort partition cache hot group map object registry unique")
	// about lists the last words of names that only describe a secret, as in TOKEN_URL.
	about = set("file path dir folder url uri name type id ids count limit budget endpoint host port policy ttl expiry expires " +
		"length size enabled required algorithm issuer audience scope scopes version header field mode provider manager command cmd")
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// maxSecretName is the number of bytes that SecretName examines at the end of a name.
const maxSecretName = 64

// SecretName reports whether a value with this name is a secret. The name may belong to a member,
// parameter, variable, option or header. SecretName compares whole words, with any case and
// separators, so max_tokens, keyboard and passage are not names of secrets.
func SecretName(name string) bool {
	if name == "PWD" || name == "OLDPWD" {
		return false // these variables contain working directories of a shell
	}
	words := wordsOf(name[max(0, len(name)-maxSecretName):])
	if n := len(words); n > 1 && words[n-1] == "value" {
		words = words[:n-1]
	}
	if len(words) == 0 {
		return false
	}
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	joined := strings.Join(words, "")
	ends := func(s string) bool { return strings.HasSuffix(joined, s) }
	switch {
	case secretNames[joined]:
		return true
	case last == "token" && positions[before], slices.ContainsFunc(positionEnds, ends), questions[before], last == "pass" && rounds[before]:
		return false
	case secretWords[last], slices.ContainsFunc(secretEnds, ends):
		return true
	case name != strings.ToUpper(name) || about[last]:
		return false
	case last == "key":
		return before != "" && !openKeys[before]
	}
	// The name may be an environment variable such as TOKEN_GITHUB.
	return len(words) > 1 && slices.ContainsFunc(words, func(w string) bool { return secretWords[w] })
}

// SecretText does the same as SecretName for a known value. The name pwd may mean a folder or
// a password, so a value with this name is not a secret if it looks like the path of a folder.
func SecretText(name, text string) bool {
	if text == "" {
		return false
	}
	if strings.EqualFold(name, "pwd") {
		return !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "~/") && !(len(text) > 2 && text[1] == ':' && (text[2] == '\\' || text[2] == '/'))
	}
	return SecretName(name)
}

// SecretNumber reports whether a number with this name is a secret. A password may consist of
// digits, but a number with a name such as token is usually a count.
func SecretNumber(name string) bool {
	words := wordsOf(name)
	return SecretName(name) && len(words) > 0 && numericSecrets[words[len(words)-1]]
}

// wordsOf returns the words of a name in lower case, without trailing digits.
func wordsOf(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = nil
	}
	all := []rune(strings.TrimRight(name, "0123456789_-. "))
	for i, r := range all {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case i > 0 && unicode.IsUpper(r) && (!unicode.IsUpper(all[i-1]) || i+1 < len(all) && unicode.IsLower(all[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}
