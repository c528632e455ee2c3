package streamhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// response is the response to one POST. It is JSON if the answer comes soon and no other message
// comes before the answer. Otherwise it is an event stream. response implements
// transport.Responder.
//
// Until the response becomes a stream, only the goroutine of the handler uses w. After that, only
// the goroutine that writes the stream uses w, and the handler waits for that goroutine.
type response struct {
	flight

	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	id      jsonrpc.ID          // id of the request, for errors that Dragoman writes
	who     *identity.Principal // the sender of a modern request
	modern  bool
	ends    uint64                  // Server.ends when a modern request arrived
	stop    context.CancelCauseFunc // ends a modern request; nil if only its client can end it
	retry   time.Duration           // delay before a retry; 0 if the request was not postponed
	session *session                // the session; nil for a modern request
	opens   bool                    // it's an initialize request
	init    initState               // progress of an initialize request

	late   *time.Timer // the timer that runs startStream
	writer sync.WaitGroup

	mu     sync.Mutex // guards the fields below; it is not held during writes
	state  state
	to     *transport.Elsewhere // where the request goes instead; nil if it is answered here
	stream *httpdoor.Stream
	header http.Header // header of the stream; not modified after it is set
	status int         // status of the JSON response, 0 before it is written; not guarded by mu
	number uint32      // number of the stream in its session; 0 if clients cannot resume the stream
}

type state uint8

const (
	undecided state = iota
	streaming
	finished
)

// initState is the progress of an initialize request and its session.
type initState uint8

const (
	initNone initState = iota // not an initialize request
	initPending
	idSent // the session id is in the response header, but initialize has not succeeded yet
	initSucceeded
)

// serve runs one request to its end. When serve returns, all goroutines of the request have ended. It returns false if
// the request is for another process, which hasn't got it. Nothing is written then.
func (s *Server) serve(ctx context.Context, res *response, in transport.Incoming) (done bool) {
	res.response = res
	listens := res.modern && in.Msg.Method == mcp.MethodListen
	if listens || res.modern && res.seat != "" {
		ctx, res.stop = context.WithCancelCause(ctx)
		defer res.stop(nil)
	}
	if !s.flights.add(&res.flight) {
		if res.modern {
			res.conv.Close(errClosed)
		}
		s.stopping(res.w, res.r, in.Msg.Raw, res.id)
		return true
	}
	defer res.remove()
	if listens || res.modern && s.ends.Load() != res.ends {
		// We ask again, since the request wasn't among the flights when EndSeat looked. A listen has no
		// end of its own, so for it we leave no gap at all.
		if err := s.again(res.r, res.seat); err != nil {
			s.refuseDenied(res.w, err)
			res.conv.Close(err)
			return true
		}
	}
	res.run(ctx, in)
	switch {
	case res.to == nil:
		return true
	case res.to.Again:
		return s.pass(res.w, res.r, res.who, in.Msg.Raw, res.to)
	}
	return s.opts.Forward.Forward(res.w, res.r, in.Msg.Raw, res.to) // the conversation has recorded it
}

func (res *response) run(ctx context.Context, in transport.Incoming) {
	res.late = time.AfterFunc(res.server.opts.LateStream, res.startStream)
	defer res.settle()
	res.conv.Request(ctx, in, res)
}

