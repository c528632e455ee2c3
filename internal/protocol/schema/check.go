package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// These are the limits of compiling a schema and of checking a value.
const (
	maxBytes  = 1 << 20
	maxNested = 64
	maxTokens = 100_000
	// maxURI limits the length of an $id, because every reference below it is resolved against it.
	// Everybody should understand URIs of 8000 bytes (RFC 9110 §4.1).
	maxURI = 8000
	// maxExponent is the maximum exponent of a number, and maxDigits is the maximum length of its
	// text. We compute with exact fractions, so 1e999999999 would become a number with a billion
	// digits.
	maxExponent = 400
	maxDigits   = 1000
	// maxWork limits the steps of one check: how many times it applies a schema, looks up a name or
	// reads a value. Without this limit, a check could run for a very long time, even if the schema
	// has only a few hundred bytes. A million steps took 6 to 150 ms in 2026, depending on
	// the keywords.
	maxWork = 1_000_000
	// maxOpen limits how many schemas may wait for each other during a check, because each of them
	// needs stack.
	maxOpen = 10_000
	// maxPatterns limits the total number of instructions of all patterns in a schema.
	maxPatterns = 50_000
	// maxProblems is the maximum number of problems that one check reports, and maxFaults how many
	// it collects before it sorts them.
	maxProblems = 20
	maxFaults   = 50 * maxProblems
)

// Checker is a compiled schema. Compile creates it. A Checker checks one value at a time: Check must
// not run concurrently with another Check of the same Checker.
type Checker struct {
	root  *node
	steps *steps
	notes bool
}

var (
	errRemote  = errors.New("the schema refers to another document, and Dragoman does not load such documents")
	errEndless = errors.New("the schema contains a reference to itself that never ends")
	errWork    = errors.New("a check would take too long, because the schema has too many nested alternatives and references")
)

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
func (k *Checker) Check(value []byte) ([]Problem, error) {
	if err := jsonrpc.Valid(value, jsonrpc.Limits{}); err != nil {
		return nil, fmt.Errorf("the value cannot be parsed: %w", err)
	}
	if err := checkNumbers(value); err != nil {
		// Say that the number is in the value, because Compile returns the same error for a schema.
		return nil, fmt.Errorf("the value cannot be checked: %w", err)
	}
	doc, err := decode(value)
	if err != nil {
		return nil, fmt.Errorf("the value cannot be parsed: %w", err)
	}
	short := k.steps.short
	k.steps.Set(pattern.UsualBudget)
	c := &check{left: maxWork, notes: k.notes}
	c.child(k.root, doc, &place{})
	switch {
	case c.err != nil:
		return nil, c.err
	case k.steps.short != short:
		return nil, errors.New("a check would take too long, because the patterns of the schema are large and the value is long")
	}
	var out []Problem
	for _, f := range c.faults {
		p := f.Problem
		p.Path = f.at.path()
		out = append(out, p)
	}
	// The members of an object come in a random order. Put missing and unknown properties first,
	// because they help the user most.
	slices.SortFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), slices.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Text, b.Text))
	})
	out = slices.CompactFunc(out, Problem.same)
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

// check is one check of a value.
type check struct {
	left   int // the steps that are left
	depth  int
	notes  bool        // somebody asks what has been looked at
	scope  []*resource // the resources whose schemas are being applied, from the outermost on
	faults []fault
	failed int // the number of faults, with those that faults has no room for
	err    error
}

// fault is a Problem, and what anyOf and oneOf need to know about it.
type fault struct {
	Problem
	at     *place
	types  Types  // the types that were expected, if the type is wrong
	values choice // the values that were expected, if the value is none of them
}

func (c *check) fault(f fault) {
	if c.failed++; len(c.faults) < maxFaults {
		c.faults = append(c.faults, f)
	}
}

// spend takes n steps. The check ends with an error if too few are left.
func (c *check) spend(n int) {
	if c.left -= n; c.left < 0 && c.err == nil {
		c.err = errWork
	}
}

