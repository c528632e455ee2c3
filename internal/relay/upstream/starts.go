package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// startHold bounds how long one start counts. After this time, a server that is still not ready mostly
// waits, for example for a download, and leaves the processors to others. briefHold is the same bound
// where somebody would wait too long otherwise: for the start of a server that hung the last time, and
// for a start for a call. With 4 starts at a time on 2 processors, a healthy server needs about 1.8 s, so
// it still counts all the time.
const (
	startHold = 10 * time.Second
	briefHold = 2 * time.Second
)

// class says which of the starts of one urgency comes first.
type class int

const (
	firstSession   class = iota // the server has no session yet
	furtherSession              // it has one, or another start of it waits or runs, for a client without a principal
	afterHang                   // it hung when it was started the last time
	numClasses
)

// Starts limits how many servers on a pipe start at the same time. Without a limit, the servers of a
// large configuration would take the processors from each other, until all of them exceed their
// Spec.Start. The starts that callers wait for come first. For calls there are as many places again,
// so that a call never waits for the start of a server that nobody has called, but hangs. One place is
// always left for a start that no call waits for, however many calls there are. Clients take
// turns, so one that calls many servers holds up another one for one start, and not for all of its own.
// A program can pass for many clients, though, and each set of capabilities needs a session of its own.
// So a server's first session comes before further ones for clients without a principal, and for those
// the servers take turns too.
// Servers that hung the last time come last. All methods are safe for concurrent use. A nil *Starts has
// no limit.
type Starts struct {
	mu      sync.Mutex // never held while a server starts
	limit   int
	running int                   // all starts that count
	calls   int                   // those of them that began for a call, each for at most briefHold
	waiting [len(urgencies)]round // by urgency
}

// urgency says who waits for a start.
type urgency int

const (
	forNobody urgency = iota // the server is opened in the background
	forLists                 // a client waits for the lists of several servers
	forCall                  // a client waits for its call of this server
)

var urgencies = [...]urgency{forNobody, forLists, forCall}

// waiter is a client that waits for a start.
type waiter struct {
	party string // see mcp.ClientInfo.Party; "" if we wait ourselves
	by    urgency
}

func waiterOf(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) waiter {
	party, called := mcp.CallerOf(ctx)
	if !called && f != nil {
		party = f.Party()
	}
	if called || need.ForCall {
		return waiter{party, forCall}
	}
	return waiter{party, forLists}
}

// ticket is one start. Starts.mu guards urgency, queued and waiters.
type ticket struct {
	class   class  // never changes
	server  string // the name of the server, if class is furtherSession; never changes
	queued  bool
	urgency urgency        // if queued
	waiters map[waiter]int // how many calls of each
	ready   chan struct{}  // closed when the start may begin
	called  bool           // the start began for a call; set before ready is closed
}

func newTicket(c class, server string) *ticket {
	return &ticket{class: c, server: server, waiters: make(map[waiter]int), ready: make(chan struct{})}
}

// maxPassed is how many starts in a row may pass those of a class. Without a bound, a server that hung the
// last time would never start again where new servers are always waiting. Most clients that need a further
// session are honest, so they get every second turn.
var maxPassed = [numClasses]int{furtherSession: 1, afterHang: 3}

// round contains the waiting starts of one urgency. The parties take turns.
type round struct {
	lines  [numClasses][]*line // the next line comes first; no line is empty
	last   string              // the party that had the last turn
	passed [numClasses]int     // how many starts in a row have passed those of a class
	turn   uint64              // how many further sessions have begun
	turns  map[string]uint64   // of each server: turn when its last one began, while others wait
}

// line contains the starts for which one party waits, in the order of arrival. A start for which several
// parties wait is in the line of each of them.
type line struct {
	party   string
	tickets []*ticket
}

func (r *round) add(t *ticket, party string) {
	c := t.class
	if c == furtherSession && mcp.IsPrincipal(party) {
		c = firstSession // nobody passes for many principals
	}
	lines := &r.lines[c]
	for _, l := range *lines {
		if l.party == party {
			l.tickets = append(l.tickets, t)
			return
		}
	}
	end := len(*lines)
	if end > 0 && (*lines)[end-1].party == r.last {
		end-- // the party that has just had its turn can wait for the newcomer
	}
	*lines = slices.Insert(*lines, end, &line{party, []*ticket{t}})
}

// remove removes a start from the lines of some parties, or from all lines if none is given.
func (r *round) remove(t *ticket, parties ...string) {
	for i := range r.lines {
		r.lines[i] = slices.DeleteFunc(r.lines[i], func(l *line) bool {
			if len(parties) == 0 || slices.Contains(parties, l.party) {
				l.tickets = slices.DeleteFunc(l.tickets, func(x *ticket) bool { return x == t })
			}
			return len(l.tickets) == 0
		})
	}
}

// next removes the start whose turn it is, or returns nil if there is none.
func (r *round) next() *ticket {
	at := slices.IndexFunc(r.lines[:], func(lines []*line) bool { return len(lines) > 0 })
	if at < 0 {
		return nil
	}
	for i := at + 1; i < len(r.lines); i++ {
		if len(r.lines[i]) == 0 {
			continue
		}
		if r.passed[i]++; r.passed[i] > maxPassed[i] {
			at = i
			break
		}
	}
	r.passed[at] = 0
	lines := r.lines[at]
	l, t := lines[0], lines[0].tickets[0]
	if class(at) == furtherSession {
		l, t = r.nextFurther()
	}
	i := slices.Index(lines, l)
	copy(lines[i:], lines[i+1:])
	lines[len(lines)-1] = l
	r.last = l.party
	r.remove(t)
	return t
}

