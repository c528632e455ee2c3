package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// maxAtOnce bounds the requests of one pipe that run at the same time.
const maxAtOnce = 1024

// These are the timeouts of ServePipe.
const (
	// drainTimeout is how long requests may run after the client has closed its end of the pipe.
	// Such a client may be a script that sends a few lines from a file and then reads the answers.
	drainTimeout = time.Second
	// stopTimeout is how long a client may take to read the last answers after Dragoman has
	// ended the conversation.
	stopTimeout = 2 * time.Second
	// A client that reads slowly gets more time while it keeps reading: at most slowEnd after the
	// client has closed its end of the pipe, and at most slowStop after Dragoman was told to stop.
	slowEnd  = 30 * time.Second
	slowStop = 10 * time.Second
)

// ServePipe serves the client at the other end of a pipe. It returns nil when the client has closed
// its end, and ErrShutdown when the client has sent noteShutdown. Otherwise it returns the error of
// the pipe or the cause of ctx. When it returns, all goroutines of the conversation have ended and
// the pipe is closed.
//
// There is no timeout for a client that stops reading, because a debugger may have stopped the
// client. Until the client reads again, each request keeps its own answer, and the bounded queue of
// the pipe keeps messages such as progress. When maxAtOnce requests run, further requests get an
// error. When the queue is full of such errors, ServePipe stops reading. At the end of input or of
// ctx, the conversation still ends within seconds, or within half a minute if the client keeps
// reading slowly. If the client has closed its end and stops reading before it has all answers,
// ServePipe returns errUnread.
func (r *Endpoint) ServePipe(ctx context.Context, p transport.Pipe, from transport.Peer) error {
	d := &pipeServer{pipe: p, slots: make(chan struct{}, maxAtOnce), broken: make(chan error, 1)}
	d.conversation = r.Accept(from, pipeOutbox{p}).(*Session)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case err := <-d.broken:
			// A client that exits closes both directions, in either order. So wait a moment for the
			// end of input.
			late := time.NewTimer(drainTimeout)
			defer late.Stop()
			select {
			case <-late.C:
				cancel(fmt.Errorf("the client stopped reading its answers: %w", err))
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		// When ctx ends, all requests end with errors. awaitIdle gives the client time to read the
		// errors.
		<-ctx.Done()
		d.awaitIdle(stopTimeout, slowStop)
		_ = p.Close()
	})
	err := d.read(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if err == nil { // not after ErrShutdown, because that client waits only briefly
		d.conversation.endListens(errGone)
		if !d.awaitIdle(drainTimeout, slowEnd) && d.unread() {
			err = errUnread
		}
	}
	cancel(errors.Join(errGone, err))
	d.conversation.Close(errors.Join(errGone, err))
	d.running.Wait()
	watching.Wait()
	return err
}

var errGone = errors.New("the client has disconnected")

// errUnread is what ServePipe returns if the client has closed its end and stopped reading before
// it had all answers.
var errUnread = errors.New("the client closed the connection before it read all answers")

// pipeServer passes messages from a pipe to the Session.
type pipeServer struct {
	pipe         transport.Pipe
	conversation *Session
	running      work.Crew
	slotsFull    bool          // no slot became free in time; only the goroutine of read uses this field
	slots        chan struct{} // contains one element per running request, and per error that reply is writing
	broken       chan error    // gets the first error of a write; capacity 1
	opening      chan struct{} // closed when initialize has been answered; nil if no initialize is running; only the goroutine of read uses this field
}

// unread reports whether the client has not read all messages yet.
func (d *pipeServer) unread() bool {
	stalled, midway := d.pipe.Stalled()
	return stalled > 0 || midway
}

// awaitIdle waits until all requests have ended, and reports whether they have. It gives up after
// patience. If the client then has unread messages but keeps reading, awaitIdle gives up only after
// most.
func (d *pipeServer) awaitIdle(patience, most time.Duration) bool {
	began := time.Now()
	late := time.NewTimer(patience)
	defer late.Stop()
	taken := 0
	defer func() {
		for range taken {
			<-d.slots
		}
	}()
	for ; taken < maxAtOnce; taken++ {
		select {
		case d.slots <- struct{}{}:
		case <-late.C:
			stalled, midway := d.pipe.Stalled()
			reads := (stalled > 0 || midway) && stalled < patience
			if !reads || time.Since(began) >= most {
				return false
			}
			taken--
			late.Reset(min(patience-stalled, most-time.Since(began)))
		}
	}
	return true
}

// write writes to the client. It blocks while the client does not read. Only the end of the
// conversation interrupts it.
func (d *pipeServer) write(b []byte) error {
	err := d.pipe.Write(b)
	if err != nil {
		select {
		case d.broken <- err:
		default:
		}
	}
	return err
}

