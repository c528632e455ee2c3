// Package work runs goroutines for an owner. An owner is a value that starts goroutines and can be
// closed. The goroutines open sessions, read lists, close servers, or run calls that continue after
// their request. Code that starts a goroutine must wait for it, so each owner has a Group.
//
// A sync.WaitGroup alone is not enough. If a goroutine is added while the count is zero and another
// goroutine waits, there is a race. A goroutine that is added after the wait is leaked, with all
// its resources. A flag that is checked before the start helps only if the check and the start are
// under the lock that sets the flag. A Group has such a lock. After Close the Group starts no
// goroutines, and Wait waits for all goroutines that it has started.
//
// Sleep waits for a duration or until a context ends. Backoff computes the pause between two
// attempts. The package does not know the protocol, and starts no goroutines by itself.
package work

import (
	"context"
	"sync"
	"time"
)

// Group holds the goroutines of one owner. The zero value is ready to use. A Group must not be
// copied. All methods are safe for concurrent use.
type Group struct {
	mu      sync.Mutex // not held while a function of the group runs
	closed  bool
	running sync.WaitGroup
}

// Go runs f in a new goroutine and returns true. After Close it does not run f and returns
// false. The caller must then release all resources that f would have released.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// Close makes Go refuse further functions. It does not wait. It may be called again.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
}

// Wait closes the group and waits until all its goroutines have ended.
func (g *Group) Wait() {
	g.Close()
	g.running.Wait()
}

// Sleep waits for d. If ctx ends first, it returns the cause of ctx.
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
