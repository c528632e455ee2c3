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

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

const (
	defaultQueue = 1 << 20
	// inlineWait is how long the goroutine of a sender may write. Then another goroutine continues,
	// so that the sender can return when its context ends.
	inlineWait = 10 * time.Millisecond
	// tick is how long one Write of the writing goroutine may take before the goroutine records the
	// progress.
	tick = 50 * time.Millisecond
	// Without deadlines, the progress of a write is unknown until the write returns. So each write
	// is short: whole lines with at most fewLines bytes in total, or at most writeChunk bytes of
	// one line.
	fewLines   = 4 << 10
	writeChunk = 64 << 10
	// flushTimeout is how long the method close waits until queued lines, such as a cancellation,
	// are written. If the other end has read nothing for longer than flushTimeout, close does not
	// wait.
	flushTimeout = 500 * time.Millisecond
	// closeGrace is how long the method close waits for a write that cannot be interrupted.
	closeGrace = time.Second
	// A writer keeps up to keptGroups groups for reuse. Three groups can be in use at the same
	// time: one collects lines, one is being written, and the senders of the third read its result.
	// keptBuffer is the maximum capacity of the buffer of a kept group; a larger one comes from longs.
	keptGroups = 3
	keptBuffer = 128 << 10
)

// writer sends lines by group commit. While one group of lines is being written, the lines of all
// senders are collected in the next group. If no write is in progress, the sender writes its own
// line. If the other end does not accept everything within inlineWait, a goroutine writes the rest
// and every later group. So a sender never blocks longer than its context allows. A write has no
// timeout. The owner of the pipe decides how long the other end may read nothing; see stalled.
type writer struct {
	w     io.WriteCloser
	timed interface{ SetWriteDeadline(time.Time) error } // w, if w supports deadlines; otherwise nil
	queue int

	closing sync.Once
	ended   error      // the error of closing w
	pushing work.Group // the goroutine that writes groups
	run     func()     // the method push, stored to avoid an allocation

	mu    sync.Mutex // never held during a write
	busy  bool       // a group is being written
	going *group     // the group that the goroutine in pushing writes; nil if no goroutine runs
	moved time.Time  // when the running write last made progress
	next  *group     // the group that collects lines; nil if no lines are queued
	free  []*group   // groups to reuse, at most keptGroups
	err   error      // the reason why no more lines can be sent; nil if lines can be sent
	room  chan struct{}
	empty chan struct{} // closed when no line is queued or being written; nil if nobody waits
}

// group contains lines that are written together. writer.mu guards the group, but the goroutine
// that writes the group reads buf up to edge without the lock.
type group struct {
	buf     []byte
	lines   []line
	members int // number of senders that have not seen the result yet
	at      int // number of bytes of buf that were written
	edge    int // end of the running write in buf
	done    bool
	err     error
	changed chan struct{} // closed when a line may have been sent; nil if nobody waits
	settled chan struct{} // closed when the running write has returned; nil if nobody waits
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
		// The limit is a quarter higher than for Send, so that cancellations can still be queued
		// when Send blocks.
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

// addLocked adds b to the next group. It returns the group and the index of the line.
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
	if n := start + len(b) + 1; n > keptBuffer && n > cap(g.buf) {
		g.buf = longer(g.buf, n)
	}
	g.buf = appendLine(g.buf, b)
	g.lines = append(g.lines, line{start: start, end: len(g.buf)})
	return g, len(g.lines) - 1
}

// longer returns a buffer with the content of buf and room for n bytes in total. It gives buf back.
func longer(buf []byte, n int) []byte {
	out := getLong()
	if cap(out) < n {
		putLong(out)
		out = make([]byte, 0, n+n/4)
	}
	out = append(out, buf...)
	if cap(buf) > keptBuffer {
		putLong(buf)
	}
	return out
}

func (w *writer) recycleLocked(g *group) {
	if cap(g.buf) > keptBuffer {
		putLong(g.buf)
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

// takeLocked removes the next group from the queue and returns it for writing.
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

// writeLocked writes the rest of a group. It releases the lock while it writes.
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
			g.signal()
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

// wroteLocked marks a group as done. n is the number of bytes of the group that were written.
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

// emptyLocked notifies a close that waits until all lines are written.
func (w *writer) emptyLocked() {
	if w.empty != nil {
		close(w.empty)
		w.empty = nil
	}
}

func (w *writer) endLocked(g *group) {
	g.done, g.err = true, w.err
	g.signal()
	if g.settled != nil {
		close(g.settled)
		g.settled = nil
	}
	if g.members == 0 {
		w.recycleLocked(g)
	}
}

// failLocked makes all queued and later lines fail with err.
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

// signal notifies the senders that wait for lines of g.
func (g *group) signal() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// remove removes line i, of which no byte was sent.
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

// awaitLocked waits until line i of g has been sent. If ctx ends or quit is closed, it tries to
// withdraw the line.
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

// close waits up to flushTimeout until queued lines are written. Then it closes the stream and
// unblocks all writes.
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

// awaitPush waits until the goroutine that writes has ended. With deadlines, closing the stream
// ends the running write. Without deadlines, the write may continue until the other end is closed,
// so awaitPush waits at most closeGrace.
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

// appendLine appends b and a newline to dst. It replaces line breaks in b by spaces, because a
// message MUST NOT contain embedded newlines (2026-07-28 §stdio). It removes white space at the end
// of b, which HTTP bodies often have: the Go SDK treats a space before the newline as trailing data
// and exits.
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
