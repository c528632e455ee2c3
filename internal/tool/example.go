package tool

import (
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
// placeholder of the right type. If the schema of the tool is too large or too complex, the value is
// null.
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
