package schema

import (
	"encoding/json"
	"math/big"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// shape is what the value of a keyword must be.
type shape int

const (
	free  shape = iota // anything, because we don't know the keyword
	value              // anything
	text
	flag
	list       // an array
	whole      // an integer that isn't negative
	numeric    // a number
	positive   // a number above zero
	names      // an array of different strings
	nameLists  // an object whose values are names
	typeNamed  // one of the types, or an array of different types
	one        // a schema
	oneOrFlag  // a schema; a boolean in draft-04, too
	oneOrMany  // a schema, or an array of schemas
	many       // an array of at least one schema
	named      // an object whose values are schemas
	dependents // an object whose values are schemas or names
)

// since returns s if the edition is from or a later one. An earlier edition doesn't know the keyword.
func (d draft) since(from draft, s shape) shape {
	if d < from {
		return free
	}
	return s
}

// shapeOf returns the shape of a keyword. The keywords are those of the meta-schemas of the editions
// (2020-12 §8 and §10; validation 2020-12 §6 to §9).
func (d draft) shapeOf(keyword string) shape {
	switch keyword {
	case "$schema", "$ref", "title", "description", "format", "pattern":
		return text
	case "id":
		if d == draft4 {
			return text
		}
	case "$id", "$comment", "contentMediaType", "contentEncoding":
		return d.since(draft6, text)
	case "$anchor":
		return d.since(draft2019, text)
	case "$recursiveRef":
		if d == draft2019 {
			return text
		}
	case "$recursiveAnchor":
		if d == draft2019 {
			return flag
		}
	case "$dynamicRef", "$dynamicAnchor":
		return d.since(draft2020, text)
	}
	return d.assertion(keyword)
}

// assertion does the work of shapeOf for the keywords that are about a value, without schemas.
func (d draft) assertion(keyword string) shape {
	switch keyword {
	case "readOnly", "writeOnly":
		return d.since(draft7, flag)
	case "deprecated":
		return d.since(draft2019, flag)
	case "uniqueItems":
		return flag
	case "examples":
		return d.since(draft6, list)
	case "const":
		return d.since(draft6, value)
	case "enum":
		return list
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return whole
	case "minContains", "maxContains":
		return d.since(draft2019, whole)
	case "minimum", "maximum":
		return numeric
	case "exclusiveMinimum", "exclusiveMaximum":
		if d == draft4 {
			return flag
		}
		return numeric
	case "multipleOf":
		return positive
	case "required":
		return names
	case "dependentRequired":
		return d.since(draft2019, nameLists)
	case "type":
		return typeNamed
	}
	return d.applicator(keyword)
}

// applicator does the work of shapeOf for the keywords that contain schemas.
func (d draft) applicator(keyword string) shape {
	old := func(s shape) shape {
		if d >= draft2020 {
			return free
		}
		return s
	}
	switch keyword {
	case "not":
		return one
	case "propertyNames", "contains":
		return d.since(draft6, one)
	case "if", "then", "else":
		return d.since(draft7, one)
	case "unevaluatedItems", "unevaluatedProperties", "contentSchema":
		return d.since(draft2019, one)
	case "additionalProperties":
		return oneOrFlag
	case "additionalItems":
		return old(oneOrFlag)
	case "items":
		if d >= draft2020 {
			return one
		}
		return oneOrMany
	case "allOf", "anyOf", "oneOf":
		return many
	case "prefixItems":
		return d.since(draft2020, many)
	case "properties", "patternProperties", "definitions":
		return named
	case "$defs", "dependentSchemas":
		return d.since(draft2019, named)
	case "dependencies":
		return dependents
	}
	return free
}

// check returns why v doesn't have the shape, as the end of a sentence. It returns "" if v has the
// shape, or if s is a shape of schemas.
func (s shape) check(v any) string {
	switch s {
	case text:
		if _, ok := v.(string); !ok {
			return "must be a string"
		}
	case flag:
		if _, ok := v.(bool); !ok {
			return "must be true or false"
		}
	case list:
		if _, ok := v.([]any); !ok {
			return "must be a JSON array"
		}
	case whole:
		n, ok := v.(json.Number)
		if !ok || !isInteger(n) || rational(n).Sign() < 0 {
			return "must be an integer that is not negative"
		}
	case numeric, positive:
		n, ok := v.(json.Number)
		if !ok || s == positive && rational(n).Sign() <= 0 {
			return map[shape]string{numeric: "must be a number", positive: "must be a number above zero"}[s]
		}
	case names:
		return uniqueNames(v)
	case nameLists:
		m, ok := v.(map[string]any)
		if !ok {
			return "must be a JSON object"
		}
		for _, v := range m {
			if why := uniqueNames(v); why != "" {
				return "has a member that " + why
			}
		}
	case typeNamed:
		all, ok := v.([]any)
		if !ok {
			all = []any{v}
		} else if why := uniqueNames(v); why != "" || len(all) == 0 {
			return "must name each type once"
		}
		for _, v := range all {
			if name, _ := v.(string); typeNamedBy(name) == 0 {
				return "must be one of string, integer, number, boolean, null, array, object"
			}
		}
	}
	return ""
}

func uniqueNames(v any) string {
	all, ok := v.([]any)
	if !ok {
		return "must be an array of strings"
	}
	had := make(map[string]bool, len(all))
	for _, v := range all {
		name, ok := v.(string)
		switch {
		case !ok:
			return "must be an array of strings"
		case had[name]:
			return "must not name " + excerpt.Word(name, 100) + " twice"
		}
		had[name] = true
	}
	return ""
}

// typeNamedBy returns the type with a name. It returns the empty set if there is none.
func typeNamedBy(name string) Types {
	for _, n := range typeNames {
		if n.name == name {
			return n.t
		}
	}
	return 0
}

// rational returns the value of a number. checkNumbers has bounded its length and its exponent.
func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// isInteger reports whether a number has no fraction, however it is written: 1.0 is an integer.
func isInteger(n json.Number) bool {
	if _, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return true
	}
	return rational(n).IsInt()
}
