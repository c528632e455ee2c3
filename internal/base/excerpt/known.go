package excerpt

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
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

// encodable is the minimum length in bytes of a secret whose base64 forms are known. The base64 form of a
// shorter secret occurs in other texts by chance.
const encodable = 8

// Known finds known secrets in texts, in all forms in which a peer usually repeats them: with the escapes
// of URLs, JSON or HTML, with escapes of escapes, and in base64, also as a part of a longer text such as
// user:password, and in base64 of base64. Call NewKnown to create one; nil knows no secrets. A Known is safe
// for concurrent use.
type Known struct {
	// forms contains the secrets and their base64 forms, without escapes, longest first, so that a
	// secret is found completely even if its beginning is another secret.
	forms []string
	// starting contains the forms by the first startSize bytes, and maybe has a bit for the hash of each of
	// them. So a text without secrets is read once, however many forms there are.
	starting map[uint32][]string
	maybe    [1 << 16 / 64]uint64
}

// startSize is the number of bytes that begin a form in Known.starting.
const startSize = 4

func hash(start uint32) uint16 { return uint16(start * 2654435761 >> 16) }

// NewKnown returns the Known of some secrets.
func NewKnown(secrets []string) *Known {
	var all []string
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		once := base64s(secret)
		all = append(append(all, secret, strings.ReplaceAll(secret, " ", "+")), once...)
		for _, text := range once {
			all = append(all, base64s(text)...)
		}
		// A secret may itself have something that looks like an escape, which is decoded in a text.
		if plain, _ := decoded(secret, nil); len(plain) >= shortest {
			all = append(all, plain)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	k := &Known{forms: slices.Compact(all), starting: map[uint32][]string{}}
	for _, form := range k.forms {
		if len(form) >= startSize {
			start := binary.LittleEndian.Uint32([]byte(form))
			k.starting[start] = append(k.starting[start], form)
			k.maybe[hash(start)/64] |= 1 << (hash(start) % 64)
		}
	}
	return k
}

// base64s returns a text in base64, with each number of bytes before it.
func base64s(text string) (all []string) {
	if len(text) < encodable {
		return nil
	}
	for before := range 3 {
		// Three bytes become four characters. The characters that also depend on the bytes before or
		// after the text are left out.
		padded := append(make([]byte, before), text...)
		skip, rest := (before*8+5)/6, len(padded)*8/6
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			all = append(all, alphabet.EncodeToString(padded)[skip:rest])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// MaskKnown returns a function that puts Mask in place of each known secret in a text; see Known.
func MaskKnown(secrets []string) func(text string) string {
	k := NewKnown(secrets)
	return func(text string) string { return k.Replace(text, func(string) string { return Mask }) }
}

// Replace returns text with each known secret replaced by with(secret), which gets the secret as it is
// written there.
func (k *Known) Replace(text string, with func(secret string) string) string {
	if k == nil {
		return text
	}
	text = k.replace(text, with)
	plain, _ := decoded(text, nil)
	if len(plain) == len(text) || !k.in(plain) {
		return text
	}
	plain, at := decoded(text, offsets(text))
	left := k.replace(plain, func(secret string) string { return strings.Repeat("\x00", len(secret)) })
	var out strings.Builder
	from := 0
	for i := 0; i < len(plain); i++ {
		start := i
		for i < len(plain) && left[i] != plain[i] {
			i++
		}
		if start < i {
			out.WriteString(text[from:at[start]])
			out.WriteString(with(text[at[start]:at[i]]))
			from = at[i]
		}
	}
	return out.String() + text[from:]
}

// in reports whether a text contains a form of a secret.
func (k *Known) in(text string) bool {
	for i := len(k.forms); i > 0 && len(k.forms[i-1]) < startSize; i-- {
		if strings.Contains(text, k.forms[i-1]) {
			return true
		}
	}
	var start uint32
	for i := range len(text) {
		start = start>>8 | uint32(text[i])<<24
		n := hash(start)
		if k.maybe[n/64]&(1<<(n%64)) == 0 || i < startSize-1 {
			continue
		}
		for _, form := range k.starting[start] {
			if strings.HasPrefix(text[i+1-startSize:], form) {
				return true
			}
		}
	}
	return false
}

// replace does the same as Replace for secrets that are written without escapes.
func (k *Known) replace(text string, with func(secret string) string) string {
	if !k.in(text) {
		return text
	}
	for _, form := range k.forms {
		text = replaceForm(text, form, with)
	}
	return text
}

// Cut returns the position in a text that was cut off at which the beginning of a known secret starts, of
// at least the given number of bytes. If there is none, it returns the length of the text.
func (k *Known) Cut(text string, least int) int {
	if k == nil || len(k.forms) == 0 {
		return len(text)
	}
	from := max(0, len(text)-longestEscape*len(k.forms[0]))
	plain, at := decoded(text[from:], offsets(text[from:]))
	ends := []int{len(plain)}
	if i := strings.LastIndexAny(plain, escapes); i >= 0 && i > len(plain)-longestEscape {
		ends = append(ends, i) // the last escape may have been cut off
	}
	found := len(text)
	for _, end := range ends {
		for _, form := range k.forms {
			for n := min(len(form)-1, end); n >= least; n-- {
				if strings.HasSuffix(plain[:end], form[:n]) {
					found = min(found, from+at[end-n])
					break
				}
			}
		}
	}
	return found
}

// replaceForm returns text with each occurrence of a form of a secret replaced by with(form). A secret that
// may be a word, such as "server", is replaced only where it is not a part of a longer word.
func replaceForm(text, form string, with func(secret string) string) string {
	if !strings.Contains(text, form) {
		return text
	}
	word := len(form) < 16 && !strings.ContainsFunc(form, func(r rune) bool { return !wordLetter(r) })
	var out strings.Builder
	from := 0
	for at := 0; ; {
		i := strings.Index(text[at:], form)
		if i < 0 {
			break
		}
		i += at
		end := i + len(form)
		if word && (i > 0 && wordLetter(rune(text[i-1])) || end < len(text) && wordLetter(rune(text[end]))) {
			at = i + 1
			continue
		}
		out.WriteString(text[from:i])
		out.WriteString(with(form))
		from, at = end, end
	}
	out.WriteString(text[from:])
	return out.String()
}

func wordLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
