package tape

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Recorder writes a tape while messages are forwarded. Its methods are safe for concurrent use. If
// a write fails, the tape ends, but messages are still forwarded. Err returns the error.
type Recorder struct {
	mu      sync.Mutex
	w       io.Writer
	redact  *redactor
	section string // the section that is being written
	next    int    // the number of the last HTTP exchange
	err     error
}

// NewRecorder returns a Recorder that writes a tape to w. about is the description at the beginning
// of the tape. secrets contains texts that the tape must not contain, in any of the forms that
// excerpt.Known finds. Secrets shorter than six bytes are ignored.
func NewRecorder(w io.Writer, about string, secrets []string) *Recorder {
	r := &Recorder{w: w, redact: newRedactor(secrets)}
	var b []byte
	for line := range strings.SplitSeq(strings.TrimSpace(r.redact.text(about)), "\n") {
		if strings.HasPrefix(line, "-- ") {
			line = " " + line // lines of a description cannot be quoted, so indent a line that would begin a section
		}
		b = append(append(b, line...), '\n')
	}
	r.write(append(b, '\n'))
	return r
}

// Err returns the reason why the tape ended early, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

var errShort = errors.New("short write")

func (r *Recorder) write(b []byte) {
	if r.err != nil {
		return
	}
	n, err := r.w.Write(b)
	if err == nil && n < len(b) {
		err = errShort
	}
	r.err = err
}

// open returns the header of a section. It returns nil if a line of a pipe continues the current section.
func (r *Recorder) open(section string) []byte {
	if r.section == section && (section == clientLine || section == serverLine) {
		return nil
	}
	r.section = section
	return []byte("-- " + section + " --\n")
}

// line records a line that was sent on a pipe.
func (r *Recorder) line(section string, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(quoteLine(r.open(section), r.redact.json(line)))
}

// closed records that one side has closed its end of the pipe. how describes the end, or is "".
func (r *Recorder) closed(section, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.open(section)
	if how != "" {
		b = quoteLine(b, []byte(how))
	}
	r.write(b)
}

// begin returns the number for a new HTTP exchange.
func (r *Recorder) begin() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.next
}

// head records a request or a response. body is nil if the response is a stream.
func (r *Recorder) head(section string, exchange int, first string, h http.Header, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.open(section + " " + strconv.Itoa(exchange))
	b = quoteLine(b, []byte(first))
	names := make([]string, 0, len(h))
	for n := range h {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		for _, v := range h[n] {
			b = quoteLine(b, []byte(n+": "+r.redact.field(n, v)))
		}
	}
	if len(body) > 0 {
		b = append(b, '\n')
		b = quoteAll(b, r.redact.json(body))
	}
	r.write(b)
}

// part records an event of a stream, or the end of an exchange.
func (r *Recorder) part(section string, exchange int, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.open(section + " " + strconv.Itoa(exchange))
	data := dataOf(text)
	clean := r.eventData(data)
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		switch {
		case !bytes.HasPrefix(line, []byte("data:")):
			b = quoteLine(b, []byte(r.redact.text(string(line))))
		case bytes.Equal(data, clean):
			b = quoteLine(b, line)
		case clean != nil:
			// The data was redacted as a whole, because a secret may span several lines. Write the
			// redacted data in place of the first data line, and skip the other data lines.
			for l := range bytes.SplitSeq(clean, []byte("\n")) {
				b = quoteLine(b, append([]byte("data: "), l...))
			}
			clean = nil
		}
	}
	r.write(b)
}

// dataOf returns the data lines of an event, joined with newlines.
func dataOf(text []byte) []byte {
	var data [][]byte
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if d, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(d, []byte(" ")))
		}
	}
	return bytes.Join(data, []byte("\n"))
}

// eventData redacts the data of an event: a message, or the URL in the first event of HTTP+SSE.
func (r *Recorder) eventData(data []byte) []byte {
	if bytes.HasPrefix(data, []byte("/")) || bytes.HasPrefix(data, []byte("http")) {
		return []byte(r.redact.address(string(data)))
	}
	return r.redact.json(data)
}

func quoteAll(dst, text []byte) []byte {
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		dst = quoteLine(dst, line)
	}
	return dst
}
