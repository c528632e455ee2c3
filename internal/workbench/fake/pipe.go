package fake

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// stuck is how long ServePipe waits at its end for a client that does not read.
const stuck = 2 * time.Second

// pipe is the outlet of a conversation over stdio.
type pipe struct {
	s     *Server
	lines chan []byte
	dead  chan struct{} // closed after a write has failed
}

// ServePipe serves one client. Each line of the reader in is a message from the client (2025-11-25
// §Transports, "stdio"). ServePipe returns nil at the end of the input and the cause of ctx if ctx
// ended first. Otherwise it returns the error of the pipe or the reason why the server ended.
// ServePipe closes out, and also closes in if in is an io.Closer. If closing in does not unblock a
// read, ServePipe notices the end of ctx or of the server only after the next line.
func (s *Server) ServePipe(ctx context.Context, in io.Reader, out io.WriteCloser) error {
	done, ok := s.begin()
	if !ok {
		if closer, ok := in.(io.Closer); ok {
			_ = closer.Close()
		}
		_ = out.Close()
		return errClosed
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()

	p := &pipe{s: s, lines: make(chan []byte, 64), dead: make(chan struct{})}
	c := s.converse(p)
	c.pipe = p
	var wg sync.WaitGroup
	wg.Go(func() { p.write(out, cancel) })
	wg.Go(func() {
		<-ctx.Done()
		if closer, ok := in.(io.Closer); ok {
			_ = closer.Close()
		}
	})
	err := s.read(ctx, c, in)
	cancel(err)
	force := time.AfterFunc(stuck, func() { _ = out.Close() })
	c.end(context.Cause(ctx))
	close(p.lines)
	wg.Wait()
	force.Stop()
	if cause := context.Cause(ctx); cause != errGone {
		return cause
	}
	return nil
}

// read handles lines until the input or ctx ends, and returns the reason. The reason is errGone at
// the end of the input.
func (s *Server) read(ctx context.Context, c *conversation, in io.Reader) error {
	if s.part.twist.open != nil {
		s.part.twist.open(ctx, c)
	}
	lines := newLines(in)
	for ctx.Err() == nil {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return fmt.Errorf("cannot read from the client: %w", err)
			}
			return errGone
		}
		if len(lines.Bytes()) > 0 {
			c.receive(ctx, bytes.Clone(lines.Bytes()), c.out)
		}
	}
	return context.Cause(ctx)
}

// send writes a message as a line.
func (p *pipe) send(msg []byte) {
	p.s.capture.write(response, msg)
	line := make([]byte, 0, len(msg)+1)
	p.raw(append(append(line, msg...), '\n'))
}

// raw queues bytes, which the method write sends without changes. The caller must not use b
// afterwards.
func (p *pipe) raw(b []byte) {
	select {
	case p.lines <- b:
	case <-p.dead:
	}
}

// write writes queued lines until the queue is closed, and then closes out.
func (p *pipe) write(out io.WriteCloser, fail context.CancelCauseFunc) {
	defer func() { _ = out.Close() }()
	for line := range p.lines {
		if _, err := out.Write(line); err != nil {
			fail(fmt.Errorf("cannot write to the client: %w", err))
			close(p.dead)
			for range p.lines { // discard the other lines, so that no sender blocks
			}
			return
		}
	}
}
