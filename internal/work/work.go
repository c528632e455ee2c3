// Package work holds the goroutines that an owner starts on behalf of others: opens,
// readings, farewells, calls that outlive their request. Whoever starts a goroutine
// waits for it, so an owner that can be closed has a Group.
//
// A sync.WaitGroup alone does not do for that. Adding to one that is zero while
// somebody waits is a race, and a goroutine that is added after the wait has returned
// is left behind, with what it holds. A check of a flag before the start does not help
// unless both stand under the lock that sets the flag. A Group has that lock: after
// Close nothing is started any more, and Wait has waited for all that was.
//
// The package knows nothing of the protocol and starts nothing by itself.
package work

import "sync"

// Group is the goroutines of one owner. The zero value is ready. A Group must not be
// copied. All methods are safe for concurrent use.
type Group struct {
	mu      sync.Mutex // never held while a function of the group runs
	closed  bool
	running sync.WaitGroup
}

// Go runs f on a goroutine of its own and reports true, or reports false after Close
// and does not run it. Whatever f would have given back stays with the caller then.
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
