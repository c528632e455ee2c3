// Package inmem connects a client and a server within one process through a pair of pipes with two
// bounded queues. Built-in servers, adapters and tests use it.
//
// A message is copied when it is written and scanned when it is read. So the two sides share no
// memory, as with a network connection. The package waits only for channels. So tests can use it in
// a testing/synctest bubble, where waiting takes no real time. The package starts no goroutine. If
// a queue is full, Write and Send wait until the other side reads or either side closes the
// connection. Queue does not wait and returns an error.
package inmem

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

const (
	queued  = 64       // maximum number of unread messages in each direction
	maximum = 16 << 20 // default maximum length of one message in bytes
)

// Pipe returns the two ends of a connection. A message that is written to one end is read from the
// other. The client's end tolerates mistakes of servers, as all connections to servers do.
func Pipe() (client, server transport.Pipe) { return PipeOf(maximum) }

// PipeOf does the same as Pipe, for messages of at most maximum bytes.
func PipeOf(maximum int) (client, server transport.Pipe) {
	c := &end{
		out: make(chan []byte, queued), in: make(chan []byte, queued),
		closed: make(chan struct{}), limits: jsonrpc.Limits{Bytes: maximum, Tolerant: true},
	}
	s := &end{
		out: c.in, in: c.out,
		closed: make(chan struct{}), limits: jsonrpc.Limits{Bytes: maximum},
	}
	c.other, s.other = s.closed, c.closed
	return c, s
}

// end is one end of a connection.
type end struct {
	in, out chan []byte // never closed
	closed  chan struct{}
	other   <-chan struct{} // the field closed of the other end
	once    sync.Once
	limits  jsonrpc.Limits // the limits of messages; Bytes is the same for both ends

	mu      sync.Mutex
	waiting int       // number of Send calls that wait for room in the queue
	moved   time.Time // when a waiting Send last put its message into the queue, or when the first waiting Send began to wait
}

// Read implements transport.Pipe. After the other end was closed, Read returns the messages that
// were written before, and then io.EOF. After this end was closed, Read returns io.ErrClosedPipe.
// For an array of messages, the error is a *transport.Batch.
func (e *end) Read() (*jsonrpc.Message, error) {
	select {
	case <-e.closed:
		return nil, io.ErrClosedPipe
	default:
	}
	select {
	case b := <-e.in:
		return e.scan(b)
	case <-e.closed:
		return nil, io.ErrClosedPipe
	case <-e.other:
		select {
		case b := <-e.in:
			return e.scan(b)
		default:
			return nil, io.EOF
		}
	}
}

func (e *end) scan(b []byte) (*jsonrpc.Message, error) {
	if jsonrpc.IsBatch(b) {
		return nil, &transport.Batch{Raw: b}
	}
	m, err := jsonrpc.Scan(b, e.limits)
	if err != nil {
		return nil, transport.Refused(b, err)
	}
	return m, nil
}

// Write implements transport.Pipe. All errors of Write, Send and Queue wrap transport.ErrNotSent,
// because a message is never sent in part.
func (e *end) Write(b []byte) error { return e.Send(context.Background(), nil, b) }

// Send implements transport.Pipe.
func (e *end) Send(ctx context.Context, quit <-chan struct{}, b []byte) error {
	if err := e.refuse(b); err != nil {
		return notSent(err)
	}
	if ctx.Err() != nil {
		return notSent(context.Cause(ctx))
	}
	b = bytes.Clone(b)
	select {
	case e.out <- b:
		return nil
	default:
	}
	e.mu.Lock()
	if e.waiting == 0 {
		e.moved = time.Now()
	}
	e.waiting++
	e.mu.Unlock()
	err := error(nil)
	select {
	case e.out <- b:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-quit:
		err = transport.ErrStalled
	case <-e.closed:
		err = io.ErrClosedPipe
	case <-e.other:
		err = io.ErrClosedPipe
	}
	e.mu.Lock()
	e.waiting--
	if err == nil {
		e.moved = time.Now()
	}
	e.mu.Unlock()
	if err != nil {
		return notSent(err)
	}
	return nil
}

// Queue implements transport.Pipe.
func (e *end) Queue(b []byte) error {
	if err := e.refuse(b); err != nil {
		return notSent(err)
	}
	select {
	case e.out <- bytes.Clone(b):
		return nil
	default:
		return transport.ErrFull
	}
}

// Stalled implements transport.Pipe.
func (e *end) Stalled() (d time.Duration, midway bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == 0 {
		return 0, false
	}
	return time.Since(e.moved), false
}

// refuse returns why b cannot be sent, or nil if b can be sent.
func (e *end) refuse(b []byte) error {
	select {
	case <-e.closed:
		return io.ErrClosedPipe
	case <-e.other:
		return io.ErrClosedPipe
	default:
	}
	if len(b) > e.limits.Bytes {
		return fmt.Errorf("message exceeds %d bytes", e.limits.Bytes)
	}
	return nil
}

// Close implements transport.Pipe.
func (e *end) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

func notSent(err error) error { return fmt.Errorf("%w: %w", transport.ErrNotSent, err) }
