package fake

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// maxEvents bounds the events of a stream that are kept to be sent or to be sent
// again.
const maxEvents = 1024

// stream is what is said on the way of one HTTP request, or on its own on the
// stream that a client gets. It outlives the connections that it is written to
// where the revision lets a client resume it.
type stream struct {
	s        *Server
	id       string // "" for one whose events have no ids
	standing bool   // it belongs to no request
	served   bool   // a request is served that ends it
	drop     int    // events after which the connection is closed once; 0 never

	mu      sync.Mutex
	first   int // the number of events[0]; the first one ever is 1
	events  [][]byte
	sent    int           // the number of the last event that was written
	reader  int           // which connection is written to, counted from 1
	reading bool          // there is one
	over    bool          // nothing more comes
	changed chan struct{} // closed when any of this changes, and replaced
}

func newStream(s *Server, id string) *stream {
	return &stream{s: s, id: id, first: 1, changed: make(chan struct{})}
}

func (st *stream) changeLocked() {
	close(st.changed)
	st.changed = make(chan struct{})
}

// serve runs a request whose messages go on the stream.
func (st *stream) serve(c *conversation, f func()) {
	st.served = true
	if !c.spawn(f) {
		st.end()
	}
}

// send takes a message. While somebody reads but is slow it waits for them; while
// nobody does the oldest messages are lost.
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

// end says that nothing more comes.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
	st.changeLocked()
}

// after returns the event with a number larger than n, if it is there.
func (st *stream) after(n int) (msg []byte, number int, over bool, changed <-chan struct{}) {
	st.mu.Lock()
	defer st.mu.Unlock()
	number = max(n+1, st.first)
	if at := number - st.first; at < len(st.events) {
		return st.events[at], number, st.over && at == len(st.events)-1, nil
	}
	return nil, 0, st.over, st.changed
}

// take makes this connection the one that the stream is written to; an earlier one
// ends. A negative from goes on where the last one stopped.
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

// mine reports whether the connection is still the one, and notes how far it is.
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

// deliver writes the stream to a connection until it is over or the connection
// ends: as one JSON object where the answer comes first, and as events otherwise.
// status returns the status of an answer that comes alone; without it there are
// events even before there is anything to say.
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
				_ = http.NewResponseController(w).Flush() // before a connection that breaks
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
		// Noted first: whoever takes over then must not say it once more.
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
				panic(http.ErrAbortHandler) // as a connection that breaks
			}
			// 2025-11-25 §Transports, "Sending Messages": a retry field goes before.
			out.text("retry: 10\n\n")
			out.flushed()
			return
		}
	}
}

// wait returns the event after the number last; a nil one when the stream is over.
// ok is false when the connection or the server is.
func (st *stream) wait(ctx context.Context, me, last int) (msg []byte, over, ok bool) {
	closed := st.s.ctx.Done()
	if st.served {
		closed = nil // whoever serves it ends then, and may have something to say
	}
	for {
		msg, _, over, changed := st.after(last)
		if msg != nil || over {
			return msg, over, true
		}
		// Asked after changed was got, so that who takes over from here on wakes us.
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

// dropNow reports whether the connection is to be closed before its time.
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

// event writes one event; what is empty is left out, but for the data.
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
