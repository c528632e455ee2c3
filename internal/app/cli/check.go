package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// argumentErrors joins problems with arguments into one error. It returns nil if there are no
// problems. The last problem gets the hint.
func argumentErrors(problems []string, hint string) error {
	var all []error
	for i, p := range problems {
		if i < len(problems)-1 {
			all = append(all, usagef("", "%s", p))
		} else {
			all = append(all, usagef(hint, "%s", p))
		}
	}
	return errors.Join(all...)
}

// checkArguments checks the arguments of a call against the schema of the tool. err contains a
// usage error for each problem. If Dragoman cannot use the schema, unusable is the reason, and the
// caller sends the call without a check.
func checkArguments(w where, t tool.Tool, args []byte) (err error, unusable error) {
	input := t.Input()
	if input.IsZero() {
		return nil, nil
	}
	checker, unusable := schema.Compile(input.Raw())
	if unusable != nil {
		return nil, unusable
	}
	problems, unusable := checker.Check(args)
	if unusable != nil {
		return nil, unusable
	}
	problems = append(problems, unlisted(input, args)...)
	if len(problems) == 0 {
		return nil, nil
	}
	name := excerpt.Word(t.Name(), 100)
	var texts []string
	for _, p := range problems {
		if text := describeProblem(name, t, p); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return argumentErrors(texts, "run `"+w.line("show", t.Name())+"` to see the arguments; --no-check sends them as they are"), nil
}

// unlisted returns a problem for each argument that is not among the properties of the schema. JSON
// Schema allows such arguments, but they are almost always typos. unlisted returns nil if the
// schema has no properties, or if it has another keyword that could define properties, such as
// additionalProperties.
func unlisted(input schema.View, args []byte) (out []schema.Problem) {
	for _, key := range []string{"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "$ref", "$dynamicRef"} {
		if input.JSON(key) != nil {
			return nil
		}
	}
	if len(input.Properties()) == 0 {
		return nil
	}
	for m := range jsonrpc.Members(args, jsonrpc.Whole(args)) {
		if key, ok := jsonrpc.Text(args, m.Key); ok && !input.Has(key) {
			out = append(out, schema.Problem{Kind: schema.Unknown, Name: key, Text: "is unknown"})
		}
	}
	return out
}

// describeProblem describes a problem in one sentence. name is the name of the tool.
func describeProblem(name string, t tool.Tool, p schema.Problem) string {
	arguments := t.Arguments()
	find := func(key string) *tool.Argument {
		if i := slices.IndexFunc(arguments, func(a tool.Argument) bool { return a.Name == key }); i >= 0 {
			return &arguments[i]
		}
		return nil
	}
	if len(p.Path) > 0 {
		return name + ": " + problemText(p)
	}
	switch p.Kind {
	case schema.Missing:
		text := name + ": " + excerpt.Word(p.Name, 100) + " " + p.Text
		if a := find(p.Name); a != nil {
			text += " (" + a.Type + ")"
			if about, _, _ := strings.Cut(strings.TrimSpace(a.About), "\n"); about != "" {
				text += ": " + excerpt.Quote(about, 200)
			}
		}
		return text
	case schema.Unknown:
		var names []string
		for _, a := range arguments {
			names = append(names, a.Name)
		}
		text := name + " has no argument " + excerpt.Word(p.Name, 100)
		if near := config.Suggest(p.Name, names); near != "" && len(p.Name) > 1 {
			return text + "; did you mean " + excerpt.Word(near, 100) + "?"
		}
		if len(names) > 0 {
			text += "; it has " + joinNames(names)
		}
		return text
	}
	return name + ": " + problemText(p)
}
