package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stops finds the bytes of w at which a fast scan of a string must stop: quotes, backslashes,
// control characters and non-ASCII bytes. The result has the high bit of each such byte set. Only
// the lowest set bit is reliable, because the borrow of a subtraction may set wrong bits above
// it.
func stops(w uint64) uint64 { return (quoteOrControl(w) | backslash(w)) & highs }

// quoteOrControl and backslash are the halves of stops, before the last step. After w^2, the quote and the
// control characters are the ASCII bytes below 0x21. quoteOrControl misses the non-ASCII bytes 0x80 to
// 0x9F and 0xA2, and backslash misses 0xDC, so each finds what the other misses.
func quoteOrControl(w uint64) uint64 { return (w ^ ones*2) - ones*0x21 }
func backslash(w uint64) uint64      { return (w ^ ones*'\\') - ones }

// skipPlain skips 32 bytes at a time, as long as none of them is a stop.
func skipPlain(b []byte, i int) int {
	for ; i <= len(b)-32; i += 32 {
		part := (*[32]byte)(b[i:])
		w, x := binary.LittleEndian.Uint64(part[0:]), binary.LittleEndian.Uint64(part[8:])
		y, z := binary.LittleEndian.Uint64(part[16:]), binary.LittleEndian.Uint64(part[24:])
		if (quoteOrControl(w)|quoteOrControl(x)|quoteOrControl(y)|quoteOrControl(z)|
			backslash(w)|backslash(x)|backslash(y)|backslash(z))&highs != 0 {
			break
		}
	}
	return i
}

// shortText returns the length of the string at i, including its quotes. It returns 0 if the string
// is longer than nine bytes, has an escape or a non-ASCII byte, or is too close to the end of b.
func shortText(b []byte, i int) int {
	if i+9 > len(b) {
		return 0
	}
	n := bits.TrailingZeros64(stops(binary.LittleEndian.Uint64(b[i+1:])))>>3 + 1
	if n > 8 || b[i+n] != '"' {
		return 0
	}
	return n + 1
}

// text scans the string whose opening quote is at i. It returns the offset after the closing quote,
// and whether the string has an escape. After an error, the offset is -1 and s.err is set.
func (s *scanner) text(i int) (end int, escaped bool) {
	b := s.b
	start := i
	i++
	for {
		for run := i; i+8 <= len(b); {
			m := stops(binary.LittleEndian.Uint64(b[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			if i += 8; i-run >= 64 {
				i = skipPlain(b, i)
				run = i
			}
		}
		if i >= len(b) {
			return s.fail(start, FaultString, "unterminated string"), false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, escaped
		case c == '\\':
			escaped = true
			n := escapeLen(b[i:])
			if n == 0 {
				return s.fail(i, FaultEscape, "bad escape"), false
			}
			i += n
		case c < ' ':
			return s.failByte(i), false
		case c < utf8.RuneSelf:
			i++ // fewer than eight bytes are left
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				// The fast path handles three-byte characters, the most common non-ASCII
				// characters.
				for i+4 <= len(b) {
					w := binary.LittleEndian.Uint32(b[i:])
					if w&0xC0C0F0 != 0x8080E0 || w&0xFF == 0xE0 || w&0xFF == 0xED {
						break
					}
					i += 3
				}
				if i == len(b) || b[i] < utf8.RuneSelf {
					break
				}
				n := runeLen(b[i:])
				if n == 0 {
					return s.fail(i, FaultUTF8, "invalid UTF-8"), false
				}
				i += n
			}
		}
	}
}

// runeLen returns the length of the UTF-8 encoding of the non-ASCII character at the start of
// b. It returns 0 if the encoding is malformed or overlong, or if the character is a surrogate or
// beyond U+10FFFF (RFC 3629).
func runeLen(b []byte) int {
	// The fast path handles common two-byte and three-byte sequences without a call of
	// utf8.DecodeRune.
	if len(b) >= 3 {
		switch c := b[0]; {
		case 0xC2 <= c && c <= 0xDF:
			if b[1]&0xC0 == 0x80 {
				return 2
			}
			return 0
		case 0xE1 <= c && c <= 0xEF && c != 0xED:
			if b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 {
				return 3
			}
			return 0
		}
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n <= 1 {
		return 0
	}
	return n
}

// escapeLen returns the length of the escape at the start of b, or 0 if it is malformed. A
// surrogate pair counts as one escape. Half of a pair also counts as an escape. The JSON grammar
// allows such a half (RFC 8259 §8.2). JavaScript and Python write one if they cut a text in the
// middle of a character.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		r := hex4(b[2:])
		switch {
		case r < 0:
			return 0
		case !utf16.IsSurrogate(r):
			return 6
		case len(b) >= 12 && b[6] == '\\' && b[7] == 'u' && utf16.DecodeRune(r, hex4(b[8:])) != utf8.RuneError:
			return 12
		}
		return 6
	}
	return 0
}

// hex4 returns the value of the four hexadecimal digits at the start of b, or -1 if there are fewer
// than four.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendText decodes a JSON string without its quotes and appends the text to dst. Half of a
// surrogate pair becomes the three bytes that UTF-8 would use if the half were a character. Valid
// text never contains these three bytes, so two different strings never become the same text. The
// backslash of a malformed escape becomes U+FFFD. Other bytes that Scan refuses stay unchanged.
func appendText(dst, inside []byte) []byte {
	for i := 0; i < len(inside); {
		c := inside[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		n := escapeLen(inside[i:])
		switch n {
		case 0:
			dst = utf8.AppendRune(dst, utf8.RuneError)
			i++
			continue
		case 2:
			dst = append(dst, unescape(inside[i+1]))
		case 6:
			dst = appendUnit(dst, hex4(inside[i+2:]))
		case 12:
			dst = utf8.AppendRune(dst, utf16.DecodeRune(hex4(inside[i+2:]), hex4(inside[i+8:])))
		}
		i += n
	}
	return dst
}

// appendUnit appends a UTF-16 code unit, which may be half of a surrogate pair.
func appendUnit(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xED, byte(0x80|r>>6&0x3F), byte(0x80|r&0x3F))
	}
	return utf8.AppendRune(dst, r)
}

// halfAt returns the half of a surrogate pair that is encoded at the start of s[i:], or 0 if there
// is none.
func halfAt(s string, i int) rune {
	if i+3 > len(s) || s[i] != 0xED || s[i+1]&0xE0 != 0xA0 || s[i+2]&0xC0 != 0x80 {
		return 0
	}
	return 0xD000 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F)
}

// Shown replaces each half of a surrogate pair in s by U+FFFD. The results of Text may contain such
// halves.
func Shown(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if halfAt(s, i) != 0 {
			out = append(out, "\uFFFD"...)
			i += 3
			continue
		}
		out = append(out, s[i])
		i++
	}
	return string(out)
}

func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// AppendQuote appends s as a JSON string with only the escapes that RFC 8259 §7 requires. Half of a
// surrogate pair, which Text may return, is written as an escape. Other invalid UTF-8 becomes
// U+FFFD.
func AppendQuote(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[from:i]...)
				if half := halfAt(s, i); half != 0 {
					dst = append(dst, '\\', 'u', 'd', digits[half>>8&15], digits[half>>4&15], digits[half&15])
					n = 3
				} else {
					dst = append(dst, "\uFFFD"...)
				}
				from = i + n
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
