package httpdoor

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// StreamRules bound the streams that share them. They are not written to once a
// stream uses them; zero values mean the defaults that stand beside them.
type StreamRules struct {
	Events    int           // that wait for a slow reader; 256
	Bytes     int           // the same in bytes, and one event more; 1 MiB
	Grace     time.Duration // that Push waits for room before it gives a reader up; 100 ms
	Stall     time.Duration // that one write may take; 30 s
	KeepAlive time.Duration // of silence before a comment is sent; 15 s
	Waiting   int           // events that wait while nobody reads, see Wait; 64
	// Slow is told of each connection that was closed for not reading; nil is told
	// nothing. It must not block.
	Slow func()

	epoch time.Time
}

// Defaults returns the rules with the zero values replaced.
func (r StreamRules) Defaults() *StreamRules {
	or(&r.Events, 256)
	or(&r.Bytes, 1<<20)
	or(&r.Grace, 100*time.Millisecond)
	or(&r.Stall, WriteTimeout)
	or(&r.KeepAlive, 15*time.Second)
	or(&r.Waiting, 64)
	r.epoch = time.Now()
	return &r
}

func or[T comparable](at *T, value T) {
	var zero T
	if *at == zero {
		*at = value
	}
}

// Away says what becomes of events while no connection reads a stream.
type Away uint8

// What becomes of events while nobody reads.
const (
	Discard Away = iota // they are lost, and Push says so
	Keep                // they are kept for the client to come back; the oldest go first
	Wait                // a few wait for a reader; then Push refuses further ones
)

// ErrEnded is returned by a Push after End or Cut.
var ErrEnded = errors.New("the stream has ended")

// Stream is a sequence of events on its way to one client. At most one connection
// reads it at a time: the one that came last. What is written is never written to
// another connection as well, unless that one resumes the stream by an event's id
// (2025-11-25 §Transports, "Multiple Connections", "Resumability and Redelivery").
//
// Events wait in memory, within the rules' bounds, so that Push never waits for a
// client's network for longer than Grace. Safe for concurrent use; Init comes
// first.
type Stream struct {
	rules *StreamRules
	ids   string // event ids are this and the event's number; "" for none
	away  Away
	// replay: written events are kept for clients that come back for them.
	replay bool

	mu     sync.Mutex
	conns  []*Connection // in order of arrival
	events []event       // numbers first, first+1, …
	first  uint64
	cursor uint64 // number of the next event that a connection takes
	done   uint64 // all events below it are written or given up
	kept   int    // bytes of all events
	unsent int    // bytes of those from done on
	ended  bool
	room   chan struct{} // capacity 1: something was written; made when awaited
}

type event struct {
	text []byte
	at   time.Duration // since the rules' epoch
}

// Init makes s ready. ids is the beginning of its event ids, "" for a stream
// without; with ids, written events are kept for replay within the rules' bounds.
func (s *Stream) Init(rules *StreamRules, ids string, away Away) {
	s.rules, s.ids, s.away, s.replay = rules, ids, away, ids != ""
}

// Push appends an event and does not keep data. The error is ErrEnded, or
// transport.ErrNoStream when the event went nowhere because nobody reads.
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

// Prime appends the event that carries nothing but an id, and how long the client
// should wait before it comes back. It does nothing on a stream without ids.
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

// End lets the connections go once they have written what there is.
func (s *Stream) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, c := range s.conns {
		c.nudge()
	}
}

// Cut ends the stream and its connections at once and forgets its events.
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

// Release lets the connections go, as End does, but the stream goes on: the
// client may come back.
func (s *Stream) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.released.Store(true)
		c.nudge()
	}
}

// Forget drops events that are older than age and that nobody is about to read.
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

// Number returns the number in an event id of this stream; ok is false for ids
// that it has never given out.
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

// makeRoomLocked waits while the reader is behind by all that may wait, and gives
// the reader up when Grace has passed. It unlocks while it waits.
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

// boundLocked drops the oldest events beyond what may be kept.
func (s *Stream) boundLocked() {
	n, bytes := 0, s.kept
	for n < len(s.events)-1 && (len(s.events)-n > s.rules.Events || bytes > s.rules.Bytes) {
		if len(s.conns) > 0 && s.first+uint64(n) >= s.done {
			break // it is yet to be read; makeRoomLocked bounds these
		}
		bytes -= len(s.events[n].text)
		n++
	}
	s.dropLocked(n)
}

// dropLocked forgets the n oldest events.
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

// doneLocked notes that all events below n are written or given up.
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

// leaveLocked takes a connection out; the one before it reads on.
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
