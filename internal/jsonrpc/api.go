package jsonrpc

// Member is one member of an object: the whole of it from the name's opening
// quote to the value's end, and its two halves.
type Member struct {
	Key   Span // the name with its quotes, as it stands on the wire
	Value Span
}

// Field is a member to be set: a name without quotes or escapes, and JSON.
type Field struct {
	Key   string
	Value []byte
}
