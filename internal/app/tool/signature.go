package tool

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// Limits of a signature.
const (
	maxArguments = 64
	maxChoices   = 6
	maxMembers   = 8
	maxLevels    = 2
	maxName      = 64 // bytes of a name
	maxValue     = 60 // bytes of a value
)

// Signature returns the tool as a function:
//
//	search(query: string, limit?: integer = 10) → {hits: object[]}
//
// Optional arguments have a question mark. The result type is "content" if the tool has no
// output schema. Required arguments come first.
func (t Tool) Signature() string {
	return word(t.Name()) + "(" + strings.Join(t.Parameters(), ", ") + ") → " + t.Returns()
}

// Parameters returns the arguments of the tool as Signature writes them. If there are more than
// maxArguments, the last element is "…".
func (t Tool) Parameters() []string {
	args := t.Arguments()
	var out []string
	for i, a := range args {
		if i == maxArguments {
			return append(out, "…")
		}
		out = append(out, a.String())
	}
	return out
}

// Returns returns the type of the tool's structured result. It returns "content" if the tool has no
// output schema.
func (t Tool) Returns() string {
	if v := t.Output(); !v.IsZero() {
		return TypeOf(v)
	}
	return "content"
}

// Argument is one argument of a tool.
type Argument struct {
	Name     string
	Required bool
	Type     string // the type in the notation of TypeOf
	Default  string // the default value as shortened JSON; "" if there is none
	About    string // the description; if there is none, the title
	Schema   schema.View
}

// String returns the argument as Signature writes it.
func (a Argument) String() string {
	s := word(a.Name)
	if !a.Required {
		s += "?"
	}
	s += ": " + a.Type
	if a.Default != "" {
		s += " = " + a.Default
	}
	return s
}

// Arguments returns the arguments of the tool. Required arguments come first. Apart from that, the
// arguments are in the order of the schema.
func (t Tool) Arguments() []Argument {
	return ArgumentsOf(t.Input())
}

// ArgumentsOf returns one argument for each property in the schema of an object. Required arguments
// come first.
func ArgumentsOf(v schema.View) []Argument {
	var first, rest []Argument
	for _, p := range v.Properties() {
		a := Argument{Name: p.Name, Required: p.Required, Type: TypeOf(p.View), Schema: p.View, About: p.Text("description")}
		if a.About == "" {
			a.About = p.Text("title")
		}
		if d := p.JSON("default"); d != nil {
			a.Default = excerpt.Line(string(d), maxValue)
		}
		if a.Required {
			first = append(first, a)
		} else {
			rest = append(rest, a)
		}
	}
	return append(first, rest...)
}

// TypeOf returns the type of a schema in a short notation: "string", "integer[]",
// `"a" | "b"`, "{x: number, y?: number}", or "any".
func TypeOf(v schema.View) string {
	steps := 0
	return typeOf(v, 0, &steps)
}

// maxTypes bounds the number of schemas that are read for one type, because schemas may refer to
// each other in a cycle.
const maxTypes = 100

func typeOf(v schema.View, level int, steps *int) string {
	if *steps++; *steps > maxTypes || v.IsZero() {
		return "any"
	}
	if choices := v.Choices(); len(choices) > 0 {
		var out []string
		for i, c := range choices {
			if i == maxChoices {
				out = append(out, "…")
				break
			}
			out = append(out, excerpt.Line(string(c.Value), maxValue))
		}
		return strings.Join(out, " | ")
	}
	types := v.Types()
	if types&(schema.Object|schema.Array) != 0 && v.JSON("type") == nil {
		// The schema itself has no type, but its alternatives have types. Show each alternative.
		var out []string
		for _, a := range v.Alternatives() {
			if s := typeOf(a, level, steps); !contains(out, s) {
				out = append(out, s)
			}
		}
		if len(out) > 0 && len(out) <= maxChoices {
			return strings.Join(out, " | ")
		}
	}
	var out []string
	for _, name := range types.Names() {
		switch {
		case name == "integer" && types&schema.Number != 0:
			continue // "number" already includes "integer"
		case name == "array":
			item := typeOf(v.Items(), level, steps)
			if strings.Contains(item, " | ") {
				item = "(" + item + ")"
			}
			name = item + "[]"
		case name == "object":
			name = object(v, level, steps)
		}
		out = append(out, name)
	}
	if len(out) == 0 {
		return "any"
	}
	return strings.Join(out, " | ")
}

func contains(all []string, s string) bool {
	for _, x := range all {
		if x == s {
			return true
		}
	}
	return false
}

func object(v schema.View, level int, steps *int) string {
	members := v.Properties()
	if len(members) == 0 || level >= maxLevels {
		return "object"
	}
	var out []string
	for i, p := range members {
		if i == maxMembers {
			out = append(out, "…")
			break
		}
		a := Argument{Name: p.Name, Required: p.Required, Type: typeOf(p.View, level+1, steps)}
		out = append(out, a.String())
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// word returns a name as Signature writes it. The name is in quotes if it is empty, or contains
// spaces or punctuation of the notation.
func word(name string) string {
	if name == "" || strings.ContainsAny(name, " ,:?()[]{}|") {
		return string(jsonrpc.AppendQuote(nil, excerpt.Line(name, maxName)))
	}
	return excerpt.Word(name, maxName)
}
