package schema

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Types is a set of JSON types. The empty set means that the types are unknown.
type Types uint8

// These are the types of JSON, and Integer, which only JSON Schema has.
const (
	String Types = 1 << iota
	Integer
	Number
	Boolean
	Null
	Array
	Object
)

var typeNames = []struct {
	name string
	t    Types
	text string // the text for errors
}{
	{"string", String, "a string"},
	{"integer", Integer, "an integer"},
	{"number", Number, "a number"},
	{"boolean", Boolean, "true or false"},
	{"null", Null, "null"},
	{"array", Array, "a JSON array"},
	{"object", Object, "a JSON object"},
}

// Names returns the names of the types, as a schema spells them.
func (t Types) Names() []string {
	var out []string
	for _, n := range typeNames {
		if t&n.t != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

// Describe returns the types as text for an error: "an integer or null".
func (t Types) Describe() string {
	var out []string
	for _, n := range typeNames {
		if t&n.t != 0 {
			out = append(out, n.text)
		}
	}
	return strings.Join(out, " or ")
}

// TypeOf returns the type of a JSON value. For an integer, it returns both Integer and Number. It
// returns the empty set if b is not valid JSON.
func TypeOf(b []byte) Types {
	b = []byte(strings.TrimSpace(string(b)))
	if jsonrpc.Valid(b, jsonrpc.Limits{}) != nil {
		return 0
	}
	t := View{raw: b}.kindOf(jsonrpc.Whole(b))
	if t == Number && strings.Trim(string(b), "-0123456789") == "" {
		t |= Integer
	}
	return t
}
