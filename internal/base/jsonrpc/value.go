package jsonrpc

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"strconv"
	"sync"
)

// These are the defaults of Limits.
const (
	defaultBytes  = 4 << 20
	defaultDepth  = 128
	defaultTokens = 1_000_000
)

// scanner reads one JSON text once, from left to right, and checks it. It remembers only the names
// in the open objects.
type scanner struct {
	b      []byte
	err    *Error // why the scan ended early
	tokens int    // number of values and names that are still allowed
	most   int    // number of values and names that are allowed in total
	depth  int    // number of containers that may be open at the same time

	// duplicate is the offset of the first repeated member name, or -1. The scan continues after a
	// duplicate.
	duplicate int

	// hashed makes closeObject look for duplicates in every object. It is set if two long names
	// have the same print and must be decoded to be compared.
	hashed bool

	frames []int32 // for each open container: the index of its first name in keys, or array for an array
	keys   []name
	table  []int32 // memory that closeObject reuses
}

// scanners is a pool of scanners. A scanner in the pool keeps the memory of its slices: at most
// about 30 KiB.
var scanners = sync.Pool{New: func() any {
	return &scanner{frames: make([]int32, 0, 32), keys: make([]name, 0, 64)}
}}

// release returns the scanner to the pool. s.err remains valid.
func (s *scanner) release() {
	if cap(s.keys) > 1<<10 {
		s.keys = make([]name, 0, 64)
	}
	if cap(s.table) > 1<<11 {
		s.table = nil
	}
	if cap(s.frames) > 1<<10 {
		s.frames = make([]int32, 0, 32)
	}
	s.b, s.err = nil, nil
	scanners.Put(s)
}

// array is the value in scanner.frames for an array, which has no names.
const array = -1

// few is the maximum number of names in a small object. In a small object, each new name is
// compared with all names before it. In a larger object, closeObject looks for duplicates.
const few = 24

// name is the name of one member. Equal names have equal prints.
type name struct {
	print uint64 // hash of the first bytes and the length of the unescaped name
	start int32  // position of the first byte inside the quotes
	end   int32  // position of the closing quote; ^end if the name has escapes
}

// scannerOf returns a scanner for b. The caller must release it after use.
func scannerOf(b []byte, lim *Limits) *scanner {
	s := scanners.Get().(*scanner)
	s.frames, s.keys = s.frames[:0], s.keys[:0]
	s.b, s.duplicate, s.hashed = b, -1, false
	s.most, s.depth = lim.Tokens, lim.Depth
	if s.most <= 0 {
		s.most = defaultTokens
	}
	s.tokens = s.most
	if s.depth <= 0 {
		s.depth = defaultDepth
	}
	most := lim.Bytes
	if most <= 0 {
		most = defaultBytes
	}
	if len(b) > min(most, math.MaxInt32) {
		s.b = nil
		s.err = beyond("it is longer than " + strconv.Itoa(most) + " bytes")
	}
	return s
}

// beyond returns the error for a message that exceeds a limit. The error is not a parse error
// (JSON-RPC 2.0 §5.1: "Invalid JSON was received"), because the JSON may be valid.
func beyond(what string) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "message exceeds a limit: " + what, limit: what}
}

// fail records the reason why the text is not JSON, and returns -1. It keeps only the first reason.
func (s *scanner) fail(i int, fault Fault, why string) int {
	if s.err == nil {
		s.err = &Error{Code: CodeParse, Message: "not valid JSON: " + why + " at offset " + strconv.Itoa(i), Fault: fault, Offset: i}
	}
	return -1
}

func (s *scanner) failByte(i int) int {
	if i >= len(s.b) {
		return s.fail(len(s.b), FaultEnd, "unexpected end")
	}
	// The byte is shown as a number, so that the text is safe to log and to send.
	return s.fail(i, FaultByte, "unexpected byte 0x"+strconv.FormatUint(uint64(s.b[i]), 16))
}

func (s *scanner) failDepth() int {
	s.err = beyond("it is nested deeper than " + strconv.Itoa(s.depth) + " levels")
	return -1
}

func (s *scanner) failTokens() int {
	s.err = beyond("it has more than " + strconv.Itoa(s.most) + " values and member names")
	return -1
}

