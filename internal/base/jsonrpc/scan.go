package jsonrpc

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Scan checks that b is exactly one JSON-RPC 2.0 message, and returns the positions of its
// members. The Message keeps b as its Raw, so b must not be modified afterwards; see Limits.Lists for
// an exception. Scan is safe for concurrent use. It allocates memory for the Message and its ID, and
// for the Method if lim.Names does not know the name.
//
// The errors of Scan are always *Error:
//
//   - CodeParse: b is not JSON (RFC 8259, UTF-8 without a byte order mark, one value).
//   - CodeInvalidRequest: b exceeds lim, or is JSON but not a message, or has a duplicate member in an object at any depth.
//   - CodeInvalidParams: only params is wrong. MCP requires params to be an object.
//
// The error contains the message's id if Scan could read one before it stopped. It does not
// contain the id of an answer: Dragoman chose that id, and the peer could treat an error with that
// id as the answer to one of its own requests.
//
// Scan refuses a message with a member that parsers could confuse with a known member, such as
// METHOD. It also refuses a message with two ids.
func Scan(b []byte, lim Limits) (*Message, error) {
	m, err := scan(b, &lim)
	if err == nil {
		return m, nil
	}
	rest, cut := without(b, &lim, err)
	if cut == nil {
		return nil, err
	}
	m, again := scan(rest, &lim)
	if again != nil {
		return nil, err
	}
	m.Cut = cut
	return m, nil
}

// scan does what Scan does, but leaves out no items.
func scan(b []byte, lim *Limits) (*Message, *Error) {
	s := scannerOf(b, lim)
	defer s.release()
	var e envelope
	end := s.envelope(&e)
	if end >= 0 {
		end = s.finish(end)
	}
	if end < 0 {
		s.err.ID, s.err.Method = e.readID(b, lim.Tolerant), e.readMethod(b, lim)
		return nil, s.err
	}
	m := new(Message)
	m.Raw = b
	if err := s.judge(&e, lim, m); err != nil {
		err.ID, err.Method = e.readID(b, lim.Tolerant), e.readMethod(b, lim)
		return nil, err
	}
	return m, nil
}

// envelope contains the top-level members that were read.
type envelope struct {
	object bool
	twice  bool // the message has two ids, so neither can be used
	again  bool // the message has two methods, so neither can be used
	answer bool // a result or an error has begun
	fault  string

	version, id, method, params, result, failure Span
}

// envelope scans the top-level value. It returns the offset after the value, or -1 if s.err is set.
// After a duplicate name or a name with the wrong case, envelope continues, because the id may
// follow.
func (s *scanner) envelope(e *envelope) int {
	b := s.b
	i := skipSpace(b, 0)
	if i == len(b) {
		return s.fail(i, FaultEnd, "empty message")
	}
	if b[i] != '{' {
		return s.value(i)
	}
	e.object = true
	if !s.spend() {
		return s.failTokens()
	}
	s.frames = append(s.frames, 0)
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		s.frames = s.frames[:0]
		return i + 1
	}
	for {
		if i = s.key(i, 0); i < 0 {
			return -1
		}
		name := s.lastKey()
		e.answer = e.answer || string(name) == "result" || string(name) == "error"
		start := skipSpace(b, i)
		if i = s.value(start); i < 0 {
			return -1
		}
		e.place(name, Span{start, i})

		i = skipSpace(b, i)
		if i == len(b) {
			return s.fail(i, FaultEnd, "unexpected end")
		}
		if b[i] == ',' {
			i = skipSpace(b, i+1)
			continue
		}
		if b[i] != '}' {
			return s.failByte(i)
		}
		s.closeObject(0)
		s.frames = s.frames[:0]
		return i + 1
	}
}

// place records the value of one top-level member.
func (e *envelope) place(name []byte, at Span) {
	var slot *Span
	switch string(name) {
	case "jsonrpc":
		slot = &e.version
	case "id":
		slot = &e.id
		e.twice = e.twice || !e.id.IsZero()
	case "method":
		slot = &e.method
		e.again = e.again || !e.method.IsZero()
	case "params":
		slot = &e.params
	case "result":
		slot = &e.result
	case "error":
		slot = &e.failure
	default:
		// A parser that ignores case, such as encoding/json, would treat the member as a known
		// member (the class of CVE-2026-27896).
		if e.fault == "" && foldsToKnown(name) {
			e.fault = "a member name has the wrong case (upper and lower case matter)"
		}
		return
	}
	if slot.IsZero() {
		*slot = at
	}
}

