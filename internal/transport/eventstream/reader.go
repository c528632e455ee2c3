package eventstream

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// DefaultBytes is the default limit for the data of one event.
const DefaultBytes = 16 << 20

// ErrTooLarge means that the data of an event, or an id, event or retry line, is too large. The
// error is final, because the Reader does not look for the end of the event. If Limits.Skip is set,
// the Reader skips the data of a large event instead of returning ErrTooLarge.
var ErrTooLarge = errors.New("event exceeds the size limit")

// Limits limits what a Reader accepts.
type Limits struct {
	Bytes int // limit for the data of one event in bytes; 0 means 16 MiB
	// If the data of an event exceeds Bytes, the Reader writes the data to Skip piece by piece.
	// Next then returns the event with Skipped set. Skip.Write must not fail. If Skip is nil, Next
	// returns ErrTooLarge.
	Skip io.Writer
	// Endless is the maximum number of bytes of one event that the Reader skips. If an event has
	// more, Next returns ErrTooLarge.
	Endless int64
}

// Event is one event. The standard ignores an event without data. Next returns such an event,
// because callers need its ID and Retry.
type Event struct {
	ID    string // valid if HasID is set; "" clears the last event id of the client
	HasID bool
	Name  string // the event type; "" means "message"
	Data  []byte // the data lines, joined by line feeds; nil if empty; owned by the caller
	// Skipped is true if the data exceeded the limit and was written to Limits.Skip.
	Skipped bool

	// Retry is the delay that the server requests before the next connection. It is at most 366
	// days.
	Retry    time.Duration
	HasRetry bool
}

const (
	window = 4 << 10  // size of the window; an id, event or retry line must be shorter
	wide   = 64 << 10 // least size of the window for a data line that is longer
	retain = 16 << 10 // maximum size of a data buffer that is kept for the next event
)

type mode uint8

const (
	atStart   mode = iota // at the start of a line
	inData                // in the value of a data line whose end has not arrived yet
	inIgnored             // in a line that is ignored and whose end has not arrived yet
)

// Reader reads events from a byte stream. It keeps a buffer of 4 KiB, called the window, and the
// data of the current event. While a data line is longer than the window, a larger buffer from a pool
// takes the place of the window, so that the line needn't be put together piece by piece. Reader is
// not safe for concurrent use.
type Reader struct {
	src io.Reader
	lim Limits
	err error // the error to return when the window contains no more lines: the error of src, or ErrTooLarge

	buf   []byte  // the window
	small []byte  // the window of 4 KiB
	large *[]byte // the buffer from the pool that is the window instead of small, or nil
	r, w  int     // the unread part of the window is buf[r:w]
	lf    int     // offset of the first line feed at or after r, or w if there is none
	noCR  int     // between r and this offset there is no carriage return

	mode    mode
	skipLF  bool // the last line ended with CR, so an LF directly after the CR belongs to the line end
	started bool // the start of the stream was checked for a byte order mark
	eventState
}

// eventState is what has been read of the current event.
type eventState struct {
	ev      Event
	hasData bool // a data line was seen, even if it was empty
	seen    bool // a line that is not ignored was seen
	data    []byte
	held    []byte // the only data line so far, in the window; data is empty then
	skipped int64  // number of data bytes written to Limits.Skip
}

// NewReader returns a Reader that reads from src. The Reader returns an event as soon as src has
// delivered the last byte of the event.
func NewReader(src io.Reader, lim Limits) *Reader {
	r := new(Reader)
	r.Reset(src, lim)
	return r
}

// Reset makes r read from src, as if r were new. It reuses the buffers of r. Events that Next
// returned earlier stay valid.
func (r *Reader) Reset(src io.Reader, lim Limits) {
	if lim.Bytes <= 0 {
		lim.Bytes = DefaultBytes
	}
	small, data := r.small, r.data
	if small == nil {
		small = make([]byte, window)
	}
	if cap(data) > retain {
		data = nil
	}
	r.release()
	*r = Reader{src: src, lim: lim, buf: small, small: small, eventState: eventState{data: data[:0]}}
}