// apply checks v against n, and reports whether v matches.
func (c *check) apply(n *node, v any, at *place, s *seen) bool {
	if c.spend(1); c.err != nil {
		return false
	}
	if c.depth >= maxOpen {
		c.err = errWork
		return false
	}
	if number, ok := v.(json.Number); ok {
		c.spend(len(number) / 64)
	}
	if len(n.rules) > 0 {
		if slices.Contains(at.open, n) {
			c.err = errEndless
			return false
		}
		c.spend(len(at.open) / 16)
	}
	c.depth++
	at.open = append(at.open, n)
	entered := n.in != nil && (len(c.scope) == 0 || c.scope[len(c.scope)-1] != n.in)
	if entered {
		c.scope = append(c.scope, n.in)
	}
	before := c.failed
	for _, r := range n.rules {
		r.check(c, v, at, s)
		if _, ok := r.(*kind); ok && c.failed != before || c.err != nil {
			break
		}
	}
	if entered {
		c.scope = c.scope[:len(c.scope)-1]
	}
	at.open = at.open[:len(at.open)-1]
	c.depth--
	return c.failed == before
}

// child applies n to a part of the value.
func (c *check) child(n *node, v any, at *place) bool {
	var s *seen
	if c.notes {
		s = &seen{}
	}
	return c.apply(n, v, at, s)
}

// also applies n to the same value. What n has looked at counts if the value matches.
func (c *check) also(n *node, v any, at *place, s *seen) bool {
	if s == nil {
		return c.apply(n, v, at, nil)
	}
	mine := &seen{}
	ok := c.apply(n, v, at, mine)
	if ok {
		c.spend(len(mine.names) + len(mine.some))
		s.add(mine)
	}
	return ok
}

// matches reports whether v matches n, and forgets the faults.
func (c *check) matches(n *node, v any, at *place) bool {
	before, kept := c.failed, len(c.faults)
	ok := c.child(n, v, at)
	c.failed, c.faults = before, c.faults[:kept]
	return ok
}

// alternatives checks v against the schemas of anyOf, or of oneOf if just is true.
func (c *check) alternatives(all []*node, v any, at *place, s *seen, just bool) {
	before, kept := c.failed, len(c.faults)
	matched := 0
	var causes [][]fault
	for _, n := range all {
		if c.also(n, v, at, s) {
			if matched++; just && matched > 1 || !just && s == nil {
				break
			}
		}
		few := c.faults[kept:min(len(c.faults), kept+maxProblems)]
		c.spend(len(few))
		causes = append(causes, slices.Clone(few))
		c.failed, c.faults = before, c.faults[:kept]
	}
	c.failed, c.faults = before, c.faults[:kept]
	switch {
	case matched == 1, matched > 1 && !just:
	case matched > 1:
		c.fault(fault{Problem: Problem{Text: "matches more than one of the alternatives (oneOf), but must match exactly one"}, at: at})
	default:
		near := nearest(causes, at)
		for _, f := range near {
			c.fault(f)
		}
		if len(near) == 0 {
			c.fault(fault{Problem: Problem{Text: noneOf(causes, at)}, at: at})
		}
	}
}

// nearest returns the faults of the only alternative that allows the type of the value. It returns
// nil if there is no such alternative, or more than one.
func nearest(causes [][]fault, at *place) (found []fault) {
	for _, faults := range causes {
		switch {
		case slices.ContainsFunc(faults, func(f fault) bool { return f.at == at && (f.types != 0 || f.values.all > 0) }):
		case found != nil:
			return nil
		default:
			found = faults
		}
	}
	return found
}

// noneOf returns the text of a Problem for a value that matches no alternative.
func noneOf(causes [][]fault, at *place) string {
	var t Types
	var values choice
	for _, faults := range causes {
		for _, f := range faults {
			if f.at != at || f.types == 0 && f.values.all == 0 {
				return fmt.Sprintf("matches none of the %d alternatives of the schema", len(causes))
			}
			t |= f.types
			values = values.and(f.values)
		}
	}
	switch {
	case values.all == 0:
		return "must be " + t.Describe()
	case t == 0:
		return "must be " + values.String()
	}
	return "must be " + t.Describe() + ", or " + values.String()
}

