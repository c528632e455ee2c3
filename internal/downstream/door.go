package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// maxAtOnce bounds the requests of one pipe that run at the same time.
const maxAtOnce = 1024

// The patience of ServePipe.
const (
	// lastWords is how long the requests of a client that has closed its end may go
	// on: it may have piped in a few lines and still read.
	lastWords = time.Second
	// farewell is how long a client that is still there may take to read that we
	// have ended.
	farewell = 2 * time.Second
	// A client that reads slowly has more time for as long as it goes on reading:
	// slowEnd in all once it has closed its end, slowStop once we are told to stop.
	slowEnd  = 30 * time.Second
	slowStop = 10 * time.Second
)

// ServePipe leads the conversation with the client at the other end of a pipe. It
// returns nil when the client closed its end, ErrShutdown when it said that it ends,
// and otherwise what broke the pipe or the cause of ctx; by then everything that the
// conversation started is over. The pipe is closed.
//
// A client that stops reading is waited for without a limit: it may be halted in a
// debugger. Its answers wait in their requests, progress and the like in the pipe's
// queue and beyond that nowhere; when 1024 requests wait nothing more is read. The
// end of its input or of ctx still ends the conversation within seconds, or within half a
// minute while it reads on slowly. If it stops reading with answers on their way after
// it closed its end, the error says so.
func (r *Endpoint) ServePipe(ctx context.Context, p transport.Pipe, from transport.Peer) error {
	d := &door{pipe: p, slots: make(chan struct{}, maxAtOnce), broken: make(chan error, 1)}
	d.conversation = r.Accept(from, pipeOutbox{p}).(*Session)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case err := <-d.broken:
			// A client that has ended closes both directions, and which of the two is
			// noticed first means nothing.
			late := time.NewTimer(lastWords)
			defer late.Stop()
			select {
			case <-late.C:
				cancel(fmt.Errorf("the client no longer accepts answers: %w", err))
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		// Requests end with ctx and say so; then nothing is read any more.
		<-ctx.Done()
		d.awaitIdle(farewell, slowStop)
		_ = p.Close()
	})
	err := d.read(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if err == nil { // what still runs is not waited for after ErrShutdown
		d.conversation.endListens(errGone)
		if !d.awaitIdle(lastWords, slowEnd) && d.unread() {
			err = errUnread
		}
	}
	cancel(errors.Join(errGone, err))
	d.conversation.Close(errors.Join(errGone, err))
	d.running.Wait()
	watching.Wait()
	return err
}

var errGone = errors.New("the client is gone")

// errUnread ends a conversation whose client has closed its end and does not read what
// it asked for.
var errUnread = errors.New("the client closed its end and stopped reading: not all answers were delivered")

// door takes messages from a pipe to its conversation.
type door struct {
	pipe         transport.Pipe
	conversation *Session
	running      sync.WaitGroup
	crowded      bool          // no slot became free in time. Of read
	slots        chan struct{} // one is taken by each request that runs
	broken       chan error    // has room for why nothing can be written any more
	opening      chan struct{} // closed when initialize is answered; nil while there is none. Of read
}

// unread reports whether something is on its way that the client does not take.
func (d *door) unread() bool {
	stalled, midway := d.pipe.Stalled()
	return stalled > 0 || midway
}

