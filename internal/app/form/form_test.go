package form

import (
	"encoding/json"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

// describe returns a form as text, with one line for each field.
func describe(f *Form) string {
	var b strings.Builder
	if f.Whole {
		fmt.Fprintf(&b, "whole %q: %s\n", f.Text, f.Why)
	}
	var all func(list []*Field, indent string)
	all = func(list []*Field, indent string) {
		for _, x := range list {
			fmt.Fprintf(&b, "%s%s %s (%s)", indent, x.Name, x.Kind, x.Type)
			if x.Required {
				b.WriteString(" required")
			}
			if x.Text != "" {
				fmt.Fprintf(&b, " text=%q", x.Text)
			}
			for _, o := range x.Options {
				fmt.Fprintf(&b, " [%s", o.Value)
				if o.Title != strings.Trim(o.Value, `"`) {
					b.WriteString("=" + o.Title)
				}
				if o.Selected {
					b.WriteString("*")
				}
				b.WriteString("]")
			}
			if len(x.Empties) > 0 {
				fmt.Fprintf(&b, " empty=%q of %q", x.Empty, x.Empties)
			}
			b.WriteByte('\n')
			all(x.Fields, indent+"  ")
		}
	}
	all(f.Fields, "")
	return strings.TrimSuffix(b.String(), "\n")
}

func props(members string) string { return `{"type":"object","properties":{` + members + `}}` }

func TestMake(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"no schema", ``, ``},
		{"no members", `{"type":"object","properties":{}}`, ``},
		{"required first", `{"properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"}},"required":["c","b"]}`,
			"b number (integer) required\nc yes (boolean) required [true] [false]\na text (string) empty=\"\" of [\"\" \"empty\"]"},
		{"limits", props(`"n":{"type":"integer","minimum":1,"maximum":100},"x":{"type":"number","exclusiveMinimum":0,"multipleOf":0.5},"s":{"type":"string","minLength":3,"maxLength":20,"pattern":"^a"},"e":{"type":"string","format":"email"}`),
			"n number (integer, 1 to 100)\nx number (number, more than 0, a multiple of 0.5)\ns text (string, 3 to 20 characters, pattern ^a)\ne text (string, email)"},
		{"kinds of text", props(`"d":{"type":"string","format":"date"},"p":{"type":"string","format":"password"},"l":{"type":"string","maxLength":4000,"minLength":1}`),
			"d date (string, date)\np secret (string, password)\nl long (string, 1 to 4000 characters)"},
		{"enum", props(`"a":{"type":"string","enum":["x","y"],"enumNames":["Ex","Why"]},"b":{"oneOf":[{"const":1,"title":"One"},{"const":2,"title":"Two"}]},"c":{"const":"only"}`),
			"a choice (enum) [\"x\"=Ex] [\"y\"=Why]\nb choice (enum) [1=One] [2=Two]\nc choice (constant) [\"only\"]"},
		{"null", props(`"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"integer","minimum":0},{"type":"null"}]},"c":{"enum":["x",null]},"d":{"type":["boolean","null"]},"e":{"type":"null"}`),
			"a text (string or null) empty=\"\" of [\"\" \"empty\" \"null\"]\nb number (integer or null, at least 0) empty=\"\" of [\"\" \"null\"]\nc choice (enum) [\"x\"] [null]\nd yes (boolean or null) [true] [false] [null]\ne choice (null) [null]"},
		{"arrays", props(`"a":{"type":"array","items":{"type":"string"}},"b":{"type":"array","minItems":1,"maxItems":5,"items":{"type":"integer"}},"c":{"type":"array","items":{"enum":["x","y"]}},"d":{"type":"array","items":{"type":"object"}},"e":{"type":"array"}`),
			"a list (array of strings) empty=\"\" of [\"\" \"empty\"]\nb list (array of integers, 1 to 5 elements)\nc many (some of the values) [\"x\"] [\"y\"] empty=\"\" of [\"\" \"empty\"]\nd json (array of objects)\ne json (array)"},
		{"objects", `{"properties":{"a":{"type":"object","properties":{"x":{"type":"string","minLength":1},"o":{"properties":{"y":{"type":"integer"}}}}},"m":{"type":"object","additionalProperties":{"type":"string"}}},"required":["a"]}`,
			"a group (object) required\n  x text (string, at least 1 character)\n  o group (object) empty=\"\" of [\"\" \"empty\"]\n    y number (integer)\nm json (object)"},
		{"references", `{"$defs":{"c":{"enum":["r","g"]},"n":{"type":"number"}},"properties":{"a":{"$ref":"#/$defs/c"},"b":{"allOf":[{"$ref":"#/$defs/n"}],"default":1}}}`,
			"a choice (enum) [\"r\"] [\"g\"]\nb number (number)"},
		{"a reference for all", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"x":{"type":"integer"}}}}}`, "x number (integer)"},
		{"recursive", `{"properties":{"v":{"type":"integer"},"next":{"$ref":"#"}}}`,
			"v number (integer)\nnext group (object) empty=\"\" of [\"\" \"empty\"]\n  v number (integer)\n  next group (object) empty=\"\" of [\"\" \"empty\"]\n    v number (integer)\n    next group (object) empty=\"\" of [\"\" \"empty\"]\n      v number (integer)\n      next json (object)"},
		{"endless", props(`"a":{"$ref":"#/properties/a"}`), "a json (JSON, because its schema is not in this document)"},
		{"another document", props(`"a":{"$ref":"http://127.0.0.1:1/x"}`), "a json (JSON, because its schema is not in this document)"},
		{"all by another document", `{"$ref":"http://127.0.0.1:1/x"}`, `whole "{}": The schema refers to another document or to itself.`},
		{"what no control says", props(`"a":{"type":["string","integer"]},"b":{},"c":true,"d":{"oneOf":[{"type":"object"},{"type":"string"}]}`),
			"a json (string or integer)\nb json (any JSON value)\nc json (any JSON value)\nd json (string or object)"},
		{"not an object", `{"type":"array"}`, `whole "{}": The schema does not describe an object.`},
		{"any members", `{"type":"object","additionalProperties":{"type":"integer"}}`, `whole "{}": The schema does not list the members of the object.`},
		{"not JSON", `{`, `whole "{}": The schema is too large or too deep for a form.`},
	} {
		if got := describe(Make([]byte(c.schema), Options{})); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestDefaults checks that Make fills in default values only with Options.Defaults. A field whose
// default does not fit its control becomes a JSON field.
func TestDefaults(t *testing.T) {
	s := []byte(props(`"a":{"type":"string","default":"x"},"b":{"type":"boolean","default":false},"c":{"enum":["x","y"],"default":"y"},"d":{"type":"array","items":{"enum":["p","q"]},"default":["q"]},"h":{"type":"string","default":"a\u202eb"},"n":{"type":"integer","default":"no"}`))
	want := "a text (string) text=\"x\" empty=\"\" of [\"\" \"empty\"]\nb yes (boolean) [true] [false*]\nc choice (enum) [\"x\"] [\"y\"*]\nd many (some of the values) [\"p\"] [\"q\"*] empty=\"\" of [\"\" \"empty\"]\nh json (string) text=\"\\\"a\\\\u202eb\\\"\"\nn json (integer) text=\"\\\"no\\\"\""
	if got := describe(Make(s, Options{Defaults: true})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	f := Make(s, Options{})
	if got, ok := f.Read(nil); string(got) != "{}" || !ok || f.Fields[0].Default != `"x"` {
		t.Errorf("%s, %+v", got, f.Fields[0])
	}
}

const example = `{"properties":{
	"s":{"type":"string"},"n":{"type":["integer","null"]},"x":{"type":"number"},"b":{"type":"boolean"},"e":{"enum":["p","q",1,null]},
	"l":{"type":"array","items":{"type":"string"}},"i":{"type":"array","items":{"type":"integer"}},"m":{"type":"array","items":{"enum":["p","q"]}},
	"o":{"type":"object","properties":{"y":{"type":"string"},"z":{"type":"integer"}}},"r":{"type":"object","properties":{"y":{"type":"string"}}},"j":{}},"required":["r"]}`

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, sent, want, faults string }{
		{"nothing", "", `{"r":{}}`, ""},
		{"values keep their bytes", "v/s=a%26b&v/n=+12345678901234567890+&v/x=1.50&v/b=false&v/e=1", `{"r":{},"s":"a&b","n":12345678901234567890,"x":1.50,"b":false,"e":1}`, ""},
		{"line ends", "v/s=a%0D%0Ab%0D%0A", `{"r":{},"s":"a\nb\n"}`, ""},
		{"empty and null", "e/s=empty&e/n=null&e/l=empty&e/o=empty", `{"r":{},"s":"","n":null,"l":[],"o":{}}`, ""},
		{"a text wins", "v/s=x&e/s=empty", `{"r":{},"s":"x"}`, ""},
		{"what is not possible does not count", "e/s=null&e/b=empty&v/e=%22z%22&v/b=maybe", `{"r":{}}`, ""},
		{"lists", "v/l=+a,+b+%0D%0A%0D%0Ac&v/i=1%0A2&v/m=%22q%22&v/m=%22p%22", `{"r":{},"l":["a, b","c"],"i":[1,2],"m":["p","q"]}`, ""},
		{"groups", "v/o/z=4&v/r/y=x", `{"r":{"y":"x"},"o":{"z":4}}`, ""},
		{"JSON", `v/j=1&j/j={"a": [1.0]}`, `{"r":{},"j":{"a": [1.0]}}`, ""},
		{"JSON instead of a control", `j/s="x\u200b"&v/s=y`, `{"r":{},"s":"x\u200b"}`, ""},
		{"wrong syntax", "v/n=1.5&v/x=1,5&v/i=1%0Aa&j/j={&v/s=%ff&v/o/z=q", ``, "s is not valid UTF-8\nn must be an integer, such as 42\nx must be a number, such as 1.5\ni must have an integer on each line, such as 42\no/z must be an integer, such as 42\nj is not valid JSON: "},
		{"the whole object", `json=+{"s":+"x",+"more":1}+`, `{"s": "x", "more":1}`, ""},
		{"the whole object is empty", `json=`, `{}`, ""},
		{"the whole object is wrong", `json=[1]`, ``, " The text must be a JSON object, such as {\"name\": \"value\"}."},
		{"the whole object is not JSON", `json={"a":1,"a":2}`, ``, " The text is not valid JSON: "},
	} {
		sent, err := url.ParseQuery(strings.ReplaceAll(c.sent, ";", "%3B"))
		if err != nil {
			t.Fatal(err)
		}
		f := Make([]byte(example), Options{})
		got, ok := f.Read(sent)
		var faults []string
		for _, e := range f.Errors {
			if i := strings.Index(e.Text, "JSON: "); i >= 0 {
				e.Text = e.Text[:i+6]
			}
			faults = append(faults, e.Name+" "+e.Text)
		}
		if ok && string(got) != c.want || ok != (c.faults == "") || strings.Join(faults, "\n") != c.faults {
			t.Errorf("%s: %s\n%s", c.name, got, strings.Join(faults, "\n"))
		}
	}
}

// sentOf returns the values that a browser sends if the user changes nothing in the form.
func sentOf(f *Form) url.Values {
	out := url.Values{}
	if f.Whole {
		out.Set(WholeKey, strings.ReplaceAll(f.Text, "\n", "\r\n"))
		return out
	}
	var all func([]*Field)
	all = func(list []*Field) {
		for _, x := range list {
			if len(x.Empties) > 0 {
				out.Set(x.EmptyName(), x.Empty)
			}
			switch x.Kind {
			case Choice, Yes, Many:
				for _, o := range x.Options {
					if o.Selected {
						out.Add(x.ValueName(), o.Value)
					}
				}
			case Group:
				all(x.Fields)
			default:
				out.Set(x.ValueName(), strings.ReplaceAll(x.Text, "\n", "\r\n"))
			}
		}
	}
	all(f.Fields)
	return out
}

// TestFill fills a form with a value and reads the form. The result must be equal to the value.
func TestFill(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{`{"r":{}}`, ``},
		{`{"r":{"y":"x"},"s":"line\nline","n":null,"x":-1.5e3,"b":true,"e":null,"l":["a","b"],"i":[1],"m":["p"],"o":{"z":1},"j":[{}]}`, ``},
		{`{"r":{},"s":"","l":[],"m":[],"o":{}}`, ``},
		{`{"r":{},"s":"bell\u0007","n":"x","x":"1","b":"true","e":2,"l":["a\nb"],"i":[1.5,"x"],"m":["z"],"o":{"w":1},"j":null}`, ``},
		{`{"r":{},"s":"\ud800","l":[" a"],"m":["p","p"]}`, ``},
		{`{"r":null}`, ``},
		{`{"more":1, "s":"\u202e"}`, ``},
	} {
		f := Make([]byte(example), Options{})
		ok := f.Fill([]byte(c.value))
		if ok == strings.Contains(c.value, "more") || f.Whole == ok {
			t.Errorf("%s: filled %v, whole %v", c.value, ok, f.Whole)
		}
		again := Make([]byte(example), Options{})
		got, ok := again.Read(sentOf(f))
		var a, b any // both values, decoded so that the test can compare them
		if err := json.Unmarshal([]byte(c.value), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &b); err != nil || !ok || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s: %s %v %v", c.value, got, err, again.Errors)
		}
		if strings.Contains(string(got), "\u202e") {
			t.Errorf("an invisible character: %q", got)
		}
	}
}

// TestReport checks that Report assigns the errors of a schema check to the fields of the form.
func TestReport(t *testing.T) {
	f := Make([]byte(props(`"a/b":{"properties":{"c~d":{"type":"string"}}},"l":{"type":"array","items":{"type":"string"}}`)), Options{})
	for _, x := range [][2]string{{"/a~1b/c~0d", "is missing"}, {"/l/0", "must be a string"}, {"/other~1name", "is unknown"}, {"", "matches none"}} {
		f.Report(x[0], x[1])
	}
	var got []string
	for _, e := range f.Errors {
		got = append(got, e.ID+" "+e.Name+" "+e.Text)
	}
	inner := f.Fields[0].Fields[0]
	if want := inner.ID + " a/b/c~d is missing\nf2 l 0 must be a string\n other/name is unknown\n  matches none"; strings.Join(got, "\n") != want || inner.Error != "is missing" {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// hostileSchemas returns schemas that a server may send to make a page large or slow.
func hostileSchemas() map[string]string {
	many := func(n int, member func(int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(member(i))
		}
		return b.String()
	}
	return map[string]string{
		"10,000 members":   props(many(10_000, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) })),
		"500 levels":       strings.Repeat(`{"properties":{"a":`, 500) + "{}" + strings.Repeat("}}", 500),
		"groups of groups": `{"$defs":{"n":{"properties":{` + many(13, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/n"}`, i) }) + `}}},"$ref":"#/$defs/n"}`,
		"references to a large object": `{"$defs":{"n":{"properties":{` + many(1500, func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}}},"properties":{` +
			many(100, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/n"}`, i) }) + `}}`,
		"a long chain":      `{"$defs":{` + many(200, func(i int) string { return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1) }) + `},"properties":{"a":{"$ref":"#/$defs/d0"}}}`,
		"10,000 choices":    props(`"a":{"enum":[` + many(10_000, func(i int) string { return fmt.Sprint(i) }) + `]},"b":{"type":"array","items":{"enum":[` + many(400, func(i int) string { return fmt.Sprint(i) }) + `]}}`),
		"long texts":        props(`"` + strings.Repeat("n", 50_000) + `":{"type":"string","title":"` + strings.Repeat("t", 50_000) + `","description":"` + strings.Repeat("d", 50_000) + `","pattern":"` + strings.Repeat("p", 50_000) + `"}`),
		"odd names":         props(`"<b>\u001b[31m\u202e\ud800\r\n\u0000'\"/~":{"type":"string","enum":["<i>\u202e"]}`),
		"odd limits":        props(`"a":{"type":"integer","minimum":"x","maximum":1e999999999,"default":[]},"b":{"type":"string","minLength":-1e9,"maxLength":"y"},"c":{"properties":[],"type":"object"},"d":{"enum":{}},"e":{"type":"array","items":[{}]},"f":{"$ref":7}`),
		"a very large text": props(`"a":{"description":"` + strings.Repeat("x", maxSchema) + `"}`),
	}
}

