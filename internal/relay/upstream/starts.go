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
// for a start that holds up the starts for other calls. With 4 starts at a time on 2 processors, a
// healthy server needs about 1.8 s, so it still counts all the time.
const (
	startHold = 10 * time.Second
	briefHold = 2 * time.Second
)

// Starts limits how many servers on a pipe start at the same time. Without a limit, the servers of a
// large configuration would take the processors from each other, until all of them exceed their
// Spec.Start. The starts that callers wait for come first. For calls there are as many places again,
// so that a call never waits for the start of a server that nobody has called, but hangs. All methods
// are safe for concurrent use. A nil *Starts has no limit.
type Starts struct {
	mu      sync.Mutex // never held while a server starts
	limit   int
	running int                       // all starts that count
	calls   int                       // those of them that began for a call, each for at most briefHold
	waiting [len(urgencies)][]*ticket // the waiting starts by urgency; each slice is in the order of arrival
}

// urgency says who waits for a start.
type urgency int

const (
	forNobody urgency = iota // the server is opened in the background
	forLists                 // a client waits for the lists of several servers
	forCall                  // a client waits for its call of this server
)

var urgencies = [...]urgency{forNobody, forLists, forCall}

func urgencyOf(ctx context.Context, need mcp.Need) urgency {
	if need.ForCall || mcp.HasCall(ctx) {
		return forCall
	}
	return forLists
}

// ticket is one start. Starts.mu guards the fields urgency and queued.
type ticket struct {
	urgency urgency
	queued  bool
	ready   chan struct{} // closed when the start may begin
	called  bool          // the start began for a call; set before ready is closed
	hold    time.Duration // how long the start counts at most; never changes
}

func newTicket(hold time.Duration) *ticket { return &ticket{ready: make(chan struct{}), hold: hold} }

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
	t.queued = true
	q.waiting[t.urgency] = append(q.waiting[t.urgency], t)
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
	give := func(places *int) func() {
		return sync.OnceFunc(func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			*places--
			q.admitLocked()
		})
	}
	end, endCall := give(&q.running), func() {}
	if t.called {
		endCall = give(&q.calls)
	}
	late, lateCall := time.AfterFunc(t.hold, end), time.AfterFunc(briefHold, endCall)
	return func() {
		late.Stop()
		lateCall.Stop()
		end()
		endCall()
	}
}

// hurry raises the urgency of a start, because somebody else waits for it too.
func (q *Starts) hurry(t *ticket, by urgency) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if by <= t.urgency {
		return
	}
	queued := t.queued
	q.removeLocked(t)
	t.urgency = by
	if queued {
		t.queued = true
		q.waiting[by] = append(q.waiting[by], t)
		q.admitLocked()
	}
}

func (q *Starts) removeLocked(t *ticket) {
	if t.queued {
		t.queued = false
		q.waiting[t.urgency] = slices.DeleteFunc(q.waiting[t.urgency], func(x *ticket) bool { return x == t })
	}
}

// admitLocked begins the next starts, as long as the limit allows it.
func (q *Starts) admitLocked() {
	for u := urgency(len(q.waiting) - 1); u >= 0; {
		called := u == forCall
		if len(q.waiting[u]) == 0 || called && q.calls >= q.limit || !called && q.running >= q.limit {
			u--
			continue
		}
		t := q.waiting[u][0]
		q.waiting[u] = slices.Delete(q.waiting[u], 0, 1)
		t.queued, t.called = false, called
		q.running++
		if called {
			q.calls++
		}
		close(t.ready)
	}
}

// awaitStart waits until the server may be started. The caller must call leave after the handshake.
func (u *Upstream) awaitStart(ctx context.Context, t *ticket) (leave func(), err error) {
	if !u.spec.piped() {
		return func() {}, nil
	}
	leave, err = u.opts.Starts.enter(ctx, t, func() { u.step("waiting until other servers have started") })
	if err != nil {
		u.step("")
		return nil, u.unavailable(err, "cancelled")
	}
	return leave, nil
}
