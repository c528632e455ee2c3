package schema

import (
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// Limits of an example.
const (
	maxLevels   = 6   // levels
	maxValues   = 100 // values in it
	maxElements = 8   // elements of one array
	maxPadding  = 60  // the largest minLength that an example satisfies by padding
	optional    = 3   // optional properties that show the shape of an object
)

// Limits of all examples of one Examples, and the estimate for them.
const (
	maxSearched = 64 << 20 // bytes of schemas that are searched
	maxWritten  = 1 << 20  // bytes of defaults, choices, names and placeholders
	lookups     = 16       // members that the example of one value looks up
)

// formatted has an example of each common string format.
var formatted = map[string]string{
	"date": "1999-12-31", "date-time": "1999-12-31T12:00:00Z", "time": "12:00:00Z", "duration": "PT1H", "email": "user@example.com",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "url": "https://example.com/",
	"uri-reference": "https://example.com/", "uuid": "123e4567-e89b-12d3-a456-426614174000",
}

// Examples makes examples. All its examples together have one budget, because a small schema can
// describe a large value, and can need a long search. The zero Examples is ready for use.
type Examples struct {
	searched, written int // bytes
}

// Example returns a JSON value that fits the types, the choices and the simplest limits of a
// schema. The value comes from the default, the examples or the choices in the schema. Otherwise it
// is a placeholder of the right type. name is the name of the property that has the value. Objects
// have only their required properties. Example returns nil if the budget is exhausted.
func (x *Examples) Example(v View, name string) []byte { return x.example(v, name, false) }

// ExampleShape returns an example that shows a person what the value looks like. It does the same as
// Example, with two differences. An object without required properties gets some of its optional
// properties. A default that is an empty array or object does not count.
func (x *Examples) ExampleShape(v View, name string) []byte { return x.example(v, name, true) }

func (x *Examples) example(v View, name string, shape bool) []byte {
	e := exampler{Examples: x, shape: shape}
	value := e.value(v, name, 0)
	if x.exhausted() {
		return nil
	}
	return value
}

// exhausted reports whether nothing is left of the budget.
func (x *Examples) exhausted() bool { return x.searched > maxSearched || x.written > maxWritten }

// write returns a part of an example, and counts it.
func (x *Examples) write(value []byte) []byte {
	x.written += len(value)
	return value
}

// types does the same as View.Types, and counts.
func (x *Examples) types(v View) Types {
	c := typeSearch{work: x.searched, maxWork: maxSearched}
	t := v.types(0, &c)
	x.searched = c.work
	return t
}

// choice returns the first value of View.Choices, or nil. It does not read the others.
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
	shape  bool // the example is one of ExampleShape
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

// members returns the properties that the example of an object has.
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

// exampleText returns a string with the format and the length that the schema requires.
// If the schema requires no format, the string is the name in upper case, so that a reader sees
// what to replace.
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
