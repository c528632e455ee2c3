package jsonrpc

// Member is one member of an object. It extends from the opening quote of the name to the end
// of the value.
type Member struct {
	Key   Span // the name with its quotes, as on the wire
	Value Span
}

// Field is a member to set: a name, unquoted and without escapes, and a JSON value.
type Field struct {
	Key   string
	Value []byte
}