// Next returns the next event. At the end of the stream, Next returns io.EOF. If the stream ends
// within an event, Next returns io.ErrUnexpectedEOF and discards the event, as the standard
// requires. Any other error is ErrTooLarge or an error of src. All errors are final.
func (r *Reader) Next() (Event, error) {
	if !r.started {
		r.skipMark()
	}
	for {
		if r.skipLF && r.r < r.w {
			r.skipLF = false
			if r.buf[r.r] == '\n' {
				r.advance(r.r + 1)
			}
		}
		end := r.lineEnd()
		if end >= 0 {
			done := r.take(r.buf[r.r:end])
			r.skipLF = r.buf[end] == '\r'
			r.advance(end + 1)
			r.mode = atStart
			if r.err == ErrTooLarge {
				return Event{}, r.err
			}
			if done {
				return r.dispatch(), nil
			}
			continue
		}
		r.takePart()
		if r.err == nil {
			r.fill()
			continue
		}
		if r.err == io.EOF && (r.seen || r.mode == inData || r.mode == atStart && r.r < r.w) {
			r.err = io.ErrUnexpectedEOF
		}
		return Event{}, r.err
	}
}

// take handles a line. If takePart has handled the beginning of the line, take handles only the
// rest. take reports whether the line ends an event.
func (r *Reader) take(line []byte) bool {
	switch r.mode {
	case inData:
		r.grow(line)
		return false
	case inIgnored:
		return false
	}
	if len(line) == 0 {
		return r.seen
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if !r.hasData && r.fits(value) {
			// Most events have one line, and their end is in the window. They are copied only once.
			r.seen, r.hasData, r.held = true, true, value
			return false
		}
		r.startData()
		r.grow(value)
		return false
	case "event", "id", "retry":
		if len(line) >= window {
			r.err = ErrTooLarge
			return false
		}
	}
	switch string(name) {
	case "event":
		r.seen = true
		r.ev.Name = intern(value)
	case "id":
		// The standard says: "If the field value does not contain U+0000 NULL, then set the
		// last event ID buffer to the field value. Otherwise, ignore the field."
		if bytes.IndexByte(value, 0) < 0 {
			r.seen, r.ev.HasID = true, true
			r.ev.ID = string(value)
		}
	case "retry":
		if d, ok := parseRetry(value); ok {
			r.seen, r.ev.HasRetry = true, true
			r.ev.Retry = d
		}
	}
	return false
}

// takePart handles what the window contains of a line whose end has not arrived. It leaves a data line
// in the window as long as it is within the limit, and takes a longer one, or a comment, piece by piece.
func (r *Reader) takePart() {
	part := r.buf[r.r:r.w]
	if r.mode == atStart {
		// The longest field name has 7 bytes, with its colon and a space. Wait until 7 bytes have
		// arrived, except in a comment, which begins with a colon.
		switch {
		case len(part) == 0 || len(part) < len("retry: ") && part[0] != ':':
			return
		case bytes.HasPrefix(part, []byte("data:")):
			part = bytes.TrimPrefix(part[len("data:"):], []byte{' '})
			if r.fits(part) {
				return
			}
			r.startData()
			r.mode = inData
		case bytes.HasPrefix(part, []byte("event:")),
			bytes.HasPrefix(part, []byte("id:")),
			bytes.HasPrefix(part, []byte("retry:")):
			if len(part) >= window && r.err == nil {
				r.err = ErrTooLarge
			}
			return
		default: // a comment or an unknown field
			r.mode = inIgnored
		}
	}
	if r.mode == inData {
		r.grow(part)
	}
	r.advance(r.w)
}

// startData prepares for the value of a data line. If the event already has a data line, startData
// appends a line feed to its value.
func (r *Reader) startData() {
	r.keep()
	if r.hasData {
		r.grow([]byte{'\n'})
	}
	r.seen, r.hasData = true, true
}

// fits reports whether the event stays within the limit with the value of one more data line.
func (r *Reader) fits(value []byte) bool {
	have := len(r.data) + len(r.held)
	if r.hasData {
		have++ // the line feed
	}
	return !r.ev.Skipped && len(value) <= r.lim.Bytes-have
}

// keep copies what is held in the window to data, before the window changes or another line follows.
func (r *Reader) keep() {
	r.data = append(r.data, r.held...)
	r.held = nil
}

func (r *Reader) grow(b []byte) {
	switch {
	case r.ev.Skipped:
		r.skip(b)
	case len(b) <= r.lim.Bytes-len(r.data):
		r.data = append(r.data, b...)
	case r.lim.Skip == nil:
		r.err = ErrTooLarge
	default:
		r.ev.Skipped = true
		r.skip(r.data)
		r.skip(b)
		r.data = nil
	}
}

