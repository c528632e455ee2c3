package jsonrpc

import (
	"strings"
	"testing"
)

func TestScanKinds(t *testing.T) {
	for _, c := range []struct {
		in     string
		kind   Kind
		id     ID
		method string
		params string
		result string
		err    string
	}{
		{in: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`,
			kind: Request, id: "1", method: "tools/call", params: `{"name":"a"}`},
		{in: ` { "params" : { } , "method" : "x" , "id" : "a" , "jsonrpc" : "2.0" } `,
			kind: Request, id: `"a"`, method: "x", params: `{ }`},
		{in: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, kind: Request, id: "1", method: "ping"},
		{in: `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			kind: Notification, method: "notifications/initialized"},
		{in: `{"jsonrpc":"2.0","id":7,"result":{"a":[]}}`, kind: Result, id: "7", result: `{"a":[]}`},
		{in: `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}`,
			kind: Failure, id: "7", err: `{"code":-1,"message":"no"}`},
		{in: `{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}`,
			kind: Failure, err: `{"code":-1,"message":"no"}`},
		{in: `{"jsonrpc":"2.0","id":null,"error":{"message":"no","code":-1.0,"data":null}}`,
			kind: Failure, id: "null", err: `{"message":"no","code":-1.0,"data":null}`},
		{in: `{"jsonrpc":"2.0","id":7,"result":{},"params":[],"extra":1e400,"_meta":{}}`,
			kind: Result, id: "7", result: `{}`},
	} {
		m, err := Scan([]byte(c.in), Limits{})
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if m.Kind != c.kind || m.ID != c.id || m.Method != c.method || string(m.Raw) != c.in ||
			string(m.IDAt.Of(m.Raw)) != string(c.id) || string(m.Params.Of(m.Raw)) != c.params ||
			string(m.Result.Of(m.Raw)) != c.result || string(m.Error.Of(m.Raw)) != c.err {
			t.Errorf("%s: %+v", c.in, m)
		}
	}
}

func TestScanRefusesMixtures(t *testing.T) {
	for _, c := range []hostile{
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, CodeInvalidRequest, "1"},
		{"method and error", `{"jsonrpc":"2.0","id":1,"method":"x","error":{"code":1,"message":""}}`, CodeInvalidRequest, "1"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, CodeInvalidRequest, ""},
		{"neither", `{"jsonrpc":"2.0","id":1}`, CodeInvalidRequest, "1"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, CodeInvalidRequest, ""},
		{"error is a string", `{"jsonrpc":"2.0","id":1,"error":"no"}`, CodeInvalidRequest, ""},
		{"error is null", `{"jsonrpc":"2.0","id":1,"error":null}`, CodeInvalidRequest, ""},
		{"error code is null", `{"jsonrpc":"2.0","id":1,"error":{"code":null,"message":"x"}}`, CodeInvalidRequest, ""},
	} {
		for _, lim := range []Limits{{}, {Tolerant: true}} {
			m, err := Scan([]byte(c.in), lim)
			if err == nil {
				t.Errorf("%s: accepted as %+v", c.name, m)
			} else if e := err.(*Error); e.Code != c.code || e.ID != c.id {
				t.Errorf("%s: %v with id %q", c.name, e, e.ID)
			}
		}
	}
}

// TestNullParams checks params with the value null, which many peers write for an absent value.
// Scan accepts such a notification, because its sender would get no error, and such a request of a
// server. A client's request is refused: the client gets the error.
func TestNullParams(t *testing.T) {
	for _, lim := range []Limits{{}, {Tolerant: true}} {
		m, err := Scan([]byte(`{"jsonrpc":"2.0","method":"shutdown","params":null}`), lim)
		if err != nil || m.Kind != Notification || m.Method != "shutdown" || !m.Params.IsZero() {
			t.Errorf("%+v, %v", m, err)
		}
		if m, err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":null}`), lim); (err == nil) != lim.Tolerant {
			t.Errorf("a request with null params is %+v, %v", m, err)
		}
		if m, err := Scan([]byte(`{"jsonrpc":"2.0","method":"x","params":[]}`), lim); err == nil {
			t.Errorf("a notification with a list as params is accepted as %+v", m)
		}
	}
}

