package clientfile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// Kind is the type of a Value.
type Kind uint8

// These are the kinds of values. A date in TOML is a String.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "a text", "a list", "a mapping"}[k]
}

// Value is one value of a file, with its position. The zero Value is Null.
type Value struct {
	Kind      Kind
	Text      string   // the text of a Bool, Number or String, without quotes and escapes
	Members   []Member // the members of a Map, in the order of the file
	Items     []*Value // the items of a List
	Line, Col int      // the position, counted from 1, with Col in bytes; 0 if unknown

	verbatim string // the text to write for the value, as another file has it; "" for the usual layout
}

// Member is one key of a Map with its value.
type Member struct {
	Key       string
	Value     *Value
	Line, Col int // the position of the key
}

// Get returns the value at a path of keys, or nil. v may be nil.
func (v *Value) Get(path ...string) *Value {
	for _, key := range path {
		if v == nil || v.Kind != Map {
			return nil
		}
		var found *Value
		for i := range v.Members {
			if v.Members[i].Key == key {
				found = v.Members[i].Value // JSON.parse also uses the last of duplicate members
			}
		}
		v = found
	}
	return v
}

// text returns the text of a scalar, and "" for anything else.
func (v *Value) text() string {
	if v == nil || v.Kind == List || v.Kind == Map || v.Kind == Null {
		return ""
	}
	return v.Text
}

func (v *Value) scalar() bool {
	return v != nil && (v.Kind == Bool || v.Kind == Number || v.Kind == String)
}

// set sets the member of a Map with the given key. It replaces an existing member.
func (v *Value) set(key string, to *Value) {
	for i := range v.Members {
		if v.Members[i].Key == key {
			v.Members[i].Value = to
			return
		}
	}
	v.Members = append(v.Members, Member{Key: key, Value: to, Line: to.Line, Col: to.Col})
}

// drop removes a member of a Map.
func (v *Value) drop(key string) {
	v.Members = slices.DeleteFunc(v.Members, func(m Member) bool { return m.Key == key })
}

// editMembers changes the members of a Map from old to now: first those that now has, then those that
// only old has. The function edit changes one member in b; its last parameter is nil if the member goes.
func editMembers(old, now *Value, b []byte, edit func(b []byte, key string, old, now *Value) ([]byte, bool)) (out []byte, ok bool) {
	out, ok = b, true
	for _, m := range now.Members {
		if was := old.Get(m.Key); ok && !same(was, m.Value) {
			out, ok = edit(out, m.Key, was, m.Value)
		}
	}
	for _, m := range old.Members {
		if ok && now.Get(m.Key) == nil {
			out, ok = edit(out, m.Key, m.Value, nil)
		}
	}
	return out, ok
}

// Text returns a String.
func Text(s string) *Value { return &Value{Kind: String, Text: s} }

// Texts returns a List of Strings.
func Texts(list []string) *Value {
	v := &Value{Kind: List}
	for _, s := range list {
		v.Items = append(v.Items, Text(s))
	}
	return v
}

func boolean(b bool) *Value { return &Value{Kind: Bool, Text: strconv.FormatBool(b)} }

// Mapping returns a Map. pairs has a key, its value, the next key, its value, and so on.
func Mapping(pairs ...any) *Value {
	v := &Value{Kind: Map}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, _ := pairs[i].(string)
		value, _ := pairs[i+1].(*Value)
		v.Members = append(v.Members, Member{Key: key, Value: value})
	}
	return v
}

// same reports whether two values are equal. It ignores the order of keys.
func same(a, b *Value) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind != b.Kind || a.Text != b.Text || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Items {
		if !same(a.Items[i], b.Items[i]) {
			return false
		}
	}
	for _, m := range a.Members {
		if !same(m.Value, b.Get(m.Key)) {
			return false
		}
	}
	return true
}

// SyntaxError says why a file cannot be read, and at which position the problem is.
type SyntaxError struct {
	File      string
	Line, Col int // 1-based; 0 if unknown
	Text      string
}

// Error returns the error on one line: file:line:col: text.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Text)
}

// position returns the 1-based line and column of an offset.
func position(b []byte, offset int) (line, col int) {
	before := b[:min(max(offset, 0), len(b))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// maxDepth bounds the nesting of a file, because the parsers recurse.
const maxDepth = 500

// MaxFile is the maximum size in bytes of a file that Dragoman reads. It is large, because some
// clients also keep other data in these files.
const MaxFile = 32 << 20

var bom = []byte("\ufeff")
