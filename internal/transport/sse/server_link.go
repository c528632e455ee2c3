package sse

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

var errStreamGone = errors.New("the client's stream has ended")

// link is one client: its stream, its conversation, and what it has in flight. It
// implements transport.Outbox.
type link struct {
	server *Server
	id     string // 192 random bits
	seat   string
	party  string          // out of whose share its place is, see transport.Quota
	ctx    context.Context // ends with the stream
	cancel context.CancelCauseFunc
	out    httpdoor.Stream

	mu       sync.Mutex
	conv     transport.Conversation // nil before open and after end
	inFlight int
	requests sync.WaitGroup // added to under mu, while conv is set
}

func newLink(s *Server, seat, party string) *link {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	l := &link{server: s, id: base64.RawURLEncoding.EncodeToString(b[:]), seat: seat, party: party}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.out.Init(s.rules, "", httpdoor.Discard)
	return l
}

// open sets the conversation, or closes it where the link has ended meanwhile.
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

// end closes the conversation of a stream that is gone.
func (l *link) end() {
	l.out.Cut()
	l.close(errStreamGone)
}

// finish closes the conversation and lets the stream go once the answers to what was
// in flight are written.
func (l *link) finish(cause error) {
	l.close(cause)
	l.out.End()
}

// close closes the conversation, which cancels what is in flight, and waits for it.
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

// tell hands over a notification or a response. A panic becomes an error.
func (l *link) tell(ctx context.Context, in transport.Incoming) (err error) {
	l.mu.Lock()
	conv := l.conv
	l.mu.Unlock()
	if conv == nil {
		return nil // the stream is just ending; nobody would hear of an error
	}
	defer func() {
		if p := recover(); p != nil {
			l.server.panicked(p)
			err = errInternal
		}
	}()
	return conv.OneWay(ctx, in)
}

// refuse tells the conversation of an answer of its client that is not a message.
func (l *link) refuse(err error) {
	l.mu.Lock()
	conv := l.conv
	l.mu.Unlock()
	transport.Refuse(conv, err)
}

// begin starts a request, which gives back what it holds at its end. ok is false when
// there are too many.
func (l *link) begin(in transport.Incoming, held httpdoor.Lease) (running, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight >= l.server.opts.MaxInFlight {
		return false, false
	}
	conv := l.conv
	if conv == nil {
		return false, true // the stream is just ending, and the answer would go with it
	}
	l.inFlight++
	l.server.counts.requests.Add(1)
	// Once this POST is answered the next may cancel it.
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
			_ = res.Finish(jsonrpc.AppendError(nil, in.Msg.ID, errInternal), errInternal.Code)
		case errors.Is(context.Cause(l.ctx), mcp.ErrShutdown):
			e := mcp.Wire(mcp.ErrShutdown)
			_ = res.Finish(jsonrpc.AppendError(nil, in.Msg.ID, e), e.Code)
		}
	}()
	run(res)
}

// response is the way back for one request: the stream that all share.
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
