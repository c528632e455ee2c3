package jsonrpc

// Member is one member of an object: the whole of it from the name's opening
// quote to the value's end, and its two halves.
type Member struct {
	Key   Span // the name with its quotes, as it stands on the wire
	Value Span
}

// Edit replaces the bytes At of a message by With. An empty At inserts; an empty
// With removes.
type Edit struct {
	At   Span
	With []byte
}

// Field is a member to be set: a name without quotes or escapes, and JSON.
type Field struct {
	Key   string
	Value []byte
}

// Edits collects the changes to one message. The zero value is empty and ready.
// Edits may be added in any order but must not overlap. Not safe for concurrent
// use.
type Edits struct {
	list  []Edit
	array [8]Edit
}
