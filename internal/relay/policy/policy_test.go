package policy

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

var errNo = errors.New("no")

// step records the calls that it gets. A test can make it refuse calls.
type step struct {
	name    string
	refuses bool
	log     *[]string
}

func (s step) Before(context.Context, *Call) Verdict {
	*s.log = append(*s.log, "before "+s.name)
	if s.refuses {
		return Verdict{Refuse: errNo}
	}
	return Verdict{}
}

func (s step) After(context.Context, *Call, *Answer) { *s.log = append(*s.log, "after "+s.name) }

func TestChain(t *testing.T) {
	for name, tt := range map[string]struct {
		refuses string // the name of the step that refuses
		passed  int
		want    []string
	}{
		"all let it pass":   {"", 3, []string{"before a", "before b", "before c", "after c", "after b", "after a"}},
		"the first refuses": {"a", 0, []string{"before a"}},
		"the last refuses":  {"c", 2, []string{"before a", "before b", "before c", "after b", "after a"}},
	} {
		var log []string
		var chain Chain
		for _, s := range []string{"a", "b", "c"} {
			chain = append(chain, step{s, s == tt.refuses, &log})
		}
		passed, v := chain.Admit(t.Context(), &Call{}, 0)
		if passed != tt.passed || v.Passes() != (tt.refuses == "") || (v.Refuse != nil) != (tt.refuses != "") {
			t.Errorf("%s: %d passed, %v", name, passed, v)
		}
		chain.Done(t.Context(), passed, &Call{}, &Answer{Err: v.Refuse})
		if !slices.Equal(log, tt.want) {
			t.Errorf("%s: %q", name, log)
		}
	}
}

func TestEmptyChainCostsNothing(t *testing.T) {
	var chain Chain
	call := &Call{}
	if n := testing.AllocsPerRun(100, func() {
		passed, _ := chain.Admit(t.Context(), call, 0)
		chain.Watch(t.Context(), call)
		chain.Done(t.Context(), passed, call, nil)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// counter is a step that counts the calls that it hasn't let pass before.
type counter struct{ before, after int }

func (s *counter) Before(_ context.Context, c *Call) Verdict {
	if !c.Resumed {
		s.before++
	}
	return Verdict{}
}

func (s *counter) After(_ context.Context, c *Call, _ *Answer) {
	if !c.Resumed {
		s.after++
	}
}

// asker is a step that asks once.
type asker struct{}

func (asker) Before(_ context.Context, c *Call) Verdict {
	if a := c.Answered("asker"); a.Action() != "accept" && !c.Resumed {
		return Verdict{Ask: &Ask{Step: "asker"}}
	}
	return Verdict{}
}

func (asker) After(context.Context, *Call, *Answer) {}

// TestResumedIsForEachStep checks that a step counts a call once, whether it stands before or behind
// the step that asks, for a client that is asked live and for one that retries.
func TestResumedIsForEachStep(t *testing.T) {
	answers := []mcp.Answered{{Step: "asker", Result: []byte(`{"action":"accept"}`)}}
	for _, live := range []bool{false, true} {
		front, back := &counter{}, &counter{}
		chain := Chain{front, asker{}, back}
		call := &Call{}
		passed, v := chain.Admit(t.Context(), call, 0)
		if passed != 1 || v.Ask == nil || call.Heard() {
			t.Fatalf("%d passed, %v", passed, v)
		}
		if live {
			call.Answers = answers
		} else {
			chain.Done(t.Context(), passed, call, &Answer{})
			call, passed = &Call{Resumed: true, Passed: passed, Answers: answers}, 0
		}
		passed, v = chain.Admit(t.Context(), call, passed)
		if passed != 3 || !v.Passes() || !call.Heard() {
			t.Fatalf("%d passed, %v", passed, v)
		}
		chain.Done(t.Context(), passed, call, &Answer{})
		for _, s := range []*counter{front, back} {
			if *s != (counter{1, 1}) {
				t.Errorf("live %t: a step counted %+v", live, *s)
			}
		}
		if call.Resumed == live {
			t.Error("the chain has changed Resumed")
		}
	}
}
