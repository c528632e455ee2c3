package screen

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// cells measures the width of text in terminal cells. Its results do not depend on the locale of
// the process.
var cells displaywidth.Options

// Width returns the number of cells that s takes on a terminal.
func Width(s string) int { return cells.String(s) }

// Fit returns s if s fits into width cells. Otherwise it returns the beginning of s and an
// ellipsis, in at most width cells. If width is 0 or less, Fit returns s.
func Fit(s string, width int) string {
	if width <= 0 || Width(s) <= width {
		return s
	}
	return cells.TruncateString(s, width, "…")
}

// Pad appends spaces to s until the result takes at least width cells.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-Width(s)))
}

// Safe makes text from a peer safe to print on one line. It writes Go escapes in place of control
// characters, line ends, invalid UTF-8, and characters that hide or reorder text. Every kind of
// space becomes a plain space.
func Safe(s string) string { return escape(s, "") }

// SafeLines does the same as Safe, but keeps newlines and tabs.
func SafeLines(s string) string { return escape(s, "\n\t") }

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

// Wrap breaks text at spaces into lines of at most width cells. A sequence of white space
// counts as one space. A word that is wider than a line gets its own line and is not broken,
// so that people can copy it. Wrap returns nil if text has no words.
func Wrap(text string, width int) []string { return breakLines(text, width, false) }

// Break splits text into lines of at most width cells, also in the middle of a word. The lines
// together contain the whole text, unchanged. Break returns at least one line. The text must be
// safe to print; see Safe.
func Break(text string, width int) (lines []string) {
	for width > 1 && Width(text) > width {
		part := cells.TruncateString(text, width, "")
		if part == "" {
			break
		}
		lines, text = append(lines, part), text[len(part):]
	}
	return append(lines, text)
}

// breakLines does the same as Wrap. If hard is set, it also breaks words that are wider than a
// line.
func breakLines(text string, width int, hard bool) []string {
	var lines []string
	var line strings.Builder
	at := 0
	end := func() {
		if line.Len() > 0 {
			lines = append(lines, line.String())
			line.Reset()
			at = 0
		}
	}
	for word := range strings.FieldsSeq(text) {
		n := Width(word)
		if at > 0 && at+1+n > width {
			end()
		}
		for hard && n > width && width > 1 {
			part := cells.TruncateString(word, width, "")
			if part == "" {
				break
			}
			lines = append(lines, part)
			word = word[len(part):]
			n = Width(word)
		}
		if at > 0 {
			line.WriteByte(' ')
			at++
		}
		line.WriteString(word)
		at += n
	}
	end()
	return lines
}
