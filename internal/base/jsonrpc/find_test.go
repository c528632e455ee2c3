package jsonrpc

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const sample = ` { "a" : 1 , "b\u0063" : "x\"]}" ,"":null, "list":[ 1 , [2,"]"],{"k":"}"} , "s",true ],"o":{"a":{"a":2}} , "n":-1.5e3} `

func TestFind(t *testing.T) {
	raw := []byte(sample)
	whole := Whole(raw)
	for key, want := range map[string]string{
		"a": `1`, "bc": `"x\"]}"`, "": `null`, "o": `{"a":{"a":2}}`, "n": `-1.5e3`,
		"list": `[ 1 , [2,"]"],{"k":"}"} , "s",true ]`, "k": ``, `b\u0063`: ``, "absent": ``,
	} {
		if got := string(Find(raw, whole, key).Of(raw)); got != want {
			t.Errorf("%q: got %s, want %s", key, got, want)
		}
	}
	deep := Find(raw, Find(raw, Find(raw, whole, "o"), "a"), "a")
	if string(deep.Of(raw)) != "2" {
		t.Error(deep)
	}
	for _, s := range []Span{{}, Find(raw, whole, "list"), Find(raw, whole, "a"), {5, 3}, {-1, 4}, {0, len(raw) + 1}} {
		if got := Find(raw, s, "a"); !got.IsZero() {
			t.Errorf("%v: %v", s, got)
		}
	}
	out := []Span{{1, 2}, {1, 2}, {1, 2}}
	FindAll(raw, whole, []string{"n", "absent", "a"}, out)
	if string(out[0].Of(raw)) != "-1.5e3" || !out[1].IsZero() || string(out[2].Of(raw)) != "1" {
		t.Error(out)
	}
	FindAll(raw, Span{}, []string{"n", "absent", "a"}, out)
	if slices.ContainsFunc(out, func(s Span) bool { return !s.IsZero() }) {
		t.Error(out)
	}
}

func TestWalk(t *testing.T) {
	raw := []byte(sample)
	whole := Whole(raw)
	var keys, elements []string
	for m := range Members(raw, whole) {
		keys = append(keys, string(m.Key.Of(raw)))
	}
	if want := []string{`"a"`, `"b\u0063"`, `""`, `"list"`, `"o"`, `"n"`}; !slices.Equal(keys, want) {
		t.Error(keys)
	}
	for s := range Elements(raw, Find(raw, whole, "list")) {
		elements = append(elements, string(s.Of(raw)))
	}
	if want := []string{`1`, `[2,"]"]`, `{"k":"}"}`, `"s"`, `true`}; !slices.Equal(elements, want) {
		t.Error(elements)
	}
	for range Members(raw, whole) {
		break
	}
	for range Elements(raw, whole) {
		t.Error("an object has elements, want none")
	}
	for _, empty := range []string{`{}`, `{ }`, `[]`, `[ ]`, `7`} {
		raw := []byte(empty)
		for range Members(raw, Whole(raw)) {
			t.Error(empty)
		}
		for range Elements(raw, Whole(raw)) {
			t.Error(empty)
		}
	}
}

func TestWholeAndKind(t *testing.T) {
	for in, want := range map[string]struct {
		text string
		kind byte
	}{
		"":             {"", 0},
		" \n":          {"", 0},
		"7":            {"7", '0'},
		" -7\n":        {"-7", '0'},
		`{"a": 1} `:    {`{"a": 1}`, '{'},
		"\t[1, 2]":     {"[1, 2]", '['},
		`" x "`:        {`" x "`, '"'},
		" true":        {"true", 't'},
		"false ":       {"false", 'f'},
		"\r\nnull\r\n": {"null", 'n'},
		"?":            {"?", 0},
	} {
		raw := []byte(in)
		s := Whole(raw)
		if string(s.Of(raw)) != want.text || KindOf(raw, s) != want.kind {
			t.Errorf("%q: %v %q", in, s, KindOf(raw, s))
		}
	}
	if KindOf(nil, Span{0, 1}) != 0 {
		t.Error("a span beyond the end has a kind")
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`""`: "", `"a"`: "a", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t",
		`"\u00e9\ud83d\ude00世"`: "é😀世", `"\u0000"`: "\x00",
	} {
		got, ok := Text([]byte(in), Whole([]byte(in)))
		if !ok || got != want {
			t.Errorf("%s: %q %v", in, got, ok)
		}
	}
	for _, in := range []string{"1", "null", "{}", "", `"`} {
		if got, ok := Text([]byte(in), Whole([]byte(in))); ok || got != "" {
			t.Errorf("%s: %q", in, got)
		}
	}
}

