package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/failure"
)

// wire is the connection of one conversation. It carries raw bytes. Only one goroutine calls
// its methods.
type wire interface {
	// send queues a message and returns its number, starting at 1. It does not block.
	send(p parcel) int
	// pieces returns the channel of input. The channel is closed when no more input can
	// arrive.
	pieces() <-chan piece
	// close ends the conversation and waits for all goroutines that the wire has started.
	close()
	// exitText returns how the conversation ended.
	exitText() string
}

// parcel is one message to a server.
type parcel struct {
	body   []byte
	method string      // the HTTP method; "" means POST
	header http.Header // headers for this request only, set last; an empty value removes a header
}

// piece is one unit of input: a line of a pipe, an HTTP body or an event of a stream.
type piece struct {
	raw  []byte
	half bool // the stream ended in the middle of the piece

	// The following fields are used over HTTP. The first of them is the number of the parcel to
	// which the piece is the response, or 0 if unknown. If end is set, the response has ended and
	// the piece has no bytes.
	of     int
	status int
	header http.Header
	end    bool
	err    error // the reason why there was no response
}

// Limits of a wire.
const (
	maxLine   = 8 << 20 // bytes of a line, body or event; the rest is ignored
	maxPieces = 16      // pieces that have not been read; when there are more, the server must wait
	maxUnsent = 32      // parcels that the server has not read
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
	default: // the server does not read, so the probe will time out
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
			case <-p.done: // keep reading, so that the child can exit
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine returns a line without its line end. Bytes beyond maxLine are dropped.
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

func (p *pipe) exitText() string { return p.child.Epitaph() }

// DescribeFailure implements failure.Source.
func (p *pipe) DescribeFailure(f *failure.Facts) {
	if s, ok := p.child.(failure.Source); ok {
		s.DescribeFailure(f)
	}
}
