package httpdoor

import (
	"container/heap"
	"context"
	"maps"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
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

// watch holds the resting connections and the detached streams of a server, and waits for all of them
// in one goroutine. A resting connection has no goroutine and no buffers, because net/http believes
// that it's closed. With its next byte it becomes a new connection for net/http, which accepts it
// from the watch: to net/http, a watch is a listener.
type watch struct {
	server  *http.Server
	running work.Group
	after   time.Duration // restAfter, except in tests

	mu      sync.Mutex
	poll    *poller // nil until there is a connection that could rest
	closed  bool
	last    uint64 // the newest token
	resting map[uint64]*conn
	streams map[uint64]*detached
	empty   chan struct{} // made by wait, which wants to know when there are no streams
	times   timetable     // when something is due for a token, which may be gone by then
	next    time.Time     // when Accept looks at times again; zero for never
	sooner  bool          // next is too late
	fresh   int           // connections that have begun to rest since the last shrink
	shrink  *time.Timer   // nil until the first shrink is due
	shrunk  time.Time     // the last shrink

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
	w.poll, w.resting, w.streams = poll, make(map[uint64]*conn), make(map[uint64]*detached)
	w.mu.Unlock()
	return w.running.Go(func() { _ = w.server.Serve(w) })
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
	w.shrinkLaterLocked()
	early := !until.IsZero() && w.scheduleLocked(until, token)
	w.mu.Unlock()
	if early {
		w.poll.wakeAt(past)
	}
	events := forBytes
	if len(c.early) > 0 {
		events = atOnce
	}
	if err := w.poll.add(c.Conn, token, events); err != nil && w.take(token) != nil {
		_ = c.Close()
	}
}

// restAgain makes the connection of a stream rest, which has ended.
func (w *watch) restAgain(d *detached) {
	var until time.Time
	if w.server.IdleTimeout > 0 {
		until = time.Now().Add(w.server.IdleTimeout)
	}
	w.rest(&conn{Conn: d.tcp, number: d.number, watch: w, early: d.early}, until)
}

// follow adds a stream, and gives it its token. It returns false if the server is closing.
func (w *watch) follow(d *detached) bool {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return false
	}
	w.last++
	d.token = w.last
	w.streams[d.token] = d
	early := w.scheduleLocked(time.Now().Add(d.c.stream.rules.KeepAlive), d.token)
	w.mu.Unlock()
	if early {
		w.poll.wakeAt(past)
	}
	return true
}

func (w *watch) unfollow(d *detached) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.streams, d.token)
	if len(w.streams) == 0 && w.empty != nil {
		close(w.empty)
		w.empty = nil
	}
}

// wait waits until all streams have ended, or until ctx ends.
func (w *watch) wait(ctx context.Context) error {
	w.mu.Lock()
	if len(w.streams) == 0 {
		w.mu.Unlock()
		return nil
	}
	if w.empty == nil {
		w.empty = make(chan struct{})
	}
	empty := w.empty
	w.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end aborts all streams, and waits until the watch has no goroutines. It must be closed.
func (w *watch) end() {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.streams))
	w.mu.Unlock()
	for _, d := range all {
		d.c.abort()
		_ = d.tcp.Close() // it may be writing the end of the body, which abort doesn't stop
	}
	_ = w.wait(context.Background())
	w.running.Wait()
}

// shrinkLaterLocked counts a connection that begins to rest, and puts off the shrink that is due after enough.
func (w *watch) shrinkLaterLocked() {
	if w.fresh++; w.fresh < shrinkAt {
		return
	}
	wait := max(shrinkAfter, time.Until(w.shrunk.Add(shrinkEvery)))
	if w.shrink == nil {
		w.shrink = time.AfterFunc(wait, w.shrinkNow)
	} else {
		w.shrink.Reset(wait)
	}
}

func (w *watch) shrinkNow() {
	w.mu.Lock()
	w.fresh, w.shrunk = 0, time.Now()
	w.mu.Unlock()
	w.running.Go(func() {
		runtime.GC() // net/http's buffers are in a sync.Pool, which survives one collection
		debug.FreeOSMemory()
	})
}

// scheduleLocked adds an entry to times. It returns true if the caller must wake Accept.
func (w *watch) scheduleLocked(at time.Time, token uint64) bool {
	heap.Push(&w.times, turn{at, token})
	early := w.next.IsZero() || at.Before(w.next)
	w.sooner = w.sooner || early
	return early
}

// take removes a resting connection, and returns nil if it's not there any more.
func (w *watch) take(token uint64) *conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.resting[token]
	delete(w.resting, token)
	return c
}

func (w *watch) stream(token uint64) *detached {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams[token]
}

// Accept implements net.Listener. It returns the resting connections whose next bytes have arrived,
// or which the client has closed. It closes those whose time is over.
func (w *watch) Accept() (net.Conn, error) {
	for {
		for len(w.found) > 0 {
			token := w.found[0]
			w.found = w.found[1:]
			if c := w.take(token); c != nil {
				w.poll.remove(c.Conn)
				return c, nil
			}
			// As with net/http, a client that has sent a request during the stream may have closed its
			// side after that.
			if d := w.stream(token); d != nil && atEnd(d.tcp) {
				d.gone.Store(true)
				d.nudge()
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
		due := w.dueLocked(time.Now())
		w.next, w.sooner = time.Time{}, false
		if len(w.times) > 0 {
			w.next = w.times[0].at
		}
		next := w.next
		w.mu.Unlock()
		for _, c := range due.over {
			_ = c.Close()
		}
		for _, d := range due.silent {
			d.nudge()
		}
		w.poll.wakeAt(next)
		w.mu.Lock()
		again = w.sooner // rest or follow may have called wakeAt before us
		w.mu.Unlock()
	}
}

// dues is what is due.
type dues struct {
	over   []*conn     // connections that have rested for too long
	silent []*detached // streams that need a keep-alive comment
}

// dueLocked removes the entries of times that are due or no longer needed.
func (w *watch) dueLocked(now time.Time) (due dues) {
	for len(w.times) > 0 {
		first := w.times[0]
		c, d := w.resting[first.token], w.streams[first.token]
		if first.at.After(now) && (c != nil || d != nil) {
			break
		}
		heap.Pop(&w.times)
		switch {
		case c != nil:
			delete(w.resting, first.token)
			due.over = append(due.over, c)
		case d != nil:
			left := d.c.stream.rules.KeepAlive - d.silent()
			if left <= 0 {
				due.silent = append(due.silent, d)
				left = d.c.stream.rules.KeepAlive
			}
			heap.Push(&w.times, turn{now.Add(left), first.token})
		}
	}
	return due
}

// Close implements net.Listener. It closes all resting connections. Those that would rest later are
// closed instead. Streams go on, but nobody notices any more that their client has gone.
func (w *watch) Close() error {
	w.mu.Lock()
	poll, all := w.poll, w.resting
	w.closed, w.resting, w.times = true, nil, nil
	if w.shrink != nil {
		w.shrink.Stop()
	}
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
