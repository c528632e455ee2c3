package jsonrpc

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math/bits"
	"strings"
)

// The functions in this file require that raw was scanned, and do not check it again. With other
// input they return wrong results, but do not panic or loop forever. They treat a Span outside raw
// as absent.

// Find returns the value of the member whose name equals key in the object obj of raw. The result
// is absent if there is no such member, or if obj is absent or not an object.
func Find(raw []byte, obj Span, key string) Span {
	w := walkObject(raw, obj)
	for w.next() {
		if keyIs(w.b, w.key, key) {
			return w.value
		}
	}
	return Span{}
}

// FindAll finds several keys in one pass and sets out[i] to the value of keys[i]. out must be as
// long as keys. All keys must be different.
func FindAll(raw []byte, obj Span, keys []string, out []Span) {
	clear(out)
	w := walkObject(raw, obj)
	for left := len(keys); left > 0 && w.next(); {
		for i, key := range keys {
			if keyIs(w.b, w.key, key) {
				if out[i].IsZero() {
					left--
				}
				out[i] = w.value
				break
			}
		}
	}
}

// Members yields the members of the object obj in order. It yields nothing if obj is absent or not
// an object.
func Members(raw []byte, obj Span) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		w := walkObject(raw, obj)
		for w.next() {
			if !yield(Member{Key: w.key, Value: w.value}) {
				return
			}
		}
	}
}

// Elements yields the elements of the array arr in order. It yields nothing if arr is absent or not
// an array.
func Elements(raw []byte, arr Span) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		w := walk(raw, arr, '[')
		for w.nextValue() {
			if !yield(w.value) {
				return
			}
		}
	}
}

// KindOf returns the kind of the JSON value at s. The kind is the first byte of the value: '{',
// '[', '"', 't', 'f' or 'n'. For a number, the kind is '0'. KindOf returns 0 if s is absent or no
// value begins there.
func KindOf(raw []byte, s Span) byte {
	if !within(raw, s) {
		return 0
	}
	switch c := raw[s.Start]; {
	case c == '{', c == '[', c == '"', c == 't', c == 'f', c == 'n':
		return c
	case c == '-', isDigit(c):
		return '0'
	}
	return 0
}

// Text returns the text of a JSON string. It returns false if s is not a string. If the string
// contains an escape for half of a surrogate pair, the text is not valid UTF-8 (utf8.ValidString
// returns false). AppendQuote restores such an escape, and Shown makes the text readable. Strings
// with different halves have different texts.
func Text(raw []byte, s Span) (string, bool) {
	inside, ok := insideOf(raw, s)
	if !ok {
		return "", false
	}
	if bytes.IndexByte(inside, '\\') >= 0 {
		return string(appendText(make([]byte, 0, len(inside)), inside)), true
	}
	return string(inside), true
}

