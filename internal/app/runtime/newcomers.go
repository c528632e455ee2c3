package runtime

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// These factors are multiplied by limits.initializePerSecond. The products limit how often clients
// open sessions.
const (
	burstFactor    = 10 // the burst of every limiter, because clients open several sessions when they start
	clientFactor   = 4  // the total rate of all connections with the same address and client name
	strangerFactor = 20 // the total rate of all clients that have not been seen before
)

const (
	// maxDelay is the maximum time for which opening a session is delayed. If the delay would be
	// longer, Dragoman refuses the client. The delay slows down clients that open sessions in a
	// loop.
	maxDelay = 2 * time.Second
	// maxDelayed is the maximum number of clients that are delayed at the same time.
	maxDelayed = 1024
	// maxNewcomers is the maximum number of entries in each of the tables conns and clients.
	maxNewcomers = 4096
)

// newcomers limits how often a client may open a session, so that a client that opens sessions in a
// loop does not block other clients. Each authenticated client has the configured rate. Without
// authentication, each connection has this rate. All connections with the same address and client
// name share a multiple of the rate. So a client cannot gain much by opening more connections. All
// clients with new names share another multiple of the rate, so a client cannot gain much by
// changing its name.
//
// Opening a session takes a token from each of the client's buckets. If a bucket is empty, the
// client waits for a token. If the wait would be longer than maxDelay, Dragoman refuses the client.
type newcomers struct {
	log *slog.Logger // receives a record of each delayed client

	mu        sync.Mutex
	perSecond int // the configured rate; 0 means no limit
	conns     buckets[uint64]
	clients   buckets[string]
	strangers *rate.Limiter
	delayed   int
}

// setRate changes the configured rate. The buckets that exist adopt it when their client comes again.
func (n *newcomers) setRate(perSecond int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.perSecond = perSecond
}

// allow reports whether a client may open a session, and if not, when to try again. allow waits for
// at most maxDelay. If it has waited and ok is true, wait is how long.
func (n *newcomers) allow(ctx context.Context, who transport.Newcomer) (wait time.Duration, ok bool) {
	taken, delay, ok := n.take(who)
	if !ok || delay == 0 {
		return delay, ok
	}
	defer func() {
		n.mu.Lock()
		n.delayed--
		n.mu.Unlock()
	}()
	if n.log != nil {
		n.log.LogAttrs(ctx, slog.LevelInfo, "a client that opens too many sessions has to wait",
			slog.String("remote", who.Remote), slog.String("client", excerpt.MaskSecrets(excerpt.Name(who.Client))),
			loglimit.Peer("outcome", "delayed"), loglimit.Measured("waited", slog.DurationValue(delay.Round(time.Millisecond))))
	}
	if work.Sleep(ctx, delay) == nil {
		return delay, true
	}
	for _, r := range taken {
		r.Cancel()
	}
	return delay, false
}

// take takes a token from each bucket of a client. It returns how long the client must wait for the
// last of these tokens. If ok is false, no token was taken.
func (n *newcomers) take(who transport.Newcomer) (taken []*rate.Reservation, delay time.Duration, ok bool) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.perSecond <= 0 {
		return nil, 0, true
	}
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
		adopt(n.strangers, one*strangerFactor, now)
		all = append(all, n.strangers)
	}
	return all
}

func newLimiter(perSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), perSecond*burstFactor)
}

// adopt makes a limiter use the rate perSecond.
func adopt(l *rate.Limiter, perSecond int, now time.Time) {
	if l.Burst() != perSecond*burstFactor {
		l.SetLimitAt(now, rate.Limit(perSecond))
		l.SetBurstAt(now, perSecond*burstFactor)
	}
}

// buckets is a bounded table of rate limiters.
type buckets[K comparable] struct {
	all map[K]*bucket
}

type bucket struct {
	*rate.Limiter
	again bool // the client has opened a session more than once
}

// of returns the limiter of a key. known is true if the table already contained the limiter.
func (b *buckets[K]) of(key K, perSecond int, now time.Time) (l *rate.Limiter, known bool) {
	if there := b.all[key]; there != nil {
		there.again = true
		adopt(there.Limiter, perSecond, now)
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

// forget removes entries to make room. It first removes the full buckets of clients that opened
// only one session. Such a client is then treated as a new client. If forget must remove more
// entries, it prefers buckets with many tokens, because they differ least from a new bucket, which
// is full.
func (b *buckets[K]) forget(now time.Time) {
	full := func(e *bucket) bool { return e.TokensAt(now) >= float64(e.Burst()) }
	for key, e := range b.all {
		if !e.again && full(e) {
			delete(b.all, key)
		}
	}
	const least = maxNewcomers / 16 // remove at least this many entries, so that forget does not run for each new client
	const few = 64                  // the number of entries that are examined for each removed entry
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
