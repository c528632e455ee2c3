package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// rule is what one or several keywords of a schema demand. check adds a fault to c for each way in
// which v breaks the rule. It adds to s what its schemas have looked at; s is nil if nobody asks.
type rule interface {
	check(c *check, v any, at *place, s *seen)
}

// parts reads the keywords of one schema.
type parts struct {
	c   *compiler
	m   map[string]any
	at  *place
	n   *node
	err error // the first error; the rules are useless then
}

// read checks the shape of a keyword, and compiles the schemas in it.
func (p *parts) read(key string) error {
	v, at := p.m[key], p.at.at(key)
	schema := func(v any, at *place, flag bool) error {
		_, err := p.c.schema(v, p.n.in, at, flag)
		return err
	}
	all, isList := v.([]any)
	s := p.c.draft.shapeOf(key)
	switch s {
	case one, oneOrFlag:
		return schema(v, at, s == oneOrFlag)
	case many, oneOrMany:
		switch {
		case s == oneOrMany && !isList:
			return schema(v, at, false)
		case s == many && len(all) == 0:
			return invalid(at, "must be an array of at least one schema")
		}
		for i, v := range all {
			if err := schema(v, at.at(strconv.Itoa(i)), false); err != nil {
				return err
			}
		}
	case named, dependents:
		m, ok := v.(map[string]any)
		if !ok {
			return invalid(at, "must be a JSON object")
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if _, list := m[name].([]any); list && s == dependents {
				if why := uniqueNames(m[name]); why != "" {
					return invalid(at.at(name), why)
				}
				continue
			}
			if err := schema(m[name], at.at(name), false); err != nil {
				return err
			}
		}
	default:
		if why := s.check(v); why != "" {
			return invalid(at, why)
		}
	}
	return nil
}

// has reports whether the edition knows a keyword that the schema has.
func (p *parts) has(key string) bool {
	_, ok := p.m[key]
	return ok && p.c.draft.shapeOf(key) != free
}

func (p *parts) node(v any) *node {
	n, err := p.c.schema(v, p.n.in, p.at, true)
	p.err = cmp.Or(p.err, err)
	return n
}

// one returns the schema that a keyword has, or nil.
func (p *parts) one(key string) *node {
	if !p.has(key) {
		return nil
	}
	return p.node(p.m[key])
}

func (p *parts) many(key string) (out []*node) {
	all, _ := p.m[key].([]any)
	if p.has(key) {
		for _, v := range all {
			out = append(out, p.node(v))
		}
	}
	return out
}

func (p *parts) named(key string) map[string]*node {
	m, _ := p.m[key].(map[string]any)
	if !p.has(key) || len(m) == 0 {
		return nil
	}
	out := make(map[string]*node, len(m))
	for name, v := range m {
		out[name] = p.node(v)
	}
	return out
}

// count returns the number that a keyword has, or otherwise.
func (p *parts) count(key string, otherwise int) int {
	n, ok := p.m[key].(json.Number)
	if !ok || !p.has(key) {
		return otherwise
	}
	if r := rational(n); r.Num().IsInt64() {
		return int(min(r.Num().Int64(), math.MaxInt32))
	}
	return math.MaxInt32
}

func (p *parts) number(key string) *big.Rat {
	n, ok := p.m[key].(json.Number)
	if !ok {
		return nil
	}
	return rational(n)
}

func stringsOf(v any) (out []string) {
	all, _ := v.([]any)
	for _, v := range all {
		s, _ := v.(string)
		out = append(out, s)
	}
	return out
}

// add adds a rule if the schema has one of the keywords.
func (p *parts) add(r func() rule, keywords ...string) {
	if slices.ContainsFunc(keywords, p.has) {
		p.n.rules = append(p.n.rules, r())
	}
}