// Int returns the value of a JSON number that is written as an integer (7, -7, 7.0; not 7e0).
// It returns false for other values and for integers that need more than 64 bits.
func Int(raw []byte, s Span) (int64, bool) {
	if !within(raw, s) {
		return 0, false
	}
	b := raw[s.Start:s.End]
	if !isInteger(b) {
		return 0, false
	}
	if dot := bytes.IndexByte(b, '.'); dot >= 0 {
		b = b[:dot]
	}
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var n uint64 // nineteen digits fit into a uint64
	for _, c := range b {
		if !isDigit(c) {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case !negative && n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

// Whole returns the span of the value in b without the surrounding white space. The result is
// absent if b contains only white space.
func Whole(b []byte) Span {
	start, end := skipSpace(b, 0), len(b)
	for end > start && skipSpace(b[:end], end-1) == end {
		end--
	}
	if start == end {
		return Span{}
	}
	return Span{start, end}
}

func within(raw []byte, s Span) bool {
	return 0 <= s.Start && s.Start < s.End && s.End <= len(raw)
}

// insideOf returns the bytes between the quotes of a string. It returns false if s is not a string.
func insideOf(raw []byte, s Span) ([]byte, bool) {
	if !within(raw, s) || raw[s.Start] != '"' || s.End-s.Start < 2 {
		return nil, false
	}
	return raw[s.Start+1 : s.End-1], true
}

// textIs reports whether s is a JSON string with the text want.
func textIs(raw []byte, s Span, want string) bool {
	inside, ok := insideOf(raw, s)
	return ok && insideIs(inside, want)
}

// keyIs does the same as textIs, for a name that a walker has found.
func keyIs(b []byte, key Span, want string) bool {
	return insideIs(b[key.Start+1:key.End-1], want)
}

func insideIs(inside []byte, want string) bool {
	if string(inside) == want {
		return strings.IndexByte(want, '\\') < 0 // a backslash in inside begins an escape, so the text of inside is not want
	}
	// An escape has at most six times as many bytes as the text that it encodes.
	return len(inside) > len(want) && len(inside) <= 6*len(want) && bytes.IndexByte(inside, '\\') >= 0 &&
		string(appendText(nil, inside)) == want
}

// walker iterates over the members of an object or the elements of an array.
type walker struct {
	b     []byte // the bytes up to the end of the object or array
	i     int    // the offset after the opening bracket or after a comma
	key   Span   // the name with its quotes
	value Span
}

func walkObject(raw []byte, obj Span) walker { return walk(raw, obj, '{') }

func walk(raw []byte, at Span, open byte) walker {
	if !within(raw, at) || raw[at.Start] != open {
		return walker{}
	}
	return walker{b: raw[:at.End], i: at.Start + 1}
}

// next advances to the next member. It returns false if there are no more members.
func (w *walker) next() bool {
	b := w.b
	i := skipSpace(b, w.i)
	if i >= len(b) || b[i] != '"' {
		return false
	}
	end := skipText(b, i)
	if end < 0 {
		return false
	}
	w.key = Span{i, end}
	i = skipSpace(b, end)
	if i >= len(b) || b[i] != ':' {
		return false
	}
	w.i = i + 1
	return w.nextValue()
}

// nextValue advances to the next value, and skips the comma after the value. It returns false if
// there are no more values.
func (w *walker) nextValue() bool {
	b := w.b
	i := skipSpace(b, w.i)
	end := skipValue(b, i)
	if end <= i {
		return false
	}
	w.value = Span{i, end}
	i = skipSpace(b, end)
	if i < len(b) && b[i] == ',' {
		w.i = i + 1
	} else {
		w.i = len(b)
	}
	return true
}

// skipValue returns the offset after the value at i, or i if no value begins there.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return i
	}
	switch b[i] {
	case '"':
		return skipText(b, i)
	case '{', '[':
		return skipContainer(b, i)
	}
	for i < len(b) && ends[b[i]] == 0 {
		i++
	}
	return i
}

// ends is 1 for each byte that ends a number or a literal.
var ends = [256]uint8{
	',': 1, ']': 1, '}': 1, ' ': 1, '\t': 1, '\n': 1, '\r': 1,
	'"': 1, '[': 1, '{': 1, ':': 1,
}

// nests contains, for each byte outside strings, by how much the byte changes the depth. The value
// 2 means a quote.
var nests = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1, '"': 2}

// skipContainer returns the offset after the object or array at i. If the end of the object or
// array is missing, skipContainer returns len(b).
func skipContainer(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch n := nests[b[i]]; n {
		case 0:
			i++
		case 2:
			if i = skipText(b, i); i < 0 {
				return len(b)
			}
		default:
			i++
			if depth += int(n); depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// skipText returns the offset after the string at i. If the closing quote is missing, skipText
// returns -1.
func skipText(b []byte, i int) int {
	i++
	for {
		for near := i + 32; i+8 <= len(b) && i < near; i += 8 {
			w := binary.LittleEndian.Uint64(b[i:])
			q, e := w^ones*'"', w^ones*'\\'
			if m := ((q-ones)&^q | (e-ones)&^e) & highs; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
		}
		if i >= len(b) {
			return -1
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i += 2
			continue
		}
		// There is no quote nearby, so search for the next quote. A quote is escaped if the number
		// of backslashes before it is odd. No backslash is counted twice, so the search takes
		// linear time.
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		quote, from := i+n, i
		i = quote
		for i > from && b[i-1] == '\\' {
			i--
		}
		if (quote-i)&1 == 0 {
			return quote + 1
		}
		i = quote + 1
	}
}
