// Package work manages the goroutines of an owner. An owner is a value that starts goroutines and
// can be closed, such as an upstream. Each owner has a Group, so that it can wait for its
// goroutines.
//
// A sync.WaitGroup alone is not enough. Adding a goroutine while the count is zero and another
// goroutine waits is a race. If a goroutine is added after the wait, nobody waits for this
// goroutine. So a Group also has a flag that Close sets. Go checks the flag and starts the
// goroutine under the same lock. After Close, the Group starts no goroutines, and Wait waits for
// all goroutines that it has started.
//
// Sleep waits for a duration or until a context ends. Backoff computes the pause between two
// attempts. The package does not know the protocol.
package work

import (
	"context"
	"sync"
	"time"
)

// Group manages the goroutines of one owner. The zero value is ready to use. A Group must not be
// copied. All methods are safe for concurrent use.
type Group struct {
	mu      sync.Mutex // not held while a function of the group runs
	closed  bool
	running sync.WaitGroup
}

// Go runs f in a new goroutine and returns true. After Close, it returns false and does not run f.
// The caller must then release all resources that f would have released.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// Close prevents Go from starting more goroutines. It does not wait for running goroutines. It may
// be called more than once.
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
