package dialect

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// draft202012 is the JSON Schema dialect that MCP uses by default (2025-11-25 §Base, "JSON
// Schema Usage").
const draft202012 = `"https://json-schema.org/draft/2020-12/schema"`

// InputSchema returns a tool's schema as a JSON Schema 2020-12 object schema. changed says whether
// the result differs from the given schema. InputSchema repairs keywords of OpenAPI 3.0 and of drafts
// 4 to 7 that have a different meaning or no meaning in 2020-12: boolean exclusiveMinimum and
// exclusiveMaximum, nullable, and items as a list. A property with the name of a keyword, such as
// nullable, stays. All other bytes are unchanged.
func InputSchema(schema []byte) (repaired []byte, changed bool) {
	at := jsonrpc.Whole(schema)
	if jsonrpc.KindOf(schema, at) != '{' {
		return []byte(`{"type":"object"}`), true
	}
	r := repairer{raw: schema}
	r.tuples = jsonrpc.Find(schema, at, "$schema").IsZero()
	r.schema(at, true)
	if r.edits.Len() == 0 {
		return schema, false
	}
	return jsonrpc.Splice(make([]byte, 0, len(schema)+64), schema, &r.edits), true
}

// repairer collects the edits of one schema. Its methods are recursive. The depth of the schema
// limits the recursion, and jsonrpc.Scan limits the depth of the schema.
type repairer struct {
	raw    []byte
	edits  jsonrpc.Edits
	tuples bool // a list in items has the meaning of the older drafts, because $schema is absent
}

// These are the schema keywords that repairs depend on.
const (
	kwType = iota
	kwMinimum
	kwMaximum
	kwExclusiveMinimum
	kwExclusiveMaximum
	kwNullable
	kwEnum
	kwAnyOf
	kwOneOf
	kwAllOf
	kwRef
	kwConst
	kwSchema
	keywordCount
)

var keywords = []string{
	"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "nullable",
	"enum", "anyOf", "oneOf", "allOf", "$ref", "const", "$schema",
}

// schema repairs the schema object at a span and its subschemas.
func (r *repairer) schema(at jsonrpc.Span, root bool) {
	if jsonrpc.KindOf(r.raw, at) != '{' {
		return // true and false are schemas too
	}
	var kw [keywordCount]jsonrpc.Span
	jsonrpc.FindAll(r.raw, at, keywords, kw[:])
	var x change
	r.exclusive(&x, kw[kwExclusiveMinimum], kw[kwMinimum], "exclusiveMinimum", "minimum")
	r.exclusive(&x, kw[kwExclusiveMaximum], kw[kwMaximum], "exclusiveMaximum", "maximum")
	if k := jsonrpc.KindOf(r.raw, kw[kwNullable]); k == 't' || k == 'f' {
		x.drop = append(x.drop, "nullable")
		if k == 't' && !root {
			r.nullable(&x, at, &kw)
		}
	}
	if root {
		if t, _ := jsonrpc.Text(r.raw, kw[kwType]); t != "object" {
			// The arguments of a tool must be an object (2025-06-18 §Schema, "Tool").
			x.set = append(x.set, jsonrpc.Field{Key: "type", Value: []byte(`"object"`)})
		}
	}
	r.subschemas(at)
	if root && (len(x.set)+len(x.drop) > 0 || r.edits.Len() > 0) && !kw[kwSchema].IsZero() {
		x.set = append(x.set, jsonrpc.Field{Key: "$schema", Value: []byte(draft202012)})
	}
	if len(x.set)+len(x.drop) > 0 {
		r.edits.Object(mcp.WhySchema, r.raw, at, x.drops, x.set...)
	}
}

// change contains the changes to the members of one object.
type change struct {
	set  []jsonrpc.Field
	drop []string
}

func (x *change) drops(key []byte) bool {
	for _, d := range x.drop {
		if d == string(key) {
			return true
		}
	}
	return false
}

