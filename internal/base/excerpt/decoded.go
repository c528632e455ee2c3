package excerpt

import (
	"html"
	"unicode/utf16"
)

// maxEscaped is how many times a text may be escaped, one around the other: a URL in JSON in a string of
// JSON is three times.
const maxEscaped = 4

// escapes contains the characters with which escapes begin. longestEscape is the length of the longest one
// that is decoded, such as a surrogate pair or an entity of HTML with zeros.
const (
	escapes       = `%\&`
	longestEscape = 12
)

// offsets returns, for decoded, the position of each byte of a text, and of its end.
func offsets(text string) []int {
	at := make([]int, len(text)+1)
	for i := range at {
		at[i] = i
	}
	return at
}

// decoded decodes the escapes of URLs, JSON and HTML in a text, also if they are mixed, or escaped
// themselves. If at is not nil, it contains the position of each byte of the text, and of its end; the
// result then contains the same for the decoded text. What is not an escape stays, so decoded does not
// fail. If the result is as long as the text, it is the text.
func decoded(text string, at []int) (string, []int) {
	for range maxEscaped {
		before := len(text)
		if text, at = decodedOnce(text, at); len(text) == before {
			break
		}
	}
	return text, at
}

func decodedOnce(text string, at []int) (string, []int) {
	var out []byte
	var to []int
	from := 0
	for i := 0; i < len(text); {
		if c := text[i]; c != '%' && c != '\\' && c != '&' {
			i++
			continue
		}
		s, size := decode(text[i:])
		if size == 0 {
			i++
			continue
		}
		if out == nil {
			out = make([]byte, 0, len(text))
		}
		out = append(append(out, text[from:i]...), s...)
		if at != nil {
			to = append(to, at[from:i]...)
			for range len(s) {
				to = append(to, at[i])
			}
		}
		i += size
		from = i
	}
	if from == 0 {
		return text, at
	}
	if at != nil {
		to = append(to, at[from:]...)
	}
	return string(append(out, text[from:]...)), to
}

// decode decodes the escape with which s begins. size is 0 if there is none. The text is always shorter
// than the escape.
func decode(s string) (text string, size int) {
	switch s[0] {
	case '%':
		if b, ok := code(s, 1, 2); ok {
			return string([]byte{byte(b)}), 3
		}
	case '&':
		end := 1
		for end < min(len(s), longestEscape) && (s[end] == '#' || s[end] >= '0' && s[end] <= '9' || wordLetter(rune(s[end]))) {
			end++
		}
		if end < len(s) && s[end] == ';' {
			if text = html.UnescapeString(s[:end+1]); len(text) <= end {
				return text, end + 1
			}
		}
	case '\\':
		return decodeBackslash(s)
	}
	return "", 0
}

func decodeBackslash(s string) (text string, size int) {
	if len(s) < 2 {
		return "", 0
	}
	switch s[1] {
	case '"', '\'', '\\', '/':
		return s[1:2], 2
	case 'b':
		return "\b", 2
	case 'f':
		return "\f", 2
	case 'n':
		return "\n", 2
	case 'r':
		return "\r", 2
	case 't':
		return "\t", 2
	case 'x':
		if b, ok := code(s, 2, 2); ok {
			return string([]byte{byte(b)}), 4
		}
	case 'u':
		r, ok := code(s, 2, 4)
		if !ok {
			return "", 0
		}
		if low, ok := code(s, 8, 4); ok && s[6] == '\\' && s[7] == 'u' && utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, low); pair != '\uFFFD' {
				return string(pair), 12
			}
		}
		return string(r), 6
	}
	return "", 0
}

// code returns the number that n hexadecimal digits at a position of s give.
func code(s string, at, n int) (v rune, ok bool) {
	if len(s) < at+n {
		return 0, false
	}
	for _, c := range []byte(s[at : at+n]) {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v = v<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
