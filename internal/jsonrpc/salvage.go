package jsonrpc

import "bytes"

// Salvage finds out which request a frame answers, or which request it is, when the
// frame cannot be used: it is not JSON, or too long to be kept. The frame is written
// to it in pieces of any size. The zero value is ready; it allocates nothing.
//
// It never guesses. Top-level members are read strictly. What stands within their
// values is only passed over, string by string and bracket by bracket, since that is
// where frames are broken. So a quote that its sender has not escaped can make it
// misread where a value ends. An id counts if it stands before all such values, or if
// the whole object closes at the frame's very end; and only if it is the only one.
// FuzzSalvage holds it to that.
type Salvage struct {
	at     salvageState
	member memberName // whose value is being read

	opaque    bool // a value was passed over that may have been misread
	unsure    bool // two ids, or a name that needs decoding
	folds     bool // a name that others may read as one of ours
	version   bool // the members that were seen
	method    bool
	answer    bool // result or error
	strangers bool

	id    [MaxID]byte // the id's JSON text
	idLen int
	ids   int
	front bool // the id is complete and stands before what is opaque
	whole bool // the id is complete

	key     [16]byte // of the member's name
	keyLen  int
	escaped bool // the name has an escape; or, in a string, the next byte is escaped

	text  bool // within a string in a container
	depth int
	kinds [salvageDepth / 64]uint64 // of the containers that are open: set for an object
}

// salvageDepth is how deep containers may nest. Beyond it nothing more is read.
const salvageDepth = 1024

type salvageState uint8

const (
	beforeObject salvageState = iota
	beforeName
	inName
	beforeColon
	beforeValue
	inText
	inScalar
	inContainer
	afterValue
	afterObject
	lost // the top level cannot be read on
)

type memberName uint8

const (
	otherName memberName = iota
	versionName
	idName
	callName
	answerName
)

// AnswerOf returns the verdict of a Salvage on a whole frame.
func AnswerOf(frame []byte) (kind Kind, id ID) {
	var s Salvage
	_, _ = s.Write(frame)
	return s.Verdict()
}

// Reset forgets the frame.
func (s *Salvage) Reset() { *s = Salvage{} }

// Verdict returns what the frame looks like: Result for an answer of either kind,
// Request for a call or notification, 0 when that is not certain. id is that of the
// request, "" where it is not certain.
func (s *Salvage) Verdict() (kind Kind, id ID) {
	switch {
	case s.unsure || s.folds || s.method == s.answer || s.strangers && !s.version:
		return 0, ""
	case s.method:
		kind = Request
	default:
		kind = Result
	}
	return kind, s.soleID()
}

// Suspect returns the id of a frame that names no method, whether or not it looks like
// an answer: its result may be missing, misspelled or torn away. A server that sends an
// id of ours in such a frame will not answer it again. It is "" where the id is not
// certain, or where the frame does not claim to be JSON-RPC.
func (s *Salvage) Suspect() ID {
	if s.unsure || s.method || !s.version {
		return ""
	}
	return s.soleID()
}

// soleID returns the id if there is one that was read with certainty.
func (s *Salvage) soleID() ID {
	if s.ids != 1 || !s.whole || !s.front && s.at != afterObject {
		return ""
	}
	text := s.id[:s.idLen]
	if Valid(text, Limits{}) != nil || !idAllowed(text, true) {
		return ""
	}
	return ID(text)
}

// Decided reports whether the rest of the frame, however long, will not say more.
func (s *Salvage) Decided() bool {
	return s.at == lost || s.unsure || s.folds || s.front && s.method != s.answer
}

// Write takes the next piece of the frame. It never fails.
func (s *Salvage) Write(b []byte) (int, error) {
	for i := 0; i < len(b) && s.at != lost; {
		switch c := b[i]; s.at {
		case inContainer:
			i = s.skip(b, i)
			continue
		case inText:
			s.keep(c)
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.valueEnds()
			}
		case inName:
			s.name(c)
		case inScalar:
			switch c {
			case ' ', '\t', '\r', '\n', ',', '}':
				s.valueEnds()
				continue // and look at it again
			case '{', '[', ']', '"', ':':
				s.at = lost
			default:
				s.keep(c)
			}
		default:
			s.between(c)
		}
		i++
	}
	return len(b), nil
}

