package cli

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
)

const formSchema = `{"type":"object","$defs":{"size":{"enum":[1,2,"big"]},"flag":{"type":["boolean","null"]},"loop":{"$ref":"#/$defs/loop"}},
"properties":{
 "text":{"type":"string"},"int":{"type":"integer"},"num":{"type":"number"},"bool":{"type":"boolean"},
 "flag":{"$ref":"#/$defs/flag"},"size":{"$ref":"#/$defs/size"},"loop":{"$ref":"#/$defs/loop"},"away":{"$ref":"https://h/x"},
 "opt":{"anyOf":[{"type":"integer"},{"type":"null"}]},"any":{},"obj":{"properties":{"a":{}}},
 "ints":{"type":"array","items":{"type":"integer"}},"list":{"items":{}},"both":{"type":["string","array"]},
 "one":{"const":7}
}}`

func TestTypes(t *testing.T) {
	s := schema.Of([]byte(formSchema), jsonrpc.Whole([]byte(formSchema)))
	for _, tt := range []struct{ in, want string }{
		{"text=5", `"5"`}, {"text=", `""`}, {"text=a=b", `"a=b"`}, {`text=q"\`, `"q\"\\"`},
		{"int=5", "5"}, {"int=-12345678901234567890123", "-12345678901234567890123"},
		{"int=5.5", "!an integer"}, {"int=x", "!an integer"}, {"int=05", "!an integer"}, {"int=", "!an integer"},
		{"num=5", "5"}, {"num=1e3", "1e3"}, {"num=1.50", "1.50"}, {"num=NaN", "!a number"},
		{"bool=true", "true"}, {"bool=yes", "!true or false"},
		{"flag=null", "null"}, {"flag=false", "false"}, {"flag=x", "!true or false or null"},
		{"size=big", `"big"`}, {"opt=7", "7"}, {"opt=null", "null"}, {"opt=x", "!an integer or null"},
		{"any=5", `"5"`}, {"other=5", `"5"`}, {"loop=5", `"5"`}, {"away=5", `"5"`}, {"one=7", "7"},
		{`obj={"a": 1}`, `{"a": 1}`}, {"obj=x", "!a JSON object"},
		{"ints=[1, 2]", "[1, 2]"}, {"ints=1", "[1]"}, {"ints=1 ints=2", "[1,2]"}, {"ints=x", "!an array, each item of which is an integer"},
		{"list=x", `["x"]`}, {"both=x", `"x"`}, {"int=1 int=2", "!given only once"}, {"new=1 new=2", `["1","2"]`},
		{`int:="x"`, `"x"`}, {"text:={}", "{}"},
	} {
		args, err := parseArguments("--arg", strings.Fields(tt.in))
		if strings.Contains(tt.in, ", ") || strings.Contains(tt.in, ": ") {
			args, err = parseArguments("--arg", []string{tt.in})
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := objectOf(s, nil, args)
		want, fails := strings.CutPrefix(tt.want, "!")
		switch {
		case fails && (err == nil || !strings.HasSuffix(err.Error(), "must be "+want)):
			t.Errorf("%s: %s %v, want the error %q", tt.in, got, err, want)
		case !fails && (err != nil || string(got) != string(jsonrpc.AppendQuote([]byte("{"), args[0].key))+":"+want+"}"):
			t.Errorf("%s: %s %v, want %s", tt.in, got, err, want)
		case !fails && jsonrpc.Valid(got, jsonrpc.Limits{}) != nil:
			t.Errorf("%s: %s is not JSON", tt.in, got)
		}
	}
}

// TestEndlessSchema checks that a server's schema cannot keep the command busy forever.
func TestEndlessSchema(t *testing.T) {
	wide := strings.Repeat(`{"$ref":"#/properties/x"},`, 2000) + "{}"
	raw := []byte(`{"properties":{"x":{"anyOf":[` + wide + `]}}}`)
	s := schema.Of(raw, jsonrpc.Whole(raw))
	got, err := objectOf(s, nil, []argument{{key: "x", value: "5"}})
	if err != nil || string(got) != `{"x":"5"}` {
		t.Errorf("%s %v", got, err)
	}
}

// TestHostileNames checks the example and the completions for a tool with hostile argument
// names. No name may become a flag of Dragoman.
func TestHostileNames(t *testing.T) {
	for in, want := range map[string]string{
		`{"name":"t","inputSchema":{"type":"object","required":["a"],"properties":{"a":{"type":"string","default":"1 2"}}}}`:                    "dragoman call s t 'a=1 2'",
		`{"name":"t","inputSchema":{"type":"object","required":["--save"],"properties":{"--save":{"type":"string","default":"/home"}}}}`:        `dragoman call s t --json-args '{"--save":"/home"}'`,
		`{"name":"t","inputSchema":{"type":"object","required":["a","b=c"],"properties":{"a":{"type":"integer"},"b=c":{"type":"boolean"}}}}`:    `dragoman call s t --json-args '{"a":1,"b=c":true}'`,
		`{"name":"t","inputSchema":{"type":"object","required":["a:"],"properties":{"a:":{"type":"string","default":"'; rm\u009b2J -rf"}}}}`:    `dragoman call s t --json-args '{"a:":"'\''; rm\u009b2J -rf"}'`,
		`{"name":"t","inputSchema":{"type":"object","required":["\u202e"],"properties":{"\u202e":{"type":"string","enum":["$(id)"]}},"x":"" }}`: `dragoman call s t $'\u202e=$(id)'`,
	} {
		one := tool.Of([]byte(in))
		if got := (where{target: "s"}).line("call", exampleWords(one)...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		words, _ := argumentWords(one, nil, "")
		more, _ := argumentWords(one, nil, "--save=")
		for _, w := range append(words, more...) {
			if strings.HasPrefix(w, "-") || strings.HasPrefix(w, "b=c") || strings.HasPrefix(w, "a:") {
				t.Errorf("%s is completed", w)
			}
		}
	}
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(formSchema), "int", "5")
	f.Add([]byte(`{"$ref":"#"}`), "a~1b", "[")
	f.Fuzz(func(t *testing.T, raw []byte, key, value string) {
		if jsonrpc.Valid(raw, jsonrpc.Limits{}) != nil {
			return
		}
		s := schema.Of(raw, jsonrpc.Whole(raw))
		got, err := objectOf(s, raw, []argument{{key: key, value: value}})
		if err == nil && jsonrpc.KindOf(raw, jsonrpc.Whole(raw)) == '{' && jsonrpc.Valid(got, jsonrpc.Limits{}) != nil {
			t.Errorf("%s is not JSON: %v", got, jsonrpc.Valid(got, jsonrpc.Limits{}))
		}
	})
}

// TestTextArguments checks the arguments of a prompt, which are strings.
func TestTextArguments(t *testing.T) {
	for in, want := range map[string]string{
		"a=1 b={}":    `{"a":"1","b":"{}"}`,
		"a:=x b=y=z":  `{"a:":"x","b":"y=z"}`,
		"a= :=x":      `{"a":"",":":"x"}`,
		"a=1 a=2":     "!a is given twice",
		"a:=1 a:=2":   "!a: is given twice",
		"=1":          `!"=1" has no name`,
		"a=1 nothing": `!"nothing" has no =`,
	} {
		given, err := textArguments(strings.Fields(in))
		got := string(textObject(given))
		if err != nil {
			got = "!" + err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
