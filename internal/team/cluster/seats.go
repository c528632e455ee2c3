package cluster

import (
	"context"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// These bound what a replica remembers about seats. When something is full, it's forgotten, and the rows are read again.
const (
	mostSeats    = 100_000
	mostKnown    = 1_000
	mostDue      = 20_000
	mostFactSize = 8 << 10 // nobody can go on with a session of a client that says more about itself
	perStatement = 200     // rows
	mostExtras   = 1 << 20 // bytes of extras in one statement of several rows

	learnAgain = time.Hour // how often facts that are needed are written again
	tidyEvery  = time.Hour
	claimWait  = 2 * time.Second
)

// seats are what this replica knows of the seats, and what it has to write about them.
type seats struct {
	mu     sync.Mutex
	at     map[seatKey]string        // who sits where the id has another name, as far as we know
	known  map[digest]facts          // what clients say
	learn  map[digest][]byte         // facts that have to be written
	keep   map[seatKey]func() []byte // extras that have to be written, as they are then
	free   map[seatKey]struct{}      // seats whose sessions have ended
	mine   map[seatKey]*chair        // those at servers where we sit
	given  map[seatKey]string        // of those that we had: the session with which another one goes on
	going  map[seatKey]struct{}      // those of free that are being written
	frees  uint64                    // how often some were
	stale  bool                      // what we have in mine has to be compared with the rows
	looked time.Time                 // when it was
	giving bool                      // nobody sits down here any more
	due    chan struct{}             // capacity 1: there is something to write
}

type facts struct {
	body    []byte
	written time.Time // when we last wrote that they're needed
}

func newSeats() *seats {
	return &seats{at: map[seatKey]string{}, known: map[digest]facts{}, learn: map[digest][]byte{}, keep: map[seatKey]func() []byte{}, free: map[seatKey]struct{}{}, mine: map[seatKey]*chair{}, given: map[seatKey]string{}, looked: time.Now(), due: make(chan struct{}, 1)}
}

// put sets an entry of a map that must not become too large.
func put[K comparable, V any](m map[K]V, most int, k K, v V) {
	if _, there := m[k]; !there && len(m) >= most {
		clear(m)
	}
	m[k] = v
}

func (s *seats) hurry() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// Seal implements transport.Seats.
func (c *Cluster) Seal(use string, body []byte) string {
	if len(body) > mostFactSize {
		body = nil
	}
	d, now := digestOf(body), time.Now()
	if body != nil {
		c.seats.mu.Lock()
		if f, there := c.seats.known[d]; !there || now.Sub(f.written) > learnAgain {
			put(c.seats.known, mostKnown, d, facts{body, now})
			put(c.seats.learn, mostKnown, d, body)
			c.seats.hurry()
		}
		c.seats.mu.Unlock()
	}
	me := c.me.Load()
	return c.sealer.seal(mark(me.Name, me.Incarnation), use, d, now)
}

// Find implements transport.Seats.
func (c *Cluster) Find(ctx context.Context, id, use string, moved bool) (transport.Estate, error) {
	var none transport.Estate
	home, d, born, ok := c.sealer.open(id, use)
	if !ok {
		return none, transport.ErrNoSession
	}
	key, me := keyOf(id), c.me.Load().Incarnation
	c.seats.mu.Lock()
	sitter, giving := c.seats.at[key], c.seats.giving
	c.seats.mu.Unlock()
	if sitter == "" {
		sitter = home
	}
	if moved {
		c.lookAgain(ctx)
	}
	moved = moved || isHop(ctx) // whoever has passed it on to us knows that the home doesn't have it
	switch {
	case sitter == me && home == me && !giving:
		return none, transport.ErrNoSession // it has ended
	case sitter != me && !moved && c.member(ctx, sitter) != nil:
		return none, &transport.Elsewhere{Home: sitter, Again: true}
	}
	body, err := c.factsOf(ctx, d)
	if err != nil {
		return none, transport.ErrUnsettled
	}
	if body == nil && c.member(ctx, home) == nil {
		return none, transport.ErrNoSession // nobody can go on with it
	}
	s, err := c.claim(ctx, key, home, me)
	switch {
	case err != nil:
		return none, transport.ErrUnsettled
	case s.sitter == "" && home == me:
		return none, transport.ErrNoSession
	case s.sitter == "":
		return none, &transport.Elsewhere{Home: home, Again: true}
	case s.sitter != me:
		return none, &transport.Elsewhere{Home: s.sitter, Again: true}
	case body == nil:
		return none, transport.ErrNoSession
	}
	x := transport.Estate{ID: id, Facts: body, Extras: s.extras, Age: max(0, time.Since(born))}
	if giving {
		_, _ = c.Give(ctx, []transport.Estate{x})
		return none, transport.ErrUnsettled // the next look finds the heir
	}
	return x, nil
}

// claim sits down where nobody sits who lives, and remembers who sits there.
func (c *Cluster) claim(ctx context.Context, key seatKey, home, me string) (seat, error) {
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	s, err := c.rows.claim(ctx, key, home, me)
	if err != nil {
		return s, err
	}
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	if s.sitter == "" || s.sitter == home {
		delete(c.seats.at, key)
	} else {
		put(c.seats.at, mostSeats, key, s.sitter)
	}
	return s, nil
}

// factsOf returns facts, or nil if nobody knows them.
func (c *Cluster) factsOf(ctx context.Context, d digest) ([]byte, error) {
	if d == (digest{}) {
		return nil, nil
	}
	c.seats.mu.Lock()
	f, there := c.seats.known[d]
	c.seats.mu.Unlock()
	if there {
		return f.body, nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	body, err := c.rows.facts(ctx, d)
	if err == nil && body != nil {
		c.seats.mu.Lock()
		put(c.seats.known, mostKnown, d, facts{body: body})
		c.seats.mu.Unlock()
	}
	return body, err
}

// GiveAway lets nobody sit down here any more, before the sessions are given to others.
func (c *Cluster) GiveAway() {
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	c.seats.giving = true
}

// forget forgets what was to be written about seats that others have taken.
func (s *seats) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.keep)
	clear(s.free)
	clear(s.at)
	for key := range s.mine {
		s.loseLocked(key)
	}
}

