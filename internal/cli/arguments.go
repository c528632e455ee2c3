package cli

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// argument is one name=value or name:=JSON of the command line.
type argument struct {
	key, value string
	json       bool
}

func parseArguments(flag string, pairs []string) ([]argument, error) {
	var out []argument
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok {
			return nil, usagef("use "+flag+" name=value", "%s %q has no =", flag, fit(p, 40))
		}
		x := argument{key: k, value: v}
		x.key, x.json = strings.CutSuffix(k, ":")
		if x.key == "" {
			return nil, usagef("use "+flag+" name=value", "%s %q has no name", flag, fit(p, 40))
		}
		if x.json {
			if err := jsonrpc.Valid([]byte(v), jsonrpc.Limits{}); err != nil {
				return nil, usagef("use "+flag+" "+x.key+"=VALUE for a string", "the value of %s:= is not valid JSON", x.key)
			}
		}
		out = append(out, x)
	}
	return out, nil
}

// needTypes reports whether a schema is needed to find the types of the arguments.
func needTypes(arguments []argument) bool {
	for _, x := range arguments {
		if !x.json {
			return true
		}
	}
	return false
}

// schema is a JSON Schema within the bytes that it came in. The zero schema has no types.
// It is read only to find the JSON types of values. The server validates the arguments.
type schema struct {
	raw  []byte
	root jsonrpc.Span
	// steps counts the alternatives and references that were followed. maxSteps bounds
	// it, because a server could send a schema with endlessly many.
	steps *int
}

func schemaOf(raw []byte, root jsonrpc.Span) schema {
	return schema{raw: raw, root: root, steps: new(int)}
}

// object returns a JSON object with the members of base and the arguments. An argument
// replaces a member of the same name. flag is the flag of the arguments, for errors.
func (s schema) object(base []byte, flag string, arguments []argument) ([]byte, error) {
	values := map[string][]string{}
	asJSON := map[string]bool{}
	var order []string
	for _, x := range arguments {
		if values[x.key] == nil {
			order = append(order, x.key)
		} else if x.json || asJSON[x.key] {
			return nil, usagef("remove one of them", "%s %s is given twice", flag, x.key)
		}
		values[x.key] = append(values[x.key], x.value)
		asJSON[x.key] = x.json
	}
	dst := []byte{'{'}
	member := func(key string) {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(jsonrpc.AppendQuote(dst, key), ':')
	}
	for m := range jsonrpc.Members(base, jsonrpc.Whole(base)) {
		if key, _ := jsonrpc.Text(base, m.Key); values[key] == nil {
			member(key)
			dst = append(dst, m.Value.Of(base)...)
		}
	}
	for _, key := range order {
		member(key)
		if asJSON[key] {
			dst = append(dst, values[key][0]...)
			continue
		}
		v, wants := s.value(key, values[key])
		if wants != "" {
			return nil, usagef("use "+flag+" "+key+":=JSON to send another type",
				"%s %s must be %s", flag, key, wants)
		}
		dst = append(dst, v...)
	}
	return append(dst, '}'), nil
}

// value returns the values of a property as JSON. If they do not fit the schema, wants
// describes what the schema requires.
func (s schema) value(key string, texts []string) (json []byte, wants string) {
	at := s.property(key)
	t := s.types(at, 0)
	if len(texts) > 1 || t&arrayType != 0 && t&stringType == 0 && !strings.HasPrefix(strings.TrimSpace(texts[0]), "[") {
		if t != 0 && t&arrayType == 0 {
			return nil, "given only once"
		}
		items := s.types(jsonrpc.Find(s.raw, s.resolve(at, 0), "items"), 0)
		json = []byte{'['}
		for i, text := range texts {
			if i > 0 {
				json = append(json, ',')
			}
			var bad string
			if json, bad = appendTyped(json, items, text); bad != "" {
				return nil, "an array, each item of which is " + bad
			}
		}
		return append(json, ']'), ""
	}
	return appendTyped(nil, t, texts[0])
}

// types is a set of JSON types. The empty set means that the types are unknown.
type types uint8

const (
	stringType types = 1 << iota
	integerType
	numberType
	booleanType
	nullType
	arrayType
	objectType
)

var typeNames = []struct {
	name string
	t    types
	text string // for an error
}{
	{"string", stringType, "a string"},
	{"integer", integerType, "an integer"},
	{"number", numberType, "a number"},
	{"boolean", booleanType, "true or false"},
	{"null", nullType, "null"},
	{"array", arrayType, "a JSON array"},
	{"object", objectType, "a JSON object"},
}

