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

// PlayPipe plays one side of a tape to a peer on a pipe: the client's side when
// client is set, otherwise the server's. It says what stands on the tape once the
// peer has said all that stands before it, and returns how the peer differs. What
// the peer says that is not on the tape is a difference; a request among it is
// answered that it is not there.
//
// A client that is played closes its end and gives the server time to end. A
// server that is played ends when the client does, or when it did so by itself on
// the tape. To is closed in any case; stop is called when the tape is over and has
// to unblock From. The error says why playing could not go on.
func (t *Tape) PlayPipe(ctx context.Context, client bool, peer Ends, stop func(), o Options) ([]Difference, error) {
	if t.http {
		return nil, errors.New("it was recorded over HTTP, and this is a pipe")
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
	over chan struct{} // closed when the peer says no more

	out    sync.Mutex // of the writing end; held across a write, which only the peer delays
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
		if p.line(p.words(i)) != nil {
			break // nobody hears us; what the peer still owes is missed
		}
	}
	return p.turn(ctx, len(p.tape.entries), p.over)
}

// staysOpen reports whether the server that we play did not end by itself.
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

// awaitEnd waits until the peer says no more: a server for so long, a client for
// as long as it likes.
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

// listen takes the peer's lines until there are no more.
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

var errNotOnTape = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this is not on the tape, or not any more"}

// readLine reads up to a newline, and of a longer line than a tape can hold only
// its beginning.
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
