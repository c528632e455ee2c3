package tape

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// maxLine is the maximum number of bytes of one line on a tape. Longer lines are still forwarded
// completely.
const maxLine = 16 << 20

// Ends are the streams of one side.
type Ends struct {
	From io.Reader      // the stream that the side writes
	To   io.WriteCloser // the stream that the side reads
}

// Pipe forwards the bytes of client and server to each other without changes, and records them
// until the server's output ends. When the client's output ends, Pipe closes server.To. When the
// server's output has ended, Pipe calls stop, unless stop is nil. stop must make a blocked Read of
// client.From return. Pipe returns the error that ended the conversation, or nil after a normal
// end.
func (r *Recorder) Pipe(client, server Ends, stop func()) error {
	var up error
	var pumps sync.WaitGroup
	pumps.Go(func() {
		up = r.pass(clientLine, client.From, server.To)
		r.closed(clientClose, "")
		// Closing To tells the server that there is no more input.
		up = errors.Join(up, server.To.Close())
	})
	down := r.pass(serverLine, server.From, client.To)
	if stop != nil {
		stop()
	}
	pumps.Wait()
	return errors.Join(down, up)
}

// Ended records how the server ended, for example with an exit code.
func (r *Recorder) Ended(how string) { r.closed(serverClose, how) }

// pass copies bytes until the input ends, and records them. It continues to record if the receiver
// accepts no more bytes.
func (r *Recorder) pass(section string, from io.Reader, to io.Writer) error {
	var line []byte
	var broken error
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		// Record before writing. Otherwise a response could come before its request on the
		// tape.
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

// unlessOver returns nil for an error that only says that the conversation has ended. It returns
// any other error unchanged.
func unlessOver(err error) error {
	for _, end := range []error{io.EOF, io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE} {
		if errors.Is(err, end) {
			return nil
		}
	}
	return err
}
