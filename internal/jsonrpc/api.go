package jsonrpc

// Member is one member of an object. It extends from the opening quote of the name to the end
// of the value.
type Member struct {
	Key   Span // the name with its quotes, as it is in the message
	Value Span
}

// Field is a member to set. Key is the name without quotes and escapes. Value is JSON.
type Field struct {
	Key   string
	Value []byte
}
