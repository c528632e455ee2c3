package access

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// uses are the minutes in which keys were last used. They outlive the Keys that are made anew after each change.
type uses struct {
	fresh chan struct{} // has a value if a use wasn't kept yet

	mu  sync.Mutex
	all map[ID]*use
}

// use is when a key was last used, in minutes since 1970.
type use struct {
	last atomic.Int64
	kept atomic.Int64 // what of it is in the database
}

func newUses() *uses { return &uses{fresh: make(chan struct{}, 1), all: map[ID]*use{}} }

// watch gives the keys what their use is noted in, and forgets keys that don't exist any more.
func (u *uses) watch(k *Keys) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.all
	u.all = make(map[ID]*use, len(k.byID))
	for id, x := range k.byID {
		if x.use = before[id]; x.use == nil {
			x.use = &use{}
		}
		u.all[id] = x.use
	}
	k.fresh = u.fresh
}

// note notes that a key is used. Only the first call in a minute changes anything.
func (k *Keys) note(x *known, now time.Time) {
	minute := now.Unix() / 60
	if x.use == nil || x.use.last.Load() >= minute {
		return
	}
	x.use.last.Store(minute)
	select {
	case k.fresh <- struct{}{}:
	default: // whoever keeps uses knows already
	}
}

// unkept returns the uses that aren't in the database yet, or all.
func (u *uses) unkept(all bool) map[ID]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := map[ID]int64{}
	for id, x := range u.all {
		if last := x.last.Load(); last > 0 && (all || last > x.kept.Load()) {
			out[id] = last
		}
	}
	return out
}

// Used returns a channel that has a value when a key was used and KeepUses has not been called since.
func (d *Desk) Used() <-chan struct{} { return d.uses.fresh }

// KeepUses writes into the database when keys were used since the last call, in one change. Each key is in it at
// most once a minute. It returns the number of keys.
func (d *Desk) KeepUses(ctx context.Context) (int, error) {
	minutes := d.uses.unkept(false)
	if err := d.safe.Store().KeepUses(ctx, moments(minutes)); err != nil {
		return 0, err
	}
	d.uses.mu.Lock()
	defer d.uses.mu.Unlock()
	for id, minute := range minutes {
		if x := d.uses.all[id]; x != nil {
			x.kept.Store(minute)
		}
	}
	return len(minutes), nil
}

// Uses returns when keys were last used, to the minute and by their ids. If the database can't be read, it knows only
// what happened in this process.
func (d *Desk) Uses(ctx context.Context) map[string]time.Time {
	all, err := d.safe.Store().Uses(ctx)
	if err != nil {
		all = map[string]time.Time{}
	}
	for id, at := range moments(d.uses.unkept(true)) {
		if at.After(all[id]) {
			all[id] = at
		}
	}
	return all
}

func moments(minutes map[ID]int64) map[string]time.Time {
	out := make(map[string]time.Time, len(minutes))
	for id, minute := range minutes {
		out[id.String()] = time.Unix(minute*60, 0).UTC()
	}
	return out
}