// rules makes the rules of the schema. alone says that only the reference counts.
func (p *parts) rules(alone bool) {
	if !alone {
		p.add(p.kind, "type", "const", "enum")
	}
	for _, key := range []string{"$ref", "$recursiveRef", "$dynamicRef"} {
		p.add(func() rule {
			to := &reference{text: p.m[key].(string), keyword: key}
			p.c.refs = append(p.c.refs, pendingRef{to, p.n.in, p.at.at(key)})
			return to
		}, key)
	}
	if alone {
		return
	}
	p.add(p.object, "minProperties", "maxProperties", "required", "properties", "patternProperties",
		"additionalProperties", "propertyNames", "dependencies", "dependentRequired", "dependentSchemas")
	p.add(p.array, "minItems", "maxItems", "uniqueItems", "items", "prefixItems", "additionalItems")
	p.add(p.contains, "contains")
	p.add(p.string, "minLength", "maxLength", "pattern")
	p.add(p.bounds, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
	p.add(func() rule {
		return &logic{all: p.many("allOf"), any: p.many("anyOf"), one: p.many("oneOf"), not: p.one("not")}
	}, "allOf", "anyOf", "oneOf", "not")
	p.add(func() rule { return &condition{p.one("if"), p.one("then"), p.one("else")} }, "if")
	p.add(func() rule {
		p.c.notes = true
		return &rest{items: p.one("unevaluatedItems"), properties: p.one("unevaluatedProperties"), others: p.c.draft >= draft2020}
	}, "unevaluatedItems", "unevaluatedProperties")
}

// never is the schema false.
type never struct{}

func (never) check(c *check, _ any, at *place, _ *seen) {
	c.fault(fault{Problem: Problem{Text: "is not allowed"}, at: at})
}

// kind is the rule of type, const and enum. A value that breaks it breaks no other rule: its other
// problems would only be noise.
type kind struct {
	types  Types
	values choice          // of enum or const
	keys   map[string]bool // their canonical texts; nil if there is no enum or const
	fixed  choice          // the value of const, if there is an enum, too
	only   string          // its canonical text
}

func (p *parts) kind() rule {
	k := &kind{}
	for _, v := range append(stringsOf(p.m["type"]), asString(p.m["type"])) {
		k.types |= typeNamedBy(v)
	}
	all, _ := p.m["enum"].([]any)
	if v := p.m["const"]; p.has("const") {
		if all == nil {
			all = []any{v}
		} else {
			k.fixed, k.only = choiceOf([]any{v}), string(canonical(nil, v))
		}
	}
	if all != nil {
		k.values, k.keys = choiceOf(all), make(map[string]bool, len(all))
		for _, v := range all {
			k.keys[string(canonical(nil, v))] = true
		}
	}
	return k
}

func asString(v any) string {
	s, _ := v.(string)
	return s
}

func (k *kind) check(c *check, v any, at *place, _ *seen) {
	if k.types != 0 && k.types&typesOf(v) == 0 {
		c.fault(fault{Problem: Problem{Kind: Wrong, Text: "must be " + k.types.Describe()}, at: at, types: k.types})
		return
	}
	if k.keys == nil {
		return
	}
	key := c.canonical(v)
	switch {
	case k.only != "" && key != k.only:
		c.fault(fault{Problem: Problem{Text: "must be " + k.fixed.String()}, at: at, values: k.fixed})
	case !k.keys[key]:
		c.fault(fault{Problem: Problem{Text: "must be " + k.values.String()}, at: at, values: k.values})
	}
}

// reference is the rule of $ref, $recursiveRef and $dynamicRef.
type reference struct {
	text    string
	keyword string
	node    *node
	anchor  string // the dynamic anchor of node; "" if it has none
}

func (r *reference) check(c *check, v any, at *place, s *seen) {
	to := r.node
	switch {
	case r.keyword == "$dynamicRef" && r.anchor != "":
		for _, in := range c.scope { // the outermost one wins (2020-12 §8.2.3.2)
			if n := in.dynamic[r.anchor]; n != nil {
				to = n
				break
			}
		}
	case r.keyword == "$recursiveRef" && to.in != nil && to.in.recursive:
		for _, in := range c.scope { // (2019-09 §8.2.4.2.1)
			if in.recursive {
				to = in.node
				break
			}
		}
	}
	c.also(to, v, at, s)
}

// metaSchema is the rule of a reference to the schema of an edition itself: the value must be a
// schema.
type metaSchema struct{ draft draft }

func (r metaSchema) check(c *check, v any, at *place, _ *seen) {
	inner := newCompiler(r.draft)
	_, err := inner.parse(v) // the targets of its references are no matter of a meta-schema
	if c.spend(len(c.canonical(v)) / 16); err != nil && !errors.Is(err, errRemote) {
		c.fault(fault{Problem: Problem{Text: "is not a JSON Schema: " + err.Error()}, at: at})
	}
}

// object is the rule of the keywords for objects.
type object struct {
	least, most int
	required    []string
	properties  map[string]*node
	patterns    []patternProperty
	additional  *node
	names       *node
	dependents  []dependent
}

type patternProperty struct {
	matcher
	*node
}

// dependent is what an object must have if it has a member name.
type dependent struct {
	name   string
	needs  []string
	schema *node
}

func (p *parts) object() rule {
	o := &object{
		least: p.count("minProperties", 0), most: p.count("maxProperties", math.MaxInt), properties: p.named("properties"),
		additional: p.one("additionalProperties"), names: p.one("propertyNames"), required: stringsOf(p.m["required"]),
	}
	patterns := p.named("patternProperties")
	for _, text := range slices.Sorted(maps.Keys(patterns)) {
		o.patterns = append(o.patterns, patternProperty{p.c.patterns.compile(text), patterns[text]})
	}
	for _, key := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		m, _ := p.m[key].(map[string]any)
		if !p.has(key) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			d := dependent{name: name}
			if list, ok := m[name].([]any); ok {
				d.needs = stringsOf(list)
			} else {
				d.schema = p.node(m[name])
			}
			o.dependents = append(o.dependents, d)
		}
	}
	return o
}

