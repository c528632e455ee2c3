package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// wire is one fresh conversation as bytes. Its methods are called by one goroutine.
type wire interface {
	// send says something, without waiting for it to arrive, and returns its number,
	// from 1.
	send(p parcel) int
	// pieces gives what comes back. It is closed when nothing more can.
	pieces() <-chan piece
	// close ends the conversation and waits for all that it has started.
	close()
	// epitaph says how it ended.
	epitaph() string
}

// parcel is one message towards a server.
type parcel struct {
	body   []byte
	method string      // of HTTP; "" means POST
	header http.Header // of this request alone, after all others; an empty value takes one away
}

// piece is something that a server said: a line, a body or an event.
type piece struct {
	raw  []byte
	half bool // the stream ended in the midst of it

	// Over HTTP: the parcel that it is in return for, 0 for none; its status; and
	// whether it is the end of that response, which has no bytes of its own.
	of     int
	status int
	header http.Header
	end    bool
	err    error // why there was no response
}

// Bounds of a wire.
const (
	maxLine   = 8 << 20 // bytes of a line, body or event that are looked at
	maxPieces = 16      // that nobody has taken yet; the server has to wait then
	maxUnsent = 32      // parcels that the server does not take
)

// pipe is the wire to a child. One goroutine reads its output, one writes.
type pipe struct {
	child   Child
	out     chan []byte
	in      chan piece
	done    chan struct{} // closed by close
	running sync.WaitGroup
	sent    int
}

func openPipe(ctx context.Context, t *Target) (*pipe, error) {
	child, err := t.Start(ctx)
	if err != nil {
		return nil, err
	}
	p := &pipe{child: child, out: make(chan []byte, maxUnsent), in: make(chan piece, maxPieces), done: make(chan struct{})}
	from, to := child.Streams()
	p.running.Go(func() { p.read(from) })
	p.running.Go(func() { p.write(to) })
	return p, nil
}

func (p *pipe) pieces() <-chan piece { return p.in }

func (p *pipe) send(l parcel) int {
	p.sent++
	select {
	case p.out <- append(bytes.Clone(l.body), '\n'):
	default: // it takes nothing; the silence that follows says so
	}
	return p.sent
}

func (p *pipe) write(to io.Writer) {
	for {
		select {
		case line := <-p.out:
			if _, err := to.Write(line); err != nil {
				return
			}
		case <-p.done:
			return
		}
	}
}

func (p *pipe) read(from io.Reader) {
	defer close(p.in)
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(r)
		if len(bytes.TrimSpace(line)) > 0 {
			select {
			case p.in <- piece{raw: line, half: err != nil}:
			case <-p.done: // but read on, so that the child can end
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine returns a line without its end; what goes beyond maxLine is left out.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part[:min(len(part), maxLine-len(line))]...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}

func (p *pipe) close() {
	close(p.done)
	p.child.Stop()
	p.running.Wait()
}

func (p *pipe) epitaph() string { return p.child.Epitaph() }
