package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

const (
	defaultQueue = 1 << 20
	// inlineWait is how long the goroutine of a sender writes before another goroutine takes
	// over, so that the sender can return when its context ends.
	inlineWait = 10 * time.Millisecond
	// tick is the interval at which the writing goroutine checks the progress of a write.
	tick = 50 * time.Millisecond
	// A writer without deadlines cannot know during a write how far the other end has read. So its
	// writes are short. A write contains several lines with at most fewLines bytes together, or a
	// part of one line.
	fewLines   = 4 << 10
	writeChunk = 64 << 10
	// flushTimeout is how long close waits for queued lines, such as a cancellation. If the other
	// end has not read for longer than that, close does not wait.
	flushTimeout = 500 * time.Millisecond
	// closeGrace is how long close waits for a write that cannot be interrupted.
	closeGrace = time.Second
	// An idle writer keeps keptGroups groups for reuse. One is for filling, one for writing, and
	// one for senders that are being woken. keptBuffer limits the buffer of each group.
	keptGroups = 3
	keptBuffer = 128 << 10
)

// writer sends lines by group commit. While one group of lines is being written, the lines of
// all senders are collected in the next group. If no write is in progress, the sender writes
// its own line. If the other end does not accept everything at once, a goroutine writes the
// rest and every later group. So a sender never blocks longer than its context allows. A write has
// no timeout, because the owner of the pipe decides how long the other end may stop reading; see
// stalled.
type writer struct {
	w     io.WriteCloser
	timed interface{ SetWriteDeadline(time.Time) error } // sets deadlines; nil if the writer has none
	queue int

	closing sync.Once
	ended   error      // the result of closing
	pushing work.Group // the goroutine that writes groups
	run     func()     // the method push, stored to avoid an allocation

	mu    sync.Mutex // never held during a write
	busy  bool       // a group is being written
	going *group     // the group that the goroutine writes, or nil
	moved time.Time  // the time of the last progress of the running write
	next  *group     // the group that collects lines; nil if no lines are queued
	free  []*group   // groups to reuse, at most keptGroups
	err   error      // the reason why no more lines can be sent; nil while they can
	room  chan struct{}
	empty chan struct{} // closed when no line is queued or being written; nil if nobody waits
}

// group contains lines that are written together. writer.mu guards it. But the goroutine that
// writes the group reads buf up to edge without the lock.
type group struct {
	buf     []byte
	lines   []line
	members int // number of senders that have not seen the result yet
	at      int // number of bytes that were written
	edge    int // end of the running write
	done    bool
	err     error
	changed chan struct{} // closed when a line may have been sent; nil if nobody waits
	settled chan struct{} // closed after the running write; nil if nobody waits
}

// line is one message in a group.
type line struct {
	start, end int
	out        bool // the sender wants to withdraw the line
	gone       bool // the line was removed, and no byte of it was sent
}

func newWriter(w io.WriteCloser, queue int) *writer {
	if queue <= 0 {
		queue = defaultQueue
	}
	out := &writer{w: w, queue: queue}
	out.run = out.push
	if t, ok := w.(interface{ SetWriteDeadline(time.Time) error }); ok && t.SetWriteDeadline(time.Time{}) == nil {
		out.timed = t
	}
	return out
}

// send sends b as one line. See transport.Pipe.
func (w *writer) send(ctx context.Context, quit <-chan struct{}, b []byte) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, context.Cause(ctx))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.awaitRoomLocked(ctx, quit, len(b)+1); err != nil {
		return fmt.Errorf("%w: %w", transport.ErrNotSent, err)
	}
	g, i := w.addLocked(b)
	g.members++
	w.startLocked()
	err := w.awaitLocked(ctx, quit, g, i)
	if g.members--; g.members == 0 && g.done {
		w.recycleLocked(g)
	}
	return err
}

// post queues b as one line without waiting for the other end.
func (w *writer) post(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return fmt.Errorf("%w: %w", transport.ErrNotSent, w.err)
	case w.next != nil && len(w.next.buf)+len(b)+1 > w.queue+w.queue/4:
		// The limit is a quarter higher than for Send, because messages from Queue can end waiting
		// calls.
		return transport.ErrFull
	}
	w.addLocked(b)
	w.startLocked()
	return nil
}

// stalled implements transport.Pipe.Stalled.
func (w *writer) stalled() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.going
	if g == nil || w.err != nil {
		return 0, false
	}
	midway := false
	for _, l := range g.lines {
		midway = midway || l.start < g.at && g.at < l.end
	}
	return time.Since(w.moved), midway
}

