package files

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Parts of the error message that the SDK returns for wrong tool arguments. The message begins with
// wrongArguments. The other parts come from the schema library.
const (
	wrongArguments = `validating "arguments": validating root: `
	wrongProperty  = "validating /properties/"
	missing        = "required: missing properties: "
	unexpected     = "unexpected additional properties "
)

// explain rewrites the SDK's error for wrong tool arguments, so that the error says what is wrong
// and what to do next. It does not change other results.
func explain(res *mcp.CallToolResult, schema *jsonschema.Schema) {
	if !res.IsError || len(res.Content) != 1 || schema == nil {
		return
	}
	text, ok := res.Content[0].(*mcp.TextContent)
	if !ok {
		return
	}
	why, ok := strings.CutPrefix(text.Text, wrongArguments)
	if !ok {
		return
	}
	all := "use the arguments " + strings.Join(slices.Sorted(maps.Keys(schema.Properties)), ", ")
	err := refuse(all, "the arguments do not match the schema of the tool")
	if rest, ok := strings.CutPrefix(why, wrongProperty); ok {
		name, _, _ := strings.Cut(rest, ": ")
		if p := schema.Properties[name]; p != nil {
			err = refuse("correct it and call again", "the argument %s must be %s", name, allowed(p))
		}
	} else if names, ok := strings.CutPrefix(why, missing); ok {
		if lacks := bare(names); strings.Contains(lacks, " and ") {
			err = refuse("add them and call again", "the call lacks the arguments %s", lacks)
		} else {
			err = refuse("add it and call again", "the call lacks the argument %s", lacks)
		}
	} else if names, ok := strings.CutPrefix(why, unexpected); ok {
		if more := bare(names); strings.Contains(more, " and ") {
			err = refuse(all, "the tool does not have the arguments %s", more)
		} else {
			err = refuse(all, "the tool has no argument %s", more)
		}
	}
	text.Text = err.Error()
}

// bare turns a list of names from an error of the SDK, such as ["a" "b"], into "a and b".
func bare(list string) string {
	return excerpt.Line(strings.ReplaceAll(strings.Trim(list, `[]"`), `" "`, " and "), 200)
}

// allowed returns a phrase that describes the values that the schema of an argument allows.
func allowed(p *jsonschema.Schema) string {
	kind := p.Type
	for _, t := range p.Types {
		if t != "null" {
			kind = t
		}
	}
	switch {
	case len(p.Enum) > 0:
		var words []string
		for _, v := range p.Enum {
			if text, ok := v.(string); ok {
				words = append(words, text)
			}
		}
		return "one of " + strings.Join(words, ", ")
	case p.Minimum != nil && p.Maximum != nil:
		number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
		return "an integer from " + number(*p.Minimum) + " to " + number(*p.Maximum)
	case kind == "boolean":
		return "true or false"
	case kind == "integer":
		return "an integer"
	}
	return "a text"
}