// nextFurther returns the start of the server whose last turn is longest ago, and the line that contains
// it. So many clients of one server do not hold up those of another one.
func (r *round) nextFurther() (l *line, t *ticket) {
	for _, x := range r.lines[furtherSession] {
		for _, y := range x.tickets {
			if t == nil || r.turns[y.server] < r.turns[t.server] {
				l, t = x, y
			}
		}
	}
	if r.turns == nil || len(r.lines[furtherSession]) == 1 && len(l.tickets) == 1 {
		r.turns = make(map[string]uint64)
	}
	r.turn++
	r.turns[t.server] = r.turn
	return l, t
}

// NewStarts returns a Starts that lets limit servers start at the same time. The limit is at least 1.
func NewStarts(limit int) *Starts { return &Starts{limit: max(limit, 1)} }

// SetLimit changes the limit. Starts that are running go on.
func (q *Starts) SetLimit(limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = max(limit, 1)
	q.admitLocked()
}

// enter waits until the start t may begin, or until ctx ends. It calls waits before it waits. If it
// returns no error, the caller must call leave after the start; further calls of leave have no effect.
func (q *Starts) enter(ctx context.Context, t *ticket, waits func()) (leave func(), err error) {
	if q == nil {
		return func() {}, nil
	}
	q.mu.Lock()
	q.queueLocked(t)
	q.admitLocked()
	queued := t.queued
	q.mu.Unlock()
	if queued {
		waits()
	}
	select {
	case <-t.ready:
	case <-ctx.Done():
		q.mu.Lock()
		gone := t.queued
		q.removeLocked(t)
		q.mu.Unlock()
		if !gone {
			q.count(t)()
		}
		return nil, context.Cause(ctx)
	}
	return q.count(t), nil
}

// count makes sure that an admitted start stops counting in time. The function leave ends it at once.
func (q *Starts) count(t *ticket) (leave func()) {
	end := sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.running--
		if t.called {
			q.calls--
		}
		q.admitLocked()
	})
	hold := startHold
	if t.class == afterHang || t.called {
		hold = briefHold
	}
	late := time.AfterFunc(hold, end)
	return func() {
		late.Stop()
		end()
	}
}

// hurry says that a client waits for a start. The caller must call forsake if it stops waiting before the
// start is over.
func (q *Starts) hurry(t *ticket, w waiter) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.waiters[w]++
	switch {
	case !t.queued:
	case w.by > t.urgency:
		q.queueLocked(t)
		q.admitLocked()
	case w.by == t.urgency && t.waiters[w] == 1:
		q.waiting[w.by].add(t, w.party)
	}
}

// forsake says that a client no longer waits for a start. As long as others wait as urgently, the start
// keeps its place in their lines.
func (q *Starts) forsake(t *ticket, w waiter) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.waiters[w]--; t.waiters[w] > 0 {
		return
	}
	delete(t.waiters, w)
	switch {
	case !t.queued || w.by < t.urgency:
	case t.mostUrgent() == t.urgency:
		q.waiting[w.by].remove(t, w.party)
	default:
		q.queueLocked(t)
		q.admitLocked()
	}
}

// mostUrgent returns how urgently somebody waits for a start.
func (t *ticket) mostUrgent() (by urgency) {
	for w := range t.waiters {
		by = max(by, w.by)
	}
	return by
}

// queueLocked puts a start at the ends of the lines of those who wait for it most urgently.
func (q *Starts) queueLocked(t *ticket) {
	q.removeLocked(t)
	t.queued, t.urgency = true, t.mostUrgent()
	if t.urgency == forNobody {
		q.waiting[forNobody].add(t, "")
		return
	}
	for w := range t.waiters {
		if w.by == t.urgency {
			q.waiting[w.by].add(t, w.party)
		}
	}
}

func (q *Starts) removeLocked(t *ticket) {
	if t.queued {
		t.queued = false
		q.waiting[t.urgency].remove(t)
	}
}

// admitLocked begins the next starts, as long as the limit allows it.
func (q *Starts) admitLocked() {
	for u := forCall; u >= forNobody; {
		called := u == forCall
		others := q.running - q.calls
		if called && q.calls >= q.limit || !called && q.running >= q.limit && others > 0 {
			u--
			continue
		}
		t := q.waiting[u].next()
		if t == nil {
			u--
			continue
		}
		t.queued, t.called = false, called
		q.running++
		if called {
			q.calls++
		}
		close(t.ready)
	}
}

// awaitStart waits until the server may be started. The caller must call leave after the handshake.
func (c *core) awaitStart(ctx context.Context, t *ticket) (leave func(), err error) {
	if !c.spec.piped() {
		return func() {}, nil
	}
	leave, err = c.opts.Starts.enter(ctx, t, func() { c.step("waiting until other servers have started") })
	if err != nil {
		c.step("")
		return nil, c.unavailable(err, "cancelled")
	}
	return leave, nil
}
