package sse

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

var errStreamGone = errors.New("the client's stream has ended")

// link is the state of one client: its stream, its conversation, and its requests in flight. It
// implements transport.Outbox.
type link struct {
	server *Server
	id     string // a random id of 192 bits
	seat   string
	party  string          // party for transport.Quota
	ctx    context.Context // ends with the stream
	cancel context.CancelCauseFunc
	out    httpdoor.Stream
	gone   chan struct{} // closed when the stream has ended

	mu       sync.Mutex
	conv     transport.Conversation // the conversation; nil before open and after close
	inFlight int
	requests sync.WaitGroup // counts the requests in flight; Go is called under mu while conv is not nil
}

func newLink(s *Server, seat, party string) *link {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	l := &link{server: s, id: s.opts.Places.Mark(base64.RawURLEncoding.EncodeToString(b[:])), seat: seat, party: party, gone: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.out.Init(s.rules, "", httpdoor.Discard)
	return l
}

// open sets the conversation. If the link has already ended, it closes the conversation.
func (l *link) open(conv transport.Conversation) {
	l.mu.Lock()
	over := l.ctx.Err() != nil
	if !over {
		l.conv = conv
	}
	l.mu.Unlock()
	if over {
		conv.Close(context.Cause(l.ctx))
	}
}

// end closes the conversation after the stream has ended.
func (l *link) end() {
	l.out.Cut()
	l.close(errStreamGone)
}

// finish closes the conversation, waits for the requests in flight, and ends the stream.
func (l *link) finish(cause error) {
	l.close(cause)
	l.out.End()
}

// close closes the conversation, cancels the requests in flight, and waits until they have ended.
func (l *link) close(cause error) {
	l.mu.Lock()
	conv := l.conv
	l.conv = nil
	l.cancel(cause)
	l.mu.Unlock()
	if conv != nil {
		conv.Close(cause)
	}
	l.requests.Wait()
}

// Send implements transport.Outbox.
func (l *link) Send(b []byte) error { return l.out.Push("message", b) }

// deliver passes a notification or a response to the conversation. A panic becomes an error.
func (l *link) deliver(ctx context.Context, in transport.Incoming) (err error) {
	l.mu.Lock()
	conv := l.conv
	l.mu.Unlock()
	if conv == nil {
		return nil // the stream is ending, so the message is dropped
	}
	defer func() {
		if p := recover(); p != nil {
			l.server.panicked(p)
			err = httpdoor.ErrInternal
		}
	}()
	return conv.OneWay(ctx, in)
}

// refuse passes err to the conversation if err is a *transport.BadAnswer.
func (l *link) refuse(err error) {
	l.mu.Lock()
	conv := l.conv
	l.mu.Unlock()
	transport.Refuse(conv, err)
}

// begin starts a request. When the request ends, its lease is released. running is false if the
// stream is ending. ok is false if too many requests are in flight.
func (l *link) begin(in transport.Incoming, held httpdoor.Lease) (running, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight >= l.server.opts.MaxInFlight {
		return false, false
	}
	conv := l.conv
	if conv == nil {
		return false, true // the stream is ending, so the answer could not be sent
	}
	l.inFlight++
	l.server.counts.requests.Add(1)
	// Register the request now, because another POST may cancel the request as soon as this POST is
	// answered.
	run := transport.Expect(l.ctx, conv, in)
	l.requests.Go(func() {
		defer l.done()
		defer held.Give()
		l.serve(run, in)
	})
	return true, true
}

func (l *link) done() {
	l.mu.Lock()
	l.inFlight--
	l.mu.Unlock()
	if l.server.state() == draining {
		l.releaseIfIdle()
	}
}

func (l *link) releaseIfIdle() {
	l.mu.Lock()
	idle := l.inFlight == 0
	l.mu.Unlock()
	if idle {
		l.out.Release()
	}
}

func (l *link) serve(run func(transport.Responder), in transport.Incoming) {
	res := &response{link: l}
	defer func() {
		if p := recover(); p != nil {
			l.server.panicked(p)
		}
		switch {
		case res.finished:
		case l.ctx.Err() == nil:
			_ = res.Finish(jsonrpc.AppendError(nil, in.Msg.ID, httpdoor.ErrInternal), httpdoor.ErrInternal.Code)
		case mcp.EndedBy(l.ctx) != nil:
			e := mcp.Wire(mcp.EndedBy(l.ctx))
			_ = res.Finish(jsonrpc.AppendError(nil, in.Msg.ID, e), e.Code)
		}
	}()
	run(res)
}

// response writes the messages of one request to the stream that all requests of the client share.
type response struct {
	link     *link
	finished bool
}

// Event implements transport.Responder.
func (r *response) Event(b []byte) error {
	if r.finished {
		return httpdoor.ErrEnded
	}
	return r.link.Send(b)
}

// Finish implements transport.Responder.
func (r *response) Finish(b []byte, _ int64) error {
	if r.finished {
		return httpdoor.ErrEnded
	}
	r.finished = true
	if len(b) == 0 {
		return nil
	}
	return r.link.Send(b)
}
