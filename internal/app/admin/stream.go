package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// EventEnd is the name of the event with which Dragoman ends a stream. Dragoman sends this event
// when it stops, or when the stream will have no more events. The event has an empty object as
// data, and no id. If a stream ends without this event, the reader should connect again.
const EventEnd = "end"

// The times and limits of all streams.
const (
	streamKeepAlive = 15 * time.Second
	streamStall     = 30 * time.Second // the maximum time for one write to a reader
	streamBatch     = 256              // the maximum number of events in one write
	streamMay       = time.Second / 2  // how often a stream asks whether its reader may still read it
)

// busyFor is how long a client should wait before it tries again after it has reached a limit.
const busyFor = 5 * time.Second

// Streams serves server-sent events of one kind, such as log records, and limits the number of
// readers. Call NewStreams to create a Streams. It is safe for concurrent use.
//
// If known is not nil, the readers for which it returns false are strangers. Strangers have places of
// their own, which transport.Quota divides by address, so they cannot take the places of others.
type Streams struct {
	most     int64
	open     atomic.Int64 // readers that are not strangers
	known    func(*http.Request) bool
	mu       sync.Mutex
	strange  transport.Quota
	draining chan struct{} // closed by Drain
	drain    sync.Once
}

// NewStreams returns a Streams that accepts at most the given number of readers at a time.
func NewStreams(most int) *Streams {
	return &Streams{most: int64(most), draining: make(chan struct{})}
}

// mayKey is the key of While in the context of a request.
type mayKey struct{}

// While returns the request of a reader whose stream ends soon after may returns false: when a role is
// taken away, or a session has ended. The reader gets no event about it; if it connects again, it is
// refused like anybody else.
func While(r *http.Request, may func() bool) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), mayKey{}, may))
}

// Next appends to out the events that a reader has not got yet, each with eventstream.AppendEvent.
// If more is not nil, it is closed when there may be new events. If more is nil, the caller must
// call Next again at once. last means that no more events will come. Next must not block. Only one
// goroutine at a time calls Next.
type Next func(out []byte) (_ []byte, more <-chan struct{}, last bool)

// Serve answers a request with the events of next. It returns when the reader has disconnected,
// when next reports that no more events will come, or after Drain; see also While. Serve disconnects a reader that
// does not read for 30 s. A slow reader does not delay other readers.
func (s *Streams) Serve(w http.ResponseWriter, r *http.Request, next Next) {
	leave, ok := s.enter(r)
	if !ok {
		refuse(w, Problem{Type: "too-many-streams", Title: "Too many streams are open", Status: http.StatusServiceUnavailable, RetryAfter: busyFor, Instance: r.URL.Path, Detail: s.full()})
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		return
	}
	conn := http.NewResponseController(w)
	write := func(b []byte) bool {
		_ = conn.SetWriteDeadline(time.Now().Add(streamStall))
		_, err := w.Write(b)
		return err == nil && conn.Flush() == nil
	}
	if !write(eventstream.AppendComment(nil, "dragoman")) {
		return
	}
	may, _ := r.Context().Value(mayKey{}).(func() bool)
	end := func() { write(eventstream.AppendEvent(nil, "", EventEnd, []byte("{}"))) }
	quiet, again := time.NewTicker(streamKeepAlive), time.NewTicker(streamMay)
	defer quiet.Stop()
	defer again.Stop()
	var out []byte
	for asked := time.Now(); ; {
		if may != nil && time.Since(asked) >= streamMay {
			if asked = time.Now(); !may() {
				return
			}
		}
		var more <-chan struct{}
		var last bool
		out, more, last = next(out[:0])
		if len(out) > 0 && !write(out) {
			return
		}
		if last {
			end()
			return
		}
		if more == nil {
			continue
		}
		select {
		case <-more:
		case <-again.C:
		case <-quiet.C:
			if !write(eventstream.AppendComment(nil, "")) {
				return
			}
		case <-s.draining:
			end()
			return
		case <-r.Context().Done():
			return
		}
	}
}

// full says why a further reader is refused.
func (s *Streams) full() string {
	text := fmt.Sprintf("At most %d streams of this kind may be open. Close one, then try again.", s.most)
	if s.known != nil {
		text += " Readers that send the key of this process have places of their own."
	}
	return text
}

// enter takes a place for the reader that sent r. If ok is true, the caller must call leave when the
// stream has ended.
func (s *Streams) enter(r *http.Request) (leave func(), ok bool) {
	if s.known == nil || s.known(r) {
		if s.open.Add(1) > s.most {
			s.open.Add(-1)
			return nil, false
		}
		return func() { s.open.Add(-1) }, true
	}
	host := httpdoor.Remote(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.strange.Room(host, int(s.most)) {
		return nil, false
	}
	s.strange.Take(host)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.strange.Give(host)
	}, true
}

// Drain ends all streams, because the listener stops only after they have ended. Drain may be
// called more than once.
func (s *Streams) Drain() { s.drain.Do(func() { close(s.draining) }) }