// length checks a number of members, elements or characters.
func (c *check) length(n, least, most int, what string, at *place) {
	if n < least {
		c.fault(fault{Problem: Problem{Text: "must have at least " + count(least, what)}, at: at})
	}
	if n > most {
		c.fault(fault{Problem: Problem{Text: "must have at most " + count(most, what)}, at: at})
	}
}

// canonical returns a text that is the same for equal values.
func (c *check) canonical(v any) string {
	if c.err != nil {
		return ""
	}
	b := canonical(nil, v)
	c.spend(1 + len(b)/64)
	return string(b)
}

// canonical appends a text that is the same for values that JSON Schema calls equal: 1 and 1.0 are,
// and the order of members doesn't matter (2020-12 §4.2.2).
func canonical(b []byte, v any) []byte {
	str := func(s string) { b = append(append(strconv.AppendInt(append(b, '"'), int64(len(s)), 10), ':'), s...) }
	switch v := v.(type) {
	case nil:
		b = append(b, 'n')
	case bool:
		b = strconv.AppendBool(b, v)
	case json.Number:
		if _, err := strconv.ParseInt(string(v), 10, 64); err == nil && v != "-0" {
			return append(append(b, '#'), v...)
		}
		b = append(append(b, '#'), rational(v).RatString()...)
	case string:
		str(v)
	case []any:
		b = append(b, '[')
		for _, x := range v {
			b = append(canonical(b, x), ',')
		}
		b = append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			str(name)
			b = canonical(b, v[name])
		}
		b = append(b, '}')
	}
	return b
}

// typesOf returns the types of a decoded value.
func typesOf(v any) Types {
	switch v := v.(type) {
	case nil:
		return Null
	case bool:
		return Boolean
	case string:
		return String
	case []any:
		return Array
	case map[string]any:
		return Object
	case json.Number:
		if isInteger(v) {
			return Integer | Number
		}
		return Number
	}
	return 0
}

// seen is which members and elements of a value the schemas have looked at so far. unevaluatedItems
// and unevaluatedProperties are about the others (2020-12 §11). The methods of a nil *seen do nothing.
type seen struct {
	names      map[string]bool
	everything bool // all members
	first      int  // the first elements
	some       map[int]bool
}

func (s *seen) property(name string) {
	if s == nil {
		return
	}
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

func (s *seen) elements(n int) {
	if s != nil {
		s.first = max(s.first, n)
	}
}

func (s *seen) element(i int) {
	if s == nil {
		return
	}
	if s.some == nil {
		s.some = map[int]bool{}
	}
	s.some[i] = true
}

func (s *seen) add(more *seen) {
	for name := range more.names {
		s.property(name)
	}
	for i := range more.some {
		s.element(i)
	}
	s.everything = s.everything || more.everything
	s.elements(more.first)
}

// checkNumbers returns an error if raw contains a number that would take too much time to compute
// with.
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

// choice is the values that a schema allows, as a sentence names them. We make the texts once,
// because a value may be as long as the schema, and a check may come across it a million times.
type choice struct {
	texts []string // at most maxChoice
	all   int      // how many values there are
}

// maxChoice is how many values a sentence names.
const maxChoice = 12

func choiceOf(values []any) choice {
	o := choice{all: len(values)}
	for _, v := range values[:min(len(values), maxChoice)] {
		if s, ok := v.(string); ok {
			o.texts = append(o.texts, excerpt.Word(s, 100))
		} else if b, err := json.Marshal(v); err == nil {
			o.texts = append(o.texts, excerpt.Line(string(b), 100))
		}
	}
	return o
}

// and returns the values of both choices.
func (o choice) and(more choice) choice {
	texts := slices.Concat(o.texts, more.texts)
	return choice{texts[:min(len(texts), maxChoice)], o.all + more.all}
}

// String formats the values for use in a sentence.
func (o choice) String() string {
	if o.all == 1 {
		return strings.Join(o.texts, "")
	}
	out := "one of " + strings.Join(o.texts, ", ")
	if o.all > maxChoice {
		out += fmt.Sprintf(", %d more", o.all-maxChoice)
	}
	return out
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// decimal returns a number as a decimal fraction without zeros at its end.
func decimal(r *big.Rat) string {
	s := r.FloatString(10)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
