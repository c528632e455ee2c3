package downstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// ask is a server request that was sent to a client and has no answer yet. It must be resolved
// exactly once.
type ask struct {
	done  chan struct{} // closed by resolve
	reply *jsonrpc.Message
	from  transport.Request // the HTTP request that carried reply
	err   error
	// token is the server's progress token in the request, if there is one, and progress passes the
	// client's progress on to the server. progress may be nil.
	token    []byte
	progress func(raw []byte)
}

func (a *ask) resolve(m *jsonrpc.Message, from transport.Request, err error) {
	a.reply, a.from, a.err = m, from, err
	close(a.done)
}

// maxAsks bounds the open server requests of one client.
const maxAsks = 64

// askClient sends a server request to the client through send and waits for the answer. call is
// the call that the request belongs to, or nil for none. tell sends messages that may be dropped.
func (c *Session) askClient(ctx context.Context, call *mcp.Call, m *jsonrpc.Message, send func(context.Context, []byte) error, tell func([]byte) error) (*jsonrpc.Message, error) {
	var t *trails.Trail
	if call != nil {
		t = call.Trail
	}
	if !c.declares(m.Method) { // checked first, because a refused request needs no conversion
		return nil, mcp.CannotAsk("the client has not declared the capability for this request")
	}
	var form *dialect.Form
	if f := c.info.Load(); f != nil {
		var lost mcp.Losses
		m = dialect.ConvertRequest(t, f.Revision, m, &lost)
		m, form = dialect.ConvertForm(t, f.Revision, m, &lost)
		c.publishLosses(call, lost)
	}
	token := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken)
	a := &ask{done: make(chan struct{}), token: token.Of(m.Raw), progress: mcp.ProgressOf(ctx)}
	n := c.open(a)
	if n == 0 {
		return nil, mcp.CannotAsk("too many requests wait for an answer of the client, or the client has disconnected")
	}
	id := jsonrpc.IntID(n)
	var e jsonrpc.Edits
	e.Replace(mcp.WhyID, m.IDAt, []byte(id))
	if len(a.token) > 0 {
		// Two servers may use the same token, but the client needs one that only this request has
		// (§Progress, all revisions: it "MUST be unique across all active requests").
		e.Replace(mcp.WhyProgressToken, token, []byte(id))
	}
	err := send(ctx, t.Splice(make([]byte, 0, len(m.Raw)+16), m.Raw, &e))
	if err == nil {
		select {
		case <-a.done:
			if a.err != nil {
				return nil, a.err
			}
			if t != nil {
				t.Received(trails.ClientWire, a.reply.Raw, a.from.Head())
			}
			reply, err := form.Restore(t, a.reply)
			if err != nil {
				return nil, invalidAnswer(err.Error())
			}
			return withID(t, reply, m.ID)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		// §Cancellation: the sender may cancel its request.
		note := jsonrpc.AppendNotification(nil, mcp.NoteCancelled,
			append(append([]byte(`{"requestId":`), id...), `,"reason":"the call that needed this request has ended"}`...))
		if errors.Is(tell(note), mcp.ErrAnswered) && c.out != nil {
			// The answer to the call was written first. The client may still show the server
			// request to its user, so the cancellation is sent through the session.
			if c.out.Send(note) == nil {
				t.Sent(trails.ClientWire, note)
			}
		}
	}
	c.mu.Lock()
	delete(c.asks, n)
	c.mu.Unlock()
	return nil, err
}

// open gives a server request its number, which is its id for the client. It returns 0 if the client cannot
// get another request.
func (c *Session) open(a *ask) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil || len(c.asks) >= maxAsks {
		return 0
	}
	if c.asks == nil {
		c.asks = make(map[int64]*ask)
	}
	c.lastAsk++
	c.asks[c.lastAsk] = a
	return c.lastAsk
}

// declares reports whether the client has declared the capability for a server request. Clients
// with different capabilities may share a session with a server, but a client must get only
// requests whose capability it has declared (2025-11-25 §Lifecycle, "Operation"). Unknown
// methods are allowed.
func (c *Session) declares(method string) bool {
	capability := mcp.AskCapability(method)
	f := c.info.Load()
	if capability == "" || f == nil {
		return true
	}
	return !jsonrpc.Find(f.Capabilities, jsonrpc.Whole(f.Capabilities), capability).IsZero()
}

// withID returns the answer m with the given id.
func withID(t *trails.Trail, m *jsonrpc.Message, id jsonrpc.ID) (*jsonrpc.Message, error) {
	var e jsonrpc.Edits
	e.Replace(mcp.WhyID, m.IDAt, []byte(id))
	return mcp.Rewrite(t, m, &e)
}

// takeResponse resolves the server request that a client's response belongs to. It drops
// responses that are duplicate, late or unknown.
func (c *Session) takeResponse(m *jsonrpc.Message, from transport.Request) {
	c.resolve(m.ID, m, from, nil)
}

// resolve resolves the open server request to which Dragoman gave this id. It does nothing if there
// is no such request.
func (c *Session) resolve(id jsonrpc.ID, m *jsonrpc.Message, from transport.Request, err error) {
	n, ok := jsonrpc.Int([]byte(id), jsonrpc.Span{End: len(id)})
	if !ok {
		return
	}
	c.mu.Lock()
	a := c.asks[n]
	delete(c.asks, n)
	c.mu.Unlock()
	if a != nil {
		a.resolve(m, from, err)
	}
}

