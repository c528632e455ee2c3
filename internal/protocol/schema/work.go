package schema

import "github.com/santhosh-tekuri/jsonschema/v6"

// work computes an upper bound for how many times the check of one value applies a schema. The
// jsonschema library does not limit this number.
type work struct {
	known map[step]int
	open  map[*jsonschema.Schema]bool // the schemas that are being applied to the current value
	// cyclic is true if a schema refers to itself for the same value.
	cyclic bool
	fan    int // the largest number of children of any value
}

type step struct {
	s     *jsonschema.Schema
	depth int // the number of nested levels below the value
}

// of returns the bound for the schema s and a value with depth nested levels below it. The result
// is at most maxWork+1.
func (w *work) of(s *jsonschema.Schema, depth int) int {
	if s == nil || depth < 0 {
		return 0
	}
	if w.open[s] {
		w.cyclic = true
		return 0
	}
	at := step{s, depth}
	if n, ok := w.known[at]; ok {
		return n
	}
	w.open[s] = true
	n := 1
	add := func(more, times int) {
		if n += min(more, maxWork+1) * times; n > maxWork {
			n = maxWork + 1
		}
	}
	here := func(all ...*jsonschema.Schema) {
		for _, x := range all {
			add(w.of(x, depth), 1)
		}
	}
	here(s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	here(s.AllOf...)
	here(s.AnyOf...)
	here(s.OneOf...)
	if s.DynamicRef != nil {
		here(s.DynamicRef.Ref)
	}
	for _, x := range s.DependentSchemas {
		here(x)
	}
	for _, x := range s.Dependencies {
		if x, ok := x.(*jsonschema.Schema); ok {
			here(x)
		}
	}
	// Next, follow the schemas of the children. The schemas in open do not apply to the children,
	// so start with an empty set.
	open := w.open
	w.open = map[*jsonschema.Schema]bool{}
	for _, x := range s.Properties {
		add(w.of(x, depth-1), 1)
	}
	every := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}
	for _, x := range s.PatternProperties {
		every = append(every, x)
	}
	for _, x := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch x := x.(type) {
		case *jsonschema.Schema:
			every = append(every, x)
		case []*jsonschema.Schema:
			every = append(every, x...)
		}
	}
	every = append(every, s.PrefixItems...)
	for _, x := range every {
		add(w.of(x, depth-1), w.fan)
	}
	w.open = open
	delete(w.open, s)
	w.known[at] = n
	return n
}

// shape returns the number of levels below v, and the largest number of children that v or any
// value in v has.
func shape(v any) (depth, fan int) {
	child := func(v any) {
		d, f := shape(v)
		depth, fan = max(depth, d+1), max(fan, f)
	}
	switch v := v.(type) {
	case map[string]any:
		fan = len(v)
		for _, x := range v {
			child(x)
		}
	case []any:
		fan = len(v)
		for _, x := range v {
			child(x)
		}
	}
	return depth, fan
}
