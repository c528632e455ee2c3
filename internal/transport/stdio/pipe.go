package stdio

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// The default limits of one message, in bytes.
const (
	MaxFromClient   = 4 << 20
	MaxFromUpstream = 16 << 20
)

// Options configure a Pipe. The zero value is for a pipe towards a client.
type Options struct {
	// Limits of one message. Limits.Bytes is the length of a line without trailing
	// white space; 0 means MaxFromClient. A longer line is skipped, up to
	// transport.Endless.
	Limits jsonrpc.Limits
	// Queue limits the bytes that wait while a write is in progress; above it Write and
	// Send block. A larger message waits alone. Messages of the method Queue may use a
	// quarter more. 0 means 1 MiB.
	Queue int
}

// BadLine reports a line that is not a message. Reading continues after it. It unwraps
// to Err, to a *transport.BadAnswer if the line looks like an answer, to transport.ErrTooLarge if
// that is the reason, and to io.ErrUnexpectedEOF if the stream ended within the line.
type BadLine struct {
	Err   *jsonrpc.Error
	Line  []byte // its first 256 bytes at most, unsanitised: do not print it
	whole error  // the error that contains Err
	cause error
}

func (e *BadLine) Error() string { return e.Err.Error() }

// Unwrap lets errors.As find the *jsonrpc.Error and errors.Is the reason.
func (e *BadLine) Unwrap() []error {
	if e.cause == nil {
		return []error{e.whole}
	}
	return []error{e.whole, e.cause}
}

// badLine returns the error for a line that was refused with err.
func badLine(line []byte, err, cause error) *BadLine {
	bad := &BadLine{Line: join(line, nil, shownBytes), whole: err, cause: cause}
	if !errors.As(err, &bad.Err) {
		bad.Err = &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "invalid message"}
		bad.whole = bad.Err
	}
	return bad
}

// Pipe sends messages over a pair of byte streams. It implements transport.Pipe: one
// goroutine may read, any number may write and close.
type Pipe struct {
	limits jsonrpc.Limits
	in     *lines
	out    *writer
	r      io.Reader
	closed chan struct{}
	once   sync.Once
	err    error // the result of Close

	stalled atomic.Bool // a line over the limit did not continue

	mu    sync.Mutex
	noise []string // see Noise
}

// maxNoise is how many lines Noise returns.
const maxNoise = 12

// Noise returns the first lines that were text and not JSON, such as a banner: at most 12,
// each at most 256 bytes long and made safe by Printable. They may contain secrets.
func (p *Pipe) Noise() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.noise)
}

func (p *Pipe) noteNoise(line []byte) {
	if len(line) == 0 || line[0] == '{' || line[0] == '[' && jsonrpc.IsBatch(line) {
		return
	}
	text := Printable(line)
	p.mu.Lock()
	defer p.mu.Unlock()
	if text != "" && len(p.noise) < maxNoise {
		p.noise = append(p.noise, text)
	}
}

var _ transport.Pipe = (*Pipe)(nil)

// NewPipe returns a Pipe that reads from r and writes to w, and owns both. Close can
// unblock a Read only if r is an io.Closer whose Close does so. If w has
// SetWriteDeadline, that interrupts a write. Otherwise closing w must unblock it.
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

// stop ends a Read of a line over the limit that does not continue.
func (p *Pipe) stop() {
	p.stalled.Store(true)
	if c, ok := p.r.(io.Closer); ok {
		_ = c.Close()
	}
}

// Read returns the next message. The caller owns its bytes.
//
// A *BadLine and a *transport.Batch are refused frames: both unwrap to a
// *jsonrpc.Error, and reading continues. (2026-07-28 §stdio forbids anything but valid
// messages, but servers print banners.) Any other error is final: io.EOF at the end of
// the stream, io.ErrClosedPipe after Close, transport.ErrEndless if a line does not
// end. If the last message has no newline, it is delivered if it is complete, otherwise
// it is a *BadLine.
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
			return nil, io.EOF // Stop has ended reading
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
	bad := badLine(line, err, cause)
	p.noteNoise(bad.Line)
	// A program that exits may write half an answer; its exit is the reason.
	return nil, bad
}

// Write sends one message. It returns when the message has been passed to the operating
// system, however long the other end does not read: the owner of the pipe uses Stalled
// to decide when to give up. Line breaks are replaced by blanks: JSON strings contain
// none, and elsewhere all white space is equivalent.
//
// Its errors are final for the pipe. They wrap transport.ErrNotSent if no byte of b was
// sent.
func (p *Pipe) Write(b []byte) error { return p.out.send(context.Background(), nil, b) }

// Send implements transport.Pipe. Errors that wrap neither the cause of ctx nor
// transport.ErrStalled are final for the pipe.
//
// If w has no deadlines, nobody can tell whether a running write has reached the
// message, so such a message is not withdrawn.
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
