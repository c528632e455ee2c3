package spans

import (
	"strings"
	"testing"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestContext(t *testing.T) {
	for _, c := range []struct {
		parent, state, baggage string
		want                   string // the traceparent, then the state, then the baggage
	}{
		{parent, "a=1,b=2", "k=v;p", parent + " a=1,b=2 k=v;p"},
		{"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff-more", "", "", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03  "},
		{"ff" + parent[2:], "", "", "00-00000000000000000000000000000000-0000000000000000-00  "}, // §3.2.2.1
		{parent + "-more", "", "", "00-00000000000000000000000000000000-0000000000000000-00  "},
		{"junk", "a=1", "k=v", "00-00000000000000000000000000000000-0000000000000000-00  k=v"},
		{parent, "a\r\nX-Evil: 1", strings.Repeat("b", maxText+1), parent + "  "},
		{"", "", "", "00-00000000000000000000000000000000-0000000000000000-00  "},
	} {
		x := ParseContext(c.parent, c.state, c.baggage)
		if got := x.Parent() + " " + x.State + " " + x.Baggage; got != c.want {
			t.Errorf("%q: %q, want %q", c.parent, got, c.want)
		}
		if x.IsZero() != !IsParent([]byte(c.parent)) {
			t.Errorf("%q: zero %t", c.parent, x.IsZero())
		}
	}
}

// TestSpans checks the identities of a call's spans, and which of them are recorded.
func TestSpans(t *testing.T) {
	var got []*Span
	tracer := &Tracer{Sink: func(s *Span) { got = append(got, s) }}
	in := ParseContext(parent, "a=1", "k=v")
	s := tracer.Start(in)
	first, resent := s.Leg()
	second, again := s.Leg()
	if resent || !again || first.Trace != in.Trace || first.Parent != s.Context.Span || s.Parent != in.Span || !s.Remote || first.Context.Span == second.Context.Span || first.State != "a=1" || first.Baggage != "k=v" {
		t.Errorf("%+v %+v", s, first)
	}
	first.Fail("timeout")
	first.End()
	first.End()
	first.Event("late")
	for range maxEvents + 3 {
		s.Event("loss", Text("what", "x"))
	}
	s.Set(Text("none", ""), Int("n", 7))
	s.End()
	if long := Text("long", strings.Repeat("x", maxAttr+1)); len(long.Text) != maxAttr {
		t.Errorf("a text of %d bytes", len(long.Text))
	}
	if len(got) != 2 || got[0] != first || got[1] != s {
		t.Fatalf("%d spans", len(got))
	}
	a, b := first.Content(), s.Content()
	if !a.Failed || len(a.Events) != 0 || a.Attrs[0] != Text("error.type", "timeout") || b.Failed || len(b.Events) != maxEvents || b.Lost != 3 || len(b.Attrs) != 1 || b.End.Before(s.Start) {
		t.Errorf("%+v %+v", a, b)
	}

	got = nil
	off := tracer.Start(ParseContext(strings.TrimSuffix(parent, "01")+"00", "", ""))
	leg, _ := off.Leg()
	leg.Event("x")
	leg.End()
	off.End()
	if len(got) != 0 || off.Sampled() || leg.Sampled() || leg.Trace != in.Trace {
		t.Errorf("a trace that its client does not record: %+v", off)
	}
	if own := tracer.Start(Context{}); own.IsZero() || !own.Sampled() || own.Remote || own.Parent != [8]byte{} || own.Trace == tracer.Start(Context{}).Trace {
		t.Errorf("a new trace: %+v", own)
	}
}

// TestNoSpans checks that everything does nothing without a tracer, and allocates nothing.
func TestNoSpans(t *testing.T) {
	var none *Tracer
	if n := testing.AllocsPerRun(100, func() {
		s := none.Start(Context{})
		leg, _ := s.Leg()
		leg.Set(Text("a", "b"))
		leg.Event("x")
		leg.Fail("y")
		leg.End()
		s.End()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
