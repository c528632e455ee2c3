package tool

import (
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/schema"
)

// Value is an example of one argument.
type Value struct {
	Name string
	JSON []byte
	// Text is the form in which a person types the value. A string has no quotes. Any other value
	// is JSON.
	Text string
}

// Example returns a value for each required argument. The value comes from the default, the
// examples or the choices in the schema. If the schema has none of these, the value is a
// placeholder of the right type.
func (t Tool) Example() []Value {
	var out []Value
	for _, a := range t.Arguments() {
		if !a.Required {
			break
		}
		steps := 0
		v := Value{Name: a.Name, JSON: example(a.Schema, a.Name, 0, &steps)}
		if s, ok := jsonrpc.Text(v.JSON, jsonrpc.Whole(v.JSON)); ok {
			v.Text = s
		} else {
			v.Text = string(v.JSON)
		}
		out = append(out, v)
	}
	return out
}

// maxNested bounds the nesting of an example.
const maxNested = 6

// formatted has an example of each common string format.
var formatted = map[string]string{
	"date": "1999-12-31", "date-time": "1999-12-31T12:00:00Z", "time": "12:00:00Z", "duration": "PT1H", "email": "user@example.com",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "url": "https://example.com/",
	"uri-reference": "https://example.com/", "uuid": "123e4567-e89b-12d3-a456-426614174000",
}

// example returns a value that fits the types, the choices and the simplest limits of the
// schema.
func example(v schema.View, name string, level int, steps *int) []byte {
	if *steps++; *steps > maxTypes || level > maxNested {
		return []byte("null")
	}
	if d := v.JSON("default"); d != nil && string(d) != "null" && string(d) != `""` {
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
	types := v.Types()
	switch {
	case types == 0, types&schema.String != 0:
		return jsonrpc.AppendQuote(nil, exampleText(v, name))
	case types&(schema.Integer|schema.Number) != 0:
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
	case types&schema.Boolean != 0:
		return []byte("true")
	case types&schema.Array != 0:
		n := int64(1)
		if least, ok := v.Int("minItems"); ok {
			n = min(max(n, least), maxMembers)
		}
		out := []byte{'['}
		for i := range n {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, example(v.Items(), "", level+1, steps)...)
		}
		return append(out, ']')
	case types&schema.Object != 0:
		out := []byte{'{'}
		for _, p := range v.Properties() {
			if !p.Required {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(jsonrpc.AppendQuote(out, p.Name), ':')
			out = append(out, example(p.View, p.Name, level+1, steps)...)
		}
		return append(out, '}')
	}
	return []byte("null")
}

// exampleText returns a string with the format and the length that the schema requires.
// If the schema requires no format, the string is the name in upper case, so that a reader sees
// what to replace.
func exampleText(v schema.View, name string) string {
	if s, ok := formatted[v.Text("format")]; ok {
		return s
	}
	s := strings.ToUpper(name)
	if s == "" {
		s = "TEXT"
	}
	if least, ok := v.Int("minLength"); ok && int64(len(s)) < least && least <= maxValue {
		s += strings.Repeat("X", int(least)-len(s))
	}
	if most, ok := v.Int("maxLength"); ok && most >= 0 && int64(len(s)) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}
