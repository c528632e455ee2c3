package schema

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

func wholeOf(s string) jsonrpc.Span { return jsonrpc.Whole([]byte(s)) }

func view(s string) View { return Of([]byte(s), wholeOf(s)) }

func TestTypes(t *testing.T) {
	for s, want := range map[string]string{
		`{"type":"string"}`:                                   "string",
		`{"type":["integer","null"]}`:                         "integer null",
		`{"enum":["a",1]}`:                                    "string number",
		`{"anyOf":[{"type":"string"},{"const":true}]}`:        "string boolean",
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"array"}}}`: "array",
		`{"$ref":"http://h/s"}`:                               "",
		`{"properties":{}}`:                                   "object",
		`{"items":{}}`:                                        "array",
		`{"$ref":"#"}`:                                        "",
		`true`:                                                "",
	} {
		if got := strings.Join(view(s).Types().Names(), " "); got != want {
			t.Errorf("%s: got %q, want %q", s, got, want)
		}
	}
	if got := (String | Null).Describe(); got != "a string or null" {
		t.Error(got)
	}
	for value, want := range map[string]Types{`1`: Number | Integer, `1.5`: Number, `"a"`: String, ` [1]`: Array, `{`: 0, `null`: Null, `true`: Boolean, `{}`: Object} {
		if got := TypeOf([]byte(value)); got != want {
			t.Errorf("%s: got %v, want %v", value, got.Names(), want.Names())
		}
	}
}

func TestProperties(t *testing.T) {
	v := view(`{"required":["b"],"properties":{"b":{"$ref":"#/$defs/x","description":"beside"},"a":{"default":[1],"minItems":2}},"$defs":{"x":{"type":"string","title":"X"}}}`)
	var names []string
	for _, p := range v.Properties() {
		names = append(names, p.Name)
		if p.Required != (p.Name == "b") {
			t.Errorf("%s: required is %t", p.Name, p.Required)
		}
	}
	if strings.Join(names, " ") != "b a" {
		t.Errorf("%q", names)
	}
	b, a := v.Property("b"), v.Property("a")
	if b.Text("description") != "beside" || b.Text("title") != "X" || b.Types() != String {
		t.Errorf("%q %q %v", b.Text("description"), b.Text("title"), b.Types().Names())
	}
	if n, ok := a.Int("minItems"); string(a.JSON("default")) != "[1]" || !ok || n != 2 {
		t.Errorf("%s %d", a.JSON("default"), n)
	}
	if !v.Has("a") || v.Has("c") || !view(`{}`).Has("c") || !v.Property("c").IsZero() {
		t.Error("Has or Property is wrong")
	}
}

func TestChoices(t *testing.T) {
	for s, want := range map[string]string{
		`{"enum":["a","b"]}`:                                  `"a"; "b"`,
		`{"enum":["a","b"],"enumNames":["A"]}`:                `"a" A; "b"`,
		`{"oneOf":[{"const":"a","title":"A"},{"const":"b"}]}`: `"a" A; "b"`,
		`{"const":1}`: `1`,
		`{"anyOf":[{"const":"a"},{"type":"string"}]}`:                            ``,
		`{"$ref":"#/$defs/x","$defs":{"x":{"anyOf":[{"const":1},{"const":2}]}}}`: `1; 2`,
		`{"type":"string"}`: ``,
	} {
		var got []string
		for _, c := range view(s).Choices() {
			got = append(got, strings.TrimSpace(string(c.Value)+" "+c.Title))
		}
		if g := strings.Join(got, "; "); g != want {
			t.Errorf("%s: got %s, want %s", s, g, want)
		}
	}
}

// TestTypesHaveOneBudget checks that the types of many hostile schemas do not need a long search.
func TestTypesHaveOneBudget(t *testing.T) {
	t.Parallel()
	hostile, plain := view(`{"$ref":"#/$defs/d0","$defs":{`+branches()+`}}`), view(`{"type":"string"}`)
	var f TypeFinder
	if got := f.Types(plain); got != String {
		t.Errorf("before: %v", got.Names())
	}
	searches := 0
	for f.searched <= maxSearched {
		if searches++; searches > 1000 {
			t.Fatalf("%d searches have searched only %d bytes", searches, f.searched)
		}
		f.Types(hostile)
	}
	if most := maxSearched + hostile.work() + 2*typeLookups*len(hostile.raw); f.searched > most {
		t.Errorf("%d bytes were searched, at most %d are allowed", f.searched, most)
	}
	if got := f.Types(plain); got != 0 {
		t.Errorf("after: %v", got.Names())
	}
}