// Keep implements transport.Seats.
func (c *Cluster) Keep(id string, extras func() []byte) {
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	put(c.seats.keep, mostDue, keyOf(id), extras)
	c.seats.hurry()
}

// Release implements transport.Seats.
func (c *Cluster) Release(id string) {
	key := keyOf(id)
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	delete(c.seats.keep, key)
	delete(c.seats.at, key)
	put(c.seats.free, mostDue, key, struct{}{})
	c.seats.hurry()
}

// Give implements transport.Seats.
func (c *Cluster) Give(ctx context.Context, all []transport.Estate) (lost []string, err error) {
	me := c.me.Load().Incarnation
	ready := heirs(c.Members(), me)
	if len(ready) == 0 {
		return nil, transport.ErrNoHeir
	}
	ids := map[seatKey]string{}
	list := make([]seat, 0, len(all))
	for i := range all {
		key := keyOf(all[i].ID)
		ids[key] = all[i].ID
		list = append(list, seat{key, heir(key, ready), all[i].Extras})
	}
	c.seats.mu.Lock()
	for _, s := range list { // what is written later must not be less than this
		delete(c.seats.keep, s.key)
	}
	c.seats.mu.Unlock()
	for part := range statements(list) {
		limited, cancel := context.WithTimeout(ctx, within)
		_, err = c.rows.give(limited, me, part)
		cancel()
		if err != nil {
			return lost, err
		}
		c.seats.mu.Lock()
		for _, s := range part {
			// Who isn't given is somebody else's already.
			delete(c.seats.at, s.key)
			lost = append(lost, ids[s.key])
		}
		c.seats.mu.Unlock()
	}
	return lost, nil
}

// statements returns the parts of a list that can be written at once.
func statements(list []seat) iter.Seq[[]seat] {
	return func(yield func([]seat) bool) {
		for len(list) > 0 {
			n, size := 1, len(list[0].extras)
			for n < min(len(list), perStatement) && size+len(list[n].extras) <= mostExtras {
				size += len(list[n].extras)
				n++
			}
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// HasHeirs reports whether there are replicas to which this one could give its sessions.
func (c *Cluster) HasHeirs() bool { return len(heirs(c.Members(), c.me.Load().Incarnation)) > 0 }

// heirs returns the replicas that can go on with what another one leaves.
func heirs(all []Member, me string) (out []string) {
	for i := range all {
		if m := &all[i]; m.Incarnation != me && writes(m) {
			out = append(out, m.Incarnation)
		}
	}
	return out
}

// heir returns who gets a seat. Each key has another order of heirs, so that those of one replica are spread.
func heir(key seatKey, all []string) (best string) {
	var most uint64
	for _, x := range all {
		h := fnv.New64a()
		_, _ = h.Write(key[:])
		_, _ = h.Write([]byte(x))
		if n := h.Sum64(); best == "" || n > most {
			best, most = x, n
		}
	}
	return best
}

// writeSeats writes what is due about seats until ctx ends. What can't be written waits, and is tried again.
func (c *Cluster) writeSeats(ctx context.Context) {
	tidied := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.seats.due:
		case <-time.After(tidyEvery):
		}
		if c.writeDue(ctx) != nil {
			c.seats.hurry()
			_ = work.Sleep(ctx, beatEvery)
			continue
		}
		if time.Since(tidied) >= tidyEvery {
			limited, cancel := context.WithTimeout(ctx, 10*within)
			if c.rows.tidy(limited) == nil {
				tidied = time.Now()
			}
			cancel()
		}
		_ = work.Sleep(ctx, beatEvery/10) // so that more comes together
	}
}

// writeDue writes what is due about seats once.
func (c *Cluster) writeDue(ctx context.Context) error {
	s, me := c.seats, c.me.Load().Incarnation
	s.mu.Lock()
	learn, keep, free := s.learn, s.keep, s.free
	if s.going = free; len(free) > 0 {
		s.frees++
	}
	s.learn, s.keep, s.free = map[digest][]byte{}, map[seatKey]func() []byte{}, map[seatKey]struct{}{}
	s.mu.Unlock()
	do := func(f func(context.Context) error) error {
		limited, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return f(limited)
	}
	var err error
	if len(learn) > 0 {
		err = do(func(ctx context.Context) error { return c.rows.learn(ctx, slices.Collect(maps.Values(learn))) })
	}
	var kept []seat
	for key, extras := range keep {
		kept = append(kept, seat{key, me, extras()})
	}
	for part := range statements(kept) {
		if err == nil {
			err = do(func(ctx context.Context) error { return c.rows.keep(ctx, part) })
		}
	}
	for part := range slices.Chunk(slices.Collect(maps.Keys(free)), perStatement) {
		if err == nil {
			err = do(func(ctx context.Context) error { return c.rows.free(ctx, me, part) })
		}
	}
	if err == nil {
		err = c.compare(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.going = nil
	if err == nil {
		return nil
	}
	// Newer entries count.
	for d, body := range learn {
		put(s.learn, mostKnown, d, body)
	}
	for key, extras := range keep {
		_, newer := s.keep[key]
		_, ended := s.free[key]
		if !newer && !ended {
			put(s.keep, mostDue, key, extras)
		}
	}
	for key := range free {
		put(s.free, mostDue, key, struct{}{})
	}
	return err
}
