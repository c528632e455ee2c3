package jsonrpc

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// nested returns an item whose arrays are nested n levels deep, with the object around them.
func nested(name string, n int) string {
	return `{"name":"` + name + `","inputSchema":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
}

var isTools = func(key []byte) bool { return string(key) == "tools" || string(key) == "prompts" }

// TestCut checks which items Scan leaves out, that it keeps every other byte, and that it refuses the
// message as before if leaving out items does not help.
func TestCut(t *testing.T) {
	const good = `{"name" : "good", "n":1.50}`
	list := func(items string) string {
		return `{"jsonrpc":"2.0", "id":7,"result": {"x":[1],"tools":[` + items + `],"nextCursor":"c"} }`
	}
	deep, edge := nested("deep", 126), nested("edge", 125)
	many := `{"name":"many","a":[` + strings.Repeat("1,", 600_000) + `1]}`
	for name, test := range map[string]struct {
		in, out, names, why string
		count               int
	}{
		"nothing":           {in: list(good), out: list(good)},
		"at the limit":      {in: list(edge), out: list(edge)},
		"the only one":      {in: list(deep), out: list(""), names: "deep", count: 1, why: "nested deeper than 125 levels"},
		"first":             {in: list(deep + " , " + good), out: list(good), names: "deep", count: 1},
		"middle":            {in: list(good + "," + deep + ",\n" + edge), out: list(good + "," + edge), names: "deep", count: 1},
		"last":              {in: list(good + "," + deep), out: list(good), names: "deep", count: 1},
		"deep indeed":       {in: list(nested("deep", 100_000) + "," + good), out: list(good), names: "deep", count: 1},
		"two":               {in: list(deep + "," + good + "," + deep), out: list(good), names: "deep|deep", count: 2},
		"without a name":    {in: list(strings.Repeat("[", 126) + strings.Repeat("]", 126)), out: list(""), names: "", count: 1},
		"duplicate member":  {in: list(`{"name":"twice","a":1,"a":2},` + good), out: list(good), names: "twice", count: 1, why: "same name"},
		"many values":       {in: list(many + "," + good + "," + many), out: list(good + "," + many), names: "", count: -1},
		"another list":      {in: strings.Replace(list(deep), "tools", "content", 1), count: -1},
		"in no list":        {in: strings.Replace(list(""), `[1]`, nested("deep", 127), 1), count: -1},
		"two lists":         {in: strings.Replace(list(deep), `"x":[1]`, `"prompts":[`+deep+`]`, 1), count: -1},
		"two results":       {in: strings.Replace(list(deep), `"id":7`, `"id":7,"result":{}`, 1), count: -1},
		"half":              {in: list(deep)[:60], count: -1},
		"not JSON":          {in: list(deep + ",tru"), count: -1},
		"not JSON after it": {in: list(deep) + "x", count: -1},
		"a request":         {in: `{"jsonrpc":"2.0","id":7,"method":"x","params":{"tools":[` + deep + `]}}`, count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			in := []byte(test.in)
			_, plain := Scan(bytes.Clone(in), Limits{Bytes: 16 << 20})
			m, err := Scan(in, Limits{Bytes: 16 << 20, Lists: isTools})
			if string(in) != test.in {
				t.Error("Scan has modified its input")
			}
			if test.count < 0 {
				if err == nil || plain == nil || err.Error() != plain.Error() {
					t.Errorf("the error is %v, want %v", err, plain)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(m.Raw) != test.out || m.ID != "7" || m.Kind != Result {
				t.Errorf("the message is\n%.300s\nwant\n%.300s", m.Raw, test.out)
			}
			if test.count == 0 {
				if m.Cut != nil || &m.Raw[0] != &in[0] {
					t.Errorf("Scan has cut something: %+v", m.Cut)
				}
				return
			}
			if c := m.Cut; c == nil || c.Key != "tools" || c.Count != test.count || strings.Join(c.Names, "|") != test.names || !strings.Contains(c.Why, test.why) || c.Err == nil {
				t.Errorf("the cut is %+v", m.Cut)
			}
		})
	}
}

// TestCutIsBounded checks that a hostile list costs time and memory in proportion to its size.
func TestCutIsBounded(t *testing.T) {
	const size = 8 << 20
	for name, body := range map[string]string{
		"one deep item":         strings.Repeat("[", size),
		"deep and closed":       strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"many deep items":       strings.Repeat(strings.Repeat("[", 130)+strings.Repeat("]", 130)+",", size/261),
		"deep objects":          strings.Repeat(`{"a":`, size/5),
		"many duplicates":       strings.Repeat(`{"a":1,"a":1},`, size/14),
		"a string without end":  `[[` + strings.Repeat("[", 130) + `"` + strings.Repeat(`\\`, size/2),
		"lists with nothing in": strings.Repeat(`[]],"tools":[`, size/13),
	} {
		t.Run(name, func(t *testing.T) {
			in := []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + body + `]}}`)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, _ = Scan(in, Limits{Bytes: 16 << 20, Lists: isTools})
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; took > 20*time.Second || used > 4*size && !raceEnabled {
				t.Errorf("Scan took %s and allocated %d bytes", took, used)
			}
		})
	}
	deep := []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Repeat(nested("deep", 200)+",", 5000) + `1]}}`)
	m, err := Scan(deep, Limits{Lists: isTools})
	if err != nil || m.Cut.Count != 5000 || len(m.Cut.Names) != maxCutNames || cap(m.Raw) > 1<<10 {
		t.Errorf("%v: %d names of %d, %d bytes kept", err, len(m.Cut.Names), m.Cut.Count, cap(m.Raw))
	}
}

