package trails

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// stage is a splice with its input and output.
type stage struct {
	Input, Output []byte
	Changes       []jsonrpc.Change
}

// with returns the new bytes of a change.
func (s *stage) with(c jsonrpc.Change) string { return string(s.Output[c.To.Start:c.To.End]) }

// stages returns the splices of a trail, and how many entries the trail dropped.
func stages(t *Trail) (all []stage, missed int) {
	texts, entries, missed := t.Story()
	for _, e := range entries {
		if e.Wire == 0 {
			all = append(all, stage{texts[e.Input].Bytes, texts[e.Text].Bytes, e.Changes})
		}
	}
	return all, missed
}

// replay applies the changes of a stage to its input.
func replay(s *stage) []byte {
	var out []byte
	from := 0
	for _, c := range s.Changes {
		out = append(append(out, s.Input[from:c.At.Start]...), s.with(c)...)
		from = c.At.End
	}
	return append(out, s.Input[from:]...)
}

func TestTrailReplays(t *testing.T) {
	raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"_meta":{"p":2},"b":3}}`)
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var e jsonrpc.Edits
	e.Object(3, raw, m.Params, func(key []byte) bool { return string(key) == "_meta" }, jsonrpc.Field{Key: "x", Value: nil}, jsonrpc.Field{Key: "b", Value: []byte("9")})
	e.Object(4, raw, m.Param("_meta"), nil, jsonrpc.Field{Key: "void", Value: nil}) // within bytes that another edit removes
	e.Replace(5, m.IDAt, []byte(`"one"`))
	e.Insert(6, len(raw)+10, []byte("\n"))
	trail := New(1 << 10)
	prefix := []byte("before")
	out := trail.Splice(prefix, raw, &e)
	if want := jsonrpc.Splice(nil, raw, &e); string(out) != "before"+string(want) {
		t.Fatalf("got %s, want %s", out, want)
	}
	again := trail.Splice(nil, out[len(prefix):], new(jsonrpc.Edits))

	all, missed := stages(trail)
	if len(all) != 2 || missed != 0 {
		t.Fatalf("there are %d stages, and %d missed", len(all), missed)
	}
	for i := range all {
		if got := replay(&all[i]); !bytes.Equal(got, all[i].Output) {
			t.Errorf("stage %d: got %s, want %s", i, got, all[i].Output)
		}
	}
	if !bytes.Equal(all[0].Input, raw) || !bytes.Equal(all[1].Input, all[0].Output) || !bytes.Equal(all[1].Output, again) {
		t.Errorf("the output of one stage is not the input of the next: %+v", all)
	}
	var why []jsonrpc.Reason
	for _, c := range all[0].Changes {
		why = append(why, c.Why)
	}
	if want := []jsonrpc.Reason{5, 3, 3, 3, 6}; !slices.Equal(why, want) {
		t.Errorf("the reasons are %v, want %v", why, want)
	}
}

func TestTrailKeepsCopies(t *testing.T) {
	raw, with := []byte(`{"a":1}`), []byte("2")
	var e jsonrpc.Edits
	e.Replace(1, jsonrpc.Span{Start: 5, End: 6}, with)
	trail := New(1 << 10)
	out := trail.Splice(nil, raw, &e)
	for _, b := range [][]byte{raw, with, out} {
		for i := range b {
			b[i] = '#'
		}
	}
	all, _ := stages(trail)
	if s := all[0]; string(s.Input) != `{"a":1}` || string(s.with(s.Changes[0])) != "2" || string(s.Output) != `{"a":2}` {
		t.Errorf("a stage changed together with its message: %+v", s)
	}
}

func TestTrailIsBounded(t *testing.T) {
	small := []byte(`{}`)
	trail := New(5000)
	for i := range 100 {
		trail.Splice(nil, fmt.Appendf(nil, `{"a":"%01000d"}`, i), new(jsonrpc.Edits))
	}
	trail.Splice(nil, small, new(jsonrpc.Edits)) // a small stage still fits
	for range 100 {
		trail.Splice(nil, nil, new(jsonrpc.Edits)) // an empty stage also costs memory
	}
	all, missed := stages(trail)
	if len(all)+missed != 201 || len(all) > 60 || missed < 98 || len(all[2].Input) != len(small) {
		t.Errorf("there are %d stages, and %d missed", len(all), missed)
	}
	size := 0
	for _, s := range all {
		size += len(s.Input) + len(s.Output)
	}
	if size > 5000 {
		t.Errorf("%d bytes are kept", size)
	}
}

func TestTrailInParallel(t *testing.T) {
	trail := New(1 << 20)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				var e jsonrpc.Edits
				e.Replace(1, jsonrpc.Span{Start: 5, End: 6}, []byte("2"))
				if out := trail.Splice(nil, []byte(`{"a":1}`), &e); string(out) != `{"a":2}` {
					t.Errorf("got %s", out)
				}
				stages(trail)
			}
		})
	}
	wait.Wait()
	if all, missed := stages(trail); len(all) != 800 || missed != 0 {
		t.Errorf("there are %d stages, and %d missed", len(all), missed)
	}
}

func TestNilTrail(t *testing.T) {
	var trail *Trail
	raw := []byte(`{"a":1}`)
	dst := make([]byte, 0, 100)
	var e jsonrpc.Edits
	e.Replace(1, jsonrpc.Span{Start: 5, End: 6}, []byte("2"))
	if n := testing.AllocsPerRun(100, func() { dst = trail.Splice(dst[:0], raw, &e) }); n != 0 {
		t.Errorf("a splice without a trail makes %v allocations", n)
	}
	if all, missed := stages(trail); all != nil || missed != 0 || string(dst) != `{"a":2}` {
		t.Errorf("%v, %d, %s", all, missed, dst)
	}
}

// TestTrailHeads checks that a trail keeps header fields and the reasons for their edits. The trail
// leaves out a header that is too long.
func TestTrailHeads(t *testing.T) {
	trail := New(1 << 20)
	header := map[string][]string{"A": {"1", "2"}, "P-X": {""}, "P-Y": {"y"}, "Other": {strings.Repeat("o", 300)}}
	edits := []HeadEdit{{Why: 1}, {Why: 2, Name: "A"}, {Why: 3, Name: "P-"}, {Why: jsonrpc.NoReason, Name: "P-Y"}, {Why: 4, Name: "Absent"}}
	p := trail.Received(ClientWire, []byte("{}"), NewHead("POST", "/mcp", 0, header, edits...))
	trail.Exchanged(p, Head{}, NewHead("", "", 404, map[string][]string{"Long": {strings.Repeat("l", maxHead)}}))
	_, entries, _ := trail.Story()
	h := entries[0].Request
	want := []HeadField{{"A", "1"}, {"A", "2"}, {"Other", strings.Repeat("o", 300)}, {"P-X", ""}, {"P-Y", "y"}}
	if h.Method != "POST" || h.Path != "/mcp" || h.Status != 0 || !slices.Equal(h.Fields(), want) {
		t.Errorf("%+v has the fields %v", h, h.Fields())
	}
	for name, why := range map[string]jsonrpc.Reason{"A": 2, "P-X": 3, "P-Y": jsonrpc.NoReason, "Other": 1} {
		if with := h.With("/", nil); with.Why(name) != why {
			t.Errorf("the reason for %s is %d, want %d", name, with.Why(name), why)
		}
	}
	if r := entries[0].Response; r.Status != 404 || len(r.Fields()) != 0 || r.Why("Long") != jsonrpc.NoReason {
		t.Errorf("%+v", r)
	}
	if New(0).Sent(ServerWire, nil) == 0 || entries[0].Response.Method != "" {
		t.Error("an empty message is not recorded")
	}
}

// TestTrailMemory checks that the memory of a closed trail is used for another trail, and that
// neither a story nor a later message of the closed trail is affected.
func TestTrailMemory(t *testing.T) {
	raw := []byte(`{"a":1}`)
	var e jsonrpc.Edits
	e.Replace(1, jsonrpc.Span{Start: 5, End: 6}, []byte("22"))
	first := New(1 << 20)
	first.Received(ClientWire, raw, NewHead("POST", "/first", 0, map[string][]string{"First": {"1"}}))
	p := first.Sent(ServerWire, first.Splice(nil, raw, &e))
	texts, entries, _ := first.Story()
	first.Close()
	var others []*Trail
	for range 10 {
		other := New(1 << 20)
		other.Received(ClientWire, []byte(`{"b":3}`), Head{})
		others = append(others, other)
	}
	first.Sent(ServerWire, []byte("late"))
	first.Failed(p, "late")
	first.Exchanged(p, NewHead("POST", "/late", 0, nil), Head{})
	for _, other := range others {
		if texts, entries, _ := other.Story(); len(texts) != 1 || len(entries) != 1 || string(texts[0].Bytes) != `{"b":3}` || entries[0].Request != nil || entries[0].Failed != "" {
			t.Errorf("another trail has %v and %+v", texts, entries)
		}
	}
	if len(entries) != 3 || string(texts[0].Bytes) != `{"a":1}` || string(texts[1].Bytes) != `{"a":22}` || entries[0].Request.Path != "/first" {
		t.Errorf("the story has become %v, %+v", texts, entries)
	}
}

// TestTrailOwned checks that a trail does not copy a received message, unless the message is a
// small part of a large buffer or longer than the limit.
func TestTrailOwned(t *testing.T) {
	limits := &Limits{Message: 100}
	for name, c := range map[string]struct {
		raw    []byte
		copied bool
	}{
		"short":         {[]byte(`{"a":1}`), false},
		"part":          {append(make([]byte, 0, 4096), `{"a":1}`...), true},
		"over a limit":  {bytes.Repeat([]byte("1"), 101), true},
		"as the limit":  {bytes.Repeat([]byte("1"), 100), false},
		"a little room": {append(make([]byte, 0, 64), `{"a":1}`...), false},
	} {
		trail := limits.NewTrail(time.Now())
		trail.Received(ClientWire, c.raw, Head{})
		was := c.raw[0]
		c.raw[0] = '!' // only a test may do this
		texts, _, _ := trail.Story()
		if copied := texts[0].Bytes[0] == was; copied != c.copied {
			t.Errorf("%s: copied is %t", name, copied)
		}
		trail.Close()
	}
	raw := []byte(`{"a":1}`)
	trail := limits.NewTrail(time.Now())
	trail.Sent(ServerWire, raw)
	raw[0] = '!' // the buffer of a message that was sent is used again
	if texts, _, _ := trail.Story(); string(texts[0].Bytes) != `{"a":1}` {
		t.Errorf("a sent message became %s", texts[0].Bytes)
	}
}

// TestTrailAppend checks that Append moves all texts of another trail, including the texts that a
// splice made.
func TestTrailAppend(t *testing.T) {
	began := time.Now()
	limits := &Limits{Message: 100, Call: 1 << 20}
	a, b := limits.NewTrail(began), limits.NewTrail(began.Add(time.Second))
	for i, trail := range []*Trail{a, b} {
		raw := fmt.Appendf(nil, `{"a":%d}`, i)
		var e jsonrpc.Edits
		e.Replace(1, jsonrpc.Span{Start: 5, End: 6}, fmt.Append(nil, i+10))
		trail.Received(ClientWire, raw, NewHead("POST", fmt.Sprint("/", i), 0, map[string][]string{"N": {fmt.Sprint(i)}}, HeadEdit{Why: jsonrpc.Reason(i + 1)}))
		trail.Sent(ServerWire, trail.Splice(nil, raw, &e))
	}
	a.Append(b)
	b.Sent(ServerWire, []byte("late"))
	texts, entries, _ := a.Story()
	for i := range 2 {
		in, out := entries[3*i], entries[3*i+2]
		if string(texts[in.Text].Bytes) != fmt.Sprintf(`{"a":%d}`, i) || string(texts[out.Text].Bytes) != fmt.Sprintf(`{"a":%d}`, i+10) {
			t.Errorf("call %d: %q, %q", i, texts[in.Text].Bytes, texts[out.Text].Bytes)
		}
		if in.Request.Path != fmt.Sprint("/", i) || in.Request.Why("N") != jsonrpc.Reason(i+1) || in.At < time.Duration(i)*time.Second {
			t.Errorf("call %d: %+v at %v", i, in.Request, in.At)
		}
	}
	a.Close()
	if limits.Used() != 0 {
		t.Errorf("%d bytes are still counted", limits.Used())
	}
}
