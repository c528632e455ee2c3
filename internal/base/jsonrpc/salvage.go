package jsonrpc

import "bytes"

// Salvage finds out whether an unusable frame was a request or an answer, and which id it has. A
// frame is unusable if it is not JSON or too long to keep. The caller writes the frame to Salvage
// in pieces of any size. The zero value is ready to use. Salvage does not allocate.
//
// Salvage never guesses. It reads the names of top-level members strictly. Errors are usually
// inside values, so it skips most values and looks only for strings and brackets in them. It may
// misread where a skipped value ends, for example after an unescaped quote. Salvage returns an id
// only if the frame has no other id. In addition, the id must precede all skipped values, or the
// object must close exactly at the end of the frame. FuzzSalvage checks these rules.
type Salvage struct {
	at     salvageState
	member memberName // the member whose value is being read

	opaque  bool // a value was skipped, so the text after it may be misread
	unsure  bool // the id is unusable, there are two ids, or a name contains an escape
	folds   bool // a name was seen that other parsers may confuse with a known name
	version bool // the member jsonrpc was seen
	method  bool
	answer  bool // the member result or error was seen
	unknown bool // an unknown member was seen

	id    [MaxID]byte // the JSON text of the id
	idLen int
	ids   int
	front bool // the id is complete and precedes all skipped values
	whole bool // the id is complete

	key     [16]byte // the name of the current member
	keyLen  int
	escaped bool // in a string value: the next byte is escaped

	text  bool // the current position is inside a string in a container
	depth int
	kinds [salvageDepth / 64]uint64 // one bit for each open container: 1 for an object, 0 for an array
}

// salvageDepth is the maximum nesting depth of containers. Salvage stops reading a frame that is
// nested deeper.
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
	lost // the top level cannot be read further
)

type memberName uint8

const (
	otherName memberName = iota
	versionName
	idName
	callName
	answerName
)

// Reset prepares the Salvage for the next frame.
func (s *Salvage) Reset() { *s = Salvage{} }

// Verdict returns the kind of the frame: Result for an answer (a result or an error), Request for a
// request or notification, and 0 if the kind is uncertain. id is the id in the frame, or "" if the
// id is uncertain.
func (s *Salvage) Verdict() (kind Kind, id ID) {
	switch {
	case s.unsure || s.folds || s.method == s.answer || s.unknown && !s.version:
		return 0, ""
	case s.method:
		kind = Request
	default:
		kind = Result
	}
	return kind, s.soleID()
}

// Suspect returns the id of a frame without a method, even if the frame does not look like an
// answer: its result may be missing, misspelled or cut off. A server that sends the id of one of
// Dragoman's requests in such a frame will not send another answer to the request. Suspect returns
// "" if the id is uncertain or the frame has no jsonrpc member.
func (s *Salvage) Suspect() ID {
	if s.unsure || s.method || !s.version {
		return ""
	}
	return s.soleID()
}

// soleID returns the id if exactly one id was read with certainty, and "" otherwise.
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

// Decided reports whether the rest of the frame can be ignored. The rest cannot turn a request into
// an answer, or an answer into a request.
func (s *Salvage) Decided() bool {
	return s.at == lost || s.unsure || s.folds || s.front && s.method != s.answer && (s.version || !s.unknown)
}

// Write reads the next piece of the frame. It never fails.
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
				continue // handle the byte again in the new state
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

// between handles a byte outside of names and values.
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
		// The frame is malformed here. If there are bytes after the object, Salvage may have
		// misread where the object ends.
		s.at = lost
	}
}

func (s *Salvage) name(c byte) {
	switch {
	case c == '"' && !s.escaped:
		s.nameEnds()
		return
	case c == '\\':
		// No known peer escapes member names. Salvage does not decode escapes, so the name is
		// uncertain.
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
		s.unknown = true
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
		s.unknown = true
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

// keep stores a byte of a top-level value if the value is the id.
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

// skip skips the content of a container, starting at offset i. It returns the offset after the last
// skipped byte.
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
				// Jump to the next quote or backslash: a long frame consists mostly of strings.
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
