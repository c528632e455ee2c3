package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes text from a peer safe to print on one line. It escapes control characters,
// and characters that hide or reorder the text next to them.
func clean(s string) string { return escape(s, "") }

// cleanLines does the same as clean, but keeps newlines and tabs.
func cleanLines(s string) string { return escape(s, "\n\t") }

func escape(s, keep string) string {
	ok := func(r rune) bool {
		return unicode.IsPrint(r) && r != utf8.RuneError || strings.ContainsRune(keep, r)
	}
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case ok(r) || r == utf8.RuneError:
			b.WriteRune(r)
		case unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// fit cuts text to at most width characters. A width of 0 or less does not cut.
func fit(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	return string(r[:width-1]) + "…"
}

// bytesOf formats a number of bytes for people.
func bytesOf(n int) string {
	switch {
	case n < 1000:
		return strconv.Itoa(n) + " bytes"
	case n < 1_000_000:
		return strconv.Itoa((n+500)/1000) + " kB"
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB"
}
