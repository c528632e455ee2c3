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
