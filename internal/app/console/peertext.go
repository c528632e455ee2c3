package console

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Limits for text from a peer on a page.
const (
	peerLimit = 400  // the maximum number of characters of text on one line
	peerLines = 4096 // the maximum number of characters of text on several lines
	mostMarks = 4    // the maximum number of combining marks on one character
	mostBoxes = 12   // the maximum number of consecutive boxes
)

// peer returns text from a client or a server as HTML that is safe to show, in a bdi element. It
// replaces each invisible character by a box with the character's name. It does the same with
// characters that change the order of other characters. It cuts the text after 400 characters.
func peer(text string) template.HTML { return peerText(text, peerLimit, false) }

// peerBlock is like peer, but for text on several lines in a pre element. It keeps line breaks and
// tabs.
func peerBlock(text string) template.HTML { return peerText(text, peerLines, true) }

// peerText returns at most limit characters of text as HTML, as peer describes. If lines is true,
// it keeps line breaks and tabs.
func peerText(text string, limit int, lines bool) template.HTML {
	var b strings.Builder
	b.WriteString("<bdi>")
	marks, boxes, shown := 0, 0, 0
	var skippedMarks, skippedBoxes int
	flush := func() {
		if skippedMarks > 0 {
			fmt.Fprintf(&b, `<span class="inv" title="combining marks">+%d</span>`, skippedMarks)
		}
		if skippedBoxes > 0 {
			fmt.Fprintf(&b, `<span class="inv" title="more invisible characters">+%d</span>`, skippedBoxes)
		}
		skippedMarks, skippedBoxes = 0, 0
	}
	var before rune
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		char := text[i : i+size]
		i += size
		switch {
		case r == utf8.RuneError && size == 1:
			boxes = box(&b, boxes, &skippedBoxes, fmt.Sprintf("x%02X", char[0]), "a byte that is not UTF-8")
		case lines && (r == '\n' || r == '\t'):
			flush()
			b.WriteString(char)
			boxes, marks = 0, 0
		case unicode.In(r, unicode.Mn, unicode.Me) && !excerpt.Invisible(r, before):
			if marks++; marks > mostMarks {
				skippedMarks++
				break
			}
			b.WriteString(char)
		case excerpt.Invisible(r, before):
			label, name := labelOf(r)
			boxes = box(&b, boxes, &skippedBoxes, label, name)
		default:
			flush()
			b.WriteString(template.HTMLEscapeString(char))
			boxes, marks = 0, 0
		}
		before = r
		if shown++; shown == limit && i < len(text) {
			flush()
			fmt.Fprintf(&b, `<span class="faint" title="%d more bytes">…</span>`, len(text)-i)
			break
		}
	}
	flush()
	b.WriteString("</bdi>")
	return template.HTML(b.String())
}

// box writes a box for a character, and returns the new number of consecutive boxes. If boxes is
// mostBoxes already, box only increments skipped.
func box(b *strings.Builder, boxes int, skipped *int, label, name string) int {
	if boxes >= mostBoxes {
		*skipped++
		return boxes
	}
	fmt.Fprintf(b, `<span class="inv" title="%s">%s</span>`, name, label)
	return boxes + 1
}

var charNames = map[rune][2]string{
	0: {"NUL", "null"}, 7: {"BEL", "bell"}, 8: {"BS", "backspace"}, 9: {"TAB", "tab"}, 10: {"LF", "line feed"},
	13: {"CR", "carriage return"}, 0x1b: {"ESC", "escape"}, 0x7f: {"DEL", "delete"}, 0xa0: {"NBSP", "no-break space"},
	0xad: {"SHY", "soft hyphen"}, 0x200b: {"U+200B", "zero width space"}, 0x200c: {"U+200C", "zero width non-joiner"},
	0x200d: {"U+200D", "zero width joiner"}, 0x200e: {"U+200E", "left-to-right mark"}, 0x200f: {"U+200F", "right-to-left mark"},
	0x2028: {"U+2028", "line separator"}, 0x2029: {"U+2029", "paragraph separator"}, 0x202a: {"U+202A", "left-to-right embedding"},
	0x202b: {"U+202B", "right-to-left embedding"}, 0x202c: {"U+202C", "end of embedding"}, 0x202d: {"U+202D", "left-to-right override"},
	0x202e: {"U+202E", "right-to-left override"}, 0x2060: {"U+2060", "word joiner"}, 0x2066: {"U+2066", "left-to-right isolate"},
	0x2067: {"U+2067", "right-to-left isolate"}, 0x2068: {"U+2068", "first strong isolate"}, 0x2069: {"U+2069", "end of isolate"},
	0xfeff: {"U+FEFF", "byte order mark"},
}

// labelOf returns the text for the box of the character r, and the name of r.
func labelOf(r rune) (label, name string) {
	if x, ok := charNames[r]; ok {
		return x[0], x[1]
	}
	label = fmt.Sprintf("U+%04X", r)
	switch {
	case r >= 0xe0020 && r <= 0xe007e:
		return label, "tag character for " + template.HTMLEscapeString(string(r-0xe0000))
	case unicode.IsControl(r):
		return label, "control character"
	case unicode.Is(unicode.Zs, r):
		return label, "space"
	case unicode.Is(unicode.Co, r):
		return label, "private use"
	}
	return label, "invisible character"
}
