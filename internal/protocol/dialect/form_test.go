package dialect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

func formRequest(t testing.TB, schema string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?","requestedSchema":`+schema+`}}`), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func formAnswer(t testing.TB, content string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":`+content+`}}`), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func restored(t testing.TB, form *Form, answer *jsonrpc.Message) *jsonrpc.Message {
	t.Helper()
	m, err := form.Restore(nil, answer)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestForm(t *testing.T) {
	for _, tt := range []struct {
		name, schema, converted string
		answers                 [][2]string // pairs: the content of the client's answer, and the content that the server gets
		losses                  string
	}{
		{
			name:      "fields of 2025-06-18",
			schema:    `{"type":"object", "properties":{"a":{"type":"string","enum":["x"],"enumNames":["X"]},"b":{"type":"boolean","default":true}}}`,
			converted: `{"type":"object", "properties":{"a":{"type":"string","enum":["x"],"enumNames":["X"]},"b":{"type":"boolean","default":true}}}`,
			answers:   [][2]string{{`{"a":"x"}`, `{"a":"x"}`}},
		},
		{
			name:      "options with titles",
			schema:    `{"type":"object","properties":{"c":{"type":"string","title":"C","oneOf":[{"const":"\u0061","title":"A"},{"const":"b"}]}},"required":["c"]}`,
			converted: `{"type":"object","properties":{"c":{"enum":["\u0061","b"],"enumNames":["A","b"],"type":"string","title":"C"}},"required":["c"]}`,
			answers:   [][2]string{{`{"c":"a"}`, `{"c":"a"}`}},
		},
		{
			name:      "default values",
			schema:    `{"type":"object","properties":{"n":{"type":"number","default":2.50},"s":{"type":"string","description":"The name","default":"Ada"},"c":{"type":"string","oneOf":[{"const":"a","title":"Alpha"}],"default":"a"}}}`,
			converted: `{"type":"object","properties":{"n":{"description":"Default: 2.50.","type":"number"},"s":{"type":"string","description":"The name. Default: Ada."},"c":{"enum":["a"],"enumNames":["Alpha"],"description":"Default: Alpha.","type":"string"}}}`,
			losses:    "elicitation.default",
		},
		{
			name:      "a list of options",
			schema:    `{"type":"object","properties":{"t":{"type":"array","title":"Tags","description":"Your tags.","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"a","title":"Alpha"},{"const":"b","title":"Beta"}]},"default":["b"]},"t_1":{"type":"string"}},"required":["t","t_1"]}`,
			converted: `{"type":"object","properties":{"t_1_":{"type":"boolean","title":"Tags: Alpha","description":"Your tags. Select at least 1 and at most 2.","default":false},"t_2":{"type":"boolean","title":"Tags: Beta","default":true},"t_1":{"type":"string"}},"required":["t_1"]}`,
			answers: [][2]string{
				{`{"t_1_":true,"t_2":true,"t_1":"x"}`, `{"t_1":"x","t":["a","b"]}`},
				{`{"t_1_":false,"t_2":false,"t_1":"x"}`, `{"t_1":"x","t":[]}`},
				{`{"t_1":"x"}`, `{"t_1":"x","t":[]}`},
				{`{"t_2":"true"}`, `{"t":["b"]}`},
				{`{}`, `{"t":[]}`},
			},
			losses: "elicitation.limits",
		},
		{
			name:      "an optional list of options",
			schema:    `{"type":"object","properties":{"t":{"type":"array","items":{"type":"string","enum":["a","b"]}}}}`,
			converted: `{"type":"object","properties":{"t_1":{"type":"boolean","title":"t: a"},"t_2":{"type":"boolean","title":"t: b"}}}`,
			answers:   [][2]string{{`{}`, `{}`}, {`{"t_1":false}`, `{"t":[]}`}, {`{ "x" : 1 , "t_1":true}`, `{"x" : 1,"t":["a"]}`}},
		},
		{
			name:      "lists that are not options",
			schema:    `{"type":"object","properties":{"t":{"type":"array","items":{"type":"string"}},"u":{"type":"array","items":{"enum":[1,2]}},"v":{"type":"object"}}}`,
			converted: `{"type":"object","properties":{"t":{"type":"array","items":{"type":"string"}},"u":{"type":"array","items":{"enum":[1,2]}},"v":{"type":"object"}}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var losses mcp.Losses
			m := formRequest(t, tt.schema)
			got, form := ConvertForm(nil, mcp.R20250618, m, &losses)
			if s := string(got.Param("requestedSchema").Of(got.Raw)); s != tt.converted {
				t.Errorf("the client gets\n%s\nwant\n%s", s, tt.converted)
			}
			if same := tt.schema == tt.converted; same != (got == m) {
				t.Errorf("the message was copied: %v", got != m)
			}
			for _, a := range tt.answers {
				back := restored(t, form, formAnswer(t, a[0]))
				if s := string(back.ResultMember("content").Of(back.Raw)); s != a[1] {
					t.Errorf("the server gets %s for %s, want %s", s, a[0], a[1])
				}
			}
			var lost []string
			for _, l := range losses {
				lost = append(lost, l.What)
			}
			if s := strings.Join(lost, " "); s != tt.losses {
				t.Errorf("losses %q, want %q", s, tt.losses)
			}
			for _, r := range []mcp.Revision{mcp.R20251125, mcp.R20260728} {
				if same, form := ConvertForm(nil, r, m, &losses); same != m || form != nil {
					t.Errorf("the form was converted for %s", r)
				}
			}
		})
	}
}

// list returns a JSON array of n strings.
func list(n int, text func(i int) string) string {
	var all []string
	for i := range n {
		all = append(all, text(i))
	}
	return string(jsonrpc.AppendStrings(nil, all))
}

// TestOptionsThatAreListedTwice checks that Dragoman converts an option only once, however often
// the schema repeats it. Otherwise a schema of 4 KB would become a megabyte.
func TestOptionsThatAreListedTwice(t *testing.T) {
	same := list(450, func(int) string { return "a" })
	m := formRequest(t, `{"type":"object","properties":{"t":{"type":"array","items":{"enum":`+same+`},"default":`+same+`}}}`)
	var got *jsonrpc.Message
	allocs := testing.AllocsPerRun(3, func() { got, _ = ConvertForm(nil, mcp.R20250618, m, new(mcp.Losses)) })
	if allocs > 3000 {
		t.Errorf("the conversion takes %v allocations", allocs)
	}
	if s, want := string(got.Param("requestedSchema").Of(got.Raw)), `{"type":"object","properties":{"t_1":{"type":"boolean","title":"t: a","default":true}}}`; s != want {
		t.Errorf("the client gets %.300s", s)
	}
}

// TestFormsThatAreTooLarge checks that a form that exceeds a limit is not changed, and that a loss
// gives the reason.
func TestFormsThatAreTooLarge(t *testing.T) {
	number := func(i int) string { return fmt.Sprint("o", i) }
	many := func(n int, f func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, f(i))
		}
		return strings.Join(all, ",")
	}
	choice := func(options, defaults int) string {
		return `{"type":"array","items":{"enum":` + list(options, number) + `},"default":` + list(defaults, number) + `}`
	}
	for name, c := range map[string]struct {
		fields string
		loss   string
	}{
		"the most options":        {`"t":` + choice(maxFormTotal, 0), ""},
		"one option more":         {`"t":` + choice(maxFormTotal+1, 0), "the form has more than 1000 options, so it is not converted"},
		"equal options":           {`"t":{"type":"array","items":{"enum":` + list(2400, func(int) string { return "a" }) + `}}`, "the form has more than 1000 options, so it is not converted"},
		"defaults count too":      {`"t":` + choice(600, 500), "the form has more than 1000 options, so it is not converted"},
		"several lists":           {many(40, func(i int) string { return fmt.Sprintf(`"t%d":%s`, i, choice(20, 10)) }), "the form has more than 1000 options, so it is not converted"},
		"options of another kind": {`"t":{"type":"string","oneOf":` + list(maxFormTotal+1, number) + `}`, "the form has more than 1000 options, so it is not converted"},
		"fields":                  {many(maxFormFields+1, func(i int) string { return fmt.Sprintf(`"f%d":{"type":"string","default":"x"}`, i) }), "the form has more than 1000 fields, so it is not converted"},
	} {
		var losses mcp.Losses
		m := formRequest(t, `{"type":"object","properties":{`+c.fields+`}}`)
		got, form := ConvertForm(nil, mcp.R20250618, m, &losses)
		if (c.loss != "") != (got == m) || (c.loss != "") != (form == nil) {
			t.Errorf("%s: the form was converted: %v", name, got != m)
		}
		if c.loss != "" && (len(losses) != 1 || losses[0].What != "elicitation.size" || losses[0].Why != c.loss) {
			t.Errorf("%s: losses %v", name, losses)
		}
	}
}

// TestNamesThatAreTaken checks 900 fields that would all get the same new name. Finding a free name
// for each must be fast, and the names must stay short.
func TestNamesThatAreTaken(t *testing.T) {
	var fields []string
	for i := range 900 { // these names are too long for a prefix, so each option would be called choice_1
		fields = append(fields, fmt.Sprintf(`"%s%d":{"type":"array","items":{"enum":["a"]}}`, strings.Repeat("x", maxFormText), i))
	}
	m := formRequest(t, `{"type":"object","properties":{`+strings.Join(fields, ",")+`}}`)
	var got *jsonrpc.Message
	if n := testing.AllocsPerRun(1, func() { got, _ = ConvertForm(nil, mcp.R20250618, m, new(mcp.Losses)) }); n > 60_000 {
		t.Errorf("the conversion takes %v allocations", n)
	}
	if len(got.Raw) > len(m.Raw) {
		t.Errorf("%d bytes became %d", len(m.Raw), len(got.Raw))
	}
	for _, name := range []string{`"choice_1"`, `"choice_1_"`, `"choice_1_2"`, `"choice_1_899"`} {
		if strings.Count(string(got.Raw), name+":") != 1 {
			t.Errorf("the field %s is missing", name)
		}
	}
}

// TestAnswersThatRepeatOptions checks a client's answer that names options many times. The server
// gets each option once. Restore refuses an answer with too many entries.
func TestAnswersThatRepeatOptions(t *testing.T) {
	big := strings.Repeat("x", 10_000)
	options := []string{`{"const":"` + big + `","title":"ſhort K"}`}
	for i := range maxFormOptions {
		options = append(options, fmt.Sprintf(`{"const":"v%d","title":"V%d"}`, i, i))
	}
	_, form := ConvertForm(nil, mcp.R20250618, formRequest(t, `{"type":"object","properties":{"t":{"type":"array","items":{"anyOf":[`+strings.Join(options, ",")+`]}}}}`), new(mcp.Losses))
	back := restored(t, form, formAnswer(t, `{"t":"`+strings.Repeat("SHORT K,v1,V1,other,", 200)+`"}`))
	if want := len(big) + 200*len(`"other",`) + 200; len(back.Raw) > want {
		t.Errorf("the server gets %d bytes, want at most %d", len(back.Raw), want)
	}
	if s := string(back.Raw); strings.Count(s, big) != 1 || strings.Count(s, `"v1"`) != 1 || strings.Count(s, `"other"`) != 200 {
		t.Errorf("the server gets %.200s", s)
	}
	_, err := form.Restore(nil, formAnswer(t, `{"t":"`+strings.Repeat("v1,", maxFormWords+1)+`"}`))
	if err == nil || err.Error() != "the list in the field t has more than 1000 entries" {
		t.Errorf("a long answer: %v", err)
	}
	if restored(t, form, formAnswer(t, `{"t":"`+strings.Repeat("v1,,", maxFormWords)+`"}`)) == nil {
		t.Error("the longest answer is refused")
	}
}

// TestLongListOfOptions checks that a list with too many options for one field per option becomes a
// text field.
func TestLongListOfOptions(t *testing.T) {
	var options []string
	for i := range maxFormOptions + 1 {
		options = append(options, fmt.Sprintf(`{"const":"v%d","title":"Value %d"}`, i, i))
	}
	var losses mcp.Losses
	m, form := ConvertForm(nil, mcp.R20250618, formRequest(t, `{"type":"object","properties":{"v":{"type":"array","title":"V","items":{"anyOf":[`+strings.Join(options, ",")+`]},"default":["v2"]}},"required":["v"]}`), &losses)
	schema := m.Param("requestedSchema")
	field := jsonrpc.Find(m.Raw, jsonrpc.Find(m.Raw, schema, "properties"), "v")
	about, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, field, "description"))
	if want := "Enter options, separated by commas. The options are: Value 0, Value 1, "; !strings.HasPrefix(about, want) || !strings.HasSuffix(about, ". Default: Value 2.") {
		t.Errorf("the description is %s", about)
	}
	if s := string(jsonrpc.Find(m.Raw, schema, "required").Of(m.Raw)); s != `["v"]` {
		t.Errorf("required is %s", s)
	}
	if len(losses) != 1 || losses[0].What != "elicitation.options" {
		t.Errorf("losses %v", losses)
	}
	back := restored(t, form, formAnswer(t, `{"v":" value 3,v4, other ,"}`))
	if s := string(back.ResultMember("content").Of(back.Raw)); s != `{"v":["v3","v4","other"]}` {
		t.Errorf("the server gets %s", s)
	}
}

// TestAnswersWithoutForm checks answers without form content. Restore must not change them.
func TestAnswersWithoutForm(t *testing.T) {
	_, form := ConvertForm(nil, mcp.R20250618, formRequest(t, `{"type":"object","properties":{"t":{"type":"array","items":{"enum":["a"]}}},"required":["t"]}`), new(mcp.Losses))
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"action":"decline"}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":[]}}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}`,
	} {
		m, err := jsonrpc.Scan([]byte(s), jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := restored(t, form, m); got != m {
			t.Errorf("%s became %s", s, got.Raw)
		}
	}
}

// FuzzForm checks that a converted form and a restored answer are valid JSON, and that their sizes
// stay in proportion to the input.
func FuzzForm(f *testing.F) {
	f.Add(`{"properties":{"t":{"type":"array","items":{"enum":["a","b"]},"default":["a"]}},"required":["t"]}`, `{"t_1":true}`)
	f.Add(`{"properties":{"t":{"type":"string","oneOf":[{"const":"a"}],"default":"\ud800"}}}`, `{"t":"\ud800"}`)
	f.Fuzz(func(t *testing.T, schema, content string) {
		m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"requestedSchema":`+schema+`}}`), jsonrpc.Limits{})
		if err != nil {
			t.Skip("the schema is not JSON: ", err)
		}
		answer, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":`+content+`}}`), jsonrpc.Limits{})
		if err != nil {
			t.Skip("the answer is not JSON: ", err)
		}
		got, form := ConvertForm(nil, mcp.R20250618, m, new(mcp.Losses))
		if _, err := jsonrpc.Scan(got.Raw, jsonrpc.Limits{Bytes: len(got.Raw) + 1}); err != nil {
			t.Fatalf("%s: %v", got.Raw, err)
		}
		if len(got.Raw) > 100*len(m.Raw)+100*maxFormText {
			t.Errorf("%d bytes became %d", len(m.Raw), len(got.Raw))
		}
		back, err := form.Restore(nil, answer)
		if err != nil {
			return
		}
		if len(back.Raw) > 6*(len(m.Raw)+len(answer.Raw))+100 {
			t.Errorf("%d bytes became %d", len(answer.Raw), len(back.Raw))
		}
		if _, err := jsonrpc.Scan(back.Raw, jsonrpc.Limits{Bytes: len(back.Raw) + 1}); err != nil {
			t.Fatalf("%s: %v", back.Raw, err)
		}
	})
}