// skip writes b to Limits.Skip. b is data of an event that exceeds the size limit.
func (r *Reader) skip(b []byte) {
	_, _ = r.lim.Skip.Write(b)
	if r.skipped += int64(len(b)); r.skipped > r.lim.Endless {
		r.err = ErrTooLarge
	}
}

// dispatch returns the current event and prepares for the next one.
func (r *Reader) dispatch() Event {
	e := r.ev
	data := r.data
	switch {
	case len(r.held) > 0:
		e.Data = bytes.Clone(r.held)
	case len(data) == 0:
	case cap(data) > retain:
		// Give the large buffer to the caller, so that r does not keep it for a long time.
		e.Data, data = data[:len(data):len(data)], nil
	default:
		e.Data = bytes.Clone(data)
	}
	r.eventState = eventState{data: data[:0]}
	return e
}

// lineEnd returns the offset of the end of the line that begins at r.r. It returns -1 if the window
// does not contain the end.
func (r *Reader) lineEnd() int {
	from := max(r.r, r.noCR)
	if i := bytes.IndexByte(r.buf[from:r.lf], '\r'); i >= 0 {
		return from + i
	}
	r.noCR = r.lf
	if r.lf < r.w {
		return r.lf
	}
	return -1
}

// advance removes the bytes before the offset to from the window.
func (r *Reader) advance(to int) {
	r.r = to
	if r.lf < to {
		r.lf = r.nextLF(to)
	}
}

// nextLF returns the offset of the first line feed in the window at or after from, or w if there is
// none.
func (r *Reader) nextLF(from int) int {
	if i := bytes.IndexByte(r.buf[from:r.w], '\n'); i >= 0 {
		return from + i
	}
	return r.w
}

// fill reads from src into the window, until src returns data or an error.
func (r *Reader) fill() {
	r.keep()
	r.makeRoom()
	for range 100 {
		n, err := r.src.Read(r.buf[r.w:])
		if n < 0 || n > len(r.buf)-r.w {
			err, n = errors.New("event source returned a wrong count"), 0
		}
		had := r.w
		r.w += n
		if r.lf == had {
			r.lf = r.nextLF(had)
		}
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// makeRoom moves the unread part to the beginning of the window. Only a data line within the limit can
// be longer than the window; for such a line, makeRoom takes a larger window, and goes back to the
// small one after it.
func (r *Reader) makeRoom() {
	rest, to := r.buf[r.r:r.w], r.buf
	var large *[]byte
	switch {
	case len(rest) == len(r.buf):
		most := r.lim.Bytes + window // with room for the name of the field and the end of the line
		large = jsonrpc.GetBuffer(min(max(4*len(rest), wide), max(most, 2*window)))
		to = (*large)[:cap(*large)]
	case r.large != nil && len(rest) <= window/2:
		to = r.small
	case r.r == 0:
		return
	default:
		large, r.large = r.large, nil
	}
	n := copy(to, rest)
	r.release()
	r.buf, r.large = to, large
	r.lf, r.noCR = r.lf-r.r, max(r.noCR-r.r, 0)
	r.r, r.w = 0, n
}

// release gives the large window back. What is in it must have been copied.
func (r *Reader) release() {
	if r.large != nil {
		jsonrpc.PutBuffer(r.large, *r.large)
		r.large = nil
	}
}

// skipMark skips a byte order mark at the start of the stream.
func (r *Reader) skipMark() {
	const mark = "\xEF\xBB\xBF"
	for r.err == nil && r.w < len(mark) && string(r.buf[:r.w]) == mark[:r.w] {
		r.fill()
	}
	if r.w >= len(mark) && string(r.buf[:len(mark)]) == mark {
		r.advance(len(mark))
	}
	r.started = true
}

// intern returns an event's name as a string. It does not allocate for common names.
func intern(b []byte) string {
	switch string(b) {
	case "message":
		return "message"
	case "endpoint":
		return "endpoint"
	}
	return string(b)
}

// parseRetry parses a number of milliseconds. It returns false if b is empty or contains any
// character that is not an ASCII digit, because the standard ignores such a value. A longer delay
// is reduced to 366 days.
func parseRetry(b []byte) (time.Duration, bool) {
	const most = 366 * 24 * time.Hour
	if len(b) == 0 {
		return 0, false
	}
	var ms int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms = min(ms*10+int64(c-'0'), most.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, true
}
