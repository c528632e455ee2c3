package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// livesLocked reports whether the row of an incarnation says that it lives.
func (w *world) livesLocked(incarnation string) bool {
	row := w.rows[incarnation]
	return row != nil && row.Lives()
}

func (r *replica) claim(_ context.Context, key seatKey, home, me string) (seat, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if err := r.reach(); err != nil {
		return seat{}, err
	}
	s := r.w.seats[key]
	switch {
	case s == nil && r.w.livesLocked(home):
		return seat{key: key}, nil
	case s == nil:
		s = &seat{key: key, sitter: me}
		r.w.seats[key] = s
	case !r.w.livesLocked(s.sitter):
		s.sitter = me
	}
	return *s, nil
}

func (r *replica) give(_ context.Context, from string, all []seat) (done []seatKey, err error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if err := r.reach(); err != nil {
		return nil, err
	}
	for _, s := range all {
		if there := r.w.seats[s.key]; there == nil || there.sitter == from {
			r.w.seats[s.key] = &s
			done = append(done, s.key)
		}
	}
	return done, nil
}

func (r *replica) keep(_ context.Context, all []seat) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if err := r.reach(); err != nil {
		return err
	}
	for _, s := range all {
		if there := r.w.seats[s.key]; there == nil || there.sitter == s.sitter {
			r.w.seats[s.key] = &s
		}
	}
	return nil
}

func (r *replica) free(_ context.Context, me string, all []seatKey) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if err := r.reach(); err != nil {
		return err
	}
	for _, key := range all {
		if there := r.w.seats[key]; there != nil && there.sitter == me {
			delete(r.w.seats, key)
		}
	}
	return nil
}

func (r *replica) touch(_ context.Context, me string, all []seatKey) (done []seatKey, err error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if err := r.reach(); err != nil {
		return nil, err
	}
	for _, key := range all {
		if there := r.w.seats[key]; there != nil && there.sitter == me {
			done = append(done, key)
		}
	}
	return done, nil
}

func (r *replica) learn(context.Context, [][]byte) error             { return nil }
func (r *replica) tidy(context.Context) error                        { return nil }
func (r *replica) facts(_ context.Context, _ digest) ([]byte, error) { return []byte("facts"), nil }

// ask is what a replica hears when it asks another one whether that reaches the database.
func (r *replica) ask(_ context.Context, m *Member) word {
	r.w.mu.Lock()
	x := r.w.find(m.Incarnation)
	silent := !r.lonely.IsZero() || !r.stopped.IsZero() || x == nil || !x.stopped.IsZero()
	gone := x != nil && !x.killed.IsZero()
	r.w.mu.Unlock()
	switch {
	case !silent && !gone && x.knows(r.c.me.Load().Incarnation):
		return reaches
	case silent:
		return noAnswer
	case gone:
		return nobody
	case x.c.reachesStore():
		return reaches
	}
	return away
}

// find returns the replica that is an incarnation, or nil.
func (w *world) find(incarnation string) *replica {
	for _, x := range w.all {
		if x.c.mine(incarnation) {
			return x
		}
	}
	return nil
}

// knows reports whether a replica knows that another one is dead, and so doesn't talk to it.
func (r *replica) knows(dead string) bool {
	m := r.c.view.Load().by[dead]
	return m != nil && !m.Lives()
}

func (r *replica) runs() bool { return r.killed.IsZero() && r.stopped.IsZero() }

// serves reports whether a replica would serve a session from its table.
func (r *replica) serves(id string) bool {
	term, there := r.table[id]
	return there && r.runs() && term == r.c.Term() && r.c.fence.open()
}

// takes reports whether a replica serves a session, or begins to. err is what Find said.
func (r *replica) takes(ctx context.Context, id string, moved bool) (ok bool, err error) {
	if r.serves(id) {
		return true, nil
	}
	if !r.c.fence.open() {
		return false, transport.ErrUnsettled
	}
	if _, err = r.c.Find(ctx, id, "use", moved); err == nil {
		r.table[id] = r.c.Term()
	}
	return err == nil, err
}

// request lets a client of a session ask a replica, which passes it on if it has to.
func (w *world) request(ctx context.Context, r *replica, id string) {
	w.asked++
	moved := false
	for range 3 {
		ok, err := r.takes(ctx, id, moved)
		var to *transport.Elsewhere
		if errors.As(err, &to) {
			if x := w.find(to.Home); x != nil && x.runs() && r.lonely.IsZero() {
				ok, _ = x.takes(ctx, id, false)
				moved = true
			}
		}
		if ok {
			w.served++
			return
		}
	}
}

// leave lets a replica give away what it has, and stop.
func (r *replica) leave(ctx context.Context) {
	if !r.runs() {
		return
	}
	r.c.GiveAway()
	var all []transport.Estate
	for id := range r.table {
		if r.serves(id) {
			all = append(all, transport.Estate{ID: id})
		}
	}
	lost, _ := r.c.Give(ctx, all)
	for _, id := range lost {
		delete(r.table, id)
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	r.c.HandOver(limited)
	cancel()
	_, _ = r.beat(ctx, r.c.me.Load().Incarnation, Gone, false)
	r.w.mu.Lock()
	r.killed = time.Now()
	r.w.mu.Unlock()
	r.stop()
}

// checkSeats checks that no session has two replicas that would serve it.
func (w *world) checkSeats(t *testing.T) {
	t.Helper()
	for _, id := range w.ids {
		at := ""
		for _, r := range w.all {
			if !r.serves(id) {
				continue
			}
			if at != "" {
				t.Errorf("session %.20s is at %s and %s", id, at, r.c.o.Name)
			}
			at = r.c.o.Name
		}
	}
}

// callServer lets a client without a session call a server through a replica. If the session with the server ends then,
// nobody needs the seat any more.
func (w *world) callServer(ctx context.Context, r *replica, name string, ends bool) {
	w.asked++
	for range 3 {
		at := r
		leave, err := r.sit(ctx, name)
		var to *transport.Elsewhere
		if errors.As(err, &to) {
			if at = w.find(to.Home); at != nil && at.runs() && r.lonely.IsZero() {
				leave, err = at.sit(context.WithValue(ctx, hopped{}, true), name)
			}
			if err != nil {
				to.Forget()
			}
		}
		if err == nil {
			w.served++
			leave()
			if ends {
				at.c.Rise(name)
			}
			return
		}
	}
}

func (r *replica) sit(ctx context.Context, name string) (leave func(), err error) {
	if !r.c.fence.open() {
		return nil, transport.ErrUnsettled // it would wait
	}
	return r.c.Sit(ctx, name)
}

// checkChairs checks that no seat at a server has two replicas that would serve it. While the database is away, and until
// it knows what happened meanwhile, two may sit down that don't know of each other.
func (w *world) checkChairs(t *testing.T, calm time.Duration) {
	t.Helper()
	for _, name := range w.names {
		var at *chair
		for _, r := range w.all {
			r.c.seats.mu.Lock()
			x := r.c.seats.mine[keyOf(chairID(name))]
			if x != nil && (x.parting || x.term != r.c.Term() || !r.runs() || !r.c.fence.open()) {
				x = nil
			}
			r.c.seats.mu.Unlock()
			if x != nil && at != nil && (!x.loose && !at.loose || calm > 20*time.Second) {
				t.Errorf("the seat %q has two that serve it: %+v and %+v", name, *at, *x)
			}
			if x != nil {
				at = x
			}
		}
	}
}
