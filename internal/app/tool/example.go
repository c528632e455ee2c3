package tool

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// Value is an example value of one argument.
type Value struct {
	Name string
	JSON []byte
	// Text is the value as a person types it: a string without quotes, or any other value as JSON.
	Text string
}

// Example returns an example value for each required argument. The value comes from the default,
// the examples or the choices in the argument's schema. If the schema has none of these, the value
// is a placeholder of the right type. The value is null if the schema is too large or too complex.
func (t Tool) Example() []Value {
	var out []Value
	var examples schema.Examples
	for _, a := range t.Arguments() {
		if !a.Required {
			break
		}
		v := Value{Name: a.Name, JSON: examples.Example(a.Schema, a.Name)}
		if v.JSON == nil {
			v.JSON = []byte("null")
		}
		if s, ok := jsonrpc.Text(v.JSON, jsonrpc.Whole(v.JSON)); ok {
			v.Text = s
		} else {
			v.Text = string(v.JSON)
		}
		out = append(out, v)
	}
	return out
}
