package conn

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// serveRequest answers a server request on a separate goroutine. Close waits for this goroutine. f is
// the call that the request belongs to, or nil if the call is unknown. peers are other calls of the
// same client that the request may belong to. If nobody has answered the request when the last of
// these calls ends, the request ends too.
func (c *Conn) serveRequest(m *jsonrpc.Message, f *flow, peers []*flow) {
	if m.Method == mcp.MethodPing {
		c.respond(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
		return
	}
	if c.mustNotAsk(m) {
		return
	}
	var owners []*flow
	if f != nil {
		owners = slices.DeleteFunc(append([]*flow{f}, peers...), func(x *flow) bool { return x.ctx.Err() != nil })
		if len(owners) == 0 {
			c.respondTo(f, refusal(m, callEnded))
			return
		}
		f = owners[0]
	}
	if f != nil {
		f.received(m.Raw, trails.Head{})
	}
	if m.Method == mcp.MethodElicit {
		if why := c.opts.Own.URLProblem(m.Raw, m.Params); why != "" {
			c.opts.Log.Warn("elicitation refused", "server", c.opts.Name, "cause", c.opts.Clean(why))
			c.publishLoss(f.about(), m.Method, why)
			c.respondTo(f, jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{
				Code: jsonrpc.CodeInvalidParams, Message: "the elicitation was not shown to the user: " + why,
			}))
			return
		}
	}
	done, why := c.reserve(int64(len(m.Raw)))
	if why != "" {
		c.respondTo(f, refusal(m, why))
		return
	}
	ctx, cancel := c.untilEnded(owners)
	started := false
	c.update(func(st *connState) {
		if st.closing {
			return
		}
		started = c.asking.Go(func() {
			defer func() {
				c.update(func(st *connState) { delete(st.asked, m.ID) })
				cancel(nil)
				done()
			}()
			c.answerRequest(ctx, m, owners)
		})
		if started {
			st.asked[m.ID] = cancel
		}
	})
	if !started {
		cancel(nil)
		done()
	}
}

// reserve takes the room that a server request of the given size needs until it's answered. If there is
// no room, it returns the reason. Otherwise the caller must call done.
func (c *Conn) reserve(size int64) (done func(), why string) {
	select {
	case c.slots <- struct{}{}:
	default:
		return nil, "too many requests of this server are waiting for an answer"
	}
	done = func() {
		c.questionBytes.Add(-size)
		<-c.slots
	}
	if all := c.questionBytes.Add(size); all > maxQuestionBytes && all > size {
		done()
		return nil, "the requests of this server that wait for an answer use too much memory"
	}
	return done, ""
}

// answerRequest asks the client of one of the owners, and sends the answer to the server.
func (c *Conn) answerRequest(ctx context.Context, m *jsonrpc.Message, owners []*flow) {
	f, answer, err := c.ask(ctx, m, owners)
	if over := ctx.Err() != nil || errors.Is(err, mcp.ErrAnswered); err != nil && over && !errors.Is(err, errServerCancelled) && c.outlives(m, owners) {
		later, stop := context.WithTimeout(c.life, askAgain)
		f, answer, err = c.ask(later, m, nil)
		stop()
	}
	if c.opts.Answered != nil {
		defer c.opts.Answered(m.Method)
	}
	switch {
	case errors.Is(err, errServerCancelled):
	case err != nil:
		level := slog.LevelWarn
		if errors.Is(err, mcp.NobodyToAsk) || errors.Is(err, mcp.SharedLists) {
			level = slog.LevelInfo // usual with clients of 2026-07-28, and nobody loses anything by the latter
		}
		c.opts.Log.Log(ctx, level, "server request refused", "server", c.opts.Name, "method", c.shown(m.Method), "cause", c.opts.Clean(err.Error()))
		c.deliverTo(f, refusal(m, err.Error()))
	default:
		var lost mcp.Losses
		if opened := c.opening.Load(); opened != nil {
			answer = dialect.ConvertAnswer(f.trail(), opened.Revision, m.Method, answer, &lost)
			for _, l := range lost {
				c.publishLoss(f.about(), l.What, l.Why)
			}
		}
		c.deliverTo(f, answer.Raw)
	}
}

// askAgain limits a question for roots that goes on after its call.
const askAgain = 30 * time.Second

