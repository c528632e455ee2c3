package transcript

import (
	"bufio"
	"errors"
	"io"
	"time"
)

// limit is the timeout for sending or receiving one line.
const limit = 10 * time.Second

// quiet is the time without a line after which drain stops reading.
const quiet = 300 * time.Millisecond

var errSlow = errors.New("no line arrived within 10s")

// Link is one end of an in-memory pipe. As with io.Pipe, each write waits until it has been read.
type Link struct {
	io.Reader
	w *io.PipeWriter
	r *io.PipeReader
}

// Pipe returns two connected Links: one for the gateway, and one for Ends.
func Pipe() (a, b *Link) {
	ar, bw := io.Pipe()
	br, aw := io.Pipe()
	return &Link{Reader: ar, r: ar, w: aw}, &Link{Reader: br, r: br, w: bw}
}

func (l *Link) Write(p []byte) (int, error) { return l.w.Write(p) }

// CloseWrite makes the other end read io.EOF. This end can still read.
func (l *Link) CloseWrite() error { return l.w.Close() }

// Close closes both directions of the link.
func (l *Link) Close() error { return errors.Join(l.w.Close(), l.r.Close()) }

// party is the client or the server, played by the test, with its end of a link.
type party struct {
	name  string
	conn  io.ReadWriteCloser
	lines chan string // the lines that arrived; closed when the link ends
	err   error       // why read returned; valid after lines is closed
	ended bool        // true if the test has closed the output of this party
}

// read sends each line that arrives to p.lines. It returns when the link ends.
func (p *party) read() {
	defer close(p.lines)
	in := bufio.NewReader(p.conn)
	for {
		line, err := in.ReadString('\n')
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		} else if n > 0 {
			line += " (and no line end)"
		}
		if line != "" {
			p.lines <- line
		}
		if err != nil {
			p.err = err
			return
		}
	}
}

// next waits for a line and returns it. within is the timeout.
func (p *party) next(within time.Duration) (string, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", p.err
		}
		return line, nil
	case <-timer.C:
		return "", errSlow
	}
}

// send writes a line to the gateway. If the gateway does not read the line in time, send closes the
// link, which ends the write.
func (p *party) send(line string) error {
	timer := time.AfterFunc(limit, func() { p.conn.Close() })
	defer timer.Stop()
	_, err := io.WriteString(p.conn, line+"\n")
	return err
}

// finish closes the party's output. If the link cannot be closed in one direction only, finish
// closes the whole link.
func (p *party) finish() error {
	p.ended = true
	if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return p.conn.Close()
}
