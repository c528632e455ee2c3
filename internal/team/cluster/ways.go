package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A replica that can't dial the others refuses what it should pass on to them, while one that can would serve it. So it
// says at /readyz that it isn't ready, until it reaches them again.

// ways is what this replica knows about its ways to the others.
type ways struct {
	trying atomic.Bool // try runs
	said   bool        // what was last logged; belongs to who has set trying

	mu    sync.Mutex
	most  bool      // we reached most neighbours when we last tried
	tried time.Time // when that was
	alone time.Time // since when we have reached too few; zero if we do
}

// triedFor is how long it counts what we found. A try that fails takes up to three seconds.
const triedFor = 2*lookEvery + 3*dialWithin

func (w *ways) note(tried, reached int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most, w.tried = reachesMost(tried, reached), time.Now()
	switch {
	case w.most || tried == 0:
		w.alone = time.Time{}
	case w.alone.IsZero():
		w.alone = time.Now()
	}
}

func (w *ways) reaches() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// try finds out whether we reach our neighbours. Every two seconds, up to five get a request over a connection that's
// kept, however many replicas there are. A whole call costs 0.13 ms on the same way, both replicas together, so that's
// less than a millisecond of CPU every two seconds.
func (c *Cluster) try(ctx context.Context) {
	all := neighbours(c.Members(), c.me.Load().Incarnation)
	if !c.ways.trying.CompareAndSwap(false, true) {
		return
	}
	if !c.group.Go(func() {
		defer c.ways.trying.Store(false)
		var reached atomic.Int64
		var calling sync.WaitGroup
		for _, m := range all {
			calling.Go(func() {
				if c.reach(ctx, m) {
					reached.Add(1)
				}
			})
		}
		if calling.Wait(); ctx.Err() != nil {
			return
		}
		c.ways.note(len(all), int(reached.Load()))
		switch off := c.CutOff(); {
		case off && !c.ways.said:
			c.log.Warn("this replica can't reach most of the others, while others can; it isn't ready until it does", "reached", reached.Load(), "tried", len(all))
			c.ways.said = true
		case !off && c.ways.said:
			c.log.Info("this replica reaches the others again")
			c.ways.said = false
		}
	}) {
		c.ways.trying.Store(false)
	}
}

// reaches reports whether a replica answers us, at the address and over the connections that requests take.
func (c *Cluster) reaches(ctx context.Context, m *Member) bool {
	l := c.linkTo(ctx, m.Incarnation)
	return l != nil && l.ask(ctx, pingPath) == answered
}

// CutOff reports whether clients should turn to other replicas, because this one can't pass requests on, and others can.
// While we don't reach the database, we don't know about others, and don't try to reach them.
func (c *Cluster) CutOff() bool {
	c.ways.mu.Lock()
	alone, tried := c.ways.alone, c.ways.tried
	c.ways.mu.Unlock()
	return !alone.IsZero() && time.Since(tried) < triedFor && c.reachesStore() && cutOff(c.Members(), c.me.Load().Incarnation, time.Since(alone))
}
