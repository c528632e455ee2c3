package limits

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Party is whose use is counted together.
type Party struct {
	Per     Scope
	Project string
	ID      string // the seat of a key, the subject of a person, or the name of a server; "" for a project
}

// Claim is what a call needs: the use of a party, within its limit.
type Claim struct {
	Party
	Limit *Limit
	Since time.Time // when the limit got its numbers, from when on they count; zero for now
}

// What is a number of a [Limit].
type What uint8

// The numbers that a call can exceed.
const (
	Calls What = iota
	InFlight
	Bytes
)

var whats = [...]string{"calls_per_second", "calls_in_flight", "bytes_per_minute"}

// String returns a word for metrics and the API.
func (w What) String() string { return whats[w] }

// Refusal says which limit a call would exceed, and when to try again.
type Refusal struct {
	Claim
	What  What
	After time.Duration
}

const (
	// maxIdle bounds the parties in a table that have no call in flight.
	maxIdle = 4096
	// maxRefused bounds the parties whose refusals are counted one by one.
	maxRefused = 1000
	// busyFor is when to try again if too many calls are in flight. Nobody knows when one of them ends.
	busyFor = time.Second
)

// Table has the use of all parties. The zero value is ready to use, and a Table is safe for concurrent use.
type Table struct {
	mu      sync.Mutex
	all     map[Party]*account
	refused map[refused]uint64
	shared  bool // other processes share the limits; see Share
}

// account is the use of one party.
type account struct {
	calls, bytes *rate.Limiter // nil until a limit needs it
	inFlight     int
	demand       demand // only while the table is shared
	share        share
}

// refused is what is counted of refusals.
type refused struct {
	Party
	what What
}

// Refused is how often a limit has refused calls of a party.
type Refused struct {
	Party
	What  What
	Times uint64
}

// Admit counts a call, or returns why it may not be sent. Then nothing is counted, so whoever tries too often takes
// nothing from those with whom they share a limit. A call whose bytes aren't known yet passes if there are any left.
func (t *Table) Admit(claims []Claim) *Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.roomLocked(len(claims))
	var worst *Refusal
	for _, c := range claims {
		a := t.accountLocked(c, now)
		if t.shared {
			a.demand.add(c.Limit, now)
		}
		if r := a.over(c, now); r != nil && (worst == nil || r.After > worst.After) {
			worst = r
		}
	}
	if worst != nil {
		return worst
	}
	for _, c := range claims {
		if c.Limit.Calls > 0 {
			t.all[c.Party].calls.AllowN(now, 1)
		}
	}
	return nil
}

// Begin counts a call in flight until done is called, or returns why it may not be sent.
func (t *Table) Begin(claims []Claim) (done func(), r *Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.roomLocked(len(claims))
	var taken []*account
	for _, c := range claims {
		if c.Limit.InFlight == 0 {
			continue
		}
		a := t.accountLocked(c, now)
		if a.inFlight >= a.share.inFlight(c.Limit) {
			return nil, &Refusal{c, InFlight, busyFor}
		}
		taken = append(taken, a)
	}
	for _, a := range taken {
		a.inFlight++
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, a := range taken {
			a.inFlight--
		}
	}, nil
}

// Spend counts the bytes of a call that was answered. They may be more than are left; then the next calls wait until
// the debt is paid.
func (t *Table) Spend(claims []Claim, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.roomLocked(len(claims))
	for _, c := range claims {
		if c.Limit.Bytes == 0 {
			continue
		}
		l := t.accountLocked(c, now).bytes
		for left := bytes; left > 0; left -= l.Burst() {
			l.ReserveN(now, min(left, l.Burst())) // more than a burst at once would not be counted
		}
	}
}

// over returns which number of a limit a call would exceed, or nil.
func (a *account) over(c Claim, now time.Time) *Refusal {
	var r *Refusal
	for _, x := range []struct {
		what  What
		is    bool
		limit *rate.Limiter
	}{{Calls, c.Limit.Calls > 0, a.calls}, {Bytes, c.Limit.Bytes > 0, a.bytes}} {
		if !x.is {
			continue
		}
		if lack := 1 - x.limit.TokensAt(now); lack > 1e-9 { // what is left of rounding
			after := time.Duration(lack / float64(x.limit.Limit()) * float64(time.Second))
			if r == nil || after > r.After {
				r = &Refusal{c, x.what, max(after, time.Millisecond)}
			}
		}
	}
	if r == nil && c.Limit.InFlight > 0 && a.inFlight >= a.share.inFlight(c.Limit) {
		r = &Refusal{c, InFlight, busyFor}
	}
	return r
}