// spend counts one more value or name. It returns false if the limit is exceeded.
func (s *scanner) spend() bool {
	s.tokens--
	return s.tokens >= 0
}

// finish checks that only white space follows the value that ended at i.
func (s *scanner) finish(i int) int {
	if i = skipSpace(s.b, i); i != len(s.b) {
		return s.failByte(i)
	}
	return i
}

// value scans one value and returns the offset after it, or -1 if s.err is set. White space
// before the value is allowed. value does not recurse: s.frames contains the open containers.
func (s *scanner) value(i int) int {
	b := s.b
	floor := len(s.frames)
	top := int32(array) // the frame of the innermost container
	for {
		i = skipSpace(b, i)
		if i >= len(b) {
			return s.failByte(i)
		}
		if !s.spend() {
			return s.failTokens()
		}
		switch c := b[i]; c {
		case '"':
			if n := shortText(b, i); n > 0 {
				i += n
			} else if i, _ = s.text(i); i < 0 {
				return -1
			}
		case '{', '[':
			if len(s.frames) >= s.depth {
				return s.failDepth()
			}
			top = array
			if c == '{' {
				top = int32(len(s.keys))
			}
			s.frames = append(s.frames, top)
			i = skipSpace(b, i+1)
			if i < len(b) && b[i] == c+2 { // in ASCII, the codes of ']' and '}' are the codes of '[' and '{' plus 2
				break
			}
			if c == '{' {
				if i = s.key(i, int(top)); i < 0 {
					return -1
				}
			}
			continue
		case 't':
			if i = s.literal(i, "true"); i < 0 {
				return -1
			}
		case 'f':
			if i = s.literal(i, "false"); i < 0 {
				return -1
			}
		case 'n':
			if i = s.literal(i, "null"); i < 0 {
				return -1
			}
		default:
			if i = s.number(i); i < 0 {
				return -1
			}
		}
		// A value ended at i, or i is at the end of an empty container. Close all containers that
		// end here. A comma ends the loop.
		for {
			if len(s.frames) == floor {
				return i
			}
			i = skipSpace(b, i)
			if i >= len(b) {
				return s.failByte(i)
			}
			c := b[i]
			if c == ',' {
				i++
				if top >= 0 {
					i = skipSpace(b, i)
					if i = s.key(i, int(top)); i < 0 {
						return -1
					}
				}
				break
			}
			if top >= 0 {
				if c != '}' {
					return s.failByte(i)
				}
				s.closeObject(int(top))
			} else if c != ']' {
				return s.failByte(i)
			}
			i++
			s.frames = s.frames[:len(s.frames)-1]
			if n := len(s.frames); n > 0 {
				top = s.frames[n-1]
			}
		}
	}
}

// key scans a member's name, which must start at i, and the colon after it. base is the index of
// the object's first name in s.keys.
func (s *scanner) key(i, base int) int {
	b := s.b
	if i >= len(b) || b[i] != '"' {
		return s.failByte(i)
	}
	if !s.spend() {
		return s.failTokens()
	}
	k, i := s.name(i)
	if i < 0 {
		return -1
	}
	if names := s.keys[base:]; len(names) < few {
		for j := range names {
			switch {
			case names[j].print != k.print:
			case names[j].costly() || k.costly():
				s.hashed = true
			case s.same(names[j], k):
				s.repeat(k)
			}
		}
	}
	s.keys = append(s.keys, k)
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return s.failByte(i)
	}
	return i + 1
}

// name scans the name whose opening quote is at i, and returns the name and the offset after the
// closing quote.
func (s *scanner) name(i int) (name, int) {
	b := s.b
	start := i + 1
	if start+8 > len(b) {
		return s.oddName(i)
	}
	w := binary.LittleEndian.Uint64(b[start:])
	if m := stops(w); m != 0 {
		n := bits.TrailingZeros64(m) >> 3
		if b[start+n] != '"' {
			return s.oddName(i)
		}
		w &= 1<<(8*uint(n)) - 1
		return name{w ^ uint64(n)*lengthPrime, int32(start), int32(start + n)}, start + n + 1
	}
	// The name has at least eight bytes, and the first eight bytes are plain ASCII. The print is
	// made from these eight bytes and the length of the name.
	i, escaped := s.text(start + 7)
	if escaped || i < 0 {
		s.err = nil // the offset in s.err may be too large; oddName scans the name again
		return s.oddName(start - 1)
	}
	n := i - 1 - start
	return name{w ^ uint64(n)*lengthPrime, int32(start), int32(i - 1)}, i
}

