package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// These tests compare this package with jsontext, a slower but independent implementation. The
// tests call jsontext the oracle.

// roomy contains limits so high that they do not affect the comparison. jsontext has its own
// limit, a depth of 10,000.
var roomy = Limits{Bytes: 1 << 30, Depth: 9_999, Tokens: 1 << 30}

// oracle reports whether jsontext accepts b as one JSON value.
func oracle(b []byte, options ...jsontext.Options) bool {
	d := jsontext.NewDecoder(bytes.NewReader(b), options...)
	if err := d.SkipValue(); err != nil {
		return false
	}
	_, err := d.ReadToken()
	return errors.Is(err, io.EOF)
}

// member is one member as jsontext reads it.
type member struct{ name, value string }

// oracleMembers reads the members of the object b with jsontext. It returns nil if b is not an
// object.
func oracleMembers(t *testing.T, b []byte) (members []member, spans []Span) {
	t.Helper()
	d := jsontext.NewDecoder(bytes.NewReader(b))
	token, err := d.ReadToken()
	if err != nil || token.Kind() != '{' {
		return nil, nil
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		text := name.String()
		value, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		end := int(d.InputOffset())
		members = append(members, member{text, string(value)})
		spans = append(spans, Span{end - len(value), end})
	}
	return members, spans
}

// withoutHalves replaces each escaped half of a surrogate pair in b by the escape of another
// character, a different one for each half. jsontext refuses halves, although RFC 8259 allows
// them. ok is false if b may contain such a character already.
func withoutHalves(b []byte) (plain []byte, ok bool) {
	out := bytes.Clone(b)
	n := 0
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		unit := unitAt(b[i:])
		switch {
		case unit>>10 == 0xD800>>10 && unitAt(b[min(i+6, len(b)):])>>10 == 0xDC00>>10:
			i += 11
		case unit>>11 == 0xD800>>11:
			out[i+2] = 'f'
			n++
			i += 5
		default:
			i++
		}
	}
	return out, n == 0 || !bytes.Contains(bytes.ToLower(b), []byte(`\uf`)) && bytes.IndexByte(b, 0xEF) < 0
}

// unitAt returns the UTF-16 code unit of the escape at the start of b, or 0 if there is no
// escape.
func unitAt(b []byte) int64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return int64(n)
}

func addSeeds(f *testing.F) {
	for _, s := range []string{
		odd, sample, call("1"), call(`"\u00e9"`), ``, `{`, `[]`, `{}`, ` null `, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx\ude00"`, `{"\ud83d":1,"\uD83D":1}`, `{"\ud83d":1,"\ud83e":"\udfff"}`,
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[1,-0,1.5e+7,1E400,0.0]`, `[01]`, `[-]`, `[1.]`, `[1e]`, `[.5]`, `[true,false,nul]`,
		"\"\xff\"", "\"\xed\xa0\x80\"", "\"\xe4\xb8\x96\xe7\x95\x8c\"", "\"\xf0\x9f\x98\x80\"", "\"\xf5\"", "\"\x1f\"", "\"\x7f\"", "\ufeff{}",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":"a","result":{"b":[{}]}}`,
		`{"jsonrpc":"2.0","method":"x","METHOD":1}`, `{"a":{"b":{"c":[[[[]]]]}}}`, `[1,2`, `[1}`, `{"a":1]`, `{"a" 1}`, `{"a":}`, `{,}`, `[,]`,
	} {
		f.Add([]byte(s))
	}
	f.Add(denseOf(1 << 10))
	f.Add(callOf(1 << 10))
	var many strings.Builder
	many.WriteString(`{"0":0`)
	for i := range 60 {
		many.WriteString(`,"` + strings.Repeat("k", i+1) + `":{"x":` + strings.Repeat("1", i+1) + `}`)
	}
	f.Add([]byte(many.String() + `}`))
	f.Add([]byte(many.String() + `,"kkk":1}`))
}

func FuzzScan(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		plain, ok := withoutHalves(b)
		if !ok {
			t.Skip("b contains halves of surrogate pairs and the characters that would replace them")
		}
		json := oracle(plain, jsontext.AllowDuplicateNames(true))
		unique := oracle(plain)

		err := Valid(b, roomy)
		if (err == nil) != unique {
			t.Fatalf("%q: Valid returns %v, the oracle %v", b, err, unique)
		}
		if e, ok := err.(*Error); ok && (e.Code == CodeParse) != !json {
			t.Fatalf("%q: Valid returns %v, the oracle %v", b, err, json)
		}
		for _, tolerant := range []bool{false, true} {
			lim := roomy
			lim.Tolerant = tolerant
			m, err := Scan(b, lim)
			if e, ok := err.(*Error); ok {
				if (e.Code == CodeParse) != !json {
					t.Fatalf("%q: Scan returns %v, the oracle %v", b, err, json)
				}
				if len(e.ID) > MaxID || e.ID != "" && !oracle([]byte(e.ID)) {
					t.Fatalf("%q: the error has id %q", b, e.ID)
				}
				if !oracle(AppendError(nil, e.ID, e)) {
					t.Fatalf("%q: the error cannot be written: %v", b, e)
				}
				continue
			}
			if err != nil || !unique {
				t.Fatalf("%q: Scan returns %v, the oracle %v", b, err, unique)
			}
			checkMessage(t, plain, m)
		}
		if !bytes.Equal(b, before) {
			t.Fatal("Scan modified its input")
		}
		if items, err := ScanBatch(b, roomy); err == nil && (!json || len(items) == 0 || !IsBatch(b)) {
			t.Fatalf("%q: a batch of %d", b, len(items))
		}
	})
}