// awaitIdle waits until no request runs, for as long as patience. While answers are on
// their way and the client goes on reading, that time begins anew, up to most in all. It
// reports whether no request runs any more.
func (d *door) awaitIdle(patience, most time.Duration) bool {
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

// write writes to the client, however long it reads nothing. Only the end of the
// conversation breaks it off.
func (d *door) write(b []byte) error {
	err := d.pipe.Write(b)
	if err != nil {
		select {
		case d.broken <- err:
		default:
		}
	}
	return err
}

// slot takes the slot of one request. Where all are taken it waits a moment, because a
// client that sends without pause may only be faster than its answers are written. One
// whose requests really run for long waits no further time until a slot is free.
func (d *door) slot(ctx context.Context) bool {
	select {
	case d.slots <- struct{}{}:
		d.crowded = false
		return true
	default:
		if d.crowded {
			return false
		}
	}
	late := time.NewTimer(slotGrace)
	defer late.Stop()
	select {
	case d.slots <- struct{}{}:
		return true
	case <-late.C:
		d.crowded = true
	case <-ctx.Done():
	}
	return false
}

// reply answers what the reader has refused. A client that reads gets the answer
// before anything more is read from it, so that one that sends without pause is held
// to the pace of its answers. When it does not read the answer is queued, and beyond
// that it takes the place of a request, for which the reader waits: so that no answer
// is lost, and the end of input is noticed.
func (d *door) reply(ctx context.Context, b []byte) {
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

// How long a message that the client can do without waits for a client that reads
// slowly, and after what time a client is taken for one that does not read.
const (
	hintGrace   = 100 * time.Millisecond
	hintStalled = time.Second
	slotGrace   = 100 * time.Millisecond // for which the reader waits for a slot
)

// hint writes a message that the client can do without, such as progress. It gives a
// client that reads a moment to accept a burst. It drops the message when that is not
// enough, or when the client does not read.
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

// read is the pipe's only reader. It returns nil at the end of input.
func (d *door) read(ctx context.Context) error {
	for {
		m, err := d.pipe.Read()
		var batch *transport.Batch
		var refused *jsonrpc.Error
		final := err != nil && !errors.As(err, &batch) && !errors.As(err, &refused)
		if d.ends(m, err) {
			return ErrShutdown
		}
		if d.opening != nil && !final {
			// What follows on the pipe is spoken in the revision agreed on there.
			<-d.opening
			d.opening = nil
			if d.ends(m, err) {
				return ErrShutdown // it was not known before what client this is
			}
		}
		switch {
		case errors.As(err, &batch):
			d.batch(ctx, batch)
		case errors.As(err, &refused):
			transport.Refuse(d.conversation, err)
			d.reply(ctx, jsonrpc.AppendError(nil, d.errorID(refused.ID), refused))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		default:
			d.message(ctx, m, lineResponder{d})
		}
	}
}

// ends reports whether a message is the last of a client that ends with one.
func (d *door) ends(m *jsonrpc.Message, err error) bool {
	return err == nil && m.Kind == jsonrpc.Notification && m.Method == noteShutdown && d.conversation.manifest.Load()
}

// responder answers one request on the pipe.
type responder interface {
	transport.Responder
	transport.Queuer
	// refuse is Finish on the goroutine that reads, which must not wait for the client.
	refuse(ctx context.Context, b []byte)
}

func (d *door) message(ctx context.Context, m *jsonrpc.Message, r responder) {
	in := transport.Incoming{Msg: m}
	if m.Kind != jsonrpc.Request {
		_ = d.conversation.OneWay(ctx, in)
		if b, ok := r.(*batchResponder); ok {
			b.done(ctx)
		}
		return
	}
	if !d.slot(ctx) {
		r.refuse(ctx, jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many requests are running"}))
		return
	}
	budget, size := d.conversation.reception.Budget, int64(len(m.Raw))
	if !budget.Take(size) {
		<-d.slots
		r.refuse(ctx, jsonrpc.AppendError(nil, m.ID, mcp.Wire(mcp.Overloaded())))
		return
	}
	done := func() { budget.Give(size); <-d.slots }
	if m.Method == mcp.MethodInitialize {
		// It may take as long as the server behind, and the end of input must be seen
		// meanwhile.
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

// errorID returns the id of an error about a message that could not be read:
// null in the revisions that want it, otherwise none (2026-07-28 §Base, "Error
// Responses").
func (d *door) errorID(known jsonrpc.ID) jsonrpc.ID {
	if known != "" {
		return known
	}
	if f := d.conversation.Facts(); f != nil && f.Revision.Can(mcp.NullIDErrors) {
		return "null"
	}
	return ""
}

// lineResponder answers on the pipe.
type lineResponder struct{ door *door }

func (r lineResponder) Event(b []byte) error { return r.door.write(b) }

func (r lineResponder) Queue(b []byte) error { return hint(r.door.pipe, b) }

func (r lineResponder) Send(ctx context.Context, b []byte) error {
	return r.door.pipe.Send(ctx, nil, b)
}

func (r lineResponder) refuse(ctx context.Context, b []byte) { r.door.reply(ctx, b) }

func (r lineResponder) Finish(b []byte, _ int64) error {
	if len(b) == 0 {
		return nil
	}
	return r.door.write(b)
}

// batch serves an array of messages to a client of the one revision that has
// them, and refuses it to others (2025-03-26 §Base Protocol, "Batching").
func (d *door) batch(ctx context.Context, b *transport.Batch) {
	f := d.conversation.Facts()
	if f == nil || !f.Revision.Can(mcp.Batches) {
		var refused *jsonrpc.Error
		errors.As(b, &refused)
		d.reply(ctx, jsonrpc.AppendError(nil, d.errorID(""), refused))
		return
	}
	items, err := jsonrpc.ScanBatch(b.Raw, jsonrpc.Limits{Bytes: len(b.Raw) + 1})
	if err != nil {
		var refused *jsonrpc.Error
		if errors.As(err, &refused) {
			d.reply(ctx, jsonrpc.AppendError(nil, d.errorID(refused.ID), refused))
		}
		return
	}
	answers := &batchAnswers{door: d, left: len(items)}
	for _, item := range items {
		r := &batchResponder{all: answers}
		if item.Err != nil {
			bad := mcp.Wire(item.Err)
			r.refuse(ctx, jsonrpc.AppendError(nil, d.errorID(bad.ID), bad))
			continue
		}
		d.message(ctx, item.Message, r)
	}
}

// batchAnswers collects the answers to a batch and writes them when the last one
// is there.
type batchAnswers struct {
	door *door

	mu   sync.Mutex
	out  []byte
	left int
}

// add adds an answer, and returns the whole when it was the last.
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

func (r *batchResponder) Event(b []byte) error { return r.all.door.write(b) }

func (r *batchResponder) Queue(b []byte) error { return hint(r.all.door.pipe, b) }

func (r *batchResponder) Send(ctx context.Context, b []byte) error {
	return r.all.door.pipe.Send(ctx, nil, b)
}

func (r *batchResponder) Finish(b []byte, _ int64) error {
	whole := r.all.add(b)
	if whole == nil {
		return nil
	}
	return r.all.door.write(whole)
}

func (r *batchResponder) refuse(ctx context.Context, b []byte) {
	if whole := r.all.add(b); whole != nil {
		r.all.door.reply(ctx, whole)
	}
}

// done counts a member that has no answer.
func (r *batchResponder) done(ctx context.Context) { r.refuse(ctx, nil) }
