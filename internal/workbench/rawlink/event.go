package rawlink

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Event is one server-sent event (WHATWG HTML §9.2.6).
type Event struct {
	Name, ID string
	Data     []byte
	Retry    int // milliseconds; -1 if absent
}

// Reader reads an event stream.
type Reader struct {
	lines *bufio.Scanner
	most  int
	begun bool
	cr    bool // the last line ended with CR, so an LF that follows belongs to its line end
}

// NewReader returns a Reader for events with at most most bytes of data.
func NewReader(from io.Reader, most int) *Reader {
	r := &Reader{lines: bufio.NewScanner(from), most: most}
	r.lines.Buffer(make([]byte, 0, 16<<10), most+len("data: \r\n"))
	r.lines.Split(r.split)
	return r
}

// split is a bufio.SplitFunc that splits at LF, CRLF and CR. It ignores an unterminated line.
func (r *Reader) split(data []byte, _ bool) (advance int, token []byte, err error) {
	from := 0
	if r.cr && len(data) > 0 {
		r.cr = false
		from = len(data) - len(bytes.TrimPrefix(data, []byte("\n")))
	}
	i := bytes.IndexAny(data[from:], "\r\n")
	if i < 0 {
		return from, nil, nil
	}
	r.cr = data[from+i] == '\r'
	return from + i + 1, data[from : from+i], nil
}

// Next returns the next event that has at least one valid field. At the end it returns io.EOF, and
// ignores an incomplete event.
func (r *Reader) Next() (Event, error) {
	ev := Event{Retry: -1}
	says, parts := false, 0
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if !r.begun {
			r.begun = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			if says {
				return ev, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "": // the line is a comment
		case "data":
			if parts > 0 {
				ev.Data = append(ev.Data, '\n')
			}
			parts++
			if len(ev.Data)+len(value) > r.most {
				return Event{}, fmt.Errorf("an event is larger than %d bytes", r.most)
			}
			ev.Data = append(ev.Data, value...)
			says = true
		case "event":
			ev.Name, says = string(value), true
		case "id":
			ev.ID, says = string(value), true
		case "retry":
			if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 {
				ev.Retry, says = min(n, 10_000), true
			}
		}
	}
	if err := r.lines.Err(); err != nil {
		return Event{}, err
	}
	return Event{}, io.EOF
}