// checkMessage compares a scanned message with the members that jsontext reads.
func checkMessage(t *testing.T, b []byte, m *Message) {
	t.Helper()
	members, spans := oracleMembers(t, b)
	var want Message
	var version, method string
	for i, member := range members {
		switch member.name {
		case "jsonrpc":
			version = member.value
		case "id":
			want.IDAt = spans[i]
		case "method":
			method = member.value
		case "params":
			want.Params = spans[i]
		case "result":
			want.Result = spans[i]
		case "error":
			want.Error = spans[i]
		}
	}
	if m.IDAt != want.IDAt || string(m.ID) != string(want.IDAt.Of(b)) {
		t.Fatalf("%q: id %q at %v, want %v", b, m.ID, m.IDAt, want.IDAt)
	}
	if version != "" {
		if text, err := jsontext.AppendUnquote(nil, version); err != nil || string(text) != "2.0" {
			t.Fatalf("%q: version %s", b, version)
		}
	}
	switch m.Kind {
	case Request, Notification:
		text, err := jsontext.AppendUnquote(nil, method)
		if err != nil || string(text) != m.Method || m.Method == "" || m.Params != want.Params {
			t.Fatalf("%q: %+v, want method %s and %+v", b, m, method, want)
		}
		if (m.Kind == Request) != (m.ID != "") || m.ID == "null" {
			t.Fatalf("%q: %+v", b, m)
		}
	case Result:
		if m.Result != want.Result || method != "" || m.ID == "" {
			t.Fatalf("%q: %+v, want %+v", b, m, want)
		}
	case Failure:
		if m.Error != want.Error || method != "" || KindOf(b, m.Error) != '{' {
			t.Fatalf("%q: %+v, want %+v", b, m, want)
		}
	default:
		t.Fatalf("%q: kind %d", b, m.Kind)
	}
}

