package tape

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// PlayPipe replays one side of a tape to a peer on a pipe: the client's side if client is true,
// otherwise the server's side. It sends each message as soon as the peer has sent all of the peer's
// messages that come earlier on the tape. It returns the differences between the peer and the tape.
// If the peer sends a message that is not on the tape, that is a difference. If this message is a
// request, PlayPipe also answers it with an error.
//
// As the client, PlayPipe closes peer.To after the last message, and gives the server time to exit.
// As the server, it ends when the client ends, or at the point where the server ended on the tape.
// PlayPipe always closes peer.To. At the end it calls stop, which must make a blocked Read of
// peer.From return. The error says why the replay could not continue.
func (t *Tape) PlayPipe(ctx context.Context, client bool, peer Ends, stop func(), o Options) ([]Difference, error) {
	if t.http {
		return nil, errors.New("the recording was made over HTTP, but this connection is stdio")
	}
	p := &pipePlay{score: newScore(t, client, o), to: peer.To, over: make(chan struct{}), open: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(p.over)
		p.listen(peer.From)
	})
	err := p.begin(ctx)
	if err == nil {
		err = p.say(ctx)
	}
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
	open    chan struct{} // closed when the server has answered the initialize request of the replay
	greeted sync.Once
	over    chan struct{} // closed when the peer cannot send any more messages

	out    sync.Mutex // guards to and closed; a write holds it, and may block if the peer does not read
	to     io.WriteCloser
	closed bool
}

// begin does the handshake with a legacy server if the tape is a tape of a call, which contains no
// handshake.
func (p *pipePlay) begin(ctx context.Context) error {
	if !p.client || !p.tape.call || !p.tape.revision.Legacy() {
		return nil
	}
	p.hello()
	late := time.NewTimer(p.options.Timeout)
	defer late.Stop()
	select {
	case <-p.open:
	case <-p.over:
	case <-late.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
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
			break // the peer does not read any more; the missing messages of the peer are reported as differences
		}
	}
	return p.turn(ctx, len(p.tape.entries), p.over)
}

// staysOpen reports whether the server on the tape stayed open until the client closed its end.
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

// awaitEnd waits until the peer cannot send any more messages. It waits for a server at most
// Options.Timeout, and for a client without a limit.
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

// listen handles each line from the peer until the peer's output ends.
func (p *pipePlay) listen(from io.Reader) {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := rawlink.ReadLine(in, maxLine)
		if text := bytes.TrimSpace(line); len(text) > 0 {
			p.receive(text)
		}
		if err != nil {
			return
		}
	}
}

func (p *pipePlay) receive(line []byte) {
	if p.greet(scan(line)) || p.take(line, func(int) bool { return true }) >= 0 {
		return
	}
	p.differ(Difference{Where: "not in the recording", Live: string(line)})
	if m := scan(line); m != nil && m.Kind == jsonrpc.Request {
		_ = p.line(jsonrpc.AppendError(nil, m.ID, errNotOnTape))
	}
}

var errNotOnTape = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this message is not in the recording, or was already replayed"}
