// Package wire reads HTTP/1.1 messages from a connection with as little CPU time as possible.
//
// The client and the upstream of a measurement run on the same cores as the measured process. With
// net/http, they would use more CPU time than the measured process. This package therefore supports
// only what the measurement needs. It reads a head, and then a body by Content-Length, by chunks or
// until the connection closes. It uses one buffer per connection for all messages. It interprets
// only the header fields that MCP over HTTP needs. It refuses messages with obsolete line folding,
// with a Transfer-Encoding other than chunked, or with two different lengths. It writes nothing
// except the interim response 100 Continue.
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	maxHead = 64 << 10 // the maximum length of a head, and of the line before a chunk
	maxBody = 16 << 20 // the maximum length of a body
)

// ErrClosed means that the peer closed the connection between two messages.
var ErrClosed = errors.New("wire: the peer closed the connection")

// Head is a start line with the header fields that this package uses. Its slices are slices of the
// Reader's buffer. They are valid until the Reader reads the next message.
type Head struct {
	Start       []byte // the start line without CR LF
	Length      int64  // Content-Length; -1 if absent
	Chunked     bool
	Close       bool // Connection: close
	Expect      bool // Expect: 100-continue
	ContentType []byte
	Session     []byte // Mcp-Session-Id
	Version     []byte // MCP-Protocol-Version
}

// Reader reads messages from one connection. It is not safe for concurrent use.
type Reader struct {
	src  io.Reader
	buf  []byte
	r, w int    // buf[r:w] has been read from src, but is not part of a message yet
	body []byte // the last chunked body; chunks reuses its memory
}

// NewReader returns a Reader for src. The buffer has 4 KiB at first, and grows for larger messages.
func NewReader(src io.Reader) *Reader { return &Reader{src: src, buf: make([]byte, 4<<10)} }

// head reads the start line, the header fields and the empty line after them, and parses them into h.
func (r *Reader) head(h *Head) error {
	searched := 0
	for {
		if n := bytes.Index(r.buf[r.r+searched:r.w], []byte("\r\n\r\n")); n >= 0 {
			block := r.buf[r.r : r.r+searched+n+2]
			r.r += searched + n + 4
			return h.parse(block)
		}
		searched = max(0, r.w-r.r-3)
		if r.w-r.r > maxHead {
			return errors.New("wire: the head is too long")
		}
		if err := r.fill(1); err != nil {
			if err == io.EOF && r.w == r.r {
				return ErrClosed
			}
			return noEOF(err)
		}
	}
}

// parse parses block into h. Every line of block ends with CR LF.
func (h *Head) parse(block []byte) error {
	*h = Head{Length: -1}
	n := bytes.Index(block, []byte("\r\n"))
	h.Start, block = block[:n], block[n+2:]
	for len(block) > 0 {
		n = bytes.Index(block, []byte("\r\n"))
		line := block[:n]
		block = block[n+2:]
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || line[0] == ' ' || line[0] == '\t' || line[colon-1] == ' ' {
			return fmt.Errorf("wire: bad field line %.80q", line)
		}
		name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
		switch {
		case is(name, "content-length"):
			v, err := strconv.ParseUint(string(value), 10, 63)
			if err != nil || h.Length >= 0 && h.Length != int64(v) {
				return fmt.Errorf("wire: bad Content-Length %.80q", value)
			}
			h.Length = int64(v)
		case is(name, "transfer-encoding"):
			if !is(value, "chunked") || h.Chunked {
				return fmt.Errorf("wire: bad Transfer-Encoding %.80q", value)
			}
			h.Chunked = true
		case is(name, "connection"):
			h.Close = h.Close || is(value, "close")
		case is(name, "expect"):
			h.Expect = is(value, "100-continue")
		case is(name, "content-type"):
			h.ContentType = value
		case is(name, "mcp-session-id"):
			h.Session = value
		case is(name, "mcp-protocol-version"):
			h.Version = value
		}
	}
	if h.Chunked && h.Length >= 0 {
		return errors.New("wire: the head has both Content-Length and Transfer-Encoding")
	}
	return nil
}

