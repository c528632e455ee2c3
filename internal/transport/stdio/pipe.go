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

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// These are the default maximum lengths of one message in bytes.
const (
	MaxFromClient   = 4 << 20
	MaxFromUpstream = 16 << 20
)

// Options configure a Pipe. The zero value is for a pipe to a client.
type Options struct {
	// Limits apply to each message that is read. Limits.Bytes is the maximum length of a line
	// without trailing white space; 0 means MaxFromClient. A longer line is skipped. A line that is
	// longer than transport.Endless(Limits.Bytes) ends the pipe.
	Limits jsonrpc.Limits
	// Queue is the maximum number of bytes that wait while a write is in progress. If there is no
	// room for a message, Write and Send block. A message that is larger than Queue is queued only
	// if no other message waits. Pipe.Queue may exceed the limit by a quarter. 0 means 1 MiB.
	Queue int
}

// BadLine reports a line that is not a message. The next Read continues after the line. BadLine
// unwraps to Err. It also unwraps to a *transport.BadAnswer if the line looks like an answer, to
// transport.ErrTooLarge if the line was too long, and to io.ErrUnexpectedEOF if the stream ended
// within the line.
type BadLine struct {
	Err   *jsonrpc.Error
	Line  []byte // at most the first 256 bytes of the line; not sanitised, so do not print it
	whole error  // the error from which Err was taken
	cause error
}

func (e *BadLine) Error() string { return e.Err.Error() }

// Unwrap returns the errors that errors.Is and errors.As can find in a BadLine.
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

// Pipe sends messages over a pair of byte streams. It implements transport.Pipe. Only one goroutine
// at a time may call Read. All other methods are safe for concurrent use.
type Pipe struct {
	limits jsonrpc.Limits
	in     *lines
	out    *writer
	r      io.Reader
	closed chan struct{}
	once   sync.Once
	err    error // the result of Close

	stalled atomic.Bool // true if the rest of a line over the limit did not arrive in time

	mu    sync.Mutex
	noise []string // the lines that Noise returns
}

// maxNoise is the maximum number of lines that Noise returns.
const maxNoise = 12

// Noise returns the first lines that were text instead of JSON, such as a banner. It returns at
// most 12 lines. Each line has at most 256 bytes and is made safe by Printable. The lines may
// contain secrets.
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

// NewPipe returns a Pipe that reads from r and writes to w, and owns both. Close can unblock a Read
// only if r is an io.Closer and closing r unblocks r.Read. To interrupt a write, the Pipe uses
// SetWriteDeadline of w. If w does not have this method, closing w must unblock the write.
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

// stop ends a Read that waits for the rest of a line over the limit.
func (p *Pipe) stop() {
	p.stalled.Store(true)
	if c, ok := p.r.(io.Closer); ok {
		_ = c.Close()
	}
}

// Read returns the next message. The caller owns its bytes.
//
// For a refused line, the error is a *BadLine. For a batch, it is a *transport.Batch. Both errors
// unwrap to a *jsonrpc.Error, and the next Read continues after the line. (2026-07-28 §stdio allows
// only valid messages, but some servers print banners.) Any other error is final: io.EOF at the end
// of the stream, io.ErrClosedPipe after Close, and transport.ErrEndless if a line over the limit
// does not end. If the last message has no newline but is complete, Read returns the message. If
// the last message is not complete, the error is a *BadLine.
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
			return nil, io.EOF // the stream was closed, but not by Pipe.Close
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
	// If cause is set, the stream ended within the line, usually because the program exited. The
	// error is then not a *transport.BadAnswer, so that the request fails because of the exit.
	return nil, bad
}

// Write sends one message. It returns when the operating system has accepted the message. Write has
// no timeout, even if the other end does not read. The owner of the pipe uses Stalled to decide
// when to give up. Write replaces line breaks by spaces. This does not change the meaning of the
// message, because JSON strings do not contain line breaks.
//
// After an error of Write, all later writes fail too. The error wraps transport.ErrNotSent if no
// byte of b was sent.
func (p *Pipe) Write(b []byte) error { return p.out.send(context.Background(), nil, b) }

// Send implements transport.Pipe. After an error that wraps neither the cause of ctx nor
// transport.ErrStalled, all later writes fail too.
//
// If the writer of the pipe does not support deadlines, Send cannot interrupt a running write. Send
// then does not withdraw a message that belongs to the running write.
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
