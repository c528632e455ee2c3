package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// draft is an edition of JSON Schema. Later editions are larger.
type draft int

const (
	draft4 draft = 1 + iota
	draft6
	draft7
	draft2019
	draft2020
)

// draftOf returns the edition that $schema names. It returns 0 if we don't know the name.
func draftOf(name string) draft {
	name = strings.TrimSuffix(name, "#")
	if rest, ok := strings.CutPrefix(name, "http://"); ok {
		name = "https://" + rest
	}
	switch name {
	case "https://json-schema.org/draft-04/schema":
		return draft4
	case "https://json-schema.org/draft-06/schema":
		return draft6
	case "https://json-schema.org/draft-07/schema":
		return draft7
	case "https://json-schema.org/draft/2019-09/schema":
		return draft2019
	case "https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/schema":
		return draft2020
	}
	return 0
}

// node is one schema in a document: what a value must have to match it.
type node struct {
	in    *resource
	rules []rule // in the order in which they are checked; none means that everything matches
}

// nothing and everything are the schemas false and true.
var (
	nothing    = &node{rules: []rule{never{}}}
	everything = &node{}
)

// resource is a part of a document that has a URI of its own: the whole document, and each schema
// in it with an $id. References are relative to the resource in which they stand.
type resource struct {
	uri     *url.URL
	json    map[string]any
	node    *node
	anchors map[string]*node
	dynamic map[string]*node // the anchors that a $dynamicRef may find (2020-12 §8.2.3.2)
	// recursive is $recursiveAnchor (2019-09 §8.2.4.2.2).
	recursive bool
}

// place is a position in a document: the name of a member or the index of an element, in the value
// that is at up. For the document itself, up is nil.
type place struct {
	up   *place
	name string
	open []*node // the schemas that are being applied to the value here
}

func (p *place) at(name string) *place { return &place{up: p, name: name} }

// path returns the names that lead to p.
func (p *place) path() []string {
	var out []string
	for ; p.up != nil; p = p.up {
		out = append(out, p.name)
	}
	slices.Reverse(out)
	return out
}

// compiler makes the nodes of one document.
type compiler struct {
	draft     draft
	known     map[uintptr]*node // by the map that holds the JSON object
	resources map[string]*resource
	refs      []pendingRef
	patterns  patterns
	// notes is true if the document has a schema for what no other keyword has looked at.
	notes bool
}

// pendingRef is a reference whose target is looked up when all schemas are known.
type pendingRef struct {
	to   *reference
	from *resource
	at   *place
}

// invalid is the error for a schema that its own edition of JSON Schema forbids.
func invalid(at *place, text string) error {
	what := "the schema"
	if at.up != nil {
		what = excerpt.Quote("/"+strings.Join(at.path(), "/"), 200)
	}
	return errors.New(what + " " + text)
}

// Compile prepares a schema for checks. A schema without $schema uses draft 2020-12
// (2025-11-25 §Base, "JSON Schema Usage"). The error says in one sentence why the schema
// cannot be used.
func Compile(raw []byte) (*Checker, error) {
	if err := jsonrpc.Valid(raw, jsonrpc.Limits{Bytes: maxBytes, Depth: maxNested, Tokens: maxTokens}); err != nil {
		return nil, fmt.Errorf("the schema cannot be parsed: %w", err)
	}
	if err := checkNumbers(raw); err != nil {
		return nil, err
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be parsed: %w", err)
	}
	c := newCompiler(draft2020)
	root, err := c.document(doc)
	if err != nil {
		return nil, err
	}
	return &Checker{root: root, steps: c.patterns.steps, notes: c.notes}, nil
}

func newCompiler(d draft) *compiler {
	return &compiler{
		draft: d, known: map[uintptr]*node{}, resources: map[string]*resource{},
		patterns: patterns{left: maxPatterns, steps: &steps{}},
	}
}

// document returns the node of a whole document.
func (c *compiler) document(doc any) (*node, error) {
	root, err := c.parse(doc)
	for err == nil && len(c.refs) > 0 { // a target may be a part that wasn't known to be a schema, and refer further
		r := c.refs[0]
		c.refs = c.refs[1:]
		err = c.resolve(r)
	}
	return root, err
}

// parse returns the node of a whole document, whose references have no targets yet. c.draft is the
// edition of a document without $schema.
func (c *compiler) parse(doc any) (*node, error) {
	m, _ := doc.(map[string]any)
	if name, ok := m["$schema"].(string); ok {
		if c.draft = draftOf(name); c.draft == 0 {
			return nil, errRemote
		}
	}
	base := &resource{uri: &url.URL{Scheme: "dragoman", Path: "/"}, json: m}
	c.resources[base.uri.String()] = base
	root, err := c.schema(doc, base, &place{}, false)
	base.node = root
	return root, err
}

// decode decodes JSON and keeps the text of numbers.
func decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// schema returns the node of the schema v, which stands in the resource in. flag says that draft-04
// allows a boolean here.
func (c *compiler) schema(v any, in *resource, at *place, flag bool) (*node, error) {
	switch v := v.(type) {
	case bool:
		if c.draft < draft6 && !flag {
			return nil, invalid(at, "must be a JSON object")
		}
		if v {
			return everything, nil
		}
		return nothing, nil
	case map[string]any:
		key := reflect.ValueOf(v).Pointer()
		if n := c.known[key]; n != nil {
			return n, nil
		}
		n := &node{in: in}
		c.known[key] = n
		return n, c.object(n, v, at)
	}
	if c.draft < draft6 {
		return nil, invalid(at, "must be a JSON object")
	}
	return nil, invalid(at, "must be a JSON object or a boolean")
}

