package fake

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// maxEvents limits the events of a stream that are kept for sending or resending.
const maxEvents = 1024

// stream holds the messages of one HTTP request, or of the GET stream of a session. If the
// revision allows resuming, the stream continues when a connection ends.
type stream struct {
	s        *Server
	id       string // "" if events of the stream have no ids
	standing bool   // the GET stream, which belongs to no request
	served   bool   // a request is running that will end the stream
	drop     int    // the number of events after which the connection is closed once; 0 for never

	mu      sync.Mutex
	first   int // the number of events[0]; the first event of the stream has the number 1
	events  [][]byte
	sent    int           // the number of the last event that was written
	reader  int           // the number of the current connection, starting at 1
	reading bool          // a connection is reading the stream
	over    bool          // no more messages will come
	changed chan struct{} // closed and replaced at each change
}

func newStream(s *Server, id string) *stream {
	return &stream{s: s, id: id, first: 1, changed: make(chan struct{})}
}

func (st *stream) changeLocked() {
	close(st.changed)
	st.changed = make(chan struct{})
}

// serve runs a request whose messages go to the stream.
func (st *stream) serve(c *conversation, f func()) {
	st.served = true
	if !c.spawn(f) {
		st.end()
	}
}

// send queues a message. It blocks while a connected reader is slow. If there is no reader,
// the oldest messages are dropped.
func (st *stream) send(msg []byte) {
	st.s.capture.write(response, msg)
	m, err := jsonrpc.Scan(msg, jsonrpc.Limits{Tolerant: true})
	last := !st.standing && (err != nil || m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure)
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(st.events) >= maxEvents && st.reading && st.sent < st.first && !st.over {
		changed := st.changed
		st.mu.Unlock()
		select {
		case <-changed:
		case <-st.s.ctx.Done():
			st.mu.Lock()
			return
		}
		st.mu.Lock()
	}
	if st.over {
		return
	}
	if len(st.events) >= maxEvents {
		st.events = st.events[1:]
		st.first++
	}
	st.events = append(st.events, msg)
	st.over = last
	st.changeLocked()
}

// end marks the stream as complete.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
	st.changeLocked()
}

// after returns the first event with a number larger than n, if there is one.
func (st *stream) after(n int) (msg []byte, number int, over bool, changed <-chan struct{}) {
	st.mu.Lock()
	defer st.mu.Unlock()
	number = max(n+1, st.first)
	if at := number - st.first; at < len(st.events) {
		return st.events[at], number, st.over && at == len(st.events)-1, nil
	}
	return nil, 0, st.over, st.changed
}

// take makes this connection the reader of the stream and ends an earlier connection. If from is
// negative, the stream continues where the last connection stopped.
func (st *stream) take(from int) (me, last int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.reader++
	st.reading = true
	if from >= 0 {
		st.sent = from
	}
	st.changeLocked()
	return st.reader, st.sent
}

// mine reports whether this connection is still the reader. If so, mine stores the parameter sent
// as the position of the connection.
func (st *stream) mine(me, sent int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.reader != me {
		return false
	}
	if st.sent != sent {
		st.sent = sent
		st.changeLocked()
	}
	return true
}

func (st *stream) leave(me int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.reader == me {
		st.reading = false
		st.changeLocked()
	}
}

// deliver writes the stream to a connection until the stream or the connection ends. If the answer
// is the first message, it is written as plain JSON. Otherwise messages are written as events.
// status returns the HTTP status of a plain answer. If status is nil, deliver always writes events,
// and starts the event stream before there is a message.
func (st *stream) deliver(w http.ResponseWriter, r *http.Request, from int, status func(msg []byte) int) {
	me, last := st.take(from)
	defer st.leave(me)
	if status != nil {
		msg, over, ok := st.wait(r.Context(), me, last)
		if !ok {
			return
		}
		if over && msg != nil {
			st.mine(me, last+1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status(msg))
			_, _ = w.Write(msg)
			if st.s.ctx.Err() != nil {
				_ = http.NewResponseController(w).Flush() // flush, because the connection is aborted next
			}
			return
		}
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	// 2026-07-28 §Streamable HTTP, "Receiving Messages".
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := &eventWriter{w: w, flush: http.NewResponseController(w)}
	if st.id != "" && st.s.part.ed.has(primed) {
		// 2025-11-25 §Transports, "Sending Messages": an event with an id and no data.
		out.event("", st.eventID(last), "")
	}
	out.flushed()
	for {
		msg, over, ok := st.wait(r.Context(), me, last)
		if !ok || msg == nil {
			return
		}
		// Record the position first, so that the next reader does not repeat the event.
		if _, last, _, _ = st.after(last); !st.mine(me, last) {
			return
		}
		out.event("message", st.eventID(last), string(msg))
		out.flushed()
		if over || out.err != nil {
			return
		}
		if st.dropNow(last) {
			if !st.s.part.ed.has(primed) {
				panic(http.ErrAbortHandler) // abort, as if the connection had broken
			}
			// 2025-11-25 §Transports, "Sending Messages": send a retry field before closing.
			out.text("retry: 10\n\n")
			out.flushed()
			return
		}
	}
}

// wait returns the first event with a number greater than last, or nil if the stream is complete.
// ok is false if the connection or the server has ended.
func (st *stream) wait(ctx context.Context, me, last int) (msg []byte, over, ok bool) {
	closed := st.s.ctx.Done()
	if st.served {
		closed = nil // the running request may still send messages before it ends
	}
	for {
		msg, _, over, changed := st.after(last)
		if msg != nil || over {
			return msg, over, true
		}
		// Check after reading changed, so that a later takeover wakes this goroutine.
		if !st.mine(me, last) {
			return nil, false, false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, false
		case <-closed:
			return nil, false, false
		}
	}
}

// dropNow reports whether the connection should be closed early.
func (st *stream) dropNow(last int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.drop == 0 || last < st.drop {
		return false
	}
	st.drop = 0
	return true
}

func (st *stream) eventID(n int) string {
	if st.id == "" {
		return ""
	}
	return st.id + "." + strconv.Itoa(n)
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	err   error
}

func (e *eventWriter) text(s string) {
	if e.err == nil {
		_, e.err = e.w.Write([]byte(s))
	}
}

// event writes one event. Empty fields are omitted, except data.
func (e *eventWriter) event(name, id, data string) {
	var b strings.Builder
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("data: " + data + "\n\n")
	e.text(b.String())
}

func (e *eventWriter) flushed() {
	if e.err == nil {
		e.err = e.flush.Flush()
	}
}
