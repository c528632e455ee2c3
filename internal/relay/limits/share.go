package limits

import (
	"math"
	"time"
)

// Use is how much a party wants in one process.
type Use struct {
	Party
	Demand   float64 // calls per second, also those that were refused
	InFlight int
}

// hot is the part of its limit from which on the use of a party is worth telling other processes.
const hot = 0.1

// demand is how many calls per second a party sends. Old calls count less and less.
type demand struct {
	rate   float64 // at the time last
	last   time.Time
	window float64 // in seconds
	limit  *Limit  // the smallest that counts
}

// window returns over how many seconds demand is measured: long enough for several calls of a party that is at its
// limit.
func (l *Limit) window() float64 {
	if l.Calls > 0 {
		return min(max(2, 4/l.Calls), 600)
	}
	return 10
}

// now returns the rate at a time.
func (d *demand) now(at time.Time) float64 {
	if d.window == 0 {
		return 0
	}
	return d.rate * math.Exp(-at.Sub(d.last).Seconds()/d.window)
}

// add counts a call.
func (d *demand) add(l *Limit, at time.Time) {
	rate := d.now(at)
	d.window, d.limit = l.window(), l
	d.rate, d.last = rate+1/d.window, at
}

// hot reports whether the use is more than a small part of the limit.
func (a *account) hot(at time.Time) bool {
	l := a.demand.limit
	switch {
	case l == nil:
		return false
	case l.InFlight > 0 && float64(a.inFlight) > hot*float64(l.InFlight):
		return true
	case l.Calls > 0 && a.demand.now(at) > hot*l.Calls:
		return true
	}
	return l.Bytes > 0 && a.bytes != nil && a.bytes.TokensAt(at) < (1-hot)*float64(a.bytes.Burst())
}

// share is the part of a limit that a party has in this process. The zero value is the whole.
type share struct {
	without float64 // the part that other processes have
	since   time.Time
	others  int // the calls in flight there
}

// of returns the part, and from when on it counts; the limit has its numbers since then.
func (s *share) of(then time.Time) (part float64, since time.Time) {
	if s.since.After(then) {
		then = s.since
	}
	return 1 - s.without, then
}

// inFlight returns how many calls may be in flight here: those that others leave, and in any case our part.
func (s *share) inFlight(l *Limit) int {
	return max(l.InFlight-s.others, int(float64(l.InFlight)*(1-s.without)))
}

// Hot makes the table one of several that share the limits, and returns the parties that use more than a tenth of
// theirs.
func (t *Table) Hot() (all []Use) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shared = true
	now := time.Now()
	for p, a := range t.all {
		if a.hot(now) {
			all = append(all, Use{p, a.demand.now(now), a.inFlight})
		}
	}
	return all
}

// Share divides the limits by what parties want here and in all other processes together. Whoever isn't in others has
// the whole limit here. A part is no more than a refilling bucket of its own, so what all processes let through together
// is right only as far as the parts are: it's too much for a moment when a party turns to another process.
func (t *Table) Share(others []Use) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	by := make(map[Party]*Use, len(others))
	for i := range others {
		by[others[i].Party] = &others[i]
	}
	for p, a := range t.all {
		without, inFlight := 0.0, 0
		if u := by[p]; u != nil {
			inFlight = u.InFlight
			if u.Demand > 0 {
				without = u.Demand / (u.Demand + max(a.demand.now(now), leastDemand*u.Demand))
			}
		}
		a.share.others = inFlight
		if without != a.share.without {
			a.share.without, a.share.since = without, now
		}
	}
}

// leastDemand is what a process may count on in any case, as a part of what all others want: it would refuse the first
// call otherwise.
const leastDemand = 0.02
