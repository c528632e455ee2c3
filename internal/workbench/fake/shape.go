package fake

import (
	"fmt"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// shape describes the members of an object. An object may also have members that are not in its
// shape, because the schemas of all revisions allow this.
type shape []member

type member struct {
	name   string
	kind   kind
	needed bool
	within shape   // the shape of the value, if the value is an object
	each   *member // describes each element of an array, or each value of an object; nil allows anything
	header string  // the x-mcp-header of a tool's argument, in revisions that have it
}

// kind is the type of a JSON value.
type kind string

const (
	anything  kind = "anything"
	aString   kind = "string"
	aNumber   kind = "number"
	anInteger kind = "integer"
	aBool     kind = "boolean"
	anObject  kind = "object"
	anArray   kind = "array"
	aToken    kind = "string or number" // an id or a progress token
	aLevel    kind = "level"            // a log level
)

func need(name string, k kind, within ...member) member {
	return member{name: name, kind: k, needed: true, within: within}
}

func may(name string, k kind, within ...member) member {
	return member{name: name, kind: k, within: within}
}

// of sets the type of the elements of an array, or of the values of an object.
func (m member) of(each member) member {
	m.each = &each
	return m
}

// check returns the first fault of an object, or "" if the object has none. The parameter at is the
// path of the object in the message. check treats an absent object like an empty object.
func (s shape) check(raw []byte, obj jsonrpc.Span, at string) string {
	for _, m := range s {
		v := jsonrpc.Find(raw, obj, m.name)
		if v.IsZero() {
			if m.needed {
				return at + "." + m.name + " is missing"
			}
			continue
		}
		if wrong := m.check(raw, v, at+"."+m.name); wrong != "" {
			return wrong
		}
	}
	return ""
}

func (m *member) check(raw []byte, v jsonrpc.Span, at string) string {
	if !m.kind.fits(raw, v) {
		return fmt.Sprintf("%s is not of type %s", at, m.kind)
	}
	if m.each != nil && m.kind == anArray {
		i := 0
		for e := range jsonrpc.Elements(raw, v) {
			if wrong := m.each.check(raw, e, at+"["+strconv.Itoa(i)+"]"); wrong != "" {
				return wrong
			}
			i++
		}
	}
	if m.each != nil && m.kind == anObject {
		for f := range jsonrpc.Members(raw, v) {
			key, _ := jsonrpc.Text(raw, f.Key)
			if wrong := m.each.check(raw, f.Value, at+"."+clip(key)); wrong != "" {
				return wrong
			}
		}
	}
	return m.within.check(raw, v, at)
}

func (k kind) fits(raw []byte, v jsonrpc.Span) bool {
	is := jsonrpc.KindOf(raw, v)
	switch k {
	case aString:
		return is == '"'
	case aNumber:
		return is == '0'
	case anInteger:
		_, ok := jsonrpc.Int(raw, v)
		return ok
	case aBool:
		return is == 't' || is == 'f'
	case anObject:
		return is == '{'
	case anArray:
		return is == '['
	case aToken:
		// 2025-11-25 §Progress: a token is a string or an integer.
		_, whole := jsonrpc.Int(raw, v)
		return is == '"' || whole
	case aLevel:
		name, _ := jsonrpc.Text(raw, v)
		_, ok := mcp.ParseLogLevel(name)
		return ok
	}
	return true
}

// schema returns the shape as a JSON Schema. The parameter headers says whether the schema has
// x-mcp-header.
func (s shape) schema(headers bool) string {
	out, required := `{"type":"object","properties":{`, ""
	for i, m := range s {
		if i > 0 {
			out += ","
		}
		out += quote(m.name) + `:{"type":` + quote(string(m.kind))
		if headers && m.header != "" {
			out += `,"x-mcp-header":` + quote(m.header)
		}
		out += "}"
		if m.needed {
			if required != "" {
				required += ","
			}
			required += quote(m.name)
		}
	}
	out += "}"
	if required != "" {
		out += `,"required":[` + required + `]`
	}
	return out + "}"
}

func quote(s string) string { return string(jsonrpc.AppendQuote(nil, s)) }

// clip shortens a text from a peer for use in an error message or a violation.
func clip(s string) string { return excerpt.Cut(s, 64) }
