package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// pipeConn is a connection on which all calls share one pipe. An id or token in a message shows which
// call the message belongs to.
type pipeConn struct {
	server  *Conn
	pipe    transport.Pipe
	reading sync.WaitGroup
	sending work.Group // goroutines of sendBeside
	started time.Time
	heard   atomic.Int64 // time of the last read, in nanoseconds since started

	mu    sync.Mutex
	state pipeState // only update touches it
}

// pending is a request that has no answer yet.
type pending struct {
	call *mcp.Attempt  // nil for a request of the handshake
	flow *flow         // nil for a request of the handshake
	wake chan struct{} // capacity 1; signals that events, answer or err has changed
	sent atomic.Bool   // whether the request was sent completely

	// The following fields belong to the pipeState.
	events []*jsonrpc.Message
	bytes  int
	answer *jsonrpc.Message
	err    error
	keep   bool // whether onLate gets the answer if no goroutine waits for it any more
	left   bool // whether no goroutine waits for the answer any more
}

// These constants limit the queue of messages for one call, because its client may be slow.
const (
	maxEvents     = 256
	maxEventBytes = 1 << 20
)

func newPipeConn(c *Conn, p transport.Pipe) *pipeConn {
	l := &pipeConn{server: c, pipe: p, started: time.Now(), state: pipeState{pending: make(map[int64]*pending), quit: make(chan struct{})}}
	c.link = l
	c.sessions.join(l)
	l.reading.Go(l.read)
	return l
}

// register adds a request to the pending ones. The returned channel quit is closed when requests of which no
// byte was sent must fail.
func (c *pipeConn) register(n int64, p *pending) (quit <-chan struct{}, err error) {
	c.update(func(st *pipeState) {
		if st.ended != nil {
			err = fmt.Errorf("%w: %w: %w", transport.ErrNotSent, ErrLinkOver, st.ended)
			return
		}
		if st.stuck > 0 {
			if d, _ := c.pipe.Stalled(); d >= st.stuck {
				err = fmt.Errorf("%w: %w", transport.ErrNotSent, transport.ErrStalled)
				return
			}
			st.stuck, st.quit = 0, make(chan struct{}) // the server reads again
		}
		st.pending[n] = p
		quit = st.quit
	})
	return quit, err
}

// fail ends a pending request with an error. It returns false if there is no such request.
func (st *pipeState) fail(n int64, err error) bool {
	p := st.pending[n]
	if p == nil {
		st.forgetAbandoned(n)
		return false
	}
	delete(st.pending, n)
	p.err = err
	p.signal()
	return true
}

// abandon records that no goroutine waits for the answer to a request any more. The request stays
// pending only if p.keep and sent are true. sent means that the server may have received the
// request.
func (c *pipeConn) abandon(n int64, p *pending, sent bool) {
	var events []*jsonrpc.Message
	c.update(func(st *pipeState) {
		events = p.events
		p.events, p.bytes, p.left = nil, 0, true
		if sent {
			st.left = time.Now()
		}
		if !p.keep || !sent {
			delete(st.pending, n)
		}
		if !p.keep && sent {
			st.rememberAbandoned(n, p.call)
		}
	})
	// Notifications can be dropped, but the server waits for the answers to its requests.
	for _, m := range events {
		if m.Kind == jsonrpc.Request {
			c.passOn(m, p)
		}
	}
}

// passOn handles a server request that was attributed to an abandoned call. It passes the request to
// another call that the request may belong to. If there is no such call, passOn refuses the request.
func (c *pipeConn) passOn(m *jsonrpc.Message, p *pending) {
	if p.flow != nil {
		for _, f := range c.peers(m, p.flow) {
			if next := c.waiting(f.n); next != nil && c.queue(next, m) == "" {
				return
			}
		}
	}
	c.server.refuse(m, callEnded)
}

// peers implements clientTransport.
func (c *pipeConn) peers(m *jsonrpc.Message, f *flow) []*flow {
	if namesCall(m, f.n) {
		return nil
	}
	var all []*flow
	c.update(func(st *pipeState) {
		all = peersAmong(func(yield func(*flow) bool) {
			for _, p := range st.pending {
				if p.flow != nil && !yield(p.flow) {
					return
				}
			}
		}, f)
	})
	return all
}

func (c *pipeConn) call(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error) {
	f.wait.wake, f.wait.call, f.wait.flow = make(chan struct{}, 1), f.call, f
	m, err := c.run(ctx, out.Body, f.n, &f.wait, f.take)
	if m != nil {
		f.received(m.Raw, trails.Head{})
	}
	return m, err
}

