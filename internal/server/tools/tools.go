package tools

import (
	"fmt"
	"strings"

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

// Range sets the minimum and the maximum of the integer that p describes.
func Range(p *jsonschema.Schema, least, most float64) { p.Minimum, p.Maximum = &least, &most }

// Upper capitalizes the first letter of a sentence. It leaves the sentence unchanged if its first
// word contains "_" or ".", because this word is the name of a tool, an argument or a file.
func Upper(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if s == "" || strings.ContainsAny(word, "_.") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