// FuzzCut checks that a message without some of its items is a valid message, that its other members
// are those of the original, and that its items are items of the original, in order.
func FuzzCut(f *testing.F) {
	for _, items := range []string{`{"name":"a"}`, nested("deep", 9), nested("a", 2) + "," + nested("deep", 9) + "," + nested("b", 2), `{"a":1,"a":2},3`, `[[[[[[[[[["]`, `"\"",[[[[[[[[[[[[]]]]]]]]]]]],"]"`} {
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1,"tools":[` + items + `],"b":2}}`))
	}
	lim := Limits{Depth: 8, Tokens: 200}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		plain, plainErr := Scan(in, lim)
		with := lim
		with.Lists = isTools
		m, err := Scan(in, with)
		switch {
		case !bytes.Equal(in, before):
			t.Fatal("the input was modified")
		case plainErr == nil && (err != nil || m.Cut != nil || !bytes.Equal(m.Raw, plain.Raw)):
			t.Fatalf("a good message: %v", err)
		case plainErr == nil || err != nil:
			return
		case m.Cut == nil || m.Cut.Count < 1 || len(m.Raw) > len(in):
			t.Fatalf("nothing was cut, but the message is accepted: %q", in)
		}
		if _, err := Scan(bytes.Clone(m.Raw), lim); err != nil {
			t.Fatalf("%v: %q", err, m.Raw)
		}
		result := Find(in, Whole(in), "result")
		var all, kept []string
		for e := range Elements(in, Find(in, result, m.Cut.Key)) {
			all = append(all, string(e.Of(in)))
		}
		for e := range Elements(m.Raw, m.ResultMember(m.Cut.Key)) {
			kept = append(kept, string(e.Of(m.Raw)))
		}
		if len(all)-len(kept) != m.Cut.Count {
			t.Fatalf("%d of %d items are left, %d cut: %q", len(kept), len(all), m.Cut.Count, in)
		}
		for _, item := range kept {
			at := slices.Index(all, item)
			if at < 0 {
				t.Fatalf("the item %q is not in %q", item, in)
			}
			all = all[at+1:]
		}
		for x := range Members(m.Raw, m.Result) {
			key, _ := Text(m.Raw, x.Key)
			if key != m.Cut.Key && !bytes.Equal(Find(in, result, key).Of(in), x.Value.Of(m.Raw)) {
				t.Fatalf("the member %s has changed: %q", strconv.Quote(key), in)
			}
		}
	})
}
