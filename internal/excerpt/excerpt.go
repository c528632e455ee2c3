// Package excerpt makes text that somebody else wrote fit to be repeated in ours:
// in an answer, a log, a trace or a question to a person.
//
// Cut only bounds it. Line and Lines also take out whatever a terminal would act
// on, or that hides or turns round what stands beside it: such text is for people
// to read, and is not what the other side has said, byte for byte. Secrets and
// SecretName find what should not be repeated at all; they know forms and names,
// and no secret that has neither.
//
// It knows no protocol, keeps no state and is safe for concurrent use. Every limit
// is in bytes, includes the dots that say that something is missing, and is at
// least the length of these, three.
package excerpt

import (
	"strings"
	"unicode"
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
