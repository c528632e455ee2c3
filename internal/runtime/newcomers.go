package runtime

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Rates for newcomers, as multiples of limits.initializePerSecond.
const (
	burstFactor    = 10 // for one client: clients open several sessions when they start
	clientFactor   = 4  // for all connections with one address and client name
	strangerFactor = 20 // for all clients not seen before
)

const (
	// maxDelay is the longest time that an opening is delayed instead of refused. It makes a
	// looping client wait its turn behind clients that came first.
	maxDelay = 2 * time.Second
	// maxDelayed is the largest number of openings that are delayed at once.
	maxDelayed = 1024
	// maxNewcomers bounds how many connections and how many clients are remembered.
	maxNewcomers = 4096
)

// newcomers limits how often a client may open a session, so that one that loops does
// not shut out the others. A client that has authenticated has a rate of its own.
// Without authentication each connection has that rate. The connections of one address
// and name share a multiple of it, so that opening new connections gains little. New
// names share one too, so that inventing names gains little.
//
// Each opening takes a token from every bucket that it belongs to. When a bucket is
// empty the opening waits for its turn, and is refused when that would take too long.
type newcomers struct {
	perSecond int // 0 allows everything

	mu        sync.Mutex
	conns     buckets[uint64]
	clients   buckets[string]
	strangers *rate.Limiter
	delayed   int
}

// allow reports whether a client may open a session, and if not, when to try again. It
// waits for at most maxDelay.
func (n *newcomers) allow(ctx context.Context, who transport.Newcomer) (retryAfter time.Duration, ok bool) {
	if n.perSecond <= 0 {
		return 0, true
	}
	taken, delay, ok := n.take(who)
	if !ok || delay == 0 {
		return delay, ok
	}
	defer func() {
		n.mu.Lock()
		n.delayed--
		n.mu.Unlock()
	}()
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return 0, true
	case <-ctx.Done():
		for _, r := range taken {
			r.Cancel()
		}
		return delay, false
	}
}

// take takes a token from each bucket of a client and returns how long the client must wait
// for the last of them. When ok is false it has taken none.
func (n *newcomers) take(who transport.Newcomer) (taken []*rate.Reservation, delay time.Duration, ok bool) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.limitersLocked(who, now) {
		r := l.ReserveN(now, 1)
		taken = append(taken, r)
		delay = max(delay, r.DelayFrom(now))
	}
	if delay > maxDelay || delay > 0 && n.delayed >= maxDelayed {
		for _, r := range taken {
			r.CancelAt(now)
		}
		return nil, delay, false
	}
	if delay > 0 {
		n.delayed++
	}
	return taken, delay, true
}

func (n *newcomers) limitersLocked(who transport.Newcomer, now time.Time) []*rate.Limiter {
	one := n.perSecond
	if who.Principal != "" {
		l, _ := n.clients.of(who.Party(), one, now)
		return []*rate.Limiter{l}
	}
	client, known := n.clients.of(who.Party(), one*clientFactor, now)
	all := []*rate.Limiter{client}
	if who.Connection != 0 {
		l, _ := n.conns.of(who.Connection, one, now)
		all = append(all, l)
	}
	if !known {
		if n.strangers == nil {
			n.strangers = newLimiter(one * strangerFactor)
		}
		all = append(all, n.strangers)
	}
	return all
}

func newLimiter(perSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), perSecond*burstFactor)
}

// buckets is a bounded table of limiters.
type buckets[K comparable] struct {
	all map[K]*bucket
}

type bucket struct {
	*rate.Limiter
	again bool // whether it has been used more than once
}

// of returns the limiter of a key, and whether the table had it already.
func (b *buckets[K]) of(key K, perSecond int, now time.Time) (l *rate.Limiter, known bool) {
	if there := b.all[key]; there != nil {
		there.again = true
		return there.Limiter, true
	}
	if b.all == nil {
		b.all = make(map[K]*bucket)
	}
	if len(b.all) >= maxNewcomers {
		b.forget(now)
	}
	l = newLimiter(perSecond)
	b.all[key] = &bucket{Limiter: l}
	return l, false
}

// forget makes room by removing a few clients. A client with a full bucket loses nothing
// but the record that it was seen, so clients that came only once go first. After them go
// the clients with the most tokens, because they lose the least.
func (b *buckets[K]) forget(now time.Time) {
	full := func(e *bucket) bool { return e.TokensAt(now) >= float64(e.Burst()) }
	for key, e := range b.all {
		if !e.again && full(e) {
			delete(b.all, key)
		}
	}
	const least = maxNewcomers / 16 // so that this does not run for each newcomer
	const few = 64                  // entries examined for each one removed
	for len(b.all) > maxNewcomers-least {
		var fullest K
		most, looked := -1.0, 0
		for key, e := range b.all {
			if part := e.TokensAt(now) / float64(e.Burst()); looked == 0 || part > most {
				fullest, most = key, part
			}
			if looked++; looked == few {
				break
			}
		}
		delete(b.all, fullest)
	}
}