// oddName scans a name that has escapes or non-ASCII bytes, or that is at the end of the text.
func (s *scanner) oddName(i int) (name, int) {
	start := i + 1
	i, escaped := s.text(i)
	if i < 0 {
		return name{}, -1
	}
	k := name{start: int32(start), end: int32(i - 1)}
	if escaped {
		k.end = ^k.end
	}
	k.print = printOf(s.unescaped(k))
	return k, i
}

const lengthPrime = 0x9E3779B97F4A7C15

func printOf(text []byte) uint64 {
	var w uint64
	for i, c := range text[:min(8, len(text))] {
		w |= uint64(c) << (8 * uint(i))
	}
	return w ^ uint64(len(text))*lengthPrime
}

// costly reports whether the name has escapes and is too long to be decoded for each comparison.
func (k name) costly() bool { return k.end < 0 && ^k.end-k.start > 64 }

func (s *scanner) repeat(k name) {
	if s.duplicate < 0 {
		s.duplicate = int(k.start) - 1
	}
}

// unescaped returns a name without its escapes.
func (s *scanner) unescaped(k name) []byte {
	if k.end < 0 {
		return appendText(nil, s.b[k.start:^k.end])
	}
	return s.b[k.start:k.end]
}

func (s *scanner) same(j, k name) bool {
	return string(s.unescaped(j)) == string(s.unescaped(k))
}

// lastKey returns the last name that the method key has scanned, without escapes.
func (s *scanner) lastKey() []byte { return s.unescaped(s.keys[len(s.keys)-1]) }

// seed is random, so that senders cannot choose names that collide in closeObject.
var seed = maphash.MakeSeed()

// closeObject removes the names of the object whose first name is at base. If not all of these
// names were compared with each other before, closeObject first looks for duplicates in linear
// time.
func (s *scanner) closeObject(base int) {
	names := s.keys[base:]
	s.keys = s.keys[:base]
	if len(names) <= few && !s.hashed {
		return
	}
	size := 1 << bits.Len(uint(2*len(names)))
	if cap(s.table) < size {
		s.table = make([]int32, size)
	}
	table := s.table[:size]
	clear(table)
	for n, k := range names {
		names[n].print = maphash.Bytes(seed, s.unescaped(k))
		k = names[n]
		at := int(k.print) & (size - 1)
		for ; table[at] != 0; at = (at + 1) & (size - 1) {
			if j := names[table[at]-1]; j.print == k.print && s.same(j, k) {
				s.repeat(k)
				break
			}
		}
		if table[at] == 0 {
			table[at] = int32(n + 1)
		}
	}
}

func (s *scanner) literal(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		for j := 0; j < len(word); j++ {
			if i+j >= len(s.b) || s.b[i+j] != word[j] {
				return s.failByte(i + j)
			}
		}
	}
	return i + len(word)
}

// number scans a number of any size and precision (RFC 8259 §6).
func (s *scanner) number(i int) int {
	b := s.b
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && isDigit(b[i]):
		i = skipDigits(b, i)
	default:
		return s.failByte(i)
	}
	if i < len(b) && b[i] == '.' {
		if i++; i >= len(b) || !isDigit(b[i]) {
			return s.failByte(i)
		}
		i = skipDigits(b, i)
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i >= len(b) || !isDigit(b[i]) {
			return s.failByte(i)
		}
		i = skipDigits(b, i)
	}
	return i
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func skipDigits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

// skipSpace returns the offset of the first byte at or after i that is not white space (RFC 8259
// §2).
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (1<<b[i])&spaces != 0 {
		i++
	}
	return i
}

const spaces uint64 = 1<<' ' | 1<<'\t' | 1<<'\n' | 1<<'\r'