// accountLocked returns the account of a party, which has the numbers of its limit now.
func (t *Table) accountLocked(c Claim, now time.Time) *account {
	a := t.all[c.Party]
	if a == nil {
		if t.all == nil {
			t.all = make(map[Party]*account)
		}
		a = &account{}
		t.all[c.Party] = a
	}
	part, since := a.share.of(c.since(now))
	if c.Limit.Calls > 0 {
		adopt(&a.calls, rate.Limit(c.Limit.Calls*part), max(1, int(float64(c.Limit.Burst)*part)), since)
	}
	if c.Limit.Bytes > 0 {
		adopt(&a.bytes, rate.Limit(float64(c.Limit.Bytes)*part)/60, max(min(c.Limit.Bytes, 1<<10), int(float64(c.Limit.Bytes)*part)), since)
	}
	return a
}

// since returns from when on the numbers of a limit count.
func (c *Claim) since(now time.Time) time.Time {
	if c.Since.IsZero() || c.Since.After(now) {
		return now
	}
	return c.Since
}

// adopt gives a bucket its numbers. One that exists keeps what was used of it, and fills as they say from now on, which
// may be a while ago.
func adopt(l **rate.Limiter, per rate.Limit, burst int, now time.Time) {
	switch {
	case *l == nil:
		*l = rate.NewLimiter(per, burst)
	case (*l).Limit() != per || (*l).Burst() != burst:
		(*l).SetLimitAt(now, per)
		(*l).SetBurstAt(now, burst)
	}
}

// roomLocked makes room for a call whose claims are n, and returns the time.
func (t *Table) roomLocked(n int) time.Time {
	now := time.Now()
	if len(t.all)+n > maxIdle {
		t.forgetLocked(now)
	}
	return now
}

// forgetLocked makes room for other parties. First go those with full buckets, to whom it makes no difference. If
// there are few, the fullest of some go, so that whoever has used up a limit has to wait.
func (t *Table) forgetLocked(now time.Time) {
	maps.DeleteFunc(t.all, func(_ Party, a *account) bool { return a.inFlight == 0 && a.left(now) >= 1 })
	const few = 64
	for len(t.all) > maxIdle-maxIdle/16 {
		var fullest Party
		most, looked := 0.0, 0
		for p, a := range t.all {
			if a.inFlight > 0 {
				continue
			}
			if left := a.left(now); looked == 0 || left > most {
				fullest, most = p, left
			}
			if looked++; looked == few {
				break
			}
		}
		if looked == 0 {
			return // all have calls in flight, which something else bounds
		}
		delete(t.all, fullest)
	}
}

// left returns which part of its buckets a party has left.
func (a *account) left(now time.Time) float64 {
	least := 1.0
	for _, l := range []*rate.Limiter{a.calls, a.bytes} {
		if l != nil {
			least = min(least, l.TokensAt(now)/float64(l.Burst()))
		}
	}
	return least
}

// Note counts a refusal. When there is no room for another party, all further ones of a project count together, without
// an ID.
func (t *Table) Note(r *Refusal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := refused{r.Party, r.What}
	if t.refused[key] == 0 && len(t.refused) >= maxRefused {
		key.ID = ""
	}
	if t.refused == nil {
		t.refused = make(map[refused]uint64)
	}
	t.refused[key]++
}

// Refused returns how often each limit has refused calls of each party, in order.
func (t *Table) Refused() (all []Refused) {
	t.mu.Lock()
	for x, n := range t.refused {
		all = append(all, Refused{x.Party, x.what, n})
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(x, y Refused) int {
		return cmp.Or(cmp.Compare(x.Project, y.Project), cmp.Compare(x.Per, y.Per), cmp.Compare(x.ID, y.ID), cmp.Compare(x.What, y.What))
	})
	return all
}
