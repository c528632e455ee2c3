package httpdoor

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// maxConnections is the maximum number of connections of one client that wait on one stream.
// If there are more, the oldest connection is closed, because it is probably dead.
const maxConnections = 4

// writeStep is the number of bytes that are written before the deadline is renewed.
const writeStep = 64 << 10

// Connection is one HTTP response that reads a Stream.
type Connection struct {
	stream  *Stream
	w       http.ResponseWriter
	rc      *http.ResponseController
	rearm   bool          // the server sets a write deadline for each request
	wake    chan struct{} // capacity 1; wakes Run to check the stream again
	aborted atomic.Bool
	// released says that the connection must end after everything is written.
	released atomic.Bool

	// mu prevents abort from changing a finished response, because the deadlines of the connection
	// then belong to the next request.
	mu   sync.Mutex
	over bool // Run has returned
}

var errAborted = errors.New("the connection was aborted")

// Attach makes the response w the reader of the stream and sets its headers. The caller must
// call Run next. Attach does no I/O.
func (s *Stream) Attach(w http.ResponseWriter, r *http.Request) *Connection {
	s.mu.Lock()
	c, oldest := s.attachLocked(w, r)
	s.mu.Unlock()
	if oldest != nil {
		oldest.abort()
	}
	return c
}

// Resume does the same as Attach, for a client that resumes the stream. The parameter seen is the
// number of the last event that the client has received. Events that are no longer kept are
// skipped.
func (s *Stream) Resume(w http.ResponseWriter, r *http.Request, seen uint64) *Connection {
	s.mu.Lock()
	c, oldest := s.attachLocked(w, r)
	from := min(max(seen+1, s.first), s.next())
	s.cursor, s.done = from, from
	s.unsent = 0
	for _, e := range s.events[from-s.first:] {
		s.unsent += len(e.text)
	}
	s.mu.Unlock()
	if oldest != nil {
		oldest.abort()
	}
	return c
}

func (s *Stream) attachLocked(w http.ResponseWriter, r *http.Request) (c, oldest *Connection) {
	h := w.Header()
	h["Content-Type"] = typeEvents
	h["Cache-Control"] = noStore
	// The header is required by 2026-07-28 §Streamable HTTP, "Receiving Messages".
	h["X-Accel-Buffering"] = noBuffer
	h["X-Content-Type-Options"] = nosniff
	c = &Connection{
		stream: s,
		w:      w,
		rc:     http.NewResponseController(w),
		rearm:  hasWriteTimeout(r),
		wake:   make(chan struct{}, 1),
	}
	if len(s.conns) >= maxConnections {
		oldest = s.conns[0]
		s.conns = append(s.conns[:0], s.conns[1:]...)
	}
	s.conns = append(s.conns, c)
	return c, oldest
}

// Run writes events when they arrive, and comments when no events arrive for a while. It returns
// nil when the stream has ended and everything is written. It returns an error when the
// connection breaks or is aborted, or ctx ends. No other code may use the response until Run has
// returned.
//
// If ctx ends with mcp.ErrShutdown, the connection continues, because the last messages must
// still be written. The caller must End or Cut the stream.
func (c *Connection) Run(ctx context.Context) error {
	err := c.run(ctx)
	c.stream.mu.Lock()
	c.stream.leaveLocked(c)
	c.stream.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	switch {
	case c.aborted.Load():
		// Do not write anything else, not even the end of the body.
		_ = c.rc.SetWriteDeadline(past)
	case c.rearm:
		_ = c.rc.SetWriteDeadline(time.Now().Add(c.stream.rules.Stall))
	default:
		_ = c.rc.SetWriteDeadline(time.Time{})
	}
	return err
}