// settle ends the response, even after a panic of the conversation.
func (res *response) settle() {
	p := recover()
	res.late.Stop()
	if p != nil && p != http.ErrAbortHandler {
		res.server.panicked(p)
	}
	stopping := errors.Is(context.Cause(res.r.Context()), mcp.ErrShutdown)
	if res.undone() && (p != nil || stopping || res.r.Context().Err() == nil) {
		e := httpdoor.ErrInternal
		switch {
		case p != nil:
		case stopping:
			e = mcp.Wire(mcp.ErrShutdown)
		case res.session != nil && res.session.over() != nil:
			e = sessionEnded(res.session.over())
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

// abandon ends the response if the client has disconnected before the answer. It has no effect if
// the response has ended.
func (res *response) abandon() {
	res.mu.Lock()
	defer res.mu.Unlock()
	if res.state == streaming {
		res.stream.Cut()
	}
	res.state = finished
}

// cut ends the stream of the response, if there is one, without sending queued messages.
func (res *response) cut() {
	res.mu.Lock()
	stream := res.stream
	res.mu.Unlock()
	if stream != nil {
		stream.Cut()
	}
}

// startStream turns a slow response into a stream, so that proxies do not time out.
func (res *response) startStream() {
	id := res.newID()
	res.mu.Lock()
	published := false
	if res.state == undecided && res.r.Context().Err() == nil {
		published = res.beginLocked(id)
	}
	res.mu.Unlock()
	if published {
		res.server.recheck(res)
	}
}

// newID returns an id for the session of an initialize request, and otherwise "".
func (res *response) newID() string {
	if !res.opens {
		return ""
	}
	return res.server.newID(res.session)
}

// beginLocked turns the response into a stream, and reports whether it published a new session, with an id. It does no
// I/O.
func (res *response) beginLocked(id string) (published bool) {
	s := res.server
	res.state = streaming
	s.counts.streams.Add(1)
	if published = res.init == initPending; published {
		s.publish(res, id)
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
	res.header = res.w.Header()
	if rev.Can(mcp.PrimingEvent) {
		// 2025-11-25 §Transports, "Sending Messages to the Server" 6: the first event should
		// contain only an id, so that the client can reconnect.
		res.stream.Prime(httpdoor.Retry)
	}
	ctx := res.r.Context()
	res.writer.Go(func() { _ = c.Run(ctx) })
	return published
}

// Event sends a message before the answer; see transport.Responder. If no connection reads the
// stream, Event returns no error as long as the client can resume the stream.
func (res *response) Event(b []byte) error {
	id := res.newID()
	res.mu.Lock()
	published := false
	if res.state == undecided {
		published = res.beginLocked(id)
	}
	state, stream := res.state, res.stream
	res.mu.Unlock()
	if published {
		res.server.recheck(res)
	}
	if state == finished {
		return httpdoor.ErrEnded
	}
	return stream.Push("message", b)
}

// Finish sends the answer; see transport.Responder. If the client has disconnected, Finish
// returns an error.
func (res *response) Finish(b []byte, code int64) error {
	err := res.finish(b, code)
	if err == nil && len(b) > 0 && res.r.Context().Err() != nil && !errors.Is(context.Cause(res.r.Context()), mcp.ErrShutdown) {
		return errGone
	}
	return err
}

var errGone = errors.New("the client has disconnected")

func (res *response) finish(b []byte, code int64) error {
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
	if res.init == initPending && code == 0 && res.r.Context().Err() == nil {
		res.server.publish(res, res.newID())
		res.server.recheck(res)
		res.markInitialized(b)
	}
	if len(b) == 0 {
		// The request was cancelled, but HTTP still requires a response. The response is an event
		// stream that ends without an answer.
		res.w.Header()["Content-Type"] = eventType
		res.w.WriteHeader(http.StatusOK)
		return nil
	}
	status := http.StatusOK
	if res.modern {
		status = statusOf(code)
		if res.retry > 0 {
			// RFC 6585, section 4, defines this status.
			status = http.StatusTooManyRequests
			httpdoor.SetRetryAfter(res.w, res.retry)
			res.server.counts.limited.Add(1)
		}
	}
	res.status = status
	return writeJSON(res.w, res.r, status, b, res.server.rules.Stall)
}

// Head returns the head of the response; see transport.Headed.
func (res *response) Head() trails.Head {
	if res.status != 0 {
		return trails.NewHead("", "", res.status, res.w.Header(), responseFields...)
	}
	// The response is an event stream, and another goroutine writes the stream to res.w. So use
	// res.header.
	res.mu.Lock()
	header := res.header
	res.mu.Unlock()
	return trails.NewHead("", "", http.StatusOK, header, responseFields...)
}

// responseFields gives the reasons for the header fields that Dragoman writes into a response.
var responseFields = []trails.HeadEdit{
	{Why: mcp.WhyConnection},
	{Why: mcp.WhySession, Name: mcp.HeaderSession},
	{Why: mcp.WhyPostponed, Name: "Retry-After"},
}

// Postpone sets the delay before a retry; see transport.Postponer.
func (res *response) Postpone(after time.Duration) { res.retry = max(after, time.Second) }

func (res *response) finishStream(b []byte, code int64) error {
	if res.init == idSent && code == 0 {
		res.markInitialized(b)
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

// markInitialized records that initialize has succeeded, and which revision was negotiated.
func (res *response) markInitialized(answer []byte) {
	res.session.rev.Store(uint32(negotiated(answer)))
	res.init = initSucceeded
}

var eventType = []string{"text/event-stream"}

// statusOf returns the HTTP status of a modern answer with an error code (2026-07-28 §Streamable
// HTTP, "Protocol Version Header", "Server Validation"; §Base, "Error Codes"). The code of a result
// is 0. An error for which the specification requires no status gets the status of a result.
func statusOf(code int64) int {
	switch code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// smallBody is the number of bytes that net/http buffers until the handler returns. For a smaller
// body, net/http sets Content-Length itself.
const smallBody = 2048

// largeBody is the maximum size of a body that is written with one plain Write. For such a body,
// the write timeout of the HTTP server is a sufficient limit for slow readers.
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
	switch {
	case len(b) < smallBody:
		_, err := w.Write(b)
		return err
	case len(b) <= largeBody:
		return httpdoor.Write(w, r, b)
	}
	return httpdoor.WriteLarge(w, r, b, stall)
}
