package tools

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// TestGate fills a gate with calls that run and calls that wait, and empties it again.
func TestGate(t *testing.T) {
	const running, waiting = 2, 3
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(running, waiting)
		var leaves []func()
		for range running {
			leave, err := g.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var group sync.WaitGroup
		var mu sync.Mutex
		entered, cancelled := 0, 0
		enter := func(ctx context.Context) {
			group.Go(func() {
				leave, err := g.Enter(ctx)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, context.Canceled):
					cancelled++
				case err != nil:
					t.Errorf("a call that waits: %v", err)
				default:
					entered++
					leave()
				}
			})
		}
		for range waiting - 1 {
			enter(t.Context())
		}
		enter(ctx)
		synctest.Wait()
		var full *FullError
		if _, err := g.Enter(t.Context()); !errors.As(err, &full) || full.Limit != waiting || err.Error() != "too many calls are waiting: the limit is 3" {
			t.Errorf("one call more than may wait: %v", err)
		}
		cancel()
		synctest.Wait()
		if cancelled != 1 || entered != 0 {
			t.Errorf("%d calls were cancelled, %d entered", cancelled, entered)
		}
		enter(t.Context()) // the cancelled call no longer waits
		synctest.Wait()
		for _, leave := range leaves {
			leave()
		}
		group.Wait()
		if entered != waiting || len(g.running) != 0 || g.waiting.Load() != 0 {
			t.Errorf("%d calls entered, %d run, %d wait", entered, len(g.running), g.waiting.Load())
		}
	})
}

// TestGateFree enters a gate that has no waiting places. A call that finds a free place is not
// counted as waiting. Otherwise, calls that arrive at the same moment could refuse each other.
func TestGateFree(t *testing.T) {
	g := NewGate(1, 0)
	leave, err := g.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var full *FullError
	if _, err := g.Enter(t.Context()); !errors.As(err, &full) {
		t.Errorf("a second call: %v", err)
	}
	leave()
}
