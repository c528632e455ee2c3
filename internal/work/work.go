// Package work holds the goroutines that an owner starts on behalf of others: opening
// sessions, reading lists, closing, calls that outlive their request. Whoever starts a
// goroutine waits for it, so an owner that can be closed has a Group.
//
// A sync.WaitGroup alone is not enough. Adding to one that is zero while another
// goroutine waits is a race. A goroutine that is added after the wait has returned is
// leaked, with everything it holds. Checking a flag before the start does not help
// unless the check and the start are both under the lock that sets the flag. A Group
// has that lock: after Close it starts nothing more, and Wait has waited for everything
// that it started.
//
// Sleep is a pause that ends with a context. Backoff says how long the pause between two
// attempts is. The package does not know the protocol and starts nothing by itself.
package work

import (
	"context"
	"sync"
	"time"
)

// Group is the goroutines of one owner. The zero value is ready. A Group must not be
// copied. All methods are safe for concurrent use.
type Group struct {
	mu      sync.Mutex // never held while a function of the group runs
	closed  bool
	running sync.WaitGroup
}

// Go runs f on a new goroutine and returns true. After Close it does not run f and
// returns false; the caller must then release what f would have released.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// Close refuses further work. It does not wait and may be called again.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
}

// Wait closes the group and waits until nothing of it runs.
func (g *Group) Wait() {
	g.Close()
	g.running.Wait()
}

// Sleep waits for d. If ctx ends first, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
