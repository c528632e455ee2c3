// Package excerpt makes text from a peer safe to repeat in Dragoman's own text: in an answer, a
// log, a trace or a question to a user.
//
// Cut only limits the length. Line and Lines also remove characters that control a terminal, and
// characters that hide or reverse nearby text. The result is for people, and may differ from the
// bytes that the peer sent. Quote adds quotes, so that the text cannot be mistaken for Dragoman's
// own. Messages that repeat text from a peer use Quote. JSON makes JSON safe for a terminal without
// changing its meaning. Secrets and SecretName find text that should not be repeated at all. They
// recognise known forms and names of secrets, and cannot find other secrets.
//
// The package does not depend on a protocol, keeps no state and is safe for concurrent use. Every
// limit is in bytes and includes the ellipsis that marks missing text. A limit must be at least
// three, the length of the ellipsis.
package excerpt

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const dots = "…"

// Cut returns s if it is not longer than the limit. Otherwise it returns the beginning of s and an
// ellipsis, with as many whole characters as the limit allows.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len(dots)
	// Text that is not UTF-8 may be cut anywhere, so check only a few bytes.
	for back := 0; back < utf8.UTFMax && end > 0 && !utf8.RuneStart(s[end]); back++ {
		end--
	}
	return s[:end] + dots
}

// Line returns s on one line. Each run of spaces, line ends, control characters, direction
// changes and invalid UTF-8 becomes one space. Leading and trailing spaces are removed.
func Line(s string, limit int) string { return clean(s, limit, false) }

// Lines does the same as Line for text of several lines, but keeps line ends, tabs and spaces.
func Lines(s string, limit int) string { return clean(s, limit, true) }

// Quote returns Line(s, limit) in double quotes. Quotes in s are escaped, so that s cannot end the
// quotation. The limit applies to the text inside the quotes, before it is escaped.
func Quote(s string, limit int) string { return strconv.Quote(Line(s, limit)) }

// Word returns Line(s, limit) if the result is a single plain word, such as a name, a MIME type or
// a URI. Such a word cannot be mistaken for a sentence of Dragoman. Otherwise Word returns Quote(s,
// limit).
func Word(s string, limit int) string {
	l := Line(s, limit)
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || r > ' ' && r < utf8.RuneSelf && !strings.ContainsRune("\"'`\\", r) || r == '…'
	}
	if l == "" || strings.ContainsFunc(l, func(r rune) bool { return !plain(r) }) {
		return strconv.Quote(l)
	}
	return l
}

// JSON returns the JSON text b with every character that controls a terminal replaced by a \u
// escape: C1 controls, direction changes and invisible characters. In JSON, these characters can
// occur only in strings, where an escape has the same meaning. Line ends stay. If nothing changes,
// JSON returns b itself.
func JSON(b []byte) []byte {
	var out []byte
	from := 0
	for i := 0; i < len(b); {
		if c := b[i]; c < utf8.RuneSelf {
			if c != 0x7f {
				i++
				continue
			}
		}
		r, size := utf8.DecodeRune(b[i:])
		if unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) {
			i += size
			continue
		}
		out = append(out, b[from:i]...)
		if r1, r2 := utf16.EncodeRune(r); r1 != utf8.RuneError {
			out = fmt.Appendf(out, `\u%04x\u%04x`, r1, r2)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
		from = i
	}
	if from == 0 {
		return b
	}
	return append(out, b[from:]...)
}

func clean(s string, limit int, lines bool) string {
	var b strings.Builder
	fits := 0 // how many bytes of b fit into the limit together with an ellipsis
	space := false
	for _, r := range s {
		keep := lines && (r == '\n' || r == '\t')
		if !keep && (!lines && unicode.IsSpace(r) || !unicode.IsPrint(r) || r == utf8.RuneError) {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
		switch n := b.Len(); {
		case n > limit:
			return b.String()[:fits] + dots
		case n <= limit-len(dots):
			fits = n
		}
	}
	return b.String()
}

// Name makes a peer's name or a method safe for a log line or a label: at most 64
// characters, with control and invisible characters replaced.
func Name(s string) string {
	const most = 64
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if len(out) == most {
			out = append(out, '…')
			break
		}
		if r < ' ' || r == 0x7f || r == 0xfffd || (r >= 0x80 && r < 0xa0) || (r >= 0x200b && r <= 0x200f) || (r >= 0x2028 && r <= 0x202e) || (r >= 0x2060 && r <= 0x206f) || r >= 0xe0000 {
			r = '_'
		}
		out = append(out, r)
	}
	return string(out)
}
