package policy

import (
	"context"
	"errors"
	"slices"
	"testing"
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
		chain.Done(t.Context(), passed, call, nil)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
