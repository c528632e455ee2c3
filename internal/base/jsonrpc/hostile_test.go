package jsonrpc

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostile is an input that must be refused, and the expected error.
type hostile struct {
	name, in string
	code     int64
	id       ID
}

func refuse(t *testing.T, cases ...hostile) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, err := Scan([]byte(c.in), Limits{})
			if err == nil {
				t.Fatalf("accepted as %+v", m)
			}
			e := err.(*Error)
			if e.Code != c.code || e.ID != c.id {
				t.Errorf("got %v with id %q, want code %d with id %q", e, e.ID, c.code, c.id)
			}
			if len(e.Message) > 256 {
				t.Errorf("the message has %d bytes", len(e.Message))
			}
			if m != nil {
				t.Error("Scan returned both a message and an error")
			}
		})
	}
}

func call(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{}}`
}

func TestJ01_broken_json(t *testing.T) {
	refuse(t,
		hostile{"brace", `{`, CodeParse, ""},
		hostile{"half a message", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":`, CodeParse, "1"},
		hostile{"trailing comma", `{"jsonrpc":"2.0","id":1,"method":"x",}`, CodeParse, "1"},
		hostile{"comment", `{"jsonrpc":"2.0",/**/"id":1,"method":"x"}`, CodeParse, ""},
		hostile{"single quotes", `{'jsonrpc':'2.0'}`, CodeParse, ""},
		hostile{"wrong bracket", `{"a":[1}}`, CodeParse, ""},
		hostile{"wrong brace", `{"a":{"b":1]}`, CodeParse, ""},
		hostile{"raw newline in a string", "{\"a\":\"\n\"}", CodeParse, ""},
		hostile{"NaN", `{"a":NaN}`, CodeParse, ""},
		hostile{"leading zero", `{"a":01}`, CodeParse, ""},
		hostile{"bare fraction", `{"a":1.}`, CodeParse, ""},
		hostile{"plus", `{"a":+1}`, CodeParse, ""},
		hostile{"bad escape", `{"a":"\x"}`, CodeParse, ""},
		hostile{"half an escape", `{"a":"\ud80"}`, CodeParse, ""},
		hostile{"form feed as space", "{\f\"a\":1}", CodeParse, ""},
	)
}

func TestJ02_no_object(t *testing.T) {
	refuse(t,
		hostile{"empty", ``, CodeParse, ""},
		hostile{"spaces", " \t\r\n", CodeParse, ""},
		hostile{"null", `null`, CodeInvalidRequest, ""},
		hostile{"number", `42`, CodeInvalidRequest, ""},
		hostile{"string", `"x"`, CodeInvalidRequest, ""},
		hostile{"true", `true`, CodeInvalidRequest, ""},
		hostile{"empty object", `{}`, CodeInvalidRequest, ""},
		hostile{"batch", `[` + call("1") + `]`, CodeInvalidRequest, ""},
	)
}

func TestJ06_jsonrpc_member(t *testing.T) {
	refuse(t,
		hostile{"1.0", `{"jsonrpc":"1.0","id":1,"method":"x"}`, CodeInvalidRequest, "1"},
		hostile{"missing", `{"id":1,"method":"x"}`, CodeInvalidRequest, "1"},
		hostile{"number", `{"jsonrpc":2.0,"id":1,"method":"x"}`, CodeInvalidRequest, "1"},
		hostile{"null", `{"jsonrpc":null,"id":1,"method":"x"}`, CodeInvalidRequest, "1"},
		hostile{"array", `{"jsonrpc":["2.0"],"id":1,"method":"x"}`, CodeInvalidRequest, "1"},
	)
}

func TestJ07_null_id(t *testing.T) {
	refuse(t,
		hostile{"request", call("null"), CodeInvalidRequest, ""},
		hostile{"result", `{"jsonrpc":"2.0","id":null,"result":{}}`, CodeInvalidRequest, ""},
	)
}

