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

// StreamRules are the limits of the streams that share them. They are immutable once in
// use. Zero values mean the defaults given at each member.
type StreamRules struct {
	Events    int           // events queued for a slow reader; 256
	Bytes     int           // the same in bytes, plus one event; 1 MiB
	Grace     time.Duration // how long Push waits for room before it aborts the reader; 100 ms
	Stall     time.Duration // timeout of one write; 30 s
	KeepAlive time.Duration // idle time before a comment is sent; 15 s
	Waiting   int           // events queued without a reader, see Wait; 64
	// Slow is called for each connection that was closed because it did not read; it
	// may be nil. It must not block.
	Slow func()

	epoch time.Time
}

// Defaults returns the rules with the zero values replaced.
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

// Away says what happens to events while no connection reads a stream.
type Away uint8

// The treatment of events while nobody reads.
const (
	Discard Away = iota // they are lost, and Push returns an error
	Keep                // they are kept until the client reconnects; the oldest are dropped first
	Wait                // a few are queued; then Push refuses more
)

// ErrEnded is returned by a Push after End or Cut.
var ErrEnded = errors.New("the stream has ended")

// Stream is a sequence of events for one client. At most one connection reads it at a
// time: the latest. An event that was written is not written to another connection,
// unless that one resumes the stream by an event id (2025-11-25 §Transports, "Multiple
// Connections", "Resumability and Redelivery").
//
// Events are queued in memory, within the limits of the rules, so Push never waits for
// the network for longer than Grace. Stream is safe for concurrent use, after Init.
type Stream struct {
	rules *StreamRules
	ids   string // event ids are this and the event's number; "" for none
	away  Away
	// replay: written events are kept for clients that resume the stream.
	replay bool

	mu     sync.Mutex
	conns  []*Connection // in order of arrival
	events []event       // numbers first, first+1, …
	first  uint64
	cursor uint64 // number of the next event that a connection takes
	done   uint64 // all events below it are written or dropped
	kept   int    // bytes of all events
	unsent int    // bytes of those from done on
	ended  bool
	room   chan struct{} // capacity 1: something was written; created when needed
}

type event struct {
	text []byte
	at   time.Duration // since the rules' epoch
}

// Init prepares s. ids is the prefix of its event ids, "" for none. With ids, written
// events are kept for replay within the limits of the rules.
func (s *Stream) Init(rules *StreamRules, ids string, away Away) {
	s.rules, s.ids, s.away, s.replay = rules, ids, away, ids != ""
}

// Push appends an event and does not keep data. The error is ErrEnded, or
// transport.ErrNoStream if the event was dropped because nobody reads.
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

// Prime appends an event with only an id, and the delay before the client should
// reconnect. It does nothing on a stream without ids.
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

// End closes the connections after they have written all events.
func (s *Stream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, c := range s.conns {
		c.nudge()
	}
}

// Cut ends the stream and its connections immediately and drops its events.
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

// Release closes the connections as End does, but the stream continues: the client may
// reconnect.
func (s *Stream) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.released.Store(true)
		c.nudge()
	}
}

// Forget drops events that are older than age and that no connection is about to read.
// It returns the bytes that are still kept.
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

// Attended reports whether a connection reads the stream.
func (s *Stream) Attended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns) > 0
}

// Number returns the number in an event id of this stream. ok is false for ids that it
// has never sent.
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

// makeRoomLocked waits while the reader's queue is full, and aborts the reader after
// Grace. It unlocks while it waits.
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

// boundLocked drops the oldest events beyond the limit.
func (s *Stream) boundLocked() {
	n, bytes := 0, s.kept
	for n < len(s.events)-1 && (len(s.events)-n > s.rules.Events || bytes > s.rules.Bytes) {
		if len(s.conns) > 0 && s.first+uint64(n) >= s.done {
			break // not yet read; makeRoomLocked limits these
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

// doneLocked records that all events below n are written or dropped.
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

// leaveLocked removes a connection. The one before it continues to read.
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
