package tool

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

func TestSignature(t *testing.T) {
	for _, c := range []struct{ tool, want string }{
		{`{"name":"ping"}`, "ping() → content"},
		{`{"name":"search","inputSchema":{"properties":{"limit":{"type":"integer","default":10},"query":{"type":"string"}},"required":["query"]}}`,
			"search(query: string, limit?: integer = 10) → content"},
		{`{"name":"t","inputSchema":{"properties":{"a":{"enum":["x","y"]},"b":{"type":"array","items":{"type":["string","null"]}},"c":{"type":"object"},"d":{}}},"outputSchema":{"type":"object","properties":{"n":{"type":"number"},"o":{"type":"object","properties":{"p":{"type":"object","properties":{"q":{"type":"object","properties":{"r":{}}}}}}}},"required":["n"]}}`,
			`t(a?: "x" | "y", b?: (string | null)[], c?: object, d?: any) → {n: number, o?: {p?: object}}`},
		{`{"name":"u","inputSchema":{"properties":{"a":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]},"b":{"type":["integer","number"]}}}}`,
			"u(a?: string[] | null, b?: number) → content"},
		{`{"name":"a b","inputSchema":{"properties":{"x: y":{"type":"string","default":"z"}}}}`, `"a b"("x: y"?: string = "z") → content`},
		{`{"name":"r","inputSchema":{"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}}`,
			"r(a?: {next?: {next?: object}}) → content"},
		{`{"name":"loop","inputSchema":{"properties":{"a":{"anyOf":[{"$ref":"#/properties/a"},{"type":"array"}]}}}}`, "loop(a?: any) → content"},
	} {
		if got := Of([]byte(c.tool)).Signature(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.tool, got, c.want)
		}
	}
}

func TestHints(t *testing.T) {
	x := Of([]byte(`{"name":"x","annotations":{"title":"X","readOnlyHint":true,"openWorldHint":false,"idempotentHint":"yes"}}`))
	var got []string
	for _, h := range x.Hints() {
		got = append(got, h.Name+" "+h.Text)
	}
	if strings.Join(got, "; ") != "readOnlyHint changes nothing; openWorldHint stays within its own data" || x.Title() != "X" {
		t.Errorf("%q %q", got, x.Title())
	}
}

func TestAppOnly(t *testing.T) {
	for visibility, want := range map[string]bool{
		``: false, `null`: false, `"app"`: false, `["app","model"]`: false, `["model"]`: false, `["app"]`: true, `["\u0061pp"]`: true, `["later"]`: true, `[]`: true,
	} {
		if got := Of([]byte(`{"name":"x","_meta":{"ui":{"visibility":` + visibility + `}}}`)).AppOnly(); got != want {
			t.Errorf("%s: %t", visibility, got)
		}
	}
	for _, raw := range []string{`{}`, `{"_meta":7}`, `{"visibility":["app"]}`, `{"_meta":{"ui":["app"]}}`} {
		if Of([]byte(raw)).AppOnly() {
			t.Errorf("%s is for the app only", raw)
		}
	}
}

// TestExample checks that the examples are valid for the schemas from which they are made.
func TestExample(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{}`, ``},
		{`{"properties":{"q":{"type":"string"},"n":{"type":"integer","minimum":3},"opt":{}},"required":["q","n"]}`, `q=Q n=3`},
		{`{"properties":{"q":{"type":"string","format":"date"},"w":{"type":"string","minLength":4},"z":{"type":"string","maxLength":1}},"required":["q","w","z"]}`, `q=1999-12-31 w=WXXX z=Z`},
		{`{"properties":{"e":{"enum":["a","b"]},"d":{"type":"string","default":"x"},"x":{"type":"number","examples":[2.5]},"m":{"type":"number","maximum":0}},"required":["e","d","x","m"]}`, `e=a d=x x=2.5 m=0`},
		{`{"properties":{"l":{"type":"array","minItems":2,"items":{"type":"boolean"}},"o":{"type":"object","properties":{"p":{"type":"string"},"q":{}},"required":["p"]}},"required":["l","o"]}`, `l=[true,true] o={"p":"P"}`},
		{`{"properties":{"n":{"type":"null"},"x":{"type":"integer","exclusiveMinimum":5}},"required":["n","x"]}`, `n=null x=6`},
	} {
		x := Of([]byte(`{"name":"t","inputSchema":` + c.schema + `}`))
		var got []string
		object := []byte{'{'}
		for i, v := range x.Example() {
			got = append(got, v.Name+"="+v.Text)
			if i > 0 {
				object = append(object, ',')
			}
			object = append(append(jsonrpc.AppendQuote(object, v.Name), ':'), v.JSON...)
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: got %s, want %s", c.schema, g, c.want)
		}
		k, err := schema.Compile([]byte(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		if all, err := k.Check(append(object, '}')); err != nil || len(all) > 0 {
			t.Errorf("%s: %v %v", c.schema, all, err)
		}
	}
}

// FuzzTool checks that no tool makes the package panic or produce unlimited text.
func FuzzTool(f *testing.F) {
	f.Add(`{"name":"r","inputSchema":{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"],"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},"required":["next"]}}}}`)
	f.Add(`{"name":"e","inputSchema":{"properties":{"a":{"type":"string","maxLength":2},"ö":{"type":"string","maxLength":1}},"required":["a","ö"]}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if jsonrpc.Valid([]byte(raw), jsonrpc.Limits{}) != nil {
			return
		}
		x := Of([]byte(raw))
		if s := x.Signature(); len(s) > 1<<20 {
			t.Errorf("a signature of %d bytes", len(s))
		}
		for _, v := range x.Example() {
			if !utf8.ValidString(v.Text) || jsonrpc.Valid(v.JSON, jsonrpc.Limits{}) != nil {
				t.Errorf("%q %q", v.Text, v.JSON)
			}
		}
		x.Hints()
	})
}
