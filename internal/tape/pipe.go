package tape

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// maxLine is how much of a line is written down. Longer ones pass all the same.
const maxLine = 16 << 20

// Ends are a party's streams, as we see them.
type Ends struct {
	From io.Reader      // what it says
	To   io.WriteCloser // what it hears
}

// Pipe passes the bytes of a client and a server on to each other, unchanged, and
// records them, until the server has said its last. It closes To of the server
// when the client is through, and returns what broke when that was not a plain
// end. The client's From must be unblocked by whoever owns it; stop, if not nil,
// is called for that when the server is through.
func (r *Recorder) Pipe(client, server Ends, stop func()) error {
	var up error
	var pumps sync.WaitGroup
	pumps.Go(func() {
		up = r.pass(clientLine, client.From, server.To)
		r.closed(clientClose, "")
		// The server learns that nothing more will come.
		up = errors.Join(up, server.To.Close())
	})
	down := r.pass(serverLine, server.From, client.To)
	if stop != nil {
		stop()
	}
	pumps.Wait()
	return errors.Join(down, up)
}

// Ended records how the server ended.
func (r *Recorder) Ended(how string) { r.closed(serverClose, how) }

// pass copies until the end. What the receiver does not take any more is recorded
// all the same: it was said.
func (r *Recorder) pass(section string, from io.Reader, to io.Writer) error {
	var line []byte
	var broken error
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		// First on the tape: otherwise an answer could stand before its question.
		for rest := buf[:n]; len(rest) > 0; {
			head, tail, whole := bytes.Cut(rest, []byte("\n"))
			line = append(line, head[:min(len(head), maxLine-len(line))]...)
			if rest = tail; whole {
				r.line(section, line)
				line = line[:0]
			}
		}
		if n > 0 && broken == nil {
			_, broken = to.Write(buf[:n])
		}
		if cap(line) > 1<<20 && len(line) == 0 {
			line = nil
		}
		if err != nil {
			if len(line) > 0 {
				r.line(section, line)
			}
			return errors.Join(unlessOver(broken), unlessOver(err))
		}
	}
}

// unlessOver removes the errors that only say that a conversation has ended.
func unlessOver(err error) error {
	for _, end := range []error{io.EOF, io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE} {
		if errors.Is(err, end) {
			return nil
		}
	}
	return err
}
