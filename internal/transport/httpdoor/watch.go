package httpdoor

import (
	"container/heap"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// restAfter is how long a connection waits for the next request before it rests.
const restAfter = 5 * time.Second

// When this many connections have begun to rest and none has followed for shrinkAfter, we give the
// memory of their goroutines and buffers back to the system. The runtime alone would take minutes,
// because an idle program allocates nothing and so collects no garbage.
const (
	shrinkAt    = 256
	shrinkAfter = time.Second
	shrinkEvery = 10 * time.Second // and not more often than this
)

// watch holds the resting connections of a server, and waits for all of them in one goroutine. A
// resting connection has no goroutine and no buffers, because net/http believes that it's closed.
// With its next byte it becomes a new connection for net/http, which accepts it from the watch: to
// net/http, a watch is a listener.
type watch struct {
	serve   func(net.Listener) error
	running work.Group
	after   time.Duration // restAfter, except in tests

	mu      sync.Mutex
	poll    *poller // nil until there is a connection that could rest
	closed  bool
	last    uint64 // the newest token
	resting map[uint64]*conn
	times   timetable // when resting connections must be closed; may contain tokens that no longer rest
	next    time.Time // when Accept looks at times again; zero for never
	sooner  bool      // next is too late
	fresh   int       // connections that have begun to rest since the last shrink
	counted int       // fresh when we last looked
	shrunk  time.Time // the last shrink

	found []uint64 // ready connections; only Accept uses it
}

// start makes connections rest from now on, and reports whether they can.
func (w *watch) start() bool {
	w.mu.Lock()
	done, on := w.closed || w.poll != nil, !w.closed
	w.mu.Unlock()
	if done {
		return on
	}
	poll, err := newPoller()
	if err != nil {
		return false // they keep their goroutines
	}
	w.mu.Lock()
	if w.closed || w.poll != nil {
		on = !w.closed
		w.mu.Unlock()
		poll.close()
		return on
	}
	w.poll, w.resting = poll, make(map[uint64]*conn)
	w.mu.Unlock()
	return w.running.Go(func() { _ = w.serve(w) })
}

// rest takes over a connection for which net/http has no request, and closes it if none begins
// before until. The zero time means that it may rest forever.
func (w *watch) rest(c *conn, until time.Time) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		_ = c.Close()
		return
	}
	w.last++
	token := w.last
	w.resting[token] = c
	early := !until.IsZero() && w.scheduleLocked(until, token)
	if w.fresh++; w.fresh == shrinkAt {
		early = w.scheduleLocked(later(time.Now().Add(shrinkAfter), w.shrunk.Add(shrinkEvery)), toShrink) || early
	}
	w.mu.Unlock()
	if early {
		w.poll.wakeAt(past)
	}
	if err := w.poll.add(c.Conn.(syscall.Conn), token); err != nil && w.take(token) != nil {
		_ = c.Close()
	}
}

// toShrink is a token in times that belongs to no connection.
const toShrink = 0

// scheduleLocked adds an entry to times. It returns true if the caller must wake Accept.
func (w *watch) scheduleLocked(at time.Time, token uint64) bool {
	heap.Push(&w.times, turn{at, token})
	early := w.next.IsZero() || at.Before(w.next)
	w.sooner = w.sooner || early
	return early
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// take removes a resting connection, and returns nil if it's not there any more.
func (w *watch) take(token uint64) *conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.resting[token]
	delete(w.resting, token)
	return c
}

// Accept implements net.Listener. It returns the resting connections whose next bytes have arrived,
// or which the client has closed. It closes those whose time is over.
func (w *watch) Accept() (net.Conn, error) {
	for {
		for len(w.found) > 0 {
			token := w.found[0]
			w.found = w.found[1:]
			if c := w.take(token); c != nil {
				w.poll.remove(c.Conn.(syscall.Conn))
				return c, nil
			}
		}
		w.expire()
		var err error
		if w.found, err = w.poll.wait(w.found[:0]); err != nil && !isTimeout(err) {
			return nil, net.ErrClosed
		}
	}
}

// expire does what is due, and makes wait return when something is due again.
func (w *watch) expire() {
	for again := true; again; {
		w.mu.Lock()
		over, shrink := w.dueLocked(time.Now())
		w.next, w.sooner = time.Time{}, false
		if len(w.times) > 0 {
			w.next = w.times[0].at
		}
		next := w.next
		w.mu.Unlock()
		for _, c := range over {
			_ = c.Close()
		}
		if shrink {
			w.running.Go(func() {
				runtime.GC() // net/http's buffers are in a sync.Pool, which survives one collection
				debug.FreeOSMemory()
			})
		}
		w.poll.wakeAt(next)
		w.mu.Lock()
		again = w.sooner // rest may have called wakeAt before us
		w.mu.Unlock()
	}
}

// dueLocked removes the entries of times that are due. over are the connections whose time is over.
func (w *watch) dueLocked(now time.Time) (over []*conn, shrink bool) {
	for len(w.times) > 0 {
		first := w.times[0]
		c := w.resting[first.token]
		if first.at.After(now) && (c != nil || first.token == toShrink) {
			break
		}
		heap.Pop(&w.times)
		switch {
		case c != nil:
			delete(w.resting, first.token)
			over = append(over, c)
		case first.token != toShrink: // the connection rests no longer
		case w.fresh > w.counted:
			w.counted = w.fresh
			heap.Push(&w.times, turn{now.Add(shrinkAfter), toShrink})
		default:
			w.fresh, w.counted, w.shrunk, shrink = 0, 0, now, true
		}
	}
	return over, shrink
}

// Close implements net.Listener. It closes all resting connections. Those that would rest later are
// closed instead.
func (w *watch) Close() error {
	w.mu.Lock()
	poll, all := w.poll, w.resting
	w.closed, w.resting, w.times = true, nil, nil
	w.mu.Unlock()
	if poll != nil {
		poll.close()
	}
	for _, c := range all {
		_ = c.Close()
	}
	return nil
}

// Addr implements net.Listener.
func (w *watch) Addr() net.Addr { return &net.TCPAddr{} }

// timetable is a heap of times.
type timetable []turn

type turn struct {
	at    time.Time
	token uint64
}

func (t timetable) Len() int           { return len(t) }
func (t timetable) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timetable) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timetable) Push(x any)        { *t = append(*t, x.(turn)) }
func (t *timetable) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}
