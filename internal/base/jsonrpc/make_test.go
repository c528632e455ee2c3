package jsonrpc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzMake checks that each constructor returns the same Message as a scan of its bytes.
func FuzzMake(f *testing.F) {
	f.Add(int64(1), "tools/call", `{"name":"x"}`, "no such tool", int64(-32602))
	f.Add(int64(-7), "x\ny\"\\", `{}`, "\xff\u2028", int64(0))
	f.Add(int64(0), "a", `{"a":[1,{"b":null}]}`, "", int64(1))
	f.Fuzz(func(t *testing.T, id int64, method, object, text string, code int64) {
		if !oracle([]byte(object)) || KindOf([]byte(object), Whole([]byte(object))) != '{' {
			object = `{"a":1}`
		}
		part := []byte(object)
		part = Whole(part).Of(part)
		made := []*Message{
			NewResult(IntID(id), part), NewResult(`"a"`, nil),
			NewFailure(IntID(id), &Error{Code: code, Message: text, Data: part}),
			NewFailure("", &Error{Code: code, Message: text}), NewFailure("null", &Error{Code: code, Message: text}),
		}
		if method != "" && len(AppendQuote(nil, method)) <= MaxMethod {
			method = string([]rune(method)) // replaces invalid UTF-8, as the constructors do
			made = append(made, NewRequest(IntID(id), method, part), NewRequest(`"\u00e9"`, method, nil),
				NewNotification(method, part), NewNotification(method, nil))
		}
		for _, m := range made {
			want, err := Scan(m.Raw, roomy)
			if err != nil {
				t.Fatalf("%s: %v", m.Raw, err)
			}
			if diff := cmp.Diff(want, m); diff != "" {
				t.Fatalf("%s: (-scanned +made)\n%s", m.Raw, diff)
			}
		}
	})
}

func BenchmarkNewResult(b *testing.B) {
	list := denseOf(340 << 10)
	b.Run("made", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if NewResult("0", list).Kind != Result {
				b.Fatal()
			}
		}
	})
	b.Run("scanned", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Scan(AppendResult(nil, "0", list), Limits{Bytes: len(list) * 2}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
