package tape

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// PlayPipe replays one side of a tape to a peer on a pipe: the client's side if client is
// true, otherwise the server's. It sends each message once the peer has sent everything
// before it, and returns how the peer differs from the tape. A message of the peer that is
// not on the tape is a difference; if it is a request, it gets an error.
//
// A replayed client closes its end and gives the server time to exit. A replayed server
// ends when the client does, or where the tape says that it ended by itself. PlayPipe
// always closes To. It calls stop at the end, which must unblock From. The error says why
// the replay could not continue.
func (t *Tape) PlayPipe(ctx context.Context, client bool, peer Ends, stop func(), o Options) ([]Difference, error) {
	if t.http {
		return nil, errors.New("the tape was recorded over HTTP, but this is a pipe")
	}
	p := &pipePlay{score: newScore(t, client, o), to: peer.To, over: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(p.over)
		p.listen(peer.From)
	})
	err := p.say(ctx)
	if err == nil && (client || p.staysOpen()) {
		if client {
			_ = p.close()
		}
		err = p.awaitEnd(ctx)
	}
	_ = p.close()
	stop()
	reading.Wait()
	return p.rest(), err
}

type pipePlay struct {
	*score
	over chan struct{} // closed when the peer sends no more

	out    sync.Mutex // guards writing; held during a write, which only the peer can delay
	to     io.WriteCloser
	closed bool
}

func (p *pipePlay) say(ctx context.Context) error {
	for i := range p.tape.entries {
		if !p.ours(i) {
			continue
		}
		if err := p.turn(ctx, i, p.over); err != nil {
			return err
		}
		if p.tape.entries[i].isEnd() {
			return nil
		}
		if p.line(p.messageFor(i)) != nil {
			break // the peer no longer reads; what it should still send is reported as missing
		}
	}
	return p.turn(ctx, len(p.tape.entries), p.over)
}

// staysOpen reports whether the replayed server does not end by itself.
func (p *pipePlay) staysOpen() bool {
	for i := range p.tape.entries {
		switch p.tape.entries[i].section {
		case clientClose:
			return true
		case serverClose:
			return false
		}
	}
	return true
}

// awaitEnd waits until the peer sends no more. A server gets a timeout, a client does not.
func (p *pipePlay) awaitEnd(ctx context.Context) error {
	var late <-chan time.Time
	if p.client {
		t := time.NewTimer(p.options.Timeout)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-p.over:
	case <-late:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func (p *pipePlay) line(b []byte) error {
	p.out.Lock()
	defer p.out.Unlock()
	if p.closed {
		return io.ErrClosedPipe
	}
	_, err := p.to.Write(append(bytes.Clone(b), '\n'))
	return err
}

func (p *pipePlay) close() error {
	p.out.Lock()
	defer p.out.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	return p.to.Close()
}

// listen handles the peer's lines until its output ends.
func (p *pipePlay) listen(from io.Reader) {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(in)
		if text := bytes.TrimSpace(line); len(text) > 0 {
			p.hear(text)
		}
		if err != nil {
			return
		}
	}
}

func (p *pipePlay) hear(line []byte) {
	if p.take(line, func(int) bool { return true }) >= 0 {
		return
	}
	p.differ(Difference{Where: "not on the tape", Live: string(line)})
	if m := scan(line); m != nil && m.Kind == jsonrpc.Request {
		_ = p.line(jsonrpc.AppendError(nil, m.ID, errNotOnTape))
	}
}

var errNotOnTape = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this is not on the tape, or was already replayed"}

// readLine reads a line. If the line is longer than a tape can hold, it returns the
// beginning.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxLine-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
