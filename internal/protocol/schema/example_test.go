package schema

import (
	"fmt"
	"strings"
	"testing"
)

// branches returns definitions, each of which has the next definition twice as an alternative.
func branches() string {
	var b strings.Builder
	for i := range 61 {
		fmt.Fprintf(&b, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// arrays returns the schema of an array of arrays. Each array needs at least 8 elements. The schema
// of the innermost elements is inner.
func arrays(inner string) string {
	return `{"type":"array","minItems":8,"items":{"type":"array","minItems":8,"items":` + inner + `}}`
}

// TestExamplesHaveOneBudget checks that hostile schemas do not exceed the budget by more than the
// work for one value.
func TestExamplesHaveOneBudget(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"alternatives": `{"$ref":"#/$defs/d0","$defs":{` + branches() + `}}`,
		"choices":      arrays(`{"enum":[` + strings.Repeat(`1,`, 200_000) + `2]}`),
		"titles":       arrays(`{"oneOf":[` + strings.Repeat(`{"const":1},`, 50_000) + `{}]}`),
		"default":      arrays(`{"default":"` + strings.Repeat("x", 500_000) + `"}`),
		"name":         arrays(`{"type":"object","required":["` + strings.Repeat("n", 300_000) + `"],"properties":{"` + strings.Repeat("n", 300_000) + `":{"type":"integer"}}}`),
		"nested":       strings.Repeat(`{"type":"array","items":`, 50_000) + `{}` + strings.Repeat(`}`, 50_000),
	} {
		for _, shape := range []bool{false, true} {
			var x Examples
			v := view(s)
			for range 50 {
				value := x.example(v, "a", shape)
				if value != nil && x.exhausted() {
					t.Errorf("%s: an example of %d bytes without a budget", name, len(value))
				}
			}
			if most := maxSearched + 2*lookups*v.work(); x.searched > most {
				t.Errorf("%s: %d bytes searched, not more than %d expected", name, x.searched, most)
			}
			if most := maxWritten + 2*len(s); x.written > most {
				t.Errorf("%s: %d bytes written, not more than %d expected", name, x.written, most)
			}
		}
	}
}

// TestExampleOfManyChoices checks that a schema with many choices has an example.
func TestExampleOfManyChoices(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		`{"enum":[7,` + strings.Repeat(`1,`, 200_000) + `2]}`:   `7`,
		`{"oneOf":[{"const":"b","title":"B"},{"const":"a"}]}`:   `"b"`,
		`{"oneOf":[{"const":"b"},{"type":"integer"}]}`:          `"A"`,
		`{"const":null,"enum":[1]}`:                             `null`,
		arrays(`{"enum":["x","y"]}`):                            `[` + strings.TrimSuffix(strings.Repeat(`[`+strings.TrimSuffix(strings.Repeat(`"x",`, 8), ",")+`],`, 8), ",") + `]`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"enum":[true]}}}`:    `true`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}}`: `1`,
	} {
		var x Examples
		if got := string(x.Example(view(s), "a")); got != want {
			t.Errorf("%.80s: %s, want %s", s, got, want)
		}
	}
}