func FuzzFind(f *testing.F) {
	for i, s := range []string{odd, sample, `{"a":1`, `[[[`, `{"a":"`, `{"a":"\`, `["\u`, `{"\`, `[1,,]`, `{"a":{]`, "\"\xff"} {
		f.Add([]byte(s), i, len(s), "a")
	}
	f.Fuzz(func(t *testing.T, b []byte, start, end int, key string) {
		// The functions must not panic or loop, whatever the span is.
		for _, s := range []Span{{start, end}, Whole(b)} {
			for m := range Members(b, s) {
				if !within(b, m.Key) || !within(b, m.Value) {
					t.Fatalf("%q: %v", b, m)
				}
				Text(b, m.Key)
			}
			for at := range Elements(b, s) {
				if !within(b, at) {
					t.Fatalf("%q: %v", b, at)
				}
			}
			checkValue(t, b, s, key)
			Text(b, s)
			Int(b, s)
			KindOf(b, s)
			var e Edits
			e.Object(NoReason, b, s, func(k []byte) bool { return string(k) == key }, Field{Key: "x"})
			Splice(nil, b, &e)
		}
		if !oracle(b) {
			return
		}
		whole := Whole(b)
		members, spans := oracleMembers(t, b)
		i := 0
		for m := range Members(b, whole) {
			if name, _ := Text(b, m.Key); name != members[i].name || m.Value != spans[i] {
				t.Fatalf("%q: member %d is %q at %v, want %q at %v", b, i, name, m.Value, members[i].name, spans[i])
			}
			i++
		}
		if i != len(members) {
			t.Fatalf("%q: %d members, want %d", b, i, len(members))
		}
		keys := []string{}
		for i, m := range members {
			if got := Find(b, whole, m.name); got != spans[i] {
				t.Fatalf("%q: %q at %v, want %v", b, m.name, got, spans[i])
			}
			keys = append(keys, m.name)
		}
		if !slices.Contains(keys, key) {
			keys, spans = append(keys, key), append(spans, Span{})
			if got := Find(b, whole, key); !got.IsZero() {
				t.Fatalf("%q: %q at %v", b, key, got)
			}
		}
		if len(members) > 0 {
			out := make([]Span, len(keys))
			FindAll(b, whole, keys, out)
			if !slices.Equal(out, spans) {
				t.Fatalf("%q: %q at %v, want %v", b, keys, out, spans)
			}
		}
		var elements int
		for at := range Elements(b, whole) {
			elements++
			if !oracle(at.Of(b)) {
				t.Fatalf("%q: element %q", b, at.Of(b))
			}
		}
		if KindOf(b, whole) == '"' {
			text, ok := Text(b, whole)
			want, err := jsontext.AppendUnquote(nil, whole.Of(b))
			if !ok || err != nil || text != string(want) {
				t.Fatalf("%q: %q, want %q", b, text, want)
			}
		}
		for i := range len(key) {
			if halfAt(key, i) != 0 {
				return // AppendQuote writes it as an escape, which jsontext refuses
			}
		}
		quoted := AppendQuote(nil, key)
		text, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil || string(text) != string([]rune(key)) {
			t.Fatalf("%q quoted is %s", key, quoted)
		}
	})
}

// checkValue compares Value with the functions on spans, for arbitrary bytes.
func checkValue(t *testing.T, b []byte, s Span, key string) {
	t.Helper()
	v := Value{b, s}
	if got, want := v.Get(key), Find(b, s, key); got.Absent() != want.IsZero() || !got.Absent() && got.Span() != want {
		t.Fatalf("%q: Get finds %v, Find %v", b, got.Span(), want)
	}
	if got, want := v.Get(key, key), Find(b, Find(b, s, key), key); got.Absent() != want.IsZero() || !got.Absent() && got.Span() != want {
		t.Fatalf("%q: Get finds %v, nested Find %v", b, got.Span(), want)
	}
	var members []Member
	for name, value := range v.Members() {
		members = append(members, Member{name.Span(), value.Span()})
	}
	if want := slices.Collect(Members(b, s)); !slices.Equal(members, want) {
		t.Fatalf("%q: members %v, want %v", b, members, want)
	}
	var elements []Span
	for e := range v.Elements() {
		elements = append(elements, e.Span())
	}
	if want := slices.Collect(Elements(b, s)); !slices.Equal(elements, want) {
		t.Fatalf("%q: elements %v, want %v", b, elements, want)
	}
}

func FuzzObjectEdit(f *testing.F) {
	for i, s := range []string{odd, sample, `{}`, `{ }`, `{"a":1}`, `{"a":1,"b":2,"c":3}`, `{"\u0061" : 1 , "x":{"a":[]}}`} {
		f.Add([]byte(s), uint64(i*37), uint64(i*5), "x")
	}
	f.Fuzz(func(t *testing.T, b []byte, dropMask, setMask uint64, added string) {
		if !oracle(b) {
			return
		}
		members, _ := oracleMembers(t, b)
		added = strings.ToValidUTF8(added, "?")
		want := map[string]string{}
		dropped := map[string]bool{}
		var set []Field
		for i, m := range members {
			switch {
			case setMask>>(i%64)&1 != 0:
				set = append(set, Field{m.name, []byte(`["new"]`)})
				want[m.name] = `["new"]`
			case dropMask>>(i%64)&1 != 0:
				dropped[m.name] = true
			default:
				want[m.name] = m.value
			}
		}
		if added != "" {
			set = append(set, Field{added, []byte(`{"added":1}`)}, Field{added + "2", []byte(`2`)})
			want[added], want[added+"2"] = `{"added":1}`, `2`
		}
		var e Edits
		e.Object(NoReason, b, Whole(b), func(key []byte) bool { return dropped[string(key)] }, set...)
		out := Splice(nil, b, &e)
		var replayed []byte
		from := 0
		for _, c := range e.Changes(nil, len(b)) {
			replayed = append(append(replayed, b[from:c.At.Start]...), out[c.To.Start:c.To.End]...)
			from = c.At.End
		}
		if replayed = append(replayed, b[from:]...); !bytes.Equal(replayed, out) {
			t.Fatalf("%q became %q, but its changes make %q", b, out, replayed)
		}
		if KindOf(b, Whole(b)) != '{' {
			if !bytes.Equal(out, b) {
				t.Fatalf("%q is not an object but became %q", b, out)
			}
			return
		}
		if !oracle(out) {
			t.Fatalf("%q became %q", b, out)
		}
		got, _ := oracleMembers(t, out)
		var order []string
		for _, m := range got {
			if want[m.name] != m.value {
				t.Fatalf("%q became %q: %q is %q, want %q", b, out, m.name, m.value, want[m.name])
			}
			order = append(order, m.name)
		}
		if len(got) != len(want) {
			t.Fatalf("%q became %q: %d members, want %d", b, out, len(got), len(want))
		}
		// The remaining members keep their order, and follow the inserted members.
		stays := slices.DeleteFunc(slices.Clone(members), func(m member) bool {
			_, ok := want[m.name]
			return !ok
		})
		if len(stays) > len(order) {
			t.Fatalf("%q became %q", b, out)
		}
		tail := order[len(order)-len(stays):]
		inserted := order[:len(order)-len(stays)]
		for i, m := range stays {
			if tail[i] != m.name {
				t.Fatalf("%q became %q: inserted %q, then %q", b, out, inserted, tail)
			}
		}
	})
}