// object fills n from the object m.
func (c *compiler) object(n *node, m map[string]any, at *place) error {
	alone := c.draft <= draft7 && m["$ref"] != nil // the reference hides its neighbours (draft-07 §8.3)
	if !alone {
		if err := c.identify(n, m, at); err != nil {
			return err
		}
	}
	parts := parts{c: c, m: m, at: at, n: n}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if err := parts.read(key); err != nil {
			return err
		}
	}
	parts.rules(alone)
	return parts.err
}

// identify enters the URI and the anchors of n.
func (c *compiler) identify(n *node, m map[string]any, at *place) error {
	key := "$id"
	if c.draft == draft4 {
		key = "id"
	}
	anchors := map[string]bool{} // whether it is dynamic
	if id, _ := m[key].(string); id != "" {
		u, err := url.Parse(id)
		if err != nil {
			return invalid(at.at(key), "must be a URI")
		}
		if u.Fragment != "" && c.draft <= draft7 {
			anchors[u.Fragment] = false
		}
		if u.Fragment = ""; u.String() != "" {
			r := &resource{uri: n.in.uri.ResolveReference(u), json: m, node: n}
			name := r.uri.String()
			if len(name) > maxURI {
				return invalid(at.at(key), "must be shorter")
			}
			c.resources[name] = r
			n.in = r
		}
	}
	if name, ok := m["$anchor"].(string); ok && c.draft >= draft2019 {
		anchors[name] = false
	}
	if name, ok := m["$dynamicAnchor"].(string); ok && c.draft >= draft2020 {
		anchors[name] = true
	}
	for name, dynamic := range anchors {
		if n.in.anchors == nil {
			n.in.anchors, n.in.dynamic = map[string]*node{}, map[string]*node{}
		}
		if n.in.anchors[name] = n; dynamic {
			n.in.dynamic[name] = n
		}
	}
	if recursive, _ := m["$recursiveAnchor"].(bool); recursive && c.draft == draft2019 {
		n.in.recursive = true
	}
	return nil
}

// resolve finds the target of a reference.
func (c *compiler) resolve(r pendingRef) error {
	u, err := url.Parse(r.to.text)
	if err != nil {
		return invalid(r.at, "must be a URI")
	}
	u = r.from.uri.ResolveReference(u)
	fragment := u.Fragment
	u.Fragment = ""
	in := c.resources[u.String()]
	if in == nil {
		d := draftOf(u.String())
		if d == 0 || fragment != "" {
			return errRemote
		}
		r.to.node = &node{rules: []rule{metaSchema{d}}}
		return nil
	}
	missing := func() error { // made only if needed, because the names above may be long
		return invalid(r.at, "refers to a schema that does not exist: "+excerpt.Word(r.to.text, 200))
	}
	switch {
	case fragment == "":
		r.to.node = in.node
	case fragment[0] != '/':
		if r.to.node = in.anchors[fragment]; r.to.node == nil {
			return missing()
		}
		if in.dynamic[fragment] != nil {
			r.to.anchor = fragment
		}
	default:
		v, from, at := c.pointer(in, fragment)
		if v == nil {
			return missing()
		}
		if r.to.node, err = c.schema(v, from, at, true); err != nil {
			return err
		}
	}
	return nil
}

// pointer follows a JSON pointer (RFC 6901) from a resource. It returns the value it leads to, and the
// resource in which that value stands. v is nil if there is none.
func (c *compiler) pointer(in *resource, pointer string) (v any, from *resource, at *place) {
	v, from, at = in.json, in, &place{}
	for key := range strings.SplitSeq(pointer[1:], "/") {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key) // §4
		at = at.at(key)
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(in) {
				return nil, nil, nil
			}
			v = in[i]
		default:
			return nil, nil, nil
		}
		if m, ok := v.(map[string]any); ok {
			if n := c.known[reflect.ValueOf(m).Pointer()]; n != nil {
				from = n.in
			}
		}
	}
	return v, from, at
}

// anything is a pattern that matches all texts.
type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }

// matcher is a pattern, or what stands for one that we cannot use.
type matcher interface {
	MatchString(string) bool
	String() string
}

// steps is the budget that all patterns of a schema share during one check.
type steps struct {
	pattern.Budget
	short int // the number of matches that were skipped because the budget was too small
}

// bounded is a pattern whose matches take steps from a budget. If the budget is too small for a
// match, MatchString returns true, and Checker.Check returns an error.
type bounded struct {
	*pattern.Pattern
	steps *steps
}

func (b bounded) MatchString(s string) bool {
	if !b.steps.Take(b.Cost(len(s))) {
		b.steps.short++
		return true
	}
	return b.Regexp().MatchString(s)
}

func (b bounded) String() string { return b.Regexp().String() }

// patterns compiles the patterns of one schema.
type patterns struct {
	left  int // the number of instructions that further patterns may have
	steps *steps
}

// compile compiles a pattern. Patterns are regular expressions of ECMA-262. Package regexp does not
// support all of them, for example lookahead. compile ignores unsupported patterns and patterns
// that are too large, because the server checks the arguments anyway.
func (p *patterns) compile(text string) matcher {
	if p.left <= 0 {
		return anything(text)
	}
	c, err := pattern.Compile(text)
	if err != nil {
		p.left -= min(len(text), pattern.MaxBytes) // parsing the text took time, too
		return anything(text)
	}
	p.left -= c.Size()
	return bounded{c, p.steps}
}
