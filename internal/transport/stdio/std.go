package stdio

import (
	"io"
	"os"
	"sync"
	"time"
)

// Std returns a Pipe over stdin and stdout of this process, which lead to the client that started
// the process. On Unix, the Pipe uses its own descriptors. So a write to a client that has exited
// returns EPIPE and causes no SIGPIPE, and Close does not close descriptors 0 and 1. The client
// sees the end of the output only when the process exits. After Std has been called, other code
// must not read stdin or write to stdout (2026-07-28 §stdio: a server MUST NOT write anything to
// stdout that is not a message).
//
// On Windows, and for terminals outside Linux, files do not support polling. In these cases a
// goroutine continues to read after Close, until input arrives or the process exits, and a write
// cannot be interrupted.
func Std(o Options) (*Pipe, error) {
	in, out, err := Streams()
	if err != nil {
		return nil, err
	}
	return NewPipe(in, out, o), nil
}

// Streams returns stdin and stdout of this process as Std uses them, for callers with their own
// framing. Closing in ends a running read of in. The caller must close both streams.
func Streams() (in io.ReadCloser, out io.WriteCloser, err error) {
	if in, err = Input(); err != nil {
		return nil, nil, err
	}
	w, err := ownDescriptor(os.Stdout, true)
	if err != nil {
		_ = in.Close()
		return nil, nil, err
	}
	return in, w, nil
}

// Input returns stdin of this process as Streams does, for callers that only read.
func Input() (io.ReadCloser, error) {
	r, err := ownDescriptor(os.Stdin, false)
	if err != nil {
		return nil, err
	}
	if st, err := r.Stat(); r.SetReadDeadline(time.Time{}) != nil && (err != nil || !st.Mode().IsRegular()) {
		return newPump(r), nil
	}
	return r, nil
}

// pump reads a file in its own goroutine, so that Close can end a Read of the pump while the
// goroutine is blocked in a read of the file.
type pump struct {
	chunks chan []byte
	taken  chan struct{} // signals that Read has returned the whole chunk
	closed chan struct{}
	once   sync.Once
	rest   []byte
	err    error // set before chunks is closed
}

func newPump(f *os.File) *pump {
	p := &pump{chunks: make(chan []byte), taken: make(chan struct{}), closed: make(chan struct{})}
	go p.run(f) // the goroutine may never end, so no code waits for it; see Std
	return p
}

func (p *pump) run(f *os.File) {
	defer f.Close()
	defer close(p.chunks)
	buf := make([]byte, readBuffer)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			select {
			case p.chunks <- buf[:n]:
			case <-p.closed:
				return
			}
			select {
			case <-p.taken:
			case <-p.closed:
				return
			}
		}
		if err != nil {
			p.err = err
			return
		}
	}
}

func (p *pump) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		select {
		case <-p.closed:
			return 0, os.ErrClosed
		case chunk, ok := <-p.chunks:
			if !ok {
				return 0, p.err
			}
			p.rest = chunk
		}
	}
	n := copy(b, p.rest)
	if p.rest = p.rest[n:]; len(p.rest) == 0 {
		select {
		case p.taken <- struct{}{}:
		case <-p.closed:
		}
	}
	return n, nil
}

func (p *pump) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}