func (c *pipeConn) run(ctx context.Context, body []byte, n int64, p *pending, on func(*jsonrpc.Message)) (*jsonrpc.Message, error) {
	quit, err := c.register(n, p)
	if err != nil {
		return nil, err
	}
	if c.server.opts.Posts {
		defer c.sendBeside(ctx, bytes.Clone(body), n, p)()
	} else if err := c.pipe.Send(ctx, quit, body); err != nil {
		notSent := errors.Is(err, transport.ErrNotSent)
		c.abandon(n, p, !notSent)
		if notSent && ctx.Err() == nil && !errors.Is(err, transport.ErrStalled) {
			err = fmt.Errorf("%w: %w", ErrWriteFailed, err)
		}
		return nil, err
	} else {
		p.sent.Store(true)
	}
	for {
		select {
		case <-p.wake:
		case <-ctx.Done():
		}
		var events []*jsonrpc.Message
		var answer *jsonrpc.Message
		var err error
		over := false
		c.update(func(*pipeState) {
			answer, err = p.answer, p.err
			if over = answer == nil && err == nil && ctx.Err() != nil; !over {
				events, p.events, p.bytes = p.events, nil, 0
			}
		})
		if over {
			c.abandon(n, p, true)
			return nil, context.Cause(ctx)
		}
		for _, m := range events {
			on(m)
		}
		if answer != nil || err != nil {
			return answer, err
		}
	}
}

// sendBeside sends a request on a separate goroutine, for a transport on which the answer may
// arrive before Send returns. For example, an HTTP+SSE server may answer a POST only after it has
// processed the message. The caller must call the function over at the end of the call. If ctx has
// not ended by then, a Send that still runs has 10 s to finish.
func (c *pipeConn) sendBeside(ctx context.Context, body []byte, n int64, p *pending) (over func()) {
	sending, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	fail := func(err error) {
		c.update(func(st *pipeState) {
			if st.pending[n] == p && !p.left {
				st.fail(n, err)
			}
		})
	}
	if !c.sending.Go(func() {
		defer cancel(nil)
		if err := c.pipe.Send(sending, nil, body); err != nil {
			fail(err)
			return
		}
		p.sent.Store(true)
	}) {
		fail(fmt.Errorf("%w: %w", transport.ErrNotSent, ErrLinkOver))
	}
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return func() {
		if stop() { // the context of the call has not ended, so Send may still run
			time.AfterFunc(transport.AnswerTimeout, func() { cancel(errClosed) })
		}
	}
}

// Exchange sends a request of the handshake; see handshake.Link.
func (c *pipeConn) Exchange(ctx context.Context, method string, params []byte, _ *transport.Rules) (*jsonrpc.Message, error) {
	n := c.server.newID()
	p := &pending{wake: make(chan struct{}, 1), keep: true}
	return c.run(ctx, jsonrpc.AppendRequest(nil, jsonrpc.IntID(n), method, params), n, p, func(m *jsonrpc.Message) {
		if m.Kind == jsonrpc.Request {
			c.server.serveRequest(m, nil, nil)
		}
	})
}

// Post sends a notification of the handshake; see handshake.Link.
func (c *pipeConn) Post(ctx context.Context, method string, params []byte, _ *transport.Rules) error {
	return c.pipe.Send(ctx, nil, jsonrpc.AppendNotification(nil, method, params))
}

// OnLate sets the function that gets late answers to requests of the handshake. See
// handshake.LateAnswers.
func (c *pipeConn) OnLate(f func(*jsonrpc.Message)) {
	c.update(func(st *pipeState) { st.onLate = f })
}

// These constants limit the results in pipeState.unasked. Only the first result may be longer than
// maxUnaskedBytes, because a server that pushes its manifest sends the manifest first.
const (
	maxUnasked      = 4
	maxUnaskedBytes = 1 << 20
)

// OnUnasked sets the function that gets results that match no request. If f is nil, the handshake has
// ended, and such results are dropped. See handshake.UnaskedAnswers.
func (c *pipeConn) OnUnasked(f func(*jsonrpc.Message)) {
	c.update(func(st *pipeState) {
		st.onPush, st.settled = f, f == nil
		for _, m := range st.unasked {
			if f != nil {
				st.later(func() { f(m) })
			}
		}
		st.unasked = nil
	})
}

// push handles a result that matches no request. It passes the result to onPush, or keeps it until
// onPush is set.
func (c *pipeConn) push(m *jsonrpc.Message) {
	c.update(func(st *pipeState) {
		if f := st.onPush; f != nil {
			st.later(func() { f(m) })
			return
		}
		if st.settled || len(st.unasked) >= maxUnasked {
			return
		}
		size := len(m.Raw)
		for _, have := range st.unasked {
			size += len(have.Raw)
		}
		if len(st.unasked) == 0 || size <= maxUnaskedBytes {
			st.unasked = append(st.unasked, m)
		}
	})
}