// slot takes a slot for one request, and reports whether it got one. If all slots are taken, slot
// waits for slotGrace, because the client may just be sending faster than it gets answers. If no
// slot becomes free in this time, later calls of slot do not wait, until one of them has got a
// slot.
func (d *pipeServer) slot(ctx context.Context) bool {
	select {
	case d.slots <- struct{}{}:
		d.slotsFull = false
		return true
	default:
		if d.slotsFull {
			return false
		}
	}
	late := time.NewTimer(slotGrace)
	defer late.Stop()
	select {
	case d.slots <- struct{}{}:
		return true
	case <-late.C:
		d.slotsFull = true
	case <-ctx.Done():
	}
	return false
}

// reply sends the error for a message that the reader refused. If the client reads, reply writes
// the error before the next message is read. This slows down a client that sends too fast. If the
// client does not read, reply queues the error. If the queue is full, a goroutine writes the error
// and occupies the slot of a request. The reader waits only if no slot is free.
func (d *pipeServer) reply(ctx context.Context, b []byte) {
	if stalled, _ := d.pipe.Stalled(); stalled < hintStalled {
		patient, stop := context.WithTimeout(ctx, hintStalled)
		err := d.pipe.Send(patient, nil, b)
		stop()
		if patient.Err() == nil || !errors.Is(err, transport.ErrNotSent) {
			return
		}
	}
	if err := d.pipe.Queue(b); !errors.Is(err, transport.ErrFull) {
		return
	}
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	d.running.Go(func() {
		defer func() { <-d.slots }()
		_ = d.write(b)
	})
}

type pipeOutbox struct{ pipe transport.Pipe }

func (o pipeOutbox) Send(b []byte) error { return hint(o.pipe, b) }

// hintGrace is how long an optional message waits for a slow client. If a client has read nothing
// for hintStalled, Dragoman assumes that it does not read at all.
const (
	hintGrace   = 100 * time.Millisecond
	hintStalled = time.Second
	slotGrace   = 100 * time.Millisecond // how long the reader waits for a slot
)

// hint writes an optional message such as progress. If the queue is full and the client reads, hint
// waits for hintGrace. It drops the message if the queue stays full or the client does not read.
func hint(p transport.Pipe, b []byte) error {
	err := p.Queue(b)
	if !errors.Is(err, transport.ErrFull) {
		return err
	}
	if d, _ := p.Stalled(); d >= hintStalled {
		return err
	}
	ctx, stop := context.WithTimeoutCause(context.Background(), hintGrace, transport.ErrFull)
	defer stop()
	return p.Send(ctx, nil, b)
}

// read reads all messages from the pipe. It returns nil at the end of input.
func (d *pipeServer) read(ctx context.Context) error {
	for {
		m, err := d.pipe.Read()
		var batch *transport.Batch
		var refused *jsonrpc.Error
		final := err != nil && !errors.As(err, &batch) && !errors.As(err, &refused)
		if d.isShutdown(m, err) {
			return ErrShutdown
		}
		if d.opening != nil && !final {
			// The revision that initialize negotiates determines how the next messages are handled.
			// So wait for the answer to initialize.
			<-d.opening
			d.opening = nil
			if d.isShutdown(m, err) {
				return ErrShutdown // isShutdown knows the kind of client only after initialize
			}
		}
		switch {
		case errors.As(err, &batch):
			d.batch(ctx, batch)
		case errors.As(err, &refused):
			transport.Refuse(d.conversation, err)
			bad := mcp.RefusedByScan(refused)
			d.report(bad)
			d.reply(ctx, jsonrpc.AppendError(nil, d.errorID(refused.ID), bad))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			d.message(ctx, m, lineResponder{d})
		}
	}
}

// report reports that a message of the client was refused with bad because it is not valid.
func (d *pipeServer) report(bad *jsonrpc.Error) {
	c := d.conversation
	c.endpoint.Refused(transport.RefusedMessage{Peer: c.peer(), Method: bad.Method, Err: bad})
}

// isShutdown reports whether m is the shutdown notification of a manifest client.
func (d *pipeServer) isShutdown(m *jsonrpc.Message, err error) bool {
	return err == nil && m.Kind == jsonrpc.Notification && m.Method == noteShutdown && d.conversation.manifest.Load()
}

// responder answers one request on the pipe.
type responder interface {
	transport.Responder
	transport.Queuer
	// refuse does what Finish does, but for the goroutine that reads from the pipe. This goroutine
	// must not wait for the client.
	refuse(ctx context.Context, b []byte)
}