var known = [...][]byte{
	[]byte("jsonrpc"), []byte("id"), []byte("method"),
	[]byte("params"), []byte("result"), []byte("error"),
}

func foldsToKnown(name []byte) bool {
	// A known name in any mix of upper and lower case has at most 16 bytes, even with the two-byte
	// letter ſ, which folds to S.
	if len(name) > 16 {
		return false
	}
	for _, k := range known {
		if bytes.EqualFold(name, k) {
			return true
		}
	}
	return false
}

// readID returns the id for the error that answers a refused message, or "" if the message has no
// usable id.
func (e *envelope) readID(b []byte, tolerant bool) ID {
	if e.twice || e.answer && e.method.IsZero() || e.id.IsZero() || e.id.End-e.id.Start > MaxID {
		return ""
	}
	id := e.id.Of(b)
	if !idAllowed(id, tolerant) {
		return ""
	}
	return ID(id)
}

// readMethod returns the method for the error about a refused message, or "" if the message has no
// usable method.
func (e *envelope) readMethod(b []byte, lim *Limits) string {
	name := e.method.Of(b)
	if e.again || e.answer || e.fault != "" || len(name) <= 2 || len(name) > MaxMethod || name[0] != '"' || !whole(name[1:len(name)-1]) {
		return ""
	}
	return methodName(name[1:len(name)-1], lim.Names)
}

// idAllowed reports whether the JSON value id may be the id of a request. A number must be an
// integer, unless tolerant is true. As in JSON Schema, 1.0 is an integer. A number with an exponent
// is not an integer. A string must not contain half of a surrogate pair, because many peers cannot
// send such a string back.
func idAllowed(id []byte, tolerant bool) bool {
	switch c := id[0]; {
	case c == '"':
		return whole(id[1 : len(id)-1])
	case c == '-', '0' <= c && c <= '9':
		return tolerant || isInteger(id)
	}
	return false
}

// whole reports whether a scanned string is valid text without half of a surrogate pair. inside is
// the JSON text between the quotes.
func whole(inside []byte) bool {
	return bytes.IndexByte(inside, '\\') < 0 || utf8.Valid(appendText(nil, inside))
}

// isInteger reports whether the JSON number n has no exponent and no digits other than 0 after the
// decimal point.
func isInteger(n []byte) bool {
	dot := len(n)
	for i, c := range n {
		if c == 'e' || c == 'E' {
			return false
		}
		if c == '.' {
			dot = i
		} else if i > dot && c != '0' {
			return false
		}
	}
	return true
}

// judge determines the kind of message from the envelope and fills in m.
func (s *scanner) judge(e *envelope, lim *Limits, m *Message) *Error {
	b := s.b
	switch {
	case !e.object:
		return invalid("message is not an object")
	case s.duplicate >= 0:
		err := s.duplicateError()
		err.Message = "invalid message: " + err.Message
		return err
	case e.fault != "":
		return invalid(e.fault)
	case e.version.IsZero() && !lim.Tolerant:
		return invalid("jsonrpc is missing")
	case !e.version.IsZero() && !textIs(b, e.version, "2.0"):
		return invalid(`jsonrpc is not "2.0"`)
	}
	null := false
	if !e.id.IsZero() {
		id := e.id.Of(b)
		if len(id) > MaxID {
			return invalid("id is longer than " + strconv.Itoa(MaxID) + " bytes")
		}
		if null = id[0] == 'n'; !null && !idAllowed(id, lim.Tolerant) {
			if id[0] == '"' {
				return invalid("id is not valid Unicode: it contains half of a surrogate pair")
			}
			return invalid("id is neither a string nor an integer")
		}
		m.ID, m.IDAt = ID(id), e.id
	}
	if lim.Tolerant {
		// A peer that follows JSON-RPC 1.0 always sends both result and error, and one of them is
		// null.
		if !e.result.IsZero() && !e.failure.IsZero() {
			if b[e.failure.Start] == 'n' {
				e.failure = Span{}
			} else if b[e.result.Start] == 'n' {
				e.result = Span{}
			}
		}
	}
	hasMethod, hasResult, hasError := !e.method.IsZero(), !e.result.IsZero(), !e.failure.IsZero()
	switch {
	case hasMethod && hasResult && !hasError && lim.Tolerant && pushes(b, e.id):
		return s.judgeResult(e, lim, m, null)
	case hasMethod && (hasResult || hasError):
		return invalid("the message has method together with result or error")
	case hasResult && hasError:
		return invalid("the message has both result and error")
	case hasMethod:
		return s.judgeCall(e, lim, m, null)
	case hasResult:
		return s.judgeResult(e, lim, m, null)
	case hasError:
		return s.judgeFailure(e, lim, m)
	}
	return invalid("the message has no method, result or error")
}