// outlives reports whether a server request that its calls did not answer before they ended is asked
// outside calls. A server often asks for a client's roots right after the handshake, while the first call
// already runs. The roots are the client's, not the call's, and the server needs them for the next call.
func (c *Conn) outlives(m *jsonrpc.Message, owners []*flow) bool {
	if m.Method != mcp.MethodListRoots || c.life.Err() != nil {
		return false
	}
	for _, f := range owners {
		if !f.call.Client.Revision.Can(mcp.AskedMidCall) || f.call.Client.Conversation == 0 || namesCall(m, f.n) {
			return false
		}
	}
	return len(owners) > 0
}

// callEnded is the reason for refusing a server request if its call ended before the request was
// delivered.
const callEnded = "the call that it belongs to has ended"

// refuse refuses a server request that no client gets. A ping gets its normal answer, because a ping
// is about the connection and not about a call.
func (c *Conn) refuse(m *jsonrpc.Message, why string) {
	switch {
	case m.Method == mcp.MethodPing:
		c.respond(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
	case !c.mustNotAsk(m):
		c.respond(refusal(m, why))
	}
}

// mustNotAsk reports whether the revision of the server does not allow server requests. If so,
// mustNotAsk logs the request m. 2026-07-28 §stdio and §Streamable HTTP: a modern server must not send
// requests, and Dragoman must not answer them.
func (c *Conn) mustNotAsk(m *jsonrpc.Message) bool {
	opened := c.opening.Load()
	if opened == nil || opened.Revision.Can(mcp.AskedMidCall) {
		return false
	}
	c.opts.Log.Warn("discarded a server request that its revision does not allow", "server", c.opts.Name, "method", c.shown(m.Method))
	return true
}

var errServerCancelled = errors.New("the server cancelled its request")

// untilEnded returns a context that ends when the last of the calls in owners ends. The context has
// the same cause as that call. If there are no owners, the context ends with the connection.
func (c *Conn) untilEnded(owners []*flow) (context.Context, context.CancelCauseFunc) {
	switch len(owners) {
	case 0:
		return context.WithCancelCause(c.life)
	case 1:
		return context.WithCancelCause(owners[0].ctx)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(owners[0].ctx))
	var left atomic.Int32
	left.Store(int32(len(owners)))
	var stops []func() bool
	for _, f := range owners {
		stops = append(stops, context.AfterFunc(f.ctx, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(f.ctx))
			}
		}))
	}
	return ctx, func(cause error) {
		for _, stop := range stops {
			stop()
		}
		cancel(cause)
	}
}

// ask sends a server request to the client and waits for the client's answer. It uses the first
// call in owners that has no answer yet, and returns that call as f. f is nil if the request does
// not belong to a call.
func (c *Conn) ask(ctx context.Context, m *jsonrpc.Message, owners []*flow) (f *flow, answer *jsonrpc.Message, err error) {
	began := time.Now()
	if len(owners) > 0 {
		for _, x := range owners {
			x.open.Add(1) // the server may wait for the user in any of these calls, so none of them may time out
		}
		for i, x := range owners {
			if f = x; i > 0 {
				f.received(m.Raw, trails.Head{}) // the previous call has its answer, so the request belongs to x
			}
			if answer, err = f.caller.Ask(f.answerBy(ctx), withoutToken(f.trail(), m)); !errors.Is(err, mcp.ErrAnswered) {
				break
			}
		}
		for _, x := range owners {
			if x.ctx.Err() == nil {
				x.resetIdle() // before open becomes 0, because otherwise the idle timeout could expire at once
			}
			x.open.Add(-1)
		}
	} else if c.opts.Ask != nil {
		answer, err = c.opts.Ask(mcp.WithProgress(ctx, c.progress), m)
	} else {
		err = mcp.NobodyToAsk
	}
	if about := f.about(); c.opts.Events.Wants(event.ServerRequest) || about != nil && about.Span != nil {
		e := event.Asked(c.opts.Name, about, m, answer, began, err)
		about.TraceQuestion(m.Method, e.Outcome, e.Took)
		c.opts.Events.Publish(e)
	}
	if err != nil && errors.Is(context.Cause(ctx), errServerCancelled) {
		return f, nil, errServerCancelled
	}
	return f, answer, err
}

// progress passes on a client's progress with a server request. If the server reads too slowly, the
// progress is dropped.
func (c *Conn) progress(raw []byte) {
	why := "the server does not read its input"
	if opened := c.opening.Load(); opened != nil && opened.Dialect.Suppresses(mcp.NoteProgress) {
		why = "the server does not support this notification"
	} else if c.link.notify(raw) == nil {
		return
	}
	c.publishLoss(nil, mcp.NoteProgress, why)
}

