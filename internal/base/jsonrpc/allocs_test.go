package jsonrpc

import "testing"

// budget fails the test if f makes more than most allocations.
func budget(t *testing.T, what string, most float64, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(200, f); n > most {
		t.Errorf("%s allocates %v times, want at most %v", what, n, most)
	}
}

func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, size := range sizes {
		raw := callOf(size.n)
		budget(t, "Scan of "+size.name, 2, func() {
			if _, err := Scan(raw, Limits{Names: names}); err != nil {
				t.Fatal(err)
			}
		})
	}
	dense := denseOf(64 << 10)
	budget(t, "Scan of many objects", 2, func() {
		if _, err := Scan(dense, Limits{}); err != nil {
			t.Fatal(err)
		}
	})
	budget(t, "Valid", 0, func() {
		if Valid(dense, Limits{}) != nil {
			t.Fatal()
		}
	})

	list := ValueOf([]byte(`{"list":[1,[2],"s"],"o":{"a":{"a":2}}}`))
	budget(t, "Value.Get", 0, func() {
		if n, ok := list.Get("o", "a", "a").Int(); !ok || n != 2 || list.Get("list").Kind() != '[' {
			t.Fatal()
		}
	})
	budget(t, "Value.Elements", 0, func() {
		n := 0
		for e := range list.Get("list").Elements() {
			n += len(e.Raw())
		}
		if n == 0 {
			t.Fatal()
		}
	})

	raw := callOf(1 << 10)
	m, err := Scan(raw, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"name", "arguments"}
	budget(t, "finding", 0, func() {
		var out [2]Span
		FindAll(raw, m.Params, keys, out[:])
		n := 0
		for range Members(raw, out[1]) {
			n++
		}
		for range Elements(raw, Find(raw, out[1], "labels")) {
			n++
		}
		if n != 8 {
			t.Fatal(n)
		}
	})
	dst := make([]byte, 0, 2*len(raw))
	value := []byte(`"v"`)
	budget(t, "Object and Splice", 0, func() {
		var e Edits
		e.Replace(NoReason, m.IDAt, value)
		e.Object(NoReason, raw, m.Params, func(key []byte) bool { return string(key) == "arguments" },
			Field{"added", value}, Field{"name", value})
		e.Object(NoReason, raw, m.Param("_meta"), nil, Field{"added", value})
		dst = Splice(dst[:0], raw, &e)
	})
	failure := &Error{Code: CodeInternal, Message: "no"}
	budget(t, "writing", 0, func() {
		dst = AppendError(dst[:0], m.ID, failure)
		dst = AppendResult(dst[:0], m.ID, value)
		dst = AppendRequest(dst[:0], m.ID, "m", value)
	})
}
