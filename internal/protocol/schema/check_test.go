package schema

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// say formats problems, one per line.
func say(all []Problem) string {
	var out []string
	for _, p := range all {
		name := strings.Join(p.Path, "/")
		if p.Name != "" {
			name += "[" + p.Name + "]"
		}
		out = append(out, strings.TrimSpace(name+" "+p.Text))
	}
	return strings.Join(out, "\n")
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ name, schema, value, want string }{
		{"valid", `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"a":1}`, ""},
		{"no schema of the members", `{"type":"object"}`, `{"x":[1,{}]}`, ""},
		{"missing before wrong", `{"properties":{"a":{"type":"integer"}},"required":["b","c"]}`, `{"a":"x"}`, "[b] is missing\n[c] is missing\na must be an integer"},
		{"unknown", `{"properties":{"a":{}},"additionalProperties":false}`, `{"z":1,"a":2,"b":3}`, "[b] is unknown\n[z] is unknown"},
		{"nested", `{"properties":{"a":{"items":{"properties":{"b":{"type":["string","null"]}}}}}}`, `{"a":[{},{"b":1}]}`, "a/1/b must be a string or null"},
		{"enum", `{"properties":{"a":{"enum":["x","y z",1,null]}}}`, `{"a":"w"}`, `a must be one of x, "y z", 1, null`},
		{"const", `{"properties":{"a":{"const":"x"}}}`, `{"a":"w"}`, "a must be x"},
		{"bounds", `{"properties":{"a":{"minimum":1.5},"b":{"exclusiveMaximum":10},"c":{"multipleOf":3},"d":{"minLength":2},"e":{"maxItems":1},"f":{"pattern":"^a"}}}`,
			`{"a":1,"b":10,"c":4,"d":"x","e":[1,2],"f":"b"}`,
			"a must be at least 1.5\nb must be less than 10\nc must be a multiple of 3\nd must have at least 2 characters\ne must have at most 1 element\nf must match the pattern \"^a\""},
		{"a union of types", `{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}`, `{"a":"x"}`, "a must be an integer or null"},
		{"a union of constants", `{"properties":{"a":{"oneOf":[{"const":"x"},{"const":"y"}]}}}`, `{"a":"z"}`, "a must be one of x, y"},
		{"the alternative that comes closest", `{"anyOf":[{"type":"string"},{"type":"object","required":["b"]}]}`, `{"a":1}`, "[b] is missing"},
		{"alternatives that are all wrong", `{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, "matches none of the 2 alternatives of the schema"},
		{"several alternatives", `{"oneOf":[{},{}]}`, `{}`, "matches more than one of the alternatives (oneOf), but must match exactly one"},
		{"references", `{"$defs":{"n":{"type":"number"}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, `{"a":"1"}`, "a must be a number"},
		{"a recursive schema", `{"properties":{"next":{"$ref":"#"},"v":{"type":"number"}}}`, `{"next":{"next":{"v":"x"}}}`, "next/next/v must be a number"},
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}`, `{"a":1}`, "a must be greater than 1"},
		{"draft-07 and a format", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"email"}}}`, `{"a":"x"}`, ""},
		{"a pattern of ECMA-262", `{"properties":{"a":{"pattern":"^(?!x)"}}}`, `{"a":"x"}`, ""},
		{"text of a peer", `{"properties":{"a":{"enum":["x\u001b[2J\ny"]}}}`, `{"a":"w"}`, `a must be "x [2J y"`},
		{"false", `{"properties":{"a":false}}`, `{"a":1}`, "a is not allowed"},
		{"a schema as a value", `{"properties":{"a":{"$ref":"http://json-schema.org/draft-07/schema#"}}}`, `{"a":{"type":"x"}}`, `a is not a JSON Schema: "/type" must be one of string, integer, number, boolean, null, array, object`},
		{"more faults than we keep", `{"items":{"anyOf":[{"items":{"type":"string"}},{"items":{"maximum":1}}]}}`, "[[" + strings.Repeat("2,", 1500) + "2]]", "0 matches none of the 2 alternatives of the schema"},
		{"a schema as a value whose reference leads nowhere", `{"$ref":"http://json-schema.org/draft-07/schema#"}`, `{"$ref":"#/x"}`, ""},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, "[b] is missing, and a requires it"},
	} {
		k, err := Compile([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		all, err := k.Check([]byte(c.value))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := say(all); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// chain returns a schema with n levels. Each level applies the next level twice, so a check applies
// 2^n schemas.
func chain(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"object"}}}`, n)
	return b.String()
}

// TestUnusable checks that a check refuses hostile and broken schemas with one sentence. The check
// loads no other document.
func TestUnusable(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 70) + "{}" + strings.Repeat("}", 70)
	// Each of these costs one step per schema, and much more time.
	names := strings.TrimSuffix(strings.Repeat("%s,", 5000), ",")
	numbered := make([]any, 5000)
	for i := range numbered {
		numbered[i] = fmt.Sprintf(`"n%d"`, i)
	}
	list := fmt.Sprintf("["+names+"]", numbered...)
	members := "{" + strings.ReplaceAll(list[1:len(list)-1], ",", ":1,") + ":1}"
	var chainOfOne strings.Builder
	chainOfOne.WriteString(`{"$ref":"#/$defs/d0","unevaluatedProperties":false,"$defs":{"d999":{"additionalProperties":true}`)
	for i := range 999 {
		fmt.Fprintf(&chainOfOne, `,"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1)
	}
	chainOfOne.WriteString("}}")
	thousand := func(def string) string {
		return `{"$defs":{"d":` + def + `},"allOf":[` + strings.Repeat(`{"$ref":"#/$defs/d"},`, 999) + `{"$ref":"#/$defs/d"}]}`
	}
	for _, c := range []struct{ name, schema, value, want string }{
		{"not JSON", `{`, `{}`, "the schema cannot be parsed"},
		{"too deep", deep, `{}`, "the schema cannot be parsed"},
		{"too large", `{"description":"` + strings.Repeat("x", maxBytes) + `"}`, `{}`, "the schema cannot be parsed"},
		{"another document", `{"$ref":"http://127.0.0.1:1/s.json"}`, `{}`, "refers to another document"},
		{"a file", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `{}`, "refers to another document"},
		{"an unknown dialect", `{"$schema":"https://example.com/dialect"}`, `{}`, "refers to another document"},
		{"invalid", `{"properties":{"a":{"type":"strin"}}}`, `{}`, `"/properties/a/type" `},
		{"not a schema", `[]`, `{}`, "must be"},
		{"a huge number", `{"minimum":1e999999999}`, `{}`, "too large or too long"},
		{"a long number", `{"minimum":` + strings.Repeat("9", 2000) + `}`, `{}`, "too large or too long"},
		{"exponential", chain(30), `{}`, "would take too long"},
		{"long lists of different elements", thousand(`{"uniqueItems":true}`), list, "would take too long"},
		{"a name that needs many", thousand(`{"dependentRequired":{"n0":` + list + `}}`), `{"n0":1}`, "would take too long"},
		{"members nobody has looked at", thousand(`{"unevaluatedProperties":false}`), members, "would take too long"},
		{"members somebody has looked at", chainOfOne.String(), members, "would take too long"},
		{"long numbers", `{"items":` + strings.Replace(thousand(`{"minimum":0}`), `{"$defs"`, `{"$id":"x","$defs"`, 1) + `}`, "[" + strings.Repeat(strings.Repeat("9", 999)+",", 99) + "1]", "would take too long"},
		{"long schemas as values", thousand(`{"$ref":"http://json-schema.org/draft-07/schema#"}`), `{"enum":` + list + `}`, "would take too long"},
		{"endless", `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{}`, "a reference to itself that never ends"},
		{"an alternative that is endless", `{"anyOf":[{"type":"string"},{"$ref":"#"}]}`, `{}`, "a reference to itself that never ends"},
		{"exponential in the depth of the value", `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"allOf":[{"$ref":"#/$defs/b"}]}]},"b":{"properties":{"x":{"$ref":"#/$defs/a"}}}}}`,
			strings.Repeat(`{"x":`, 40) + "1" + strings.Repeat("}", 40), "would take too long"},
	} {
		k, err := Compile([]byte(c.schema))
		if err == nil {
			_, err = k.Check([]byte(c.value))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestChecksOfManyLevels(t *testing.T) {
	k, err := Compile([]byte(chain(10)))
	if err != nil {
		t.Fatal(err)
	}
	if all, err := k.Check([]byte(`{}`)); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestPatternsAreBounded checks that a check skips a pattern that would take minutes. All patterns
// of a check share one bound.
func TestPatternsAreBounded(t *testing.T) {
	large := `(?:.{0,999}){3}b` // 6000 instructions
	wide := `^b(?:.{0,900})*$`  // 1800 instructions; fails at once
	many := strings.Repeat(`"`+strings.Repeat("a", 10_000)+`",`, 20)
	for _, c := range []struct{ name, schema, value, problem, err string }{
		{"a large pattern", `{"pattern":"` + large + `"}`, `"` + strings.Repeat("a", 100_000) + `"`, "", ""},
		{"a long text", `{"pattern":"` + wide + `"}`, `"` + strings.Repeat("a", 100_000) + `"`, "", "the patterns of the schema are large and the value is long"},
		{"many texts", `{"items":{"pattern":"` + wide + `"}}`, `[` + many + `"b"]`, "", "the patterns of the schema are large and the value is long"},
		{"names", `{"patternProperties":{"` + wide + `":false}}`, `{"` + strings.Repeat("a", 100_000) + `":1}`, "", "the patterns of the schema are large and the value is long"},
		{"a usual pattern and a long text", `{"pattern":"^b"}`, `"` + strings.Repeat("a", 100_000) + `"`, `must match the pattern "^b"`, ""},
		{"a large pattern and a short text", `{"pattern":"` + wide + `"}`, `"a"`, `must match the pattern "` + wide + `"`, ""},
	} {
		k, err := Compile([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		all, err := k.Check([]byte(c.value))
		if say(all) != c.problem || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %q and %v", c.name, say(all), err)
		}
		if k.steps.short > 0 != (c.err != "") {
			t.Errorf("%s: %d matches were left out", c.name, k.steps.short)
		}
	}
}

// TestPatternsOfASchemaAreBounded checks that the patterns of a schema together have a bounded
// size. Patterns beyond this size are left out.
func TestPatternsOfASchemaAreBounded(t *testing.T) {
	p := patterns{left: maxPatterns, steps: &steps{}}
	compiled := 0
	for i := range 1000 {
		if _, ok := p.compile(fmt.Sprintf("a{900}b%d", i)).(bounded); ok {
			compiled++
		}
	}
	if compiled == 0 || compiled > maxPatterns/900+1 {
		t.Errorf("%d patterns were compiled", compiled)
	}
	p = patterns{left: maxPatterns, steps: &steps{}}
	for range 1000 {
		p.compile(strings.Repeat("(a{999})", 500))
	}
	if p.left > 0 {
		t.Error("patterns that are left out cost nothing")
	}
}

// TestCompileIsBounded checks that the time and memory for a schema are bounded, whatever its form.
// A library that we used before took 15 s for some of these.
func TestCompileIsBounded(t *testing.T) {
	repeat := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	numbered := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	in := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	long := strings.Repeat("n", 500_000)
	for name, c := range map[string]struct {
		schema string
		usable bool
	}{
		"65,536 alternatives":        {in(`{"anyOf":[` + repeat(`{}`, 65_536) + `]}`), true},
		"65,536 booleans":            {in(`{"oneOf":[` + repeat(`true`, 65_536) + `]}`), true},
		"many alternatives":          {in(`{"anyOf":[` + repeat(`{"type":"string"}`, 9_900) + `]}`), true},
		"many properties":            {`{"properties":{` + numbered(`"property%d":{"type":"string"}`, 9_900) + `}}`, true},
		"many definitions":           {`{"$defs":{` + numbered(`"d%d":{"type":"string"}`, 9_000) + `},"properties":{"a":{"$ref":"#/$defs/d7"}}}`, true},
		"many references":            {`{"$defs":{"x":{}},"properties":{` + numbered(`"p%d":{"$ref":"#/$defs/x"}`, 9_900) + `}}`, true},
		"a long name":                {`{"properties":{"` + long + `":{"anyOf":[` + repeat(`{}`, 40_000) + `]}}}`, true},
		"a long name, few parts":     {`{"properties":{"` + long + `":{"anyOf":[` + repeat(`{}`, 10) + `]}}}`, true},
		"a long name, more parts":    {`{"properties":{"` + long + `":{"anyOf":[` + repeat(`{}`, 200) + `]}}}`, true},
		"references, a long name":    {`{"properties":{"` + long + `":{"anyOf":[` + repeat(`{"$ref":"#"}`, 10_000) + `]}}}`, true},
		"references, a long $id":     {`{"$id":"https://h/` + long + `","anyOf":[` + repeat(`{"$ref":"#"}`, 10_000) + `]}`, false},
		"many values of an enum":     {in(`{"enum":[` + numbered(`"v%d"`, 60_000) + `]}`), true},
		"many required names":        {`{"required":[` + numbered(`"r%d"`, 60_000) + `]}`, true},
		"the same required name":     {`{"required":[` + repeat(`"r"`, 60_000) + `]}`, false},
		"many types":                 {in(`{"type":[` + repeat(`"string"`, 60_000) + `]}`), false},
		"nested alternatives":        {in(strings.Repeat(`{"anyOf":[{},`, 28) + `{}` + strings.Repeat(`]}`, 28)), true},
		"a union of large enums":     {`{"$defs":{"e":{"enum":[` + numbered(`"v%d"`, 50_000) + `]}},"anyOf":[` + repeat(`{"$ref":"#/$defs/e"}`, 1000) + `]}`, true},
		"a large value, many times":  {`{"$defs":{"e":{"enum":[{` + numbered(`"k%d":1`, 30_000) + `}]}},"allOf":[` + repeat(`{"$ref":"#/$defs/e"}`, 1000) + `]}`, true},
		"dependencies between names": {`{"dependentRequired":{` + numbered(`"d%d":["a","b"]`, 20_000) + `}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			k, err := Compile([]byte(c.schema))
			if (err == nil) != c.usable {
				t.Errorf("the error is %v", err)
			}
			if err == nil {
				_, _ = k.Check([]byte(`{"a":{"k":1}}`))
			}
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 20*time.Second || used > 400 {
				t.Errorf("%d bytes took %s and %d MiB", len(c.schema), took, used)
			} else {
				t.Logf("%d bytes took %s and %d MiB", len(c.schema), took, used)
			}
		})
	}
}

// FuzzCheck checks that no schema and no value make the package panic, and that the text of a
// problem stays on one line.
func FuzzCheck(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"const":"x"}]}},"required":["a"]}`, `{"a":"b"}`)
	f.Add(chain(3), `[]`)
	f.Add(`{"$ref":"#"}`, `1`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		k, err := Compile([]byte(schema))
		if err != nil {
			return
		}
		all, err := k.Check([]byte(value))
		if err != nil {
			return
		}
		for _, p := range all {
			if strings.ContainsAny(p.Text, "\n\x1b") || p.Text == "" {
				t.Errorf("%q", p.Text)
			}
		}
		v := Of([]byte(schema), wholeOf(schema))
		v.Types()
		v.Choices()
		v.Properties()
	})
}