func (s *scanner) judgeCall(e *envelope, lim *Limits, m *Message, null bool) *Error {
	b := s.b
	if null {
		return invalid("id is null")
	}
	name := e.method.Of(b)
	switch {
	case name[0] != '"':
		return invalid("method is not a string")
	case len(name) == 2:
		return invalid("method is empty")
	case len(name) > MaxMethod:
		return invalid("method is longer than " + strconv.Itoa(MaxMethod) + " bytes")
	case !whole(name[1 : len(name)-1]):
		return invalid("method is not valid Unicode: it contains half of a surrogate pair")
	}
	m.Method = methodName(name[1:len(name)-1], lim.Names)
	m.Kind = Notification
	if m.ID != "" {
		m.Kind = Request
	}
	if !e.params.IsZero() {
		switch {
		case b[e.params.Start] == '{':
		case b[e.params.Start] == 'n' && (m.Kind == Notification || lim.Tolerant):
			// Some peers write null for absent params. The sender of a notification would not see an
			// error, and a server would wait for its answer, because we don't answer what we refuse.
			return nil
		default:
			return &Error{Code: CodeInvalidParams, Message: "params is not an object"}
		}
		m.Params = e.params
	}
	return nil
}

// pushes reports whether a message with a method and a result is an unsolicited result. An
// unsolicited result has no id, or a string as its id. It cannot answer a request of Dragoman,
// because Dragoman never uses a string as an id.
func pushes(b []byte, id Span) bool { return id.IsZero() || b[id.Start] == '"' }

func methodName(name []byte, names func([]byte) (string, bool)) string {
	if bytes.IndexByte(name, '\\') >= 0 {
		name = appendText(nil, name)
	}
	if names != nil {
		if shared, ok := names(name); ok {
			return shared
		}
	}
	return string(name)
}

func (s *scanner) judgeResult(e *envelope, lim *Limits, m *Message, null bool) *Error {
	switch {
	case m.ID == "" && (!lim.Tolerant || e.method.IsZero()):
		return invalid("the message has a result but no id")
	case null && !lim.Tolerant:
		return invalid("id is null")
	case s.b[e.result.Start] != '{' && !lim.Tolerant:
		return invalid("result is not an object")
	}
	m.Kind, m.Result = Result, e.result
	return nil
}

// judgeFailure checks an error answer. The id may be absent or null. If the sender could not read
// the id of the request, JSON-RPC 2.0 §5 requires null, but MCP 2025-11-25 and later omit the id.
func (s *scanner) judgeFailure(e *envelope, lim *Limits, m *Message) *Error {
	b := s.b
	if b[e.failure.Start] != '{' {
		return invalid("error is not an object")
	}
	keys := [...]string{"code", "message"}
	var out [len(keys)]Span
	FindAll(b, e.failure, keys[:], out[:])
	code, text := out[0], out[1]
	switch kind := KindOf(b, code); {
	case kind == '0' && isInteger(code.Of(b)):
	case kind != 0 && kind != '0' && kind != '"' || !lim.Tolerant:
		return invalid("error has no integer code")
	}
	if k := KindOf(b, text); k != '"' && (k != 0 || !lim.Tolerant) {
		return invalid("error has no string message")
	}
	m.Kind, m.Error = Failure, e.failure
	return nil
}

func invalid(why string) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "invalid message: " + why}
}

// Valid checks that b is exactly one JSON value of any kind. It is as strict as Scan and has
// the same limits and errors. Its errors have no id.
func Valid(b []byte, lim Limits) error {
	s := scannerOf(b, &lim)
	defer s.release()
	i := s.value(0)
	if i >= 0 {
		i = s.finish(i)
	}
	switch {
	case i < 0:
		return s.err
	case s.duplicate >= 0:
		return s.duplicateError()
	}
	return nil
}

func (s *scanner) duplicateError() *Error {
	return &Error{
		Code: CodeInvalidRequest, Message: "duplicate member name at offset " + strconv.Itoa(s.duplicate),
		Fault: FaultDuplicate, Offset: s.duplicate,
	}
}