// sized returns the next n bytes.
func (r *Reader) sized(n int64) ([]byte, error) {
	if n > maxBody {
		return nil, errors.New("wire: the body is too long")
	}
	if missing := int(n) - (r.w - r.r); missing > 0 {
		if err := r.fill(missing); err != nil {
			return nil, noEOF(err)
		}
	}
	b := r.buf[r.r : r.r+int(n)]
	r.r += int(n)
	return b, nil
}

// chunks reads a chunked body and returns it decoded. It reuses the memory of the previous body.
func (r *Reader) chunks() ([]byte, error) {
	dst := r.body[:0]
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if n := bytes.IndexByte(line, ';'); n >= 0 {
			line = line[:n]
		}
		size, err := strconv.ParseUint(string(bytes.Trim(line, " \t")), 16, 31)
		if err != nil {
			return nil, fmt.Errorf("wire: bad chunk size %.40q", line)
		}
		if size == 0 {
			for { // trailers
				if line, err = r.line(); err != nil || len(line) == 0 {
					r.body = dst
					return dst, err
				}
			}
		}
		if len(dst)+int(size) > maxBody {
			return nil, errors.New("wire: the body is too long")
		}
		data, err := r.sized(int64(size))
		if err != nil {
			return nil, err
		}
		dst = append(dst, data...)
		if end, err := r.sized(2); err != nil || end[0] != '\r' || end[1] != '\n' {
			return nil, errors.New("wire: a chunk does not end with CRLF")
		}
	}
}

// rest returns all bytes until the peer closes the connection.
func (r *Reader) rest() ([]byte, error) {
	for {
		switch err := r.fill(1); {
		case err == io.EOF:
			b := r.buf[r.r:r.w]
			r.r = r.w
			return b, nil
		case err != nil:
			return nil, err
		case r.w-r.r > maxBody:
			return nil, errors.New("wire: the body is too long")
		}
	}
}

// line returns the next line without its CR LF.
func (r *Reader) line() ([]byte, error) {
	for searched := 0; ; {
		if n := bytes.Index(r.buf[r.r+searched:r.w], []byte("\r\n")); n >= 0 {
			b := r.buf[r.r : r.r+searched+n]
			r.r += searched + n + 2
			return b, nil
		}
		searched = max(0, r.w-r.r-1)
		if r.w-r.r > maxHead {
			return nil, errors.New("wire: the line is too long")
		}
		if err := r.fill(1); err != nil {
			return nil, noEOF(err)
		}
	}
}

// fill reads at least n bytes into the buffer, and more if more are available. It does not
// overwrite bytes of the current message, because the caller may hold slices of them. Only recycle
// overwrites these bytes, and it runs between two messages.
func (r *Reader) fill(n int) error {
	if r.w+n > len(r.buf) {
		grown := make([]byte, max(2*len(r.buf), r.w+n))
		copy(grown, r.buf[:r.w]) // copies the bytes before r.r too, so that r.r and r.w stay valid
		r.buf = grown
	}
	for n > 0 {
		m, err := r.src.Read(r.buf[r.w:])
		r.w += m
		n -= m
		if err != nil && n > 0 {
			return err
		}
	}
	return nil
}

// recycle moves the unused bytes to the front of the buffer. It runs before each message is read.
func (r *Reader) recycle() {
	copy(r.buf, r.buf[r.r:r.w])
	r.w -= r.r
	r.r = 0
}

// Buffered reports whether the buffer contains bytes that are not part of a message yet.
func (r *Reader) Buffered() bool { return r.w > r.r }

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// is reports whether b equals lower, ignoring the case of ASCII letters in b. lower must be in lower
// case.
func is(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
