package jsonrpc

// Member contains the positions of the name and the value of one member of an object.
type Member struct {
	Key   Span // the name with its quotes, as it is in the message
	Value Span
}

// Field is a member to set. Key is the name without quotes and escapes. Value is JSON.
type Field struct {
	Key   string
	Value []byte
}
