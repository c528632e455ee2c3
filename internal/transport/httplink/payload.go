package httplink

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

var errReleased = errors.New("the request has ended")

// payload reads the body of one request, and records whether any byte was read. net/http may
// continue to read after it has returned a response or an error. The method release prevents this.
type payload struct {
	mu       sync.Mutex // held only while bytes are copied
	b        []byte
	at       int
	taken    bool
	released bool
	readers  int // number of calls of again; only the newest reader may read
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

// Close does nothing, because the payload may be read again.
func (p *payload) Close() error { return nil }

// again is the function for http.Request.GetBody. A transport calls it before a retry, and Send
// calls it for a redirect. In both cases, the server has certainly not processed the previous
// attempt.
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

// payloadOf returns the payload of a request that a Link sends, or nil if it has no body.
func payloadOf(req *http.Request) (*payload, error) {
	switch b := req.Body.(type) {
	case nil:
		return nil, nil
	case *payload:
		return b, nil
	case *replay:
		return b.p, nil
	}
	return nil, errors.New("the body of the request is foreign")
}

// bytes returns the body, for a transport that reads it only until it returns an error or until its
// response is closed, and says with took what it has sent.
func (p *payload) bytes() []byte {
	if p == nil {
		return nil
	}
	return p.b
}

func (p *payload) took(some bool) {
	if p != nil {
		p.taken = some
	}
}

// release makes all further reads fail, and reports whether no byte of the body was read.
func (p *payload) release() (unsent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
	p.b = nil
	p.at = 0
	return !p.taken
}

// replay reads a payload again from the beginning. The readers that were created earlier return an
// error.
type replay struct {
	p      *payload
	reader int
}

func (r *replay) Read(dst []byte) (int, error) { return r.p.read(dst, r.reader) }
func (r *replay) Close() error                 { return nil }