// eventID returns the id of an event. The id consists of the epoch of the process and of numbers
// that identify the event in its stream.
func eventID(epoch int64, numbers ...uint64) string {
	b := strconv.AppendInt(nil, epoch, 36)
	for _, n := range numbers {
		b = strconv.AppendUint(append(b, '-'), n, 36)
	}
	return string(b)
}

// parseEventID stores the numbers of an id that eventID returned for this epoch. It returns false
// for an id of another process, and for text that is not an id.
func parseEventID(id string, epoch int64, numbers ...*uint64) bool {
	parts := strings.Split(id, "-")
	if len(parts) != len(numbers)+1 || parts[0] != strconv.FormatInt(epoch, 36) {
		return false
	}
	for i, to := range numbers {
		n, err := strconv.ParseUint(parts[i+1], 36, 64)
		if err != nil {
			return false
		}
		*to = n
	}
	return true
}

// lastEventID returns the id of the last event that the reader has got. It is the header
// Last-Event-ID, which a browser sends when it connects again, or else the parameter "after". It is
// "" if the request has neither.
func lastEventID(r *http.Request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get("after")
}

// Ring keeps the last items of a stream. It numbers the items from 1, so that a reader that
// connects again can continue where it stopped. The ring limits the number of items and their size,
// and drops the oldest items first. Call NewRing to create a Ring. It is safe for concurrent use.
type Ring[T any] struct {
	epoch            int64
	mostItems, bytes int

	mu    sync.Mutex // held only while a few items are copied
	last  uint64     // the number of the newest item
	items []sized[T]
	held  int           // the total size of items in bytes
	ended bool          // whether End was called
	grown chan struct{} // closed by the next Add or End; nil if no reader waits
}

type sized[T any] struct {
	item T
	size int
}

// Numbered is an item of a Ring with its number.
type Numbered[T any] struct {
	Number uint64
	Missed uint64 // the number of items directly before this item that were dropped before the reader could read them
	Item   T
}

// NewRing returns an empty ring that keeps at most the given numbers of items and bytes.
func NewRing[T any](items, bytes int) *Ring[T] {
	return &Ring[T]{epoch: time.Now().UnixMilli(), mostItems: max(items, 1), bytes: bytes}
}

// Add appends an item and returns its number. size is the size of the item in bytes. After End, Add
// does nothing and returns 0. Add does not wait for readers.
func (r *Ring[T]) Add(item T, size int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return 0
	}
	r.last++
	r.items = append(r.items, sized[T]{item, size})
	r.held += size
	for len(r.items) > 1 && (len(r.items) > r.mostItems || r.held > r.bytes) {
		r.held -= r.items[0].size
		r.items[0] = sized[T]{} // release the memory of the item
		r.items = r.items[1:]
	}
	r.wakeLocked()
	return r.last
}

// End marks the ring as complete: Add adds nothing more.
func (r *Ring[T]) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.wakeLocked()
}

func (r *Ring[T]) wakeLocked() {
	if r.grown != nil {
		close(r.grown)
		r.grown = nil
	}
}

// Read returns up to limit items whose numbers are greater than after, the oldest first. If there
// are none, more is closed by the next Add or End. last is true if there are none and End was
// called; then more is nil.
func (r *Ring[T]) Read(after uint64, limit int) (items []Numbered[T], more <-chan struct{}, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.last - uint64(len(r.items)) // the number of the item before the oldest item
	from := min(max(after, oldest), r.last)
	for _, x := range r.items[from-oldest:] {
		if len(items) == limit {
			break
		}
		from++
		items = append(items, Numbered[T]{Number: from, Item: x.item})
	}
	if len(items) > 0 {
		items[0].Missed = max(after, oldest) - after
		return items, nil, false
	}
	if r.ended {
		return nil, nil, true
	}
	if r.grown == nil {
		r.grown = make(chan struct{})
	}
	return nil, r.grown, false
}

// Tail returns the number that a reader passes to Read as after to get the last n items. A negative
// n means all items.
func (r *Ring[T]) Tail(n int) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < 0 || n > len(r.items) {
		n = len(r.items)
	}
	return r.last - uint64(n)
}

// ID returns the id of the event for an item, which a reader sends as Last-Event-ID.
func (r *Ring[T]) ID(number uint64) string { return eventID(r.epoch, number) }

// After returns the number of the item with the given id. If the id is from another process, After
// returns the number before the oldest item, so that the reader gets all items.
func (r *Ring[T]) After(id string) (number uint64) {
	if !parseEventID(id, r.epoch, &number) {
		return r.Tail(-1)
	}
	return number
}

// Follow returns a Next for a reader that has read all items up to the number after. encode returns
// the name and the data of an event. If the name is empty, the reader does not get the item.
func (r *Ring[T]) Follow(after uint64, encode func(Numbered[T]) (name string, data []byte)) Next {
	return func(out []byte) ([]byte, <-chan struct{}, bool) {
		items, more, last := r.Read(after, streamBatch)
		for _, x := range items {
			after = x.Number
			if name, data := encode(x); name != "" {
				out = eventstream.AppendEvent(out, r.ID(x.Number), name, data)
			}
		}
		return out, more, last
	}
}
