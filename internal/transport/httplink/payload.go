package httplink

import (
	"errors"
	"io"
	"sync"
)

var errReleased = errors.New("request is over")

// payload is the body of one request. It knows whether anything of the body was
// taken, and can be cut off from it: net/http may go on reading a body after the
// response, or the error, has been returned.
type payload struct {
	mu       sync.Mutex // held for copying only
	b        []byte
	at       int
	taken    bool
	released bool
	readers  int // how often the body was begun again
}

func (p *payload) Read(dst []byte) (int, error) { return p.read(dst, 0) }

func (p *payload) read(dst []byte, reader int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released || reader != p.readers {
		return 0, errReleased
	}
	n := copy(dst, p.b[p.at:])
	p.at += n
	p.taken = p.taken || n > 0
	if p.at == len(p.b) {
		return n, io.EOF
	}
	return n, nil
}

// Close leaves the payload as it is: it may be asked for again.
func (p *payload) Close() error { return nil }

// again is http.Request.GetBody. It is called when the server is known not to have
// acted on the attempt before: by a transport that is about to make another, and
// by Send for the next hop of a redirect.
func (p *payload) again() (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released {
		return nil, errReleased
	}
	p.at, p.taken = 0, false
	p.readers++
	return &replay{p, p.readers}, nil
}

// release lets go of the body for good and reports whether none of it was taken.
func (p *payload) release() (unsent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
	p.b = nil
	p.at = 0
	return !p.taken
}

// replay reads a payload once more. Its predecessors find that they are over.
type replay struct {
	p      *payload
	reader int
}

func (r *replay) Read(dst []byte) (int, error) { return r.p.read(dst, r.reader) }
func (r *replay) Close() error                 { return nil }