func (o *object) check(c *check, v any, at *place, s *seen) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	c.length(len(m), o.least, o.most, "member", at)
	c.spend(len(o.required) + len(o.dependents))
	for _, name := range o.required {
		if _, ok := m[name]; !ok {
			c.fault(fault{Problem: Problem{Kind: Missing, Name: name, Text: "is missing"}, at: at})
		}
	}
	for _, d := range o.dependents {
		if _, ok := m[d.name]; !ok {
			continue
		}
		c.spend(len(d.needs))
		for _, name := range d.needs {
			if _, ok := m[name]; !ok {
				c.fault(fault{Problem: Problem{Kind: Missing, Name: name, Text: "is missing, and " + excerpt.Word(d.name, 100) + " requires it"}, at: at})
			}
		}
		if d.schema != nil {
			c.also(d.schema, v, at, s)
		}
	}
	for name, v := range m {
		o.member(c, name, v, at, s)
		if o.names != nil && !c.matches(o.names, name, at.at(name)) {
			c.fault(fault{Problem: Problem{Text: "has a property with a name that is not allowed: " + excerpt.Word(name, 100)}, at: at})
		}
	}
}

// member checks one member of an object.
func (o *object) member(c *check, name string, v any, at *place, s *seen) {
	c.spend(1 + len(o.patterns))
	known := false
	if n, ok := o.properties[name]; ok {
		known = true
		c.child(n, v, at.at(name))
	}
	for _, p := range o.patterns {
		if p.MatchString(name) {
			known = true
			c.child(p.node, v, at.at(name))
		}
	}
	switch {
	case known:
	case o.additional == nil:
		return
	case o.additional == nothing:
		c.fault(fault{Problem: Problem{Kind: Unknown, Name: name, Text: "is unknown"}, at: at})
	default:
		c.child(o.additional, v, at.at(name))
	}
	s.property(name)
}

// array is the rule of the keywords for arrays.
type array struct {
	least, most int
	unique      bool
	first       []*node // the schemas of the first elements
	rest        *node   // the schema of the others
}

func (p *parts) array() rule {
	a := &array{least: p.count("minItems", 0), most: p.count("maxItems", math.MaxInt)}
	a.unique, _ = p.m["uniqueItems"].(bool)
	_, tuple := p.m["items"].([]any)
	switch {
	case p.c.draft >= draft2020:
		a.first, a.rest = p.many("prefixItems"), p.one("items")
	case tuple:
		a.first, a.rest = p.many("items"), p.one("additionalItems")
	default: // without an array of schemas, additionalItems means nothing (draft-07 §6.4.2)
		a.rest = p.one("items")
	}
	return a
}

func (a *array) check(c *check, v any, at *place, s *seen) {
	all, ok := v.([]any)
	if !ok {
		return
	}
	c.length(len(all), a.least, a.most, "element", at)
	if a.unique {
		had := map[string]int{}
		for i, v := range all {
			key := c.canonical(v)
			if j, ok := had[key]; ok {
				c.fault(fault{Problem: Problem{Text: "has the same element twice, at " + strconv.Itoa(j) + " and " + strconv.Itoa(i)}, at: at})
				break
			}
			had[key] = i
		}
	}
	known := min(len(a.first), len(all))
	for i, v := range all[:known] {
		c.child(a.first[i], v, at.at(strconv.Itoa(i)))
	}
	switch {
	case a.rest == nil:
	case a.rest == nothing && known < len(all):
		c.fault(fault{Problem: Problem{Text: "has " + count(len(all)-known, "element") + " too many"}, at: at})
	default:
		for i, v := range all[known:] {
			c.child(a.rest, v, at.at(strconv.Itoa(known+i)))
		}
		known = len(all)
	}
	s.elements(known)
}

// contains is the rule of contains, minContains and maxContains.
type contains struct {
	node        *node
	least, most int
	noted       bool // an element that matches counts as looked at
}

func (p *parts) contains() rule {
	return &contains{p.one("contains"), p.count("minContains", 1), p.count("maxContains", math.MaxInt), p.c.draft >= draft2020}
}

func (x *contains) check(c *check, v any, at *place, s *seen) {
	all, ok := v.([]any)
	if !ok {
		return
	}
	n := 0
	for i, v := range all {
		if !c.matches(x.node, v, at.at(strconv.Itoa(i))) {
			continue
		}
		if n++; x.noted {
			s.element(i)
		}
	}
	switch {
	case n < x.least && x.least == 1:
		c.fault(fault{Problem: Problem{Text: "has no element that matches the required schema (contains)"}, at: at})
	case n < x.least:
		c.fault(fault{Problem: Problem{Text: "must have at least " + count(x.least, "element") + " that match the required schema (contains)"}, at: at})
	case n > x.most:
		c.fault(fault{Problem: Problem{Text: "must have at most " + count(x.most, "element") + " that match the schema of contains"}, at: at})
	}
}

