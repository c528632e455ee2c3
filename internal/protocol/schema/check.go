package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// These are the limits of compiling a schema and of checking a value.
const (
	maxBytes  = 1 << 20
	maxNested = 64
	maxTokens = 100_000
	// maxParts limits the objects and booleans in a schema, maxPaths the total length of their JSON
	// pointers in bytes, and maxCompared the product of both. The jsonschema library keeps the pointer
	// of each part, and compares it with those of all other parts. It would take 15 s for an anyOf with
	// 65,536 alternatives in 200 KB.
	maxParts    = 10_000
	maxPaths    = 8 << 20
	maxCompared = 4 << 30
	// maxExponent is the maximum exponent of a number, and maxDigits is the maximum length of its
	// text. These limits are needed because the jsonschema library computes with exact fractions,
	// so 1e999999999 would become a number with a billion digits.
	maxExponent = 400
	maxDigits   = 1000
	// maxWork limits how many times one check may apply a schema. Without this limit, a check could
	// run for a very long time, even if the schema has only a few hundred bytes.
	maxWork = 1_000_000
	// maxPatterns limits the total number of instructions of all patterns in a schema.
	maxPatterns = 50_000
	// maxProblems is the maximum number of problems that one check reports.
	maxProblems = 20
)

// Checker is a compiled schema. Compile creates it. A Checker checks one value at a time: Check must
// not run concurrently with another Check of the same Checker.
type Checker struct {
	compiled *jsonschema.Schema
	steps    *steps
}

// errRemote is the error for a schema that refers to another document.
var errRemote = errors.New("the schema refers to another document, and Dragoman does not load such documents")

// ErrLarge is the error for a schema whose check would take too much time or memory. Such a schema
// may be valid.
var ErrLarge = errors.New("the schema has too many parts, or their names are too long")

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errRemote }

// formats lists the formats that the jsonschema library checks in schemas of draft-07 and older.
// Compile turns these checks off.
var formats = []string{
	"date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference",
	"json-pointer", "period", "regex", "relative-json-pointer", "semver", "time", "uri", "uri-reference", "uri-template", "uuid",
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
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be parsed: %w", err)
	}
	if n, paths := parts(doc, 0); n > maxParts || paths > maxPaths || int64(n)*int64(paths) > maxCompared {
		return nil, ErrLarge
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	for _, name := range formats {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	p := patterns{left: maxPatterns, steps: &steps{}}
	c.UseRegexpEngine(p.compile)
	const here = "urn:dragoman:schema"
	if err := c.AddResource(here, doc); err != nil {
		return nil, compileError(err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, compileError(err)
	}
	return &Checker{compiled, p.steps}, nil
}

// parts returns the number of objects and booleans in a schema, and the total length of their JSON
// pointers in bytes. at is the length of the pointer of v.
func parts(v any, at int) (n, paths int) {
	add := func(v any, at int) {
		more, length := parts(v, at)
		n, paths = n+more, paths+length
	}
	switch v := v.(type) {
	case map[string]any:
		n, paths = 1, at
		for name, x := range v {
			add(x, at+1+len(name))
		}
	case []any:
		for i, x := range v {
			add(x, at+1+len(strconv.Itoa(i)))
		}
	case bool:
		n, paths = 1, at
	}
	return n, paths
}

// anything is a pattern that matches all texts.
type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }

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
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if p.left <= 0 {
		return anything(text), nil
	}
	c, err := pattern.Compile(text)
	if err != nil {
		p.left -= min(len(text), pattern.MaxBytes) // parsing the text took time, too
		return anything(text), nil
	}
	p.left -= c.Size()
	return bounded{c, p.steps}, nil
}

// compileError returns the reason why the jsonschema library refuses a schema, in one sentence.
func compileError(err error) error {
	if errors.Is(err, errRemote) {
		return errRemote
	}
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return errRemote
	}
	var bad *jsonschema.SchemaValidationError
	if errors.As(err, &bad) {
		var invalid *jsonschema.ValidationError
		if errors.As(bad.Err, &invalid) {
			if all := leaves(invalid); len(all) > 0 {
				at := "the schema"
				if path := all[0].InstanceLocation; len(path) > 0 {
					at = excerpt.Quote("/"+strings.Join(path, "/"), 200)
				}
				return fmt.Errorf("%s %s", at, describe(all[0]))
			}
		}
	}
	return errors.New(excerpt.Line(err.Error(), 500))
}

