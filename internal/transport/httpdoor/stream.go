package httpdoor

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// StreamRules contains limits for streams. Streams may share a StreamRules, so it must not be
// modified while a stream uses it. If a field is zero, the default applies. The default is the last
// value in the comment of the field.
type StreamRules struct {
	Events    int           // maximum number of events queued for a slow client or kept for replay; 256
	Bytes     int           // maximum total bytes of these events, which the last event may exceed; 1 MiB
	Grace     time.Duration // how long Push waits for room before it aborts the slow connection; 100 ms
	Stall     time.Duration // timeout of one write; 30 s
	KeepAlive time.Duration // idle time before a keep-alive comment is sent; 15 s
	Waiting   int           // for Wait: maximum number of events queued while there is no connection; 64
	// Slow is called for each connection that was aborted because the client did not read. Slow may
	// be nil and must not block.
	Slow func()

	epoch time.Time
}

// Defaults returns a copy of the rules, in which each zero value is replaced by the default.
func (r StreamRules) Defaults() *StreamRules {
	r.Events = cmp.Or(r.Events, 256)
	r.Bytes = cmp.Or(r.Bytes, 1<<20)
	r.Grace = cmp.Or(r.Grace, 100*time.Millisecond)
	r.Stall = cmp.Or(r.Stall, WriteTimeout)
	r.KeepAlive = cmp.Or(r.KeepAlive, 15*time.Second)
	r.Waiting = cmp.Or(r.Waiting, 64)
	r.epoch = time.Now()
	return &r
}

// Away determines what happens to new events while the stream has no connection.
type Away uint8

// The values of Away.
const (
	Discard Away = iota // new events are dropped, and Push returns an error
	Keep                // new events are kept until the client reconnects; if there are too many, the oldest are dropped
	Wait                // a limited number of new events is queued; after that, Push returns an error
)

// ErrEnded is the error of Push after End or Cut.
var ErrEnded = errors.New("the stream has ended")

// Stream is a sequence of events for one client. Only the newest connection writes the events. An
// event that was written to one connection is not written to another one, unless the client resumes
// the stream after an earlier event id (2025-11-25 §Transports, "Multiple Connections",
// "Resumability and Redelivery").
//
// Events are queued in memory within the limits of the rules. If the queue is full, Push waits at
// most Grace for each slow connection. Stream is safe for concurrent use after Init.
type Stream struct {
	rules *StreamRules
	ids   string // the part of the event ids before the event's number; "" if events have no ids
	away  Away
	// replay is true if written events are kept, so that clients can resume the stream.
	replay bool

	mu     sync.Mutex
	conns  []*Connection // the connections, in the order in which they were attached
	events []event       // the events that are kept or not yet written; their numbers are first, first+1, …
	first  uint64
	cursor uint64 // number of the next event to write
	done   uint64 // all events with a smaller number are written or dropped
	kept   int    // bytes of all elements of events
	unsent int    // bytes of the events that are neither written nor dropped
	ended  bool
	room   chan struct{} // capacity 1; signals that events were written or dropped; created when needed
}

type event struct {
	text []byte
	at   time.Duration // when the event was added, as the time since the epoch of the rules
}

// Init prepares s. ids is the beginning of the ids of its events. If ids is not "", written events
// are kept for replay within the limits of the rules. If ids is "", the events have no ids.
func (s *Stream) Init(rules *StreamRules, ids string, away Away) {
	s.rules, s.ids, s.away, s.replay = rules, ids, away, ids != ""
}

// Push appends an event. It does not keep data after it returns. The error is ErrEnded, or
// transport.ErrNoStream if the event was dropped because the stream has no connection.
func (s *Stream) Push(name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoomLocked()
	if s.ended {
		return ErrEnded
	}
	if len(s.conns) == 0 {
		switch s.away {
		case Discard:
			return transport.ErrNoStream
		case Wait:
			if int(s.next()-s.done) >= s.rules.Waiting || s.unsent >= s.rules.Bytes {
				return transport.ErrNoStream
			}
		}
	}
	s.addLocked(name, data, 0)
	return nil
}

// Prime appends an event that contains only an id. retry tells the client how long to wait before
// it reconnects. On a stream without ids, Prime has no effect.
func (s *Stream) Prime(retry time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids != "" && !s.ended {
		s.addLocked("", nil, retry)
	}
}

func (s *Stream) addLocked(name string, data []byte, retry time.Duration) {
	id := ""
	if s.ids != "" {
		id = s.ids + strconv.FormatUint(s.next(), 10)
	}
	b := make([]byte, 0, len(data)+len(id)+len(name)+48)
	if retry > 0 {
		b = eventstream.AppendRetry(b, retry)
	}
	e := event{text: eventstream.AppendEvent(b, id, name, data)}
	if s.replay || s.away != Discard {
		e.at = time.Since(s.rules.epoch)
	}
	s.events = append(s.events, e)
	s.kept += len(e.text)
	s.unsent += len(e.text)
	s.boundLocked()
	s.wakeLocked()
}