// awaitRoomLocked waits until there is room for n more bytes.
func (w *writer) awaitRoomLocked(ctx context.Context, quit <-chan struct{}, n int) error {
	for w.err == nil && w.next != nil && len(w.next.buf)+n > w.queue {
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-quit:
			err = transport.ErrStalled
		}
		w.mu.Lock()
		if err != nil {
			return err
		}
	}
	return w.err
}

func (w *writer) roomLocked() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// addLocked adds b to the group that is being filled.
func (w *writer) addLocked(b []byte) (g *group, i int) {
	if w.next == nil {
		if n := len(w.free); n > 0 {
			w.next, w.free = w.free[n-1], w.free[:n-1]
		} else {
			w.next = new(group)
		}
	}
	g = w.next
	start := len(g.buf)
	g.buf = appendLine(g.buf, b)
	g.lines = append(g.lines, line{start: start, end: len(g.buf)})
	return g, len(g.lines) - 1
}

func (w *writer) recycleLocked(g *group) {
	if cap(g.buf) > keptBuffer {
		g.buf = nil
	}
	*g = group{buf: g.buf[:0], lines: g.lines[:0]}
	if len(w.free) < keptGroups {
		w.free = append(w.free, g)
	}
}

// startLocked writes the next group if no other group is being written. It releases the lock
// while it writes.
func (w *writer) startLocked() {
	if w.busy || w.err != nil {
		return
	}
	g := w.next
	w.busy, w.next = true, nil
	if w.timed == nil {
		w.pushLocked(g, time.Now())
		return
	}
	began := time.Now()
	err := w.timed.SetWriteDeadline(began.Add(inlineWait))
	n := 0
	if err == nil {
		w.mu.Unlock()
		n, err = w.w.Write(g.buf)
		w.mu.Lock()
	}
	g.at = n
	if n < len(g.buf) && errors.Is(err, os.ErrDeadlineExceeded) && w.err == nil {
		if n > 0 {
			began = time.Now()
		}
		w.pushLocked(g, began)
		return
	}
	w.wroteLocked(g, n, err)
	if w.next != nil {
		w.pushLocked(w.takeLocked(), time.Now())
	}
}

// takeLocked returns the group to write next.
func (w *writer) takeLocked() *group {
	g := w.next
	w.next = nil
	w.busy = true
	w.roomLocked()
	return g
}

// pushLocked starts the goroutine that writes g and every later group.
func (w *writer) pushLocked(g *group, since time.Time) {
	w.going, w.moved = g, since
	if !w.pushing.Go(w.run) {
		w.going = nil
		w.wroteLocked(g, g.at, io.ErrClosedPipe)
	}
}

func (w *writer) push() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		g := w.going
		w.writeLocked(g)
		w.wroteLocked(g, g.at, w.err)
		if w.next == nil {
			w.going = nil
			return
		}
		w.going, w.moved = w.takeLocked(), time.Now()
	}
}

// writeLocked writes a group to its end. It releases the lock while it writes.
func (w *writer) writeLocked(g *group) {
	for w.err == nil && g.at < len(g.buf) {
		g.edge = len(g.buf)
		var err error
		if w.timed == nil {
			g.edge = g.step()
		} else {
			err = w.timed.SetWriteDeadline(time.Now().Add(tick))
		}
		n := 0
		if err == nil {
			b := g.buf[g.at:g.edge]
			w.mu.Unlock()
			n, err = w.w.Write(b)
			w.mu.Lock()
		}
		if n > 0 {
			g.at += n
			w.moved = time.Now()
			g.tell()
		}
		g.edge = g.at
		for i := range g.lines {
			if l := &g.lines[i]; l.out && !l.gone && l.start >= g.at {
				g.remove(i)
			}
		}
		if g.settled != nil {
			close(g.settled)
			g.settled = nil
		}
		switch {
		case w.timed != nil && errors.Is(err, os.ErrDeadlineExceeded):
		case err == nil && n <= 0:
			w.failLocked(io.ErrShortWrite)
		case err != nil:
			w.failLocked(err)
		}
	}
}

// step returns the end of the next write, for a writer without deadlines.
func (g *group) step() int {
	edge := g.at
	for _, l := range g.lines {
		switch {
		case l.end <= g.at:
		case edge == g.at:
			edge = min(l.end, g.at+writeChunk)
		case l.end <= g.at+fewLines:
			edge = l.end
		default:
			return edge
		}
	}
	return edge
}

// wroteLocked records the result of writing a group.
func (w *writer) wroteLocked(g *group, n int, err error) {
	g.at, g.edge = n, n
	if err == nil && n < len(g.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.failLocked(err)
	}
	w.busy = false
	w.endLocked(g)
	if w.next == nil {
		w.emptyLocked()
	}
}

