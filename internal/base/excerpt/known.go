package excerpt

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Credential reports whether a value looks like a credential, whatever its name is: it contains an
// apparent secret (see Secrets), or a long mix of letters and digits. Words, paths, hosts, dates and
// versions are no credentials.
func Credential(value string) bool {
	if MaskSecrets(value) != value {
		return true
	}
	if len(value) < 16 || strings.ContainsAny(value, " \t\r\n") || strings.Contains(value, "://") || strings.ContainsAny(value[:1], "/~.") || value[1] == ':' {
		return false
	}
	return slices.ContainsFunc(strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("-_.:/,=\\", r) }), mixed)
}

// mixed reports whether a part of a value is too irregular for a word or a number.
func mixed(part string) bool {
	return len(part) >= 8 && strings.ContainsAny(part, "0123456789") && strings.ContainsFunc(part, func(r rune) bool { return r > '9' })
}

// encodable is the minimum length in bytes of a secret whose encoded forms are known. The encoded
// form of a shorter secret occurs in other texts by chance.
const encodable = 8

// MaskKnown returns a function that puts Mask in place of each known secret in a text, in all of its
// Spellings.
func MaskKnown(secrets []string) func(text string) string {
	all := Spellings(secrets)
	return func(text string) string {
		for _, secret := range all {
			text = ReplaceKnown(text, secret, func(string) string { return Mask })
		}
		return text
	}
}

// Spellings returns known secrets and the other forms in which a peer may repeat them: in a URL, in
// base64, also as a part of a longer text such as user:password, and each of these with the escapes of
// JSON. The longest text comes first, so that a secret is masked completely even if its beginning is
// another secret.
func Spellings(secrets []string) []string {
	var all []string
	for _, secret := range secrets {
		all = append(all, spellings(secret)...)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	return slices.Compact(all)
}

func spellings(secret string) []string {
	all := encodings(secret)
	for _, text := range all {
		all = append(all, inJSON(text)...)
	}
	return all
}

// encodings returns a secret and its forms in URLs and in base64.
func encodings(secret string) []string {
	all := []string{secret}
	if len(secret) < encodable {
		return all
	}
	all = append(all, url.QueryEscape(secret), url.PathEscape(secret))
	for before := range 3 {
		// Three bytes become four characters. The characters that also depend on the bytes before or
		// after the secret are left out.
		padded := append(make([]byte, before), secret...)
		skip, rest := (before*8+5)/6, len(padded)*8/6
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, alphabet.EncodeToString(padded)[skip:rest])
		}
	}
	return all
}

// jsonStyle says how an encoder writes the characters in a JSON string that it may write in several ways.
type jsonStyle struct {
	codes string // the characters that are written as \u and a code
	slash bool   // whether a slash is written as \/
	ascii bool   // whether characters beyond ASCII are written as \u and a code
	upper bool   // whether the codes have capital letters
}

// jsonStyles are the styles of common encoders.
var jsonStyles = []jsonStyle{
	{},                              // JavaScript, Rust
	{slash: true},                   // C++
	{codes: "&<>"},                  // Go
	{codes: "&<>'="},                // Gson
	{ascii: true},                   // Python
	{ascii: true, slash: true},      // PHP
	{ascii: true, upper: true},      // Jackson
	{"&<>'\"+`", false, true, true}, // .NET
}

// inJSON returns the forms of a text in JSON strings, also in JSON within a JSON string, if they
// differ from the text.
func inJSON(text string) (all []string) {
	plain := func(r rune) bool { return r >= ' ' && r < utf8.RuneSelf && !strings.ContainsRune("\\/&<>'=\"+`", r) }
	if !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return nil
	}
	for _, style := range jsonStyles {
		if once := style.escape(text); once != text {
			all = append(all, once, style.escape(once))
		}
	}
	return all
}

// escape returns text as it is written between the quotes of a JSON string.
func (j jsonStyle) escape(text string) string {
	code := "\\u%04x"
	if j.upper {
		code = "\\u%04X"
	}
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	if j.slash {
		short['/'] = `\/`
	}
	var out strings.Builder
	for _, r := range text {
		switch s := short[r]; {
		case strings.ContainsRune(j.codes, r), j.ascii && r >= utf8.RuneSelf, r < ' ' && s == "":
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&out, code, unit)
			}
		case s != "":
			out.WriteString(s)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// ReplaceKnown returns text with each occurrence of a known secret replaced by with(secret). A secret
// that may be a word, such as "server", is replaced only where it is not a part of a longer word.
func ReplaceKnown(text, secret string, with func(secret string) string) string {
	if secret == "" || !strings.Contains(text, secret) {
		return text
	}
	word := len(secret) < 16 && !strings.ContainsFunc(secret, func(r rune) bool { return !wordLetter(r) })
	var out strings.Builder
	from := 0
	for at := 0; ; {
		i := strings.Index(text[at:], secret)
		if i < 0 {
			break
		}
		i += at
		end := i + len(secret)
		if word && (i > 0 && wordLetter(rune(text[i-1])) || end < len(text) && wordLetter(rune(text[end]))) {
			at = i + 1
			continue
		}
		out.WriteString(text[from:i])
		out.WriteString(with(secret))
		from, at = end, end
	}
	out.WriteString(text[from:])
	return out.String()
}

func wordLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
