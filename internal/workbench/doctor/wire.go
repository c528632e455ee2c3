package doctor

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// wire is the connection of one conversation. A wire carries raw bytes. Only one goroutine calls
// its methods.
type wire interface {
	// send queues a message and returns its number, starting at 1. It does not block.
	send(p parcel) int
	// pieces returns the channel of input. The wire closes the channel when its only stream of
	// input has ended. Over Streamable HTTP there is no such stream, and the channel stays open.
	pieces() <-chan piece
	// close ends the conversation and waits for all goroutines that the wire has started.
	close()
	// exitText describes how the server ended the conversation. It is "" over HTTP.
	exitText() string
}

// parcel is one message to a server.
type parcel struct {
	body   []byte
	method string      // the HTTP method; "" means POST
	header http.Header // headers for this request only, set last; an empty value removes a header
}

// piece is one unit of input: a line from a pipe, an HTTP body or an event of an event stream.
type piece struct {
	raw  []byte
	half bool // the stream ended in the middle of the piece

	// The following fields are used over HTTP. of is the number of the parcel whose response
	// contains the piece, or 0 if unknown. If end is set, the response has ended, and raw is empty.
	of     int
	status int
	header http.Header
	end    bool
	err    error // the reason why there was no response
}

// Limits of a wire.
const (
	maxLine   = 8 << 20 // the most bytes of a line, body or event; bytes after them are ignored
	maxPieces = 16      // pieces that wait to be processed; when there are more, the wire stops reading
	maxUnsent = 32      // parcels that wait to be sent, or whose HTTP response has not ended
)

// pipe is the connection to a child process. One goroutine reads its stdout, and another
// writes its stdin.
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
	default: // the queue is full because the server does not read; drop the message, so that the probe times out
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
		line, err := rawlink.ReadLine(r, maxLine)
		if len(bytes.TrimSpace(line)) > 0 {
			select {
			case p.in <- piece{raw: line, half: err != nil}:
			case <-p.done: // drop the line but keep reading, so that the child can exit
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *pipe) close() {
	close(p.done)
	p.child.Stop()
	p.running.Wait()
}

func (p *pipe) exitText() string { return p.child.Epitaph() }

// DescribeFailure implements failure.Source.
func (p *pipe) DescribeFailure(f *failure.Facts) {
	if s, ok := p.child.(failure.Source); ok {
		s.DescribeFailure(f)
	}
}
