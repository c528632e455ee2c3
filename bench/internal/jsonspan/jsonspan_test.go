package jsonspan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestMembers(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{}`, ""},
		{` { "a" : 1 , "b":"x\"}" , "c":{"d":[1,{"e":"]"}]},"f":null } `, `a=1;b="x\"}";c={"d":[1,{"e":"]"}]};f=null;`},
		{`{"a":"\\"}`, `a="\\";`},
		{`{"a":"\\\""}`, `a="\\\"";`},
		{`{"":""}`, `="";`},
		{`{"a":[]}`, `a=[];`},
	} {
		var got strings.Builder
		if err := Members([]byte(c.in), func(k, v []byte) { fmt.Fprintf(&got, "%s=%s;", k, v) }); err != nil {
			t.Errorf("%s: %v", c.in, err)
		}
		if got.String() != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got.String(), c.want)
		}
	}
}

func TestMembersRefuses(t *testing.T) {
	for _, in := range []string{
		``, `[]`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":1}x`, `{"a":"\"}`, `{"a":[1}`, `{"a":[1,]}`, `{a:1}`,
		`{"a":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
	} {
		if err := Members([]byte(in), func(k, v []byte) {}); err == nil {
			t.Errorf("%.40s: accepted", in)
		}
	}
}

func TestFirst(t *testing.T) {
	for in, want := range map[string]string{`[]`: "", `[ ]`: "", `[1,2]`: "1", ` [ {"a":"]"} ]`: `{"a":"]"}`} {
		got, err := First([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", in, got, err)
		}
	}
	if _, err := First([]byte(`{}`)); err == nil {
		t.Error("an object was accepted as an array")
	}
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":{"b":"\\\""},"c":[1,2]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Members(b, func(k, v []byte) {})
		// Members must accept every object that the standard library accepts.
		if json.Valid(b) && len(b) > 0 && strings.HasPrefix(strings.TrimLeft(string(b), " \t\r\n"), "{") && err != nil && err != errDepth {
			t.Fatalf("%q: %v", b, err)
		}
	})
}