func TestInt(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-7": -7, "7.0": 7, "-7.000": -7,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		if got, ok := Int([]byte(in), Span{0, len(in)}); !ok || got != want {
			t.Errorf("%s: %d %v", in, got, ok)
		}
	}
	for _, in := range []string{
		"9223372036854775808", "-9223372036854775809", "99999999999999999999", "1.5", "1e2",
		"-", "", `"7"`, "null", "true", "{}", ".0", "-.0",
	} {
		if got, ok := Int([]byte(in), Span{0, len(in)}); ok {
			t.Errorf("%s: %d", in, got)
		}
	}
}

func TestAppendQuote(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a/é世😀\u2028": "\"a/é世😀\u2028\"", "\"\\": `"\"\\"`,
		"\n\r\t\x00\x1f\x7f": `"\n\r\t\u0000\u001f` + "\x7f\"", "a\xffb\xe4\xb8": `"a` + "\ufffdb\ufffd\ufffd" + `"`,
	} {
		if got := string(AppendQuote(nil, in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
		if err := Valid([]byte(want), Limits{}); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestAppendMessages(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{string(AppendRequest([]byte("x"), "1", "a/b", []byte(`{"c":1}`))), `x{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"c":1}}`},
		{string(AppendRequest(nil, `"i"`, "a\"", nil)), `{"jsonrpc":"2.0","id":"i","method":"a\""}`},
		{string(AppendNotification(nil, "n", nil)), `{"jsonrpc":"2.0","method":"n"}`},
		{string(AppendNotification(nil, "n", []byte(`{}`))), `{"jsonrpc":"2.0","method":"n","params":{}}`},
		{string(AppendResult(nil, IntID(-3), []byte(`{"a":1}`))), `{"jsonrpc":"2.0","id":-3,"result":{"a":1}}`},
		{string(AppendResult(nil, "3", nil)), `{"jsonrpc":"2.0","id":3,"result":{}}`},
		{string(AppendError(nil, "", &Error{Code: CodeParse, Message: "no\n"})), `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no\n"}}`},
		{string(AppendError(nil, "null", &Error{Code: 1, Message: "m", Data: []byte(`[1]`)})), `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m","data":[1]}}`},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
		if _, err := Scan([]byte(strings.TrimPrefix(c.got, "x")), Limits{}); err != nil {
			t.Errorf("%s: %v", c.got, err)
		}
	}
}

// TestFindAlignment checks spans with any amount of white space and any alignment to eight
// bytes.
func TestFindAlignment(t *testing.T) {
	for n := range 20 {
		pad := strings.Repeat(" ", n)
		for k := range 20 {
			text := strconv.Quote(strings.Repeat("y", k))
			raw := []byte(pad + `{` + pad + `"a"` + pad + `:` + text + `,"b"` + pad + `:[` + text + pad + `]` + pad + `}` + pad)
			if err := Valid(raw, Limits{}); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			whole := Whole(raw)
			if got := string(Find(raw, whole, "a").Of(raw)); got != text {
				t.Fatalf("%s: %s", raw, got)
			}
			if got := string(Find(raw, whole, "b").Of(raw)); got != "["+text+pad+"]" {
				t.Fatalf("%s: %s", raw, got)
			}
		}
	}
}