// emptyLocked wakes a close that waits for the last lines.
func (w *writer) emptyLocked() {
	if w.empty != nil {
		close(w.empty)
		w.empty = nil
	}
}

func (w *writer) endLocked(g *group) {
	g.done, g.err = true, w.err
	g.tell()
	if g.settled != nil {
		close(g.settled)
		g.settled = nil
	}
	if g.members == 0 {
		w.recycleLocked(g)
	}
}

// failLocked records that no more lines can be sent.
func (w *writer) failLocked(err error) {
	if w.err == nil {
		w.err = err
	}
	w.roomLocked()
	if g := w.next; g != nil {
		w.next = nil
		w.endLocked(g)
	}
	w.emptyLocked()
}

// tell wakes the senders that wait for a line.
func (g *group) tell() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// remove removes a line of which no byte was sent.
func (g *group) remove(i int) {
	l := &g.lines[i]
	n := l.end - l.start
	g.buf = append(g.buf[:l.start], g.buf[l.end:]...)
	l.end, l.gone = l.start, true
	for j := i + 1; j < len(g.lines); j++ {
		g.lines[j].start -= n
		g.lines[j].end -= n
	}
}

// awaitLocked waits until a line has been sent.
func (w *writer) awaitLocked(ctx context.Context, quit <-chan struct{}, g *group, i int) error {
	for !g.done && g.at < g.lines[i].end {
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		w.mu.Unlock()
		var cause error
		select {
		case <-changed:
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-quit:
			cause, quit = transport.ErrStalled, nil
		}
		w.mu.Lock()
		if cause == nil {
			continue
		}
		w.withdrawLocked(g, i)
		switch l := &g.lines[i]; {
		case l.gone:
			return fmt.Errorf("%w: %w", transport.ErrNotSent, cause)
		case g.at >= l.end, g.done, cause == transport.ErrStalled:
		default:
			return fmt.Errorf("the write was cancelled after %d of %d bytes: %w", max(0, g.at-l.start), l.end-l.start, cause)
		}
	}
	l := &g.lines[i]
	switch {
	case g.at >= l.end && !l.gone:
		return nil
	case g.at > l.start:
		return fmt.Errorf("the write failed after %d of %d bytes: %w", g.at-l.start, l.end-l.start, g.err)
	}
	return fmt.Errorf("%w: %w", transport.ErrNotSent, g.err)
}

// withdrawLocked removes a line from its group if no byte of it was sent. It releases the lock
// for a short time if a running write might reach the line.
func (w *writer) withdrawLocked(g *group, i int) {
	l := &g.lines[i]
	switch {
	case g.done || l.start < g.at:
	case l.start >= g.edge:
		g.remove(i)
		if g == w.next {
			w.roomLocked()
		}
	case w.timed != nil:
		l.out = true
		if g.settled == nil {
			g.settled = make(chan struct{})
		}
		settled := g.settled
		_ = w.timed.SetWriteDeadline(past)
		w.mu.Unlock()
		<-settled
		w.mu.Lock()
	}
}

var past = time.Unix(1, 0)

func (w *writer) shut() error {
	w.closing.Do(func() { w.ended = w.w.Close() })
	return w.ended
}

// close waits up to flushTimeout for queued lines. Then it ends the stream and unblocks all
// writes.
func (w *writer) close() error {
	w.mu.Lock()
	if stuck := w.going != nil && time.Since(w.moved) > flushTimeout; w.busy && w.err == nil && !stuck {
		if w.empty == nil {
			w.empty = make(chan struct{})
		}
		empty := w.empty
		w.mu.Unlock()
		late := time.NewTimer(flushTimeout)
		select {
		case <-empty:
		case <-late.C:
		}
		late.Stop()
		w.mu.Lock()
	}
	w.failLocked(io.ErrClosedPipe)
	w.mu.Unlock()
	err := w.shut()
	w.awaitPush()
	if !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// awaitPush waits for the goroutine that writes. With deadlines, closing ends the write. Without
// deadlines, the write may continue until the other end is closed too. awaitPush then does not wait
// for the goroutine.
func (w *writer) awaitPush() {
	if w.timed != nil {
		w.pushing.Wait()
		return
	}
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() { w.pushing.Wait(); close(ended) })
	late := time.NewTimer(closeGrace)
	defer late.Stop()
	select {
	case <-ended:
		waiting.Wait()
	case <-late.C:
	}
}

// appendLine appends b and a newline to dst. 2026-07-28 §stdio: a message MUST NOT contain
// embedded newlines. appendLine removes white space after the message, which HTTP bodies often
// have: the Go SDK treats a space before the newline as trailing data and exits.
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