func (d *pipeServer) message(ctx context.Context, m *jsonrpc.Message, r responder) {
	in := transport.Incoming{Msg: m}
	if m.Kind != jsonrpc.Request {
		_ = d.conversation.OneWay(ctx, in)
		if b, ok := r.(*batchResponder); ok {
			b.done(ctx)
		}
		return
	}
	if !d.slot(ctx) {
		r.refuse(ctx, jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many requests of this client are running; wait until one ends"}))
		return
	}
	budget, size := d.conversation.endpoint.Budget, int64(len(m.Raw))
	if !budget.Take(size) {
		<-d.slots
		r.refuse(ctx, jsonrpc.AppendError(nil, m.ID, mcp.Wire(mcp.Overloaded())))
		return
	}
	done := func() { budget.Give(size); <-d.slots }
	if m.Method == mcp.MethodInitialize {
		// The answer may take as long as the servers need to start. In the meantime, the reader
		// must notice the end of input. So it reads the next message, but handles it only after
		// opening is closed.
		opening := make(chan struct{})
		d.opening = opening
		done = func() { budget.Give(size); <-d.slots; close(opening) }
	}
	serve := d.conversation.Expect(ctx, in)
	d.running.Go(func() {
		defer done()
		serve(r)
	})
}

// errorID returns the id for an error about a message that could not be read. If known is empty,
// the id is null in the revisions that require null, and empty in all others (2026-07-28 §Base,
// "Error Responses").
func (d *pipeServer) errorID(known jsonrpc.ID) jsonrpc.ID {
	if known != "" {
		return known
	}
	if f := d.conversation.ClientInfo(); f != nil && f.Revision.Can(mcp.NullIDErrors) {
		return "null"
	}
	return ""
}

// lineResponder answers one request with one message on the pipe.
type lineResponder struct{ server *pipeServer }

func (r lineResponder) Event(b []byte) error { return r.server.write(b) }

func (r lineResponder) Queue(b []byte) error { return hint(r.server.pipe, b) }

func (r lineResponder) Send(ctx context.Context, b []byte) error {
	return r.server.pipe.Send(ctx, nil, b)
}

func (r lineResponder) refuse(ctx context.Context, b []byte) { r.server.reply(ctx, b) }

func (r lineResponder) Finish(b []byte, _ int64) error {
	if len(b) == 0 {
		return nil
	}
	return r.server.write(b)
}

// batch handles an array of messages. Only 2025-03-26 has batches (§Base Protocol, "Batching").
// Clients of other revisions get an error.
func (d *pipeServer) batch(ctx context.Context, b *transport.Batch) {
	f := d.conversation.ClientInfo()
	if f == nil || !f.Revision.Can(mcp.Batches) {
		var refused *jsonrpc.Error
		errors.As(b, &refused)
		d.report(refused)
		d.reply(ctx, jsonrpc.AppendError(nil, d.errorID(""), refused))
		return
	}
	items, err := jsonrpc.ScanBatch(b.Raw, jsonrpc.Limits{Bytes: len(b.Raw) + 1})
	if err != nil {
		var refused *jsonrpc.Error
		if errors.As(err, &refused) {
			d.report(refused)
			d.reply(ctx, jsonrpc.AppendError(nil, d.errorID(refused.ID), refused))
		}
		return
	}
	answers := &batchAnswers{server: d, left: len(items)}
	for _, item := range items {
		r := &batchResponder{all: answers}
		if item.Err != nil {
			bad := mcp.Wire(item.Err)
			d.report(bad)
			r.refuse(ctx, jsonrpc.AppendError(nil, d.errorID(bad.ID), bad))
			continue
		}
		d.message(ctx, item.Message, r)
	}
}

// batchAnswers collects the answers to a batch. When it has all answers, it writes them together.
type batchAnswers struct {
	server *pipeServer

	mu   sync.Mutex
	out  []byte
	left int
}

// add adds an answer. After the last answer it returns the whole array of answers.
func (a *batchAnswers) add(b []byte) (whole []byte) {
	a.mu.Lock()
	if len(b) > 0 {
		if len(a.out) == 0 {
			a.out = append(a.out, '[')
		} else {
			a.out = append(a.out, ',')
		}
		a.out = append(a.out, b...)
	}
	a.left--
	if a.left == 0 && len(a.out) > 0 {
		whole = append(a.out, ']')
	}
	a.mu.Unlock()
	return whole
}

type batchResponder struct{ all *batchAnswers }

func (r *batchResponder) Event(b []byte) error { return r.all.server.write(b) }

func (r *batchResponder) Queue(b []byte) error { return hint(r.all.server.pipe, b) }

func (r *batchResponder) Send(ctx context.Context, b []byte) error {
	return r.all.server.pipe.Send(ctx, nil, b)
}

func (r *batchResponder) Finish(b []byte, _ int64) error {
	whole := r.all.add(b)
	if whole == nil {
		return nil
	}
	return r.all.server.write(whole)
}

func (r *batchResponder) refuse(ctx context.Context, b []byte) {
	if whole := r.all.add(b); whole != nil {
		r.all.server.reply(ctx, whole)
	}
}

// done counts a message of the batch that gets no answer.
func (r *batchResponder) done(ctx context.Context) { r.refuse(ctx, nil) }
