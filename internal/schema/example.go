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
	maxPadding  = 60  // characters that a string needs at least; a string for a larger minLength is too short
	optional    = 3   // optional properties that show the shape of an object
)

// formatted has an example of each common string format.
var formatted = map[string]string{
	"date": "1999-12-31", "date-time": "1999-12-31T12:00:00Z", "time": "12:00:00Z", "duration": "PT1H", "email": "user@example.com",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "url": "https://example.com/",
	"uri-reference": "https://example.com/", "uuid": "123e4567-e89b-12d3-a456-426614174000",
}

// Example returns a JSON value that fits the types, the choices and the simplest limits of a
// schema. The value comes from the default, the examples or the choices in the schema. Otherwise it
// is a placeholder of the right type. name is the name of the property that has the value. Objects
// have only their required properties.
func Example(v View, name string) []byte {
	return new(exampler).value(v, name, 0)
}

// ExampleShape returns an example that shows a person what the value looks like. It does the same as
// Example, with two differences. An object without required properties gets some of its optional
// properties. A default that is an empty array or object does not count.
func ExampleShape(v View, name string) []byte {
	e := exampler{shape: true}
	return e.value(v, name, 0)
}

// exampler makes one example.
type exampler struct {
	shape  bool // the example is one of ExampleShape
	values int
}

func (x *exampler) value(v View, name string, level int) []byte {
	if x.values++; x.values > maxValues || level > maxLevels {
		return []byte("null")
	}
	if d := v.JSON("default"); d != nil && string(d) != "null" && string(d) != `""` && !(x.shape && hollow(d)) {
		return d
	}
	if all := v.JSON("examples"); all != nil {
		for e := range jsonrpc.Elements(all, jsonrpc.Whole(all)) {
			return e.Of(all)
		}
	}
	if choices := v.Choices(); len(choices) > 0 {
		return choices[0].Value
	}
	if x.shape {
		for _, one := range v.Alternatives() {
			if one.Types() != Null {
				return x.value(one, name, level)
			}
		}
	}
	types := v.Types()
	switch {
	case types == 0, types&String != 0:
		return jsonrpc.AppendQuote(nil, exampleText(v, name))
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
		out := []byte{'['}
		for i := range n {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, x.value(v.Items(), "", level+1)...)
		}
		return append(out, ']')
	case types&Object != 0:
		out := []byte{'{'}
		for _, p := range x.members(v) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(jsonrpc.AppendQuote(out, p.Name), ':')
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
