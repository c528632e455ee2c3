package stdio

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// The usual bounds of one message, in bytes.
const (
	MaxFromClient   = 4 << 20
	MaxFromUpstream = 16 << 20
)

// Options of a Pipe. The zero value is that of a pipe towards a client.
type Options struct {
	// Limits of one message. Limits.Bytes counts a line without the white space
	// at its end; 0 means MaxFromClient. A longer line is skipped, up to
	// transport.Endless.
	Limits jsonrpc.Limits
	// Queue bounds the bytes that wait while a write is under way; Write and Send
	// block beyond it. A larger message waits alone. What comes by Queue may fill a
	// quarter more. 0 means 1 MiB.
	Queue int
}

// ErrTooLarge is wrapped by the *BadLine of a line beyond the limit, which was
// skipped.
var ErrTooLarge = transport.ErrTooLarge

// BadLine reports a line that is not a message. The pipe goes on after it. It
// unwraps to Err, to a *transport.BadAnswer where the line looks like an answer, to
// ErrTooLarge where that is the reason, and to io.ErrUnexpectedEOF where the stream
// ended within the line.
type BadLine struct {
	Err   *jsonrpc.Error
	Line  []byte // at most its first 256 bytes, as they came: not for a terminal
	whole error  // what Err is in
	cause error
}

func (e *BadLine) Error() string { return e.Err.Error() }

// Unwrap makes errors.As find the *jsonrpc.Error and errors.Is the reason.
func (e *BadLine) Unwrap() []error {
	if e.cause == nil {
		return []error{e.whole}
	}
	return []error{e.whole, e.cause}
}

// badLine returns the error of a line that was refused with err.
func badLine(line []byte, err, cause error) *BadLine {
	bad := &BadLine{Line: join(line, nil, shownBytes), whole: err, cause: cause}
	if !errors.As(err, &bad.Err) {
		bad.Err = &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "invalid message"}
		bad.whole = bad.Err
	}
	return bad
}

// Pipe carries messages over a pair of byte streams. It implements
// transport.Pipe: one goroutine may read, any number may write and close.
type Pipe struct {
	limits jsonrpc.Limits
	in     *lines
	out    *writer
	r      io.Reader
	closed chan struct{}
	once   sync.Once
	err    error // of Close

	stalled atomic.Bool // a line over the limit has not gone on
}

var _ transport.Pipe = (*Pipe)(nil)

// NewPipe returns a Pipe that reads from r and writes to w, and owns both. Close
// can unblock a Read only where r is an io.Closer whose Close does so. Where w
// has SetWriteDeadline that interrupts a write, otherwise closing w must unblock
// it.
func NewPipe(r io.Reader, w io.WriteCloser, o Options) *Pipe {
	if o.Limits.Bytes <= 0 {
		o.Limits.Bytes = MaxFromClient
	}
	p := &Pipe{
		limits: o.Limits,
		out:    newWriter(w, o.Queue),
		r:      r,
		closed: make(chan struct{}),
	}
	p.in = newLines(r, o.Limits.Bytes, p.stop)
	return p
}

// stop ends a Read in which a line over the limit does not go on.
func (p *Pipe) stop() {
	p.stalled.Store(true)
	if c, ok := p.r.(io.Closer); ok {
		_ = c.Close()
	}
}

// Read returns the next message, whose bytes are the caller's.
//
// A *BadLine (2026-07-28 §stdio: what is not a valid message must not be there,
// yet servers print banners) and a *transport.Batch are refused frames: both
// unwrap to a *jsonrpc.Error, and reading goes on. Anything else is final: io.EOF
// when the other end is through, io.ErrClosedPipe after Close,
// transport.ErrEndless when a line does not end. A message whose
// newline is missing at the end of the stream is delivered if it is complete,
// else it is a *BadLine.
func (p *Pipe) Read() (*jsonrpc.Message, error) {
	line, err := p.in.next()
	var cause error
	switch err {
	case nil:
	case errTooLong:
		return nil, badLine(line, transport.Skipped(p.limits.Bytes, &p.in.long), nil)
	case errUnterminated:
		cause = io.ErrUnexpectedEOF
	default:
		select {
		case <-p.closed:
			return nil, io.ErrClosedPipe
		default:
		}
		if p.stalled.Load() {
			return nil, transport.ErrEndless
		}
		if errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
			return nil, io.EOF // Stop has ended the reading
		}
		return nil, err
	}
	if jsonrpc.IsBatch(line) {
		if cause == nil || jsonrpc.Valid(line, p.limits) == nil {
			return nil, &transport.Batch{Raw: line}
		}
	}
	m, err := jsonrpc.Scan(line, p.limits)
	if err == nil {
		return m, nil
	}
	if cause == nil {
		err = transport.Refused(line, err)
	}
	// What a program says when it dies is half an answer, and its end the reason.
	return nil, badLine(line, err, cause)
}

// Write sends one message. It returns when the message has been handed to the operating
// system, however long the other end reads nothing: the owner of the pipe decides by
// Stalled when to give up. White space that would end the line is replaced by blanks:
// JSON has none inside of strings, and elsewhere any white space means the same.
//
// Its errors are final for the pipe. They wrap transport.ErrNotSent when no byte of b
// has left.
func (p *Pipe) Write(b []byte) error { return p.out.send(context.Background(), nil, b) }

// Send implements transport.Pipe. Errors that wrap neither the cause of ctx nor
// transport.ErrStalled are final for the pipe.
//
// Where w has no deadlines, nobody can tell whether a write that is under way has
// reached the message, and such a message is not withdrawn.
func (p *Pipe) Send(ctx context.Context, quit <-chan struct{}, b []byte) error {
	return p.out.send(ctx, quit, b)
}

// Queue implements transport.Pipe.
func (p *Pipe) Queue(b []byte) error { return p.out.post(b) }

// Stalled implements transport.Pipe.
func (p *Pipe) Stalled() (d time.Duration, midway bool) { return p.out.stalled() }

// Close closes both streams. It unblocks Read and Write.
func (p *Pipe) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.err = p.out.close()
		if c, ok := p.r.(io.Closer); ok {
			if err := c.Close(); !errors.Is(err, os.ErrClosed) {
				p.err = errors.Join(p.err, err)
			}
		}
	})
	return p.err
}