// TestHostile runs check with all hostileSchemas.
func TestHostile(t *testing.T) {
	for name, s := range hostileSchemas() {
		check(t, name, []byte(s), nil, Options{Defaults: true})
	}
}

// TestWideSchemas checks that a schema with tens of thousands of branches costs little time and
// memory, and gives a small form.
func TestWideSchemas(t *testing.T) {
	repeat := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	in := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	var refs []string
	for i := range 199 {
		refs = append(refs, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/x"}`, i))
	}
	for name, s := range map[string]string{
		"anyOf":                  in(`{"anyOf":[` + repeat(`{}`, 65_536) + `]}`),
		"anyOf of booleans":      in(`{"anyOf":[` + repeat(`true`, 50_000) + `]}`),
		"oneOf of constants":     in(`{"oneOf":[` + repeat(`{"const":1}`, 21_000) + `]}`),
		"anyOf and properties":   `{"type":"object","properties":{"a":{}},"anyOf":[` + repeat(`{}`, 65_536) + `]}`,
		"anyOf of references":    `{"$defs":{"x":{"anyOf":[` + repeat(`{}`, 20_000) + `]}},"properties":{"a":{"anyOf":[` + repeat(`{"$ref":"#/$defs/x"}`, 8_000) + `]}}}`,
		"anyOf in anyOf":         in(strings.Repeat(`{"anyOf":[{},`, 20) + `{"anyOf":[` + repeat(`{}`, 60_000) + `]}` + strings.Repeat(`]}`, 20)),
		"anyOf in items":         in(`{"type":"array","items":{"anyOf":[` + repeat(`{}`, 65_536) + `]}}`),
		"allOf":                  in(`{"allOf":[` + repeat(`{}`, 65_536) + `]}`),
		"many fields, one anyOf": `{"$defs":{"x":{"anyOf":[` + repeat(`{}`, 60_000) + `]}},"properties":{` + strings.Join(refs, ",") + `}}`,
		"larger than a form":     in(`{"anyOf":[` + repeat(`{"type":"string"}`, 65_536) + `]}`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		f := Make([]byte(s), Options{})
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		size := len(f.Text) + len(f.Why)
		for _, x := range f.Fields {
			size += len(fmt.Sprintf("%+v", *x))
		}
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 20*time.Second || used > 400 || size > 100_000 {
			t.Errorf("%s: %s, %d MiB, %d bytes of form", name, took, used, size)
		}
	}
}

// check makes a form and checks its limits. Then it reads the form, and checks that the result is a
// JSON object. If sent is nil, check reads the values that the form itself shows.
func check(t *testing.T, name string, s []byte, sent url.Values, o Options) {
	t.Helper()
	f := Make(s, o)
	ids, n := map[string]bool{}, 0
	var all func([]*Field)
	all = func(list []*Field) {
		for _, x := range list {
			if n++; ids[x.ID] {
				t.Errorf("%s: the id %s occurs twice", name, x.ID)
			}
			ids[x.ID] = true
			if len(x.Title) > maxName || len(x.About) > maxAbout || len(x.Type) > maxType || len(x.Default) > maxValue || len(x.Options) > maxChoices+1 || strings.ContainsAny(x.ID, " \n\"<") || strings.ContainsAny(x.Key, "\r\n\x00") {
				t.Errorf("%s: %+v", name, x)
			}
			all(x.Fields)
		}
	}
	all(f.Fields)
	if n > maxFields {
		t.Errorf("%s: %d fields", name, n)
	}
	values := sent
	if values == nil {
		values = sentOf(f)
	}
	value, ok := Make(s, o).Read(values)
	if ok && schema.TypeOf(value) != schema.Object {
		t.Errorf("%s: %s is not an object", name, value)
	}
	if ok && len(s) < 20_000 {
		f = Make(s, Options{})
		f.Fill(value)
		if again, ok := Make(s, Options{}).Read(sentOf(f)); !ok || schema.TypeOf(again) != schema.Object {
			t.Errorf("%s: %s became %s", name, value, again)
		}
	}
}

// TestJSONFaults checks the error messages for invalid JSON in a form.
func TestJSONFaults(t *testing.T) {
	for sent, want := range map[string]string{
		"[oops":               "unexpected character 'o' (line 1, character 2)",
		"{\"a\": 1,\r\n 'b'}": `unexpected character '\'' (line 2, character 2)`,
		"\n\n  oops":          "unexpected character 'o' (line 3, character 3)",
		"é oops":              "unexpected character 'é' (line 1, character 1)",
		`["ä", “a”]`:          "unexpected character '“' (line 1, character 7)",
		"[\u202e]":            `unexpected character '\u202e' (line 1, character 2)`,
		"[\"a\nb\"]":          `unexpected character '\n' (line 1, character 4)`,
		"nul":                 "unexpected end (line 1, character 4)",
		"[1, 2":               "unexpected end (line 1, character 6)",
		`{"a":"b`:             "string without a closing quote (line 1, character 6)",
		`{"abcdefghijkl: 1}`:  "string without a closing quote (line 1, character 2)",
		`["\x"]`:              "invalid escape (line 1, character 3)",
		`{"a":1,"a":2}`:       "duplicate member name (line 1, character 8)",
		"{\"a\":1,\n\"a\":2}": "duplicate member name (line 2, character 1)",
	} {
		f := Make([]byte(props(`"j":{}`)), Options{})
		if _, ok := f.Read(url.Values{"j/j": {sent}}); ok || f.Errors[0].Text != "is not valid JSON: "+want {
			t.Errorf("%s: %+v", sent, f.Errors)
		}
		f = Make([]byte(props(`"j":{}`)), Options{})
		if _, ok := f.Read(url.Values{WholeKey: {sent}}); ok || f.Errors[0].Text != "The text is not valid JSON: "+want {
			t.Errorf("%s: %+v", sent, f.Errors)
		}
	}
}

// TestInvalidUTF8InJSON checks the error message for bytes that are not UTF-8, inside and outside
// of a JSON string.
func TestInvalidUTF8InJSON(t *testing.T) {
	for sent, want := range map[string]string{
		"\xff":                "invalid UTF-8 (line 1, character 1)",
		"{\"a\": \"b\xffc\"}": "invalid UTF-8 (line 1, character 9)",
	} {
		f := Make([]byte(props(`"j":{}`)), Options{})
		if _, ok := f.Read(url.Values{WholeKey: {sent}}); ok || f.Errors[0].Text != "The text is not valid JSON: "+want {
			t.Errorf("%q: %+v", sent, f.Errors)
		}
	}
}

// TestExample checks the examples that Make gives for JSON fields.
func TestExample(t *testing.T) {
	large := `{"type":"array","items":{"type":"object","required":["` + strings.Repeat("x", 300) + `"],"properties":{"` + strings.Repeat("x", 300) + `":{}}}}`
	for schema, want := range map[string]string{
		`{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"count":{"type":"integer"},"note":{"type":"string"}},"required":["name","count"]}}`:                                   `[{"name":"NAME","count":1}]`,
		`{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"open":{"type":"boolean"}}}}`:                                                                                          `[{"id":1,"open":true}]`,
		`{"type":"array","default":[],"items":{"$ref":"#/$defs/pair"}}`:                                                                                                                                        `[["TEXT","TEXT"]]`,
		`{"type":"object","additionalProperties":{"type":"number"}}`:                                                                                                                                           `{"name":1}`,
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"null"},{"type":"boolean"}]}},"patternProperties":{"x":{}}, "oneOf":[{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}]}`: `{"b":1}`,
		`{"oneOf":[{"type":"object","properties":{"url":{"type":"string","format":"uri"}},"required":["url"]},{"type":"string"}]}`:                                                                             `{"url":"https://example.com/"}`,
		`{"type":["string","integer"]}`:                                       `"X"`,
		`{"type":"array","items":{"type":"object","default":{"a":"\u202e"}}}`: `[{"a":"\u202e"}]`,
		`{}`:               "",
		`{"type":"array"}`: `["TEXT"]`,
		large:              "",
	} {
		f := Make([]byte(`{"$defs":{"pair":{"type":"array","minItems":2,"items":{"type":"string"}}},"properties":{"x":`+schema+`}}`), Options{})
		if got := f.Fields[0]; got.Kind != JSON || got.Example != want {
			t.Errorf("%s: %s, got %s, want %s", schema, got.Kind, got.Example, want)
		}
	}
}

// FuzzForm runs check with any schema and any sent values.
func FuzzForm(f *testing.F) {
	f.Add(example, "v/s=a&e/n=null&v/l=a%0Ab&v/o/z=4&j/j={}")
	f.Add(example, "json={}")
	for _, s := range hostileSchemas() {
		if len(s) < 1000 { // TestHostile checks all of them
			f.Add(s, "v/a=1")
		}
	}
	f.Fuzz(func(t *testing.T, s, body string) {
		if len(s) > 8<<10 {
			return
		}
		sent, _ := url.ParseQuery(body)
		check(t, s, []byte(s), sent, Options{Defaults: len(sent) == 0})
	})
}

// TestExamplesOfFieldsShareABudget checks a schema with many fields whose examples need a very long
// search. Make must not take long, because one budget limits the searches of all fields together.
func TestExamplesOfFieldsShareABudget(t *testing.T) {
	t.Parallel()
	var defs, fields strings.Builder
	for i := range 61 {
		fmt.Fprintf(&defs, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	for i := range 150 {
		fmt.Fprintf(&fields, `"p%d":{"type":"array","items":{"$ref":"#/$defs/d0"}},`, i)
	}
	s := `{"type":"object","properties":{"first":{"type":"array","items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}},` +
		strings.TrimSuffix(fields.String(), ",") + `},"$defs":{` + strings.TrimSuffix(defs.String(), ",") + `}}`
	f := Make([]byte(s), Options{})
	if len(f.Fields) != 151 || f.Fields[0].Example != `[{"a":"A"}]` || f.Fields[150].Example != "" {
		t.Errorf("%d fields %+v", len(f.Fields), f)
	}
}
