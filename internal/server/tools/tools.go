package tools

import (
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// DialectKey is the member of a tool's _meta in which Dragoman finds the flags for clients
// that read a manifest. See docs/dialects.md.
const DialectKey = "io.github.dragoman-mcp/dialect"

// Schema returns the schema of a type. restrict may change the schemas of its members. It may be
// nil. Schema panics if the type has no schema, because only an error in the program can cause
// that.
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
