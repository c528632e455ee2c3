package jsonrpc

import (
	"slices"
	"testing"
)

func TestValue(t *testing.T) {
	v := ValueOf([]byte(sample))
	for _, c := range []struct {
		path []string
		want string
	}{
		{nil, sample[1 : len(sample)-1]}, {[]string{"a"}, "1"}, {[]string{"o", "a", "a"}, "2"}, {[]string{"bc"}, `"x\"]}"`},
		{[]string{"absent"}, ""}, {[]string{"a", "a"}, ""}, {[]string{"list", "k"}, ""}, {[]string{"absent", "a", "a"}, ""},
	} {
		got := v.Get(c.path...)
		if string(got.Raw()) != c.want || got.Absent() != (c.want == "") {
			t.Errorf("%q: %s, want %s", c.path, got.Raw(), c.want)
		}
	}
	if s, ok := v.Get("bc").Text(); !ok || s != `x"]}` || !v.Get("bc").Is(`x"]}`) || v.Get("a").Is("1") {
		t.Errorf("%q, %v", s, ok)
	}
	if n, ok := v.Get("a").Int(); !ok || n != 1 {
		t.Error(n, ok)
	}
	var elements []string
	for e := range v.Get("list").Elements() {
		elements = append(elements, string(e.Raw()))
	}
	if want := []string{"1", `[2,"]"]`, `{"k":"}"}`, `"s"`, "true"}; !slices.Equal(elements, want) {
		t.Error(elements)
	}
	for e := range v.Get("list").Elements() {
		if b, ok := e.Bool(); ok != (string(e.Raw()) == "true") || b != ok {
			t.Error(string(e.Raw()), b, ok)
		}
	}
	var names []string
	for name, value := range v.Members() {
		text, ok := name.Text()
		if !ok || string(v.Get(text).Raw()) != string(value.Raw()) {
			t.Errorf("%s: %s", name.Raw(), value.Raw())
		}
		names = append(names, text)
	}
	if want := []string{"a", "bc", "", "list", "o", "n"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	for range v.Members() {
		break // the loop may end early
	}
	for range v.Get("list").Elements() {
		break
	}
}

// TestAbsentValue checks every method of an absent Value.
func TestAbsentValue(t *testing.T) {
	for _, v := range []Value{{}, ValueOf(nil), ValueOf([]byte(" ")), {[]byte("1"), Span{0, 2}}} {
		_, text := v.Text()
		_, number := v.Int()
		_, boolean := v.Bool()
		if !v.Absent() || v.Kind() != 0 || v.Raw() != nil || text || number || boolean || v.Is("") || !v.Get("a", "b").Absent() {
			t.Errorf("%+v", v)
		}
		for range v.Members() {
			t.Error("an absent value has a member")
		}
		for range v.Elements() {
			t.Error("an absent value has an element")
		}
	}
}

func TestMessageAt(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":{"b":"c"}}}`)
	m, err := Scan(raw, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !m.At(m.Params).Get("a", "b").Is("c") || m.At(m.Params).Span() != m.Params || !m.At(m.Result).Absent() {
		t.Error("Get does not find params")
	}
}

func BenchmarkValue(b *testing.B) {
	raw := []byte(`{"name":"x","description":"some words about what the tool does","execution":{"kind":"y","taskSupport":"optional"},"z":1}`)
	b.Run("Get", func(b *testing.B) {
		for b.Loop() {
			if !ValueOf(raw).Get("execution", "taskSupport").Is("optional") {
				b.Fatal()
			}
		}
	})
	b.Run("Find", func(b *testing.B) {
		for b.Loop() {
			at := Find(raw, Find(raw, Whole(raw), "execution"), "taskSupport")
			if !textIs(raw, at, "optional") {
				b.Fatal()
			}
		}
	})
}
