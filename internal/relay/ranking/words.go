package ranking

import (
	"unicode"
	"unicode/utf8"
)

// Bounds of what is read of one text. A word that is longer is cut, and what follows the last word is not
// read.
const (
	maxWord  = 48 // bytes
	maxWords = 3000
)

// A splitter finds the words of a text: runs of letters and digits, in lower case. Chinese, Japanese and
// Korean have no spaces, so there it yields each two neighbouring characters. With parts, it also yields the
// parts of a word in which case or digits change, as in a name: listIssues is listissues, list and issues.
// It's reused, so that reading thousands of texts needs no memory.
type splitter struct {
	parts bool
	yield func(word []byte, part bool) // word is valid until yield returns, and must not be modified
	left  int

	word []byte // the word so far, in lower case
	cuts []int  // where parts begin in word, except at 0
	last class  // of the character before
	wide rune   // the CJK character before, or 0
	run  int    // how many CJK characters have followed each other
}

type class uint8

const (
	none class = iota
	lower
	upper
	digit
	other // a letter without case
)

func (s *splitter) split(text string) {
	s.left = maxWords
	for i := 0; i < len(text) && s.left > 0; {
		c := text[i]
		if c < utf8.RuneSelf {
			s.byte(c, text, i)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		s.rune(r)
		i += n
	}
	s.end()
}

// byte takes an ASCII character. Most are, so it's kept short.
func (s *splitter) byte(c byte, text string, i int) {
	switch {
	case 'a' <= c && c <= 'z':
		if s.last == digit {
			s.cut()
		}
		s.add(c, lower)
	case 'A' <= c && c <= 'Z':
		// HTMLParser is HTML and Parser: an upper-case letter also begins a part if a lower-case one
		// follows. The plural of an abbreviation, as in URLs, is no such part.
		next := i+1 < len(text) && 'a' <= text[i+1] && text[i+1] <= 'z'
		plural := next && text[i+1] == 's' && (i+2 == len(text) || !isLetter(text[i+2]))
		if s.last == lower || s.last == digit || s.last == upper && next && !plural {
			s.cut()
		}
		s.add(c|0x20, upper)
	case '0' <= c && c <= '9':
		if s.last == lower || s.last == upper {
			s.cut()
		}
		s.add(c, digit)
	case c == '\'' && s.last == lower && i+1 < len(text) && isLetter(text[i+1]):
		// don't is dont, and server's is servers
	default:
		s.end()
	}
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func (s *splitter) add(c byte, as class) {
	if s.run > 0 {
		s.end()
	}
	if len(s.word) < maxWord {
		s.word = append(s.word, c)
	}
	s.last = as
}

func (s *splitter) cut() {
	if n := len(s.word); n > 0 && n < maxWord {
		s.cuts = append(s.cuts, n)
	}
}

func (s *splitter) rune(r rune) {
	switch {
	case r == '’':
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		s.cjk(r)
	case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
		if s.run > 0 {
			s.end()
		}
		as := other
		if unicode.IsUpper(r) {
			as = upper
		} else if unicode.IsLower(r) {
			as = lower
		}
		if as == upper && s.last == lower {
			s.cut()
		}
		if len(s.word) < maxWord {
			s.word = utf8.AppendRune(s.word, unicode.ToLower(r))
		}
		s.last = as
	default:
		s.end()
	}
}

// cjk yields the last character and this one.
func (s *splitter) cjk(r rune) {
	if s.run == 0 {
		s.end()
	} else {
		s.emit(utf8.AppendRune(utf8.AppendRune(s.word[:0], s.wide), r), false)
	}
	s.wide = r
	s.run++
}

// end yields the word that ends here, if there is one.
func (s *splitter) end() {
	switch {
	case s.run == 1:
		s.emit(utf8.AppendRune(s.word[:0], s.wide), false)
	case s.run == 0 && len(s.word) > 0:
		s.emit(s.word, false)
		if s.parts && len(s.cuts) > 0 {
			from := 0
			for _, to := range append(s.cuts, len(s.word)) {
				if to-from > 1 {
					s.emit(s.word[from:to], true)
				}
				from = to
			}
		}
	}
	s.word, s.cuts, s.last, s.wide, s.run = s.word[:0], s.cuts[:0], none, 0, 0
}

func (s *splitter) emit(word []byte, part bool) {
	if s.left > 0 {
		s.left--
		s.yield(word, part)
	}
}