// End ends the stream. Its connections close after all events are written.
func (s *Stream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, c := range s.conns {
		c.nudge()
	}
}

// Cut ends the stream, aborts its connections immediately and drops its events.
func (s *Stream) Cut() {
	s.mu.Lock()
	s.ended = true
	conns := s.conns
	s.conns = nil
	s.dropLocked(len(s.events))
	s.mu.Unlock()
	for _, c := range conns {
		c.abort()
	}
}

// Release closes the stream's connections after all events are written, but does not end the
// stream. The client may reconnect.
func (s *Stream) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.released.Store(true)
		c.nudge()
	}
}

// Forget drops the events that are older than age, except those that a connection still has to
// write. It returns the number of bytes of the events that are still kept.
func (s *Stream) Forget(age time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := time.Since(s.rules.epoch) - age
	n := 0
	for n < len(s.events) && s.events[n].at < before {
		if len(s.conns) > 0 && s.first+uint64(n) >= s.done {
			break
		}
		n++
	}
	s.dropLocked(n)
	return s.kept
}

// Attended reports whether the stream has a connection.
func (s *Stream) Attended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns) > 0
}

// Number returns the number of the event with an id. ok is false if the stream has never sent an
// event with this id.
func (s *Stream) Number(id string) (n uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, s.ids)
	if !ok || s.ids == "" || rest == "" || rest[0] == '+' || rest[0] == '0' && len(rest) > 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	return n, err == nil && n < s.next()
}

func (s *Stream) next() uint64 { return s.first + uint64(len(s.events)) }

func (s *Stream) fullLocked() bool {
	return int(s.next()-s.done) >= s.rules.Events || s.unsent >= s.rules.Bytes
}

// makeRoomLocked waits while the queue is full and the stream has a connection. It unlocks mu while
// it waits. After Grace, it aborts the newest connection.
func (s *Stream) makeRoomLocked() {
	if !s.fullLocked() || len(s.conns) == 0 {
		return
	}
	if s.room == nil {
		s.room = make(chan struct{}, 1)
	}
	grace := time.NewTimer(s.rules.Grace)
	defer grace.Stop()
	for over := false; !s.ended && len(s.conns) > 0 && s.fullLocked(); {
		if over {
			c := s.conns[len(s.conns)-1]
			s.leaveLocked(c)
			s.mu.Unlock()
			c.abort()
			if s.rules.Slow != nil {
				s.rules.Slow()
			}
			s.mu.Lock()
			over = false
			grace.Reset(s.rules.Grace)
			continue
		}
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-grace.C:
			over = true
		}
		s.mu.Lock()
	}
}

// boundLocked drops the oldest events while there are more than the rules allow.
func (s *Stream) boundLocked() {
	n, bytes := 0, s.kept
	for n < len(s.events)-1 && (len(s.events)-n > s.rules.Events || bytes > s.rules.Bytes) {
		if len(s.conns) > 0 && s.first+uint64(n) >= s.done {
			break // the event is not written yet; makeRoomLocked limits these events
		}
		bytes -= len(s.events[n].text)
		n++
	}
	s.dropLocked(n)
}

// dropLocked drops the n oldest events.
func (s *Stream) dropLocked(n int) {
	if n == 0 {
		return
	}
	s.doneLocked(s.first + uint64(n))
	for i := range n {
		s.kept -= len(s.events[i].text)
		s.events[i].text = nil
	}
	s.first += uint64(n)
	if s.events = s.events[n:]; len(s.events) == 0 {
		s.events = nil
	}
	s.cursor = max(s.cursor, s.first)
}

// doneLocked records that all events with a number below n are written or dropped.
func (s *Stream) doneLocked(n uint64) {
	for s.done < n {
		s.unsent -= len(s.events[s.done-s.first].text)
		s.done++
	}
	if s.room != nil {
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
}

func (s *Stream) wakeLocked() {
	if n := len(s.conns); n > 0 {
		s.conns[n-1].nudge()
	}
}

// leaveLocked removes a connection. If the connection was the newest, the one that was attached
// before it continues to write the events. If no connection is left and away is Discard,
// leaveLocked drops all events.
func (s *Stream) leaveLocked(c *Connection) {
	for i, o := range s.conns {
		if o == c {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			break
		}
	}
	if len(s.conns) > 0 {
		s.wakeLocked()
	} else if s.away == Discard {
		s.dropLocked(len(s.events))
	}
}
