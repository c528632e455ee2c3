package fake

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// maxEvents is the maximum number of events that a stream stores for sending and resending.
const maxEvents = 1024

// stream holds the messages that answer one HTTP request, or the messages of the GET stream of a
// session. If the revision has resumable streams, a stream outlives its connection.
type stream struct {
	s        *Server
	id       string // "" if events of the stream have no ids
	standing bool   // the stream is the GET stream or the stream of HTTP+SSE, which belong to no request
	served   bool   // serve was called; the stream ends when the request ends
	drop     int    // the number of events after which the server closes the connection, once; 0 means never

	mu      sync.Mutex
	first   int // the number of events[0]; the first event of the stream has the number 1
	events  [][]byte
	sent    int           // the number of the last event that a connection has taken for writing
	reader  int           // the number of the current connection, starting at 1
	reading bool          // a connection is reading the stream
	over    bool          // the stream is complete; send has no effect
	changed chan struct{} // closed and replaced at each change
}

func newStream(s *Server, id string) *stream {
	return &stream{s: s, id: id, first: 1, changed: make(chan struct{})}
}

func (st *stream) changeLocked() {
	close(st.changed)
	st.changed = make(chan struct{})
}

// serve calls f in a new goroutine. f runs a request whose messages go to the stream.
func (st *stream) serve(c *conversation, f func()) {
	st.served = true
	if !c.spawn(f) {
		st.end()
	}
}

// send queues a message. If the queue is full, send waits until the connected reader has taken an
// event. If no reader is connected, send drops the oldest message.
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

// after returns the first event with a number larger than n, and its number. If there is no such
// event yet, msg is nil, and changed is closed at the next change. over reports whether no further
// event can follow.
func (st *stream) after(n int) (msg []byte, number int, over bool, changed <-chan struct{}) {
	st.mu.Lock()
	defer st.mu.Unlock()
	number = max(n+1, st.first)
	if at := number - st.first; at < len(st.events) {
		return st.events[at], number, st.over && at == len(st.events)-1, nil
	}
	return nil, 0, st.over, st.changed
}

// take makes a new connection the reader of the stream and ends an earlier connection. The reader
// begins after the event with the number from. If from is negative, the reader begins where the
// earlier connection stopped. take returns the number of the connection, and the number of the event
// after which the reader begins.
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

// mine reports whether the connection me is still the reader of the stream. If so, mine stores sent
// as the number of the last event that this connection has taken.
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

// deliver writes the stream to a connection until the stream or the connection ends. If the first
// message completes the stream, deliver writes this message as plain JSON with the HTTP status from
// status. Otherwise, deliver writes events. If status is nil, deliver always writes events, and
// sends the response headers before there is a message.
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
				_ = http.NewResponseController(w).Flush() // flush, because Handler aborts the connection next
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
		// 2025-11-25 §Transports, "Sending Messages": the stream begins with an event that has an id
		// and no data.
		out.event("", st.eventID(last), "")
	}
	out.flushed()
	for {
		msg, over, ok := st.wait(r.Context(), me, last)
		if !ok || msg == nil {
			return
		}
		// Store the position before writing, so that the next reader does not repeat the event.
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
			// 2025-11-25 §Transports, "Sending Messages": send a retry field before closing the
			// connection.
			out.text("retry: 10\n\n")
			out.flushed()
			return
		}
	}
}

// wait returns the first event with a number greater than last, or nil if the stream is complete.
// ok is false if the server or the connection has ended, or if another connection has become the
// reader.
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
		// Call mine after reading changed. If another connection becomes the reader later, take
		// closes changed, and this loop calls mine again.
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

// dropNow reports whether the server must close the connection after the event with the number last.
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
