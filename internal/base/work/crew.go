package work

import (
	"sync"
	"sync/atomic"
	"time"
)

// Crew runs functions concurrently, as a [sync.WaitGroup] does, on goroutines that wait a moment for
// their next function. A new goroutine begins with a small stack, and a function that calls deeply
// makes it grow, which copies the stack each time: for a relayed call this was a fifth of the whole
// work. A goroutine that waits already has the stack.
//
// The zero value is ready to use. Go and Wait follow the rules of sync.WaitGroup: a call of Go that
// finds nothing running must happen before Wait. After Wait a Crew has no goroutines. A function must
// not panic.
type Crew struct {
	once    sync.Once
	running sync.WaitGroup // the functions
	members sync.WaitGroup // the goroutines
	work    chan func()    // passes functions to the goroutines that wait
	quit    chan struct{}  // closed when they must end
	waiting atomic.Int32
}

const (
	maxWaiting = 4               // the goroutines of a Crew that wait at the same time
	linger     = 2 * time.Second // how long a goroutine waits: an idle session must not keep stacks
)

func (c *Crew) init() {
	c.once.Do(func() { c.work, c.quit = make(chan func()), make(chan struct{}) })
}

// Go runs f on a goroutine that waits, or on a new one.
func (c *Crew) Go(f func()) {
	c.init()
	c.running.Add(1)
	select {
	case c.work <- f:
	default:
		c.members.Go(func() { c.serve(f) })
	}
}

// serve runs f, and then what Go passes on.
func (c *Crew) serve(f func()) {
	late := time.NewTimer(linger)
	defer late.Stop()
	for f != nil {
		f()
		f = nil // while we wait, nothing of the last call stays in memory
		c.running.Done()
		if c.waiting.Add(1) <= maxWaiting {
			late.Reset(linger)
			select {
			case f = <-c.work:
			case <-late.C:
			case <-c.quit:
			}
		}
		c.waiting.Add(-1)
	}
}

// Wait waits until all functions have returned, and ends the goroutines. The Crew must not be used
// after that.
func (c *Crew) Wait() {
	c.running.Wait()
	c.init()
	close(c.quit)
	c.members.Wait()
}
