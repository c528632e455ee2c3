package streamhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// response is what goes back for one POST: JSON if nothing comes before the
// answer and it does not take long, otherwise a stream of events. It implements
// transport.Responder.
//
// The response belongs to the goroutine of its handler until it becomes a stream,
// then to the stream's writer, which the handler awaits.
type response struct {
	flight

	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	id      jsonrpc.ID // of the request, for answers that we make ourselves
	modern  bool
	retry   time.Duration // after which the request may be tried again; 0 when it was not postponed
	session *session      // nil for modern
	birth   birth         // of session

	late   *time.Timer // turns it into a stream
	writer sync.WaitGroup

	mu     sync.Mutex // guards what follows; not held while anything is written
	state  state
	stream *httpdoor.Stream
	number uint32 // of the stream in its session, 0 if it cannot be resumed
}

type state uint8

const (
	undecided state = iota
	streaming
	finished
)

// birth says how far the session of an initialize request has come.
type birth uint8

const (
	notOurs birth = iota // the session was there before
	unborn
	shown // its id went out before the answer
	born
)

// serve runs one request to its end. It returns when nothing of it is left.
func (s *Server) serve(ctx context.Context, res *response, in transport.Incoming) {
	res.response = res
	if !s.flights.add(&res.flight) {
		if res.modern {
			res.conv.Close(errClosed)
		}
		s.limited(res.w, http.StatusServiceUnavailable, res.id, "shutdown", "this server is shutting down", 5*time.Second)
		return
	}
	defer res.land()
	res.late = time.AfterFunc(s.opts.LateStream, res.turn)
	defer res.settle()
	res.conv.Request(ctx, in, res)
}

// settle ends the response in every case, panics of the conversation included.
func (res *response) settle() {
	p := recover()
	res.late.Stop()
	if p != nil && p != http.ErrAbortHandler {
		res.server.panicked(p)
	}
	stopping := errors.Is(context.Cause(res.r.Context()), mcp.ErrShutdown)
	if res.undone() && (p != nil || stopping || res.r.Context().Err() == nil) {
		e := errInternal
		switch {
		case p != nil:
		case stopping:
			e = mcp.Wire(mcp.ErrShutdown)
		case res.session != nil && res.session.over():
			e = errSessionEnded
		}
		_ = res.Finish(jsonrpc.AppendError(nil, res.id, e), e.Code)
	}
	res.abandon()
	if res.modern {
		res.conv.Close(nil)
	}
	res.writer.Wait()
	if p == http.ErrAbortHandler {
		panic(p)
	}
}

func (res *response) undone() bool {
	res.mu.Lock()
	defer res.mu.Unlock()
	return res.state != finished
}

// abandon ends a response whose client is gone and for which no answer came.
func (res *response) abandon() {
	res.mu.Lock()
	defer res.mu.Unlock()
	if res.state == streaming {
		res.stream.Cut()
	}
	res.state = finished
}

// cut ends the response's stream, if it has become one, whatever that has not sent.
func (res *response) cut() {
	res.mu.Lock()
	stream := res.stream
	res.mu.Unlock()
	if stream != nil {
		stream.Cut()
	}
}

// turn makes a stream of a response that takes long, so that nobody on the way
// takes silence for death.
func (res *response) turn() {
	res.mu.Lock()
	defer res.mu.Unlock()
	if res.state == undecided && res.r.Context().Err() == nil {
		res.beginLocked()
	}
}

// beginLocked makes the response a stream. It does no I/O.
func (res *response) beginLocked() {
	s := res.server
	res.state = streaming
	s.counts.streams.Add(1)
	if res.birth == unborn {
		s.show(res)
	}
	res.stream = new(httpdoor.Stream)
	rev := mcp.Unknown
	if res.session != nil && res.session.id != "" {
		rev = res.session.revision()
	}
	if rev.Can(mcp.Resumption) {
		res.number = res.session.addStream(res.stream, s.rules)
	} else {
		res.stream.Init(s.rules, "", httpdoor.Discard)
	}
	c := res.stream.Attach(res.w, res.r)
	if rev.Can(mcp.PrimingEvent) {
		// 2025-11-25 §Transports, "Sending Messages to the Server" 6.
		res.stream.Prime(httpdoor.Retry)
	}
	ctx := res.r.Context()
	res.writer.Go(func() { _ = c.Run(ctx) })
}

// Event sends a message before the answer; see transport.Responder. That nobody
// reads is no error as long as the client can come back.
func (res *response) Event(b []byte) error {
	res.mu.Lock()
	if res.state == undecided {
		res.beginLocked()
	}
	state, stream := res.state, res.stream
	res.mu.Unlock()
	if state == finished {
		return httpdoor.ErrEnded
	}
	return stream.Push("message", b)
}

// Finish sends the answer; see transport.Responder.
func (res *response) Finish(b []byte, code int64) error {
	res.mu.Lock()
	before := res.state
	res.state = finished
	res.mu.Unlock()
	switch before {
	case finished:
		return httpdoor.ErrEnded
	case streaming:
		return res.finishStream(b, code)
	}
	if res.birth == unborn && code == 0 && res.r.Context().Err() == nil {
		res.server.show(res)
		res.settled(b)
	}
	if len(b) == 0 {
		// The request was cancelled, and HTTP wants a response: an event stream that
		// ends without one.
		res.w.Header()["Content-Type"] = eventType
		res.w.WriteHeader(http.StatusOK)
		return nil
	}
	status := http.StatusOK
	if res.modern {
		status = statusOf(code)
		if res.retry > 0 {
			// RFC 6585, 4.
			status = http.StatusTooManyRequests
			httpdoor.SetRetryAfter(res.w, res.retry)
			res.server.counts.limited.Add(1)
		}
	}
	return writeJSON(res.w, res.r, status, b, res.server.rules.Stall)
}

// Postpone says that the answer to come means "not now"; see transport.Postponer.
func (res *response) Postpone(after time.Duration) { res.retry = max(after, time.Second) }

func (res *response) finishStream(b []byte, code int64) error {
	if res.birth == shown && code == 0 {
		res.settled(b)
	}
	var err error
	if len(b) > 0 {
		err = res.stream.Push("message", b)
	}
	res.stream.End()
	if res.number != 0 {
		res.session.retire(res.number)
	}
	return err
}

// settled notes that initialize has succeeded.
func (res *response) settled(answer []byte) {
	res.session.rev.Store(uint32(negotiated(answer)))
	res.birth = born
}

var eventType = []string{"text/event-stream"}

// statusOf returns the status of a modern answer by its error code, 0 for a
// result (2026-07-28 §Streamable HTTP, "Protocol Version Header", "Server
// Validation"; §Base, "Error Codes"). All other errors are answers like results.
func statusOf(code int64) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// smallBody is how much net/http keeps back until the handler returns, and then
// counts by itself.
const smallBody = 2048

// largeBody is how much is written without a thought to slow readers: the
// server's own write timeout covers it.
const largeBody = 64 << 10

func writeJSON(w http.ResponseWriter, r *http.Request, status int, b []byte, stall time.Duration) error {
	h := w.Header()
	h["Content-Type"] = httpdoor.TypeJSON
	if len(b) >= smallBody {
		h["Content-Length"] = []string{strconv.Itoa(len(b))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	if len(b) <= largeBody {
		_, err := w.Write(b)
		return err
	}
	return httpdoor.WriteLarge(w, r, b, stall)
}
