package dialect

import (
	"bytes"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

func TestInputSchema(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{ // "" means unchanged
		{"what is right stays to the byte", `{ "type":"object" , "properties":{"a":{"type":["string","null"],"exclusiveMinimum":0}},"x":1e400}`, ""},
		{"no schema", ``, `{"type":"object"}`},
		{"null", `null`, `{"type":"object"}`},
		{"one that says nothing", `{}`, `{"type":"object"}`},
		{"one of something else", `{"type":"string"}`, `{"type":"object"}`},
		{"exclusive bounds of draft 4", `{"type":"object","properties":{"a":{"minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":true}}}`,
			`{"type":"object","properties":{"a":{"exclusiveMinimum":0,"exclusiveMaximum":9}}}`},
		{"and those that are not", `{"type":"object","properties":{"a":{"minimum":0,"exclusiveMinimum":false}}}`,
			`{"type":"object","properties":{"a":{"minimum":0}}}`},
		{"of no bound", `{"type":"object","properties":{"a":{"exclusiveMinimum":true}}}`, `{"type":"object","properties":{"a":{}}}`},
		{"nullable", `{"type":"object","properties":{"a":{"type":"string","nullable":true}}}`, `{"type":"object","properties":{"a":{"type":["string","null"]}}}`},
		{"not nullable", `{"type":"object","properties":{"a":{"type":"string","nullable":false}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		{"nullable of several types", `{"type":"object","properties":{"a":{"type":["string","number"],"nullable":true}}}`,
			`{"type":"object","properties":{"a":{"type":["string","number","null"]}}}`},
		{"nullable with values", `{"type":"object","properties":{"a":{"type":"string","enum":["x"],"nullable":true}}}`,
			`{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x",null]}}}`},
		{"nullable with none", `{"type":"object","properties":{"a":{"enum":[],"nullable":true}}}`, `{"type":"object","properties":{"a":{"enum":[null]}}}`},
		{"nullable with choices", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}],"nullable":true}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`},
		{"nullable of something elsewhere", `{"type":"object","properties":{"a":{"allOf":[{"type":"string"}],"nullable":true}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"allOf":[{"type":"string"}]},{"type":"null"}]}}}`},
		{"nullable within nullable", `{"type":"object","properties":{"a":{"type":"object","nullable":true,"properties":{"b":{"type":"number","nullable":true}}}}}`,
			`{"type":"object","properties":{"a":{"type":["object","null"],"properties":{"b":{"type":["number","null"]}}}}}`},
		{"arguments are never null", `{"type":"object","nullable":true}`, `{"type":"object"}`},
		{"tuples", `{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}],"additionalItems":{"nullable":true,"type":"number"}}}}`,
			`{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":["number","null"]}}}}`},
		{"tuples of a draft that is named", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"items":[{}]}}}`, ""},
		{"a draft that is named and repaired", `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`,
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"exclusiveMinimum":1}}}`},
		{"a property that is called so", `{"type":"object","properties":{"nullable":{"type":"boolean"},"exclusiveMinimum":{"type":"boolean"},"items":{"type":"array"}}}`, ""},
		{"a value that looks so", `{"type":"object","properties":{"a":{"default":{"nullable":true},"const":{"exclusiveMinimum":true},"enum":[{"nullable":true}]}}}`, ""},
	} {
		got, changed := InputSchema([]byte(c.in))
		want := c.want
		if want == "" {
			want = c.in
		}
		if string(got) != want || changed != (c.want != "") {
			t.Errorf("%s:\n got %s, changed %t\nwant %s", c.name, got, changed, want)
		}
		// A repaired schema needs no further repair.
		if again, changed := InputSchema(got); changed {
			t.Errorf("%s: the second repair gives %s", c.name, again)
		}
	}
}

// FuzzInputSchema checks that a repaired schema is a valid object schema.
func FuzzInputSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"items":[{"nullable":true,"enum":[1]}],"minimum":0,"exclusiveMinimum":true}},"$schema":"x"}`))
	f.Add([]byte(`{"nullable":true,"anyOf":[{"nullable":true,"allOf":[{}],"oneOf":[]}],"not":{"nullable":true,"type":[]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if jsonrpc.Valid(in, jsonrpc.Limits{Depth: 100}) != nil {
			return
		}
		before := bytes.Clone(in)
		out, changed := InputSchema(in)
		if !bytes.Equal(in, before) {
			t.Fatal("the input was modified")
		}
		if err := jsonrpc.Valid(out, jsonrpc.Limits{Depth: 400, Tokens: 1 << 22, Bytes: len(out) + 1}); err != nil {
			t.Fatalf("%v\nin  %s\nout %s", err, in, out)
		}
		whole := jsonrpc.Whole(out)
		if kind, _ := jsonrpc.Text(out, jsonrpc.Find(out, whole, "type")); kind != "object" {
			t.Errorf("the type is %q: %s", kind, out)
		}
		if !changed && !bytes.Equal(in, out) {
			t.Errorf("changed is false, but the schema differs: %s", out)
		}
		if again, changed := InputSchema(out); changed {
			t.Errorf("a second repair changes the schema:\nin   %s\nout  %s\nthen %s", in, out, again)
		}
	})
}
