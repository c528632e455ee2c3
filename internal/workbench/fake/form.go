package fake

import (
	"slices"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// fieldMembers returns the members that a field of this type may have in a form. It returns nil if
// the revision does not have this type (schema.ts of 2025-06-18 to 2026-07-28,
// PrimitiveSchemaDefinition).
func (e *edition) fieldMembers(raw []byte, field jsonrpc.Span) []string {
	kind, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, field, "type"))
	has := func(name string) bool { return !jsonrpc.Find(raw, field, name).IsZero() }
	members := []string{"type", "title", "description"}
	switch {
	case kind == "boolean":
		return append(members, "default")
	case kind == "number" || kind == "integer":
		members = append(members, "minimum", "maximum")
	case kind == "string" && has("enum"):
		members = append(members, "enum", "enumNames")
	case kind == "string" && has("oneOf") && e.has(richForms):
		members = append(members, "oneOf")
	case kind == "string":
		members = append(members, "minLength", "maxLength", "format")
	case kind == "array" && e.has(richForms):
		members = append(members, "minItems", "maxItems", "items")
	default:
		return nil
	}
	if e.has(richForms) {
		members = append(members, "default")
	}
	return members
}

// formFault returns the first fault in the schema of a form, or "" if the schema is valid.
func (e *edition) formFault(raw []byte, schema jsonrpc.Span) string {
	fields := jsonrpc.Find(raw, schema, "properties")
	for m := range jsonrpc.Members(raw, fields) {
		name, _ := jsonrpc.Text(raw, m.Key)
		members := e.fieldMembers(raw, m.Value)
		if members == nil {
			return "the field " + clip(name) + " has a type that " + e.date + " does not have in forms"
		}
		for x := range jsonrpc.Members(raw, m.Value) {
			if member, _ := jsonrpc.Text(raw, x.Key); !slices.Contains(members, member) {
				return "the field " + clip(name) + " has " + clip(member) + ", which " + e.date + " does not have for this type"
			}
		}
	}
	for x := range jsonrpc.Elements(raw, jsonrpc.Find(raw, schema, "required")) {
		name, _ := jsonrpc.Text(raw, x)
		if jsonrpc.Find(raw, fields, name).IsZero() {
			return "the required field " + clip(name) + " does not exist"
		}
	}
	return ""
}

// fillForm returns an answer that fits the schema of a form, without the final brace. It uses
// the default values of the form.
func fillForm(p []byte, schema jsonrpc.Span) []byte {
	out := []byte(`{"action":"accept","content":{`)
	first := true
	for m := range jsonrpc.Members(p, jsonrpc.Find(p, schema, "properties")) {
		value := fillField(p, m.Value)
		if value == "" {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(append(out, m.Key.Of(p)...), ':'), value...)
	}
	return append(out, '}')
}

// fillField returns the value of one field as JSON, or "" to leave the field out.
func fillField(p []byte, field jsonrpc.Span) string {
	if v := jsonrpc.Find(p, field, "default"); !v.IsZero() {
		return string(v.Of(p))
	}
	switch kind, _ := jsonrpc.Text(p, jsonrpc.Find(p, field, "type")); kind {
	case "integer", "number":
		return strconv.Itoa(ObligingAge)
	case "boolean":
		return "true"
	case "string":
		for _, list := range []string{"enum", "oneOf"} {
			if all := optionsOf(p, jsonrpc.Find(p, field, list)); len(all) > 0 {
				return all[0]
			}
		}
		return quote(ObligingName)
	case "array":
		items := jsonrpc.Find(p, field, "items")
		all := optionsOf(p, jsonrpc.Find(p, items, "enum"))
		if all == nil {
			all = optionsOf(p, jsonrpc.Find(p, items, "anyOf"))
		}
		value := "["
		for i, o := range all {
			if i > 0 {
				value += ","
			}
			value += o
		}
		return value + "]"
	}
	return ""
}

// optionsOf returns the values of a list of options, as JSON.
func optionsOf(p []byte, list jsonrpc.Span) (out []string) {
	for x := range jsonrpc.Elements(p, list) {
		if jsonrpc.KindOf(p, x) == '{' {
			x = jsonrpc.Find(p, x, "const")
		}
		out = append(out, string(x.Of(p)))
	}
	return out
}