func (c *pipeConn) post(ctx context.Context, out *transport.Outgoing) error {
	if c.server.opts.Posts {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, transport.AnswerTimeout)
		defer stop()
	}
	return c.pipe.Send(ctx, nil, out.Body)
}

func (c *pipeConn) notify(body []byte) error { return c.pipe.Queue(body) }

func (c *pipeConn) cancels() bool { return true }

func (c *pipeConn) close() error {
	err := c.pipe.Close()
	c.reading.Wait()
	c.sending.Wait()
	return err
}

func (c *pipeConn) stalled() (d time.Duration, midway bool) { return c.pipe.Stalled() }

// sent returns the number of calls that were sent completely and wait for their answers.
func (c *pipeConn) sent() (n int) {
	c.update(func(st *pipeState) {
		for _, p := range st.pending {
			if p.sent.Load() && !p.left && p.call != nil && p.call.Msg.Method != mcp.MethodListen {
				n++
			}
		}
	})
	return n
}

// withdraw fails all calls of which no byte was sent. New calls also fail until the server reads
// again.
func (c *pipeConn) withdraw() {
	d, _ := c.pipe.Stalled()
	c.update(func(st *pipeState) {
		if st.stuck == 0 && d > 0 {
			st.stuck = d
			close(st.quit)
		}
	})
}

func (c *pipeConn) silence() (time.Duration, bool) {
	return time.Since(c.started) - time.Duration(c.heard.Load()), true
}

// read reads all messages from the pipe. It never waits for a client.
func (c *pipeConn) read() {
	for {
		m, err := c.pipe.Read()
		c.heard.Store(int64(time.Since(c.started)))
		if err == nil {
			c.dispatch(m)
			continue
		}
		var refused *jsonrpc.Error
		if !errors.As(err, &refused) {
			c.finish(err)
			return
		}
		c.refused(err, refused)
	}
}

// finish ends the connection and fails all pending requests.
func (c *pipeConn) finish(err error) {
	c.update(func(st *pipeState) {
		st.ended = err
		for n := range st.pending {
			st.fail(n, fmt.Errorf("%w: %w", ErrLinkOver, err))
		}
	})
	c.server.sessions.leave(c)
	c.server.end(err)
}

// signal wakes the goroutine that waits for p. It never blocks.
func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (c *pipeConn) dispatch(m *jsonrpc.Message) {
	switch m.Kind {
	case jsonrpc.Result, jsonrpc.Failure:
		c.takeAnswer(m)
	case jsonrpc.Request:
		c.takeRequest(m)
	case jsonrpc.Notification:
		switch m.Method {
		case mcp.NoteProgress:
			c.add(c.byNumber(m.Raw, m.Param("progressToken")), m, c.server.strayProgress)
		case mcp.NoteCancelled:
			if n, ok := number(m.Raw, m.Param("requestId")); ok && c.endListen(n) {
				return // 2026-07-28 §Cancellation: a server ends a listen with this notification
			}
			c.server.cancelRequest(m)
		default:
			sub := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeySubscriptionID)
			if !sub.IsZero() {
				c.add(c.byNumber(m.Raw, sub), m, func(m *jsonrpc.Message) { c.server.noteOdd(m.Method, "") })
				return
			}
			if m.Method == mcp.NoteMessage {
				c.log(m)
				return
			}
			c.noteOnCall(m)
			c.takeUnattributed(m)
		}
	}
}

// takeRequest handles a server request.
func (c *pipeConn) takeRequest(m *jsonrpc.Message) {
	switch n, where := c.server.ownerOf(m, c, func(n int64) bool { return c.waiting(n) != nil }); where {
	case here:
		if p := c.waiting(n); p != nil {
			c.add(p, m, c.takeUnattributed)
			return
		}
		c.server.refuseOrDrop(m, ended)
	case nowhere:
		c.takeUnattributed(m)
	default:
		c.server.refuseOrDrop(m, where)
	}
}

// takeUnattributed handles a message that belongs to no call.
func (c *pipeConn) takeUnattributed(m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Request {
		c.server.serveRequest(m, nil, nil)
		return
	}
	if c.server.opts.Notice != nil {
		c.server.opts.Notice(m, 0)
	}
}

