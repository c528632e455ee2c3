package excerpt

import (
	"strings"
	"unicode/utf8"
)

// This file searches texts for values that may be secrets. Each function whose name begins with
// next finds the same values as a regular expression in the tests, and the tests compare the
// results. The regular expressions need almost a second for a megabyte, because they examine each
// position. The functions look for a rare character first, and their time grows only with the
// length of the text.

// part has the offsets of a value in a text, and of the name of the value. name and nameEnd are 0
// if the value has no name.
type part struct{ name, nameEnd, value, end int }

// The sets of bytes that the functions in this file use.
var (
	wordBytes  = bytesOf("A-Za-z0-9_")              // the characters of a word, as for \b
	letters    = bytesOf("A-Za-z")                  // the first character of a name or a scheme
	nameBytes  = bytesOf("A-Za-z0-9_.-")            // a name before = or :
	plainBytes = bytesExcept("\t\n\f\r \"'&;,<>\\") // a value after = or :
	credBytes  = bytesOf("A-Za-z0-9._~+/=-")        // credentials after Bearer
	userBytes  = bytesExcept("\t\n\f\r /\"'@")      // the user and the password in a URL
	schemes    = bytesOf("A-Za-z0-9+.-")            // a scheme of a URL
	spaces     = bytesOf("\t\n\f\r ")               // the characters of \s
	digits     = bytesOf("0-9")
	folded     = []string{"\u017f", "\u212a"} // non-ASCII characters that equal an ASCII letter if case is ignored
)

type byteSet [256]bool

// bytesOf returns the set of the bytes in list. A minus sign between two bytes means all bytes from
// the first byte to the second.
func bytesOf(list string) *byteSet {
	var s byteSet
	for i := 0; i < len(list); i++ {
		if i+2 < len(list) && list[i+1] == '-' {
			for c := list[i]; c <= list[i+2]; c++ {
				s[c] = true
			}
			i += 2
			continue
		}
		s[list[i]] = true
	}
	return &s
}

// bytesExcept returns the set of all bytes except those in list.
func bytesExcept(list string) *byteSet {
	var s byteSet
	for c := range s {
		s[c] = strings.IndexByte(list, byte(c)) < 0
	}
	return &s
}

// skip returns the offset of the first byte of s, from at on, that is not in the set.
func (set *byteSet) skip(s string, at int) int {
	for at < len(s) && set[s[at]] {
		at++
	}
	return at
}

// boundary reports whether a word may begin at the offset at.
func boundary(s string, at int) bool { return at == 0 || !wordBytes[s[at-1]] }

// maxNamed is the largest number of characters of a name.
const maxNamed = 63

// nextJSON returns the first JSON member with a string value that begins at or after the offset
// from. It also finds members in JSON within a JSON string. The JSON may be cut off.
func nextJSON(s string, from int) (p part, ok bool) {
	for at := from; ; at++ {
		q := strings.IndexByte(s[at:], '"')
		if q < 0 {
			return p, false
		}
		at += q
		if at > from && s[at-1] == '\\' {
			if p, ok = jsonAt(s, at-1, `\"`); ok {
				return p, true
			}
		}
		if p, ok = jsonAt(s, at, `"`); ok {
			return p, true
		}
	}
}

// jsonAt returns the member whose name begins at the offset at, with the given quote. quote is ",
// or \" in JSON within a JSON string.
func jsonAt(s string, at int, quote string) (p part, ok bool) {
	p.name = at + len(quote)
	p.nameEnd = p.name
	for n := 0; ; n++ {
		if p.nameEnd >= len(s) || n > maxNamed {
			return p, false
		}
		if c := s[p.nameEnd]; c == '"' || c == '\\' {
			break
		} else if c < utf8.RuneSelf {
			p.nameEnd++
		} else {
			_, size := utf8.DecodeRuneInString(s[p.nameEnd:])
			p.nameEnd += size
		}
	}
	if p.nameEnd == p.name || !strings.HasPrefix(s[p.nameEnd:], quote) {
		return p, false
	}
	i := spaces.skip(s, p.nameEnd+len(quote))
	if i >= len(s) || s[i] != ':' {
		return p, false
	}
	if i = spaces.skip(s, i+1); !strings.HasPrefix(s[i:], quote) {
		return p, false
	}
	p.value = i + len(quote)
	never := byte('\n') // a backslash before this byte is not an escape
	if len(quote) > 1 {
		never = '"'
	}
	for p.end = p.value; p.end < len(s) && s[p.end] != '"'; p.end++ {
		if s[p.end] == '\\' {
			if p.end+1 >= len(s) || s[p.end+1] == never {
				break
			}
			p.end++
		}
	}
	return p, p.end > p.value
}

