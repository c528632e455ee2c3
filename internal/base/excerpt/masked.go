package excerpt

import (
	"bytes"
	"encoding/json"
	"strings"
)

// MaskJSON returns raw, which is JSON or a text with JSON from a peer, with its secrets masked. clean
// masks known secrets in a text. MaskJSON also finds a secret that is written with escapes, or that is
// in JSON within a string. The JSON may be cut off.
func MaskJSON(raw string, clean func(string) string) string {
	return clean(cleanEscaped(clean, raw, maxNested))
}

// maskReach is the number of bytes at the end of a cut message that are not shown. A secret at the
// end may be incomplete, and then it could not be recognised.
const maskReach = 512

// MaskHead does the same as MaskJSON for b, the beginning of a message, and also masks what looks
// like a secret. size is the size of the whole message. If b is not the whole message, MaskHead
// leaves out the end of b.
func MaskHead(b []byte, size int, clean func(string) string) string {
	if size > len(b) {
		b = b[:max(0, len(b)-maskReach)]
	}
	return MaskSecrets(MaskJSON(string(b), clean))
}

// maxNested bounds how deeply JSON within strings of JSON is searched for secrets.
const maxNested = 4

// cleanEscaped masks secrets in the strings of raw JSON that have escapes, and in JSON within such
// strings. clean alone does not find a secret that is written with escapes. Strings without a
// secret do not change. The JSON may be cut off. The caller still has to apply clean to the result.
func cleanEscaped(clean func(string) string, raw string, depth int) string {
	if depth == 0 || !strings.Contains(raw, `\`) {
		return raw
	}
	var out strings.Builder
	from := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		start := i + 1
		for i = start; i < len(raw) && raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		end := min(i, len(raw))
		inside := raw[start:end]
		if !strings.Contains(inside, `\`) {
			continue
		}
		text, ok := unescaped(inside)
		if !ok {
			continue
		}
		if masked := clean(cleanEscaped(clean, text, depth-1)); masked != text {
			out.WriteString(raw[from:start])
			out.WriteString(escaped(masked))
			from = end
		}
	}
	return out.String() + raw[from:]
}

// escaped returns s encoded as a JSON string, but without the quotes.
func escaped(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	quoted := bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
	return string(quoted[1 : len(quoted)-1])
}

// unescaped decodes the text between the quotes of a JSON string. If this text was cut off within
// an escape, unescaped leaves the escape out.
func unescaped(inside string) (text string, ok bool) {
	const longest = len(`\u00e`)
	for cut := 0; cut <= min(longest, len(inside)); cut++ {
		if json.Unmarshal([]byte(`"`+inside[:len(inside)-cut]+`"`), &text) == nil {
			return text, true
		}
	}
	return "", false
}