// characters is the rule of the keywords for strings.
type characters struct {
	least, most int
	pattern     matcher
}

func (p *parts) string() rule {
	r := &characters{least: p.count("minLength", 0), most: p.count("maxLength", math.MaxInt)}
	if text, ok := p.m["pattern"].(string); ok {
		r.pattern = p.c.patterns.compile(text)
	}
	return r
}

func (r *characters) check(c *check, v any, at *place, _ *seen) {
	s, ok := v.(string)
	if !ok {
		return
	}
	c.spend(len(s) / 64)
	c.length(utf8.RuneCountInString(s), r.least, r.most, "character", at)
	if r.pattern != nil && !r.pattern.MatchString(s) {
		c.fault(fault{Problem: Problem{Text: "must match the pattern " + excerpt.Quote(r.pattern.String(), 200)}, at: at})
	}
}

// bounds is the rule of the keywords for numbers.
type bounds struct {
	least, most, above, below, multiple *big.Rat
}

func (p *parts) bounds() rule {
	b := &bounds{p.number("minimum"), p.number("maximum"), p.number("exclusiveMinimum"), p.number("exclusiveMaximum"), p.number("multipleOf")}
	if p.m["exclusiveMinimum"] == true { // draft-04: a flag beside minimum
		b.least, b.above = nil, b.least
	}
	if p.m["exclusiveMaximum"] == true {
		b.most, b.below = nil, b.most
	}
	return b
}

func (b *bounds) check(c *check, v any, at *place, _ *seen) {
	n, ok := v.(json.Number)
	if !ok {
		return
	}
	r := rational(n)
	say := func(text string, bound *big.Rat) {
		c.fault(fault{Problem: Problem{Text: text + excerpt.Word(decimal(bound), 40)}, at: at})
	}
	if b.least != nil && r.Cmp(b.least) < 0 {
		say("must be at least ", b.least)
	}
	if b.most != nil && r.Cmp(b.most) > 0 {
		say("must be at most ", b.most)
	}
	if b.above != nil && r.Cmp(b.above) <= 0 {
		say("must be greater than ", b.above)
	}
	if b.below != nil && r.Cmp(b.below) >= 0 {
		say("must be less than ", b.below)
	}
	if b.multiple != nil && !new(big.Rat).Quo(r, b.multiple).IsInt() {
		say("must be a multiple of ", b.multiple)
	}
}

// logic is the rule of allOf, anyOf, oneOf and not.
type logic struct {
	all, any, one []*node
	not           *node
}

func (l *logic) check(c *check, v any, at *place, s *seen) {
	for _, n := range l.all {
		c.also(n, v, at, s)
	}
	if l.any != nil {
		c.alternatives(l.any, v, at, s, false)
	}
	if l.one != nil {
		c.alternatives(l.one, v, at, s, true)
	}
	if l.not != nil && c.matches(l.not, v, at) {
		c.fault(fault{Problem: Problem{Text: "matches a schema that is not allowed here (not)"}, at: at})
	}
}

// condition is the rule of if, then and else.
type condition struct{ test, yes, no *node }

func (x *condition) check(c *check, v any, at *place, s *seen) {
	before, kept := c.failed, len(c.faults)
	ok := c.also(x.test, v, at, s)
	c.failed, c.faults = before, c.faults[:kept]
	switch {
	case ok && x.yes != nil:
		c.also(x.yes, v, at, s)
	case !ok && x.no != nil:
		c.also(x.no, v, at, s)
	}
}

// rest is the rule of unevaluatedItems and unevaluatedProperties. It stands last.
type rest struct {
	items, properties *node
	others            bool // elements that contains has found count as looked at
}

func (r *rest) check(c *check, v any, at *place, s *seen) {
	switch v := v.(type) {
	case map[string]any:
		if r.properties == nil || s.everything {
			return
		}
		c.spend(len(v))
		for name, v := range v {
			switch {
			case s.names[name]:
			case r.properties == nothing:
				c.fault(fault{Problem: Problem{Kind: Unknown, Name: name, Text: "is unknown"}, at: at})
			default:
				c.child(r.properties, v, at.at(name))
			}
		}
		s.everything = true
	case []any:
		if r.items == nil {
			return
		}
		for i := s.first; i < len(v); i++ {
			if !s.some[i] {
				c.child(r.items, v[i], at.at(strconv.Itoa(i)))
			}
		}
		s.elements(len(v))
	}
}