// setFinder finds parts of the form name=value in one text. It remembers where a value ends, because
// the value may contain further parts that end there.
type setFinder struct{ end int }

// next returns the first part that begins at or after the offset from. from must not decrease from
// one call to the next.
func (f *setFinder) next(s string, from int) (p part, ok bool) {
	for at := from; ; at++ {
		i := strings.IndexByte(s[at:], '=')
		if i < 0 {
			return p, false
		}
		at += i
		if p.name, ok = nameBefore(s, from, at); !ok {
			continue
		}
		p.nameEnd, p.value = at, at+1
		if p.value >= f.end {
			f.end = plainBytes.skip(s, p.value)
		}
		p.end = f.end
		// A character has at most four bytes.
		if first := s[p.value:min(p.end, p.value+4*shortest)]; len(first) >= shortest && utf8.RuneCountInString(first) >= shortest {
			return p, true
		}
		at = p.end - 1 // no other equals sign in this value is followed by enough characters
	}
}

// nextColon returns the first part of the form "name: value" that begins at or after the offset
// from. There must be a blank after the colon, and a digit in the value.
func nextColon(s string, from int) (p part, ok bool) {
	for at := from; ; at++ {
		i := strings.IndexByte(s[at:], ':')
		if i < 0 {
			return p, false
		}
		at += i
		if at+1 >= len(s) || s[at+1] != ' ' && s[at+1] != '\t' {
			continue
		}
		if p.name, ok = nameBefore(s, from, at); !ok {
			continue
		}
		p.nameEnd, p.value = at, at+1
		for p.value < len(s) && (s[p.value] == ' ' || s[p.value] == '\t') {
			p.value++
		}
		digit := false
		for p.end = p.value; p.end < len(s) && plainBytes[s[p.end]]; p.end++ {
			digit = digit || digits[s[p.end]]
		}
		if digit {
			return p, true
		}
	}
}

// nameBefore returns the beginning of the longest name that ends at the position end and does not
// begin before the position from.
func nameBefore(s string, from, end int) (at int, ok bool) {
	first := end
	for first > max(from, end-maxNamed) && nameBytes[s[first-1]] {
		first--
	}
	for at = first; at < end; at++ {
		if letters[s[at]] && boundary(s, at) {
			return at, true
		}
	}
	return at, false
}

// nextUser returns the first user information in a URL, such as user:password, that begins at or
// after the offset from.
func nextUser(s string, from int) (p part, ok bool) {
	for at := from; ; at++ {
		i := strings.Index(s[at:], "://")
		if i < 0 {
			return p, false
		}
		at += i
		first := at
		for first > from && schemes[s[first-1]] {
			first--
		}
		for first < at && !letters[s[first]] {
			first++
		}
		p.value = at + len("://")
		p.end = userBytes.skip(s, p.value)
		if first < at && p.end > p.value && p.end < len(s) && s[p.end] == '@' {
			return p, true
		}
	}
}

// nextBearer returns the first credentials after the word Bearer or Basic that begin at or after
// the offset from.
func nextBearer(s string, from int) (p part, ok bool) {
	for at := from; at < len(s); at++ {
		if s[at]|0x20 != 'b' || !boundary(s, at) {
			continue
		}
		i := schemeEnd(s, at)
		if p.value = spaces.skip(s, i); i == 0 || p.value == i {
			continue
		}
		n := 0
		for p.end = p.value; p.end < len(s); n++ {
			if credBytes[s[p.end]] {
				p.end++
			} else if size := foldedAt(s, p.end); size > 0 {
				p.end += size
			} else {
				break
			}
		}
		if n >= shortest {
			return p, true
		}
	}
	return p, false
}

// schemeEnd returns the end of the word bearer or basic, in any case, that begins at the offset at.
// It returns 0 if there is no such word.
func schemeEnd(s string, at int) int {
	for _, word := range []string{"bearer", "basic"} {
		i := at
		for j := 0; j < len(word); j++ {
			switch {
			case i < len(s) && s[i]|0x20 == word[j]:
				i++
			case word[j] == 's' && strings.HasPrefix(s[i:], folded[0]):
				i += len(folded[0])
			default:
				i = len(s) + 1
			}
			if i > len(s) {
				break
			}
		}
		if i <= len(s) {
			return i
		}
	}
	return 0
}

// foldedAt returns the length of the non-ASCII letter at the offset at, if it equals an ASCII
// letter when case is ignored. Otherwise foldedAt returns 0.
func foldedAt(s string, at int) int {
	for _, f := range folded {
		if strings.HasPrefix(s[at:], f) {
			return len(f)
		}
	}
	return 0
}