// add queues m for the call p. If p is nil, add passes m to the function other. If a server request
// cannot be queued, add passes it to another call or refuses it, because the server waits for an
// answer.
func (c *pipeConn) add(p *pending, m *jsonrpc.Message, other func(*jsonrpc.Message)) {
	if p == nil {
		other(m)
		return
	}
	switch why := c.queue(p, m); {
	case why == "" || m.Kind != jsonrpc.Request:
	case why == callEnded:
		c.passOn(m, p)
	default:
		c.server.refuse(m, why)
	}
}

// queue appends m to the events of p. On success it returns "". Otherwise it returns the reason for
// the failure. For example, p may be an abandoned call.
func (c *pipeConn) queue(p *pending, m *jsonrpc.Message) (why string) {
	c.update(func(*pipeState) { why = p.queue(m) })
	return why
}

func (p *pending) queue(m *jsonrpc.Message) (why string) {
	if p.left {
		return callEnded
	}
	if m.Method == mcp.NoteProgress && len(p.events) > 0 && len(p.events) >= maxEvents/2 {
		// In a flood of progress notifications, only the newest notification matters.
		if last := len(p.events) - 1; p.events[last].Method == mcp.NoteProgress {
			p.bytes += len(m.Raw) - len(p.events[last].Raw)
			p.events[last] = m
			p.flow.trail().Miss()
			return ""
		}
	}
	full := len(p.events) >= maxEvents || p.bytes+len(m.Raw) > maxEventBytes && len(p.events) > 0
	if m.Kind == jsonrpc.Request {
		// The server waits for the answers to its requests. So the queue has extra space that only
		// server requests can use.
		full = len(p.events) >= maxEvents+maxQuestions || p.bytes+len(m.Raw) > maxEventBytes+maxQuestionBytes && len(p.events) > 0
	}
	if full {
		return "the queue of messages for this client is full"
	}
	p.events = append(p.events, m)
	p.bytes += len(m.Raw)
	p.signal()
	return ""
}

func (c *pipeConn) takeAnswer(m *jsonrpc.Message) {
	n, ok := number([]byte(m.ID), jsonrpc.Span{End: len(m.ID)})
	known := false
	c.update(func(st *pipeState) { known = st.answered(n, ok, m) })
	if !known {
		// Some servers answer notifications. Such an answer has no id, or the id null or 0. All
		// other answers that match no request are late or unsolicited. For example, a server may
		// push its manifest during the handshake.
		c.server.logOdd("answer", string(m.ID))
		if !c.server.unasked(n) && m.Kind == jsonrpc.Result {
			c.push(m)
		}
	}
}

// answered gives an answer to the request with the number n. It returns false if there is no such
// request, or if the answer has no number.
func (st *pipeState) answered(n int64, numbered bool, m *jsonrpc.Message) bool {
	p := st.pending[n]
	if !numbered || p == nil {
		st.forgetAbandoned(n)
		return false
	}
	delete(st.pending, n)
	p.answer = m
	p.signal()
	if late := st.onLate; p.left && late != nil {
		st.later(func() { late(m) })
	}
	return true
}

// number parses an id or token that Dragoman has chosen. It accepts the number as a string and with
// the fraction .0, because some servers change the number in these ways.
func number(raw []byte, at jsonrpc.Span) (int64, bool) {
	if at.IsZero() {
		return 0, false
	}
	b := bytes.Trim(at.Of(raw), `"`)
	b = bytes.TrimSuffix(b, []byte(".0"))
	return jsonrpc.Int(b, jsonrpc.Span{End: len(b)})
}

func (c *pipeConn) byNumber(raw []byte, at jsonrpc.Span) *pending {
	n, ok := number(raw, at)
	if !ok {
		return nil
	}
	return c.waiting(n)
}

// waiting returns the request with the number n that has no answer yet, or nil if there is
// none.
func (c *pipeConn) waiting(n int64) (p *pending) {
	c.update(func(st *pipeState) { p = st.pending[n] })
	return p
}

// addCallsTo implements member.
func (c *pipeConn) addCallsTo(t *attribution) (abandoned bool) {
	c.update(func(st *pipeState) {
		st.addCalls(t)
		abandoned = len(st.recentlyAbandoned()) > 0
	})
	return abandoned
}

func (st *pipeState) addCalls(t *attribution) {
	for n, p := range st.pending {
		if p.call != nil {
			t.add(n, p.call)
		}
	}
}

// endListen ends the listen with the number n, because the server has ended it. It returns false if
// there is no such listen.
func (c *pipeConn) endListen(n int64) (ended bool) {
	c.update(func(st *pipeState) {
		if p := st.pending[n]; p != nil && p.call != nil && p.call.Msg.Method == mcp.MethodListen {
			ended = st.fail(n, errListenEnded)
		}
	})
	return ended
}

var errListenEnded = errors.New("the server ended the subscription")
