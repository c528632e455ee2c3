package wire

import (
	"bytes"
	"fmt"
)

// Response is one HTTP response. Its slices are good until the next one is read.
type Response struct {
	Head
	Status int
	Body   []byte // decoded from chunks; of an event stream, all of it
}

// EventStream says whether the body is text/event-stream.
func (m *Response) EventStream() bool {
	kind, _, _ := bytes.Cut(m.ContentType, []byte(";"))
	return is(bytes.TrimSpace(kind), "text/event-stream")
}

// Response reads the answer to one request into m, past any 1xx. A response that
// is neither sized nor chunked lasts until the peer closes, and has Close set.
func (r *Reader) Response(m *Response) error {
	if err := r.ResponseHead(m); err != nil {
		return err
	}
	// RFC 9112 section 6.3: these have no body, whatever their fields say.
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

// ResponseHead reads no further than the head; it is for streams that stay open.
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

// Events calls visit with the data of each event of an event stream, its lines
// joined by LF. Data of one line, the usual case, is not copied.
//
// HTML Living Standard section 9.2.6: lines end in CR LF, LF or CR; an event is
// dispatched at an empty line, so what stands behind the last one is dropped.
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
			data = bytes.Join([][]byte{data, value}, []byte("\n")) // a copy: data is the stream's
		default:
			data = append(append(data, '\n'), value...)
		}
	}
}
