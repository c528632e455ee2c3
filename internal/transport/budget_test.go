package transport

import (
	"sync"
	"testing"
)

func TestBudget(t *testing.T) {
	var none *Budget
	if !none.Take(1 << 40) {
		t.Error("a nil budget has a limit")
	}
	none.Hold(1)
	none.Give(1)
	b := NewBudget(100)
	for _, step := range []struct {
		take int64
		ok   bool
	}{{60, true}, {40, true}, {1, false}, {0, false}} {
		if step.take == 0 {
			break
		}
		if got := b.Take(step.take); got != step.ok {
			t.Errorf("take %d: %t", step.take, got)
		}
	}
	b.Hold(50) // an answer is in memory even if it exceeds the limit
	b.Give(60)
	if b.Take(20) {
		t.Error("Take succeeded although the answer uses the memory")
	}
	b.Give(50)
	b.Give(40)
	if !b.Take(1000) {
		t.Error("a single message that exceeds the limit is refused")
	}
	b.Give(1000)
	if s := b.State(); s != (Budgeted{Held: 0, Limit: 100, Refused: 2}) {
		t.Errorf("%+v", s)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 1000 {
				if b.Take(30) {
					b.Give(30)
				}
			}
		})
	}
	all.Wait()
	if s := b.State(); s.Held != 0 {
		t.Errorf("%+v", s)
	}
}

// TestPartOfBudget checks that the bytes of a part count in the whole, that a full part leaves the
// others their room, and that each limit can change while bytes are reserved.
func TestPartOfBudget(t *testing.T) {
	whole := NewBudget(100)
	one, two := whole.Part(40), whole.Part(90)
	if !one.Take(40) || one.Take(1) || one.TakeSmall(10) || !one.TakeSmall(4) {
		t.Error("the limit of the part does not hold")
	}
	if !two.Take(50) || two.Take(20) || whole.State().Held != 94 || two.State().Held != 50 {
		t.Errorf("the limit of the whole does not hold: %+v, %+v", whole.State(), two.State())
	}
	whole.SetLimit(200)
	if !two.Take(20) || one.Take(1) {
		t.Error("the new limit of the whole is not used")
	}
	one.SetLimit(60)
	if !one.Take(10) {
		t.Error("the new limit of the part is not used")
	}
	one.Hold(5)
	one.Give(59)
	two.Give(70)
	if n := whole.State().Held + one.State().Held + two.State().Held; n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	if got := one.State().Refused + two.State().Refused; got != 4 || whole.State().Refused != 1 {
		t.Errorf("refused: %d by the parts, %d by the whole", got, whole.State().Refused)
	}
}
