package cluster

import (
	"context"
	"slices"
	"sync"
	"time"
)

// While the others may call this replica dead and go on with its sessions, it must not serve them. It may as long as its
// last heartbeat is young; and while nobody reaches the database, since nobody is called dead then.

const (
	storePath = "/cluster/store" // answers with 200 if we reach the database

	// fenceAfter is how old our last heartbeat may be. Nobody is buried sooner than refusedAfter.
	fenceAfter = 4 * time.Second
	// excusedFor is how long it counts that nobody reached the database. After that, everybody has to be steady for
	// staleAfter before somebody is buried whose address doesn't refuse connections.
	excusedFor = 6 * time.Second
	// holdWait is how long a request waits until it's known whether this replica is still what it was.
	holdWait = 4 * time.Second
)

// word is what another replica says of the database, or that it says nothing.
type word int

const (
	reaches  word = iota // it reaches the database, or is too old to say, or it takes us for dead
	away                 // it doesn't either
	noAnswer             // it could be that it does
	nobody               // nothing listens there, so there's nobody who could
)

// excuses reports whether a replica that can't reach the database may go on with its sessions: nobody else can either.
func excuses(words []word) bool {
	return !slices.Contains(words, reaches) && (slices.Contains(words, away) || !slices.Contains(words, noAnswer))
}

// fence is what this replica knows about itself.
type fence struct {
	mu      sync.Mutex
	beaten  time.Time     // when the last heartbeat that was written began
	excused time.Time     // when we last found that nobody reaches the database
	round   chan struct{} // closed when something of that may have changed
}

func (f *fence) open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.openLocked()
}

// openLocked reports whether this replica may serve its sessions.
func (f *fence) openLocked() bool {
	return time.Since(f.beaten) < fenceAfter || time.Since(f.excused) < excusedFor
}

// beat notes a heartbeat that began at a time, or excused that none was possible.
func (f *fence) note(beaten, excused time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if beaten.After(f.beaten) {
		f.beaten = beaten
	}
	if excused.After(f.excused) {
		f.excused = excused
	}
	f.roundLocked()
}

func (f *fence) roundLocked() {
	if f.round != nil {
		close(f.round)
		f.round = nil
	}
}

// Holds implements transport.Seats.
func (c *Cluster) Holds(ctx context.Context) bool {
	f := &c.fence
	if f.open() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, holdWait)
	defer cancel()
	for {
		f.mu.Lock()
		if f.openLocked() {
			f.mu.Unlock()
			return true
		}
		if f.round == nil {
			f.round = make(chan struct{})
		}
		round := f.round
		f.mu.Unlock()
		select {
		case <-round:
		case <-ctx.Done():
			return false
		}
	}
}

// Fenced reports whether this replica must not serve its sessions now; see Holds.
func (c *Cluster) Fenced() bool { return !c.fence.open() }

// Term implements transport.Seats.
func (c *Cluster) Term() uint64 { return c.term.Load() }

// excuse asks others whether they reach the database.
func (c *Cluster) excuse(ctx context.Context) bool {
	me := c.me.Load().Incarnation
	var others []*Member
	all := c.Members()
	for i := range all {
		if m := &all[i]; m.Incarnation != me && m.Lives() {
			others = append(others, m)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*dialWithin/2)
	defer cancel()
	words := make([]word, len(others))
	var asking sync.WaitGroup
	for i, m := range others {
		asking.Go(func() { words[i] = c.hear(ctx, m) })
	}
	asking.Wait()
	return excuses(words)
}

// nobodyReaches reports whether the database was away from everybody a moment ago.
func (c *Cluster) nobodyReaches() bool {
	c.fence.mu.Lock()
	defer c.fence.mu.Unlock()
	return time.Since(c.fence.excused) < excusedFor
}

// reachesStore reports whether our last heartbeat was written a moment ago.
func (c *Cluster) reachesStore() bool {
	c.fence.mu.Lock()
	defer c.fence.mu.Unlock()
	return time.Since(c.fence.beaten) < beatEvery+within/2
}
