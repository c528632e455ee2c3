package jsonrpc

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func dropping(keys ...string) func([]byte) bool {
	return func(key []byte) bool { return slices.Contains(keys, string(key)) }
}

func TestObject(t *testing.T) {
	x, y := Field{"x", []byte("8")}, Field{"y", []byte("9")}
	for _, c := range []struct {
		in   string
		drop []string
		set  []Field
		want string
	}{
		{in: `{}`, want: `{}`},
		{in: `{ }`, set: []Field{x}, want: `{"x":8 }`},
		{in: `{}`, set: []Field{x, y}, want: `{"x":8,"y":9}`},
		{in: `{"a":1}`, set: []Field{x}, want: `{"x":8,"a":1}`},
		{in: `{ "a":1}`, set: []Field{x, y}, want: `{"x":8,"y":9, "a":1}`},
		{in: `{"x":1}`, set: []Field{x}, want: `{"x":8}`},
		{in: `{"x":1}`, set: []Field{x, y}, want: `{"y":9,"x":8}`},
		{in: `{"a":1,"x":{"q":[]},"b":2}`, set: []Field{x}, want: `{"a":1,"x":8,"b":2}`},
		{in: `{"a":1}`, drop: []string{"a"}, want: `{}`},
		{in: `{"a":1,"b":2,"c":3}`, drop: []string{"a"}, want: `{"b":2,"c":3}`},
		{in: `{"a":1,"b":2,"c":3}`, drop: []string{"b"}, want: `{"a":1,"c":3}`},
		{in: `{"a":1,"b":2,"c":3}`, drop: []string{"c"}, want: `{"a":1,"b":2}`},
		{in: `{"a":1,"b":2,"c":3}`, drop: []string{"a", "b"}, want: `{"c":3}`},
		{in: `{"a":1,"b":2,"c":3}`, drop: []string{"b", "c"}, want: `{"a":1}`},
		{in: `{"a":1,"b":2,"c":3}`, drop: []string{"a", "c"}, want: `{"b":2}`},
		{in: `{"a":1,"b":2,"c":3}`, drop: []string{"a", "b", "c"}, want: `{}`},
		{in: `{"a":1,"b":2}`, drop: []string{"a", "b"}, set: []Field{x}, want: `{"x":8}`},
		{in: `{"a":1,"x":2}`, drop: []string{"a"}, set: []Field{x}, want: `{"x":8}`},
		{in: `{"x":2,"a":1}`, drop: []string{"a"}, set: []Field{x, y}, want: `{"y":9,"x":8}`},
		{in: "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", drop: []string{"b"}, want: "{\n  \"a\": 1,\n  \"c\": 3\n}"},
		{in: "{\n  \"a\": 1,\n  \"b\": 2\n}", drop: []string{"b"}, want: "{\n  \"a\": 1\n}"},
		{in: "{\n  \"a\": 1,\n  \"b\": 2\n}", drop: []string{"a"}, want: "{\n  \"b\": 2\n}"},
		{in: `{ "a" : 1 , "b" : 2 }`, drop: []string{"a", "b"}, set: []Field{x}, want: `{"x":8  }`},
		// Names match in their unescaped form, and set takes precedence over drop.
		{in: `{"\u0061":1,"b":2}`, drop: []string{"a"}, want: `{"b":2}`},
		{in: `{"\u0078":1}`, set: []Field{x}, want: `{"\u0078":8}`},
		{in: `{"x":1,"a":2}`, drop: []string{"x"}, set: []Field{x}, want: `{"x":8,"a":2}`},
		// If two fields have the same name, the last one is used. Names are quoted.
		{in: `{}`, set: []Field{{"x", []byte("1")}, y, x}, want: `{"y":9,"x":8}`},
		{in: `{}`, set: []Field{x, x}, want: `{"x":8}`},
		{in: `{"x":1}`, set: []Field{{"x", []byte("1")}, x}, want: `{"x":8}`},
		{in: `{}`, set: []Field{{"\"\n", nil}}, want: `{"\"\n":null}`},
		// If the value is not an object, nothing happens.
		{in: `[1]`, set: []Field{x}, want: `[1]`},
		{in: `"x"`, drop: []string{"x"}, want: `"x"`},
	} {
		raw := []byte(c.in)
		var e Edits
		e.Object(NoReason, raw, Whole(raw), dropping(c.drop...), c.set...)
		got := string(Splice([]byte("<"), raw, &e))
		if got != "<"+c.want {
			t.Errorf("%s, drop %q, set %d: got %s, want %s", c.in, c.drop, len(c.set), got, c.want)
		}
		if err := Valid([]byte(got[1:]), Limits{}); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	var e Edits
	e.Object(NoReason, nil, Span{}, nil, x)
	e.Replace(NoReason, Span{}, []byte("1"))
	if e.Len() != 0 {
		t.Error("an absent object was changed")
	}
}

// TestObjectCombinations tries every subset of members to drop, to replace and to insert.
func TestObjectCombinations(t *testing.T) {
	keys := []string{"a", "b", "c", "d"}
	raw := []byte(`{"a" :1 , "b": 2,"c":3,  "d":4 }`)
	for drop := range 16 {
		for set := range 64 {
			var dropped []string
			var fields []Field
			want := map[string]string{}
			for i, key := range keys {
				want[key] = fmt.Sprint(i + 1)
				if drop>>i&1 != 0 {
					dropped = append(dropped, key)
					delete(want, key)
				}
			}
			for i, key := range append(keys, "x", "y") {
				if set>>i&1 != 0 {
					fields = append(fields, Field{key, []byte("7")})
					want[key] = "7"
				}
			}
			var e Edits
			e.Object(NoReason, raw, Whole(raw), dropping(dropped...), fields...)
			out := Splice(nil, raw, &e)
			if err := Valid(out, Limits{}); err != nil {
				t.Fatalf("drop %q set %v: %s: %v", dropped, fields, out, err)
			}
			n := 0
			for m := range Members(out, Whole(out)) {
				key, _ := Text(out, m.Key)
				if want[key] != string(m.Value.Of(out)) {
					t.Fatalf("drop %q set %v: %s", dropped, fields, out)
				}
				n++
			}
			if n != len(want) {
				t.Fatalf("drop %q set %v: %s", dropped, fields, out)
			}
		}
	}
}

func TestNestedEdits(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"p":1,"q":{"r":2}},"name":"n","cursor":"c"}}`)
	m, err := Scan(raw, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	meta := m.Param("_meta")
	q := Find(raw, meta, "q")
	steps := []func(e *Edits){
		func(e *Edits) { e.Object(NoReason, raw, m.Params, dropping("cursor"), Field{"new", []byte("0")}) },
		func(e *Edits) { e.Object(NoReason, raw, meta, dropping("p"), Field{"token", []byte(`"t"`)}) },
		func(e *Edits) { e.Object(NoReason, raw, q, dropping("r"), Field{"s", []byte("3")}) },
		func(e *Edits) { e.Replace(NoReason, m.IDAt, []byte("99")) },
		func(e *Edits) { e.Insert(NoReason, len(raw), []byte("\n")) },
	}
	const want = `{"jsonrpc":"2.0","id":99,"method":"m","params":{"new":0,"_meta":{"token":"t","q":{"s":3}},"name":"n"}}` + "\n"
	// The result does not depend on the order in which the edits are added.
	for first := range steps {
		var e Edits
		for i := range steps {
			steps[(first+i)%len(steps)](&e)
		}
		if got := string(Splice(nil, raw, &e)); got != want {
			t.Errorf("starting with edit %d: got %s, want %s", first, got, want)
		}
		e.Reset()
		if e.Len() != 0 || string(Splice(nil, raw, &e)) != string(raw) {
			t.Error("Reset has not removed all edits")
		}
		for i := len(steps) - 1; i >= 0; i-- {
			steps[i](&e)
		}
		if got := string(Splice(nil, raw, &e)); got != want {
			t.Errorf("in reverse order: got %s, want %s", got, want)
		}
	}
	// If a member is dropped, the edits within it are also dropped.
	var e Edits
	e.Object(NoReason, raw, meta, dropping("p"), Field{"token", []byte(`"t"`)})
	e.Object(NoReason, raw, m.Params, dropping("_meta", "cursor"))
	if got := string(Splice(nil, raw, &e)); got != `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"n"}}` {
		t.Error(got)
	}
}

func TestSpliceOrder(t *testing.T) {
	raw := []byte("0123456789")
	var e Edits
	e.Replace(NoReason, Span{5, 6}, []byte("F"))
	e.Insert(NoReason, 5, []byte("a"))
	e.Insert(NoReason, 0, []byte("<"))
	e.Insert(NoReason, 5, []byte("b"))
	e.Replace(NoReason, Span{7, 9}, nil)
	e.Insert(NoReason, 10, []byte(">"))
	e.Insert(NoReason, 8, []byte("void"))
	if got := string(Splice([]byte("="), raw, &e)); got != "=<01234abF69>" {
		t.Error(got)
	}
	// Of two edits with the same start, the longer one takes precedence. If the start of an edit
	// lies within the previous edit, the later edit loses the overlapping part.
	e.Reset()
	e.Replace(NoReason, Span{2, 3}, []byte("void"))
	e.Replace(NoReason, Span{2, 5}, []byte("x"))
	e.Replace(NoReason, Span{4, 7}, []byte("y"))
	e.Replace(NoReason, Span{8, 99}, []byte("z"))
	if got := string(Splice(nil, raw, &e)); got != "01xy7z" {
		t.Error(got)
	}
}

func TestManyEdits(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`[{"n":0}`)
	for i := 1; i < 1000; i++ {
		fmt.Fprintf(&b, `,{"n":%d}`, i)
	}
	b.WriteByte(']')
	raw := b.Bytes()
	var objects []Span
	for s := range Elements(raw, Whole(raw)) {
		objects = append(objects, s)
	}
	want := strings.ReplaceAll(string(raw), `{`, `{"x":1,`)
	var e Edits
	for range 2 {
		for _, s := range objects {
			e.Object(NoReason, raw, s, nil, Field{"x", []byte("1")})
		}
		if got := string(Splice(nil, raw, &e)); got != want || e.Len() != len(objects) {
			t.Errorf("%d edits: %.80s", e.Len(), got)
		}
		e.Reset()
		slices.Reverse(objects)
	}
}

func TestReasonOfEveryEdit(t *testing.T) {
	raw := []byte(`{"a":1,"b":2,"c":3,"d":4}`)
	var e Edits
	e.Object(7, raw, Whole(raw), dropping("a", "d"), Field{"b", []byte("0")}, Field{"x", nil}, Field{"y", nil})
	e.Replace(8, Span{5, 6}, []byte("F"))
	e.Insert(9, len(raw), []byte("\n"))
	got := make(map[Reason]int)
	for _, x := range e.all() {
		got[x.why]++
	}
	if len(got) != 3 || got[7] != 5 || got[8] != 1 || got[9] != 1 {
		t.Errorf("the edits by reason are %v", got)
	}
}

func TestReasonCostsNoRoom(t *testing.T) {
	type without struct { // these fields are at, with, name, member and comma
		_    Span
		_    []byte
		_    string
		_, _ bool
	}
	if got, want := reflect.TypeFor[edit]().Size(), reflect.TypeFor[without]().Size(); got != want {
		t.Errorf("an edit needs %d bytes, and %d without its reason", got, want)
	}
}