func TestJ08_id_kinds(t *testing.T) {
	refuse(t,
		hostile{"fraction", call("1.5"), CodeInvalidRequest, ""},
		hostile{"exponent", call("1e2"), CodeInvalidRequest, ""},
		hostile{"true", call("true"), CodeInvalidRequest, ""},
		hostile{"false", call("false"), CodeInvalidRequest, ""},
		hostile{"object", call("{}"), CodeInvalidRequest, ""},
		hostile{"array", call("[]"), CodeInvalidRequest, ""},
	)
}

func TestJ09_ids_stay_exact(t *testing.T) {
	for _, id := range []string{
		"9007199254740993", "-1", "0", `""`, "1", `"1"`, "1.0", "-0", `"\u0041"`, `"A"`,
		"123456789012345678901234567890123456789012345678901234567890",
		`"` + strings.Repeat("x", MaxID-2) + `"`,
	} {
		m, err := Scan([]byte(call(id)), Limits{})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if string(m.ID) != id || string(m.IDAt.Of(m.Raw)) != id || m.Kind != Request {
			t.Errorf("the id %s became %s", id, m.ID)
		}
	}
}

func TestJ12_long_id(t *testing.T) {
	refuse(t,
		hostile{"64 KiB", call(`"` + strings.Repeat("x", 64<<10) + `"`), CodeInvalidRequest, ""},
		hostile{"one too many", call(`"` + strings.Repeat("x", MaxID-1) + `"`), CodeInvalidRequest, ""},
		hostile{"digits", call(strings.Repeat("1", MaxID+1)), CodeInvalidRequest, ""},
	)
}

func TestJ14_wrong_case(t *testing.T) {
	refuse(t,
		hostile{"METHOD", `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","params":{}}`, CodeInvalidRequest, "1"},
		hostile{"both", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, CodeInvalidRequest, "1"},
		hostile{"Id", `{"jsonrpc":"2.0","Id":1,"method":"ping"}`, CodeInvalidRequest, ""},
		hostile{"Params", `{"jsonrpc":"2.0","id":1,"method":"ping","Params":{}}`, CodeInvalidRequest, "1"},
		hostile{"JsonRpc", `{"JsonRpc":"2.0","id":1,"method":"ping"}`, CodeInvalidRequest, "1"},
		hostile{"Error", `{"jsonrpc":"2.0","id":1,"result":{},"Error":{}}`, CodeInvalidRequest, ""},
		// encoding/json also accepts ſ as an s.
		hostile{"long s", `{"jsonrpc":"2.0","id":1,"method":"ping","paramſ":{}}`, CodeInvalidRequest, "1"},
		hostile{"escaped", `{"jsonrpc":"2.0","id":1,"method":"ping","\u0050arams":{}}`, CodeInvalidRequest, "1"},
	)
	// Within params any spelling is allowed.
	accept(t, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"METHOD":1,"method":2,"ID":3}}`)
	// An escape changes the bytes of a name, but not the name.
	if m := accept(t, `{"jsonrpc":"2.0","id":1,"\u006dethod":"x"}`); m.Method != "x" {
		t.Errorf("method is %q", m.Method)
	}
}

func accept(t *testing.T, in string) *Message {
	t.Helper()
	m, err := Scan([]byte(in), Limits{})
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	return m
}

func TestJ16_duplicates(t *testing.T) {
	wide := func(last string) string {
		var b strings.Builder
		for i := range 5000 {
			b.WriteString(`"k` + strings.Repeat("x", i%20) + string(rune('a'+i%26)) + string(rune('一'+i)) + `":0,`)
		}
		return `{"jsonrpc":"2.0","id":1,"method":"x","params":{` + b.String() + `"last":1,` + last + `:2}}`
	}
	refuse(t,
		hostile{"method", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, CodeInvalidRequest, "1"},
		hostile{"id", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, CodeInvalidRequest, ""},
		hostile{"same id", `{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}`, CodeInvalidRequest, ""},
		hostile{"escaped", `{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call"}`, CodeInvalidRequest, "1"},
		hostile{"unknown member", `{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":1}`, CodeInvalidRequest, "1"},
		hostile{"in params", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","name":"b"}}`, CodeInvalidRequest, "1"},
		hostile{"deep", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[{"b":{"c":1,"":2,"c":3}}]}}`, CodeInvalidRequest, "1"},
		hostile{"empty name", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"":1,"":2}}`, CodeInvalidRequest, "1"},
		hostile{"long names", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"descriptionA":1,"descriptionB":2,"descriptionA":3}}`, CodeInvalidRequest, "1"},
		hostile{"among many", wide(`"last"`), CodeInvalidRequest, "1"},
		hostile{"among many, escaped", wide(`"l\u0061st"`), CodeInvalidRequest, "1"},
		hostile{"before the id", `{"x":{"a":1,"a":2},"jsonrpc":"2.0","method":"x","id":"late"}`, CodeInvalidRequest, `"late"`},
	)
	accept(t, wide(`"most"`))
	accept(t, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}}`)
	accept(t, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"descriptionA":1,"descriptionB":2,"description":3}}`)
	// Names that differ only by a NUL are different.
	accept(t, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a\u0000":2}}`)
}

