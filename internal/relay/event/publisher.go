package event

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Publisher passes events to its subscribers. The zero value is ready to use. A nil
// Publisher publishes nothing. Publisher is safe for concurrent use.
type Publisher struct {
	want atomic.Uint32 // all kinds that at least one subscriber wants
	subs atomic.Pointer[subscribers]
	call atomic.Uint64 // the number of the latest call
	mu   sync.Mutex    // guards changes to subs

	of      *Publisher // what For was called on; nil for a Publisher with its own subscribers
	project string     // the project of the events, if of is set
}

// For returns a Publisher for what belongs to one project: it passes events on to p, and each of
// them is the project's, so that nobody who publishes can forget or forge it. Calls have one sequence
// of numbers in all projects.
func (p *Publisher) For(project string) *Publisher {
	if p == nil {
		return nil
	}
	return &Publisher{of: p.root(), project: project}
}

// root returns the Publisher that has the subscribers of p.
func (p *Publisher) root() *Publisher {
	if p.of != nil {
		return p.of
	}
	return p
}

// subscribers is immutable after it is published.
type subscribers struct {
	taps   []*tap
	queues []*Queue
}

type tap struct {
	want Kinds
	f    func(Event)
}

// Wants reports whether a subscriber wants events of a kind. Callers use Wants before they build a
// costly event.
func (p *Publisher) Wants(k Kind) bool { return p != nil && Kinds(p.root().want.Load()).Has(k) }

// NextCall returns the number of a new call. All events of the call contain this number. Numbers
// start at 1. For a nil Publisher, NextCall returns 0.
func (p *Publisher) NextCall() uint64 {
	if p == nil {
		return 0
	}
	return p.root().call.Add(1)
}

// Publish passes e to all subscribers that want events of its kind. If e has no time or no project,
// Publish sets it; the project of a Publisher from For replaces any other. Publish never waits for a slow subscriber and does not allocate memory. Do not
// call Publish while you hold a lock.
func (p *Publisher) Publish(e Event) {
	if !p.Wants(e.Kind) {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	switch {
	case p.of != nil:
		e.Project = p.project
	case e.Project == "":
		e.Project = DefaultProject
	}
	s := p.root().subs.Load()
	for _, t := range s.taps {
		if t.want.Has(e.Kind) {
			t.f(e)
		}
	}
	e.Client = nil // Client shares memory with the request, which a queue would keep in memory
	for _, q := range s.queues {
		if q.want.Has(e.Kind) {
			q.push(&e)
		}
	}
}

// Tap calls f for each event of the kinds in want, in the goroutine that publishes it. So several
// goroutines may call f at the same time. f must be fast, must not block and must not publish.
// After stop returns, f may still get an event whose publication began before.
func (p *Publisher) Tap(want Kinds, f func(Event)) (stop func()) {
	t := &tap{want, f}
	p.change(func(s *subscribers) { s.taps = append(s.taps, t) })
	return func() {
		p.change(func(s *subscribers) {
			s.taps = slices.DeleteFunc(s.taps, func(x *tap) bool { return x == t })
		})
	}
}

// Subscribe returns a queue of the events of the given kinds that are published from now on.
// The queue holds depth events, at least one. When it is full, the oldest event is dropped and
// counted as lost. The caller must close the queue.
func (p *Publisher) Subscribe(want Kinds, depth int) *Queue {
	q := &Queue{of: p, want: want, ring: make([]Event, max(depth, 1)), wake: make(chan struct{}, 1)}
	p.change(func(s *subscribers) { s.queues = append(s.queues, q) })
	return q
}

// change replaces the list of subscribers with a changed copy.
func (p *Publisher) change(f func(*subscribers)) {
	p = p.root()
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &subscribers{}
	if now := p.subs.Load(); now != nil {
		next.taps, next.queues = slices.Clone(now.taps), slices.Clone(now.queues)
	}
	f(next)
	var want Kinds
	for _, t := range next.taps {
		want |= t.want
	}
	for _, q := range next.queues {
		want |= q.want
	}
	p.subs.Store(next) // stored before want, so that a publisher that sees the new want finds the new subscriber
	p.want.Store(uint32(want))
}

// ErrClosed is returned by Wait when a closed queue is empty.
var ErrClosed = errors.New("the queue is closed")

// Queue is a bounded queue of events. One goroutine waits for events; several may take them.
type Queue struct {
	of   *Publisher
	want Kinds
	wake chan struct{} // capacity 1; signals that an event was added, or that the queue was closed

	mu     sync.Mutex // held only while one event is copied
	ring   []Event
	first  int
	n      int
	lost   int64 // the number of events dropped since the last Take
	closed bool
}

func (q *Queue) push(e *Event) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	if q.n == len(q.ring) {
		q.first = (q.first + 1) % len(q.ring)
		q.n--
		q.lost++
	}
	q.ring[(q.first+q.n)%len(q.ring)] = *e
	q.n++
	q.mu.Unlock()
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Wait waits until the queue has an event. It returns ErrClosed if the queue is closed and empty,
// and the cause of ctx if ctx ends first. Another goroutine may take the event before the caller
// does.
func (q *Queue) Wait(ctx context.Context) error {
	for {
		q.mu.Lock()
		n, closed := q.n, q.closed
		q.mu.Unlock()
		switch {
		case n > 0:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Take moves events to buf and does not wait. n is the number of moved events. lost is the number
// of events that were dropped before them.
func (q *Queue) Take(buf []Event) (n int, lost int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for n < len(buf) && q.n > 0 {
		buf[n] = q.ring[q.first]
		q.ring[q.first] = Event{} // release the strings of the event
		q.first = (q.first + 1) % len(q.ring)
		q.n--
		n++
	}
	if n > 0 {
		lost, q.lost = q.lost, 0
	}
	return n, lost
}

// Close ends the subscription. Events in the queue can still be read, so a log can be
// flushed at the end. Close may be called more than once.
func (q *Queue) Close() {
	q.of.change(func(s *subscribers) {
		s.queues = slices.DeleteFunc(s.queues, func(x *Queue) bool { return x == q })
	})
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}
