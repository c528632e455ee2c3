package jsonrpc

import "strconv"

// Kind is the kind of a message. It depends on which members the message has.
type Kind uint8

// These are the kinds of messages. The zero Kind is not valid.
const (
	Request      Kind = iota + 1 // has a method and an id
	Notification                 // has a method and no id
	Result                       // has an id and a result
	Failure                      // has an error, and an id unless the sender could not read the id of the request
)

// ID is the exact JSON text of a message's id: 1, "1" and 1.0 are three different IDs. The empty ID
// means that the message has no id. The ID "null" is a null id, which only a Failure may have.
type ID string

// IntID returns the ID for a number.
func IntID(n int64) ID { return ID(strconv.FormatInt(n, 10)) }

// Span is a half-open range of bytes in a message's Raw. The zero Span means that a value is
// absent. No value has the zero Span, because a value is never empty.
type Span struct{ Start, End int }

// IsZero reports whether the span is absent.
func (s Span) IsZero() bool { return s == Span{} }

// Of returns the bytes of raw that the span covers, or nil if the span is absent.
func (s Span) Of(raw []byte) []byte {
	if s.IsZero() {
		return nil
	}
	return raw[s.Start:s.End:s.End]
}

// Message is one JSON-RPC message: its bytes, and the positions of its top-level members. Raw is
// never modified after Scan.
type Message struct {
	Raw    []byte
	Kind   Kind
	ID     ID
	Method string // the decoded method; if Limits.Names knows the method, the string is shared

	IDAt   Span // position of the id
	Params Span // position of the params object
	Result Span // position of the result
	Error  Span // position of the error object

	// Cut says which items of a list Scan has left out. Then Raw is a copy without these items. Cut
	// is nil for almost all messages.
	Cut *Cut
}

// Param returns the position of a member of params. The position is absent if there is no such
// member.
func (m *Message) Param(key string) Span { return Find(m.Raw, m.Params, key) }

// ResultMember returns the position of a member of result. The position is absent if there is no
// such member or if the result is not an object.
func (m *Message) ResultMember(key string) Span { return Find(m.Raw, m.Result, key) }

// Limits bounds what Scan accepts. A zero field means the default that is documented at the
// field.
type Limits struct {
	Bytes  int // maximum length of the message in bytes; 0 means 4 MiB
	Depth  int // maximum depth of nested arrays and objects; 0 means 128
	Tokens int // maximum number of values and member names together; 0 means 1,000,000

	// If Tolerant is true, Scan accepts these unambiguous mistakes of existing servers:
	//
	//   - a missing jsonrpc member
	//   - a request whose params are null
	//   - an id of null in an answer, or a fractional id
	//   - a result that is not an object
	//   - a result and a null error, or an error and a null result
	//   - an error without a message, or with a code that is missing, a string or a fraction
	//   - an unsolicited result with a method, if its id is a string or absent
	//
	// Tolerant does not relax the JSON syntax.
	Tolerant bool

	// Names returns a shared string for a known method name, so that Scan does not have to allocate
	// a string. Names may be nil. It must be safe for concurrent use and must not keep its
	// argument.
	Names func(name []byte) (string, bool)

	// Lists reports whether a member of a result is a list of independent items. key is the name of
	// the member as it is written. If only single items of such a list are nested too deep, have too
	// many values or contain a duplicate member, Scan leaves these items out instead of refusing the
	// message, and says so in Message.Cut. Lists may be nil. It must be safe for concurrent use.
	Lists func(key []byte) bool
}

// MaxID and MaxMethod are the maximum lengths of an id and of a method that Scan accepts. The
// lengths are in bytes of JSON text, including the quotes and escapes of a string.
const (
	MaxID     = 1 << 10
	MaxMethod = 256
)

// These are the codes of JSON-RPC 2.0 §5.1.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Error is a JSON-RPC error object. It is also the Go error for a refused message or a
// failed call.
type Error struct {
	Code    int64
	Message string
	Data    []byte // JSON; nil if absent

	// ID is the id of the message that Scan refused. ID is empty if Scan could not read the id.
	ID ID
	// Method is the method of the request or notification that Scan refused. Method is empty if Scan
	// could not read the method with certainty.
	Method string

	// Fault says what is wrong with the JSON text that Scan or Valid refused, and Offset is the
	// position of the fault. Both are 0 for other errors.
	Fault  Fault
	Offset int

	limit string // the limit that the JSON text exceeds, as a clause; "" for other errors
}

// Fault is a kind of mistake in a JSON text.
type Fault uint8

// These are the values of Fault. Each comment says what is at Error.Offset.
const (
	FaultByte      Fault = iota + 1 // a character that JSON does not allow at this position
	FaultEnd                        // the end of the text, although the value is not complete
	FaultString                     // the opening quote of a string without a closing quote
	FaultEscape                     // the backslash of an escape that JSON does not have
	FaultUTF8                       // a byte that is not valid UTF-8
	FaultDuplicate                  // the opening quote of a name that the object already has
)

func (e *Error) Error() string {
	return e.Message + " (" + strconv.FormatInt(e.Code, 10) + ")"
}
