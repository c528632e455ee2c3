package jsonrpc

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// stage is a splice with its texts.
type stage struct {
	Input, Output []byte
	Changes       []Change
}

// with returns the new bytes of a change.
func (s *stage) with(c Change) string { return string(s.Output[c.To.Start:c.To.End]) }

// stages returns the splices of a trail, and how many entries were not kept.
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
	m, err := Scan(raw, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var e Edits
	e.Object(3, raw, m.Params, dropping("_meta"), Field{"x", nil}, Field{"b", []byte("9")})
	e.Object(4, raw, m.Param("_meta"), nil, Field{"void", nil}) // within bytes that another edit removes
	e.Replace(5, m.IDAt, []byte(`"one"`))
	e.Insert(6, len(raw)+10, []byte("\n"))
	trail := NewTrail(1 << 10)
	prefix := []byte("before")
	out := trail.Splice(prefix, raw, &e)
	if want := Splice(nil, raw, &e); string(out) != "before"+string(want) {
		t.Fatalf("got %s, want %s", out, want)
	}
	again := trail.Splice(nil, out[len(prefix):], new(Edits))

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
	var why []Reason
	for _, c := range all[0].Changes {
		why = append(why, c.Why)
	}
	if want := []Reason{5, 3, 3, 3, 6}; !slices.Equal(why, want) {
		t.Errorf("the reasons are %v, want %v", why, want)
	}
}

func TestTrailKeepsCopies(t *testing.T) {
	raw, with := []byte(`{"a":1}`), []byte("2")
	var e Edits
	e.Replace(1, Span{5, 6}, with)
	trail := NewTrail(1 << 10)
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
	trail := NewTrail(5000)
	for i := range 100 {
		trail.Splice(nil, fmt.Appendf(nil, `{"a":"%01000d"}`, i), new(Edits))
	}
	trail.Splice(nil, small, new(Edits)) // a small stage still fits
	for range 100 {
		trail.Splice(nil, nil, new(Edits)) // an empty stage costs memory too
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
	trail := NewTrail(1 << 20)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				var e Edits
				e.Replace(1, Span{5, 6}, []byte("2"))
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
	var e Edits
	e.Replace(1, Span{5, 6}, []byte("2"))
	if n := testing.AllocsPerRun(100, func() { dst = trail.Splice(dst[:0], raw, &e) }); n != 0 {
		t.Errorf("a splice without a trail makes %v allocations", n)
	}
	if all, missed := stages(trail); all != nil || missed != 0 || string(dst) != `{"a":2}` {
		t.Errorf("%v, %d, %s", all, missed, dst)
	}
}
