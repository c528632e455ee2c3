package jsonrpc

import "iter"

// Value is one JSON value and the bytes that contain it, so a caller cannot use a span with the
// wrong bytes. The zero Value is absent: it has no members, elements or text. Get of an absent
// value returns an absent value, so a caller can follow a path without a check at each step. A
// Value does not copy or allocate memory.
//
// The bytes must have been scanned; see Find. A Value is valid and safe for concurrent use as long
// as nobody modifies the bytes.
type Value struct {
	raw []byte
	at  Span
}

// ValueOf returns the JSON value in b without the surrounding white space. The result is absent if
// b contains only white space.
func ValueOf(b []byte) Value { return Value{b, Whole(b)} }

// At returns the value at a span of the message.
func (m *Message) At(s Span) Value { return Value{m.Raw, s} }

// Span returns the position of the value, for an edit.
func (v Value) Span() Span { return v.at }

// Absent reports whether the value is absent.
func (v Value) Absent() bool { return !within(v.raw, v.at) }

// Kind returns the kind of the value: '{', '[', '"', 't', 'f', 'n', or '0' for any
// number. It returns 0 if the value is absent.
func (v Value) Kind() byte { return KindOf(v.raw, v.at) }

// Raw returns the bytes of the value without copying them. It returns nil if the value is absent.
func (v Value) Raw() []byte {
	if v.Absent() {
		return nil
	}
	return v.at.Of(v.raw)
}

// Get follows member names from object to object and returns the value at the end of the path.
// The result is absent if a value on the path is not an object or has no such member.
func (v Value) Get(path ...string) Value {
	for _, key := range path {
		v.at = Find(v.raw, v.at, key)
		if v.at.IsZero() {
			return Value{}
		}
	}
	return v
}

// Text returns the text of a JSON string. It returns false if the value is not a string.
func (v Value) Text() (string, bool) { return Text(v.raw, v.at) }

// Is reports whether the value is a JSON string with the text want. It allocates only if the string
// contains an escape.
func (v Value) Is(want string) bool { return textIs(v.raw, v.at, want) }

// Int returns the value of a number that is written as an integer. See the function Int.
func (v Value) Int() (int64, bool) { return Int(v.raw, v.at) }

// Bool returns the value of a JSON boolean. ok is false if the value is not a boolean.
func (v Value) Bool() (value, ok bool) {
	switch v.Kind() {
	case 't':
		return true, true
	case 'f':
		return false, true
	}
	return false, false
}

// Elements yields the elements of an array in order. It yields nothing if the value is not an
// array.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		w := walk(v.raw, v.at, '[')
		for w.nextValue() {
			if !yield(Value{v.raw, w.value}) {
				return
			}
		}
	}
}

// Members yields the names and values of an object's members in order. It yields nothing if the
// value is not an object. The Text of a name is unescaped.
func (v Value) Members() iter.Seq2[Value, Value] {
	return func(yield func(name, value Value) bool) {
		w := walkObject(v.raw, v.at)
		for w.next() {
			if !yield(Value{v.raw, w.key}, Value{v.raw, w.value}) {
				return
			}
		}
	}
}
