package excerpt

import "unicode"

// Invisible reports whether the character r is invisible or changes how other characters are shown.
// before is the preceding character.
func Invisible(r, before rune) bool {
	switch {
	case r == ' ':
		return false
	case r == 0xfe0f: // variation selector 16: shows the preceding symbol as an emoji
		return !unicode.In(before, unicode.So, unicode.Sm, unicode.Po, unicode.Nd)
	case r >= 0xfe00 && r <= 0xfe0e, r >= 0xe0000 && r <= 0xe0fff, r == 0x34f, r == 0x180b, r == 0x180c, r == 0x180d, r == 0x180f,
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, r == 0x2800, r == 0x17b4, r == 0x17b5:
		return true
	case unicode.Is(unicode.Zs, r):
		return true
	}
	return !unicode.IsGraphic(r)
}
