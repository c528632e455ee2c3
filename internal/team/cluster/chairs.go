package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Clients without a session share one with a legacy server, and it's at one replica. For each there's a seat as for a
// client's session, but its key is a name that all replicas know, so nothing says where it is but its row. While there's
// no row, the first choice of all replicas that are ready gets the first request.

// partWait is how long a replica that leaves waits for the calls at a seat before it gives the seat away. New calls wait
// meanwhile, so that none begins elsewhere before those have ended.
const partWait = 5 * time.Second

// chair is such a seat at which we sit.
type chair struct {
	id      string
	term    uint64 // others have taken what we had in an earlier one
	calls   int    // that run
	parting bool   // it's about to be another one's, so calls wait
	loose   bool   // the database doesn't know of it
	session string // what Note was told last
	extras  []byte // what that needs, sealed
	fresh   bool   // extras are of another one, and nobody has asked for them yet
}

// chairID returns what stands for a seat in place of the id of a session. No id has a line feed.
func chairID(name string) string { return "server\n" + name }

// Sit implements upstream.Seats.
func (c *Cluster) Sit(ctx context.Context, name string) (leave func(), err error) {
	id := chairID(name)
	key := keyOf(id)
	if !c.Holds(ctx) {
		return nil, c.elsewhere(key, "")
	}
	term, me, hop, s := c.Term(), c.me.Load().Incarnation, isHop(ctx), c.seats
	s.mu.Lock()
	if x := s.chairLocked(key, term); x != nil {
		defer s.mu.Unlock()
		return c.sitLocked(key, x)
	}
	_, going := s.going[key]
	sitter, giving, frees := s.at[key], s.giving, s.frees
	s.mu.Unlock()
	if going {
		return nil, c.elsewhere(key, "")
	}
	if sitter != "" && sitter != me && !hop && c.member(ctx, sitter) != nil {
		return nil, c.elsewhere(key, sitter)
	}
	first, home, sits := c.first(key, me, giving), "", me
	switch {
	case giving && first != me && hop:
		return nil, c.elsewhere(key, "")
	case giving:
		sits = first // who leaves writes the row of its heir
	case first != me && !hop: // whoever has passed it on to us wants us to sit down
		home = first
	}
	loose := false
	limited, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	now, err := c.rows.claim(limited, key, home, sits)
	switch {
	case err == nil && now.sitter == "", err != nil && c.nobodyReaches():
		now.sitter, loose = first, err != nil
	case err != nil:
		return nil, c.elsewhere(key, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.sitter != me {
		put(s.at, mostSeats, key, now.sitter)
		return nil, c.elsewhere(key, now.sitter)
	}
	if s.frees != frees || c.Term() != term || !c.fence.open() { // the row may not be there any more, or not for us
		return nil, c.elsewhere(key, "")
	}
	x := s.chairLocked(key, term)
	if x == nil {
		x = &chair{id: id, term: term, loose: loose, extras: now.extras, fresh: len(now.extras) > 0}
		s.mine[key] = x
		delete(s.given, key)
		delete(s.free, key)
		delete(s.at, key)
		if loose {
			s.hurry()
		}
	}
	return c.sitLocked(key, x)
}

// chairLocked returns a seat of ours, or nil.
func (s *seats) chairLocked(key seatKey, term uint64) *chair {
	x := s.mine[key]
	if x != nil && x.term != term {
		s.loseLocked(key)
		return nil
	}
	return x
}

func (c *Cluster) sitLocked(key seatKey, x *chair) (leave func(), err error) {
	if x.parting {
		return nil, c.elsewhere(key, "")
	}
	x.calls++
	return func() {
		c.seats.mu.Lock()
		defer c.seats.mu.Unlock()
		x.calls--
	}, nil
}

// elsewhere returns the error for a request that is for another replica. "" means that nobody can say now which it is.
func (c *Cluster) elsewhere(key seatKey, home string) error {
	return fmt.Errorf("%w: %w", errNotSent, &transport.Elsewhere{Home: home, Again: true, Forget: func() {
		c.seats.mu.Lock()
		defer c.seats.mu.Unlock()
		if c.seats.at[key] == home {
			delete(c.seats.at, key)
		}
	}})
}

// first returns who sits down where nobody does.
func (c *Cluster) first(key seatKey, me string, giving bool) string {
	all := heirs(c.Members(), me)
	if len(all) == 0 || !giving && c.doing() == Ready {
		all = append(all, me)
	}
	return heir(key, all)
}

// Rise implements upstream.Seats.
func (c *Cluster) Rise(name string) {
	key, s := keyOf(chairID(name)), c.seats
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.mine[key]
	if x == nil || x.calls > 0 || x.parting {
		return
	}
	delete(s.mine, key)
	delete(s.keep, key)
	if x.term == c.Term() && !x.loose {
		put(s.free, mostDue, key, struct{}{})
		s.hurry()
	}
}

// Note implements upstream.Seats.
func (c *Cluster) Note(name, session string, what func() []byte) {
	key, s := keyOf(chairID(name)), c.seats
	s.mu.Lock()
	x := s.mine[key]
	known := x == nil || x.session == session
	s.mu.Unlock()
	if known {
		return
	}
	sealed := c.sealer.hide(key, what())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mine[key] == x && !x.parting {
		x.session, x.extras, x.fresh = session, sealed, false
		put(s.keep, mostDue, key, func() []byte { return sealed })
		s.hurry()
	}
}

// Left implements upstream.Seats.
func (c *Cluster) Left(name string) []byte {
	key, s := keyOf(chairID(name)), c.seats
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.mine[key]
	if x == nil || !x.fresh {
		return nil
	}
	x.fresh = false
	return c.sealer.show(key, x.extras)
}

// Gave implements upstream.Seats.
func (c *Cluster) Gave(name, session string) bool {
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	was, gave := c.seats.given[keyOf(chairID(name))]
	return gave && was == session
}

// loseLocked takes away a seat with whose session another replica may go on.
func (s *seats) loseLocked(key seatKey) {
	if x := s.mine[key]; x != nil {
		put(s.given, mostSeats, key, x.session)
		delete(s.mine, key)
	}
}

// HandOver gives the seats at servers to other replicas, each when its calls have ended. It returns when none is left, when
// nobody can take them, or when ctx ends.
func (c *Cluster) HandOver(ctx context.Context) {
	late, s := time.Now().Add(partWait), c.seats
	for {
		var all []transport.Estate
		s.mu.Lock()
		for key, x := range s.mine {
			if x.term != c.Term() {
				s.loseLocked(key)
				continue
			}
			if x.parting = true; x.calls == 0 || time.Now().After(late) {
				all = append(all, transport.Estate{ID: x.id, Extras: x.extras})
			}
		}
		left := len(s.mine)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		lost, err := c.Give(ctx, all)
		s.mu.Lock()
		for _, id := range lost {
			s.loseLocked(keyOf(id))
		}
		if errors.Is(err, transport.ErrNoHeir) {
			for _, x := range s.mine {
				x.parting = false
			}
		}
		s.mu.Unlock()
		if errors.Is(err, transport.ErrNoHeir) || work.Sleep(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// compareSoon has the seats compared with their rows: the database could have lost some.
func (c *Cluster) compareSoon() {
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	c.seats.stale = true
	c.seats.hurry()
}

// compare writes from time to time that our seats are needed, and sits down where the database doesn't know of us. If
// somebody else sits there, we have lost the seat.
func (c *Cluster) compare(ctx context.Context) error {
	s, me, term := c.seats, c.me.Load().Incarnation, c.Term()
	var loose, known []seatKey
	s.mu.Lock()
	all := s.stale || time.Since(s.looked) >= tidyEvery
	for key, x := range s.mine {
		switch {
		case x.term != term || x.parting:
		case x.loose:
			loose = append(loose, key)
		case all:
			known = append(known, key)
		}
	}
	s.mu.Unlock()
	for len(known) > 0 {
		part := known[:min(len(known), perStatement)]
		limited, cancel := context.WithTimeout(ctx, within)
		ours, err := c.rows.touch(limited, me, part)
		cancel()
		if err != nil {
			return err
		}
		there := map[seatKey]bool{}
		for _, key := range ours {
			there[key] = true
		}
		for _, key := range part {
			if !there[key] {
				loose = append(loose, key)
			}
		}
		known = known[len(part):]
	}
	for _, key := range loose {
		limited, cancel := context.WithTimeout(ctx, within)
		now, err := c.rows.claim(limited, key, "", me)
		cancel()
		if err != nil {
			return err
		}
		s.mu.Lock()
		if x := s.chairLocked(key, term); x != nil && now.sitter == me {
			x.loose = false
		} else if x != nil {
			s.loseLocked(key)
			put(s.at, mostSeats, key, now.sitter)
		} else if now.sitter == me {
			put(s.free, mostDue, key, struct{}{}) // its session has ended meanwhile
			s.hurry()
		}
		s.mu.Unlock()
	}
	if all {
		s.mu.Lock()
		s.stale, s.looked = false, time.Now()
		s.mu.Unlock()
	}
	return nil
}
