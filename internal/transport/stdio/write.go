package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

const (
	defaultQueue        = 1 << 20
	defaultWriteTimeout = 10 * time.Second
	// writeChunk is what the other end must take within one write timeout: what
	// a pipe of Linux holds.
	writeChunk = 64 << 10
	// An idle writer keeps so many groups with buffers of at most that size: one
	// that gathers, one on its way, one whose members are only waking up.
	keptGroups = 3
	keptBuffer = 128 << 10
)

// writer sends lines by group commit: while one goroutine writes, the lines of
// all others gather in the next group, and the goroutine that opened that group
// writes it in one go. At most two groups exist, the one on its way and the one
// that gathers.
type writer struct {
	w       io.WriteCloser
	timed   interface{ SetWriteDeadline(time.Time) error } // nil without deadlines
	queue   int
	timeout time.Duration

	closing sync.Once
	ended   error // of closing

	mu    sync.Mutex // never held across a write
	busy  bool       // a group is on its way, or its successor about to leave
	next  *group     // gathers; nil when nobody waits
	spare []*group   // for reuse, at most keptGroups
	err   error      // why nothing can be sent any more
	turn  sync.Cond  // next may leave; one goroutine waits
	space sync.Cond  // next has left
}

// group is what leaves together. Its members are guarded by writer.mu, but buf
// belongs to the goroutine that writes it once the group has left.
type group struct {
	buf     []byte
	members int // goroutines that have yet to look at the outcome
	done    bool
	sent    int // bytes that have left
	err     error
	over    sync.Cond // done
}

func newWriter(w io.WriteCloser, queue int, timeout time.Duration) *writer {
	if queue <= 0 {
		queue = defaultQueue
	}
	if timeout <= 0 {
		timeout = defaultWriteTimeout
	}
	out := &writer{w: w, queue: queue, timeout: timeout}
	out.turn.L, out.space.L = &out.mu, &out.mu
	if t, ok := w.(interface{ SetWriteDeadline(time.Time) error }); ok && t.SetWriteDeadline(time.Time{}) == nil {
		out.timed = t
	}
	return out
}

// write sends b as one line. See Pipe.Write.
func (w *writer) write(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && w.next != nil && len(w.next.buf)+len(b)+1 > w.queue {
		w.space.Wait()
	}
	if w.err != nil {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, w.err)
	}
	g := w.next
	opened := g == nil
	if opened {
		g = w.openLocked()
	}
	start := len(g.buf)
	g.buf = appendLine(g.buf, b)
	end := len(g.buf)
	g.members++
	if opened {
		for w.busy {
			w.turn.Wait()
		}
		w.sendLocked(g)
	} else {
		for !g.done {
			g.over.Wait()
		}
	}
	sent, err := g.sent, g.err
	if g.members--; g.members == 0 {
		w.recycleLocked(g)
	}
	switch {
	case sent >= end:
		return nil
	case sent > start:
		return fmt.Errorf("broke off after %d of %d bytes: %w", sent-start, end-start, err)
	}
	return fmt.Errorf("%w: %w", transport.ErrNotSent, err)
}

func (w *writer) openLocked() *group {
	if n := len(w.spare); n > 0 {
		w.next, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		w.next = new(group)
		w.next.over.L = &w.mu
	}
	return w.next
}

func (w *writer) recycleLocked(g *group) {
	if cap(g.buf) > keptBuffer {
		g.buf = nil
	}
	g.buf, g.done, g.sent, g.err = g.buf[:0], false, 0, nil
	if len(w.spare) < keptGroups {
		w.spare = append(w.spare, g)
	}
}

// sendLocked lets the group leave that has gathered. It gives up the lock while
// it writes.
func (w *writer) sendLocked(g *group) {
	w.busy, w.next = true, nil
	w.space.Broadcast()
	if w.err == nil {
		w.mu.Unlock()
		sent, err := w.flush(g.buf)
		w.mu.Lock()
		g.sent = sent
		if err != nil && w.err == nil {
			w.err = err
			w.space.Broadcast() // those who wait for room may give up
		}
	}
	g.err, g.done = w.err, true
	w.busy = false
	w.turn.Signal()
	g.over.Broadcast()
}

// flush writes b and returns how much of it has left. The other end is given the
// timeout for every chunk, so that a slow reader of a large message is not taken
// for one that has stopped.
func (w *writer) flush(b []byte) (int, error) {
	for sent := 0; ; {
		n, err := w.flushChunk(b[sent:min(len(b), sent+writeChunk)])
		sent += n
		switch {
		case err != nil:
			return sent, err
		case sent == len(b):
			return sent, nil
		case n <= 0:
			return sent, io.ErrShortWrite
		}
	}
}

func (w *writer) flushChunk(b []byte) (int, error) {
	if w.timed != nil {
		if err := w.timed.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
			return 0, err
		}
		return w.w.Write(b)
	}
	// Without deadlines only closing can end a write.
	t := time.AfterFunc(w.timeout, func() { _ = w.shut() })
	n, err := w.w.Write(b)
	if !t.Stop() && err != nil {
		err = fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	}
	return n, err
}

func (w *writer) shut() error {
	w.closing.Do(func() { w.ended = w.w.Close() })
	return w.ended
}

// close ends the stream and unblocks all writes.
func (w *writer) close() error {
	w.mu.Lock()
	if w.err == nil {
		w.err = io.ErrClosedPipe
		w.space.Broadcast()
	}
	w.mu.Unlock()
	if err := w.shut(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// appendLine appends b and a newline to dst. 2026-07-28 §stdio: a message MUST
// NOT contain embedded newlines. White space behind the message, as HTTP bodies
// often have it, is left out: the Go SDK takes a blank before the newline for
// trailing data and ends.
func appendLine(dst, b []byte) []byte {
	start := len(dst)
	b = bytes.TrimRight(b, " \t\r\n")
	dst = append(dst, b...)
	for line := dst[start:]; len(line) > 0; {
		i := bytes.IndexByte(line, '\n')
		if i < 0 {
			break
		}
		line[i] = ' '
		line = line[i+1:]
	}
	for line := dst[start:]; len(line) > 0; {
		i := bytes.IndexByte(line, '\r')
		if i < 0 {
			break
		}
		line[i] = ' '
		line = line[i+1:]
	}
	return append(dst, '\n')
}
