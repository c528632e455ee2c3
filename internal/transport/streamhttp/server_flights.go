package streamhttp

import (
	"math/rand/v2"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// flights are the requests and GET streams that have not returned, so that Close
// can end and await them. Each lane has its own lock; none is held for longer
// than it takes to change a list.
type flights struct {
	lanes [8]lane
}

type lane struct {
	mu     sync.Mutex
	idle   sync.Cond // n is 0
	head   flight    // of a ring
	n      int
	closed bool
	_      [64]byte // lanes do not share a cache line
}

// flight is one of them. It belongs to its response and is not copied.
type flight struct {
	prev, next *flight
	lane       *lane
	conv       transport.Conversation // nil for a GET stream
	response   *response              // likewise
}

func (f *flights) init() {
	for i := range f.lanes {
		l := &f.lanes[i]
		l.idle.L = &l.mu
		l.head.prev, l.head.next = &l.head, &l.head
	}
}

// add reports false once closed.
func (f *flights) add(x *flight) bool {
	l := &f.lanes[rand.Uint32()%uint32(len(f.lanes))]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	x.lane = l
	x.prev, x.next = l.head.prev, &l.head
	x.prev.next, l.head.prev = x, x
	l.n++
	return true
}

func (x *flight) land() {
	l := x.lane
	l.mu.Lock()
	x.prev.next, x.next.prev = x.next, x.prev
	x.prev, x.next = nil, nil
	if l.n--; l.n == 0 {
		l.idle.Broadcast()
	}
	l.mu.Unlock()
}

// close lets nothing more in and returns the conversations of what is in.
func (f *flights) close() (convs []transport.Conversation) {
	for i := range f.lanes {
		l := &f.lanes[i]
		l.mu.Lock()
		l.closed = true
		for x := l.head.next; x != &l.head; x = x.next {
			if x.conv != nil {
				convs = append(convs, x.conv)
			}
		}
		l.mu.Unlock()
	}
	return convs
}

// cut ends the streams of the responses that are in.
func (f *flights) cut() {
	var all []*response
	for i := range f.lanes {
		l := &f.lanes[i]
		l.mu.Lock()
		for x := l.head.next; x != &l.head; x = x.next {
			if x.response != nil {
				all = append(all, x.response)
			}
		}
		l.mu.Unlock()
	}
	for _, res := range all {
		res.cut()
	}
}

func (f *flights) wait() {
	for i := range f.lanes {
		l := &f.lanes[i]
		l.mu.Lock()
		for l.n > 0 {
			l.idle.Wait()
		}
		l.mu.Unlock()
	}
}

func (f *flights) len() int {
	n := 0
	for i := range f.lanes {
		l := &f.lanes[i]
		l.mu.Lock()
		n += l.n
		l.mu.Unlock()
	}
	return n
}
