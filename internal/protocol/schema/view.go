package schema

import (
	"math"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// maxDepth limits how deep a View follows references and alternatives. maxSteps limits how many
// schemas one search for types reads.
const (
	maxDepth = 8
	maxSteps = 1000

	typeLookups = 9 // how many members View.types looks up in one schema
)

// View is a JSON Schema, or a part of one, in the bytes of a message. The zero View is an
// unknown schema: it has no types and no properties.
type View struct {
	raw      []byte
	root, at jsonrpc.Span // root is the whole document, which references need; at is the schema in this document
}

// Of returns a View of the schema at a position in raw. The schema must be valid JSON.
func Of(raw []byte, at jsonrpc.Span) View { return View{raw, at, at} }

// IsZero reports whether the View has no schema.
func (v View) IsZero() bool { return v.at.IsZero() }

// Raw returns the bytes of the schema. It returns nil if there is no schema. The caller must not
// change the bytes.
func (v View) Raw() []byte {
	if v.at.IsZero() {
		return nil
	}
	return v.at.Of(v.raw)
}

// member returns a member of the schema object, and follows a $ref if the schema has one. It
// returns the zero Span if there is no such member.
func (v View) member(key string) jsonrpc.Span {
	if at := jsonrpc.Find(v.raw, v.at, key); !at.IsZero() {
		return at // JSON Schema 2019-09 allows members beside a $ref
	}
	return jsonrpc.Find(v.raw, v.resolve(0).at, key)
}

// Text returns a member that is a string, such as "description". It returns "" if there is no such
// member.
func (v View) Text(key string) string {
	s, _ := jsonrpc.Text(v.raw, v.member(key))
	return jsonrpc.Shown(s)
}

// JSON returns the bytes of a member, such as "default". It returns nil if there is no such member.
func (v View) JSON(key string) []byte {
	at := v.member(key)
	if at.IsZero() {
		return nil
	}
	return at.Of(v.raw)
}

// Int returns a member that is an integer, such as "minItems". It returns false if there is no such
// integer.
func (v View) Int(key string) (int64, bool) { return jsonrpc.Int(v.raw, v.member(key)) }

// Property is a named property of an object.
type Property struct {
	Name     string
	Required bool
	View
}

// Properties returns the properties in the order in which the schema lists them.
func (v View) Properties() []Property {
	required := map[string]bool{}
	for _, name := range v.Required() {
		required[name] = true
	}
	var out []Property
	for m := range jsonrpc.Members(v.raw, v.member("properties")) {
		name, ok := jsonrpc.Text(v.raw, m.Key)
		if ok {
			out = append(out, Property{name, required[name], View{v.raw, v.root, m.Value}})
		}
	}
	return out
}

// Property returns the schema of a property. It returns the zero View if the schema does not
// list the property.
func (v View) Property(name string) View {
	at := jsonrpc.Find(v.raw, v.member("properties"), name)
	if at.IsZero() {
		return View{}
	}
	return View{v.raw, v.root, at}
}

// Has reports whether the schema lists the property. It also returns true if the schema does not
// list any properties.
func (v View) Has(name string) bool {
	return v.member("properties").IsZero() || !v.Property(name).IsZero()
}

// Required returns the names of the required properties.
func (v View) Required() []string {
	var out []string
	for e := range jsonrpc.Elements(v.raw, v.member("required")) {
		if name, ok := jsonrpc.Text(v.raw, e); ok {
			out = append(out, name)
		}
	}
	return out
}

// Items returns the schema of the elements of an array. It returns the zero View if the schema does
// not describe the elements.
func (v View) Items() View {
	at := v.member("items")
	if at.IsZero() {
		return View{}
	}
	return View{v.raw, v.root, at}
}

// Additional returns the schema of the properties of an object that the schema does not list by
// name. It returns the zero View if the schema does not describe them.
func (v View) Additional() View {
	at := v.member("additionalProperties")
	if jsonrpc.KindOf(v.raw, at) != '{' {
		return View{}
	}
	return View{v.raw, v.root, at}
}

// Alternatives returns the schemas in anyOf. If anyOf is absent, it returns the schemas in oneOf.
func (v View) Alternatives() []View {
	var out []View
	for _, key := range []string{"anyOf", "oneOf"} {
		for e := range jsonrpc.Elements(v.raw, v.member(key)) {
			out = append(out, View{v.raw, v.root, e})
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// All returns the schemas in allOf.
func (v View) All() []View {
	var out []View
	for e := range jsonrpc.Elements(v.raw, v.member("allOf")) {
		out = append(out, View{v.raw, v.root, e})
	}
	return out
}

// Target returns the schema to which the $ref in v refers, or v itself if v has no $ref. Members
// beside the $ref are only in v. Target returns the zero View if the $ref refers to another
// document, to a missing schema, or to itself.
func (v View) Target() View { return v.resolve(0) }

// Choice is one of the values that a schema allows.
type Choice struct {
	Value []byte // the JSON value
	Title string // the title of the value for people; "" if the schema has no title
}

// Choices returns the values of enum or const, or of alternatives that each have a const. It
// returns nil if the schema also allows other values. Titles come from the alternatives, or from
// the older keyword enumNames (2025-06-18 §Elicitation, "Enum Schema").
func (v View) Choices() []Choice {
	var out []Choice
	if at := v.member("const"); !at.IsZero() {
		return []Choice{{Value: at.Of(v.raw)}}
	}
	for e := range jsonrpc.Elements(v.raw, v.member("enum")) {
		out = append(out, Choice{Value: e.Of(v.raw)})
	}
	n := 0
	for e := range jsonrpc.Elements(v.raw, v.member("enumNames")) {
		if n < len(out) {
			s, _ := jsonrpc.Text(v.raw, e)
			out[n].Title = jsonrpc.Shown(s)
		}
		n++
	}
	if out != nil {
		return out
	}
	for _, a := range v.Alternatives() {
		value := a.member("const")
		if value.IsZero() {
			return nil
		}
		out = append(out, Choice{value.Of(v.raw), a.Text("title")})
	}
	return out
}

// resolve follows a chain of references within the document. It returns the zero View if a
// reference is to another document, or if the chain is longer than maxDepth.
func (v View) resolve(depth int) View {
	to, _, ok := v.follow()
	if !ok {
		return v
	}
	if depth >= maxDepth {
		return View{}
	}
	return to.resolve(depth + 1)
}

// follow follows one reference within the document. For a reference to another document, it returns
// the zero View. work is the number of bytes that follow searches. ok is false if v has no $ref.
func (v View) follow() (to View, work int, ok bool) {
	ref, ok := jsonrpc.Text(v.raw, jsonrpc.Find(v.raw, v.at, "$ref"))
	if !ok {
		return v, 0, false
	}
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return View{}, 0, true
	}
	at := v.root
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if key != "" {
			work += at.End - at.Start
			// RFC 6901 §4
			at = jsonrpc.Find(v.raw, at, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
		}
	}
	return View{v.raw, v.root, at}, work, true
}

// work returns the maximum number of bytes that one call of View.member searches.
func (v View) work() int {
	n := 3 * len(v.Raw())
	for range maxDepth {
		to, more, ok := v.follow()
		if !ok {
			break
		}
		n += more + 2*len(to.Raw())
		v = to
	}
	return n
}

// Types returns the types that the schema allows. It returns the empty set if the types are unknown.
func (v View) Types() Types {
	return v.types(0, &typeSearch{maxWork: math.MaxInt})
}

// TypeFinder finds the types of many schemas. All searches of one TypeFinder share a budget,
// because even a small schema can require a long search for each of its parts. The zero TypeFinder
// is ready for use.
type TypeFinder struct {
	searched int // bytes searched so far
}

// Types does the same as View.Types. It returns the empty set if the budget is exhausted.
func (f *TypeFinder) Types(v View) Types {
	c := typeSearch{work: f.searched, maxWork: maxSearched}
	t := v.types(0, &c)
	f.searched = c.work
	if f.searched > maxSearched {
		return 0
	}
	return t
}

// typeSearch counts the work of one search for types. The search ends when steps or work reaches
// its limit.
type typeSearch struct {
	steps         int // the number of schemas read so far
	work, maxWork int // the number of bytes searched so far, and its limit
}

func (v View) types(depth int, c *typeSearch) Types {
	if c.steps >= maxSteps || c.work > c.maxWork {
		return 0
	}
	c.steps++
	if c.maxWork < math.MaxInt {
		c.work += v.work()
	}
	v = v.resolve(0)
	c.work += typeLookups * len(v.Raw())
	if depth >= maxDepth || jsonrpc.KindOf(v.raw, v.at) != '{' {
		return 0
	}
	var t Types
	named := func(at jsonrpc.Span) {
		name, _ := jsonrpc.Text(v.raw, at)
		for _, n := range typeNames {
			if n.name == name {
				t |= n.t
			}
		}
	}
	list := jsonrpc.Find(v.raw, v.at, "type")
	named(list)
	for e := range jsonrpc.Elements(v.raw, list) {
		named(e)
	}
	if t != 0 {
		return t
	}
	t = v.kindOf(jsonrpc.Find(v.raw, v.at, "const"))
	for e := range jsonrpc.Elements(v.raw, jsonrpc.Find(v.raw, v.at, "enum")) {
		t |= v.kindOf(e)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		for e := range jsonrpc.Elements(v.raw, jsonrpc.Find(v.raw, v.at, key)) {
			t |= View{v.raw, v.root, e}.types(depth+1, c)
		}
	}
	if t == 0 && !jsonrpc.Find(v.raw, v.at, "properties").IsZero() {
		t = Object
	}
	if t == 0 && !jsonrpc.Find(v.raw, v.at, "items").IsZero() {
		t = Array
	}
	return t
}

func (v View) kindOf(at jsonrpc.Span) Types {
	switch jsonrpc.KindOf(v.raw, at) {
	case '"':
		return String
	case '0':
		return Number
	case 't', 'f':
		return Boolean
	case 'n':
		return Null
	case '[':
		return Array
	case '{':
		return Object
	}
	return 0
}
