package streamhttp

import (
	"math/rand/v2"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// flights contains the requests and GET streams that are in progress, so that Close can end them
// and wait for them. Each shard has its own lock, which is held only for short operations on its
// list.
type flights struct {
	shards [8]shard
}

type shard struct {
	mu     sync.Mutex
	idle   sync.Cond // signals that n is 0
	head   flight    // head of a circular list
	n      int
	closed bool
	_      [64]byte // padding, so that the shards are in different cache lines
}

// flight is one request or GET stream that is in progress. It is an element of its shard's list,
// and must not be copied.
type flight struct {
	prev, next *flight
	shard      *shard
	seat       string                 // of the principal
	done       chan struct{}          // closed by remove; nil if nobody waits
	conv       transport.Conversation // nil for a GET stream
	response   *response              // nil for a GET stream
}

func (f *flights) init() {
	for i := range f.shards {
		l := &f.shards[i]
		l.idle.L = &l.mu
		l.head.prev, l.head.next = &l.head, &l.head
	}
}

// add adds a flight. It returns false after close.
func (f *flights) add(x *flight) bool {
	l := &f.shards[rand.Uint32()%uint32(len(f.shards))]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	x.shard = l
	x.prev, x.next = l.head.prev, &l.head
	x.prev.next, l.head.prev = x, x
	l.n++
	return true
}

func (x *flight) remove() {
	l := x.shard
	l.mu.Lock()
	x.prev.next, x.next.prev = x.next, x.prev
	x.prev, x.next = nil, nil
	if x.done != nil {
		close(x.done)
	}
	if l.n--; l.n == 0 {
		l.idle.Broadcast()
	}
	l.mu.Unlock()
}

// close makes later calls of add fail, and returns the current flights that have a conversation.
func (f *flights) close() (all []*response) {
	for i := range f.shards {
		l := &f.shards[i]
		l.mu.Lock()
		l.closed = true
		for x := l.head.next; x != &l.head; x = x.next {
			if x.response != nil {
				all = append(all, x.response)
			}
		}
		l.mu.Unlock()
	}
	return all
}

// ending is a flight that somebody waits for.
type ending struct {
	done     <-chan struct{}
	response *response // nil for a GET stream
}

// of returns the current flights of a seat.
func (f *flights) of(seat string) (all []ending) {
	for i := range f.shards {
		l := &f.shards[i]
		l.mu.Lock()
		for x := l.head.next; x != &l.head; x = x.next {
			if x.seat != seat {
				continue
			}
			if x.done == nil {
				x.done = make(chan struct{})
			}
			all = append(all, ending{x.done, x.response})
		}
		l.mu.Unlock()
	}
	return all
}

// cut ends the streams of the current responses without sending queued messages.
func (f *flights) cut() {
	var all []*response
	for i := range f.shards {
		l := &f.shards[i]
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
	for i := range f.shards {
		l := &f.shards[i]
		l.mu.Lock()
		for l.n > 0 {
			l.idle.Wait()
		}
		l.mu.Unlock()
	}
}

func (f *flights) len() int {
	n := 0
	for i := range f.shards {
		l := &f.shards[i]
		l.mu.Lock()
		n += l.n
		l.mu.Unlock()
	}
	return n
}