// takeProgress passes a client's progress with a server request on to the server that has asked, and to no
// other one. It drops progress with a token that no open request to this client has (§Progress, all
// revisions: notifications "MUST only reference tokens" of active requests).
func (c *Session) takeProgress(m *jsonrpc.Message) {
	at := m.Param("progressToken")
	n, _ := jsonrpc.Int(m.Raw, at)
	c.mu.Lock()
	a := c.asks[n]
	c.mu.Unlock()
	if a == nil || len(a.token) == 0 || a.progress == nil {
		c.publishLosses(nil, mcp.Losses{{What: m.Method, Why: "no open request to this client has this progress token"}})
		return
	}
	var e jsonrpc.Edits
	e.Replace(mcp.WhyProgressToken, at, a.token)
	a.progress((*trails.Trail)(nil).Splice(nil, m.Raw, &e))
}

// Refuse fails the server request whose answer from the client could not be read. See
// transport.Refuser.
func (c *Session) Refuse(bad *transport.BadAnswer) {
	c.resolve(bad.ID, nil, transport.Request{}, invalidAnswer(bad.Err.Message))
}

// invalidAnswer returns the error for a client's answer that is not valid.
func invalidAnswer(why string) error {
	return fmt.Errorf("the client's answer is not valid: %s", why)
}

// requestCaller sends messages to a client while one of the client's requests runs. It keeps the
// messages in order, and sends nothing after the answer to the client's request.
type requestCaller struct {
	client    *Session
	call      *mcp.Call
	responder transport.Responder
	request   transport.Request // the HTTP request of the call
	flight    *inflight         // nil if the client cannot cancel the call
	live      bool              // server requests can reach the client while the call runs

	writing  sync.Mutex // held while the responder writes, so that messages are written one at a time
	finished bool
}

func (s *requestCaller) Notify(n *mcp.Note) { _ = s.notify(n.Bytes(s.call.Trail)) }

// notify sends a message that may be dropped.
func (s *requestCaller) notify(b []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.finished {
		return mcp.ErrAnswered
	}
	if q, ok := s.responder.(transport.Queuer); ok {
		return s.sent(b, q.Queue(b))
	}
	return s.sent(b, s.responder.Event(b))
}

// sent records a message that was sent before the answer. It records nothing if sending failed.
func (s *requestCaller) sent(b []byte, err error) error {
	if err == nil && s.call.Trail != nil {
		s.call.Trail.Sent(trails.ClientWire, b)
	}
	return err
}

// send sends a message that must arrive. It gives up when ctx ends. ctx ends before the answer to
// the call is written.
func (s *requestCaller) send(ctx context.Context, b []byte) error {
	q, ok := s.responder.(transport.Queuer)
	if !ok {
		return s.notify(b)
	}
	s.writing.Lock()
	finished := s.finished
	s.writing.Unlock()
	if finished {
		return mcp.ErrAnswered
	}
	// The lock is not held here, because Send may wait for a client that does not read. The answer
	// and progress notifications need the lock, and must not wait for such a client.
	return s.sent(b, q.Send(ctx, b))
}

func (s *requestCaller) finish(b []byte, code int64) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.finished {
		return
	}
	s.finished = true
	t := s.call.Trail
	var p trails.Passage
	if len(b) > 0 {
		p = t.Sent(trails.ClientWire, b) // recorded before the client can send a retry
	}
	err := s.responder.Finish(b, code)
	if t == nil {
		return
	}
	if err != nil {
		t.Failed(p, "the answer could not be sent to the client: "+err.Error())
	}
	if r, ok := s.responder.(transport.Headed); ok {
		t.Exchanged(p, trails.Head{}, r.Head())
	}
}

// forward gives the request to another process. It returns false if the request must be answered
// here.
func (s *requestCaller) forward(to *transport.Elsewhere) bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	r, ok := s.responder.(transport.Forwarding)
	if !ok || s.finished || !r.Forward(to) {
		return false
	}
	s.finished = true
	return true
}

// postpone tells the transport how long the client should wait before it sends the request again.
func (s *requestCaller) postpone(after time.Duration) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if p, ok := s.responder.(transport.Postponer); ok && !s.finished {
		p.Postpone(after)
	}
}

func (s *requestCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if !s.live {
		return nil, mcp.ErrCannotAsk
	}
	return s.client.askClient(ctx, s.call, m, s.send, s.notify)
}

// sessionSubscriber sends a legacy client the messages that belong to none of its requests.
type sessionSubscriber struct{ client *Session }

func (s sessionSubscriber) ClientInfo() *mcp.ClientInfo { return s.client.info.Load() }

func (s sessionSubscriber) Notify(n *mcp.Note) { _ = s.client.out.Send(n.Bytes(nil)) }

func (s sessionSubscriber) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	out := s.client.out
	return s.client.askClient(ctx, nil, m, func(_ context.Context, b []byte) error { return out.Send(b) }, out.Send)
}
