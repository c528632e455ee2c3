package mirror

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestP06_ValueEncoding checks the examples of 2026-07-28 §Streamable HTTP, "Encoding
// examples", and further cases.
func TestP06_ValueEncoding(t *testing.T) {
	for _, tt := range []struct{ text, header string }{
		{"us-west1", "us-west1"},
		{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{" padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"世界", "=?base64?5LiW55WM?="},
		{"", ""},
		{"a b\tc", "a b\tc"},
		{"\ta", "=?base64?CWE=?="},
		{"=?BASE64?YQ==?=", "=?BASE64?YQ==?="},
		{"=?base64?YQ==", "=?base64?YQ=="},
		{"a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="},
		{"\x7f", "=?base64?fw==?="},
		{"\x00", "=?base64?AA==?="},
	} {
		if got := EncodeValue(tt.text); got != tt.header {
			t.Errorf("EncodeValue(%q) = %q, want %q", tt.text, got, tt.header)
		}
		if got, err := DecodeValue(tt.header); got != tt.text || err != nil {
			t.Errorf("DecodeValue(%q) = %q, %v, want %q", tt.header, got, err, tt.text)
		}
	}
	for _, bad := range []string{
		"世界", "a\x00b", "a\nb", "a\rb", "\x7f", "=?base64?YQ=?=", "=?base64?YQ?=", "=?base64?Y Q==?=", "=?base64?YR==?=",
		"=?base64?/w==?=", "=?base64?!!!!?=", "=?base64?YQ==YQ==?=",
	} {
		if got, err := DecodeValue(bad); err != ErrValue {
			t.Errorf("DecodeValue(%q) = %q, %v", bad, got, err)
		}
	}
	if got, err := DecodeValue("=?base64?="); got != "=?base64?=" || err != nil {
		t.Errorf("overlapping sentinels: %q, %v", got, err)
	}
	if err := CheckValue("Mcp-Name", []string{"=?base64?5LiW55WM?="}, "世界"); err != nil {
		t.Error(err)
	}
}

func TestP09_OuterWhiteSpaceIsNotTheValue(t *testing.T) {
	for _, h := range []string{" foo", "foo ", "\t foo\t ", "  =?base64?Zm9v?= "} {
		if err := CheckValue("Mcp-Name", []string{h}, "foo"); err != nil {
			t.Errorf("%q: %v", h, err)
		}
	}
}

func TestP05_NameMustBeThereOnceAndEqual(t *testing.T) {
	for _, got := range [][]string{nil, {""}, {"Foo"}, {"foo", "foo"}, {"bar"}, {"=?base64?YmFy?="}, {"f\xf6o"}} {
		err := CheckValue("Mcp-Name", got, "foo")
		if err == nil || err.Code != CodeMismatch || !strings.HasPrefix(err.Message, "Header mismatch: Mcp-Name") {
			t.Errorf("%q: %v", got, err)
		}
	}
	long := CheckValue("Mcp-Name", []string{strings.Repeat("x", 5000)}, strings.Repeat("ü", 5000))
	if len(long.Message) > 600 || !utf8.ValidString(long.Message) {
		t.Errorf("the message has %d bytes: %q", len(long.Message), long.Message)
	}
}

func FuzzHeaderCodec(f *testing.F) {
	for _, s := range []string{"", "a", " a", "=?base64??=", "=?base64?=", "=?base64?YQ==?=", "世界", "a\r\nb: c", "\t", "a\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := EncodeValue(s)
		if !plain(h) {
			t.Fatalf("%q became %q, which is not a valid header value", s, h)
		}
		got, err := DecodeValue(h)
		if utf8.ValidString(s) && (got != s || err != nil) {
			t.Fatalf("%q became %q became %q, %v", s, h, got, err)
		}
		if !utf8.ValidString(s) && err == nil {
			t.Fatalf("%q is not UTF-8; it became %q and then %q", s, h, got)
		}
		// If DecodeValue accepts a value, EncodeValue and DecodeValue must return the same text
		// again.
		if text, err := DecodeValue(s); err == nil {
			if again, err := DecodeValue(EncodeValue(text)); again != text || err != nil {
				t.Fatalf("%q is %q, which became %q, %v", s, text, again, err)
			}
		}
		integer(s)
	})
}

func parse(t testing.TB, schema string) ([]Param, error) {
	t.Helper()
	raw := []byte(schema)
	if err := jsonrpc.Valid(raw, jsonrpc.Limits{}); err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return ParseParams(raw, jsonrpc.Whole(raw))
}

func TestParseParams(t *testing.T) {
	got, err := parse(t, ` {"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"a":{"type":"object","properties":{"b/c":{"properties":{"n":{"x\u002dmcp-header":"A.N","type":"integer"}}}}},
		"x-mcp-header":{"type":"string","description":"only a property of that name"},
		"properties":{"type":"boolean","x-mcp-header":"!#$%&'*+-^_|~0"},
		"plain":{"type":"number","default":{"x-mcp-header":7},"enum":[{"x-mcp-header":7}],"const":{"x-mcp-header":7},"examples":[{"x-mcp-header":7}]}
	},"required":["region"],"$defs":{"x-mcp-header":{"type":"string"}}} `)
	want := []Param{
		{"Region", []string{"region"}, "string", "Mcp-Param-Region"},
		{"A.N", []string{"a", "b/c", "n"}, "integer", "Mcp-Param-A.N"},
		{"!#$%&'*+-^_|~0", []string{"properties"}, "boolean", "Mcp-Param-!#$%&'*+-^_|~0"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, schema := range []string{`{}`, `true`, `{"type":"object"}`, `{"properties":7}`, `{"properties":{"a":true}}`} {
		if got, err := parse(t, schema); got != nil || err != nil {
			t.Errorf("%s: %v, %v", schema, got, err)
		}
	}
	if got, err := ParseParams(nil, jsonrpc.Span{}); got != nil || err != nil {
		t.Errorf("absent: %v, %v", got, err)
	}
}

func TestP15_InvalidAnnotations(t *testing.T) {
	prop := func(s string) string { return `{"type":"object","properties":{"a":` + s + `}}` }
	str := `{"type":"string","x-mcp-header":"A"}`
	for _, tt := range []struct{ schema, at, reason string }{
		{prop(`{"type":"string","x-mcp-header":""}`), `"/properties/a"`, "is empty"},
		{prop(`{"type":"string","x-mcp-header":"a b"}`), "", `is not a header name: "a b"`},
		{prop(`{"type":"string","x-mcp-header":"X\r\nY"}`), "", `is not a header name: "X\r\nY"`},
		{prop(`{"type":"string","x-mcp-header":"ü"}`), "", "is not a header name"},
		{prop(`{"type":"string","x-mcp-header":"a:b"}`), "", "is not a header name"},
		{prop(`{"type":"string","x-mcp-header":7}`), "", "is not a string"},
		{prop(`{"type":"string","x-mcp-header":null}`), "", "is not a string"},
		{prop(`{"type":"number","x-mcp-header":"A"}`), "", `is on a property of type "number"`},
		{prop(`{"type":"object","x-mcp-header":"A"}`), "", "of type"},
		{prop(`{"type":["string","null"],"x-mcp-header":"A"}`), "", "exactly one type"},
		{prop(`{"x-mcp-header":"A"}`), "", "exactly one type"},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"string","x-mcp-header":"region"}}}`, `"/properties/b"`, `"region" is used twice`},
		{prop(`{"type":"array","items":` + str + `}`), `"/properties/a/items"`, "a keyword other than properties"},
		{prop(`{"type":"array","prefixItems":[` + str + `]}`), `"/properties/a/prefixItems/0"`, "a keyword other than properties"},
		{`{"anyOf":[{"properties":{"a":` + str + `}}]}`, `"/anyOf/0/properties/a"`, "a keyword other than properties"},
		{`{"allOf":[` + prop(str) + `]}`, "", "a keyword other than properties"},
		{`{"oneOf":[` + prop(str) + `]}`, "", "a keyword other than properties"},
		{`{"not":` + prop(str) + `}`, "", "a keyword other than properties"},
		{`{"if":` + prop(str) + `}`, "", "a keyword other than properties"},
		{`{"then":` + prop(str) + `}`, "", "a keyword other than properties"},
		{`{"$defs":{"x":` + str + `},"properties":{"a":{"$ref":"#/$defs/x"}}}`, `"/$defs/x"`, "a keyword other than properties"},
		{`{"definitions":{"x/~":` + str + `}}`, `"/definitions/x~1~0"`, "a keyword other than properties"},
		{`{"patternProperties":{"properties":` + str + `}}`, "", "a keyword other than properties"},
		{`{"additionalProperties":` + str + `}`, "", "a keyword other than properties"},
		{`{"x-other":{"deep":[[` + str + `]]}}`, "", "a keyword other than properties"},
		{`{"type":"string","x-mcp-header":"A"}`, "the root", "not on the root of the schema"},
	} {
		got, err := parse(t, tt.schema)
		var se *SchemaError
		if !errors.As(err, &se) || !strings.Contains(se.Reason, tt.reason) || got != nil {
			t.Errorf("%s: %+v, %v; want %q", tt.schema, got, err, tt.reason)
		} else if tt.at != "" && se.At != tt.at {
			t.Errorf("%s: at %s, want %s", tt.schema, se.At, tt.at)
		}
	}
	var many strings.Builder
	for i := range MaxParams + 1 {
		fmt.Fprintf(&many, `,"p%d":{"type":"string","x-mcp-header":"P%d"}`, i, i)
	}
	if _, err := parse(t, `{"properties":{`+many.String()[1:]+`}}`); err == nil || !strings.Contains(err.Error(), "exceeds the limit for one schema, which is 64") {
		t.Errorf("more parameters than MaxParams: %v", err)
	}
}

const schema = `{"properties":{
	"region":{"type":"string","x-mcp-header":"Region"},
	"n":{"type":"integer","x-mcp-header":"N"},
	"dry":{"type":"boolean","x-mcp-header":"Dry"},
	"deep":{"properties":{"x":{"type":"string","x-mcp-header":"Deep-X"}}}}}`

func TestHeadersFor(t *testing.T) {
	params, err := parse(t, schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		want []Header
	}{
		{`{}`, nil},
		{`{"region":null,"n":null,"deep":null}`, nil},
		{`{"region":"eu","n":42,"dry":false,"deep":{"x":"y"}}`,
			[]Header{{"Mcp-Param-Region", "eu"}, {"Mcp-Param-N", "42"}, {"Mcp-Param-Dry", "false"}, {"Mcp-Param-Deep-X", "y"}}},
		{`{"region":"\u4e16\u754c","n":-7.0}`, []Header{{"Mcp-Param-Region", "=?base64?5LiW55WM?="}, {"Mcp-Param-N", "-7"}}},
		{`{"region":"","n":4.2e1}`, []Header{{"Mcp-Param-Region", ""}, {"Mcp-Param-N", "42"}}},
		{`{"n":9007199254740993}`, []Header{{"Mcp-Param-N", "9007199254740993"}}},
		{`{"n":1.5,"region":{"a":1},"dry":["x"]}`, []Header{{"Mcp-Param-N", "1.5"}}},
		{`{"deep.x":"no","deep":"no"}`, nil},
		{`{"region":"a\r\nX-Evil: 1"}`, []Header{{"Mcp-Param-Region", "=?base64?YQ0KWC1FdmlsOiAx?="}}},
	} {
		raw := []byte(" " + tt.args)
		if got := HeadersFor(params, jsonrpc.ValueOf(raw)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.args, got, tt.want)
		}
	}
	if got := HeadersFor(params, jsonrpc.Value{}); got != nil {
		t.Errorf("no arguments: %q", got)
	}
}

func TestCheckHeaders(t *testing.T) {
	params, err := parse(t, schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		row, args string
		headers   string // name=value;…
		want      string // "" means that the call is accepted
	}{
		{"P11", `{"region":"eu"}`, "Region=eu", ""},
		{"P11", `{"region":"eu"}`, "REGION= eu ", ""},
		{"P11", `{"region":"eu"}`, "Region=us", "Header mismatch: Mcp-Param-Region header value 'us' does not match body value 'eu'"},
		{"P11", `{"region":"eu"}`, "Region=EU", "does not match"},
		{"P11", `{"region":"eu"}`, "", "Mcp-Param-Region header is missing"},
		{"P11", `{"region":"eu"}`, "Region=eu;region=eu", "more than once"},
		{"P11", `{"region":"eu"}`, "Region=\xff", "not valid Base64"},
		{"P11", `{"region":"eu"}`, "Region==?base64?ZXU?=", "not valid Base64"},
		{"P11", `{"region":"eu"}`, "Region==?base64?ZXU=?=", ""},
		{"P11", `{"region":""}`, "Region=", ""},
		{"P11", `{"region":""}`, "", "missing"},
		{"P11", `{"region":"42"}`, "Region=42.0", "does not match"},
		{"P11", `{"deep":{"x":"y"}}`, "", "missing"},
		{"P11", `{"deep":{"x":"y"}}`, "Deep-X=y", ""},
		{"P11", `{"dry":true}`, "Dry=true", ""},
		{"P11", `{"dry":true}`, "Dry=True", "does not match"},
		{"P11", `{"dry":true}`, "Dry=false", "does not match"},
		{"P11", `{"region":{}}`, "Region={}", "cannot be sent as a header"},
		{"P12", `{}`, "", ""},
		{"P12", `{"region":null,"n":null,"dry":null,"deep":{"x":null}}`, "", ""},
		{"P12", `{"region":null}`, "Region=null", "the body does not contain the value"},
		{"P12", `{}`, "Region=", "the body does not contain the value"},
		{"P13", `{"n":42}`, "N=42.0", ""},
		{"P13", `{"n":42.0}`, "N=42", ""},
		{"P13", `{"n":42}`, "N=4.2E+1", ""},
		{"P13", `{"n":42}`, "N=43", "does not match"},
		{"P13", `{"n":42}`, "N=forty-two", "does not match"},
		{"P13", `{"n":42}`, "N=42.00000000000000000001", "does not match"},
		{"P13", `{"n":0}`, "N=-0", ""},
		{"P13", `{"n":9007199254740991}`, "N=9007199254740991", ""},
		{"P13", `{"n":-9007199254740991}`, "N=-9007199254740991.000", ""},
		{"P13", `{"n":9007199254740993}`, "N=9007199254740993", "not an integer between"},
		{"P13", `{"n":9007199254740992}`, "N=9007199254740992", "not an integer between"},
		{"P13", `{"n":42}`, "N=9007199254740993", "does not match"},
		{"P13", `{"n":1.5}`, "N=1.5", "not an integer"},
		{"P14", `{}`, "Foo=bar;Foo=baz", ""},
		{"P14", `{"region":"eu"}`, "Foo=\xff;Region=eu", ""},
	} {
		t.Run(tt.row, func(t *testing.T) {
			var got []Header
			for h := range strings.SplitSeq(tt.headers, ";") {
				if name, value, ok := strings.Cut(h, "="); ok {
					got = append(got, Header{"Mcp-Param-" + name, value})
				}
			}
			raw := []byte(" " + tt.args)
			err := CheckHeaders(params, jsonrpc.ValueOf(raw), got)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%s with %s: %v", tt.args, tt.headers, err)
			case tt.want != "" && (err == nil || err.Code != -32020 || !strings.Contains(err.Message, tt.want)):
				t.Errorf("%s with %s: %v, want %q", tt.args, tt.headers, err, tt.want)
			}
		})
	}
}

// FuzzHeadersAgree checks that CheckHeaders accepts the headers that HeadersFor makes, for any
// arguments.
func FuzzHeadersAgree(f *testing.F) {
	f.Add(`{"region":"eu","n":42,"dry":true,"deep":{"x":" y"}}`)
	f.Add(`{"region":"\ud83d\ude00","n":1e3}`)
	f.Add(`{"n":0.0,"region":"=?base64?="}`)
	params, err := parse(f, schema)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, args string) {
		raw := []byte(args)
		if jsonrpc.Valid(raw, jsonrpc.Limits{}) != nil {
			return
		}
		value := jsonrpc.ValueOf(raw)
		headers := HeadersFor(params, value)
		if err := CheckHeaders(params, value, headers); err != nil &&
			!strings.Contains(err.Message, "missing") && !strings.Contains(err.Message, "not an integer") {
			t.Fatalf("%s: %q refused: %v", args, headers, err)
		}
		if ps, err := ParseParams(raw, value.Span()); err == nil {
			HeadersFor(ps, value)
		}
	})
}

func TestAllocations(t *testing.T) {
	params, _ := parse(t, schema)
	raw := []byte(` {"region":"eu","n":42}`)
	at := jsonrpc.Whole(raw)
	if n := testing.AllocsPerRun(100, func() { HeadersFor(params, jsonrpc.ValueOf(raw)) }); n > 5 {
		t.Errorf("HeadersFor makes %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { ParseParams(raw, at); EncodeValue("get_weather"); DecodeValue("get_weather") }); n > 0 {
		t.Errorf("a call without mirrored parameters makes %v allocations, want 0", n)
	}
}
