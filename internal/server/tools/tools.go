package tools

import (
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// DialectKey is the member of a tool's _meta that contains flags of the tool. Dragoman gives these
// flags to clients that read a manifest. See docs/dialects.md.
const DialectKey = "io.github.dragoman-mcp/dialect"

// Schema returns the JSON schema of the type T. If restrict is not nil, Schema calls it to change
// the schemas of the members. Schema panics if T has no schema, because that is an error in the
// program.
func Schema[T any](restrict func(map[string]*jsonschema.Schema)) *jsonschema.Schema {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("schema of %T: %v", *new(T), err))
	}
	if restrict != nil {
		restrict(schema.Properties)
	}
	return schema
}