// exclusive converts {"minimum":n,"exclusiveMinimum":true} of draft 4 and OpenAPI 3.0 to
// {"exclusiveMinimum":n}.
func (r *repairer) exclusive(x *change, flag, bound jsonrpc.Span, flagName, boundName string) {
	switch jsonrpc.KindOf(r.raw, flag) {
	case 'f':
		x.drop = append(x.drop, flagName)
	case 't':
		if jsonrpc.KindOf(r.raw, bound) != '0' {
			x.drop = append(x.drop, flagName) // the value true has no effect without a bound
			return
		}
		x.set = append(x.set, jsonrpc.Field{Key: flagName, Value: bound.Of(r.raw)})
		x.drop = append(x.drop, boundName)
	}
}

// nullable makes a schema allow null in the syntax of 2020-12.
func (r *repairer) nullable(x *change, at jsonrpc.Span, kw *[keywordCount]jsonrpc.Span) {
	// Not only type, but also enum, anyOf and oneOf must allow null.
	if jsonrpc.KindOf(r.raw, kw[kwEnum]) == '[' {
		r.append(kw[kwEnum], "null")
	}
	choices := false
	for _, list := range []int{kwAnyOf, kwOneOf} {
		if jsonrpc.KindOf(r.raw, kw[list]) == '[' {
			choices = true
		}
	}
	switch {
	case !kw[kwAllOf].IsZero() || !kw[kwRef].IsZero() || !kw[kwConst].IsZero() || choices && !kw[kwType].IsZero():
		// Other keywords restrict the value too, so wrap the whole schema in an anyOf with null.
		r.edits.Insert(mcp.WhySchema, at.Start, []byte(`{"anyOf":[`))
		r.edits.Insert(mcp.WhySchema, at.End, []byte(`,{"type":"null"}]}`))
	case choices:
		for _, list := range []int{kwAnyOf, kwOneOf} {
			if jsonrpc.KindOf(r.raw, kw[list]) == '[' {
				r.append(kw[list], `{"type":"null"}`)
			}
		}
	case jsonrpc.KindOf(r.raw, kw[kwType]) == '"':
		t := kw[kwType].Of(r.raw)
		if string(t) != `"null"` {
			x.set = append(x.set, jsonrpc.Field{Key: "type", Value: append(append([]byte{'['}, t...), `,"null"]`...)})
		}
	case jsonrpc.KindOf(r.raw, kw[kwType]) == '[':
		r.append(kw[kwType], `"null"`)
	}
}

// append adds a value to the end of a list, unless the list contains it.
func (r *repairer) append(list jsonrpc.Span, value string) {
	empty := true
	for e := range jsonrpc.Elements(r.raw, list) {
		if empty = false; string(e.Of(r.raw)) == value {
			return
		}
	}
	if !empty {
		value = "," + value
	}
	r.edits.Insert(mcp.WhySchema, list.End-1, []byte(value))
}

// subschemas repairs the schemas inside a schema.
func (r *repairer) subschemas(at jsonrpc.Span) {
	for m := range jsonrpc.Members(r.raw, at) {
		key := m.Key.Of(r.raw)
		switch string(bytes.Trim(key, `"`)) {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			for p := range jsonrpc.Members(r.raw, m.Value) {
				r.schema(p.Value, false)
			}
		case "allOf", "anyOf", "oneOf", "prefixItems":
			r.each(m.Value)
		case "items":
			if jsonrpc.KindOf(r.raw, m.Value) == '[' {
				r.each(m.Value)
				if r.tuples && jsonrpc.Find(r.raw, at, "prefixItems").IsZero() {
					r.edits.Replace(mcp.WhySchema, m.Key, []byte(`"prefixItems"`))
				}
				continue
			}
			r.schema(m.Value, false)
		case "additionalItems":
			r.schema(m.Value, false)
			if r.tuples && jsonrpc.KindOf(r.raw, jsonrpc.Find(r.raw, at, "items")) == '[' && jsonrpc.Find(r.raw, at, "prefixItems").IsZero() {
				r.edits.Replace(mcp.WhySchema, m.Key, []byte(`"items"`))
			}
		case "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains", "propertyNames", "not", "if", "then", "else":
			r.schema(m.Value, false)
		}
	}
}

func (r *repairer) each(list jsonrpc.Span) {
	for e := range jsonrpc.Elements(r.raw, list) {
		r.schema(e, false)
	}
}
