package httpdoor

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// maxConnections is the maximum number of open connections to one stream. If a client opens more,
// the oldest connection is closed, because it is probably dead.
const maxConnections = 4

// writeStep is the number of bytes after which the write deadline is renewed.
const writeStep = 64 << 10

// Connection writes the events of a Stream to one HTTP response.
type Connection struct {
	stream  *Stream
	out     outlet
	rearm   bool          // true if the server sets a write deadline for each request
	wake    chan struct{} // capacity 1; a value makes Run check the stream again
	aborted atomic.Bool
	// released is true if the connection must end as soon as all events are written.
	released atomic.Bool
	detached atomic.Pointer[detached] // not nil if no handler serves the connection

	// abort holds mu and does nothing if over is set, because the deadlines then apply to the next
	// request on the same network connection.
	mu   sync.Mutex
	over bool // Run has returned
}

var errAborted = errors.New("the connection was aborted")

// Attach returns a Connection that writes the stream's events to w, and sets the headers of w. Only
// the newest Connection of a stream writes events. The caller must call Run or Serve next. Attach
// does no I/O.
func (s *Stream) Attach(w http.ResponseWriter, r *http.Request) *Connection {
	s.mu.Lock()
	c, oldest := s.attachLocked(w, r)
	s.mu.Unlock()
	if oldest != nil {
		oldest.abort()
	}
	return c
}

// Resume does the same as Attach, for a client that resumes the stream. seen is the number of the
// last event that the client has received. Later events are skipped if the stream no longer has
// them.
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
	// 2026-07-28 §Streamable HTTP, "Receiving Messages", requires X-Accel-Buffering.
	h["X-Accel-Buffering"] = noBuffer
	h["X-Content-Type-Options"] = nosniff
	c = &Connection{
		stream: s,
		out:    outlet{w: w, rc: http.NewResponseController(w)},
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

// Run writes events when they arrive, and keep-alive comments when no events arrive for a while. It
// returns nil when all events are written and the stream has ended or the connection was released.
// It returns an error when the connection breaks or is aborted, or when ctx ends. No other code may
// use the response until Run has returned.
//
// If ctx ends with mcp.ErrShutdown, the connection continues, because the last messages must still
// be written. The caller must then end the stream with End or Cut.
func (c *Connection) Run(ctx context.Context) error { return c.finish(ctx, c.begin()) }

// begin sends the head of the response.
func (c *Connection) begin() error {
	c.out.w.WriteHeader(http.StatusOK)
	return c.write(nil)
}

// finish does what Run does after begin, whose result is err.
func (c *Connection) finish(ctx context.Context, err error) error {
	if err == nil {
		err = c.run(ctx)
	}
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	switch {
	case c.aborted.Load():
		// Do not write anything else, not even the end of the body.
		_ = c.out.SetWriteDeadline(past)
	case c.rearm:
		_ = c.out.SetWriteDeadline(time.Now().Add(c.stream.rules.Stall))
	default:
		_ = c.out.SetWriteDeadline(time.Time{})
	}
	return err
}

func (c *Connection) leave() {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	c.stream.leaveLocked(c)
}

func (c *Connection) run(ctx context.Context) error {
	silence := time.NewTimer(c.stream.rules.KeepAlive)
	defer silence.Stop()
	var room [32][]byte
	done := ctx.Done()
	for {
		wrote, over, err := c.advance(room[:0])
		if over {
			return err
		}
		if wrote {
			silence.Reset(c.stream.rules.KeepAlive)
			continue
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

// advance writes the next events, if there are any. over reports that the connection must end.
func (c *Connection) advance(room [][]byte) (wrote, over bool, err error) {
	batch, to, ended := c.take(room)
	switch {
	case c.aborted.Load():
		return false, true, errAborted
	case len(batch) > 0:
		err := c.write(batch)
		c.wrote(to-uint64(len(batch)), to, err == nil)
		clear(batch)
		return true, err != nil, err
	case ended:
		return false, true, nil
	case c.released.Load():
		// 2025-11-25 §Transports, "Listening for Messages from the Server" 4: before a server
		// closes a connection without ending the stream, it tells the client when to reconnect.
		return false, true, c.write([][]byte{comeBack})
	}
	return false, false, nil
}

// Retry is the time that clients should wait before they reconnect to a stream.
const Retry = 3 * time.Second

var (
	keepAlive = eventstream.AppendComment(nil, "")
	comeBack  = append(eventstream.AppendRetry(nil, Retry), '\n')
)

// take appends the stream's next events to batch, but only if c is the newest connection of the
// stream. to is one more than the number of the last of these events. ended reports whether the
// stream has ended.
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

// wrote records whether c has written the events that the method take returned. from is the number
// of the first of these events, and to is one more than the number of the last. If writing failed,
// the stream's newest connection writes the events again, unless later events were already taken.
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

// write writes a batch and flushes it. Each step of writeStep bytes may take at most the time
// Stall.
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
			if _, err := c.out.Write(b[:n]); err != nil {
				return err
			}
			b, room = b[n:], room-n
		}
	}
	if err := c.arm(); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	// HTTP/2 resets a stream when its write deadline expires, even if nothing is being written. So
	// remove the deadline.
	if !c.aborted.Load() {
		_ = c.out.SetWriteDeadline(time.Time{})
	}
	if c.aborted.Load() {
		return errAborted
	}
	return nil
}

// arm sets the deadline of the next write, and then checks the flag aborted. abort sets the flag
// first, and then a deadline in the past. If arm does not see the flag, the deadline of abort is
// set after the deadline of arm and replaces it.
func (c *Connection) arm() error {
	_ = c.out.SetWriteDeadline(time.Now().Add(c.stream.rules.Stall))
	if c.aborted.Load() {
		return errAborted
	}
	return nil
}

// abort ends the connection, even while Run is writing.
func (c *Connection) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.aborted.Store(true)
	_ = c.out.SetWriteDeadline(past)
	c.nudge()
}

var past = time.Unix(1, 0)

func (c *Connection) nudge() {
	if d := c.detached.Load(); d != nil {
		d.nudge()
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
