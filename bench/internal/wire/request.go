package wire

import (
	"bytes"
	"fmt"
	"io"
)

// Request is one HTTP request. Its slices are valid until the Reader reads the next request.
type Request struct {
	Head
	Method, Path []byte // Path is the part of the request target before "?"
	Body         []byte
}

// Request reads one request into m. If the client expects 100-continue, proceed is not nil and no
// part of the body has arrived yet, Request first writes the interim response to proceed.
func (r *Reader) Request(m *Request, proceed io.Writer) error {
	r.recycle()
	*m = Request{}
	if err := r.head(&m.Head); err != nil {
		return err
	}
	method, rest, ok := bytes.Cut(m.Start, []byte(" "))
	target, version, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok2 || len(method) == 0 || len(target) == 0 || len(version) != 8 || string(version[:7]) != "HTTP/1." {
		return fmt.Errorf("wire: bad request line %.80q", m.Start)
	}
	if version[7] == '0' {
		m.Close = true
	}
	m.Method = method
	m.Path, _, _ = bytes.Cut(target, []byte("?"))
	if m.Expect && proceed != nil && !r.Buffered() {
		if _, err := io.WriteString(proceed, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return err
		}
	}
	var err error
	switch {
	case m.Chunked:
		m.Body, err = r.chunks()
	case m.Length > 0:
		m.Body, err = r.sized(m.Length)
	}
	return err
}