// peersAmong returns the calls in all, except f, that a server request may belong to, oldest first.
// The request was attributed to f and does not name its call.
func peersAmong(all iter.Seq[*flow], f *flow) (peers []*flow) {
	for x := range all {
		if x != f && mayOwn(x.call, f.call) {
			peers = append(peers, x)
		}
	}
	slices.SortFunc(peers, func(a, b *flow) int { return cmp.Compare(a.n, b.n) })
	return peers
}

// withoutToken removes the progress token from a server request. The token is valid only between
// Dragoman and the server, so the client cannot use the token.
func withoutToken(t *trails.Trail, m *jsonrpc.Message) *jsonrpc.Message {
	meta := m.Param(mcp.KeyMeta)
	if jsonrpc.Find(m.Raw, meta, mcp.KeyProgressToken).IsZero() {
		return m
	}
	from, gone := meta, mcp.KeyProgressToken
	if single(jsonrpc.Members(m.Raw, meta)) {
		from, gone = m.Params, mcp.KeyMeta // meta has no other members
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhyProgressToken, m.Raw, from, func(key []byte) bool { return string(key) == gone })
	return mcp.RewriteOrKeep(t, m, &e)
}

func single(members iter.Seq[jsonrpc.Member]) bool {
	n := 0
	for range members {
		n++
	}
	return n == 1
}

// cancelRequest ends a server request that the server has cancelled (§Cancellation of the
// legacy revisions: both sides may cancel).
func (c *Conn) cancelRequest(m *jsonrpc.Message) {
	id := jsonrpc.ID(m.Param("requestId").Of(m.Raw))
	var cancel func(error)
	c.update(func(st *connState) { cancel = st.asked[id] })
	if cancel != nil {
		cancel(errServerCancelled)
	}
}

// These constants limit the backlog. The backlog contains the messages that do not fit into the queue
// of the transport, because the server does not read.
const (
	maxBacklog      = 512
	maxBacklogBytes = 1 << 20
)

// respond sends an answer to a server request, or a cancellation. It does not wait for the server,
// because respond may run on the goroutine that reads the connection or on the goroutine of a call.
// On a pipe, messages keep their order. If the queue and the backlog are full, respond drops the
// message.
func (c *Conn) respond(body []byte) {
	behind := false // other messages wait, so this one must wait too
	c.update(func(st *connState) { behind = len(st.backlog) > 0 })
	err := error(transport.ErrFull)
	if !behind {
		err = c.link.notify(body)
	}
	if errors.Is(err, transport.ErrFull) {
		c.update(func(st *connState) {
			first, ok := st.keep(body)
			if ok {
				err = nil
			}
			if first {
				c.asking.Go(func() { c.deliverBacklog(body) })
			}
		})
	}
	if err != nil {
		c.undelivered(err)
	}
}

// deliverBacklog delivers the messages in the backlog, which begins with body. A message stays in the
// backlog until it is delivered.
func (c *Conn) deliverBacklog(body []byte) {
	for body != nil {
		c.deliver(body)
		c.update(func(st *connState) { body = st.delivered() })
	}
}

// respondTo does the same as respond, for the answer to a server request that belongs to the call f.
// If f is nil, the call is unknown.
func (c *Conn) respondTo(f *flow, body []byte) {
	f.trail().Sent(trails.ServerWire, body)
	c.respond(body)
}

// deliverTo does the same as deliver, for the answer to a server request that belongs to the call f.
// If f is nil, the call is unknown.
func (c *Conn) deliverTo(f *flow, body []byte) {
	t := f.trail()
	out := transport.Outgoing{Body: body, Rules: c.rules(), Trail: t, Passage: t.Sent(trails.ServerWire, body)}
	if err := c.link.post(c.life, &out); err != nil {
		t.Failed(out.Passage, excerpt.Cut(err.Error(), maxFailed))
		c.undelivered(err)
	}
}

// deliver sends an answer to a server request, or a cancellation. It may block, so it must run on a
// separate goroutine. On a pipe, deliver waits until the server accepts the message or the connection
// ends, because a busy server may read the message later. Over HTTP, deliver gives up after 10 s.
func (c *Conn) deliver(body []byte) {
	if err := c.link.post(c.life, &transport.Outgoing{Body: body, Rules: c.rules()}); err != nil {
		c.undelivered(err)
	}
}

func (c *Conn) undelivered(err error) {
	c.opts.Log.Debug("could not send an answer or cancellation to the server", "server", c.opts.Name, "cause", c.opts.Clean(err.Error()))
}

func refusal(m *jsonrpc.Message, why string) []byte {
	return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: mcp.RefusalText(excerpt.Name(m.Method), why),
	})
}
