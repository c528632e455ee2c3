package schema

import (
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// These are the limits of one example.
const (
	maxLevels   = 6   // nested levels of one example
	maxValues   = 100 // values in one example
	maxElements = 8   // elements of one array
	maxPadding  = 60  // the largest minLength that an example satisfies by padding
	optional    = 3   // optional properties in an object that has no required properties
)

// maxSearched and maxWritten limit all examples of one Examples together. lookups is an estimate.
const (
	maxSearched = 64 << 20 // bytes of schemas that Examples searches
	maxWritten  = 1 << 20  // bytes of defaults, choices, names and placeholders that Examples writes
	lookups     = 16       // how many members are looked up in the schema of each value
)

// formatted contains an example of each common string format.
var formatted = map[string]string{
	"date": "1999-12-31", "date-time": "1999-12-31T12:00:00Z", "time": "12:00:00Z", "duration": "PT1H", "email": "user@example.com",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "url": "https://example.com/",
	"uri-reference": "https://example.com/", "uuid": "123e4567-e89b-12d3-a456-426614174000",
}

// Examples creates example values. All examples of one Examples share a budget, because even a
// small schema can describe a large value or require a long search. The zero Examples is ready for
// use.
type Examples struct {
	searched, written int // bytes searched and written so far
}

// Example returns a JSON value that fits the types, the choices and the simplest limits of a
// schema. If the schema has a default, examples or choices, Example uses one of these values.
// Otherwise, it uses a placeholder of the right type. name is the name of the property that has the
// value. An object gets only its required properties. Example returns nil if the budget is
// exhausted.
func (x *Examples) Example(v View, name string) []byte { return x.example(v, name, false) }

// ExampleShape returns an example that shows a person what the value looks like. It does the same
// as Example, with three differences. An object without required properties gets some of its
// optional properties. A default that is an empty array or object is ignored. If the schema has
// alternatives, the example follows the first alternative that is not null.
func (x *Examples) ExampleShape(v View, name string) []byte { return x.example(v, name, true) }

func (x *Examples) example(v View, name string, shape bool) []byte {
	e := exampler{Examples: x, shape: shape}
	value := e.value(v, name, 0)
	if x.exhausted() {
		return nil
	}
	return value
}

// exhausted reports whether the budget is exhausted.
func (x *Examples) exhausted() bool { return x.searched > maxSearched || x.written > maxWritten }

// write returns value, which is a part of an example, and counts its bytes.
func (x *Examples) write(value []byte) []byte {
	x.written += len(value)
	return value
}

// types does the same as View.Types, and counts the bytes that it searches.
func (x *Examples) types(v View) Types {
	c := typeSearch{work: x.searched, maxWork: maxSearched}
	t := v.types(0, &c)
	x.searched = c.work
	return t
}

// choice returns the first value of View.Choices, or nil. It does not build the list of all
// choices.
func (x *Examples) choice(v View) (first []byte) {
	if one := v.JSON("const"); one != nil {
		return one
	}
	for e := range jsonrpc.Elements(v.raw, v.member("enum")) {
		return e.Of(v.raw)
	}
	for _, a := range v.Alternatives() {
		if x.searched += a.work(); x.exhausted() {
			return nil
		}
		value := a.JSON("const")
		if value == nil {
			return nil
		}
		if first == nil {
			first = value
		}
	}
	return first
}

// exampler makes one example.
type exampler struct {
	*Examples
	shape  bool // true for ExampleShape, false for Example
	values int
}

func (x *exampler) value(v View, name string, level int) []byte {
	if x.values++; x.values > maxValues || level > maxLevels || x.exhausted() {
		return []byte("null")
	}
	if x.searched += lookups * v.work(); x.exhausted() {
		return []byte("null")
	}
	if d := v.JSON("default"); d != nil && string(d) != "null" && string(d) != `""` && !(x.shape && hollow(d)) {
		return x.write(d)
	}
	if all := v.JSON("examples"); all != nil {
		for e := range jsonrpc.Elements(all, jsonrpc.Whole(all)) {
			return x.write(e.Of(all))
		}
	}
	if choice := x.choice(v); choice != nil {
		return x.write(choice)
	}
	if x.shape {
		for _, one := range v.Alternatives() {
			if x.types(one) != Null {
				return x.value(one, name, level)
			}
		}
	}
	types := x.types(v)
	switch {
	case types == 0, types&String != 0:
		return x.write(jsonrpc.AppendQuote(nil, exampleText(v, name)))
	case types&(Integer|Number) != 0:
		n := int64(1)
		if least, ok := v.Int("minimum"); ok {
			n = max(n, least)
		}
		if least, ok := v.Int("exclusiveMinimum"); ok && n <= least {
			n = least + 1
		}
		if most, ok := v.Int("maximum"); ok {
			n = min(n, most)
		}
		return strconv.AppendInt(nil, n, 10)
	case types&Boolean != 0:
		return []byte("true")
	case types&Array != 0:
		n := int64(1)
		if least, ok := v.Int("minItems"); ok {
			n = min(max(n, least), maxElements)
		}
		items, out := v.Items(), []byte{'['}
		for i := range n {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, x.value(items, "", level+1)...)
		}
		return append(out, ']')
	case types&Object != 0:
		out := []byte{'{'}
		for _, p := range x.members(v) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(out, x.write(jsonrpc.AppendQuote(nil, p.Name))...), ':')
			out = append(out, x.value(p.View, p.Name, level+1)...)
		}
		return append(out, '}')
	}
	return []byte("null")
}

// hollow reports whether a JSON value is an empty array or object.
func hollow(raw []byte) bool {
	v := jsonrpc.ValueOf(raw)
	for range v.Elements() {
		return false
	}
	for range v.Members() {
		return false
	}
	return v.Kind() == '[' || v.Kind() == '{'
}

// members returns the properties that the example of an object contains.
func (x *exampler) members(v View) (out []Property) {
	all := v.Properties()
	for _, p := range all {
		if p.Required {
			out = append(out, p)
		}
	}
	if len(out) == 0 && x.shape {
		if out = all[:min(len(all), optional)]; len(out) == 0 {
			if of := v.Additional(); !of.IsZero() {
				out = []Property{{Name: "name", View: of}}
			}
		}
	}
	return out
}

// exampleText returns a string with the format and the length that the schema requires. If the
// schema has no common format, the string is made from the name in upper case, so that a person
// sees what to replace.
func exampleText(v View, name string) string {
	if s, ok := formatted[v.Text("format")]; ok {
		return s
	}
	s := strings.ToUpper(name)
	if s == "" {
		s = "TEXT"
	}
	if least, ok := v.Int("minLength"); ok && int64(len(s)) < least && least <= maxPadding {
		s += strings.Repeat("X", int(least)-len(s))
	}
	if most, ok := v.Int("maxLength"); ok && most >= 0 && int64(len(s)) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}
