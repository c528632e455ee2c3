package jsonrpc

// Member is one member of an object. It reaches from the opening quote of the name to
// the end of the value.
type Member struct {
	Key   Span // the name with its quotes, as on the wire
	Value Span
}

// Field is a member to set: a name without quotes or escapes, and a JSON value.
type Field struct {
	Key   string
	Value []byte
}