// between takes a byte outside of names and values.
func (s *Salvage) between(c byte) {
	if c == ' ' || c == '\t' || c == '\r' || c == '\n' {
		return
	}
	switch {
	case s.at == beforeObject && c == '{':
		s.at = beforeName
	case s.at == beforeName && c == '"':
		s.at, s.keyLen, s.escaped = inName, 0, false
	case s.at == beforeName && c == '}', s.at == afterValue && c == '}':
		s.at = afterObject
	case s.at == beforeColon && c == ':':
		s.at = beforeValue
	case s.at == beforeValue:
		s.valueBegins(c)
	case s.at == afterValue && c == ',':
		s.at = beforeName
	default:
		// Whatever follows an object may be a part of it that was torn away.
		s.at = lost
	}
}

func (s *Salvage) name(c byte) {
	switch {
	case c == '"' && !s.escaped:
		s.nameEnds()
		return
	case c == '\\':
		// A name that needs decoding is none that our peers write; what they would
		// read in it is not certain.
		s.unsure = true
	}
	if s.keyLen < len(s.key) {
		s.key[s.keyLen] = c
	}
	s.keyLen++
}

func (s *Salvage) nameEnds() {
	s.at, s.member = beforeColon, otherName
	if s.keyLen > len(s.key) {
		s.strangers = true
		return
	}
	switch key := s.key[:s.keyLen]; string(key) {
	case "jsonrpc":
		s.member, s.version = versionName, true
	case "id":
		s.member = idName
		s.ids++
		s.unsure = s.unsure || s.ids > 1
	case "method":
		s.member, s.method = callName, true
	case "result", "error":
		s.member, s.answer = answerName, true
	case "params":
	default:
		s.strangers = true
		s.folds = s.folds || foldsToKnown(key)
	}
}

func (s *Salvage) valueBegins(c byte) {
	if s.member != idName && s.member != versionName && s.member != callName {
		s.opaque = true
	}
	s.escaped = false
	switch c {
	case '"':
		s.at = inText
		s.keep(c)
	case '{', '[':
		if s.member == idName {
			s.unsure = true
		}
		s.at, s.depth, s.text, s.opaque = inContainer, 0, false, true
		s.open(c)
	case ',', '}', ']', ':':
		s.at = lost
	default:
		s.at = inScalar
		s.keep(c)
	}
}

// keep takes a byte of a value at the top level.
func (s *Salvage) keep(c byte) {
	if s.member != idName {
		return
	}
	if s.idLen == len(s.id) {
		s.unsure = true
		return
	}
	s.id[s.idLen] = c
	s.idLen++
}

func (s *Salvage) valueEnds() {
	s.at = afterValue
	if s.member == idName {
		s.whole, s.front = true, !s.opaque
	}
}

// skip passes over the inside of a container, from i on, and returns how far.
func (s *Salvage) skip(b []byte, i int) int {
	for i < len(b) {
		c := b[i]
		if s.text {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '"':
				s.text = false
			case c == '\\':
				s.escaped = true
			default:
				// Most of a long frame is text.
				n := bytes.IndexByte(b[i:], '"')
				if n < 0 {
					n = len(b) - i
				}
				if e := bytes.IndexByte(b[i:i+n], '\\'); e >= 0 {
					n = e
				}
				i += n
				continue
			}
			i++
			continue
		}
		i++
		switch c {
		case '"':
			s.text = true
		case '{', '[':
			if !s.open(c) {
				return i
			}
		case '}', ']':
			s.depth--
			if (s.kinds[s.depth/64]>>(s.depth%64)&1 == 1) != (c == '}') {
				s.at = lost
				return i
			}
			if s.depth == 0 {
				s.at = afterValue
				return i
			}
		}
	}
	return i
}

func (s *Salvage) open(c byte) bool {
	if s.depth == salvageDepth {
		s.at = lost
		return false
	}
	bit := uint64(1) << (s.depth % 64)
	s.kinds[s.depth/64] &^= bit
	if c == '{' {
		s.kinds[s.depth/64] |= bit
	}
	s.depth++
	return true
}
