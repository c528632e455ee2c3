// Package inmem joins a client and a server within one process: a pair of pipes
// through which the bytes of messages go by way of two bounded queues. It is for
// servers that are part of us, for the two halves of a bridge, and for tests.
//
// A message is copied when it is written and scanned when it is read, so that the
// two sides share nothing and each sees what a real link would show it. All waiting
// is on channels: in a testing/synctest bubble it is durable, and no real time
// passes. The package starts no goroutine and never drops a message; a full queue
// makes Write wait until the other side reads or either side closes.
package inmem

import (
	"fmt"
	"io"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

const (
	queued  = 64       // messages in each direction that nobody has read
	maximum = 16 << 20 // bytes of one message, unless told otherwise
)

// Pipe returns the two ends of a link. What is written to one is read from the
// other. The client's end takes leniently what a server sends, as on every other
// link to a server.
func Pipe() (client, server transport.Pipe) { return PipeOf(maximum) }

// PipeOf is Pipe for messages of at most that many bytes.
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

// end is one end of a link.
type end struct {
	in, out chan []byte // never closed
	closed  chan struct{}
	other   <-chan struct{} // closed of the other end
	once    sync.Once
	limits  jsonrpc.Limits // of both ends
}

// Read implements transport.Pipe. After the other end has closed it still returns
// what had been written before, then io.EOF; after Close it is io.ErrClosedPipe.
// An array is a *transport.Batch.
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

// Write implements transport.Pipe. Its only error wraps transport.ErrNotSent.
func (e *end) Write(b []byte) error {
	select {
	case <-e.closed:
		return notSent(io.ErrClosedPipe)
	case <-e.other:
		return notSent(io.ErrClosedPipe)
	default:
	}
	if len(b) > e.limits.Bytes {
		return notSent(fmt.Errorf("message exceeds %d bytes", e.limits.Bytes))
	}
	select {
	case e.out <- append(make([]byte, 0, len(b)), b...):
		return nil
	case <-e.closed:
	case <-e.other:
	}
	return notSent(io.ErrClosedPipe)
}

// Close implements transport.Pipe.
func (e *end) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

func notSent(err error) error { return fmt.Errorf("%w: %w", transport.ErrNotSent, err) }