// checkNumbers returns an error if raw contains a number that would take the jsonschema library too
// much time.
func checkNumbers(raw []byte) error {
	quoted := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '-' || c >= '0' && c <= '9':
			end := i
			for end < len(raw) && strings.IndexByte("+-.eE0123456789", raw[end]) >= 0 {
				end++
			}
			number := string(raw[i:end])
			exponent := 0
			if at := strings.IndexAny(number, "eE"); at >= 0 {
				n, err := strconv.Atoi(strings.TrimPrefix(number[at+1:], "+"))
				if err != nil {
					n = maxExponent + 1
				}
				exponent = max(n, -n)
			}
			if exponent > maxExponent || len(number) > maxDigits {
				return errors.New("a number is too large or too long: " + excerpt.Word(number, 40))
			}
			i = end - 1
		}
	}
	return nil
}

// Kind is the kind of a Problem.
type Kind int

// These are the kinds of problems.
const (
	Invalid Kind = iota // the value has a problem that no other kind describes
	Missing             // the property Name is missing
	Unknown             // the property Name is not allowed
	Wrong               // the value has the wrong type
)

// Problem is one reason why a value does not match a schema.
type Problem struct {
	// Path is the path to the wrong value: property names and array indices. It is empty for the
	// checked value itself. For Missing and Unknown, it is the path to the object that lacks or
	// contains the property.
	Path []string
	Kind Kind
	Name string // the name of the property, for Missing and Unknown
	// Text is the rest of a sentence that begins with the value: "must be a number". Text that
	// comes from the schema is quoted and shortened.
	Text string
}

// Check checks a JSON value and returns at most 20 problems. It returns nil if the value is valid.
// The error says in one sentence why the value cannot be checked.
func (c *Checker) Check(value []byte) ([]Problem, error) {
	if err := jsonrpc.Valid(value, jsonrpc.Limits{}); err != nil {
		return nil, fmt.Errorf("the value cannot be parsed: %w", err)
	}
	if err := checkNumbers(value); err != nil {
		// Say that the number is in the value, because Compile returns the same error for a schema.
		return nil, fmt.Errorf("the value cannot be checked: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return nil, fmt.Errorf("the value cannot be parsed: %w", err)
	}
	w := work{known: map[step]int{}, open: map[*jsonschema.Schema]bool{}}
	depth, most := shape(doc)
	w.fan = most
	switch n := w.of(c.compiled, depth); {
	case w.cyclic:
		return nil, errEndless
	case n > maxWork:
		return nil, errors.New("a check would take too long, because the schema has too many nested alternatives and references")
	}
	short := c.steps.short
	c.steps.Set(pattern.UsualBudget)
	err = c.compiled.Validate(doc)
	if c.steps.short != short {
		return nil, errors.New("a check would take too long, because the patterns of the schema are large and the value is long")
	}
	if err == nil {
		return nil, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil, err
	}
	var out []Problem
	for _, l := range leaves(invalid) {
		if _, ok := l.ErrorKind.(*kind.RefCycle); ok {
			return nil, errEndless
		}
		for _, p := range problems(l) {
			if len(out) < 50*maxProblems && !slices.ContainsFunc(out, p.same) {
				out = append(out, p)
			}
		}
	}
	// Sort the problems, because the library returns them in a random order. Put missing and
	// unknown properties first, because they help the user most.
	slices.SortFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), slices.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Text, b.Text))
	})
	return out[:min(len(out), maxProblems)], nil
}

func (p Problem) rank() int {
	if p.Kind == Missing || p.Kind == Unknown {
		return 0
	}
	return 1
}

func (p Problem) same(q Problem) bool {
	return p.Kind == q.Kind && p.Name == q.Name && p.Text == q.Text && slices.Equal(p.Path, q.Path)
}

var errEndless = errors.New("the schema contains a reference to itself that never ends")

// leaves returns the innermost errors of e that can be described. If a value matches no alternative
// of anyOf or oneOf, leaves returns only the errors of the alternative that nearest chooses.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		if near := nearest(e); near != nil {
			return leaves(near)
		}
		return []*jsonschema.ValidationError{e}
	case *kind.Not, *kind.Contains, *kind.PropertyNames:
		return []*jsonschema.ValidationError{e}
	}
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

// nearest returns the error of the only alternative that allows the type of the value. It returns
// nil if there is no such alternative, or more than one.
func nearest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	var found *jsonschema.ValidationError
	for _, c := range e.Causes {
		typed := true
		for _, l := range leaves(c) {
			switch l.ErrorKind.(type) {
			case *kind.Type, *kind.Const, *kind.Enum:
				if len(l.InstanceLocation) == len(e.InstanceLocation) {
					typed = false
				}
			}
		}
		if !typed {
			continue
		}
		if found != nil {
			return nil
		}
		found = c
	}
	return found
}

