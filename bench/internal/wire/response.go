package wire

import (
	"bytes"
	"fmt"
)

// Response is one HTTP response. Its slices are valid until the Reader reads the next response.
type Response struct {
	Head
	Status int
	Body   []byte // the body without chunked encoding; an event stream is read to its end
}

// EventStream reports whether the body is text/event-stream.
func (m *Response) EventStream() bool {
	kind, _, _ := bytes.Cut(m.ContentType, []byte(";"))
	return is(bytes.TrimSpace(kind), "text/event-stream")
}

// Response reads the next response into m and skips 1xx responses. If the response has neither a
// Content-Length nor chunks, its body ends when the peer closes the connection. In this case
// Response sets m.Close.
func (r *Reader) Response(m *Response) error {
	if err := r.ResponseHead(m); err != nil {
		return err
	}
	// RFC 9112 section 6.3: responses with these status codes have no body, even if their header
	// fields describe one.
	if m.Status == 204 || m.Status == 304 {
		return nil
	}
	var err error
	switch {
	case m.Chunked:
		m.Body, err = r.chunks()
	case m.Length >= 0:
		m.Body, err = r.sized(m.Length)
	default:
		m.Close = true
		m.Body, err = r.rest()
	}
	return err
}

// ResponseHead reads only the head of the next response into m, and skips 1xx responses. It is for
// streams that stay open.
func (r *Reader) ResponseHead(m *Response) error {
	for {
		r.recycle()
		*m = Response{}
		if err := r.head(&m.Head); err != nil {
			return err
		}
		s := m.Start // "HTTP/1.1 200 OK"
		if len(s) < 12 || string(s[:7]) != "HTTP/1." || s[8] != ' ' || len(s) > 12 && s[12] != ' ' {
			return fmt.Errorf("wire: bad status line %.80q", s)
		}
		for _, c := range s[9:12] {
			if c < '0' || c > '9' {
				return fmt.Errorf("wire: bad status line %.80q", s)
			}
			m.Status = m.Status*10 + int(c-'0')
		}
		if s[7] == '0' {
			m.Close = true
		}
		if m.Status >= 200 {
			return nil
		}
	}
}

// Events calls visit with the data of each event in an event stream. If an event has several data
// lines, Events joins them with LF. It does not copy the data of an event that has only one data
// line, which is the usual case.
//
// HTML Living Standard section 9.2.6: lines end with CR LF, LF or CR. An empty line ends an event,
// so Events ignores an event without an empty line after it.
func Events(stream []byte, visit func(data []byte)) {
	stream = bytes.TrimPrefix(stream, []byte("\uFEFF"))
	var data []byte
	lines := 0
	for len(stream) > 0 {
		n := bytes.IndexAny(stream, "\r\n")
		if n < 0 {
			return
		}
		line := stream[:n]
		if stream[n] == '\r' && n+1 < len(stream) && stream[n+1] == '\n' {
			n++
		}
		stream = stream[n+1:]
		if len(line) == 0 {
			if lines > 0 && len(data) > 0 {
				visit(data)
			}
			data, lines = nil, 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		switch lines++; lines {
		case 1:
			data = value
		case 2:
			data = bytes.Join([][]byte{data, value}, []byte("\n")) // make a copy, because data is a slice of the stream, which must not change
		default:
			data = append(append(data, '\n'), value...)
		}
	}
}
