// Package excerpt makes text that somebody else wrote fit to be repeated in ours: in an
// answer, a log, a trace or a question to a person.
//
// Cut only limits its length. Line and Lines also remove everything that a terminal
// would act on, and characters that hide or reverse the text beside them. The result is
// for people to read: it is not byte for byte what the other side said. Quote also puts
// it in quotes, so that it cannot be taken for our words; our messages repeat a peer's
// words in that form. JSON makes JSON safe for a terminal without changing its meaning.
// Secrets and SecretName find text that should not be repeated at all. They go by known
// forms and names, and miss secrets that have neither.
//
// It knows no protocol, keeps no state and is safe for concurrent use. Every limit is
// in bytes, includes the dots that say that something is missing, and is at least the
// length of these, three.
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

// Cut returns s, or as many whole characters from its beginning as fit.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len(dots)
	// What is not UTF-8 may be cut anywhere, so that this looks back a few bytes only.
	for back := 0; back < utf8.UTFMax && end > 0 && !utf8.RuneStart(s[end]); back++ {
		end--
	}
	return s[:end] + dots
}

// Line returns s on one line: each run of spaces, line ends, controls, changes of
// direction and broken UTF-8 is one space, and none at either end.
func Line(s string, limit int) string { return clean(s, limit, false) }

// Lines is Line for text of several lines: line ends, tabs and spaces stay.
func Lines(s string, limit int) string { return clean(s, limit, true) }

// Quote returns Line of s in double quotes. Quotes within it are escaped, so that s
// cannot end the quotation. The limit is that of Line.
func Quote(s string, limit int) string { return strconv.Quote(Line(s, limit)) }

// Word returns Line of s where that is one plain word, such as a name, a MIME type or
// a URI: a word alone cannot be taken for a sentence of ours. Anything else is Quote
// of s.
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

// JSON returns b, a JSON text, with every character that a terminal would act on
// written as \u escapes: controls of C1, changes of direction, what is invisible. They
// can stand only within strings, where an escape means the same. Line ends stay, and
// b itself is returned where nothing is to be done.
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
	fits := 0 // how much of b there is room for beside the dots
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

// Name makes what a peer calls itself, or a method, fit for a log line or a label: at most
// 64 characters, control and invisible characters replaced.
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