func TestTolerant(t *testing.T) {
	for _, c := range []struct {
		in   string
		kind Kind
		id   ID
	}{
		{`{"id":1,"result":{}}`, Result, "1"},
		{`{"id":1,"method":"x"}`, Request, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":7}`, Result, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":null}`, Result, "1"},
		{`{"jsonrpc":"2.0","id":null,"result":{}}`, Result, "null"},
		{`{"jsonrpc":"2.0","id":1.5,"result":{}}`, Result, "1.5"},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, Result, "1"},
		{`{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"x"}}`, Failure, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":"E_NO","message":"x"}}`, Failure, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}`, Failure, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, Failure, "1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, Failure, "1"},
		{`{"jsonrpc":"2.0","id":"init","method":"initialize","result":{}}`, Result, `"init"`},
		{`{"jsonrpc":"2.0","method":"initialize","result":{}}`, Result, ""},
	} {
		if m, err := Scan([]byte(c.in), Limits{}); err == nil {
			t.Errorf("%s: accepted as %+v without Tolerant", c.in, m)
		}
		m, err := Scan([]byte(c.in), Limits{Tolerant: true})
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if m.Kind != c.kind || m.ID != c.id {
			t.Errorf("%s: %+v", c.in, m)
		}
	}
	// Scan refuses all other mistakes, even with Tolerant.
	for _, in := range []string{
		`{"jsonrpc":"1.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"method":"x"}`,
		`{"jsonrpc":"2.0","id":true,"method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"METHOD":"x"}`,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,}}`,
	} {
		if m, err := Scan([]byte(in), Limits{Tolerant: true}); err == nil {
			t.Errorf("%s: accepted as %+v", in, m)
		}
	}
}

// odd is a message with many details that decoding and encoding would change.
var odd = `{"zeta":1e400,"jsonrpc":"2.0","extra":{"z":1,"a":2.50,"m":-0.0},` +
	`"id":1,"method":"x","params":{"big":` + strings.Repeat("1234567890", 40) +
	`,"small":1E-400,"text":"\u0041\/\t","name":"n",  "_meta":{"b":1,"a":2}},` + "\r\n\t" + `"alpha":[1.0,1.00]}`

func TestOddBytesSurviveSplice(t *testing.T) {
	m := accept(t, odd)
	var e Edits
	if got := string(Splice(nil, m.Raw, &e)); got != odd {
		t.Errorf("without edits:\n%s\nbecame\n%s", odd, got)
	}
	e.Replace(NoReason, m.IDAt, []byte(`"new"`))
	e.Replace(NoReason, m.Param("name"), []byte(`"other"`))
	e.Object(NoReason, m.Raw, m.Param("_meta"), func(key []byte) bool { return string(key) == "b" }, Field{"c", []byte("3")})
	want := strings.NewReplacer(`"id":1`, `"id":"new"`, `"name":"n"`, `"name":"other"`, `{"b":1,"a":2}`, `{"c":3,"a":2}`).Replace(odd)
	if got := string(Splice(nil, m.Raw, &e)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if string(m.Raw) != odd {
		t.Error("Raw was modified")
	}
}

func TestValid(t *testing.T) {
	for in, code := range map[string]int64{
		`1e400`: 0, ` [1,2,{"a":null}] `: 0, `"x"`: 0, `true`: 0, `{"METHOD":1}`: 0,
		``: CodeParse, `[1,]`: CodeParse, `1 2`: CodeParse, `tru`: CodeParse, `nul l`: CodeParse,
		`-`: CodeParse, `1e`: CodeParse, `{"a":1,"a":1}`: CodeInvalidRequest,
	} {
		err := Valid([]byte(in), Limits{})
		if code == 0 {
			if err != nil {
				t.Errorf("%q: %v", in, err)
			}
		} else if err == nil || err.(*Error).Code != code {
			t.Errorf("%q: %v, want %d", in, err, code)
		}
	}
}

func TestBatch(t *testing.T) {
	for in, want := range map[string]bool{"[": true, " \n[]": true, "": false, "{[": false, "  ": false} {
		if IsBatch([]byte(in)) != want {
			t.Errorf("IsBatch(%q) is %v", in, !want)
		}
	}
	in := ` [ ` + call("1") + ` , 7 , ` + call("null") + `,{"jsonrpc":"2.0","method":"n"},` +
		`{"jsonrpc":"2.0","id":3,"method":"x","method":"y"}] `
	whole := []byte(in)
	items, err := ScanBatch(whole, Limits{})
	if err != nil || len(items) != 5 {
		t.Fatal(items, err)
	}
	clear(whole) // the messages are copies
	if m := items[0].Message; m == nil || string(m.Raw) != call("1") || string(m.IDAt.Of(m.Raw)) != "1" {
		t.Errorf("%+v", items[0])
	}
	if m := items[3].Message; m == nil || m.Kind != Notification {
		t.Errorf("%+v", items[3])
	}
	for i, id := range map[int]ID{1: "", 2: "", 4: "3"} {
		e, ok := items[i].Err.(*Error)
		if !ok || e.Code != CodeInvalidRequest || e.ID != id || items[i].Message != nil {
			t.Errorf("%d: %+v", i, items[i])
		}
	}
	for in, code := range map[string]int64{
		`[]`: CodeInvalidRequest, `{}`: CodeInvalidRequest, `[`: CodeParse, ``: CodeParse,
		`[` + call("1") + `,]`:                         CodeParse,
		`[1` + strings.Repeat(",1", MaxBatch) + `]`:    CodeInvalidRequest,
		`[` + strings.Repeat("[", 100_000):             CodeInvalidRequest,
		`[` + call("1") + `] ` + `[` + call("1") + `]`: CodeParse,
	} {
		if items, err := ScanBatch([]byte(in), Limits{}); err == nil || err.(*Error).Code != code {
			t.Errorf("%.40q: %v %v, want %d", in, items, err, code)
		}
	}
	if items, err := ScanBatch([]byte(`[1`+strings.Repeat(",1", MaxBatch-1)+`]`), Limits{}); err != nil || len(items) != MaxBatch {
		t.Error(len(items), err)
	}
}