func TestJ18_utf8(t *testing.T) {
	in := func(s string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"` + s + `"}}`
	}
	refuse(t,
		hostile{"FF FE", in("\xff\xfe"), CodeParse, "1"},
		hostile{"overlong", in("\xc0\xaf"), CodeParse, "1"},
		hostile{"overlong of three", in("\xe0\x80\xaf"), CodeParse, "1"},
		hostile{"surrogate", in("\xed\xa0\x80"), CodeParse, "1"},
		hostile{"beyond U+10FFFF", in("\xf4\x90\x80\x80"), CodeParse, "1"},
		hostile{"cut off", in("\xe4\xb8"), CodeParse, "1"},
		hostile{"in a name", "{\"\xff\":1}", CodeParse, ""},
		hostile{"last byte", "{\"\xe4", CodeParse, ""},
	)
	accept(t, in("世界 \U0001F600 é ퟿ \U0010FFFF \ufffd"))
	accept(t, in(`\ud83d\ude00`))
}

func TestJ20_nesting(t *testing.T) {
	nest := func(n int, open, in, end string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":` +
			strings.Repeat(open, n) + in + strings.Repeat(end, n) + `}}`
	}
	refuse(t,
		hostile{"10001 arrays", nest(10_001, "[", "", "]"), CodeInvalidRequest, "1"},
		hostile{"100000 arrays", nest(100_000, "[", "", "]"), CodeInvalidRequest, "1"},
		hostile{"100000 objects", nest(100_000, `{"a":`, "1", "}"), CodeInvalidRequest, "1"},
		hostile{"never closed", strings.Repeat("[", 100_000), CodeInvalidRequest, ""},
		hostile{"one too deep", nest(127, "[", "", "]"), CodeInvalidRequest, "1"},
	)
	accept(t, nest(126, "[", "", "]"))

	// The refusal must take little time, because the scan ends at level 129.
	deep := []byte(nest(100_000, "[", "", "]"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range 100 {
		if _, err := Scan(deep, Limits{}); err == nil {
			t.Fatal("accepted")
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if took > 5*time.Second { // a refusal takes some microseconds; the test allows 50 ms
		t.Errorf("100 refusals took %v", took)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("100 refusals allocated %d bytes", grown)
	}
}

func TestJ23_more_than_one_value(t *testing.T) {
	refuse(t,
		hostile{"two objects", call("1") + call("2"), CodeParse, "1"},
		hostile{"two lines", call("1") + "\n" + call("2"), CodeParse, "1"},
		hostile{"junk", call("1") + "x", CodeParse, "1"},
		hostile{"NUL", call("1") + "\x00", CodeParse, "1"},
		hostile{"byte order mark", "\ufeff" + call("1"), CodeParse, ""},
		hostile{"after null", "null null", CodeParse, ""},
	)
	accept(t, " \r\n\t"+call("1")+" \r\n\t")
}

func TestJ24_method(t *testing.T) {
	in := func(method string) string { return `{"jsonrpc":"2.0","id":1,"method":` + method + `}` }
	refuse(t,
		hostile{"empty", in(`""`), CodeInvalidRequest, "1"},
		hostile{"number", in(`7`), CodeInvalidRequest, "1"},
		hostile{"null", in(`null`), CodeInvalidRequest, "1"},
		hostile{"1 MiB", in(`"` + strings.Repeat("x", 1<<20) + `"`), CodeInvalidRequest, "1"},
		hostile{"one too many", in(`"` + strings.Repeat("x", MaxMethod-1) + `"`), CodeInvalidRequest, "1"},
	)
	if m := accept(t, in(`"a\u0062\n"`)); m.Method != "ab\n" {
		t.Errorf("method is %q", m.Method)
	}
}

func TestJ25_params(t *testing.T) {
	in := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"x","params":` + params + `}`
	}
	refuse(t,
		hostile{"array", in(`[1,2]`), CodeInvalidParams, "1"},
		hostile{"null", in(`null`), CodeInvalidParams, "1"},
		hostile{"string", in(`"x"`), CodeInvalidParams, "1"},
		hostile{"notification", `{"jsonrpc":"2.0","method":"x","params":7}`, CodeInvalidParams, ""},
		hostile{"an invalid message is reported before its params", `{"id":1,"method":"x","params":7}`, CodeInvalidRequest, "1"},
	)
}

func TestLimits(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[1,2,3]}}`)
	// The tokens are the object, 4 names and 4 values. Within params they are a name, the array
	// and 3 elements.
	const tokens = 14
	for _, c := range []struct {
		name string
		lim  Limits
		ok   bool
	}{
		{"bytes", Limits{Bytes: len(raw)}, true},
		{"bytes", Limits{Bytes: len(raw) - 1}, false},
		{"depth", Limits{Depth: 3}, true},
		{"depth", Limits{Depth: 2}, false},
		{"tokens", Limits{Tokens: tokens}, true},
		{"tokens", Limits{Tokens: tokens - 1}, false},
	} {
		_, err := Scan(raw, c.lim)
		if (err == nil) != c.ok {
			t.Errorf("%s %+v: %v", c.name, c.lim, err)
		}
		// The JSON is valid, but exceeds a limit (JSON-RPC 2.0 §5.1).
		if err != nil && (err.(*Error).Code != CodeInvalidRequest || !strings.HasPrefix(err.Error(), "message exceeds a limit: ")) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := Valid(raw, c.lim); (err == nil) != c.ok {
			t.Errorf("Valid: %s %+v: %v", c.name, c.lim, err)
		}
	}
}

// TestLongEscapedNames checks that Scan compares long escaped names in linear time, even if the
// names differ only at the end.
func TestLongEscapedNames(t *testing.T) {
	long := `"\u0061` + strings.Repeat("a", 1<<16)
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"z":{`)
	for i := range few - 2 {
		b.WriteString(long + string(rune('a'+i)) + `":0,`)
	}
	start := time.Now()
	accept(t, b.String()+long+`A":0}}}`)
	refuse(t,
		hostile{"inner", b.String() + long + `a":0}}}`, CodeInvalidRequest, "1"},
		hostile{"outer", b.String() + long + `A":0},"y":1,"y":2}}`, CodeInvalidRequest, "1"},
		hostile{"after", b.String() + long + `A":0},"y":{"a":1,"a":2}}}`, CodeInvalidRequest, "1"},
		hostile{"once plain", b.String() + `"aa` + long[len(`"\u0061a`):] + `a":0}}}`, CodeInvalidRequest, "1"},
	)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the scan took %v", took)
	}
}

// TestManyNames checks that a message with many different names needs linear time and memory.
func TestManyNames(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"":0`)
	n := 0
	for ; b.Len() < 3<<20; n++ {
		b.WriteString(`,"prefix__`)
		for v := n; v > 0; v /= 26 {
			b.WriteByte('a' + byte(v%26))
		}
		b.WriteString(`":0`)
	}
	b.WriteString(`}}`)
	raw := []byte(b.String())
	start := time.Now()
	if _, err := Scan(raw, Limits{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("%d names took %v", n, took)
	}
}