// appendTyped appends text as JSON of one of the types t. If strings are allowed, it
// appends a string; := gives the other types. If no type fits, wants describes them.
func appendTyped(dst []byte, t types, text string) (json []byte, wants string) {
	if t == 0 || t&stringType != 0 {
		return jsonrpc.AppendQuote(dst, text), ""
	}
	b := []byte(strings.TrimSpace(text))
	var is types
	if jsonrpc.Valid(b, jsonrpc.Limits{}) == nil {
		switch jsonrpc.KindOf(b, jsonrpc.Whole(b)) {
		case '0':
			is = numberType
			if strings.Trim(string(b), "-0123456789") == "" {
				is |= integerType
			}
		case 't', 'f':
			is = booleanType
		case 'n':
			is = nullType
		case '[':
			is = arrayType
		case '{':
			is = objectType
		}
	}
	if is&t != 0 {
		return append(dst, b...), ""
	}
	var names []string
	for _, n := range typeNames {
		if t&n.t != 0 {
			names = append(names, n.text)
		}
	}
	return dst, strings.Join(names, " or ")
}

// Limits for references and alternatives: the depth, and the number in total.
const (
	maxDepth = 8
	maxSteps = 1000
)

func (s schema) find(at jsonrpc.Span, key string) jsonrpc.Span {
	return jsonrpc.Find(s.raw, s.resolve(at, 0), key)
}

func (s schema) property(key string) jsonrpc.Span {
	return jsonrpc.Find(s.raw, s.find(s.root, "properties"), key)
}

// has reports whether the schema has the property, or lists no properties.
func (s schema) has(key string) bool {
	return s.find(s.root, "properties").IsZero() || !s.property(key).IsZero()
}

func (s schema) required() []string {
	var out []string
	for e := range jsonrpc.Elements(s.raw, s.find(s.root, "required")) {
		if name, ok := jsonrpc.Text(s.raw, e); ok {
			out = append(out, name)
		}
	}
	return out
}

// resolve follows references within the document. For others it returns the zero Span.
func (s schema) resolve(at jsonrpc.Span, depth int) jsonrpc.Span {
	ref, ok := jsonrpc.Text(s.raw, jsonrpc.Find(s.raw, at, "$ref"))
	if !ok {
		return at
	}
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || depth >= maxDepth {
		return jsonrpc.Span{}
	}
	to := s.root
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if key != "" {
			// RFC 6901 §4
			to = jsonrpc.Find(s.raw, to, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
		}
	}
	return s.resolve(to, depth+1)
}

// types returns the types that the schema at a Span allows, empty if unknown.
func (s schema) types(at jsonrpc.Span, depth int) types {
	if s.steps == nil || *s.steps >= maxSteps {
		return 0
	}
	*s.steps++
	if at = s.resolve(at, 0); depth >= maxDepth || jsonrpc.KindOf(s.raw, at) != '{' {
		return 0
	}
	var t types
	named := func(v jsonrpc.Span) {
		name, _ := jsonrpc.Text(s.raw, v)
		for _, n := range typeNames {
			if n.name == name {
				t |= n.t
			}
		}
	}
	list := jsonrpc.Find(s.raw, at, "type")
	named(list)
	for v := range jsonrpc.Elements(s.raw, list) {
		named(v)
	}
	if t != 0 {
		return t
	}
	t = s.kindOf(jsonrpc.Find(s.raw, at, "const"))
	for v := range jsonrpc.Elements(s.raw, jsonrpc.Find(s.raw, at, "enum")) {
		t |= s.kindOf(v)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		for v := range jsonrpc.Elements(s.raw, jsonrpc.Find(s.raw, at, key)) {
			t |= s.types(v, depth+1)
		}
	}
	if t == 0 && !jsonrpc.Find(s.raw, at, "properties").IsZero() {
		t = objectType
	}
	if t == 0 && !jsonrpc.Find(s.raw, at, "items").IsZero() {
		t = arrayType
	}
	return t
}

func (s schema) kindOf(v jsonrpc.Span) types {
	switch jsonrpc.KindOf(s.raw, v) {
	case '"':
		return stringType
	case '0':
		return numberType
	case 't', 'f':
		return booleanType
	case 'n':
		return nullType
	case '[':
		return arrayType
	case '{':
		return objectType
	}
	return 0
}