func (c *Connection) run(ctx context.Context) error {
	c.w.WriteHeader(http.StatusOK)
	if err := c.write(nil); err != nil {
		return err
	}
	silence := time.NewTimer(c.stream.rules.KeepAlive)
	defer silence.Stop()
	var room [32][]byte
	done := ctx.Done()
	for {
		batch, to, ended := c.take(room[:0])
		switch {
		case c.aborted.Load():
			return errAborted
		case len(batch) > 0:
			err := c.write(batch)
			c.wrote(to-uint64(len(batch)), to, err == nil)
			if err != nil {
				return err
			}
			clear(batch)
			silence.Reset(c.stream.rules.KeepAlive)
			continue
		case ended:
			return nil
		case c.released.Load():
			// 2025-11-25 §Transports, "Listening for Messages from the Server" 4: a server that
			// closes the connection but not the stream tells the client when to reconnect.
			return c.write([][]byte{comeBack})
		}
		select {
		case <-c.wake:
		case <-silence.C:
			if err := c.write([][]byte{keepAlive}); err != nil {
				return err
			}
			silence.Reset(c.stream.rules.KeepAlive)
		case <-done:
			if !errors.Is(context.Cause(ctx), mcp.ErrShutdown) {
				return ctx.Err()
			}
			done = nil
		}
	}
}

// Retry is the time that clients should wait before they reconnect to a stream.
const Retry = 3 * time.Second

var (
	keepAlive = eventstream.AppendComment(nil, "")
	comeBack  = append(eventstream.AppendRetry(nil, Retry), '\n')
)

// take returns the next events if c is the connection that must write them. The second result is
// the number after the last of these events.
func (c *Connection) take(batch [][]byte) (_ [][]byte, to uint64, ended bool) {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.conns); n == 0 || s.conns[n-1] != c {
		return nil, 0, s.ended
	}
	size := 0
	for s.cursor < s.next() && len(batch) < cap(batch) && size < writeStep {
		text := s.events[s.cursor-s.first].text
		batch = append(batch, text)
		size += len(text)
		s.cursor++
	}
	return batch, s.cursor, s.ended
}

// wrote records the result for the events that take returned. If the connection is broken, its
// events go to the next connection, unless the next one has already written later events.
func (c *Connection) wrote(from, to uint64, ok bool) {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !ok && s.cursor == to:
		s.cursor = max(from, s.first)
	case ok && to > s.done && to <= s.next():
		s.doneLocked(to)
	}
	if !s.replay && ok {
		s.dropLocked(int(s.done - s.first))
	} else {
		s.boundLocked()
	}
}

// write writes and flushes. Each step has the stall timeout.
func (c *Connection) write(batch [][]byte) error {
	room := 0
	for _, b := range batch {
		for len(b) > 0 {
			if room <= 0 {
				if err := c.arm(); err != nil {
					return err
				}
				room = writeStep
			}
			n := min(len(b), room)
			if _, err := c.w.Write(b[:n]); err != nil {
				return err
			}
			b, room = b[n:], room-n
		}
	}
	if err := c.arm(); err != nil {
		return err
	}
	if err := c.rc.Flush(); err != nil {
		return err
	}
	// HTTP/2 resets a stream when its deadline expires, even if nothing is being written.
	if !c.aborted.Load() {
		_ = c.rc.SetWriteDeadline(time.Time{})
	}
	if c.aborted.Load() {
		return errAborted
	}
	return nil
}

// arm sets the deadline of the next write, and then checks the flag aborted. abort does the opposite:
// it sets the flag, and then its deadline. So if arm does not see the flag, the deadline of abort
// comes later and replaces the deadline of arm.
func (c *Connection) arm() error {
	_ = c.rc.SetWriteDeadline(time.Now().Add(c.stream.rules.Stall))
	if c.aborted.Load() {
		return errAborted
	}
	return nil
}

// abort ends the connection, even while it is writing.
func (c *Connection) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.aborted.Store(true)
	_ = c.rc.SetWriteDeadline(past)
	c.nudge()
}

var past = time.Unix(1, 0)

func (c *Connection) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