// problems converts one error of the jsonschema library to problems.
func problems(e *jsonschema.ValidationError) []Problem {
	at := e.InstanceLocation
	var out []Problem
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			out = append(out, Problem{at, Missing, name, "is missing"})
		}
	case *kind.AdditionalProperties:
		for _, name := range slices.Sorted(slices.Values(k.Properties)) {
			out = append(out, Problem{at, Unknown, name, "is unknown"})
		}
	case *kind.DependentRequired:
		for _, name := range k.Missing {
			out = append(out, Problem{at, Missing, name, "is missing, and " + excerpt.Word(k.Prop, 100) + " requires it"})
		}
	case *kind.Dependency:
		for _, name := range k.Missing {
			out = append(out, Problem{at, Missing, name, "is missing, and " + excerpt.Word(k.Prop, 100) + " requires it"})
		}
	case *kind.Type:
		out = append(out, Problem{at, Wrong, "", describe(e)})
	default:
		out = append(out, Problem{at, Invalid, "", describe(e)})
	}
	return out
}

// describe returns the text of a Problem for an error of the jsonschema library.
func describe(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		var t Types
		for _, n := range typeNames {
			if slices.Contains(k.Want, n.name) {
				t |= n.t
			}
		}
		return "must be " + t.Describe()
	case *kind.Enum:
		return "must be " + oneOf(k.Want)
	case *kind.Const:
		return "must be " + oneOf([]any{k.Want})
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.AnyOf, *kind.OneOf:
		return alternatives(e)
	case *kind.Not:
		return "matches a schema that is not allowed here (not)"
	case *kind.Contains:
		return "has no element that matches the required schema (contains)"
	case *kind.PropertyNames:
		return "has a property with a name that is not allowed: " + excerpt.Word(k.Property, 100)
	case *kind.MinLength:
		return "must have at least " + count(k.Want, "character")
	case *kind.MaxLength:
		return "must have at most " + count(k.Want, "character")
	case *kind.MinItems:
		return "must have at least " + count(k.Want, "element")
	case *kind.MaxItems:
		return "must have at most " + count(k.Want, "element")
	case *kind.MinProperties:
		return "must have at least " + count(k.Want, "member")
	case *kind.MaxProperties:
		return "must have at most " + count(k.Want, "member")
	case *kind.AdditionalItems:
		return "has " + count(k.Count, "element") + " too many"
	case *kind.UniqueItems:
		return fmt.Sprintf("has the same element twice, at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Pattern:
		return "must match the pattern " + excerpt.Quote(k.Want, 200)
	case *kind.Minimum:
		return "must be at least " + excerpt.Word(number(k.Want.FloatString(10)), 40)
	case *kind.Maximum:
		return "must be at most " + excerpt.Word(number(k.Want.FloatString(10)), 40)
	case *kind.ExclusiveMinimum:
		return "must be greater than " + excerpt.Word(number(k.Want.FloatString(10)), 40)
	case *kind.ExclusiveMaximum:
		return "must be less than " + excerpt.Word(number(k.Want.FloatString(10)), 40)
	case *kind.MultipleOf:
		return "must be a multiple of " + excerpt.Word(number(k.Want.FloatString(10)), 40)
	}
	return "does not match the schema"
}

// alternatives returns the text of a Problem for a value that matches no schema of anyOf or oneOf,
// or more than one schema of oneOf.
func alternatives(e *jsonschema.ValidationError) string {
	if one, ok := e.ErrorKind.(*kind.OneOf); ok && len(one.Subschemas) > 0 {
		return "matches more than one of the alternatives (oneOf), but must match exactly one"
	}
	var t Types
	var values []any
	for _, c := range e.Causes {
		for _, l := range leaves(c) {
			switch k := l.ErrorKind.(type) {
			case *kind.Type:
				for _, n := range typeNames {
					if slices.Contains(k.Want, n.name) {
						t |= n.t
					}
				}
			case *kind.Enum:
				values = append(values, k.Want...)
			case *kind.Const:
				values = append(values, k.Want)
			default:
				return fmt.Sprintf("matches none of the %d alternatives of the schema", len(e.Causes))
			}
			if len(l.InstanceLocation) != len(e.InstanceLocation) {
				return fmt.Sprintf("matches none of the %d alternatives of the schema", len(e.Causes))
			}
		}
	}
	switch {
	case len(values) == 0:
		return "must be " + t.Describe()
	case t == 0:
		return "must be " + oneOf(values)
	}
	return "must be " + t.Describe() + ", or " + oneOf(values)
}

// oneOf formats the allowed JSON values for use in a sentence.
func oneOf(values []any) string {
	const most = 12
	var out []string
	for i, v := range values {
		if i == most {
			out = append(out, fmt.Sprintf("%d more", len(values)-most))
			break
		}
		b, err := json.Marshal(v)
		if err != nil {
			continue
		}
		if s, ok := v.(string); ok {
			out = append(out, excerpt.Word(s, 100))
			continue
		}
		out = append(out, excerpt.Line(string(b), 100))
	}
	if len(out) == 1 {
		return out[0]
	}
	return "one of " + strings.Join(out, ", ")
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// number removes zeros at the end of a decimal fraction.
func number(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
